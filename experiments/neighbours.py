"""Filling gaps from the nearest rows that have the value."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import nan_euclidean_distances


def measure(rows: np.ndarray, donors: np.ndarray) -> np.ndarray:
    """Return squared distances over the columns that both rows show, scaled up to all columns.

    Rows with nothing in common are infinitely far.
    """
    far = nan_euclidean_distances(rows, donors, squared=True)
    return np.where(np.isnan(far), np.inf, far)


def fill_nearest(x: np.ndarray, donors: np.ndarray, distance: np.ndarray, k: int) -> np.ndarray:
    """Return x with every gap filled by the mean over the k nearest donors that have the value.

    A row that is its own donor does not have the value, so it is never asked.
    """
    filled = x.copy()
    for j in np.flatnonzero(np.isnan(x).any(axis=0)):
        rows = np.flatnonzero(np.isnan(x[:, j]))
        have = np.flatnonzero(~np.isnan(donors[:, j]))
        nearest = np.argpartition(distance[np.ix_(rows, have)], min(k, len(have)) - 1, axis=1)
        filled[rows, j] = donors[have[nearest[:, :k]], j].mean(axis=1)
    return filled


def fill_from_whole(
    x: np.ndarray, donors: np.ndarray, distance: np.ndarray, k: int
) -> tuple[np.ndarray, float]:
    """Return x filled from the k nearest donors that have *all* values the row lacks.

    Where no donor has them all, the nearest of those that have most of them gives what it has, with
    the others that have the same; the rest is asked for in the same way. Also returns the share of
    incomplete rows where that happened.
    """
    filled, have, lacking = x.copy(), ~np.isnan(donors), np.isnan(x)
    n_short = 0
    for i in np.flatnonzero(lacking.any(axis=1)):
        wanted = lacking[i].copy()
        n_short += int((have & wanted).sum(axis=1).max() < wanted.sum())
        while wanted.any():
            n_have = (have & wanted).sum(axis=1)
            best = np.flatnonzero(n_have == n_have.max())
            near = best[np.argsort(distance[i, best], kind="stable")]
            given = wanted & have[near[0]]
            alike = near[((have[near] & wanted) == given).all(axis=1)][:k]
            filled[i, given] = donors[alike][:, given].mean(axis=0)
            wanted &= ~given
    return filled, n_short / max(1, int(lacking.any(axis=1).sum()))
