"""What learners are shown of a row: the filled row, how sure the filling is, and where gaps were.

Numbers are in standard deviations of their columns, categories are the probabilities of their
levels. Columns are in canonical order, and all is rounded: so neither units, nor the order of
columns, nor the rows beside a row lead it to another leaf of a tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.density.conditional import Filled
from gapmix.plan.canonical import name_levels, order_columns
from gapmix.selection.sizes import measure_spread

DIGITS = 7  # of features and targets, in standard deviations: more than trees tell apart
MOST_LEVELS = 20  # of a category that have a feature each: the most frequent ones


class View(NamedTuple):
    """How rows (n, D) are made features."""

    order: np.ndarray  # (D,) columns in the order in which they are shown
    center: np.ndarray  # (D,) means, and
    scale: np.ndarray  # (D,) standard deviations of columns of numbers; 1 for others
    gaps: np.ndarray  # (D,) True for columns that had gaps: only of these it is told where
    levels: tuple[np.ndarray, ...]  # of each column the levels that are shown; none of numbers


def make_view(x: np.ndarray, weight: np.ndarray, n_levels: np.ndarray | None) -> View:
    """Return how the rows of a table are shown."""
    d = x.shape[1]
    counts = np.zeros(d, dtype=int) if n_levels is None else n_levels
    known = ~np.isnan(x)
    spread = np.where(counts > 0, 0.0, measure_spread(x, weight))
    total = np.maximum(weight @ known, np.finfo(float).tiny)
    center = weight @ np.where(known, x, 0.0) / total
    order = order_columns(name_levels(x, weight, n_levels), weight)
    return View(
        order,
        np.where(spread > 0, center, 0.0),
        np.where(spread > 0, spread, 1.0),
        ~known.all(axis=0),
        tuple(_frequent(x[:, j], weight, int(n)) for j, n in enumerate(counts)),
    )


def _frequent(codes: np.ndarray, weight: np.ndarray, n_levels: int) -> np.ndarray:
    """Return the levels of a category that are shown, the most frequent first."""
    if n_levels == 0:
        return np.empty(0, dtype=np.int64)
    known = ~np.isnan(codes)
    count = np.bincount(codes[known].astype(int), weight[known], n_levels)
    return np.argsort(-count, kind="stable")[:MOST_LEVELS].astype(np.int64)


def count_features(view: View, column: int) -> int:
    """Return how many features the head of a column sees."""
    shown = sum(max(1, len(levels)) for levels in view.levels)
    return shown + 1 + int(np.delete(view.gaps, column).sum())


class Places(NamedTuple):
    """Which features say what."""

    own: int  # what the mixture fills into a column; the first of its levels
    others: np.ndarray  # (q,) into the other columns
    columns: np.ndarray  # (r,) into all of them
    echo: int | None = None  # what the Gaussian of indicators does, of numbers


def find_places(view: View, column: int) -> Places:
    """Return which features of a head say what the mixture fills into its column and others."""
    before = view.order[: int(np.flatnonzero(view.order == column)[0])]
    own = sum(max(1, len(view.levels[j])) for j in before.tolist())
    shown = np.arange(sum(max(1, len(levels)) for levels in view.levels))
    end = own + max(1, len(view.levels[column]))
    return Places(own, shown[(shown < own) | (shown >= end)], shown)


def make_features(view: View, column: int, filled: Filled, missing: np.ndarray) -> np.ndarray:
    """Return the features (n, p) of rows in which a column is missing, for the head of this column.

    `filled` is what the mixture says of them, with its deviations; `missing` (n, D) where they had
    gaps, of which the one in the column itself does not count.
    """
    place = number_categories(view)
    parts = []
    for j in view.order.tolist():
        if len(view.levels[j]):
            parts.append(filled.levels[place[j]][:, view.levels[j]])
        else:
            parts.append(((filled.mean[:, j] - view.center[j]) / view.scale[j])[:, None])
    others = [j for j in view.order.tolist() if view.gaps[j] and j != column]
    parts += [(filled.std[:, column] / view.scale[column])[:, None], missing[:, others]]
    return np.round(np.concatenate(parts, axis=1), DIGITS)


def is_category(view: View, column: int) -> bool:
    """Tell whether a column is a category."""
    return len(view.levels[column]) > 0


def number_categories(view: View) -> np.ndarray:
    """Return the number of each column among the categories, (D,), of those that are."""
    return np.cumsum([is_category(view, j) for j in range(len(view.levels))]) - 1
