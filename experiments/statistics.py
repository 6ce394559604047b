"""How sure a difference is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.95


class Difference(NamedTuple):
    """A mean difference, half the width of its 95 % interval, and its degrees of freedom."""

    mean: float
    half: float
    freedom: float = np.inf

    @property
    def below(self) -> bool:
        """Tell whether it is surely negative."""
        return self.mean + self.half < 0

    @property
    def above(self) -> bool:
        """Tell whether it is surely positive."""
        return self.mean - self.half > 0


def measure_spread(errors: np.ndarray) -> tuple[float, float]:
    """Return the standard error of the mean of (repeats, rows), and its degrees of freedom.

    Two things could have come out differently: the gaps (repeats) and the test rows, which all
    repeats share. Their variances add; degrees of freedom are Satterthwaite's.
    """
    n_repeats, n_rows = errors.shape
    parts = [(errors.mean(axis=0).var(ddof=1) / n_rows, n_rows - 1)]
    if n_repeats > 1:
        parts.append((errors.mean(axis=1).var(ddof=1) / n_repeats, n_repeats - 1))
    total = sum(variance for variance, _ in parts)
    if total == 0:
        return 0.0, np.inf
    return float(np.sqrt(total)), float(total**2 / sum(v**2 / n for v, n in parts))


def half_width(errors: np.ndarray) -> float:
    """Return half the 95 % interval of the mean of (repeats, rows)."""
    error, freedom = measure_spread(errors)
    return float(error * stats.t.ppf(0.5 + LEVEL / 2, freedom))


def compare(first: np.ndarray, second: np.ndarray) -> Difference:
    """Return how much lower (negative) the first errors are, (repeats, rows) each, pairwise."""
    difference = first - second
    freedom = measure_spread(difference)[1]
    return Difference(float(difference.mean()), half_width(difference), freedom)


def repeats_half_width(errors: np.ndarray) -> float:
    """Return half the 95 % interval over repeats alone: the band of a curve."""
    means = errors.mean(axis=1)
    if len(means) == 1:
        return 0.0
    t = stats.t.ppf(0.5 + LEVEL / 2, len(means) - 1)
    return float(t * means.std(ddof=1) / np.sqrt(len(means)))


def p_value(difference: Difference) -> float:
    """Return the two-sided p-value that goes with the interval of a difference."""
    if difference.half == 0:
        return 0.0 if difference.mean else 1.0
    t = abs(difference.mean) / difference.half * stats.t.ppf(0.5 + LEVEL / 2, difference.freedom)
    return float(2.0 * stats.t.sf(t, difference.freedom))


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
