"""What a column is, told from the values it shows, and which values its gaps may get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

NUMBER, WHOLE, TWO_VALUED, SHARE = "number", "whole", "two-valued", "share"
POSITIVE, CATEGORY, CONSTANT, EMPTY = "positive", "category", "constant", "empty"
DECLARED = (NUMBER, WHOLE, TWO_VALUED, SHARE, POSITIVE)  # what a user may call a column of numbers
KINDS = (*DECLARED, CATEGORY, CONSTANT, EMPTY)

MOST_CODES = 20  # a column of whole numbers with more values than these is a count, not a code
CELLS_PER_CODE = 5  # with fewer cells for a value, others may be possible that were not seen
MOST_STEPS, CELLS_PER_STEP = 10, 20  # the same for fractions, which measuring may have rounded
MOST_DECIMALS = 12
LARGEST_WHOLE = 2.0**53  # beyond it a float does not hold every whole number
N_FIRST = 50 * MOST_CODES  # values that mostly tell already that a column has many, or long ones
ANY = -1  # decimals of a column whose values have no common number of digits


class ColumnValues(NamedTuple):
    """What the known values of a column show; parts of a column are put together by `join`."""

    n: int = 0
    low: float = np.inf
    high: float = -np.inf
    decimals: int = 0  # digits behind the point that all values need, or ANY
    values: tuple[float, ...] | None = ()  # all that there are, sorted; None if there are many


class Possible(NamedTuple):
    """Which values may be filled into each column."""

    low: np.ndarray  # (d,)
    high: np.ndarray  # (d,)
    decimals: np.ndarray  # (d,) digits behind the point, ANY for any number
    codes: np.ndarray  # (d, m) the only values, sorted, NaN behind them; all NaN if any will do


def look(values: np.ndarray) -> ColumnValues:
    """Return what values (n,) show; NaN shows nothing."""
    known = values[~np.isnan(values)]
    if not known.size:
        return ColumnValues()
    distinct = np.unique(known[:N_FIRST])
    if len(distinct) <= MOST_CODES:
        distinct = np.unique(known)
    few = tuple(distinct.tolist()) if len(distinct) <= MOST_CODES else None
    decimals = _count_decimals(known[:N_FIRST])
    if decimals != ANY:
        decimals = _count_decimals(known, decimals)
    if decimals == 0 and np.abs(known).max() > LARGEST_WHOLE:
        decimals = ANY
    return ColumnValues(known.size, float(known.min()), float(known.max()), decimals, few)


def _count_decimals(values: np.ndarray, least: int = 0) -> int:
    """Return the digits behind the point that all values need, ANY if these are too many.

    They are known to need `least`.
    """
    digits = range(least, MOST_DECIMALS + 1)
    return next((p for p in digits if np.array_equal(np.round(values, p), values)), ANY)


def join(first: ColumnValues, second: ColumnValues) -> ColumnValues:
    """Return what two parts of a column show together."""
    values = None
    if first.values is not None and second.values is not None:
        both = tuple(sorted({*first.values, *second.values}))
        values = both if len(both) <= MOST_CODES else None
    decimals = max(first.decimals, second.decimals)
    return ColumnValues(
        first.n + second.n,
        min(first.low, second.low),
        max(first.high, second.high),
        ANY if ANY in (first.decimals, second.decimals) else decimals,
        values,
    )


def tell(seen: ColumnValues) -> str:
    """Return what a column of numbers is."""
    if seen.n == 0:
        return EMPTY
    if seen.low == seen.high:
        return CONSTANT
    if seen.values is not None and len(seen.values) == 2 and has_codes(seen):
        return TWO_VALUED
    if seen.decimals == 0:
        return WHOLE
    if seen.low >= 0:
        return SHARE if seen.high <= 1 else POSITIVE
    return NUMBER


def has_codes(seen: ColumnValues) -> bool:
    """Tell whether a column has shown all the values it can have, as far as that can be told."""
    if seen.values is None:
        return False
    if seen.decimals == 0 or len(seen.values) == 2:
        return seen.n >= CELLS_PER_CODE * len(seen.values)
    return len(seen.values) <= MOST_STEPS and seen.n >= CELLS_PER_STEP * len(seen.values)


def find_possible(
    kinds: Sequence[str],
    values: Sequence[ColumnValues],
    bounds: tuple[np.ndarray, np.ndarray],
    reach: str | None,
) -> Possible:
    """Return which values columns of these kinds may get.

    `bounds` are those declared, (d,) each, infinite where there are none. Other columns have the
    range that was seen (`reach` "seen"), or all that their kind allows ("kind"): amounts that were
    never negative may be larger than seen, but not below 0. None sets no limits.
    """
    d = len(kinds)
    low, high = (ends.copy() for ends in bounds)
    decimals, codes = np.full(d, ANY), np.full((d, MOST_CODES), np.nan)
    for j, (kind, each) in enumerate(zip(kinds, values, strict=True)):
        if kind == CATEGORY or each.n == 0:
            continue
        free = np.isinf(low[j]) and np.isinf(high[j])
        decimals[j] = each.decimals
        if kind == CONSTANT:
            low[j] = high[j] = np.clip(each.low, low[j], high[j])
        elif free and reach == "seen":
            low[j], high[j] = each.low, each.high
        elif free and reach == "kind":
            low[j] = 0.0 if each.low >= 0 and kind != NUMBER else -np.inf
            high[j] = 1.0 if kind == SHARE else np.inf
        coded = kind == TWO_VALUED or (free and reach is not None and has_codes(each))
        if coded and each.values is not None:
            codes[j, : len(each.values)] = each.values
    return Possible(low, high, decimals, codes)


def any_fraction(possible: Possible) -> Possible:
    """Return what is possible if fractions may have any number of digits."""
    return possible._replace(decimals=np.where(possible.decimals == 0, 0, ANY))


def only_limits(possible: Possible) -> Possible:
    """Return what is possible if means are written as they are, within limits."""
    decimals, codes = np.full_like(possible.decimals, ANY), np.full_like(possible.codes, np.nan)
    return possible._replace(decimals=decimals, codes=codes)


def to_possible(possible: Possible, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Bring values (..., n, d) in the gaps of `x` (n, d) to the nearest possible ones, in place.

    NaN stays. Returns the values.
    """
    for j in np.flatnonzero(np.isnan(x).any(axis=0)).tolist():
        gaps = np.isnan(x[:, j])
        values[..., gaps, j] = _nearest(possible, j, values[..., gaps, j])
    return values


def find_spans(possible: Possible, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends, (n, d) each, of the ranges whose values `to_possible` brings to those of x.

    An interval holds x if what it was before lies across this range. Values of any number of digits
    are ranges of one value, but for those at limits: all beyond become these.
    """
    low, high = x.copy(), x.copy()
    for j in range(len(possible.low)):
        codes = possible.codes[j][~np.isnan(possible.codes[j])]
        if codes.size:
            ends = np.concatenate([[-np.inf], 0.5 * codes[:-1] + 0.5 * codes[1:], [np.inf]])
            place = np.searchsorted(codes, x[:, j]).clip(0, len(codes) - 1)
            low[:, j], high[:, j] = ends[place], ends[place + 1]
            continue
        half = 0.5 * (possible.decimals[j] == 0)
        low[:, j] = np.where(x[:, j] <= possible.low[j], -np.inf, x[:, j] - half)
        high[:, j] = np.where(x[:, j] >= possible.high[j], np.inf, x[:, j] + half)
    return low, high


def _nearest(possible: Possible, j: int, values: np.ndarray) -> np.ndarray:
    low, high, decimals = possible.low[j], possible.high[j], int(possible.decimals[j])
    codes = possible.codes[j][~np.isnan(possible.codes[j])]
    codes = codes[(codes >= low) & (codes <= high)]
    if codes.size:
        return _nearest_code(codes, values)
    if decimals == ANY:
        return np.clip(values, low, high)
    lowest, highest = _inside(low, decimals, np.ceil), _inside(high, decimals, np.floor)
    if lowest > highest:  # no such number is between the bounds
        return np.clip(values, low, high)
    return np.clip(np.round(values, decimals) + 0.0, lowest, highest)  # 0 instead of -0


def _inside(end: float, decimals: int, towards: Callable[[float], float]) -> float:
    """Return the bound, or the number of so many decimals next to it on the allowed side."""
    rounded = float(np.round(end, decimals))
    if rounded == end:
        return end
    return float(np.round(towards(end * 10.0**decimals) / 10.0**decimals, decimals))


def _nearest_code(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    middles = 0.5 * codes[:-1] + 0.5 * codes[1:]
    nearest: np.ndarray = codes[np.searchsorted(middles, values)]
    return np.where(np.isnan(values), np.nan, nearest)
