"""Shapes of an imputer's columns: as `shapes` asks for them, and as they are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from gapmix.estimators.bounds import find_column, find_limits
from gapmix.estimators.passing import model_kinds
from gapmix.kinds import CATEGORY, SHARE
from gapmix.selection.choose import Wanted
from gapmix.selection.shaping import Column, choose_shapes, make_shape
from gapmix.selection.task import Task
from gapmix.shapes import IDENTITY, NAMES, Shape, inverse, list_shaped


def find_shapes(imputer: Any, wanted: Wanted, task: Task) -> tuple[Shape, ...]:
    """Return the transforms of a task's columns, the imputer's first, or () if there are none."""
    asked, d = imputer.shapes, imputer.n_features_in_
    if asked is None:
        return ()
    names, told = getattr(imputer, "feature_names_in_", None), imputer.column_kinds
    low, high = find_limits(imputer, task.names[:d])
    for column, kind in told.items() if isinstance(told, dict) else ():
        if kind == SHARE:
            j = find_column("column_kinds", column, d, names)
            low[j], high[j] = max(low[j], 0.0), min(high[j], 1.0)
    kinds = enumerate(model_kinds(imputer).values())
    columns: list[Column | None] = [
        None if kind == CATEGORY else Column(kind, imputer.column_values_[j], low[j], high[j])
        for j, kind in kinds
    ]
    columns += [None] * (task.x.shape[1] - d)  # targets
    if isinstance(asked, str) and asked == "auto":
        return choose_shapes(wanted, task, columns)
    if not isinstance(asked, dict):
        raise ValueError(
            f"shapes={asked!r} is not known. Use 'auto', None, or a dict from column to one of "
            f"{', '.join(map(repr, NAMES))}."
        )
    made = {}
    for column, name in asked.items():
        j = find_column("shapes", column, d, names)
        made[j] = _make(name, column, columns[j], task.x[:, j], task.weight)
    return tuple(made.get(j, Shape()) for j in range(len(columns))) if made else ()


def _make(name: Any, label: Any, column: Column | None, x: np.ndarray, weight: np.ndarray) -> Shape:
    """Return the transform that a user asks for, or say why it cannot be."""
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(
            f"shapes asks for {name!r} in column {label!r}. Use one of "
            f"{', '.join(map(repr, NAMES))}."
        )
    if column is None:
        raise ValueError(f"shapes name the column {label!r}, which is a category.")
    if name == IDENTITY:
        return Shape()
    known = ~np.isnan(x) & (weight > 0)
    shape = make_shape(name, column, x[known], weight[known]) if known.any() else None
    if shape is None:
        seen = column.seen
        raise ValueError(
            f"shapes asks for {name!r} in column {label!r}, whose values go from {seen.low:g} to "
            f"{seen.high:g}. 'log' needs values above 0 or above the lower bound, 'logit' values "
            "between the bounds or between 0 and 1, and every shape two different values."
        )
    return shape


def store_shapes(imputer: Any, shapes: tuple[Shape, ...] = ()) -> None:
    """Let an imputer know the transforms of its columns; () is none."""
    each = shapes[: imputer.n_features_in_] or (Shape(),) * imputer.n_features_in_
    imputer.column_shapes_ = dict(zip(model_kinds(imputer), each, strict=True))


def list_shapes(imputer: Any, n_columns: int) -> tuple[Shape, ...]:
    """Return the transforms of so many columns, the imputer's first, or () if there are none."""
    shapes = tuple(imputer.column_shapes_.values())
    if not list_shaped(shapes):
        return ()
    return shapes + (Shape(),) * (n_columns - len(shapes))


def find_centers(imputer: Any) -> np.ndarray:
    """Return where components are in the imputer's columns of numbers, (K, d), in their units.

    These are means; of columns that are transformed, medians.
    """
    shapes = [
        shape
        for shape, is_category in zip(
            imputer.column_shapes_.values(), imputer.mixture_.is_categorical_, strict=False
        )
        if not is_category
    ]
    centers: np.ndarray = imputer.mixture_.means_[:, : len(shapes)].copy()
    for j, shape in list_shaped(shapes):
        centers[:, j] = inverse(shape, centers[:, j])
    return centers
