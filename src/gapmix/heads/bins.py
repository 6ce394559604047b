"""Features in bins, on which trees are grown."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST_BINS = 64  # of a feature, and
ROWS_PER_BIN = 2  # where there are few rows
ROUNDING = 1e-9  # of shares that are added up


class Binned(NamedTuple):
    """Features in bins."""

    bins: np.ndarray  # (n, p) uint8
    edges: list[np.ndarray]  # of each feature: bin b ends at edge b


def take_bins(binned: Binned, rows: np.ndarray) -> Binned:
    """Return the bins of some rows."""
    return binned._replace(bins=binned.bins[rows])


def see_only(binned: Binned, features: np.ndarray) -> Binned:
    """Return the bins with all but some features, given by their numbers, as if absent."""
    seen = set(features.tolist())
    edges = [each if j in seen else each[:0] for j, each in enumerate(binned.edges)]
    return binned._replace(edges=edges)


def find_varying(binned: Binned) -> np.ndarray:
    """Return the features that vary: the others, as those of an empty column, are as if absent."""
    return np.flatnonzero([len(each) > 0 for each in binned.edges])


def count_bins(binned: Binned) -> int:
    """Return the number of bins of the feature that has most."""
    return 1 + max((len(each) for each in binned.edges), default=0)


def put_in_bins(features: np.ndarray, weight: np.ndarray) -> Binned:
    """Return features in bins of about as many rows each; few values have a bin each."""
    bins, edges = np.empty(features.shape, dtype=np.uint8), []
    most = max(2, min(MOST_BINS, len(features) // ROWS_PER_BIN))
    for j, column in enumerate(features.T):
        values, of_row = np.unique(column, return_inverse=True)
        last = np.arange(len(values) - 1)  # of a bin
        if len(values) > most:
            share = np.cumsum(np.bincount(of_row, weight)) / weight.sum() + ROUNDING
            last = np.unique(np.searchsorted(share, np.arange(1, most) / most))
            last = last[last < len(values) - 1]
        edges.append(0.5 * (values[last] + values[last + 1]))
        bins[:, j] = np.searchsorted(edges[-1], column)
    return Binned(bins, edges)


def find_thresholds(edges: list[np.ndarray], feature: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return up to which value of its feature rows go left in each node, 0 in leaves, (N,)."""
    first = np.cumsum([0, *map(len, edges)])
    inner, joined = feature >= 0, np.concatenate(edges)
    found = np.zeros(len(feature))
    found[inner] = joined[first[feature[inner]] + place[inner]]
    return found
