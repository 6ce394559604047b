"""Cells that are text into numbers and levels: marks of gaps, decimal commas, what is neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gapmix.estimators.marks import USUAL_MARKS, Marks
from gapmix.tables.dialect import TableError

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

# In a column of words "none" or "-" may be an answer.
CATEGORY_MARKS = frozenset(["", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "?"])
# What everybody writes for a gap; of other marks it is said how often they were taken for one.
PLAIN_MARKS = frozenset(["", "na", "n/a", "#n/a", "#na", "<na>", "nan", "null"])

HARMLESS = r"^(\+|-+|[+-][€$£¥]?\s?[0-9][0-9.,' ]*([%€$£¥]|\pL{1,4})?)$"  # numbers, mere dashes


class Parsed(NamedTuple):
    """Cells as numbers, and those that are none."""

    values: np.ndarray  # (n,) NaN where missing or not a number
    n_other: int  # cells that are neither number nor gap
    first_other: int  # place of the first of them, -1 if there is none
    others: tuple[str, ...]  # a few of them, all different
    marked: dict[str, int]  # how often marks other than the plain ones were taken for gaps


class Levels(NamedTuple):
    """Cells as texts of levels."""

    texts: Any  # polars series, null for gaps
    marked: dict[str, int]  # as above


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


def add_marks(marks: Marks, more: Sequence[str]) -> Marks:
    """Return marks and what else stands for a gap in one column."""
    own = read_marks(more)
    return Marks(marks.numbers + own.numbers, marks.texts | own.texts) if more else marks


def count_marks(texts: Any) -> dict[str, int]:
    """Return how often marks occur among texts without spaces that were all taken for gaps."""
    telling = texts.filter(~texts.str.to_lowercase().is_in(list(PLAIN_MARKS)))
    return dict(telling.value_counts(sort=True).iter_rows()) if len(telling) else {}


def count_numbers(values: Any, codes: Sequence[float]) -> dict[str, int]:
    """Return how often codes of gaps occur among numbers."""
    counts = {f"{code:.15g}": int((values == code).sum()) for code in codes}
    return {code: n for code, n in counts.items() if n}


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
    marked: dict[str, int] = {}
    if unread.any():
        places = np.flatnonzero(unread.to_numpy())
        stripped = plain.filter(unread).str.strip_chars()
        again = stripped.cast(pl.Float64, strict=False)
        result[places] = again.to_numpy()
        raw = texts.filter(unread).str.strip_chars()
        is_gap = raw.str.to_lowercase().is_in(list(USUAL_MARKS)) | raw.is_in(list(marks.texts))
        other = again.is_null() & ~is_gap
        marked = count_marks(raw.filter(is_gap))
        n_other = int(other.sum())
        if n_other:
            first_other = int(places[int(other.arg_true()[0])])
            others = tuple(raw.filter(other).unique(maintain_order=True).head(3).to_list())
    marked |= count_numbers(result, marks.numbers)
    result[np.isin(result, marks.numbers)] = np.nan
    return Parsed(result, n_other, first_other, others, marked)


def without_gaps(texts: Any, values: np.ndarray, marks: Marks) -> Parsed:
    """Return the values (n,) of stripped texts, NaN at marks of gaps and where they have none."""
    plain = texts.str.to_lowercase().is_in(list(USUAL_MARKS))
    gaps = (plain | texts.is_in(list(marks.texts))).fill_null(True)
    marked = count_marks(texts.filter(gaps).drop_nulls())
    values[gaps.to_numpy()] = np.nan
    other = np.flatnonzero(np.isnan(values) & ~gaps.to_numpy())
    shown = texts.gather(other).unique(maintain_order=True).head(3).to_list()
    return Parsed(values, len(other), int(other[0]) if other.size else -1, tuple(shown), marked)


def parse_levels(cells: Any, marks: Marks, *, typed: bool) -> Levels:
    """Return a narwhals series as texts as they are spelled, null for gaps.

    In a text file the usual marks are gaps; in a table with types, nulls, NaN and `marks` are.
    """
    native = cells.to_native()
    if not cells.implementation.is_polars():
        native = pl.Series(_spell_objects(cells), dtype=pl.String)
    if native.dtype.is_float():
        native = native.fill_nan(None)
    marked: dict[str, int] = {}
    if native.dtype.is_numeric() and marks.numbers:
        numbers = native.cast(pl.Float64)
        marked = count_numbers(numbers, marks.numbers)
        native = native.set(numbers.is_in(list(marks.numbers)), None)
    texts = spell(native)
    known = marks.texts if typed else CATEGORY_MARKS | marks.texts
    if not known:
        return Levels(texts, marked)
    stripped = texts.str.strip_chars()
    gaps = stripped.is_in(list(known)).fill_null(True)
    return Levels(texts.set(gaps, None), marked | count_marks(stripped.filter(gaps).drop_nulls()))


def spell(values: Any) -> Any:
    """Return a polars series as texts: whole numbers without a point, whatever their type."""
    texts = values.cast(pl.String)
    return texts.str.strip_suffix(".0") if values.dtype.is_float() else texts


def _spell_objects(cells: Any) -> list[str | None]:
    """Return the values of a series of any kind as texts, None for gaps."""
    gaps = cells.is_null().to_list()
    return [
        None if gap or (isinstance(value, float) and value != value) else str(value)
        for value, gap in zip(cells.to_list(), gaps, strict=True)
    ]


def find_codes(texts: Any, levels: Sequence[str], *, truth: bool = False) -> np.ndarray:
    """Return the places of texts among levels (n,) as floats, NaN where missing or no level.

    With `truth`, True, true and TRUE are the same.
    """
    if truth:
        texts, levels = texts.str.to_lowercase(), [level.lower() for level in levels]
    codes = texts.cast(pl.Enum(list(levels)), strict=False).to_physical()
    found: np.ndarray = codes.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return found


def write_numbers(values: np.ndarray, decimal: str, *, whole: bool = False) -> Any:
    """Return the shortest texts that read back as the same doubles, a polars series."""
    if whole and values.size and np.abs(values).max() < 2.0**63:
        return pl.Series(values.astype(np.int64)).cast(pl.String)
    texts = pl.Series(values, dtype=pl.Float64).cast(pl.String)
    return texts.str.replace(".", ",", literal=True) if decimal == "," else texts


def guard_formulas(texts: Any, decimal: str) -> tuple[Any, int]:
    """Put ' before texts that a spreadsheet would run as a formula.

    Numbers are left alone, with separators, signs and units too, and so are mere dashes.
    """
    risky = texts.str.contains(r"^[=+\-@\t\r]").fill_null(False)
    risky &= ~texts.str.contains(HARMLESS).fill_null(False)
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
