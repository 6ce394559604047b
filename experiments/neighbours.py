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
