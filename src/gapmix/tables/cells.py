"""Cells that are text into numbers and levels: marks of gaps, decimal commas, what is neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gapmix.estimators.marks import Marks
from gapmix.tables.dialect import TableError

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

# In a column of numbers these can mean nothing else; compared without spaces, in small letters.
USUAL_MARKS = frozenset(
    ["", "na", "n/a", "#n/a", "#na", "<na>", "nan", "null", "nil", "none", "?", ".", "-", "--"]
)
# In a column of words "none" or "-" may be an answer.
CATEGORY_MARKS = frozenset(["", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "?"])


class Parsed(NamedTuple):
    """Cells as numbers, and those that are none."""

    values: np.ndarray  # (n,) NaN where missing or not a number
    n_other: int  # cells that are neither number nor gap
    first_other: int  # place of the first of them, -1 if there is none
    others: tuple[str, ...]  # a few of them, all different


def read_marks(values: Sequence[str]) -> Marks:
    """Return the marks a user lists; numbers among them are compared as numbers."""
    texts = [value.strip() for value in values]
    numbers = []
    for text in texts:
        try:
            numbers.append(float(text))
        except ValueError:
            continue
    return Marks(tuple(number for number in numbers if number == number), frozenset(texts))


def parse_numbers(texts: Any, marks: Marks, decimal: str) -> Parsed:
    """Return a polars series of texts as numbers."""
    plain = texts
    if decimal == ",":  # a point would separate thousands: such a cell is no number here
        points = texts.str.contains(".", literal=True).fill_null(False)
        plain = texts.str.replace(",", ".", literal=True)
        if points.any():
            plain = plain.set(points, "not a number")
    values = plain.cast(pl.Float64, strict=False)
    unread = values.is_null() & texts.is_not_null()
    result = values.to_numpy().astype(np.float64, copy=True)
    n_other, first_other, others = 0, -1, ()
    if unread.any():
        places = np.flatnonzero(unread.to_numpy())
        stripped = plain.filter(unread).str.strip_chars()
        again = stripped.cast(pl.Float64, strict=False)
        result[places] = again.to_numpy()
        raw = texts.filter(unread).str.strip_chars()
        is_gap = raw.str.to_lowercase().is_in(list(USUAL_MARKS)) | raw.is_in(list(marks.texts))
        other = again.is_null() & ~is_gap
        n_other = int(other.sum())
        if n_other:
            first_other = int(places[int(other.arg_true()[0])])
            others = tuple(raw.filter(other).unique(maintain_order=True).head(3).to_list())
    for code in marks.numbers:
        result[result == code] = np.nan
    return Parsed(result, n_other, first_other, others)


def parse_levels(texts: Any, marks: Marks) -> Any:
    """Return a polars series of texts with null for gaps."""
    stripped = texts.str.strip_chars()
    gaps = stripped.is_in(list(CATEGORY_MARKS | marks.texts)).fill_null(True)
    return stripped.set(gaps, None)


def write_numbers(values: np.ndarray, decimal: str, *, whole: bool = False) -> Any:
    """Return the shortest texts that read back as the same doubles, a polars series."""
    if whole and values.size and np.abs(values).max() < 2.0**63:
        return pl.Series(values.astype(np.int64)).cast(pl.String)
    texts = pl.Series(values, dtype=pl.Float64).cast(pl.String)
    return texts.str.replace(".", ",", literal=True) if decimal == "," else texts


def guard_formulas(texts: Any, decimal: str) -> tuple[Any, int]:
    """Put ' before texts that a spreadsheet would run as a formula; numbers are left alone."""
    risky = texts.str.contains(r"^[=+\-@\t\r]").fill_null(False)
    if not risky.any():
        return texts, 0
    plain = texts.str.replace(",", ".", literal=True) if decimal == "," else texts
    risky &= plain.str.strip_chars().cast(pl.Float64, strict=False).is_null()
    return ("'" + texts).zip_with(risky, texts), int(risky.sum())


def refuse_infinite(values: np.ndarray, first_row: int, name: str) -> None:
    """Raise an error at the first cell that is infinite or beyond 1e300."""
    outside = np.abs(values) > 1e300
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        raise TableError(
            f"Row {first_row + place:,}, column {name}: {values[place]:g} is infinite or beyond "
            "1e300. Correct it; if it stands for a gap, name it in --missing-values."
        )
