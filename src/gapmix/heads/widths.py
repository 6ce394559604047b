"""How wide intervals of a mixture must be to hold known cells, as they are and refined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapmix.density import Density
from gapmix.heads.features import View
from gapmix.heads.learners import Recipe
from gapmix.heads.looking import divide, join
from gapmix.heads.using import draw_in, heed
from gapmix.heads.weighing import Judged, Known
from gapmix.selection import calibration
from gapmix.selection.calibration import find_ends
from gapmix.selection.task import Task

MOST_MEASURED = 500  # known cells of a column that calibrate its intervals


class Widths(NamedTuple):
    """How wide intervals of a mixture must be to hold known cells of a column."""

    before: np.ndarray  # (m,)
    after: np.ndarray  # (m,) if they are refined
    weight: np.ndarray  # (m,)


class Fit(NamedTuple):
    """The head of a column, and what it leaves of known cells."""

    judged: Judged
    recipe: Recipe  # what it is made of
    known: Known  # without features


class Ends(NamedTuple):
    """Known cells of one or more columns, hidden, and between which values intervals must reach."""

    column: np.ndarray  # (m,) which each is of
    shown: np.ndarray  # (m, D)
    fold: np.ndarray  # (m,)
    plain: tuple[np.ndarray, ...]  # two of them, (m, D); NaN in other columns
    refined: tuple[np.ndarray, ...]  # of the mixture, so that those of the head reach it


def measure_widths(
    task: Task, models: Sequence[Density], fits: Sequence[Fit], view: View
) -> dict[int, Widths]:
    """Return how wide intervals of the mixture must be to hold known cells, by column."""
    at_work = {
        each.judged.head.column: each
        for each in fits
        if each.judged.head.learner is not None and each.judged.left.size
    }
    widths = {}
    for some in divide(task, list(at_work)):
        parts = [_find_ends(task, at_work[j], view) for j in some]
        ends = Ends._make(join(each) for each in zip(*parts, strict=True))
        both = np.empty((2, len(ends.column)))
        for k, model in enumerate(models):
            out = ends.fold == k
            for widths_of, (low, high) in zip(both, (ends.plain, ends.refined), strict=True):
                found = calibration.measure_widths(model, ends.shown[out], low[out], high[out])
                widths_of[out] = found[np.arange(len(found)), ends.column[out]]
        for j in some:
            before, after = both[:, ends.column == j]
            widths[j] = Widths(before, after, _thin(at_work[j].known.weight))
    return widths


def _find_ends(task: Task, fit: Fit, view: View) -> Ends:
    """Return what intervals of the mixture must reach to hold known cells.

    Refined ends are moved, and drawn in by the head's spread: they hold a cell if those of the
    mixture hold what lies as far from its mean as is left of the cell, drawn out by this spread.
    """
    (head, left, _), known = fit.judged, fit.known
    j, left = head.column, _thin(left)
    rows, mean, std, fold = map(_thin, (known.rows, known.mean, known.std, known.fold))
    x = task.x[rows]
    shown = x.copy()
    shown[:, j] = np.nan
    ends = [each[:, j] for each in find_ends(task, x)]
    left_out = float(view.scale[j]) * left - x[:, j]
    drawn_in = draw_in(head, heed(std, head.half))
    plain, refined = (np.full((2, *x.shape), np.nan) for _ in range(2))
    plain[:, :, j] = ends
    refined[:, :, j] = [mean + (end + left_out) / drawn_in for end in ends]
    return Ends(np.full(len(x), j), shown, fold, tuple(plain), tuple(refined))


def _thin(values: np.ndarray) -> np.ndarray:
    """Return every so many of the known cells of a column, if they are too many."""
    return values[:: -(-len(values) // MOST_MEASURED)]
