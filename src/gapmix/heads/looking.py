"""Rows that show a column, as its head sees them: the column hidden, all gaps filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gapmix import density
from gapmix.density import Density
from gapmix.density.conditional import Filled
from gapmix.heads.bins import Binned, put_in_bins
from gapmix.heads.features import DIGITS, View, find_places, is_category, number_categories
from gapmix.heads.indicators import Indicators, count_described, describe
from gapmix.heads.using import take_rows
from gapmix.heads.weighing import Known
from gapmix.selection.task import Task

MOST_CELLS = 2_000_000  # of rows that are filled in one go: 16 MB, and as much for deviations


def divide(task: Task, columns: Sequence[int]) -> list[list[int]]:
    """Return columns in groups whose rows, with all their cells, are filled in one go."""
    at_once = max(1, MOST_CELLS // task.x.size)
    return [list(columns[low : low + at_once]) for low in range(0, len(columns), at_once)]


class Shown(NamedTuple):
    """The rows that show a column, as they are with it hidden."""

    rows: np.ndarray  # (m,) their numbers
    x: np.ndarray  # (m, D)


def hide_column(task: Task, column: int, hidden: Sequence[int]) -> Shown:
    """Return the rows that show a column, with columns hidden, among them this one."""
    rows = np.flatnonzero(~np.isnan(task.x[:, column]))
    x = task.x[rows]
    x[:, list(hidden)] = np.nan
    return Shown(rows, x)


def fill_shown(models: Sequence[Density], fold: np.ndarray, shown: Sequence[Shown]) -> list[Filled]:
    """Return what is filled into rows by the mixture of their fold, in one go for all columns."""
    x = np.concatenate([each.x for each in shown])
    own = np.concatenate([fold[each.rows] for each in shown])
    parts = []
    for k, model in enumerate(models):
        part = density.fill(model, x[own == k], spread=True)
        parts.append(part._replace(resp=np.empty((len(part.mean), 0))))  # of no use here, and large
    back = np.argsort(np.argsort(own, kind="stable"), kind="stable")  # from folds to rows
    ends = np.cumsum([len(each.x) for each in shown])[:-1]
    filled = Filled._make(join(each) for each in zip(*parts, strict=True))
    return [take_rows(filled, each) for each in np.split(back, ends)]


def look(
    task: Task,
    view: View,
    fold: np.ndarray,
    column: int,
    shown: Shown,
    filled: Filled,
    without: Sequence[Indicators | None],
    seen: Filled | None = None,
) -> Known:
    """Return rows as the head of a column sees them, given what the mixture fills into them.

    Their features are not in bins, which only trees need: see `with_bins`.
    `without` are the indicators of each fold, which have not seen its rows; `seen` is what is
    filled into the other columns, if that is not the same.
    """
    rows, shares, missing = shown.rows, np.empty((len(shown.rows), 0)), np.isnan(shown.x)
    features = np.empty((len(rows), count_described(view, without[0], column)))
    for k, indicators in enumerate(without):
        own = fold[rows] == k
        part = take_rows(filled if seen is None else seen, own)
        features[own] = describe(view, indicators, column, part, missing[own])
    target, std = task.x[rows, column], filled.std[:, column] / view.scale[column]
    if is_category(view, column):
        shares = filled.levels[number_categories(view)[column]]
    else:
        target = np.round((target - filled.mean[:, column]) / view.scale[column], DIGITS)
    mean, weight = filled.mean[:, column], task.weight[rows]
    places, no_bins = find_places(view, column), Binned(np.empty((len(rows), 0), np.uint8), [])
    if without[0] is not None and not is_category(view, column):
        places = places._replace(echo=features.shape[1] - 1)
    return Known(rows, mean, features, no_bins, places, target, shares, std, weight, fold[rows])


def with_bins(known: Known) -> Known:
    """Return rows with their features in bins, which take longer than lines do."""
    return known._replace(binned=put_in_bins(known.features, known.weight))


def join(parts: Sequence[Any]) -> Any:
    """Return arrays of several parts, or tuples of arrays, one after the other."""
    if isinstance(parts[0], tuple):
        return tuple(join(each) for each in zip(*parts, strict=True))
    return np.concatenate(parts)
