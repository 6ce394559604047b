"""Sums of slopes and trees as arrays: taken from scikit-learn's learners, evaluated here."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.extmath import softmax

from gapmix.kernels import load

LINEAR = (Ridge, LogisticRegression)
LARGEST = 1e50  # standard deviations, or log odds, that leaves and slopes may add
LEAF = -1  # the children of a node that has none


class Trees(NamedTuple):
    """Slopes, or trees one after another, that are added up; a node comes before its children."""

    baseline: np.ndarray  # (k,) what the sums of each output begin with
    start: np.ndarray  # (T + 1,) nodes of tree t are start[t] to start[t + 1]
    feature: np.ndarray  # (N,) which feature a node asks for
    threshold: np.ndarray  # (N,) rows up to it go to the left
    left: np.ndarray  # (N,) numbers of nodes, LEAF in leaves
    right: np.ndarray  # (N,)
    value: np.ndarray  # (N, k) what leaves add; (N, 1) to outputs by turns
    slope: np.ndarray  # (k, p) what features add; (k, 0) of trees


def without_trees(baseline: np.ndarray) -> Trees:
    """Return a sum that is the same for all rows, (k,)."""
    no, none = np.empty(0, dtype=np.int64), np.empty(0)
    slope = np.empty((len(baseline), 0))
    return Trees(baseline, np.zeros(1, np.int64), no, none, no, no, none[:, None], slope)


def to_trees(model: Any) -> Trees | None:
    """Return a fitted model of scikit-learn as arrays, None if it has neither slopes nor trees."""
    if type(model) in LINEAR:
        slope = np.ascontiguousarray(np.atleast_2d(model.coef_))
        baseline = np.broadcast_to(np.asarray(model.intercept_, dtype=float), len(slope)).copy()
        return without_trees(baseline)._replace(slope=slope)
    if not _is_boosted(model) or getattr(model, "is_categorical_", None) is not None:
        return None
    each = [tree.nodes for turn in model._predictors for tree in turn]
    start = np.cumsum([0, *map(len, each)])
    nodes = np.concatenate(each)
    leaf = nodes["is_leaf"].astype(bool)
    first = np.repeat(start[:-1], np.diff(start))
    left, right = (
        np.where(leaf, LEAF, nodes[name].astype(np.int64) + first) for name in ("left", "right")
    )
    baseline = np.array(model._baseline_prediction, dtype=float).reshape(-1)
    return Trees(
        baseline,
        start.astype(np.int64),
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(float),
        left,
        right,
        nodes["value"].astype(float)[:, None],
        np.empty((len(baseline), 0)),
    )


def _is_boosted(model: Any) -> bool:
    """Tell whether a model has boosted trees that add up to what it predicts.

    Whoever has one has imported its module, which takes as long as all the rest of `heads`.
    """
    ensemble = sys.modules.get("sklearn.ensemble")
    if ensemble is None:
        return False
    if type(model) is ensemble.HistGradientBoostingRegressor:
        return bool(model.loss == "squared_error")
    return type(model) is ensemble.HistGradientBoostingClassifier


def add_up(trees: Trees, x: np.ndarray) -> np.ndarray:
    """Return the sums over slopes or trees for rows of features (n, p), (n, k)."""
    total = np.tile(trees.baseline, (len(x), 1))
    x = np.ascontiguousarray(x)
    if trees.slope.size:
        load("boosted").add_slopes(x, trees.slope, total)
    load("boosted").add_trees(x, *trees[2:7], trees.start, total)
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
    baseline, start, feature, threshold, left, right, value, slope = trees
    n = len(feature)
    if any(len(each) != n for each in (threshold, left, right, value)):
        return "its arrays of nodes differ in length"
    if value.ndim != 2 or value.shape[1] not in (1, n_outputs):
        return f"leaves of shape {value.shape} cannot be shared by {n_outputs} outputs"
    n_trees = (len(start) - 1) * value.shape[1]
    if baseline.shape != (n_outputs,) or len(start) < 1 or n_trees % n_outputs:
        return f"{len(start) - 1} trees cannot be shared by {n_outputs} outputs"
    if start[0] != 0 or start[-1] != n or (np.diff(start) < 1).any():
        return f"the trees do not divide {n} nodes among them"
    if slope.size not in (0, n_outputs * n_features):
        return f"{slope.size} slopes cannot be shared by {n_features} features"
    if not all(np.isfinite(each).all() for each in (baseline, threshold, value, slope)):
        return "a threshold, a value or a slope is not finite"
    if any((np.abs(each) > LARGEST).any() for each in (baseline, value, slope)):
        return f"a value or a slope is beyond {LARGEST:g} standard deviations"
    if ((feature < 0) | (feature >= n_features)).any():
        return f"a node asks for a feature beyond the {n_features} there are"
    inner = (left != LEAF) | (right != LEAF)
    own, end = np.arange(n), np.repeat(start[1:], np.diff(start))
    for child in (left, right):
        if (inner & ((child <= own) | (child >= end))).any():
            return "a node has a child that is not behind it in its tree"
    return ""


def tells_shares(forest: Trees) -> bool:
    """Tell whether what a forest adds up are probabilities, which sum to 1."""
    leaf = forest.left == LEAF
    n_trees = len(forest.start) - 1
    sums = n_trees * forest.value[leaf].sum(axis=1)
    plain = not forest.baseline.any() and not forest.slope.any()
    return plain and bool((forest.value >= 0).all()) and bool((np.abs(sums - 1.0) < 1e-6).all())
