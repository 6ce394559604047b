"""What a contestant is, and how categories become numbers for those who know numbers only.

A contestant is a module of this folder with `fit(x, n_levels, seed, threads, **settings)`. It may
run in an environment without gapmix or scikit-learn, so nothing but NumPy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Fitted(NamedTuple):
    """A table filled, and what fills others like it. Categories are codes, as in the table."""

    seen: np.ndarray  # (n, d) the rows it was fitted to
    fill: Callable[[np.ndarray], np.ndarray] | None = None  # new rows; None if it cannot
    draw: Callable[[np.ndarray, int], np.ndarray] | None = None  # (n, d), m -> (m, n, d)
    intervals: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]] | None = None
    sure: Callable[[np.ndarray], np.ndarray] | None = None  # (n, d) probabilities of filled levels


class Scaling(NamedTuple):
    """Centre and spread of the columns of numbers."""

    center: np.ndarray  # (numbers,)
    spread: np.ndarray  # (numbers,)


AS_IS = Scaling(np.zeros(1), np.ones(1))  # for trees, which do not ask for units


def find_scaling(x: np.ndarray, n_levels: np.ndarray) -> Scaling:
    """Return mean and standard deviation of the numbers; 1 for a column that does not vary."""
    numbers = x[:, n_levels == 0]
    spread = np.nanstd(numbers, axis=0)
    return Scaling(np.nanmean(numbers, axis=0), np.where(spread > 0, spread, 1.0))


def to_numbers(
    x: np.ndarray, n_levels: np.ndarray, scaling: Scaling, *, first: bool = True
) -> np.ndarray:
    """Return numbers scaled to variance 1, then an indicator for each level: 0 or 1 / sqrt(2).

    Two rows with different levels are then 1 apart. `first=False` leaves out the first level, which
    the others tell: a regression would otherwise learn just that.
    """
    parts = [(x[:, n_levels == 0] - scaling.center) / scaling.spread]
    for j in np.flatnonzero(n_levels):
        indicators = (x[:, j, None] == np.arange(n_levels[j])) / np.sqrt(2)
        indicators[np.isnan(x[:, j])] = np.nan
        parts.append(indicators if first else indicators[:, 1:])
    return np.hstack(parts)


def from_numbers(
    z: np.ndarray, n_levels: np.ndarray, scaling: Scaling, *, first: bool = True
) -> np.ndarray:
    """Return the table behind `to_numbers`; the largest indicator tells the level."""
    x = np.empty((len(z), len(n_levels)))
    x[:, n_levels == 0] = z[:, : len(scaling.center)] * scaling.spread + scaling.center
    at = len(scaling.center)
    for j in np.flatnonzero(n_levels):
        width = n_levels[j] - (not first)
        indicators = z[:, at : at + width]
        if not first:
            rest = 1 / np.sqrt(2) - indicators.sum(axis=1, keepdims=True)
            indicators = np.hstack([rest, indicators])
        x[:, j] = indicators.argmax(axis=1)
        at += width
    return x


def nearest_codes(x: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """Return a table whose categories were filled as if they were numbers, with whole codes."""
    codes = np.clip(np.rint(x), 0, np.maximum(n_levels - 1, 0))
    return np.where(n_levels > 0, codes, x)
