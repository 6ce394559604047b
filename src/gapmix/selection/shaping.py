"""Which columns to transform before the fit, and how: what makes hidden cells more probable.

Small mixtures are fitted to some of the rows, with cells hidden: one to the columns as they are,
one for each transform, with all columns that can have it, and one with what was best for each
column. Sets of transforms are compared as wholes, since columns that depend on each other linearly
may do so no longer if one of them is transformed alone. The one that makes hidden cells most
probable, in their own units (with the Jacobian), is taken if it fills them as well, and does both
again with other cells hidden and more components.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapmix import density
from gapmix.fitting.climb import CollapsedFitError
from gapmix.kinds import NUMBER, POSITIVE, SHARE, WHOLE, ColumnValues
from gapmix.selection.choose import Wanted, fit_size
from gapmix.selection.hiding import hide
from gapmix.selection.sizes import measure_spread
from gapmix.selection.task import Task, merge_copies, model_of, only_useful, read_rows, sample_rows
from gapmix.shapes import (
    LOG,
    LOGIT,
    YEO_JOHNSON,
    Shape,
    can_be,
    forward,
    list_shaped,
    log_derivative,
)
from gapmix.structures import STRUCTURES

MAX_ROWS = 2000  # drawn at random
MAX_COLUMNS = 200  # beyond it, a fit takes long whatever its rows
FEWEST_CELLS = 200  # known ones of a column: fewer do not tell
MOST_ALIKE = 0.1  # share of a column's commonest value: more are a spike under any transform
POWERS = (0.0, 0.25, 0.5, 0.75, 1.25, 1.5, 1.75, 2.0)  # of Yeo-Johnson
N_COMPONENTS, MAX_ITER = 3, 20  # of the fits that are compared,
N_PROVING = (
    8  # and of those that prove what was best: what more components do as well is not worth it
)
SMALLEST_GAIN = 0.05  # nats of a hidden cell; and twice its standard error
LARGEST_LOSS = 0.01  # of the squared error of hidden cells; or its standard error


class Column(NamedTuple):
    """A column of numbers: what it is, what it shows, and the ends declared for it."""

    kind: str
    seen: ColumnValues
    low: float
    high: float


class Exam(NamedTuple):
    """By what transforms are judged."""

    hidden: np.ndarray  # (n, D) cells
    smooth: np.ndarray  # (D,) columns whose log densities count: a spike's have no upper limit


class Trial(NamedTuple):
    """What came of a fit to transformed columns."""

    shapes: tuple[Shape, ...]  # (D,)
    is_scored: np.ndarray  # (n, D) hidden cells of smooth columns
    scores: np.ndarray  # (n, D) their log densities, 0 elsewhere
    squares: np.ndarray  # (n, D) squared errors of hidden numbers, in standard deviations, else 0


def make_shape(name: str, column: Column, x: np.ndarray, weight: np.ndarray) -> Shape | None:
    """Return a transform with constants for known values x (n,), None if the column has none.

    A new value at or beyond an end of the range counts as one halfway to it from those seen.
    """
    shape = _make_shape(name, column, x, weight)
    return shape if shape is not None and can_be(shape) else None


def _make_shape(name: str, column: Column, x: np.ndarray, weight: np.ndarray) -> Shape | None:
    lowest, highest = column.seen.low, column.seen.high  # of all rows: x may be some
    low = column.low if np.isfinite(column.low) else 0.0
    if not lowest < highest:
        return None
    if name == LOG:
        return Shape(LOG, low, lowest - low, least=0.5) if lowest > low else None
    if name == LOGIT:
        high = column.high if np.isfinite(column.high) else 1.0
        if not low < lowest < highest < high:
            return None
        least, most = (lowest - low) / (high - low), (highest - low) / (high - low)
        return Shape(LOGIT, low, high - low, least=0.5 * least, most=0.5 + 0.5 * most)
    mean = float(np.average(x, weights=weight))
    scale = float(np.sqrt(np.average((x - mean) ** 2, weights=weight)))
    shapes = [
        Shape(YEO_JOHNSON, origin, scale, power)
        for power in POWERS
        for origin in (lowest if power < 1 else highest, mean)
    ]
    return max(shapes, key=lambda shape: _score_normal(shape, x, weight))


def _score_normal(shape: Shape, x: np.ndarray, weight: np.ndarray) -> float:
    """Return the mean log density, but for a constant, of values whose transforms are normal."""
    y = forward(shape, x)
    variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    return float(np.average(log_derivative(shape, x), weights=weight) - 0.5 * np.log(variance))


def choose_shapes(
    wanted: Wanted, task: Task, columns: Sequence[Column | None]
) -> tuple[Shape, ...]:
    """Return the transforms of the columns (None for those that have none), () if none pays."""
    if task.x.shape[1] > MAX_COLUMNS or STRUCTURES[wanted.spec.covariance_type].COMMON_UNITS:
        return ()
    rng = np.random.default_rng([wanted.seed, 2])
    sample = merge_copies(sample_rows(only_useful(task), rng, MAX_ROWS))
    options = list_options(sample, columns)
    if not options:
        return ()
    weight, smooth = sample.weight, np.zeros(len(columns), dtype=bool)
    smooth[[j for made in options for j in made]] = True
    first, second = (
        Exam(hide(sample.x, "mcar", rng, weight=weight, n_levels=task.n_levels), smooth)
        for _ in range(2)
    )
    try:
        plain = _try(wanted, sample, first, {})
        trials = [_try(wanted, sample, first, made) for made in options]
        picked = _pick(plain, trials, weight)
        if picked and picked not in options:
            trials.append(_try(wanted, sample, first, picked))
        better = [trial for trial in trials if _is_better(trial, plain, weight)]
        if not better:
            return ()
        best = max(better, key=lambda trial: float(weight @ trial.scores.sum(axis=1)))
        # The best of several owes something to chance: it must prove itself on other cells.
        made = dict(list_shaped(best.shapes))
        plain, best = (_try(wanted, sample, second, each, N_PROVING) for each in ({}, made))
    except CollapsedFitError:  # a table that small mixtures cannot tell about
        return ()
    return best.shapes if _is_better(best, plain, weight) else ()


def list_options(sample: Task, columns: Sequence[Column | None]) -> list[dict[int, Shape]]:
    """Return for each transform the columns that may have it, by their numbers."""
    options: dict[str, dict[int, Shape]] = {LOG: {}, LOGIT: {}, YEO_JOHNSON: {}}
    for j, column in enumerate(columns):
        known = ~np.isnan(sample.x[:, j])
        x, weight = sample.x[known, j], sample.weight[known]
        if column is None or not _is_smooth(column, x):
            continue
        for name, made in options.items():
            # Values between 0 and 1 may be so by their unit: ends must have been declared.
            between = np.isfinite([column.low, column.high]).all()
            shape = make_shape(name, column, x, weight) if between or name != LOGIT else None
            if shape is not None and (name != YEO_JOHNSON or _suits(shape, x, weight)):
                made[j] = shape
    return [made for made in options.values() if made]


def _suits(shape: Shape, x: np.ndarray, weight: np.ndarray) -> bool:
    """Tell whether a power, chosen to make a column's own values normal, does so."""
    gain = _score_normal(shape, x, weight) - _score_normal(Shape(), x, weight)
    return gain >= SMALLEST_GAIN


def _is_smooth(column: Column, x: np.ndarray) -> bool:
    """Tell whether known values (n,) are many, and spread like those of a density."""
    if column.kind not in (NUMBER, POSITIVE, SHARE, WHOLE) or column.seen.values is not None:
        return False
    counts = np.unique(x, return_counts=True)[1]
    return len(x) >= FEWEST_CELLS and bool(counts.max() <= MOST_ALIKE * len(x))


def _try(
    wanted: Wanted,
    sample: Task,
    exam: Exam,
    made: dict[int, Shape],
    n_components: int = N_COMPONENTS,
) -> Trial:
    """Return what a small mixture says of hidden cells if some columns are transformed."""
    x = sample.x
    shapes = tuple(made.get(j, Shape()) for j in range(x.shape[1]))
    small = wanted._replace(
        spec=wanted.spec._replace(max_iter=min(MAX_ITER, wanted.spec.max_iter), n_init=1),
        running=wanted.running._replace(verbose=0),
    )
    task = sample._replace(x=np.where(exam.hidden, np.nan, x), shapes=shapes)
    if wanted.n_components == "auto":  # what larger mixtures need says little about small ones
        n_components = min(n_components, wanted.effort.max_components)
    fitted = fit_size(small, n_components, read_rows(task, small.spec), task)
    model = model_of(fitted, task, wanted.running.n_jobs)
    filled = density.fill(model, task.x).mean
    scores = density.cell_scores(model, task.x, x)
    ends = np.fmin.reduce(task.x, axis=0), np.fmax.reduce(task.x, axis=0)  # as imputers do
    spread = measure_spread(x, sample.weight)
    away = (np.clip(filled, *ends) - x) / np.where(spread > 0, spread, np.inf)
    is_number = exam.hidden & ~np.isnan(scores)
    is_scored = is_number & exam.smooth
    squares = np.where(is_number, away, 0.0) ** 2
    return Trial(shapes, is_scored, np.where(is_scored, scores, 0.0), squares)


def _pick(plain: Trial, trials: Sequence[Trial], weight: np.ndarray) -> dict[int, Shape]:
    """Return the transform that serves each column best, without those best as they are."""
    picked, most = {}, np.full(plain.scores.shape[1], SMALLEST_GAIN)
    for trial in trials:
        for j, shape in list_shaped(trial.shapes):
            held = trial.is_scored[:, j]
            gain, error = _gain(trial.scores[held, j] - plain.scores[held, j], weight[held])
            if gain > max(most[j], 2.0 * error):
                picked[j], most[j] = shape, gain
    return picked


def _is_better(trial: Trial, plain: Trial, weight: np.ndarray) -> bool:
    """Tell whether transforms make hidden cells more probable, and fill them as well."""
    n_cells = float(weight @ plain.is_scored.sum(axis=1) / weight.sum())  # of a row
    gain, error = _gain((trial.scores - plain.scores).sum(axis=1), weight)
    loss, doubt = _gain((trial.squares - plain.squares).sum(axis=1), weight)
    allowed = LARGEST_LOSS * float(weight @ plain.squares.sum(axis=1) / weight.sum())
    return loss <= max(allowed, doubt) and gain > max(SMALLEST_GAIN * n_cells, 2.0 * error)


def _gain(gains: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return the mean of gains (n,), and its standard error."""
    if not len(gains):
        return 0.0, 0.0
    mean = float(np.average(gains, weights=weight))
    variance = float(np.average((gains - mean) ** 2, weights=weight))
    return mean, float(np.sqrt(variance / len(gains)))
