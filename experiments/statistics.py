"""How sure a difference is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.95


class Difference(NamedTuple):
    """A mean difference and half the width of its 95 % interval."""

    mean: float
    half: float

    @property
    def below(self) -> bool:
        """Tell whether it is surely negative."""
        return self.mean + self.half < 0

    @property
    def above(self) -> bool:
        """Tell whether it is surely positive."""
        return self.mean - self.half > 0


def half_width(errors: np.ndarray) -> float:
    """Return half the 95 % interval of the mean of (repeats, rows).

    Two things could have come out differently: the gaps (repeats; Student's t) and the test rows,
    which all repeats share (normal). Their variances add.
    """
    n_repeats, n_rows = errors.shape
    rows = errors.mean(axis=0).std(ddof=1) / np.sqrt(n_rows) * stats.norm.ppf(0.5 + LEVEL / 2)
    if n_repeats == 1:
        return float(rows)
    spread = errors.mean(axis=1).std(ddof=1) / np.sqrt(n_repeats)
    return float(np.hypot(rows, spread * stats.t.ppf(0.5 + LEVEL / 2, n_repeats - 1)))


def compare(first: np.ndarray, second: np.ndarray) -> Difference:
    """Return how much lower (negative) the first errors are, (repeats, rows) each, pairwise."""
    difference = first - second
    return Difference(float(difference.mean()), half_width(difference))


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
    z = abs(difference.mean) / difference.half * stats.norm.ppf(0.5 + LEVEL / 2)
    return float(2.0 * stats.norm.sf(z))


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
