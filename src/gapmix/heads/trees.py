"""Boosted trees as arrays: taken from scikit-learn's, evaluated here with the same numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils.extmath import softmax

from gapmix.kernels import load

BOOSTED = (HistGradientBoostingRegressor, HistGradientBoostingClassifier)
LEAF = -1  # the children of a node that has none


class Trees(NamedTuple):
    """Trees that are added up, after one another; a node comes before its children."""

    baseline: np.ndarray  # (k,) what the sums of each output begin with
    start: np.ndarray  # (T + 1,) nodes of tree t are start[t] to start[t + 1]; output t % k
    feature: np.ndarray  # (N,) which feature a node asks for
    threshold: np.ndarray  # (N,) rows up to it go to the left
    left: np.ndarray  # (N,) numbers of nodes, LEAF in leaves
    right: np.ndarray  # (N,)
    value: np.ndarray  # (N,) what leaves add


def to_trees(model: Any) -> Trees | None:
    """Return a fitted model of scikit-learn as arrays, None if it is no boosting of plain trees."""
    if type(model) not in BOOSTED or getattr(model, "is_categorical_", None) is not None:
        return None
    if isinstance(model, HistGradientBoostingRegressor) and model.loss != "squared_error":
        return None
    each = [tree.nodes for turn in model._predictors for tree in turn]
    start = np.cumsum([0, *map(len, each)])
    nodes = np.concatenate(each)
    leaf = nodes["is_leaf"].astype(bool)
    first = np.repeat(start[:-1], np.diff(start))
    left, right = (
        np.where(leaf, LEAF, nodes[name].astype(np.int64) + first) for name in ("left", "right")
    )
    return Trees(
        np.array(model._baseline_prediction, dtype=float).reshape(-1),
        start.astype(np.int64),
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(float),
        left,
        right,
        nodes["value"].astype(float),
    )


def add_up(trees: Trees, x: np.ndarray) -> np.ndarray:
    """Return the sums over trees for rows of features (n, p), (n, k)."""
    total = np.tile(trees.baseline, (len(x), 1))
    load("boosted").add_trees(np.ascontiguousarray(x), *trees[2:], trees.start, total)
    return total


def tell_levels(trees: Trees, x: np.ndarray) -> np.ndarray:
    """Return the probabilities of levels for rows of features (n, p), (n, levels)."""
    raw = add_up(trees, x)
    if raw.shape[1] > 1:
        return np.asarray(softmax(raw))
    up = expit(raw[:, 0])
    return np.column_stack([1.0 - up, up])


def find_fault(trees: Trees, n_features: int, n_outputs: int) -> str:
    """Return what is wrong with trees that came from a file, nothing if all is well.

    Children have larger numbers than their node, within its tree: no row goes round in circles.
    """
    baseline, start, feature, threshold, left, right, value = trees
    n = len(feature)
    if any(len(each) != n for each in (threshold, left, right, value)):
        return "its arrays of nodes differ in length"
    if baseline.shape != (n_outputs,) or len(start) < 1 or (len(start) - 1) % n_outputs:
        return f"{len(start) - 1} trees cannot be shared by {n_outputs} outputs"
    if start[0] != 0 or start[-1] != n or (np.diff(start) < 1).any():
        return f"the trees do not divide {n} nodes among them"
    if not all(np.isfinite(each).all() for each in (baseline, threshold, value)):
        return "a threshold or a value is not finite"
    if ((feature < 0) | (feature >= n_features)).any():
        return f"a node asks for a feature beyond the {n_features} there are"
    inner = (left != LEAF) | (right != LEAF)
    own, end = np.arange(n), np.repeat(start[1:], np.diff(start))
    for child in (left, right):
        if (inner & ((child <= own) | (child >= end))).any():
            return "a node has a child that is not behind it in its tree"
    return ""
