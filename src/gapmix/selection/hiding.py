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
    columns: np.ndarray | None = None,
) -> np.ndarray:
    """Return True for the known cells to hide, (n, d), of `columns` only if they are given.

    For "mar", the chance depends on column `driver` alone, which is never hidden, and is `share`
    in rows that lack it.
    """
    observed = ~np.isnan(x)
    if mechanism == "patterns":
        n = len(x)
        other = (np.arange(n) + rng.integers(1, n, size=n)) % n  # never the row itself
        hidden = observed & ~observed[other]
    elif mechanism == "mar":
        hidden = draw_cells(observed, rng, _chances(x[:, driver], share)[:, None])
        hidden[:, driver] = False
    else:
        hidden = draw_cells(observed, rng, share)
    return leave_some(observed, hidden, columns, rng)


def draw_cells(
    observed: np.ndarray, rng: np.random.Generator, chance: float | np.ndarray
) -> np.ndarray:
    """Return True for known cells drawn with a chance, one for all or (n, 1) by row; (n, d)."""
    return np.asarray(observed & (rng.random(observed.shape) < chance))


def leave_some(
    observed: np.ndarray,
    hidden: np.ndarray,
    columns: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Return the cells that may be hidden of those that were drawn, (n, d): the rule for all.

    Cells outside of `columns` stay. Every row keeps a value, since one without any says nothing:
    of a row that would lose all, one drawn by `rng` is spared. Every column keeps two values, which
    its spread takes: of one that would not, nothing is hidden.

    Without `rng`, for the choice of a size, whose fits stay what they were, a row or a column that
    would lose all keeps its first cell, and no more.
    """
    hidden = hidden.copy()
    if columns is not None:
        hidden[:, np.setdiff1d(np.arange(hidden.shape[1]), columns)] = False
    bare = np.flatnonzero(hidden.any(axis=1) & (hidden == observed).all(axis=1))
    if rng is None:
        hidden[bare, hidden[bare].argmax(axis=1)] = False
        lost = np.flatnonzero(hidden.any(axis=0) & (hidden == observed).all(axis=0))
        hidden[hidden[:, lost].argmax(axis=0), lost] = False
    else:
        order = np.where(hidden[bare], rng.random((bare.size, hidden.shape[1])), -1.0)
        hidden[bare, order.argmax(axis=1)] = False
        hidden[:, (observed & ~hidden).sum(axis=0) < 2] = False
    return hidden


def _chances(values: np.ndarray, share: float) -> np.ndarray:
    """Return chances that rise with the rank of a value and are `share` on average, (n,)."""
    chances = np.full(len(values), share)
    known = ~np.isnan(values)
    rank = rankdata(values[known])
    spread = rank.std() if rank.size else 0.0
    if spread > 0:
        slope = STEEPNESS * (rank - rank.mean()) / spread
        level = brentq(lambda shift: expit(shift + slope).mean() - share, -30.0, 30.0)
        chances[known] = expit(level + slope)
    return chances
