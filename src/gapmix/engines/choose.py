"""From the `engine` parameter to an engine for shards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gapmix.engines.contract import ShardEngine
from gapmix.engines.dask import open_dask
from gapmix.engines.local import ShardThreads


def is_engine(engine: Any) -> bool:
    """Tell whether `engine` names one: 'threads', 'dask', an address, or a Dask client."""
    if isinstance(engine, str):
        return engine in ("threads", "dask") or "://" in engine
    return hasattr(engine, "scheduler_info") and hasattr(engine, "submit")


def is_remote(engine: Any) -> bool:
    """Tell whether rows go to other processes."""
    return not (isinstance(engine, str) and engine == "threads")


@contextmanager
def open_shard_engine(engine: Any, n_jobs: int | None, memory: int) -> Iterator[ShardEngine]:
    """Open the engine that `engine` asks for; it is closed at the end."""
    opened: ShardEngine
    opened = open_dask(engine, n_jobs) if is_remote(engine) else ShardThreads(n_jobs, memory)
    try:
        yield opened
    finally:
        opened.close()
