"""How far what was filled is from the truth: small pure functions, all numbers in spreads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.filling.tables import Part

MAX_ROWS = 1_000  # whose distances from each other are taken


class Answer(NamedTuple):
    """What a contestant made of the rows of a part."""

    filled: np.ndarray  # (n, d)
    draws: np.ndarray | None  # (m, n, d)
    low: np.ndarray | None  # (n, d) ends of 90 % intervals
    high: np.ndarray | None
    sure: np.ndarray | None = None  # (n, d) probabilities of filled levels


def score(
    part: Part, answer: Answer, n_levels: np.ndarray, spread: np.ndarray
) -> dict[str, float | None]:
    """Return the scores of a part; None for what there is nothing to judge by."""
    left = int((~np.isfinite(answer.filled[part.hidden])).sum())
    if left:
        raise ValueError(f"{left} of {int(part.hidden.sum())} hidden cells were left as gaps")
    numbers, levels = part.hidden & (n_levels == 0), part.hidden & (n_levels > 0)
    unit = np.broadcast_to(spread, part.truth.shape)[numbers]
    truth = part.truth[numbers] / unit
    error = answer.filled[numbers] / unit - truth
    draws = None if answer.draws is None else answer.draws[:, numbers] / unit
    ends = None
    if answer.low is not None and answer.high is not None:
        ends = answer.low[numbers] / unit, answer.high[numbers] / unit
    completed = answer.filled if answer.draws is None else answer.draws[0]
    has_numbers = error.size > 0
    found = {
        "rmse": float(np.sqrt(np.mean(error**2))) if has_numbers else None,
        "mae": float(np.mean(np.abs(error))) if has_numbers else None,
        "wrong": float(np.mean(answer.filled[levels] != part.truth[levels]))
        if levels.any()
        else None,
        "crps": float(crps(draws, truth).mean()) if has_numbers and draws is not None else None,
        "coverage": coverage(*ends, truth) if has_numbers and ends is not None else None,
        "energy": table_distance(part, completed, n_levels, spread),
    }
    # draws that are no numbers are no draws
    return {name: None if v is None or not np.isfinite(v) else v for name, v in found.items()}


def count_tenths(part: Part, answer: Answer, n_levels: np.ndarray) -> list[list[float]] | None:
    """Return how many hidden levels were filled with a probability in each tenth from 0 to 1.

    Each with the sum of the probabilities, and how many of the levels were right.
    """
    if answer.sure is None or not (n_levels > 0).any():
        return None
    levels = part.hidden & (n_levels > 0)
    sure = answer.sure[levels]
    right = answer.filled[levels] == part.truth[levels]
    tenth = np.clip((10 * sure).astype(int), 0, 9)
    each = (np.bincount(tenth, weights, 10) for weights in (np.ones(len(sure)), sure, right))
    return [list(row) for row in zip(*(sums.tolist() for sums in each), strict=True)]


def crps(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return E|draw - truth| - E|draw - other draw| / 2 of each cell, (cells,); draws (m, cells).

    Pairs are of different draws, so that few draws are not punished for being few.
    """
    m = len(draws)
    rank = 2 * np.arange(1, m + 1) - m - 1
    between = rank @ np.sort(draws, axis=0) / (m * (m - 1))
    return np.abs(draws - truth).mean(axis=0) - between


def coverage(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of values inside their intervals, ends included."""
    return float(np.mean((low <= truth) & (truth <= high)))


def energy_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return 2 E|X - Y| - E|X - X'| - E|Y - Y'| of two sets of rows: 0 if they are the same."""
    return float(
        2 * cdist(first, second).mean() - cdist(first, first).mean() - cdist(second, second).mean()
    )


def table_distance(
    part: Part, completed: np.ndarray, n_levels: np.ndarray, spread: np.ndarray
) -> float | None:
    """Return the energy distance of completed from true rows, among rows that are known whole.

    Numbers count in spreads; two different levels are 1 apart.
    """
    rows = np.flatnonzero(~np.isnan(part.truth).any(axis=1))
    if not rows.size:
        return None
    rows = rows[:: -(-rows.size // MAX_ROWS)]  # of all parts of the table
    pair = (_spread_out(x[rows], n_levels, spread) for x in (part.truth, completed))
    return energy_distance(*pair)


def _spread_out(x: np.ndarray, n_levels: np.ndarray, spread: np.ndarray) -> np.ndarray:
    parts = [x[:, n_levels == 0] / spread[n_levels == 0]]
    for j in np.flatnonzero(n_levels):
        parts.append((x[:, j, None] == np.arange(n_levels[j])) / np.sqrt(2))
    return np.hstack(parts)
