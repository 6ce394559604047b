"""Heads in a model file: slopes and boosted trees as arrays, checked before they are used.

`heads.table` has a line for each head, `heads.view` one for each column. What has many parts is
joined, beside an array of their lengths. Children are numbered within the trees of their head.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gapmix.heads.features import View, count_features, is_category
from gapmix.heads.learners import Learner
from gapmix.heads.trees import LARGEST, Trees, find_fault
from gapmix.heads.using import Head, Heads
from gapmix.modelfile.estimator import Arrays, require_same
from gapmix.storage.recordfile import ModelFileError

NODES = ("feature", "threshold", "left", "right", "value")
LISTS = ("shown", "levels", "baseline", "n_nodes", "slope")  # with an array of lengths each
HEAD_ARRAYS = (
    *("heads.table", "heads.view"),
    *(f"heads.{name}" for name in (*LISTS, *NODES)),
    *(f"heads.{name}.lengths" for name in LISTS),
)
LARGEST_VALUE = 1e200  # of a column: corrections of it are finite
WHOLE = ("shown", "levels", "n_nodes", "feature", "left", "right")


def heads_to_arrays(estimator: Any) -> Arrays:
    """Return the heads of an estimator as arrays, none if it has none."""
    heads, asked = getattr(estimator, "heads_", None), getattr(estimator, "refine", None)
    at_work = [] if heads is None else heads.at_work()
    for _, learner in at_work:
        if not isinstance(learner.model, Trees):
            raise ModelFileError(
                f"heads_ has a {type(learner.model).__name__}, and a model file holds no code. Fit "
                "with refine='auto', whose learners it holds, or keep the estimator by pickle."
            )
    if asked is not None and not isinstance(asked, str | bool):
        raise ModelFileError(
            f"refine is a {type(asked).__name__}, and a model file holds no code. Call "
            "set_params(refine='auto') before saving; what is fitted stays as it is."
        )
    if heads is None or not heads.heads:
        return {}
    view = heads.view
    trees = [learner.model for _, learner in at_work]
    lists = {
        "shown": view.levels,
        "levels": [learner.levels for _, learner in at_work],
        "baseline": [each.baseline for each in trees],
        "n_nodes": [np.diff(each.start) for each in trees],
        "slope": [each.slope.ravel() for each in trees],
    }
    table = [[*each[:5], each.half] for each in heads.heads]
    arrays = {
        "table": np.array(table, dtype=float),
        "view": np.column_stack([view.order, view.center, view.scale, view.gaps]).astype(float),
        **{name: _join([getattr(each, name) for each in trees], name) for name in NODES},
        **{name: _join(parts, name) for name, parts in lists.items()},
        **{
            f"{name}.lengths": np.array([len(part) for part in parts], dtype=np.int64)
            for name, parts in lists.items()
        },
    }
    return {f"heads.{name}": array for name, array in arrays.items()}


def _join(parts: Any, name: str) -> np.ndarray:
    kind = np.int64 if name in WHOLE else np.float64
    return np.concatenate([np.empty(0, dtype=kind), *parts]).astype(kind)


def heads_from_arrays(
    arrays: Arrays, n_columns: int, n_levels: np.ndarray | None, targets: int = 0
) -> Heads | None:
    """Return the heads of a file for tables of so many columns, None if it has none.

    With `targets`, heads can be those of the last columns only.
    """
    held = {name.removeprefix("heads."): a for name, a in arrays.items() if name in HEAD_ARRAYS}
    if not held:
        return None
    require_same({f"heads.{name}" for name in held}, set(HEAD_ARRAYS), "heads")
    for name, array in held.items():
        kind = np.int64 if name in WHOLE or name.endswith("lengths") else np.float64
        if array.dtype != kind or array.ndim != (2 if name in ("table", "view") else 1):
            raise ModelFileError(f"heads.{name} must be an array of {kind.__name__} of its shape.")
    view = _read_view(held, n_columns, n_levels)
    table = held["table"]
    if table.shape[1:] == (5,):  # of earlier files, whose corrections were used whole
        table = np.column_stack([table, np.zeros(len(table))])
    if table.shape[1:] != (6,) or not np.isfinite(table).all():
        raise ModelFileError("heads.table must have six finite numbers for each head.")
    columns, weights = table[:, 0], table[:, 1]
    if not np.isin(columns, np.arange(n_columns - targets if targets else 0, n_columns)).all():
        raise ModelFileError(f"A head belongs to none of the {n_columns} columns it could have.")
    if len(set(columns.tolist())) < len(columns) or (weights < 0).any() or (weights > 1).any():
        raise ModelFileError("Heads must have columns of their own, and weights from 0 to 1.")
    if ((table[:, 2] < 0) | (table[:, 2] > LARGEST)).any():
        raise ModelFileError(f"The spread of a head must be from 0 to {LARGEST:g}.")
    if ((table[:, 5] < 0) | (table[:, 5] > LARGEST)).any():
        raise ModelFileError(f"The half of a head must be from 0 to {LARGEST:g}.")
    learners = iter(_read_learners(held, view, columns[weights > 0].astype(int), n_levels))
    heads = [
        Head(
            int(column), weight, spread, before, after, next(learners) if weight > 0 else None, half
        )
        for column, weight, spread, before, after, half in table.tolist()
    ]
    return Heads(view, tuple(heads))


def _split(held: Arrays, name: str, n_parts: int) -> list[np.ndarray]:
    """Return the parts that were joined, of which there must be so many."""
    lengths, joined = held[f"{name}.lengths"], held[name]
    right = len(lengths) == n_parts and (lengths >= 0).all() and (lengths <= len(joined)).all()
    if not right or lengths.sum() != len(joined):
        raise ModelFileError(f"heads.{name} cannot be divided into {n_parts} parts as it says.")
    return np.split(joined, np.cumsum(lengths)[:-1]) if n_parts else []


def _read_view(held: Arrays, d: int, n_levels: np.ndarray | None) -> View:
    view = held["view"]
    if view.shape != (d, 4) or not (np.abs(view) < LARGEST_VALUE).all():
        raise ModelFileError(
            f"heads.view must have four numbers under {LARGEST_VALUE:g} for {d} columns."
        )
    order, center, scale, gaps = view.T
    if not np.array_equal(np.sort(order), np.arange(d)) or not (scale > 1 / LARGEST_VALUE).all():
        raise ModelFileError("heads.view must have every column once, and deviations above 0.")
    counts = np.zeros(d, dtype=int) if n_levels is None else n_levels
    shown = _split(held, "shown", d)
    for levels, n in zip(shown, counts, strict=True):
        if (len(levels) > 0) != (n > 0) or len(np.unique(levels)) < len(levels):
            raise ModelFileError("heads.shown must have levels of categories, each once.")
        if not ((levels >= 0) & (levels < n)).all():
            raise ModelFileError(f"heads.shown has a level beyond the {n} there are.")
    return View(order.astype(np.int64), center.copy(), scale.copy(), gaps > 0, tuple(shown))


def _read_learners(
    held: Arrays, view: View, columns: np.ndarray, n_levels: np.ndarray | None
) -> list[Learner]:
    levels, baselines, n_nodes, slopes = (
        _split(held, name, len(columns)) for name in ("levels", "baseline", "n_nodes", "slope")
    )
    if (held["n_nodes"] < 1).any() or held["n_nodes"].sum() != len(held["feature"]):
        raise ModelFileError("heads.n_nodes does not divide the nodes that there are.")
    if any(len(held[name]) != len(held["feature"]) for name in NODES):
        raise ModelFileError("The arrays of the nodes of heads differ in length.")
    ends = np.cumsum([int(each.sum()) for each in n_nodes])
    found = []
    for place, j in enumerate(columns.tolist()):
        codes, n_outputs = levels[place], 1
        if is_category(view, j) and n_levels is not None:
            inside = ((codes >= 0) & (codes < n_levels[j])).all()
            if len(np.unique(codes)) < max(2, len(codes)) or not inside:
                raise ModelFileError(f"The head of column {j} must tell of some of its levels.")
            n_outputs = len(codes) if len(codes) > 2 else 1
        elif len(codes):
            raise ModelFileError(f"The head of column {j}, of numbers, cannot tell of levels.")
        span = slice(int(ends[place] - n_nodes[place].sum()), int(ends[place]))
        start = np.concatenate([[0], np.cumsum(n_nodes[place])]).astype(np.int64)
        nodes = (np.ascontiguousarray(held[name][span]) for name in NODES)
        slope = slopes[place]
        if len(slope) % n_outputs:
            raise ModelFileError(f"The head of column {j} has slopes for no number of features.")
        shared = slope.reshape(n_outputs, -1)
        trees = Trees._make([baselines[place], start, *nodes, shared])
        fault = find_fault(trees, count_features(view, j), n_outputs)
        if fault:
            raise ModelFileError(f"The trees of the head of column {j} cannot be used: {fault}.")
        found.append(Learner(trees, codes))
    return found
