"""Slopes with a few small trees on top of them: what lines leave, boosted step by step.

Tables of heads are small and there is one for every column, so that trees are grown here, on bins
of a few values, in a fraction of the time that a library of large trees takes to begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.utils.extmath import softmax

from gapmix.heads.trees import LEAF, Trees, add_up
from gapmix.kernels import load

MOST_BINS = 32  # of a feature
ROUNDING = 1e-9  # of shares that are added up


class Growth(NamedTuple):
    """How trees are grown."""

    n_trees: int = 25  # for each output
    rate: float = 0.2  # of its step that each tree goes
    depth: int = 3
    least: int = 10  # rows of a leaf
    penalty: float = 1.0  # rows that speak for no step


class Binned(NamedTuple):
    """Features in bins."""

    bins: np.ndarray  # (n, p) uint8
    edges: list[np.ndarray]  # of each feature: bin b ends at edge b


def boost(
    slopes: Trees,
    features: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    n_levels: int,
    growth: Growth,
) -> Trees:
    """Return slopes with trees on top: Newton's steps of squared error, or of the log score.

    `target` (n,) are numbers, or if there are `n_levels`, places of levels.
    """
    binned = put_in_bins(features, weight)
    raw = add_up(slopes, features)  # (n, k)
    k = raw.shape[1]
    weight = weight / weight.mean()
    own = target[:, None] == (np.arange(k) if k > 1 else 1.0) if n_levels else target[:, None]
    n_nodes = 2 ** (growth.depth + 1) - 1
    node = np.empty(len(features), dtype=np.int64)
    grown = []
    for _ in range(growth.n_trees):
        told = raw if not n_levels else softmax(raw) if k > 1 else expit(raw)
        grad = np.ascontiguousarray((weight[:, None] * (told - own)).T)
        curved = told * (1.0 - told) if n_levels else np.ones_like(told)
        hess = np.ascontiguousarray((weight[:, None] * curved).T)
        for output in range(k):
            feature, place = (np.full(n_nodes, LEAF, dtype=np.int64) for _ in range(2))
            value = np.zeros(n_nodes)
            load("growing").grow_tree(
                *(binned.bins, MOST_BINS, grad[output], hess[output]),
                *(growth.least, growth.penalty, feature, place, value, node),
            )
            value *= growth.rate
            raw[:, output] += value[node]
            grown.append((feature, place, value))
    return _join(slopes, grown, binned.edges)


def put_in_bins(features: np.ndarray, weight: np.ndarray) -> Binned:
    """Return features in bins of about as many rows each; few values have a bin each."""
    bins, edges = np.empty(features.shape, dtype=np.uint8), []
    for j, column in enumerate(features.T):
        values, of_row = np.unique(column, return_inverse=True)
        last = np.arange(len(values) - 1)  # of a bin
        if len(values) > MOST_BINS:
            share = np.cumsum(np.bincount(of_row, weight)) / weight.sum() + ROUNDING
            last = np.unique(np.searchsorted(share, np.arange(1, MOST_BINS) / MOST_BINS))
            last = last[last < len(values) - 1]
        edges.append(0.5 * (values[last] + values[last + 1]))
        bins[:, j] = np.searchsorted(edges[-1], column)
    return Binned(bins, edges)


def _join(
    slopes: Trees, grown: list[tuple[np.ndarray, np.ndarray, np.ndarray]], edges: list[np.ndarray]
) -> Trees:
    """Return slopes with trees, of which only the nodes that are reached are kept."""
    start, parts = [0], []
    for feature, place, value in grown:
        used = np.zeros(len(feature), dtype=bool)
        used[0] = True
        for node in np.flatnonzero(feature >= 0):
            used[[2 * node + 1, 2 * node + 2]] = True
        inner = feature[used] >= 0
        number = np.cumsum(used) - 1 + start[-1]
        at = np.flatnonzero(used)
        below = np.where(inner, 2 * at + 1, 0)
        threshold = [edges[f][b] if f >= 0 else 0.0 for f, b in zip(feature, place, strict=True)]
        parts.append(
            (
                np.where(inner, feature[used], 0),
                np.array(threshold)[used],
                np.where(inner, number[below], LEAF),
                np.where(inner, number[np.where(inner, below + 1, 0)], LEAF),
                np.where(inner, 0.0, value[used]),
            )
        )
        start.append(start[-1] + len(at))
    nodes = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return slopes._replace(
        start=np.array(start, dtype=np.int64),
        feature=nodes[0].astype(np.int64),
        threshold=nodes[1],
        left=nodes[2].astype(np.int64),
        right=nodes[3].astype(np.int64),
        value=nodes[4],
    )
