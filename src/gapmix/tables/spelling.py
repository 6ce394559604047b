"""Columns of numbers that are written otherwise: as dates, or with separators, signs and units."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
import numpy as np

from gapmix.estimators.marks import Marks
from gapmix.tables.cells import Parsed
from gapmix.tables.dates import SPELLINGS, fill_dates, read_dates, write_dates
from gapmix.tables.dressed import is_dress, read_dressed, write_dressed


def is_date(spelling: str) -> bool:
    """Tell whether a spelling, which may be none, is one of dates."""
    return spelling in SPELLINGS


def is_spelling(text: str) -> bool:
    """Tell whether a text is a spelling."""
    return is_date(text) or is_dress(text)


def name_values(spelling: str) -> str:
    """Return what a column of numbers in a spelling holds: a noun without an s."""
    if not spelling:
        return "number"
    if not is_date(spelling):
        return f"number such as {write_dressed(np.array([1234.5]), spelling)[0]}"
    shown = datetime(2024, 12, 31, 23, 59).strftime(spelling.replace("%-", "%").replace("%.f", ""))
    return f"date such as {shown}"


def read_spelled(cells: Any, marks: Marks, spelling: str) -> Parsed:
    """Return a narwhals series of texts, dates or times as numbers."""
    return (read_dates if is_date(spelling) else read_dressed)(cells, marks, spelling)


def write_spelled(values: np.ndarray, spelling: str) -> Any:
    """Return numbers in a spelling, a polars series of texts."""
    return (write_dates if is_date(spelling) else write_dressed)(values, spelling)


def fill_spelled(cells: Any, gaps: np.ndarray, values: np.ndarray, spelling: str) -> Any:
    """Return a narwhals series with its gaps filled by numbers in its spelling."""
    if is_date(spelling):
        return fill_dates(cells, gaps, values, spelling)
    if not gaps.any():
        return cells
    filled = nw.to_native(cells).scatter(
        np.flatnonzero(gaps), write_dressed(values[gaps], spelling)
    )
    return nw.from_native(filled, series_only=True)
