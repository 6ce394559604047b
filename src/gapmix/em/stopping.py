"""When to stop climbing: an estimate of what is still to be gained, not of the last gain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WINDOW = 3  # passes whose gains are taken together: proposals gain unevenly
N_LOOKED_AT = 2 * WINDOW + 1  # objectives that the estimate looks at
N_AGREEING = 2  # passes in a row whose estimates must be small: one may be so by chance
# Gains of proposals shrink unevenly, and estimates fell short by up to seven times where much is
# missing: `python -m benchmarks.convergence` shows the iterations that caution costs.
CAUTION = 3.0
LARGEST_RATIO = 0.999  # of successive gains; beyond, the limit is too far to be told
# Gains per row below which EM only creeps. Larger ones may still be choosing between optima, and a
# long proposal would choose another, so proposals are kept short then, or are not made at all; one
# component has one optimum.
STEADY_GAIN, STEADY_GAIN_ALONE = 1e-4, 1e-2
BRISK_GAIN, BRISK_REACH = 1e-3, 2.0
NOISE = 8.0  # gains of so many units in the last place are rounding error


def to_limit(objectives: Sequence[float]) -> float:
    """Return how far the limit of rising objectives seems to be above the last, by Aitken.

    Gains that shrink by a factor r from one to the next add up to gain r / (1 - r) from here on.
    Infinite for fewer than three objectives.
    """
    window = min(WINDOW, (len(objectives) - 1) // 2)
    if window < 1:
        return np.inf
    start, middle, end = (objectives[-1 - window * back] for back in (2, 1, 0))
    gain, before = end - middle, middle - start
    if gain <= rounding_error(objectives):
        return 0.0
    ratio = min(gain / before, LARGEST_RATIO) if before > 0.0 else LARGEST_RATIO
    return gain * ratio / (1.0 - ratio)


def rounding_error(objectives: Sequence[float]) -> float:
    """Return how large a gain may be and still be rounding error.

    A proposal that falls is rejected and a plain step of EM cannot fall, so a fall between accepted
    objectives shows the error itself: on ill-conditioned tables far more than the last places.
    """
    fall = -float(np.diff(objectives).min(initial=0.0))
    return max(NOISE * float(np.spacing(abs(objectives[-1]))), fall)


def longest_step(objectives: Sequence[float], n_components: int) -> float:
    """Return how many times as long as the plain step a proposal may be; 1 asks for plain steps."""
    if len(objectives) < 2:
        return 1.0
    gain = objectives[-1] - objectives[-2]
    if gain < (STEADY_GAIN_ALONE if n_components == 1 else STEADY_GAIN):
        return np.inf
    return BRISK_REACH if gain < BRISK_GAIN else 1.0
