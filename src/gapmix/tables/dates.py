"""Dates as numbers, and back: days, minutes, seconds or microseconds since 1970-01-01.

The spelling of a column, such as "%d.%m.%Y", tells the unit and how filled dates are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import narwhals as nw
import numpy as np

from gapmix.estimators.marks import Marks
from gapmix.tables.cells import Parsed, without_gaps
from gapmix.tables.dialect import TableError
from gapmix.wording import quote

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

ORDERS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"),
    *("%d-%m-%Y", "%m-%d-%Y"),
)
CLOCKS = (
    *("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%M:%SZ"),
    *(" %H:%M:%S%.f", "T%H:%M:%S%.f", "T%H:%M:%S%.fZ"),
)
SPELLINGS = tuple(
    (order.replace("%d", "%-d").replace("%m", "%-m") if bare else order) + clock
    for clock, order, bare in product(CLOCKS, ORDERS, (False, True))
)
TYPED = {nw.Date: "%Y-%m-%d", nw.Datetime: "%Y-%m-%dT%H:%M:%S%.f"}  # of columns with types
EARLIEST = 1000  # years of two digits are not read
SAMPLE = 1000  # texts that tell which spellings there may be
MICROSECONDS = {"days": 86_400_000_000, "minutes": 60_000_000, "seconds": 1_000_000}


def name_unit(spelling: str) -> str:
    """Return what the numbers of a column of dates count."""
    endings = (("%.f", "microseconds"), ("%S", "seconds"), ("%M", "minutes"))
    return next((unit for sign, unit in endings if sign in spelling), "days")


def find_spelling(columns: Iterator[Any], name: str) -> str:
    """Return how the texts of a column, part by part, spell dates; nothing if they do not.

    It is the spelling that reads most texts and, of several, gives most of them back as they were.
    """
    read: dict[str, np.ndarray] = dict.fromkeys(SPELLINGS, np.zeros(2))
    for number, texts in enumerate(columns):
        if number == 0:
            read = _leading({each: _count(texts.head(SAMPLE), each) for each in SPELLINGS})
        for each in tuple(read):
            read[each] = read[each] * (number > 0) + _count(texts, each)
        if not read:
            return ""
    leading = _leading(read)
    if len({each.replace("-d", "d").replace("-m", "m")[:8] for each in leading}) > 1:
        raise TableError(
            f"--numbers: the dates in column {quote(name)} can be read with the day first or with "
            "the month first. Write them as in 2024-12-31, or leave the column out."
        )
    return max(leading, key=lambda each: leading[each][1], default="")


def _leading(read: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the spellings that read most texts."""
    most = max((counts[0] for counts in read.values()), default=0)
    return {each: counts for each, counts in read.items() if counts[0] == most > 0}


def _count(texts: Any, spelling: str) -> np.ndarray:
    """Return how many texts a spelling reads, and how many it gives back as they were."""
    dates = _parse(texts, spelling)
    same = dates.dt.to_string(spelling) == texts
    return np.array([len(dates) - dates.null_count(), same.sum() or 0])


def _parse(texts: Any, spelling: str) -> Any:
    """Return texts as dates or times, null where they are none."""
    if name_unit(spelling) == "days":
        dates = texts.str.to_date(spelling, strict=False)
    else:
        dates = texts.str.to_datetime(spelling, strict=False, time_unit="us")
    return dates.set((dates.dt.year() < EARLIEST).fill_null(False), None)


def read_dates(cells: Any, marks: Marks, spelling: str) -> Parsed:
    """Return a narwhals series of texts, dates or times as numbers."""
    native = nw.to_native(cells)
    if native.dtype != pl.String:
        return Parsed(_to_numbers(native, spelling), 0, -1, (), {})
    texts = native.str.strip_chars()
    values = _to_numbers(_parse(texts, spelling), spelling)
    return without_gaps(texts, values, marks)


def _to_numbers(dates: Any, spelling: str) -> np.ndarray:
    """Return polars dates or times (n,) as numbers, NaN for nulls."""
    moments = dates.cast(pl.Datetime("us")).to_physical().cast(pl.Float64)
    values: np.ndarray = moments.fill_null(float("nan")).to_numpy()
    return values / MICROSECONDS.get(name_unit(spelling), 1)


def _to_moments(values: np.ndarray, spelling: str) -> Any:
    """Return numbers as polars times, to the nearest unit of the spelling."""
    whole = np.round(values) * MICROSECONDS.get(name_unit(spelling), 1)
    return pl.Series(whole.astype(np.int64)).cast(pl.Datetime("us"))


def write_dates(values: np.ndarray, spelling: str) -> Any:
    """Return numbers as dates in a spelling, a polars series of texts."""
    return _to_moments(values, spelling).dt.to_string(spelling)


def show_days(values: np.ndarray, spelling: str) -> list[str]:
    """Return numbers as days, without the time of day, for people."""
    day = re.split("[ T]", spelling)[0]
    texts: list[str] = _to_moments(values, spelling).dt.to_string(day).to_list()
    return texts


def read_date(text: str, spelling: str) -> float:
    """Return one date as a number, NaN if it is none."""
    return float(_to_numbers(_parse(pl.Series([text.strip()]), spelling), spelling)[0])


def fill_dates(cells: Any, gaps: np.ndarray, values: np.ndarray, spelling: str) -> Any:
    """Return a narwhals series of texts, dates or times with its gaps filled by numbers."""
    if not gaps.any():
        return cells
    native = nw.to_native(cells)
    if native.dtype == pl.String:
        made = write_dates(values[gaps], spelling)
    else:
        made = _to_moments(values[gaps], spelling)
        zone = getattr(native.dtype, "time_zone", None)
        made = (
            made.dt.replace_time_zone("UTC").cast(native.dtype) if zone else made.cast(native.dtype)
        )
    filled = native.scatter(np.flatnonzero(gaps), made)
    return nw.from_native(filled, series_only=True)
