"""Which known cells to hide from an imputer, to see how it fills them."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import rankdata

MECHANISMS = {
    "mcar": "any known cell, with the same chance",
    "patterns": "the gaps of another row of the table",
    "mar": "the likelier, the larger the value of another column",
}
STEEPNESS = 1.0  # of "mar": log odds of being hidden for each standard deviation of a rank


def hide(
    x: np.ndarray,
    mechanism: str,
    rng: np.random.Generator,
    *,
    share: float = 0.2,
    driver: int = 0,
) -> np.ndarray:
    """Return True for the known cells to hide, (n, d); every row and column keeps some value.

    For "mar", the chance depends on column `driver` alone, which is never hidden, and is `share`
    in rows that lack it.
    """
    observed = ~np.isnan(x)
    if mechanism == "patterns":
        n = len(x)
        other = (np.arange(n) + rng.integers(1, n, size=n)) % n  # never the row itself
        hidden = observed & ~observed[other]
    elif mechanism == "mar":
        chance = _chances(x[:, driver], share)
        hidden = observed & (rng.random(x.shape) < chance[:, None])
        hidden[:, driver] = False
    else:
        hidden = observed & (rng.random(x.shape) < share)
    bare = np.flatnonzero(hidden.any(axis=1) & ~(observed & ~hidden).any(axis=1))
    spared = np.where(hidden[bare], rng.random((bare.size, x.shape[1])), -1.0).argmax(axis=1)
    hidden[bare, spared] = False
    # A column needs two values for its spread; of one that would lose them, nothing is hidden.
    hidden[:, (observed & ~hidden).sum(axis=0) < 2] = False
    return hidden


def _chances(values: np.ndarray, share: float) -> np.ndarray:
    """Return chances that rise with the rank of a value and are `share` on average, (n,)."""
    chances = np.full(len(values), share)
    known = ~np.isnan(values)
    rank = rankdata(values[known])
    spread = rank.std()
    if spread > 0:
        slope = STEEPNESS * (rank - rank.mean()) / spread
        level = brentq(lambda shift: expit(shift + slope).mean() - share, -30.0, 30.0)
        chances[known] = expit(level + slope)
    return chances
