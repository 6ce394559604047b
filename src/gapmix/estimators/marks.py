"""What stands for a gap in a table, besides NaN and None."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np


class Marks(NamedTuple):
    """What stands for a gap besides NaN and None."""

    numbers: tuple[float, ...] = ()
    texts: frozenset[str] = frozenset()


NO_MARKS = Marks()


def read_marks(missing_values: Any) -> Marks:
    """Return the marks of gaps as the user gave them: a number, a text, None, or several."""
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
                f"missing_values holds {show(mark)}; a gap is marked by a number, a text, NaN or "
                "None, or by several of these in a list."
            )
    return Marks(tuple(number for number in numbers if number == number), frozenset(texts))


def gap_test(marks: Marks) -> Callable[[Any], bool]:
    """Return what tells whether a value of a category is missing."""

    def is_gap(value: Any) -> bool:
        if is_missing(value) or is_mark(value, marks):
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
