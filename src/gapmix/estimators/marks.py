"""What stands for a gap in a table, besides NaN and None."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gapmix.estimators.bounds import find_column

# In a column of numbers these can mean nothing else; compared without spaces, in small letters.
USUAL_MARKS = frozenset(
    ["", "na", "n/a", "#n/a", "#na", "<na>", "nan", "null", "nil", "none", "?", ".", "-", "--"]
)
# Levels that hardly anybody means as an answer; in small letters.
DOUBTFUL_LEVELS = frozenset(
    ["unknown", "unk", "missing", "not available", "not known", "no data", "n.a.", "-", "--", "."]
)
WIPED = 0.2  # a mark for all columns that takes this share of one is probably a value there


class Marks(NamedTuple):
    """What stands for a gap besides NaN and None."""

    numbers: tuple[float, ...] = ()
    texts: frozenset[str] = frozenset()
    own: Mapping[int, Any] = MappingProxyType({})  # Marks of the columns that have their own


NO_MARKS = Marks()


def read_marks(missing_values: Any, names: np.ndarray | None = None, d: int = 0) -> Marks:
    """Return the marks of gaps as the user gave them: a number, a text, None, or several.

    A dict has marks of single ones of the table's d columns, by name or number.
    """
    if isinstance(missing_values, dict):
        each = missing_values.items()
        own = {find_column("missing_values", c, d, names): _read_listed(m) for c, m in each}
        return Marks(own=own)
    return _read_listed(missing_values)


def _read_listed(missing_values: Any) -> Marks:
    if not isinstance(missing_values, list | tuple | set | frozenset):
        missing_values = [missing_values]
    numbers, texts = [], []
    for mark in missing_values:
        if isinstance(mark, str):
            texts.append(mark)
        elif isinstance(mark, Real) and not isinstance(mark, bool):
            numbers.append(float(mark))
        elif not is_missing(mark):
            raise ValueError(
                f"missing_values holds {show(mark)}. Use a number, a text, NaN or None, a list of "
                "these, or a dict from columns to them."
            )
    return Marks(tuple(number for number in numbers if number == number), frozenset(texts))


def marks_at(marks: Marks, column: int) -> Marks:
    """Return what stands for a gap in one column."""
    own: Marks = marks.own.get(column, marks)
    return own


def marks_among(marks: Marks, columns: Sequence[int]) -> Marks:
    """Return the marks of a table of some of the columns."""
    own = {place: marks.own[j] for place, j in enumerate(columns) if j in marks.own}
    return marks._replace(own=own)


def gap_test(marks: Marks) -> Callable[[Any], bool]:
    """Return what tells whether a value of a category is missing."""

    def is_gap(value: Any) -> bool:
        # First what most cells hold, of which there may be millions.
        if isinstance(value, str):
            return is_mark(value, marks)
        if isinstance(value, float):
            return value != value or value in marks.numbers
        if is_missing(value):
            return True
        if isinstance(value, Real) and not isinstance(value, bool):
            return value != value or float(value) in marks.numbers
        return False

    return is_gap


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, masked or a missing value of pandas."""
    return value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType")


def is_mark(value: Any, marks: Marks) -> bool:
    """Tell whether a value is a text that marks a gap."""
    return isinstance(value, str) and value.strip() in marks.texts


def show(value: Any) -> str:
    """Return how a value looks in a message, cut if it is long."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."
