"""Lanes of row blocks on the threads of this process.

What is summed in which order is fixed by the rows (`rows.deal_lanes`), so the number of threads
changes no bit. BLAS is held to one thread inside: it neither competes nor reorders.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class ThreadEngine:
    """A pool of threads for the length of a fit; use as `with open_engine(n_jobs) as engine`."""

    def __init__(self, executor: ThreadPoolExecutor | None) -> None:
        self._executor = executor

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return function(item) for every item, in the order of the items."""
        if self._executor is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self._executor.map(function, items))


@contextmanager
def open_engine(n_jobs: int | None) -> Iterator[ThreadEngine]:
    """Open an engine with `n_jobs` threads; None means all cores, negative counts from the end."""
    n_threads = count_threads(n_jobs)
    with _controller().limit(limits=1, user_api="blas"):
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


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
