"""Shards on the threads of this process."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from gapmix.engines.scratch import Scratch
from gapmix.threads import count_threads, one_blas_thread


class ShardThreads:
    """Shards on the threads of this process, under a budget of bytes.

    Shards are kept while they take no more than half of the budget; the others are read back from
    a scratch file at every step, as many at a time as there are threads, or built again from their
    source if the disk has no room for it.
    """

    SHARES_MEMORY = True

    def __init__(self, n_jobs: int | None, memory: int) -> None:
        self._n_threads = count_threads(n_jobs)
        self._executor = ThreadPoolExecutor(self._n_threads, thread_name_prefix="gapmix")
        self._room = memory // 2
        self._lock = threading.Lock()
        self._build: Callable[[Any], Any] = len
        self._specs: Sequence[Any] = ()
        self._kept: dict[int, Any] = {}
        self._scratch = Scratch()

    def map(self, function: Callable[[Any], Any], specs: Sequence[Any]) -> Iterator[Any]:
        """Yield function(spec) for every specification, in order."""
        with one_blas_thread():
            yield from self._in_order(function, specs)

    def load(self, build: Callable[[Any], Any], specs: Sequence[Any]) -> None:
        """Remember how shards are built; they are when a step first needs them."""
        self._scratch.close()
        self._build, self._specs, self._kept = build, specs, {}

    def step(self, function: Callable[[Any, Any], Any], message: Any) -> Iterator[Any]:
        """Yield function(shard, message) for every shard, in order."""

        def apply(number: int) -> Any:
            return function(self._shard(number), message)

        with one_blas_thread():
            yield from self._in_order(apply, range(len(self._specs)))

    def close(self) -> None:
        """Drop the shards and end the threads."""
        self._kept = {}
        self._executor.shutdown(cancel_futures=True)
        self._scratch.close()

    def _shard(self, number: int) -> Any:
        shard = self._kept.get(number)
        if shard is None:
            shard = self._scratch.get(number)
        if shard is None:
            shard = self._build(self._specs[number])
            if not self._keep(number, shard):
                self._scratch.put(number, shard)
        return shard

    def _keep(self, number: int, shard: Any) -> bool:
        """Keep a shard if there is room for it."""
        size = count_bytes(shard)
        with self._lock:
            if size > self._room:
                return False
            self._room -= size
            self._kept[number] = shard
            return True

    def _in_order(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Run ahead of the caller by the number of threads, no further."""
        ahead: deque[Future[Any]] = deque()
        try:
            for item in items:
                if len(ahead) > self._n_threads:
                    yield ahead.popleft().result()
                ahead.append(self._executor.submit(function, item))
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def count_bytes(value: Any) -> int:
    """Return the bytes of the arrays in nested tuples; a view counts as what it shows."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(count_bytes, value)) if isinstance(value, tuple) else 0
