"""Fit a mixture of the size asked for, or of sizes that prove good on what is hidden from them."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import NamedTuple

import numpy as np

from gapmix import density
from gapmix.categories import TINY, is_mixed
from gapmix.density import Density
from gapmix.em.records import Iteration
from gapmix.fitting.climb import CollapsedFitError
from gapmix.fitting.fitted import Fitted, density_of
from gapmix.fitting.matrix import Matrix, are_useful, as_table, make_matrix
from gapmix.fitting.progress import comparing, showing
from gapmix.fitting.spec import Running, Spec
from gapmix.fitting.whole import fit
from gapmix.selection import sizes
from gapmix.selection.hiding import hide, hide_rows
from gapmix.selection.sizes import Candidate
from gapmix.structures.mixtures import parameters_to_internal, parameters_to_user, unite
from gapmix.units import Scaling

logger = logging.getLogger("gapmix")

MAX_ROWS = 20_000  # sizes are compared on at most so many rows, drawn at random
ROWS_TO_HOLD_OUT = 10  # rows a component needs for some to be held out
MAX_COMPONENTS = 55  # unless max_components says otherwise


class Task(NamedTuple):
    """What a mixture is fitted to, and which of its cells judge its size."""

    x: np.ndarray  # (n, d), NaN where missing
    weight: np.ndarray  # (n,)
    names: list[str]  # of the columns, for messages
    target_columns: np.ndarray | None = None  # hide these only; None hides any
    whole_rows: bool = False  # hide rows instead of cells, and judge by their density
    units: Scaling | None = None  # of a larger table, if this is part of one
    pooled: np.ndarray | None = None  # (d, d) covariance to shrink to, if it is known
    n_levels: np.ndarray | None = None  # (D,) levels of the columns, 0 for numbers


class Wanted(NamedTuple):
    """The mixture asked for, how its size is found, and where it is fitted."""

    spec: Spec
    n_components: int | str  # a number, or 'auto'
    average: bool
    max_components: int | None
    seed: int
    running: Running


class Chosen(NamedTuple):
    """A fitted mixture, the sizes it was chosen from, and a fit that has not seen some rows."""

    fitted: Fitted
    candidates: tuple[Candidate, ...]  # empty if the size was given
    advice: tuple[str, ...]  # what to say of fits that did not converge
    blind: Fitted | None = None  # the best size, fitted without what was hidden
    held: np.ndarray | None = None  # (m, d) rows of which something was hidden
    held_weight: np.ndarray | None = None  # (m,)
    calibration: np.ndarray | None = None  # see sizes.calibrate_intervals


def read_rows(task: Task, spec: Spec) -> Matrix:
    """Return the rows of a task as a fit sees them."""
    return make_matrix(
        task.x, task.weight, task.names, spec.covariance_type, task.units, n_levels=task.n_levels
    )


def fit_size(
    wanted: Wanted, n_components: int, matrix: Matrix, task: Task, before: Fitted | None = None
) -> Fitted:
    """Return a mixture of this size fitted to rows of the task, from where one stands or afresh.

    Where it stands may be nowhere: a value that was hidden may be so far out that, beside it, all
    that was fitted is a point.
    """
    entropy = np.random.RandomState(wanted.seed).randint(0, 2**31, size=4).tolist()
    # At 1, sizes are shown; at 2, also the starts of every fit.
    verbose = 1 if wanted.running.verbose in (2, 3) else 0
    refit = partial(
        fit,
        wanted.spec._replace(n_components=n_components),
        matrix,
        entropy,
        wanted.running._replace(verbose=verbose),
        target=task.pooled,
    )
    if before is None:
        return refit()
    try:
        return refit(before=before)
    except CollapsedFitError:
        return refit()


def choose(wanted: Wanted, task: Task) -> Chosen:
    """Fit a mixture of the size asked for, or of sizes that prove good.

    With "auto", sizes are compared on cells hidden from them, and the best three are fitted again
    to everything, from where they were, and united.
    """
    useful = are_useful(task.x, task.weight)
    if useful.any() and not useful.all():  # as if the others were not there
        task = task._replace(x=task.x[useful], weight=task.weight[useful])
    n_rows = _count_rows(task)
    if wanted.n_components == "auto":
        most = MAX_COMPONENTS if wanted.max_components is None else wanted.max_components
        tried = sizes.list_sizes(n_rows, most)
    else:
        tried = [int(wanted.n_components)]
    # A class holds rows out to calibrate by, even if there is nothing to choose.
    holds_out = task.whole_rows and n_rows >= ROWS_TO_HOLD_OUT * tried[0]
    with showing(wanted.running.verbose), comparing(tried):
        if len(tried) > 1 or holds_out:
            return _compare(wanted, task, tried)
        fitted = fit_size(wanted, tried[0], read_rows(task, wanted.spec), task)
        return Chosen(fitted, (), (fitted.advice,))


def _compare(wanted: Wanted, task: Task, tried: list[int]) -> Chosen:
    rng = np.random.default_rng([wanted.seed, 1])
    sample = _sample_rows(task, rng)
    hidden = _hide(sample, rng)
    shown = np.where(hidden, np.nan, sample.x)
    matrix = read_rows(sample._replace(x=shown), wanted.spec)  # one for all sizes
    mixed = is_mixed(task.n_levels)
    fits: dict[int, Fitted] = {}
    losses: dict[int, float] = {}  # of sizes, where there are categories

    def judge(n_components: int) -> Candidate:
        began = time.perf_counter()
        fitted = fits[n_components] = fit_size(wanted, n_components, matrix, task)
        model = density_of(fitted, wanted.running.n_jobs)
        error, log_score = _judge(model, sample, shown, hidden)
        if mixed:
            losses[n_components] = _joint_loss(model, sample, shown, hidden, error)
        seconds = time.perf_counter() - began
        candidate = Candidate(n_components, error, log_score, fitted.n_iter, seconds)
        if wanted.running.verbose:
            logger.info(
                "%d components: error of hidden cells %.4f standard deviations, log score %.4f, "
                "%d iterations, %.1f s",
                *candidate[:5],
            )
        return candidate

    def loss(candidate: Candidate) -> float:
        if task.whole_rows:
            return -candidate.log_score
        return losses[candidate.n_components] if mixed else candidate.error

    grown = sizes.grow(tried, judge, loss)
    if task.whole_rows or mixed:
        candidates = sizes.share_by_loss(grown, loss, average=wanted.average)
    else:
        candidates = sizes.share_by_error(grown, average=wanted.average)
    blind = fits[min(grown, key=loss).n_components]
    whole = read_rows(task, wanted.spec)
    kept = [
        fit_size(wanted, each.n_components, whole, task, fits[each.n_components])
        for each in candidates
        if each.share > 0
    ]
    shares = np.array([each.share for each in candidates if each.share > 0])
    held = np.asarray(hidden.any(axis=1))
    calibration = None
    if not task.whole_rows:
        model = density_of(blind, wanted.running.n_jobs)
        calibration = _calibrate(model, sample, shown, hidden)
    united = _unite(kept, shares, whole, wanted.running.n_jobs)
    advice = tuple(each.advice for each in kept)
    rows = sample.x[held], sample.weight[held]
    return Chosen(united, candidates, advice, blind, *rows, calibration)


def _hide(task: Task, rng: np.random.Generator) -> np.ndarray:
    """Return True for the cells that sizes are judged by, (n, D)."""
    if task.whole_rows:
        return hide_rows(task.x, task.weight, rng, task.n_levels)
    columns, weight, n_levels = task.target_columns, task.weight, task.n_levels
    return hide(task.x, "mcar", rng, columns=columns, weight=weight, n_levels=n_levels)


def _calibrate(
    model: Density, sample: Task, shown: np.ndarray, hidden: np.ndarray
) -> np.ndarray | None:
    """Return how to ask for intervals so that they hold what they should, judged by hidden cells.

    Columns that do not vary say nothing about it.
    """
    varies = sizes.measure_spread(sample.x, sample.weight) > 0
    if sample.n_levels is not None:
        varies &= sample.n_levels == 0
    judged = hidden & varies
    row = np.flatnonzero(judged.any(axis=1))
    if not row.size:
        return None
    inside = density.distribution(model, shown[row], sample.x[row])[judged[row]]
    weight = sample.weight[np.nonzero(judged)[0]]
    known = sample.weight @ ~np.isnan(sample.x[:, varies]) / sample.weight.sum()  # share of cells
    n_rows = _count_rows(sample) * float(known.mean())
    return sizes.calibrate_intervals(inside, weight, n_rows, float(known.sum()))


def _count_rows(task: Task) -> int:
    """Return the number of rows that say something, each counted once however often it is there.

    So a weight of 2 leads to the same sizes as the row given twice. In a long table it does not
    matter: enough rows for every size are left.
    """
    useful = task.x[are_useful(task.x, task.weight)]
    if len(useful) > MAX_ROWS:
        return len(useful)
    rows = np.ascontiguousarray(useful).view(f"V{useful.itemsize * useful.shape[1]}")
    return len(np.unique(rows))


def _sample_rows(task: Task, rng: np.random.Generator) -> Task:
    """Return the task on some of its rows if it has very many."""
    n = len(task.x)
    if n <= MAX_ROWS:
        return task
    chosen = np.sort(rng.choice(n, MAX_ROWS, replace=False))
    return task._replace(x=task.x[chosen], weight=task.weight[chosen])


def _judge(
    model: Density, sample: Task, shown: np.ndarray, hidden: np.ndarray
) -> tuple[float, float]:
    """Return error and log score of hidden cells, told from the rest of their rows.

    log p(hidden | shown) = log p(all of the row) - log p(what is shown of it).
    """
    x, weight = sample.x, sample.weight
    held = np.flatnonzero(hidden.any(axis=1))
    if not held.size:
        return 0.0, 0.0
    filled = x.copy()
    filled[held] = density.fill(model, shown[held]).mean
    gain = density.score(model, x[held]).log_prob - density.score(model, shown[held]).log_prob
    log_score = float(weight[held] @ gain / (weight @ hidden.sum(axis=1)))
    if sample.n_levels is not None:
        hidden = hidden & (sample.n_levels == 0)
    return sizes.measure_error(x, filled, hidden, weight), log_score


def _joint_loss(
    model: Density, sample: Task, shown: np.ndarray, hidden: np.ndarray, error: float
) -> float:
    """Return what sizes are compared by in a table with categories, a mean over hidden cells.

    A number counts by half its squared error, in standard deviations, a level by minus the log of
    its probability.
    The log score of numbers would have many components on values that repeat, such as zeros, and
    these fill the other gaps badly.
    """
    assert sample.n_levels is not None
    weight = sample.weight
    held = np.flatnonzero(hidden.any(axis=1))
    shares = density.level_probabilities(model, shown[held])
    loss = total = 0.0
    for column, share in zip(np.flatnonzero(sample.n_levels), shares, strict=True):
        cells = hidden[held, column]
        own = share[cells, sample.x[held[cells], column].astype(int)]
        loss -= float(weight[held[cells]] @ np.log(np.maximum(own, TINY)))
        total += float(weight[held[cells]].sum())
    numbers = float(weight @ hidden[:, sample.n_levels == 0].sum(axis=1))
    return (loss + 0.5 * numbers * error**2) / max(total + numbers, TINY)


def _unite(fits: list[Fitted], shares: np.ndarray, matrix: Matrix, n_jobs: int | None) -> Fitted:
    """Return one mixture of the components of all; the first is the one to look at for its plan."""
    first = fits[0]
    if len(fits) == 1:
        return first
    parameters = unite([each.parameters for each in fits], shares)
    model = density_of(first._replace(parameters=parameters), n_jobs)
    log_prob = density.score(model, as_table(matrix)).log_prob
    mean = float(np.average(log_prob, weights=matrix.weight))
    # What is stored was put together, not climbed to: one record says what it is worth.
    record = Iteration(mean, mean, None, 0.0, (f"united {len(fits)} mixtures",))
    n_iter = max(each.n_iter for each in fits)
    return first._replace(
        parameters=parameters_to_user(parameters_to_internal(parameters, first.units), first.units),
        history=(record,),
        n_iter=n_iter,
        converged=all(each.converged for each in fits),
        stop_reason=f"{len(fits)} mixtures were united, the slowest after {n_iter} iterations",
        target=None,
        center=None,
        advice="",
    )
