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
