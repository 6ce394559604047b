"""Heads at work: filled values, deviations, probabilities, quantiles and draws, refined.

A head moves what the mixture says of a gap: its mean by a weighted correction, and all the rest,
quantiles and draws, with it, drawn in to the deviation that corrected cells had. A column whose
head has no weight keeps the mixture's bits. A row is refined by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapmix.density.conditional import Filled
from gapmix.heads.features import View, is_category, number_categories
from gapmix.heads.indicators import Indicators, describe
from gapmix.heads.learners import Learner, predict, predict_levels
from gapmix.shapes import Shape


class Head(NamedTuple):
    """What was learned of a column, and how much of it is used."""

    column: int
    weight: float  # of the correction, from 0 to 1; with 0 the mixture is left alone
    spread: float  # deviation of cells that are corrected whole, 1 for that of the mixture's own
    before: float  # error of known cells, in standard deviations, under the mixture, and
    after: float  # refined; of a category mean log probabilities of the true level
    learner: Learner | None  # None without weight
    half: float = 0.0  # deviation of a cell, in those of the column, of which half is corrected

    def __repr__(self) -> str:
        """Return what a reader can use: trees would fill many screens."""
        told = {name: getattr(self, name) for name in ("weight", "before", "after")}
        shown = ", ".join(f"{name}={value:.3g}" for name, value in told.items())
        return f"Head(column={self.column}, {shown})"


class Heads(NamedTuple):
    """The heads of a table's columns."""

    view: View
    heads: tuple[Head, ...]  # one for each column that could have one
    first: Heads | None = None  # those that refine what these see of the other columns
    indicators: Indicators | None = None  # what heads also see, of tables with categories

    def __repr__(self) -> str:
        """Return the heads, one on a line."""
        return "\n".join(["Heads", *map(repr, self.heads)])

    def at_work(self) -> list[tuple[Head, Learner]]:
        """Return those that change something, with their learners."""
        return [(each, each.learner) for each in self.heads if each.learner is not None]


def refine(
    heads: Heads | None, filled: Filled, missing: np.ndarray, shapes: Sequence[Shape] = ()
) -> Filled:
    """Return what a mixture with its heads says of rows, given what the mixture says, with spread.

    `missing` (n, D) tells where the gaps are; `shapes` are those of the columns.
    """
    if heads is None or not heads.at_work():
        return filled
    mean, std, levels = filled.mean.copy(), filled.std.copy(), list(filled.levels)
    place = number_categories(heads.view)
    seen = refine(heads.first, filled, missing, shapes)
    for head, learner in heads.at_work():
        j = head.column
        rows = _find_rows(missing, j)
        if not rows.size:
            continue
        shown = take_rows(filled, rows)
        if seen is not filled:
            shown = see(heads.view, j, take_rows(seen, rows), shown)
        features = describe(heads.view, heads.indicators, j, shown, missing[rows])
        if not is_category(heads.view, j):
            scale = heads.view.scale[j]
            heeded = heed(std[rows, j] / scale, head.half)
            by = head.weight * scale * heeded * predict(learner, features)
            mean[rows, j] = _inside(shapes, j, mean[rows, j] + by)
            std[rows, j] *= draw_in(head, heeded)
            continue
        share = levels[place[j]].copy()
        told = predict_levels(learner, features, share.shape[1])
        share[rows] = (1.0 - head.weight) * share[rows] + head.weight * told
        levels[place[j]] = share
        mean[rows, j] = share[rows].argmax(axis=1)
        std[rows, j] = 1.0 - share[rows].max(axis=1)
    return filled._replace(mean=mean, std=std, levels=tuple(levels))


def see(view: View, column: int, refined: Filled, filled: Filled) -> Filled:
    """Return what the head of a column sees: others refined, but itself as the mixture fills it."""
    mean, std, levels = refined.mean.copy(), refined.std.copy(), list(refined.levels)
    mean[:, column], std[:, column] = filled.mean[:, column], filled.std[:, column]
    if is_category(view, column):
        place = number_categories(view)[column]
        levels[place] = filled.levels[place]
    return refined._replace(mean=mean, std=std, levels=tuple(levels))


def heed(std: np.ndarray, half: float) -> np.ndarray:
    """Return how much of its correction a cell gets, from 0 to 1, given its deviation, (m,) each.

    What the mixture is sure of, a learner that takes all cells alike would only blur.
    """
    return (std / np.hypot(std, half)) ** 2 if half > 0.0 else np.ones_like(std)


def draw_in(head: Head, heeded: np.ndarray) -> np.ndarray:
    """Return the deviations of cells that heed a head so much, 1 for the mixture's own, (m,)."""
    return 1.0 - (1.0 - head.spread) * heeded


def _find_rows(missing: np.ndarray, column: int) -> np.ndarray:
    """Return the rows whose gap in a column is refined.

    Heads have learned from rows that show something: of one that does not, the mixture knows best.
    """
    return np.flatnonzero(missing[:, column] & ~missing.all(axis=1))


def take_rows(filled: Filled, rows: np.ndarray) -> Filled:
    """Return what is said of some rows."""
    mean, std, resp, log_prob, levels = filled
    return Filled(
        mean[rows], std[rows], resp[rows], log_prob[rows], tuple(each[rows] for each in levels)
    )


def _inside(shapes: Sequence[Shape], column: int, values: np.ndarray) -> np.ndarray:
    """Return values brought to where the transform of their column is defined."""
    if not shapes:
        return values
    shape = shapes[column]
    return np.clip(
        values, shape.origin + shape.scale * shape.least, shape.origin + shape.scale * shape.most
    )


def move(
    heads: Heads | None,
    before: Filled,
    after: Filled,
    values: np.ndarray,
    missing: np.ndarray,
    shapes: Sequence[Shape] = (),
) -> np.ndarray:
    """Bring quantiles or draws (..., n, D) of a mixture's numbers to the refined means, in place.

    `before` and `after` are what the mixture says of the rows, and what `refine` made of it.
    Cells of a row that are missing together go on depending on each other. Returns the values.
    """
    for head, _ in heads.at_work() if heads is not None else ():
        j = head.column
        if heads is not None and not is_category(heads.view, j):
            rows = _find_rows(missing, j)
            away = values[..., rows, j] - before.mean[rows, j]
            heeded = heed(before.std[rows, j] / heads.view.scale[j], head.half)
            moved = after.mean[rows, j] + draw_in(head, heeded) * away
            values[..., rows, j] = _inside(shapes, j, moved)
    return values


def redraw(
    heads: Heads | None,
    before: Filled,
    after: Filled,
    draws: np.ndarray,
    missing: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Turn levels (m, n, D) drawn by the mixture into draws of the refined ones, in place.

    A level stays with the probability that it still has, min(1, after / before), and else becomes
    one of those that have more than before: as many draws as can be stay what they were, beside
    the other cells of their row. Returns the draws.
    """
    if heads is None:
        return draws
    place = number_categories(heads.view)
    for head, _ in heads.at_work():
        j = head.column
        if not is_category(heads.view, j):
            continue
        rows = _find_rows(missing, j)
        old, new = (each.levels[place[j]][rows] for each in (before, after))
        level = draws[:, rows, j].astype(int)
        own = np.arange(len(rows))
        at = rng.random((2, *level.shape))
        leaves = at[0] * old[own, level] > new[own, level]
        ends = np.cumsum(np.maximum(new - old, 0.0), axis=1)
        other = (at[1][..., None] * ends[:, -1:] > ends).sum(axis=-1)
        draws[:, rows, j] = np.where(leaves, other, level)
    return draws
