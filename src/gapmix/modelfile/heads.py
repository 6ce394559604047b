"""Heads in a model file: slopes, boosted trees and forests as arrays, checked before they are used.

`heads.table` has a line for each head, `heads.view` one for each column. What has many parts is
joined, beside an array of their lengths. Children are numbered within the trees of their head.
Forests are in arrays of their own, `forests.`, if there are any, and so are the Gaussian of
indicators, `indicators.`, and heads that heads see the filling of, `first.heads.`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gapmix.heads.features import View, is_category
from gapmix.heads.indicators import Indicators, count_described
from gapmix.heads.indicators import find_fault as find_fault_of_indicators
from gapmix.heads.learners import Learner
from gapmix.heads.trees import LARGEST, Trees, find_fault, tells_shares
from gapmix.heads.using import Head, Heads
from gapmix.modelfile.estimator import Arrays, require_same
from gapmix.storage.recordfile import ModelFileError

NODES = ("feature", "threshold", "left", "right", "value")
OF_TREES = ("baseline", "n_nodes", "slope")  # with an array of lengths each,
LISTS = ("shown", "levels", *OF_TREES)  # as these
OF_HEADS = (
    *("heads.table", "heads.view"),
    *(f"heads.{name}" for name in (*LISTS, *NODES)),
    *(f"heads.{name}.lengths" for name in LISTS),
)
OF_FORESTS = (
    *(f"forests.{name}" for name in (*OF_TREES, *NODES)),
    *(f"forests.{name}.lengths" for name in OF_TREES),
)
OF_INDICATORS = ("indicators.mean", "indicators.covariance")
OF_ROUND = OF_HEADS + OF_FORESTS + OF_INDICATORS
FIRST = "first."  # before the names of what the first round has
HEAD_ARRAYS = (*OF_ROUND, *(FIRST + name for name in OF_ROUND))
N_NUMBERS = 7  # of a head in `heads.table`; files of earlier versions have 5 or 6
LARGEST_VALUE = 1e200  # of a column: corrections of it are finite
MATRICES = ("table", "view", "covariance")
WHOLE = ("shown", "levels", "n_nodes", "feature", "left", "right")


def heads_to_arrays(estimator: Any) -> Arrays:
    """Return the heads of an estimator as arrays, none if it has none."""
    heads, asked = getattr(estimator, "heads_", None), getattr(estimator, "refine", None)
    arrays: Arrays = {}
    if heads is not None and heads.heads:
        arrays = _round_to_arrays(heads)
        first = {} if heads.first is None else _round_to_arrays(heads.first)
        arrays |= {FIRST + name: array for name, array in first.items()}
    if asked is not None and not isinstance(asked, str | bool):
        raise ModelFileError(
            f"refine is a {type(asked).__name__}, and a model file holds no code. Call "
            "set_params(refine='auto') before saving; what is fitted stays as it is."
        )
    return arrays


def _round_to_arrays(heads: Heads) -> Arrays:
    at_work, view = heads.at_work(), heads.view
    for _, learner in at_work:
        if not isinstance(learner.model, Trees):
            raise ModelFileError(
                f"heads_ has a {type(learner.model).__name__}, and a model file holds no code. Fit "
                "with refine='auto', whose learners it holds, or keep the estimator by pickle."
            )
    levels = [learner.levels for _, learner in at_work]
    table = [[*each[:5], each.half, share_of(each)] for each in heads.heads]
    arrays = {
        "heads.table": np.array(table, dtype=float),
        "heads.view": np.column_stack([view.order, view.center, view.scale, view.gaps]).astype(
            float
        ),
        **_join_lists("heads", {"shown": view.levels, "levels": levels}),
        **_join_trees("heads", [learner.model for _, learner in at_work]),
    }
    forests = [learner.forest for _, learner in at_work if learner.forest is not None]
    if forests:
        arrays |= _join_trees("forests", forests)
    if heads.indicators is not None:
        arrays |= dict(zip(OF_INDICATORS, heads.indicators, strict=True))
    return arrays


def share_of(head: Head) -> float:
    """Return the share of a forest in what a head tells."""
    return head.learner.share if head.learner is not None else 0.0


def _join_trees(room: str, trees: list[Trees]) -> Arrays:
    lists = {
        "baseline": [each.baseline for each in trees],
        "n_nodes": [np.diff(each.start) for each in trees],
        "slope": [each.slope.ravel() for each in trees],
    }
    nodes = {name: [getattr(each, name).ravel() for each in trees] for name in NODES}
    joined = {f"{room}.{name}": _join(parts, name) for name, parts in nodes.items()}
    return {**joined, **_join_lists(room, lists)}


def _join_lists(room: str, lists: dict[str, Any]) -> Arrays:
    arrays = {}
    for name, parts in lists.items():
        arrays[f"{room}.{name}"] = _join(parts, name)
        lengths = [len(part) for part in parts]
        arrays[f"{room}.{name}.lengths"] = np.array(lengths, dtype=np.int64)
    return arrays


def _join(parts: Any, name: str) -> np.ndarray:
    kind = np.int64 if name in WHOLE else np.float64
    return np.concatenate([np.empty(0, dtype=kind), *parts]).astype(kind)


def heads_from_arrays(
    arrays: Arrays, n_columns: int, n_levels: np.ndarray | None, targets: int = 0
) -> Heads | None:
    """Return the heads of a file for tables of so many columns, None if it has none.

    With `targets`, heads can be those of the last columns only.
    """
    of_round = [
        {name: arrays[room + name] for name in OF_ROUND if room + name in arrays}
        for room in (FIRST, "")
    ]
    found = None
    for held in of_round:
        if not held and found is not None:
            raise ModelFileError("heads of a first round need those that see what they fill.")
        if held:
            found = _round_from_arrays(held, n_columns, n_levels, targets)._replace(first=found)
    return found


def _round_from_arrays(
    held: Arrays, n_columns: int, n_levels: np.ndarray | None, targets: int
) -> Heads:
    optional = {
        name for room in (OF_FORESTS, OF_INDICATORS) if set(room) & set(held) for name in room
    }
    require_same(set(held), {*OF_HEADS, *optional}, "heads")
    for name, array in held.items():
        last = name.partition(".")[2]
        kind = np.int64 if last in WHOLE or last.endswith("lengths") else np.float64
        if array.dtype != kind or array.ndim != (2 if last in MATRICES else 1):
            raise ModelFileError(f"{name} must be an array of {kind.__name__} of its shape.")
    view = _read_view(held, n_columns, n_levels)
    indicators = _read_indicators(held, view)
    table = held["heads.table"]
    if table.shape[1] in (5, 6):  # of earlier files: corrections used whole, and no forests
        table = np.pad(table, ((0, 0), (0, N_NUMBERS - table.shape[1])))
    if table.shape[1] != N_NUMBERS or not np.isfinite(table).all():
        raise ModelFileError(f"heads.table must have {N_NUMBERS} finite numbers for each head.")
    columns, weights = table[:, 0], table[:, 1]
    if not np.isin(columns, np.arange(n_columns - targets if targets else 0, n_columns)).all():
        raise ModelFileError(f"A head belongs to none of the {n_columns} columns it could have.")
    if len(set(columns.tolist())) < len(columns) or (weights < 0).any() or (weights > 1).any():
        raise ModelFileError("Heads must have columns of their own, and weights from 0 to 1.")
    if ((table[:, 2] < 0) | (table[:, 2] > LARGEST)).any():
        raise ModelFileError(f"The spread of a head must be from 0 to {LARGEST:g}.")
    if ((table[:, 5] < 0) | (table[:, 5] > LARGEST)).any():
        raise ModelFileError(f"The half of a head must be from 0 to {LARGEST:g}.")
    if ((table[:, 6] < 0) | (table[:, 6] > 1)).any():
        raise ModelFileError("The share of a forest must be from 0 to 1.")
    sizes = {j: count_described(view, indicators, j) for j in columns.astype(int).tolist()}
    learners = iter(_read_learners(held, view, table[weights > 0], n_levels, sizes))
    heads = [
        Head(
            int(column), weight, spread, before, after, next(learners) if weight > 0 else None, half
        )
        for column, weight, spread, before, after, half, _ in table.tolist()
    ]
    return Heads(view, tuple(heads), indicators=indicators)


def _split(held: Arrays, name: str, n_parts: int) -> list[np.ndarray]:
    """Return the parts that were joined, of which there must be so many."""
    lengths, joined = held[f"{name}.lengths"], held[name]
    right = len(lengths) == n_parts and (lengths >= 0).all() and (lengths <= len(joined)).all()
    if not right or lengths.sum() != len(joined):
        raise ModelFileError(f"{name} cannot be divided into {n_parts} parts as it says.")
    return np.split(joined, np.cumsum(lengths)[:-1]) if n_parts else []


def _read_view(held: Arrays, d: int, n_levels: np.ndarray | None) -> View:
    view = held["heads.view"]
    if view.shape != (d, 4) or not (np.abs(view) < LARGEST_VALUE).all():
        raise ModelFileError(
            f"heads.view must have four numbers under {LARGEST_VALUE:g} for {d} columns."
        )
    order, center, scale, gaps = view.T
    if not np.array_equal(np.sort(order), np.arange(d)) or not (scale > 1 / LARGEST_VALUE).all():
        raise ModelFileError("heads.view must have every column once, and deviations above 0.")
    counts = np.zeros(d, dtype=int) if n_levels is None else n_levels
    shown = _split(held, "heads.shown", d)
    for levels, n in zip(shown, counts, strict=True):
        if (len(levels) > 0) != (n > 0) or len(np.unique(levels)) < len(levels):
            raise ModelFileError("heads.shown must have levels of categories, each once.")
        if not ((levels >= 0) & (levels < n)).all():
            raise ModelFileError(f"heads.shown has a level beyond the {n} there are.")
    return View(order.astype(np.int64), center.copy(), scale.copy(), gaps > 0, tuple(shown))


def _read_indicators(held: Arrays, view: View) -> Indicators | None:
    if OF_INDICATORS[0] not in held:
        return None
    indicators = Indicators(*(np.ascontiguousarray(held[name]) for name in OF_INDICATORS))
    fault = find_fault_of_indicators(view, indicators)
    if fault:
        raise ModelFileError(f"The indicators of heads cannot be used: {fault}.")
    return indicators


def _read_learners(
    held: Arrays,
    view: View,
    table: np.ndarray,
    n_levels: np.ndarray | None,
    sizes: dict[int, int],
) -> list[Learner]:
    """Return the learners of the heads that have some, which these lines of the table are of.

    `sizes` are the numbers of features of heads, by column.
    """
    columns, shares = table[:, 0].astype(int).tolist(), table[:, 6].tolist()
    levels = _split(held, "heads.levels", len(columns))
    for codes, j in zip(levels, columns, strict=True):
        if is_category(view, j) and n_levels is not None:
            inside = ((codes >= 0) & (codes < n_levels[j])).all()
            if len(np.unique(codes)) < max(2, len(codes)) or not inside:
                raise ModelFileError(f"The head of column {j} must tell of some of its levels.")
        elif len(codes):
            raise ModelFileError(f"The head of column {j}, of numbers, cannot tell of levels.")
    n_outputs = [len(codes) if len(codes) > 2 else 1 for codes in levels]
    models = _read_trees(held, "heads", sizes, columns, n_outputs, by_turns=True)
    mixed = [place for place, share in enumerate(shares) if share > 0]
    forests: dict[int, Trees] = {}
    if mixed or OF_FORESTS[0] in held:
        planted = [columns[place] for place in mixed], [max(1, len(levels[p])) for p in mixed]
        found = _read_trees(held, "forests", sizes, *planted, by_turns=False)
        forests = dict(zip(mixed, found, strict=True))
    return [
        Learner(model, levels[place], forests.get(place), shares[place])
        for place, model in enumerate(models)
    ]


def _read_trees(
    held: Arrays,
    room: str,
    sizes: dict[int, int],
    columns: list[int],
    n_outputs: list[int],
    *,
    by_turns: bool,
) -> list[Trees]:
    """Return the trees of heads: leaves have a value for every output, or serve them `by_turns`."""
    if f"{room}.value" not in held:
        raise ModelFileError("A head has a share of a forest, and there are no forests.")
    baselines, n_nodes, slopes = (_split(held, f"{room}.{name}", len(columns)) for name in OF_TREES)
    counted = held[f"{room}.n_nodes"]
    if (counted < 1).any() or counted.sum() != len(held[f"{room}.feature"]):
        raise ModelFileError(f"{room}.n_nodes does not divide the nodes that there are.")
    widths = [1 if by_turns else each for each in n_outputs]
    counts = [int(each.sum()) for each in n_nodes]
    wanted = {name: sum(counts) for name in NODES}
    wanted["value"] = sum(n * width for n, width in zip(counts, widths, strict=True))
    if any(len(held[f"{room}.{name}"]) != n for name, n in wanted.items()):
        raise ModelFileError(f"The arrays of the nodes of {room} differ in length.")
    found, at, at_value = [], 0, 0
    for place, j in enumerate(columns):
        n, width, slope = counts[place], widths[place], slopes[place]
        nodes = [np.ascontiguousarray(held[f"{room}.{name}"][at : at + n]) for name in NODES[:-1]]
        value = held[f"{room}.value"][at_value : at_value + n * width].reshape(n, width)
        at, at_value = at + n, at_value + n * width
        if len(slope) % n_outputs[place]:
            raise ModelFileError(f"The head of column {j} has slopes for no number of features.")
        start = np.concatenate([[0], np.cumsum(n_nodes[place])]).astype(np.int64)
        shared = slope.reshape(n_outputs[place], -1)
        value = np.ascontiguousarray(value)
        trees = Trees._make([baselines[place], start, *nodes, value, shared])
        fault = find_fault(trees, sizes[j], n_outputs[place])
        if not fault and width > 1 and not tells_shares(trees):
            fault = "its leaves tell no shares of levels"
        if fault:
            raise ModelFileError(f"The trees of the head of column {j} cannot be used: {fault}.")
        found.append(trees)
    return found
