"""Queues of row blocks on the threads of this process.

What is summed in which order is fixed by the rows (`rows.deal_queues`), so the number of threads
changes no bit. BLAS is held to one thread inside: it neither competes nor reorders.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class ThreadEngine:
    """A pool of threads for the length of a fit; use as `with open_engine(n_jobs) as engine`."""

    def __init__(self, executor: ThreadPoolExecutor | None) -> None:
        self._executor = executor

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Yield function(item) for every item, in the order of the items."""
        if self._executor is None or len(items) < 2:
            return map(function, items)
        return self._executor.map(function, items)


@contextmanager
def open_engine(n_jobs: int | None) -> Iterator[ThreadEngine]:
    """Open an engine with `n_jobs` threads; None means all cores, negative counts from the end."""
    n_threads = count_threads(n_jobs)
    with one_blas_thread():
        if n_threads == 1:
            yield ThreadEngine(None)
        else:
            with ThreadPoolExecutor(n_threads, thread_name_prefix="gapmix") as executor:
                yield ThreadEngine(executor)


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads `n_jobs` asks for, in scikit-learn's convention."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    available = available or 1
    if n_jobs is None:
        return available
    if n_jobs < 0:
        return max(1, available + 1 + n_jobs)
    return max(1, n_jobs)


class _Limit:
    """How many callers hold BLAS to one thread; the last one lets it go."""

    lock = threading.Lock()
    n_holders = 0
    limiter: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread in the whole process, until the last of all holders leaves.

    Two plain limits that overlap would restore each other's values in the wrong order.
    """
    with _Limit.lock:
        if _Limit.n_holders == 0:
            _Limit.limiter = _controller().limit(limits=1, user_api="blas")
        _Limit.n_holders += 1
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.n_holders -= 1
            if _Limit.n_holders == 0:
                _Limit.limiter.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
