"""Limits of columns, `{column: (low, high)}` as the user writes it; columns that never vary."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def read_bounds(
    bounds: Any, names: list[str], feature_names: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest value allowed in each column, infinite where there is no limit.

    Columns are given by name, or by number if the table has no names or the number is not one.
    """
    d = len(names)
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    if bounds is None:
        return low, high
    if not isinstance(bounds, dict):
        raise ValueError(
            f"bounds must be a dict from column to (low, high); it is {type(bounds).__name__}."
        )
    for column, limits in bounds.items():
        place = _find_column(column, d, feature_names)
        low[place], high[place] = _read_limits(column, limits)
    return low, high


def _find_column(column: Any, d: int, feature_names: np.ndarray | None) -> int:
    if feature_names is not None:
        found = np.flatnonzero(feature_names == column)
        if found.size:
            return int(found[0])
    whole = isinstance(column, Integral) and not isinstance(column, bool)
    if whole and 0 <= int(column) < d:
        return int(column)
    known = "0 to " + str(d - 1) if feature_names is None else ", ".join(map(repr, feature_names))
    raise ValueError(f"bounds name the column {column!r}, which the table has not. It has {known}.")


def _read_limits(column: Any, limits: Any) -> tuple[float, float]:
    wrong = ValueError(
        f"bounds of column {column!r} are {limits!r}; they must be two numbers (low, high) with "
        "low <= high, None for no limit."
    )
    if not isinstance(limits, tuple | list) or len(limits) != 2:
        raise wrong
    if any(not (end is None or isinstance(end, Real)) for end in limits):
        raise wrong
    low = -np.inf if limits[0] is None else float(limits[0])
    high = np.inf if limits[1] is None else float(limits[1])
    if not low <= high:
        raise wrong
    return low, high


def find_constants(x: np.ndarray) -> np.ndarray:
    """Return the value of columns whose observed values are all the same, NaN for others, (d,)."""
    observed = ~np.isnan(x)
    low = np.min(x, axis=0, initial=np.inf, where=observed)
    high = np.max(x, axis=0, initial=-np.inf, where=observed)
    return np.where(low == high, low, np.nan)
