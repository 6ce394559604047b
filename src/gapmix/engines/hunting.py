"""Which levels the columns of a table in pieces have: one pass before anything is fitted."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from gapmix.engines.choose import open_shard_engine
from gapmix.engines.sources import Piece, Source, read_values
from gapmix.fitting.spec import Running

MOST_VALUES = 100_000  # of one column; what has more is no category, and would fill the memory


class Hunt(NamedTuple):
    """Where to look, and at which columns."""

    piece: Piece
    columns: tuple[int, ...]


class Found(NamedTuple):
    """The distinct values of a column."""

    values: dict[Any, None]  # in the order in which rows show them
    n_known: int  # rows that show one


def list_distinct(hunt: Hunt) -> list[Found]:
    """Return the distinct values of columns of a piece."""
    found = []
    for values in read_values(hunt.piece, hunt.columns):
        distinct = dict.fromkeys(values)
        distinct.pop(None, None)
        found.append(Found(distinct, sum(value is not None for value in values)))
    return found


def collect_levels(source: Source, columns: Sequence[int], running: Running) -> list[Found]:
    """Return the distinct values of some columns of a table in pieces, in one pass over it.

    Of a column with more than `MOST_VALUES` no more are collected.
    """
    total = [Found({}, 0) for _ in columns]
    hunts = [Hunt(piece, tuple(columns)) for piece in source.pieces]
    with open_shard_engine(running.engine, running.n_jobs, source.memory) as engine:
        for parts in engine.map(list_distinct, hunts):
            for j, (one, part) in enumerate(zip(total, parts, strict=True)):
                values = one.values if len(one.values) > MOST_VALUES else one.values | part.values
                total[j] = Found(values, one.n_known + part.n_known)
    return total
