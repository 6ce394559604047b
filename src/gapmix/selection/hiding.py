"""Which known cells to hide from an imputer, to see how it fills them."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import rankdata

from gapmix.plan.canonical import draw_uniform, name_levels, put_in_order

MECHANISMS = {
    "mcar": "any known cell, with the same chance",
    "patterns": "the gaps of another row of the table",
    "mar": "more likely where another column is large",
}
SHARE = 0.2  # of the known cells or rows that is hidden, unless something else is asked for
STEEPNESS = 1.0  # of "mar": log odds of being hidden for each standard deviation of a rank


def hide(
    x: np.ndarray,
    mechanism: str,
    rng: np.random.Generator,
    *,
    share: float = SHARE,
    driver: int = 0,
    columns: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    n_levels: np.ndarray | None = None,
) -> np.ndarray:
    """Return True for the known cells to hide, (n, d), of `columns` only if they are given.

    Units, places of columns and names of levels (columns with `n_levels` (d,) above 0 hold codes of
    categories) do not matter. Copies of a row are hidden alike, as one row of their `weight` (n,)
    would be, except in tables of categories that have few distinct rows.

    For "mar", the chance depends on column `driver` alone, which is never hidden, and is `share`
    in rows that lack it.
    """
    observed = ~np.isnan(x)
    drawn = draw_uniform(x, np.ones(len(x)) if weight is None else weight, rng, n_levels)
    if mechanism == "patterns":
        n = len(x)
        other = (np.arange(n) + rng.integers(1, n, size=n)) % n  # never the row itself
        hidden = observed & ~observed[other]
    elif mechanism == "mar":
        hidden = observed & (drawn < _chances(x[:, driver], share)[:, None])
        hidden[:, driver] = False
    else:
        hidden = observed & (drawn < share)
    return leave_some(observed, hidden, drawn, columns)


def leave_some(
    observed: np.ndarray,
    hidden: np.ndarray,
    drawn: np.ndarray,
    columns: np.ndarray | None = None,
) -> np.ndarray:
    """Return the cells that may be hidden of those that are to be, (n, d): the rule for all.

    Cells outside of `columns` stay. Every row keeps a value, since one without any says nothing:
    of a row that would lose all, the cell with the largest number `drawn` (n, d) is spared. Every
    column keeps two values, which its spread takes: of one that would not, nothing is hidden.
    """
    hidden = hidden.copy()
    if columns is not None:
        hidden[:, np.setdiff1d(np.arange(hidden.shape[1]), columns)] = False
    bare = np.flatnonzero(hidden.any(axis=1) & (hidden == observed).all(axis=1))
    hidden[bare, np.where(hidden[bare], drawn[bare], -1.0).argmax(axis=1)] = False
    hidden[:, (observed & ~hidden).sum(axis=0) < 2] = False
    return hidden


def hide_rows(
    x: np.ndarray,
    weight: np.ndarray,
    rng: np.random.Generator,
    n_levels: np.ndarray | None = None,
) -> np.ndarray:
    """Return True for the known cells of the rows to hide, (n, d): a fifth of the distinct rows."""
    order = put_in_order(name_levels(x, weight, n_levels), weight)
    m = len(order.rows)
    chosen = np.zeros(m, dtype=bool)
    chosen[rng.permutation(m)[: int(SHARE * m)]] = True
    return ~np.isnan(x) & chosen[order.which, None]


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
