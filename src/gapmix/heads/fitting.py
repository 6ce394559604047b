"""Fit heads: learners on what a mixture fills, each with a weight found on cells it has not seen.

Rows are dealt into folds. What a fold's rows are shown comes from a mixture that was fitted without
them, and the corrections that judge a head from a learner that was, too: so the mixture's errors
on known cells are those it makes on gaps, and the weight is what its correction is worth there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from gapmix import density
from gapmix.density import Density
from gapmix.density.conditional import Filled
from gapmix.fitting.climb import CollapsedFitError
from gapmix.fitting.fitted import Fitted
from gapmix.heads.bins import Binned, put_in_bins
from gapmix.heads.column import N_FOLDS, find_recipe, fit_head, promise_gain
from gapmix.heads.features import (
    DIGITS,
    View,
    count_features,
    find_places,
    is_category,
    make_view,
    number_categories,
)
from gapmix.heads.indicators import (
    Indicators,
    can_be_told,
    count_described,
    describe,
    spread_out,
)
from gapmix.heads.learners import Learners, Recipe
from gapmix.heads.using import Heads, draw_in, heed, refine, see, take_rows
from gapmix.heads.weighing import Judged, Known
from gapmix.plan.canonical import draw_uniform
from gapmix.selection.calibration import find_ends, measure_widths
from gapmix.selection.choose import Wanted, fit_size
from gapmix.selection.task import Task, merge_copies, model_of, only_useful, read_rows, sample_rows
from gapmix.threads import open_engine

FEWEST_CELLS = 60  # known cells of a column that a head is fitted to
CELLS_PER_LEVEL = 5  # of a category: names and numbers of rows have fewer
N_ITER = 4  # in which a mixture forgets the rows of a fold
MANY_COLUMNS = 40  # of which only categories have heads: numbers gain little for their time
MANY_ROWS = 2_000  # of which a few are tried first
# Rows, columns, and the mean gain of error that they must promise:
PROBES = ((500, 6, 0.004), (1_500, MANY_COLUMNS, 0.01))
LEAST_GAIN = 0.005  # that the last of these must promise in a column
MOST_MEASURED = 500  # known cells of a column that calibrate its intervals
MOST_INDICATORS = 200  # columns: the time of one row goes with their square
MOST_OF_INDICATORS = 20  # iterations of their Gaussian
RIDGE_OF_INDICATORS = 2.0  # relative to variances, times columns over rows
MOST_CELLS = 5_000_000  # of rows that are filled in one go: 40 MB
MOST_WORK = 2e7  # rows times features times outputs that have trees on top: about ten seconds
MOST_TWICE = 2e6  # that have a second round of heads by default: some seconds
CLEARLY_WORSE = 0.01  # share of the error, or nats: then a second round is left out

_NOTHING, _NO_BINS = np.empty((0, 0)), Binned(np.empty((0, 0), dtype=np.uint8), [])


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


class Learned(NamedTuple):
    """Heads, and what they do to the intervals of a mixture, by column."""

    heads: Heads
    widths: dict[int, Widths]


def fit_heads(
    wanted: Wanted,
    task: Task,
    fitted: Fitted,
    learners: Learners,
    columns: Sequence[int] | None = None,
    temper: Callable[[np.ndarray], np.ndarray] | None = None,
    trust: np.ndarray | None = None,
) -> Learned:
    """Return heads on a mixture fitted to the rows of a task.

    `columns` are those that get heads, and are hidden together; without them, every column that
    has gaps gets one, and is hidden by itself: one without gaps has none to fill, and of new rows
    that have gaps there it keeps the mixture's filling. `temper` is what probabilities of levels
    become before they are used, and so what heads must be better than; `trust` (D,) is the
    density's.
    """
    rng = np.random.default_rng([wanted.seed, 2])
    task = merge_copies(sample_rows(only_useful(task), rng, learners.max_rows))
    view = make_view(task.x, task.weight, task.n_levels)
    able = [
        j
        for j in (np.flatnonzero(view.gaps).tolist() if columns is None else columns)
        if _can_have_head(task, j)
    ]
    if learners.probe and len(able) > MANY_COLUMNS:
        able = [j for j in able if is_category(view, j)]
    if not able:
        return Learned(Heads(view, ()), {})
    learners = within_means(learners, task, view, able)
    task, fold = deal(task, rng)
    whole, without = _fit_indicators(wanted, task, view, fold)
    if learners.probe and len(task.x) > MANY_ROWS:
        model = model_of(fitted, task, wanted.running.n_jobs)._replace(trust=trust)
        able = _find_promising(task, view, model, fold, learners, able, columns, without)
        if not able:
            return Learned(Heads(view, ()), {})
    models = [each._replace(trust=trust) for each in leave_out(wanted, task, fitted, fold)]
    hidden = {j: [j] if columns is None else list(columns) for j in able}

    def work(given: tuple[int, Shown, Filled], first: Heads | None) -> Fit:
        # Learners have small tables: one thread for each of them, not many for one.
        with threadpool_limits(1, user_api="openmp"):
            j, shown, filled = given
            seen = None
            if first is not None:
                refined = refine(first, filled, np.isnan(shown.x), models[0].shapes)
                seen = see(view, j, refined, filled)
            known = _describe(task, view, fold, j, shown, filled, without, seen)
            if temper is not None:
                known = known._replace(shares=temper(known.shares))
            # What a second round of heads is made of, the first has found.
            recipe = find_recipe(known, learners) if first is None else recipes[j]
            judged, used = fit_head(known, j, recipe)
            return Fit(judged, used, known._replace(features=_NOTHING, binned=_NO_BINS))

    def fit_round(first: Heads | None) -> list[Fit]:
        fits: list[Fit] = []
        for some in _divide(task, able):
            shown = [_hide(task, j, hidden[j]) for j in some]
            filled = _fill(models, fold, shown)
            given = zip(some, shown, filled, strict=True)
            fits += engine.map(partial(work, first=first), list(given))
        return fits

    with open_engine(wanted.running.n_jobs) as engine:
        fits, first = fit_round(None), None
        recipes = {each.judged.head.column: each.recipe for each in fits}
        found = Heads(view, tuple(each.judged.head for each in fits), indicators=whole)
        if found.at_work() and learners.n_rounds > 1 and columns is None:
            again = fit_round(found)
            if _gain(view, again, fits) > -CLEARLY_WORSE:
                fits, first = again, found
    heads = tuple(each.judged.head for each in fits)
    widths = _measure_widths(task, models, fits, view) if columns is None else {}
    return Learned(Heads(view, heads, first, whole), widths)


def _divide(task: Task, columns: Sequence[int]) -> list[list[int]]:
    """Return columns in groups whose rows, with all their cells, are filled in one go."""
    at_once = max(1, MOST_CELLS // task.x.size)
    return [list(columns[low : low + at_once]) for low in range(0, len(columns), at_once)]


def _gain(view: View, fits: Sequence[Fit], others: Sequence[Fit]) -> float:
    """Return how much better heads tell known cells than others do, on average over columns."""
    gains = [0.0]
    for each, other in zip(fits, others, strict=True):
        loss, before = each.judged.loss, other.judged.loss
        if is_category(view, each.judged.head.column):
            gains.append(before - loss)  # mean log probabilities, and errors,
        elif min(loss, before) > 0:
            gains.append(float(np.log(before / loss)))  # which are like them by their logs
    return sum(gains) / len(fits)


def _find_promising(
    task: Task,
    view: View,
    model: Density,
    fold: np.ndarray,
    learners: Learners,
    able: Sequence[int],
    columns: Sequence[int] | None,
    without: Sequence[Indicators | None],
) -> list[int]:
    """Return the columns on which heads promise a gain, judged by a few rows; categories do.

    The mixture has seen these rows. Among many it hardly knows them by heart, and what it does only
    makes it harder to be better.
    """
    numbers = [j for j in view.order.tolist() if j in able and not is_category(view, j)]
    gains: dict[int, float] = {}
    for n, most, least in PROBES if numbers else ():
        few = task._replace(x=task.x[:n], weight=task.weight[:n])
        some = numbers[:: -(-len(numbers) // most)]
        shown = [_hide(few, j, [j] if columns is None else columns) for j in some]
        filled = _fill([model], np.zeros(n, dtype=int), shown)
        for j, own, told in zip(some, shown, filled, strict=True):
            known = _describe(few, view, fold, j, own, told, without)
            gains[j] = promise_gain(known, j, learners)
        if float(np.mean([gains[j] for j in some])) < least:
            gains = dict.fromkeys(numbers, 0.0)
            break
    return [j for j in able if j not in gains or gains[j] >= LEAST_GAIN]


def within_means(learners: Learners, task: Task, view: View, columns: Sequence[int]) -> Learners:
    """Return learners that these columns of the table are not too much for."""
    n_outputs = sum(max(1, len(view.levels[j])) for j in columns)
    work = len(task.x) * count_features(view, columns[0]) * n_outputs
    if learners.probe and work > MOST_TWICE:
        learners = learners._replace(n_rounds=1)
    if work <= MOST_WORK:
        return learners
    numbers, levels = (each._replace(growth=None) for each in learners[:2])
    return learners._replace(of_numbers=numbers, of_levels=levels)


def _can_have_head(task: Task, column: int) -> bool:
    """Tell whether a column shows enough cells, of every level on average, and not all the same."""
    values = task.x[~np.isnan(task.x[:, column]), column]
    n_levels = 0 if task.n_levels is None else int(task.n_levels[column])
    enough = len(values) >= max(FEWEST_CELLS, CELLS_PER_LEVEL * n_levels)
    return enough and bool((values != values[0]).any())


def deal(task: Task, rng: np.random.Generator) -> tuple[Task, np.ndarray]:
    """Return the rows in canonical order and the fold of each, (n,), the same one for copies.

    Neither units, nor places of rows and columns, nor empty columns, nor names of levels matter.
    """
    drawn = draw_uniform(task.x, task.weight, rng, task.n_levels)
    keys = drawn[:, ~np.isnan(task.x).all(axis=0)].sum(axis=1)
    order = np.argsort(keys, kind="stable")
    place: np.ndarray = np.unique(keys[order], return_inverse=True)[1]
    return task._replace(x=task.x[order], weight=task.weight[order]), place % N_FOLDS


def leave_out(wanted: Wanted, task: Task, fitted: Fitted, fold: np.ndarray) -> list[Density]:
    """Return for each fold the mixture, fitted on from where it stands without the fold's rows."""
    brief = wanted._replace(
        spec=wanted.spec._replace(
            max_iter=min(N_ITER, wanted.spec.max_iter),
            n_init=1,
            covariance_type=fitted.parameters.structure,
        ),
        running=wanted.running._replace(verbose=0),
    )
    models = []
    for each in range(N_FOLDS):
        rest = task._replace(x=task.x[fold != each], weight=task.weight[fold != each])
        try:
            size = len(fitted.parameters.weights)
            refitted = fit_size(brief, size, read_rows(rest, brief.spec), rest, fitted)
        except (CollapsedFitError, ValueError):  # too few rows are left
            refitted = fitted
        models.append(model_of(refitted, task, wanted.running.n_jobs))
    return models


def _fit_indicators(
    wanted: Wanted, task: Task, view: View, fold: np.ndarray
) -> tuple[Indicators | None, list[Indicators | None]]:
    """Return the Gaussian of indicators of all rows, and for each fold that of the others."""
    nothing: list[Indicators | None] = [None] * N_FOLDS
    if not can_be_told(view):
        return None, nothing
    x = spread_out(view, task.x)
    q = x.shape[1]
    known = ~np.isnan(x)
    low, high = (np.where(known, x, end) for end in (np.inf, -np.inf))
    varies = np.flatnonzero(high.max(axis=0) > low.min(axis=0))
    if q > MOST_INDICATORS or not varies.size:
        return None, nothing
    spec = wanted.spec._replace(
        n_components=1,
        covariance_type="full",
        reg_covar=RIDGE_OF_INDICATORS * q / len(x),
        shrinkage=0.0,
        mean_shrinkage=0.0,
        n_init=1,
        max_iter=MOST_OF_INDICATORS,
    )
    alone = wanted._replace(spec=spec, running=wanted.running._replace(verbose=0))
    rows = Task(x[:, varies], task.weight, [str(j) for j in varies])
    fitted = fit_size(alone, 1, read_rows(rows, spec), rows)
    models = [model_of(fitted, rows, 1), *leave_out(alone, rows, fitted, fold)]
    whole, *without = (_to_indicators(each, varies, q) for each in models)
    return whole, list(without)


def _to_indicators(model: Density, varies: np.ndarray, q: int) -> Indicators:
    """Return a Gaussian of all indicators; those that do not vary know nothing of the others."""
    mean, covariance = np.zeros(q), np.eye(q)
    mean[varies] = model.parameters.means[0]
    found = model.parameters.covariances[0]
    covariance[np.ix_(varies, varies)] = 0.5 * (found + found.T)
    return Indicators(mean, covariance)


class Shown(NamedTuple):
    """The rows that show a column, as they are with it hidden."""

    rows: np.ndarray  # (m,) their numbers
    x: np.ndarray  # (m, D)


def _hide(task: Task, column: int, hidden: Sequence[int]) -> Shown:
    """Return the rows that show a column, with columns hidden, among them this one."""
    rows = np.flatnonzero(~np.isnan(task.x[:, column]))
    x = task.x[rows]
    x[:, list(hidden)] = np.nan
    return Shown(rows, x)


def _fill(models: Sequence[Density], fold: np.ndarray, shown: Sequence[Shown]) -> list[Filled]:
    """Return what is filled into rows by the mixture of their fold, in one go for all columns."""
    x = np.concatenate([each.x for each in shown])
    own = np.concatenate([fold[each.rows] for each in shown])
    parts = [density.fill(m, x[own == k], spread=True) for k, m in enumerate(models)]
    back = np.argsort(np.argsort(own, kind="stable"), kind="stable")  # from folds to rows
    ends = np.cumsum([len(each.x) for each in shown])[:-1]
    filled = Filled._make(_join(each) for each in zip(*parts, strict=True))
    return [take_rows(filled, each) for each in np.split(back, ends)]


def _describe(
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
    binned, places = put_in_bins(features, weight), find_places(view, column)
    if without[0] is not None and not is_category(view, column):
        places = places._replace(echo=features.shape[1] - 1)
    return Known(rows, mean, features, binned, places, target, shares, std, weight, fold[rows])


class Ends(NamedTuple):
    """Known cells of a column, hidden, and between which values intervals must reach."""

    column: np.ndarray  # (m,) always the same
    shown: np.ndarray  # (m, D)
    fold: np.ndarray  # (m,)
    plain: tuple[np.ndarray, ...]  # two of them, (m, D); NaN in other columns
    refined: tuple[np.ndarray, ...]  # of the mixture, so that those of the head reach it


def _measure_widths(
    task: Task, models: Sequence[Density], fits: Sequence[Fit], view: View
) -> dict[int, Widths]:
    """Return how wide intervals of the mixture must be to hold known cells, by column."""
    at_work = {
        each.judged.head.column: each
        for each in fits
        if each.judged.head.learner is not None and each.judged.left.size
    }
    widths = {}
    for some in _divide(task, list(at_work)):
        parts = [_find_ends(task, at_work[j], view) for j in some]
        ends = Ends._make(_join(each) for each in zip(*parts, strict=True))
        both = np.empty((2, len(ends.column)))
        for k, model in enumerate(models):
            out = ends.fold == k
            for widths_of, (low, high) in zip(both, (ends.plain, ends.refined), strict=True):
                found = measure_widths(model, ends.shown[out], low[out], high[out])
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


def _join(parts: Sequence[Any]) -> Any:
    """Return arrays of several parts, or tuples of arrays, one after the other."""
    if isinstance(parts[0], tuple):
        return tuple(_join(each) for each in zip(*parts, strict=True))
    return np.concatenate(parts)
