"""Shards on a Dask cluster.

A shard is the result of a task, so the scheduler builds it again when its worker dies; neither
actors nor scattered data can be. Parameters travel inside the tasks of a pass. Whoever waits for
results also watches the cluster, so that a dead one ends in an `EngineError`, never in a hang.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gapmix.engines.contract import EngineError, in_windows
from gapmix.engines.threads import count_threads
from gapmix.sources import ArrayPiece, DaskPiece, need, to_rows

WINDOW = 32  # results fetched at a time
LOOK_EVERY = 0.5  # seconds between looks at the cluster
WORKERLESS = 30.0  # seconds without any worker after which waiting ends
CONNECT = 20  # seconds to reach a scheduler
FROZEN = "45s"  # of silence after which our own cluster gives a worker up


class DaskEngine:
    """Shards as task results on a cluster, stepped over by tasks."""

    SHARES_MEMORY = False

    def __init__(self, client: Any, *, owned: Sequence[Any] = ()) -> None:
        self._client = client
        self._owned = owned  # closed with the engine
        self._distributed = need("distributed", "dask")
        self._name = f"gapmix-{secrets.token_hex(6)}"
        self._n_calls = 0
        self._shards: list[Any] = []
        self._homes: list[str | None] = []  # where each shard should be

    def map(self, function: Callable[[Any], Any], specs: Sequence[Any]) -> Iterator[Any]:
        """Yield function(spec) for every specification, in order, a window at a time."""
        windows = iter(in_windows(specs, WINDOW))
        ahead = self._submit_specs(function, next(windows, ()), "map")
        while ahead:
            futures = ahead
            ahead = self._submit_specs(function, next(windows, ()), "map")
            yield from self._gather(futures)

    def load(self, build: Callable[[Any], Any], specs: Sequence[Any]) -> None:
        """Start to build the shards, dealt to the workers in turn.

        The homes are wishes, not demands: a shard whose worker died is built on another. Without
        them, the scheduler would now and then move a shard to an idle worker, which costs more
        than the pass.
        """
        workers = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        self._homes = [workers[i % len(workers)] if workers else None for i in range(len(specs))]
        self._shards = self._submit_specs(build, specs, "shard", homes=self._homes)

    def step(self, function: Callable[[Any, Any], Any], message: Any) -> Iterator[Any]:
        """Yield function(shard, message) for every shard, in order."""
        keys = self._keys("step", len(self._shards))
        futures = [
            self._submit(function, shard, message, key=key, home=home)
            for shard, key, home in zip(self._shards, keys, self._homes, strict=True)
        ]
        for window in in_windows(futures, WINDOW):
            yield from self._gather(window)

    def close(self) -> None:
        """Release the shards, and close what was opened for them."""
        self._shards = []
        for each in self._owned:
            each.close()

    def _keys(self, what: str, n: int) -> list[str]:
        self._n_calls += 1
        return [f"{self._name}-{what}-{self._n_calls}-{i}" for i in range(n)]

    def _submit_specs(
        self,
        function: Callable[[Any], Any],
        specs: Sequence[Any],
        what: str,
        homes: Sequence[str | None] = (),
    ) -> list[Any]:
        """Submit one task for each specification; a partition of a collection is its input."""
        futures = []
        keys = self._keys(what, len(specs))
        for spec, key, home in zip(specs, keys, homes or (None,) * len(specs), strict=True):
            piece = spec.piece
            if isinstance(piece, DaskPiece):
                part = self._client.compute(piece.part)
                rest = spec._replace(piece=None)
                futures.append(self._submit(_with_part, function, rest, part, key=key, home=home))
            else:
                futures.append(self._submit(function, spec, key=key, home=home))
        return futures

    def _submit(self, function: Callable[..., Any], *items: Any, key: str, home: str | None) -> Any:
        wish = {} if home is None else {"workers": [home], "allow_other_workers": True}
        with warnings.catch_warnings():
            # Rows in memory and parameters travel inside tasks so that these can be repeated.
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self._client.submit(function, *items, key=key, pure=False, **wish)

    def _gather(self, futures: Sequence[Any]) -> list[Any]:
        """Return the results of tasks, or raise when the cluster is lost."""
        box: list[Any] = []

        def fetch() -> None:
            try:
                box.append((self._client.gather(list(futures)), None))
            except BaseException as error:  # handed over to the caller's thread
                box.append((None, error))

        # A thread of its own: the call has no limit of time, and may never return.
        thread = threading.Thread(target=fetch, name="gapmix-gather", daemon=True)
        thread.start()
        seen = time.monotonic()
        while thread.is_alive():
            thread.join(LOOK_EVERY)
            if thread.is_alive():
                seen = self._look(seen)
        results, error = box[0]
        if error is None:
            return results
        distributed = self._distributed
        lost = (
            distributed.KilledWorker,
            distributed.CancelledError,
            distributed.comm.CommClosedError,
            TimeoutError,
        )
        if isinstance(error, lost):
            raise EngineError(
                f"The cluster lost a part of the work for good ({type(error).__name__}: {error}). "
                "Workers may have run out of memory: use more or smaller partitions, or more "
                "workers. With checkpoint=PATH the fit goes on where it was."
            ) from error
        raise error

    def _look(self, seen: float) -> float:
        """Return when workers were last seen; raise if that is too long ago."""
        now = time.monotonic()
        status = self._client.status
        if status == "running" and self._count_workers():
            return now
        if status in ("closed", "closing") or now - seen > WORKERLESS:
            raise EngineError(
                f"The cluster is gone: the connection to the scheduler is {status!r}, and no "
                f"worker was seen for {now - seen:.0f} s. Start workers and fit again; with "
                "checkpoint=PATH the fit goes on where it was."
            )
        return seen

    def _count_workers(self) -> int:
        try:
            info = self._client.sync(
                self._client.scheduler.identity, n_workers=1, callback_timeout=5
            )
        except (OSError, TimeoutError, AttributeError):
            return 0
        return int(info.get("n_workers", len(info["workers"])))


def open_dask(engine: Any, n_jobs: int | None) -> DaskEngine:
    """Return an engine on a client, on the scheduler at an address, or on a cluster of its own."""
    distributed = need("distributed", "dask")
    if isinstance(engine, distributed.Client):
        return DaskEngine(engine)
    if engine != "dask":
        try:
            client = distributed.Client(engine, timeout=CONNECT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise EngineError(
                f"engine={engine!r}: no Dask scheduler answered within {CONNECT} s ({error}). "
                "Check the address, which looks like 'tcp://host:8786'."
            ) from error
        return DaskEngine(client, owned=(client,))
    cluster = open_local_cluster(count_threads(n_jobs))
    client = distributed.Client(cluster, set_as_default=False)
    return DaskEngine(client, owned=(client, cluster))


def open_local_cluster(n_workers: int) -> Any:
    """Return a cluster of worker processes on this machine, for this machine only.

    It listens on the loopback interface, at free ports, and has no dashboard.
    """
    dask, distributed = need("dask", "dask"), need("distributed", "dask")
    with dask.config.set({"distributed.scheduler.worker-ttl": FROZEN}):
        return distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None would mean the usual port
            scheduler_kwargs={"dashboard": False},
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        )


def _with_part(function: Callable[[Any], Any], spec: Any, part: Any) -> Any:
    """Return function(spec) on the worker that holds the partition."""
    rows = to_rows(part)
    return function(spec._replace(piece=ArrayPiece(rows, len(rows))))
