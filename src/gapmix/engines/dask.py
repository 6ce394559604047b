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
from typing import Any, NamedTuple

from gapmix.engines.contract import EngineError, in_windows
from gapmix.engines.threads import count_bytes, count_threads
from gapmix.sources import ArrayPiece, DaskPiece, need, to_rows

WINDOW = 32  # results fetched at a time
ROUND_BYTES = 2**28  # of parameters, times shards, in one round of a pass
LOOK_EVERY = 0.5  # seconds between looks at the cluster
WORKERLESS = 30.0  # seconds without any worker after which waiting ends
ANSWER = 5  # seconds for the scheduler to answer
CONNECT = 20  # seconds to reach a scheduler
FROZEN = "45s"  # of silence after which our own cluster gives a worker up


class Slot(NamedTuple):
    """One thread of one worker."""

    home: str | None  # address; None leaves the choice to the scheduler
    thread: int


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
        self._slots: list[Slot] = []
        self._places: list[Slot] = []  # where each shard should be

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
        self._slots = self._find_slots()
        dealt = [self._slots[i % len(self._slots)] for i in range(len(specs))]
        self._shards = self._submit_specs(build, specs, "shard", homes=[s.home for s in dealt])
        self._places = dealt

    def step(self, function: Callable[[Any, Any], Any], message: Any) -> Iterator[Any]:
        """Yield function(shard, message) for every shard, in order.

        One task for each thread of the workers does all the shards that it has there: a task
        costs some milliseconds, so there are as few as will keep everyone at work. Where results
        are large, shards are taken in several rounds, so that not all are held at once.
        """
        self._deal_again_if_changed()
        per_round = max(len(self._slots), ROUND_BYTES // max(1, count_bytes(tuple(message))))
        for numbers in in_windows(range(len(self._shards)), per_round):
            yield from self._round(function, message, numbers)

    def _round(
        self, function: Callable[[Any, Any], Any], message: Any, numbers: Sequence[int]
    ) -> Iterator[Any]:
        groups: dict[Slot, list[int]] = {}
        for number in numbers:
            groups.setdefault(self._places[number], []).append(number)
        keys = self._keys("step", len(groups))
        futures = [
            self._submit(
                _visit,
                function,
                message,
                [self._shards[number] for number in group],
                key=key,
                home=slot.home,
            )
            for (slot, group), key in zip(groups.items(), keys, strict=True)
        ]
        found = dict(zip(groups, map(iter, self._gather(futures)), strict=True))
        return (next(found[self._places[number]]) for number in numbers)

    def _find_slots(self) -> list[Slot]:
        """Return one slot for each thread of each worker, the first threads of all first."""
        info = self._ask("identity", n_workers=-1)
        if info is None:  # whoever waits for results will tell
            return self._slots or [Slot(None, 0)]
        workers = info["workers"]
        slots = [
            Slot(address, thread)
            for address, worker in workers.items()
            for thread in range(int(worker.get("nthreads", 1)))
        ]
        return sorted(slots, key=lambda slot: (slot.thread, slot.home)) or [Slot(None, 0)]

    def _deal_again_if_changed(self) -> None:
        """Follow shards to where they are when workers have come or gone."""
        slots = self._find_slots()
        if slots == self._slots:
            return
        self._slots = slots
        held = self._ask("who_has", keys=[shard.key for shard in self._shards]) or {}
        by_home: dict[str | None, list[Slot]] = {}
        for slot in slots:
            by_home.setdefault(slot.home, []).append(slot)
        for number, shard in enumerate(self._shards):
            homes = [home for home in held.get(shard.key, ()) if home in by_home]
            near = by_home[min(homes)] if homes else slots
            self._places[number] = near[number % len(near)]

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
        info = self._ask("identity", n_workers=1)
        return 0 if info is None else int(info.get("n_workers", len(info["workers"])))

    def _ask(self, what: str, **options: Any) -> Any:
        """Return what the scheduler answers, None if it does not within a few seconds."""
        try:
            question = getattr(self._client.scheduler, what)
            return self._client.sync(question, callback_timeout=ANSWER, **options)
        except (OSError, TimeoutError, AttributeError):
            return None


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


def _visit(function: Callable[[Any, Any], Any], message: Any, shards: Sequence[Any]) -> list[Any]:
    """Return function(shard, message) for the shards of one thread."""
    return [function(shard, message) for shard in shards]


def _with_part(function: Callable[[Any], Any], spec: Any, part: Any) -> Any:
    """Return function(spec) on the worker that holds the partition."""
    rows = to_rows(part)
    return function(spec._replace(piece=ArrayPiece(rows, len(rows))))
