"""Slopes with small trees on top of them: what lines leave, boosted step by step.

Tables of heads are small and there is one for every column, so that trees are grown here, on bins
of a few values, in a fraction of the time that a library of large trees takes to begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.heads.bins import Binned, count_bins, find_thresholds, find_varying
from gapmix.heads.trees import LEAF, Trees, add_up
from gapmix.kernels import load


class Growth(NamedTuple):
    """How trees are grown."""

    n_trees: int  # for each output
    rate: float  # of its step that each tree goes
    seed: int
    depth: int = 5
    least: int = 5  # rows of a leaf
    penalty: float = 1.0  # rows that speak for no step
    share: float = 0.5  # of the features that a tree may use


def boost(
    slopes: Trees,
    features: np.ndarray,
    binned: Binned,
    target: np.ndarray,
    weight: np.ndarray,
    n_levels: int,
    growth: Growth,
) -> Trees:
    """Return slopes with trees on top: Newton's steps of squared error, or of the log score.

    `target` (n,) are numbers, or if there are `n_levels`, places of levels.
    """
    raw = add_up(slopes, features)  # (n, k)
    k = raw.shape[1]
    weight = weight / weight.mean()
    own = target[:, None] == (np.arange(k) if k > 1 else 1.0) if n_levels else target[:, None]
    n_nodes, n_bins = 2 ** (growth.depth + 1) - 1, count_bins(binned)
    rng = np.random.default_rng([growth.seed, 4])
    varying = find_varying(binned)
    if not varying.size:
        return slopes
    n_used, n_trees = int(np.ceil(growth.share * len(varying))), growth.n_trees * k
    used = np.stack([np.sort(rng.permutation(varying)[:n_used]) for _ in range(n_trees)])
    feature, place = (np.full((n_trees, n_nodes), LEAF, dtype=np.int64) for _ in range(2))
    value = np.zeros((n_trees, n_nodes))
    load("growing").boost_trees(
        *(binned.bins, n_bins, used, own.astype(float), weight, raw, n_levels > 0),
        *(growth.least, growth.penalty, growth.rate, feature, place, value),
    )
    return _join(slopes, feature, place, value, binned.edges)


def _join(
    slopes: Trees,
    feature: np.ndarray,
    place: np.ndarray,
    value: np.ndarray,
    edges: list[np.ndarray],
) -> Trees:
    """Return slopes with trees (T, M), of which only the nodes that are reached are kept."""
    n_trees, n_nodes = feature.shape
    used = np.zeros((n_trees, n_nodes), dtype=bool)
    used[:, 0] = True
    below = 2 * np.arange(n_nodes // 2) + 1  # left children
    used[:, below] = used[:, below + 1] = feature[:, : n_nodes // 2] >= 0
    number = (np.cumsum(used) - 1).reshape(used.shape)
    left, right = (np.full(used.shape, LEAF, dtype=np.int64) for _ in range(2))
    inner = feature >= 0
    left[:, : n_nodes // 2], right[:, : n_nodes // 2] = number[:, below], number[:, below + 1]
    return slopes._replace(
        start=np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64),
        feature=np.where(inner, feature, 0)[used],
        threshold=find_thresholds(edges, feature[used], place[used]),
        left=np.where(inner, left, LEAF)[used],
        right=np.where(inner, right, LEAF)[used],
        value=np.where(inner, 0.0, value)[used][:, None],
    )
