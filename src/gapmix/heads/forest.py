"""Forests: many deep trees on the same rows, each split at cuts drawn at random.

Where boosted trees correct what lines leave, a forest tells a column anew, from what is filled into
the other columns alone: it finds rows that are alike. What the mixture says of the column itself,
and where gaps are, would part them. The two err in different ways, so that both together err less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.heads.bins import Binned, find_thresholds, find_varying
from gapmix.heads.trees import LEAF, Trees
from gapmix.kernels import load

DEEPEST = 60  # levels of nodes, which few trees need
MANY_LEAVES = 1_000  # of a tree, about: rows that are many more share them


class Planting(NamedTuple):
    """How a forest is grown."""

    n_trees: int
    seed: int
    least: int = 1  # rows of a leaf, of few rows
    alone: bool = True  # whether it sees only the other columns


def plant(
    binned: Binned,
    target: np.ndarray,
    weight: np.ndarray,
    n_levels: int,
    planting: Planting,
) -> Trees:
    """Return a forest of rows in canonical order: leaves that are added up are its mean.

    `target` (n,) are numbers, or if there are `n_levels`, their places, whose shares it tells.
    """
    n, varying = len(target), find_varying(binned)
    bins = np.ascontiguousarray(binned.bins[:, varying])
    rng = np.random.default_rng([planting.seed, 3])
    baseline = np.zeros(max(1, n_levels))
    level, amount = np.zeros(n, dtype=np.int64), np.ones(n)
    if n_levels:
        level = target.astype(np.int64)
    else:
        baseline[0] = np.average(target, weights=weight)
        amount = target - baseline[0]
    least = planting.least + n // MANY_LEAVES
    most = 2 * max(1, n // least) - 1  # nodes there can be
    n_trees = planting.n_trees
    nodes = np.empty((3, n_trees, most), dtype=np.int64)
    values, counts = np.empty((n_trees, most, len(baseline))), np.empty(n_trees, dtype=np.int64)
    chance = rng.random((n_trees, most * len(varying)))
    load("growing").plant_trees(
        *(bins, level, amount, weight, least, DEEPEST, chance, *nodes, values, counts)
    )
    is_node = np.arange(most) < counts[:, None]
    (feature, place, left), value = nodes[:, is_node], values[is_node]
    start = np.concatenate([[0], np.cumsum(counts)])
    first = np.repeat(start[:-1], counts)
    leaf = left < 0
    feature[~leaf] = varying[feature[~leaf]]
    return Trees(
        baseline,
        start.astype(np.int64),
        np.where(leaf, 0, feature),
        find_thresholds(binned.edges, feature, place),
        np.where(leaf, LEAF, left + first),
        np.where(leaf, LEAF, left + first + 1),
        np.where(leaf[:, None], value / n_trees, 0.0),
        np.empty((len(baseline), 0)),
    )
