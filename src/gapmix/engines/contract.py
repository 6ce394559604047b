"""What every engine for shards offers: load them, step over them, close."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol


class EngineError(RuntimeError):
    """The machines that held the rows are gone or unreachable; the message says what was seen.

    Examples
    --------
    Catch it where a fit may outlive its cluster, and go on from the checkpoint:

    >>> from gapmix.engines.contract import EngineError
    >>> issubclass(EngineError, RuntimeError)
    True
    """


class ShardEngine(Protocol):
    """Where shards live. Specifications are records with a field `piece`; see `sources`.

    Results come one by one in the order of the shards, whoever is ready first.
    """

    SHARES_MEMORY: bool  # functions see the very objects they are given

    def map(self, function: Callable[[Any], Any], specs: Sequence[Any]) -> Iterator[Any]:
        """Yield function(spec) for every specification."""

    def load(self, build: Callable[[Any], Any], specs: Sequence[Any]) -> None:
        """Make build(spec) the shards; one that is lost or has no room is built again."""

    def step(self, function: Callable[[Any, Any], Any], message: Any) -> Iterator[Any]:
        """Yield function(shard, message) for every shard."""

    def close(self) -> None:
        """Let go of shards and helpers."""


def in_windows(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """Yield consecutive stretches of at most `size` items."""
    return (items[low : low + size] for low in range(0, len(items), max(1, size)))
