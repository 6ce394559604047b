"""Shards on a Dask cluster.

A shard is the result of a task, so it is built again when its worker dies; neither actors nor
scattered data can be. Parameters travel inside the tasks of a pass. Whoever waits for
results also watches the cluster, so that a dead one ends in an `EngineError`, never in a hang.
"""

import logging
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from gapmix.engines.contract import EngineError, in_windows
from gapmix.engines.local import count_bytes
from gapmix.engines.sources import DaskPiece, need
from gapmix.threads import count_threads
from gapmix.wording import list_names

WINDOW = 32  # results fetched at a time
ROUND_BYTES = 2**28  # of parameters, times shards, in one round of a pass
LOOK_EVERY = 0.5  # seconds between looks at the cluster
MAX_LOSSES = 6  # workers lost in one pass after which it is given up
WORKERLESS = 30.0  # seconds without any worker after which waiting ends
ANSWER = 5  # seconds for the scheduler to answer
CONNECT = 20  # seconds to reach a scheduler
KEPT_BYTES = 2**26  # that a worker of our own cluster may keep for its next block
FROZEN = "45s"  # of silence after which our own cluster gives a worker up


class Slot(NamedTuple):
    """One thread of one worker."""

    home: str | None  # address; None leaves the choice to the scheduler
    thread: int


class LostWorkerError(Exception):
    """A worker that was at work is gone."""


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
        self._places: list[Slot] = []  # where each shard is
        self._build: Callable[[Any], Any] = len
        self._specs: Sequence[Any] = ()

    def map(self, function: Callable[[Any], Any], specs: Sequence[Any]) -> Iterator[Any]:
        """Yield function(spec) for every specification, in order, a window at a time."""
        windows = iter(in_windows(specs, WINDOW))
        ahead = self._submit_specs(function, next(windows, ()), "map")
        while ahead:
            futures = ahead
            ahead = self._submit_specs(function, next(windows, ()), "map")
            yield from self._gather(futures)

    def load(self, build: Callable[[Any], Any], specs: Sequence[Any]) -> None:
        """Start to build the shards, dealt to the workers in turn."""
        self._build, self._specs = build, specs
        self._slots = self._find_slots()
        self._places = deal([None] * len(specs), self._slots)
        homes = [slot.home for slot in self._places]
        self._shards = self._submit_specs(build, specs, "shard", homes=homes)

    def step(self, function: Callable[[Any, Any], Any], message: Any) -> Iterator[Any]:
        """Yield function(shard, message) for every shard, in order.

        One task for each thread of the workers does all the shards that it has there: a task
        costs some milliseconds, so there are as few as will keep everyone at work. Where results
        are large, shards are taken in several rounds, so that not all are held at once.
        """
        per_round = max(len(self._slots), ROUND_BYTES // max(1, count_bytes(tuple(message))))
        for numbers in in_windows(range(len(self._shards)), per_round):
            yield from self._round(function, message, numbers)

    def _round(
        self, function: Callable[[Any, Any], Any], message: Any, numbers: Sequence[int]
    ) -> Iterator[Any]:
        """Return function(shard, message) for some shards, again if a worker is lost meanwhile."""
        for _ in range(MAX_LOSSES):
            self._deal_again()
            groups: dict[Slot, list[int]] = {}
            for number in numbers:
                groups.setdefault(self._places[number], []).append(number)
            keys = self._keys("step", len(groups))
            futures = []
            for (slot, group), key in zip(groups.items(), keys, strict=True):
                shards = [self._shards[number] for number in group]
                futures.append(
                    self._submit(_apply, function, message, shards, key=key, home=slot.home)
                )
            try:
                results = self._gather(futures, {slot.home for slot in groups})
            except LostWorkerError:
                self._client.cancel(futures)
                continue
            found = dict(zip(groups, map(iter, results), strict=True))
            return (next(found[self._places[number]]) for number in numbers)
        raise EngineError(
            f"Workers were lost {MAX_LOSSES} times in one pass. They may run out of memory: use "
            "more or smaller partitions, or more workers. With checkpoint=PATH the fit goes on "
            "where it was."
        )

    def _deal_again(self) -> None:
        """Build shards anew where workers have come or gone.

        Dask would build a lost shard by itself, but not if no worker was left for a moment: a
        task that was meant for a worker that is gone then waits for ever, whoever comes.
        """
        slots = self._find_slots()
        if slots == self._slots:
            return
        before, self._slots = self._places, slots
        self._places = deal(before, slots)
        moved = [
            number
            for number, (old, new) in enumerate(zip(before, self._places, strict=True))
            if old.home != new.home
        ]
        homes = [self._places[number].home for number in moved]
        specs = [self._specs[number] for number in moved]
        built = self._submit_specs(self._build, specs, "shard", homes=homes)
        for number, future in zip(moved, built, strict=True):
            self._shards[number] = future

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
                rest = spec._replace(piece=piece._replace(part=None))
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

    def _gather(
        self, futures: Sequence[Any], homes: AbstractSet[str | None] = frozenset()
    ) -> list[Any]:
        """Return the results of tasks, or raise when the cluster or a home of theirs is lost."""
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
                seen = self._look(seen, homes)
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
            self.refuse_bare_workers()
            raise EngineError(
                f"The cluster lost a part of the work for good ({type(error).__name__}: {error}). "
                "Workers may have run out of memory: use more or smaller partitions, or more "
                "workers. With checkpoint=PATH the fit goes on where it was."
            ) from error
        raise error

    def _look(self, seen: float, homes: AbstractSet[str | None]) -> float:
        """Return when workers were last seen; raise if that is too long ago, or homes are gone."""
        now = time.monotonic()
        status = self._client.status
        info = self._ask("identity", n_workers=-1) if status == "running" else None
        if info is not None and info["workers"]:
            if any(home is not None and home not in info["workers"] for home in homes):
                raise LostWorkerError
            return now
        if status in ("closed", "closing") or now - seen > WORKERLESS:
            raise EngineError(
                f"The cluster is gone: the connection to the scheduler is {status!r}, and no "
                f"worker was seen for {now - seen:.0f} s. Start workers and fit again; with "
                "checkpoint=PATH the fit goes on where it was."
            )
        return seen

    def refuse_bare_workers(self) -> None:
        """Raise an error if gapmix is not installed where some workers run."""
        # As text: a function of gapmix itself could not be read there.
        question = "__import__('importlib.util').util.find_spec('gapmix') is not None"
        try:
            found = self._client.sync(self._client._run, eval, question, callback_timeout=ANSWER)
        except (OSError, TimeoutError, AttributeError):
            return  # whoever waits for results will tell
        bare = sorted(address for address, is_there in found.items() if is_there is False)
        if bare:
            raise EngineError(
                f"gapmix is not installed on {len(bare)} of {len(found)} workers of the cluster "
                f"({list_names(bare[:3])}). Install it there, in the version used here."
            )

    def _ask(self, what: str, **options: Any) -> Any:
        """Return what the scheduler answers, None if it does not within a few seconds."""
        try:
            question = getattr(self._client.scheduler, what)
            return self._client.sync(question, callback_timeout=ANSWER, **options)
        except (OSError, TimeoutError, AttributeError):
            return None


def deal(places: Sequence[Slot | None], slots: Sequence[Slot]) -> list[Slot]:
    """Return a slot for each shard: its own if that is there and has no more than its share."""
    share = -(-len(places) // len(slots))
    load = dict.fromkeys(slots, 0)
    dealt: list[Slot | None] = []
    for slot in places:
        stays = slot is not None and load.get(slot, share) < share
        dealt.append(slot if stays else None)
        if stays and slot is not None:
            load[slot] += 1
    result = []
    for slot in dealt:
        if slot is None:
            slot = min(slots, key=load.__getitem__)
            load[slot] += 1
        result.append(slot)
    return result


def open_dask(engine: Any, n_jobs: int | None) -> DaskEngine:
    """Return an engine on a client, on the scheduler at an address, or on a cluster of its own."""
    distributed = need("distributed", "dask")
    if isinstance(engine, distributed.Client):
        return _with_gapmix(DaskEngine(engine))
    if engine != "dask":
        try:
            client = distributed.Client(engine, timeout=CONNECT, set_as_default=False)
        except TypeError as error:  # what Dask says of tls:// without certificates
            raise EngineError(
                f"engine={engine!r}: the connection cannot be made secure ({error}). Give Dask the "
                "certificates (distributed.comm.tls in its configuration), pass a Dask client "
                "that was made with distributed.Security, or use an address like "
                "'tcp://host:8786'."
            ) from error
        except (OSError, TimeoutError, ValueError) as error:
            raise EngineError(
                f"engine={engine!r}: no Dask scheduler answered within {CONNECT} s ({error}). "
                "Check the address, which looks like 'tcp://host:8786'."
            ) from error
        return _with_gapmix(DaskEngine(client, owned=(client,)))
    cluster = open_local_cluster(count_threads(n_jobs))
    client = distributed.Client(cluster, set_as_default=False)
    return DaskEngine(client, owned=(client, cluster))


def _with_gapmix(engine: DaskEngine) -> DaskEngine:
    try:
        engine.refuse_bare_workers()
    except BaseException:
        engine.close()
        raise
    return engine


def open_local_cluster(n_workers: int) -> Any:
    """Return a cluster of worker processes on this machine, for this machine only.

    It listens on the loopback interface, at free ports, and has no dashboard.
    """
    dask, distributed = need("dask", "dask"), need("distributed", "dask")
    given = {"distributed.scheduler.worker-ttl": FROZEN}
    # Dask lets workers give memory back at once, and every block of a pass would ask for it anew.
    before = "distributed.nanny.pre-spawn-environ.MALLOC_{}_THRESHOLD_"
    given |= {before.format(which): str(KEPT_BYTES) for which in ("TRIM", "MMAP")}
    with dask.config.set(given):
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


def _apply(function: Callable[[Any, Any], Any], message: Any, shards: Sequence[Any]) -> list[Any]:
    """Return function(shard, message) for the shards of one thread."""
    return [function(shard, message) for shard in shards]


def _with_part(function: Callable[[Any], Any], spec: Any, part: Any) -> Any:
    """Return function(spec) on the worker that holds the partition."""
    return function(spec._replace(piece=spec.piece._replace(part=part)))
