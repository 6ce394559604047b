"""How sure a difference is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq

LEVEL = 0.95
LEAST_LOG_P = -30.0


class Difference(NamedTuple):
    """A mean difference, half the width of its 95 % interval, and its two-sided p-value."""

    mean: float
    half: float
    p_value: float

    @property
    def below(self) -> bool:
        """Tell whether it is surely negative."""
        return self.mean + self.half < 0

    @property
    def above(self) -> bool:
        """Tell whether it is surely positive."""
        return self.mean - self.half > 0


def half_width(errors: np.ndarray, level: float = LEVEL) -> float:
    """Return half the interval of the mean of (repeats, rows).

    Two things could have come out differently: the gaps (repeats; Student's t) and the test rows,
    which all repeats share (normal). Squares of half their intervals add.
    """
    n_repeats, n_rows = errors.shape
    rows = errors.mean(axis=0).std(ddof=1) / np.sqrt(n_rows) * stats.norm.ppf(0.5 + level / 2)
    if n_repeats == 1:
        return float(rows)
    spread = errors.mean(axis=1).std(ddof=1) / np.sqrt(n_repeats)
    return float(np.hypot(rows, spread * stats.t.ppf(0.5 + level / 2, n_repeats - 1)))


def compare(first: np.ndarray, second: np.ndarray) -> Difference:
    """Return how much lower (negative) the first errors are, (repeats, rows) each, pairwise.

    The p-value belongs to the interval that ends at zero.
    """
    difference = first - second
    mean, half = float(difference.mean()), half_width(difference)

    def excess(log_p: float) -> float:
        return half_width(difference, 1.0 - float(np.exp(log_p))) - abs(mean)

    if half == 0 or excess(LEAST_LOG_P) < 0:
        return Difference(mean, half, float(np.exp(LEAST_LOG_P)) if mean else 1.0)
    if mean == 0:
        return Difference(mean, half, 1.0)
    return Difference(mean, half, float(np.exp(brentq(excess, LEAST_LOG_P, 0.0))))


def repeats_half_width(errors: np.ndarray) -> float:
    """Return half the 95 % interval over repeats alone: the band of a curve."""
    means = errors.mean(axis=1)
    if len(means) == 1:
        return 0.0
    t = stats.t.ppf(0.5 + LEVEL / 2, len(means) - 1)
    return float(t * means.std(ddof=1) / np.sqrt(len(means)))


def holm(p_values: list[float]) -> list[float]:
    """Return p-values corrected for their number (Holm), so that 0.05 is for all at once."""
    order = np.argsort(p_values)
    corrected = np.empty(len(p_values))
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = highest
    return corrected.tolist()


def mean_and_half(values: list[float]) -> dict[str, float]:
    """Return the mean of a few numbers and half its 95 % interval (Student's t)."""
    half = repeats_half_width(np.array(values)[:, None])
    return {"mean": float(np.mean(values)), "half": half}
