"""Fit heads: learners on what a mixture fills, each with a weight found on cells it has not seen.

Rows are dealt into folds. What a fold's rows are shown comes from a mixture that was fitted without
them, and the corrections that judge a head from a learner that was, too: so the mixture's errors
on known cells are those it makes on gaps, and the weight is what its correction is worth there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from gapmix.density import Density
from gapmix.density.conditional import Filled
from gapmix.fitting.fitted import Fitted
from gapmix.heads.bins import Binned
from gapmix.heads.column import MOST_SLOPES, find_recipe, fit_head, promise_gain
from gapmix.heads.features import View, count_features, is_category, make_view
from gapmix.heads.folds import deal, fit_indicators, leave_out
from gapmix.heads.indicators import Indicators
from gapmix.heads.learners import Learners
from gapmix.heads.looking import Shown, divide, fill_shown, hide_column, look, with_bins
from gapmix.heads.using import Heads, refine, see
from gapmix.heads.widths import Fit, Widths, measure_widths
from gapmix.selection.choose import Wanted
from gapmix.selection.task import Task, merge_copies, model_of, only_useful, sample_rows
from gapmix.threads import open_engine

FEWEST_CELLS = 60  # known cells of a column that a head is fitted to
CELLS_PER_LEVEL = 5  # of a category: names and numbers of rows have fewer
MANY_COLUMNS = 40  # of which only categories have heads: numbers gain little for their time
MANY_ROWS = 2_000  # of which a few are tried first
# Rows, columns, and the mean gain of error that they must promise:
PROBES = ((500, 6, 0.004), (1_500, MANY_COLUMNS, 0.01))
LEAST_GAIN = 0.005  # that the last of these must promise in a column
MOST_WORK = 2e7  # rows times features times outputs that have trees on top: about ten seconds
MOST_TWICE = 2e6  # that have a second round of heads by default: some seconds
CLEARLY_WORSE = 0.01  # share of the error, or nats: then a second round is left out

_NOTHING, _NO_BINS = np.empty((0, 0)), Binned(np.empty((0, 0), dtype=np.uint8), [])


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
        if _can_have_head(task, j) and not _takes_too_long(learners, view, j)
    ]
    if learners.probe and len(able) > MANY_COLUMNS:
        able = [j for j in able if is_category(view, j)]
    if not able:
        return Learned(Heads(view, ()), {})
    learners = within_means(learners, task, view, able)
    task, fold = deal(task, rng)
    whole, without = fit_indicators(wanted, task, view, fold)
    if learners.probe and len(task.x) > MANY_ROWS:
        model = model_of(fitted, task, wanted.running.n_jobs)._replace(trust=trust)
        able = _find_promising(task, view, model, fold, learners, able, columns, without)
        if not able:
            return Learned(Heads(view, ()), {})
    models = [each._replace(trust=trust) for each in leave_out(wanted, task, fitted, fold)]
    hidden = {j: [j] if columns is None else list(columns) for j in able}
    libraries = ThreadpoolController()  # to look for them takes as long as a small head

    def work(given: tuple[int, Shown, Filled], first: Heads | None) -> Fit:
        # Learners have small tables: one thread for each of them, not many for one.
        with libraries.limit(limits=1, user_api="openmp"):
            j, shown, filled = given
            seen = None
            if first is not None:
                refined = refine(first, filled, np.isnan(shown.x), models[0].shapes)
                seen = see(view, j, refined, filled)
            known = look(task, view, fold, j, shown, filled, without, seen)
            if temper is not None:
                known = known._replace(shares=temper(known.shares))
            # What a second round of heads is made of, the first has found.
            recipe = find_recipe(known, learners) if first is None else recipes[j]
            if recipe.growth is not None or recipe.plantings:
                known = with_bins(known)
            judged, used = fit_head(known, j, recipe)
            return Fit(judged, used, known._replace(features=_NOTHING, binned=_NO_BINS))

    def fit_round(first: Heads | None) -> list[Fit]:
        fits: list[Fit] = []
        for some in divide(task, able):
            shown = [hide_column(task, j, hidden[j]) for j in some]
            filled = fill_shown(models, fold, shown)
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
    widths = measure_widths(task, models, fits, view) if columns is None else {}
    return Learned(Heads(view, heads, first, whole), widths)


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
        shown = [hide_column(few, j, [j] if columns is None else columns) for j in some]
        filled = fill_shown([model], np.zeros(n, dtype=int), shown)
        for j, own, told in zip(some, shown, filled, strict=True):
            known = with_bins(look(few, view, fold, j, own, told, without))
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
    if learners.probe:  # of the forests of levels, the smoother one, which takes less and is better
        few = tuple(each._replace(n_trees=each.n_trees // 2) for each in levels.plantings[-1:])
        levels = levels._replace(plantings=few)
    return learners._replace(of_numbers=numbers, of_levels=levels)


def _takes_too_long(learners: Learners, view: View, column: int) -> bool:
    """Tell whether a category has too many slopes, and no forest is there in their place."""
    recipe, n_levels = learners.of_levels, len(view.levels[column])
    if recipe.plantings or recipe.insists:
        return False
    return n_levels * count_features(view, column) > MOST_SLOPES


def _can_have_head(task: Task, column: int) -> bool:
    """Tell whether a column shows enough cells, of every level on average, and not all the same."""
    values = task.x[~np.isnan(task.x[:, column]), column]
    n_levels = 0 if task.n_levels is None else int(task.n_levels[column])
    enough = len(values) >= max(FEWEST_CELLS, CELLS_PER_LEVEL * n_levels)
    return enough and bool((values != values[0]).any())
