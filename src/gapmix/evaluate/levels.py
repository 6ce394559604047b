"""Hidden cells of categories: what was true, what was filled in, and how sure that was."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

EDGES = (0.0, 0.5, 0.7, 0.9, 1.0)  # of the classes in which probabilities are compared


class LevelCells(NamedTuple):
    """The hidden cells of one category, as one imputer filled them, once."""

    imputer: str
    repeat: int
    column: str
    levels: tuple[str, ...]
    true: np.ndarray  # (h,) places of the true levels
    filled: np.ndarray  # (h,) places of those filled in
    probability: np.ndarray  # (h,) of those filled in, NaN if the imputer does not tell


class Calibration(NamedTuple):
    """Filled cells whose probabilities lie between two ends, and how many of them are right."""

    low: float
    high: float
    n: int
    probability: float  # their mean
    right: float  # share


class Confusion(NamedTuple):
    """How often a level was filled in where another one, or the same, was true."""

    levels: tuple[str, ...]
    counts: np.ndarray  # (L, L) true levels by filled ones


def calibrate(cells: Iterable[LevelCells], edges: Sequence[float] = EDGES) -> list[Calibration]:
    """Return how often filled levels are right, by classes of their probability; none is empty."""
    found = [each for each in cells if not np.isnan(each.probability).any()]
    if not found:
        return []
    p = np.concatenate([each.probability for each in found])
    right = np.concatenate([each.filled == each.true for each in found])
    place = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, len(edges) - 2)
    return [
        Calibration(
            edges[k],
            edges[k + 1],
            int((place == k).sum()),
            float(p[place == k].mean()),
            float(right[place == k].mean()),
        )
        for k in range(len(edges) - 1)
        if (place == k).any()
    ]


def confuse(cells: Sequence[LevelCells]) -> Confusion:
    """Return the confusion table of the cells of one category."""
    n_levels = len(cells[0].levels)
    true = np.concatenate([each.true for each in cells]).astype(int)
    filled = np.concatenate([each.filled for each in cells]).astype(int)
    counts = np.bincount(true * n_levels + filled, minlength=n_levels**2)
    return Confusion(cells[0].levels, counts.reshape(n_levels, n_levels))
