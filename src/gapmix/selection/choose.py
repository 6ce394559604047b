"""Fit a mixture of the size asked for, or of sizes that prove good on what is hidden from them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from gapmix import density
from gapmix.density import Density
from gapmix.em.records import Iteration
from gapmix.fitting.climb import CollapsedFitError
from gapmix.fitting.fitted import Fitted, density_of
from gapmix.fitting.matrix import Matrix, as_table
from gapmix.fitting.progress import comparing, showing
from gapmix.fitting.spec import Running, Spec
from gapmix.fitting.whole import fit
from gapmix.selection import judging, sizes
from gapmix.selection.calibration import calibrate
from gapmix.selection.effort import EFFORTS, Effort, Spend, count_iterations
from gapmix.selection.hiding import hide, hide_rows
from gapmix.selection.judging import Hidden, Told
from gapmix.selection.sizes import Candidate, Size
from gapmix.selection.task import Task, count_rows, model_of, only_useful, read_rows, sample_rows
from gapmix.structures import STRUCTURES, name_structure
from gapmix.structures.mixtures import (
    parameters_to_internal,
    parameters_to_user,
    unite,
    without_idle,
)

logger = logging.getLogger("gapmix")

ROWS_TO_HOLD_OUT = 10  # rows a component needs for some to be held out
SHARE_TO_FORESEE = 0.5  # of the rows, on which sizes show whether larger ones can pay
ROWS_TO_LEAP = 5_000  # on which small sizes are hardly ever the best, and the first to leave out


class Wanted(NamedTuple):
    """The mixture asked for, how its size is found, and where it is fitted."""

    spec: Spec
    n_components: int | str  # a number, or 'auto'
    average: bool
    max_components: int | None
    seed: int
    running: Running
    effort: Effort = EFFORTS["default"]
    n_factors: int | str = 0  # a number, or 'auto', if covariances have factors
    seeks_ridge: bool = False  # whether a larger ridge than the spec's may be taken


class Chosen(NamedTuple):
    """A fitted mixture, the sizes it was chosen from, and a fit that has not seen some rows."""

    fitted: Fitted
    candidates: tuple[Candidate, ...]  # empty if the size was given
    advice: tuple[str, ...]  # what to say of fits that did not converge
    blind: Fitted | None = None  # the best size, fitted without what was hidden
    held: np.ndarray | None = None  # (m, d) rows of which something was hidden
    held_weight: np.ndarray | None = None  # (m,)
    calibration: np.ndarray | None = None  # see calibration.calibrate_intervals
    trust: np.ndarray | None = None  # (D,) see judging.find_trust
    error: float | None = None  # of hidden numbers as they are filled in the end, in deviations
    reg_covar: float = sizes.RIDGE  # of the largest share


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

    With "auto", sizes are compared on cells hidden from them, and the best, up to three, are fitted
    again to everything and united.
    """
    task = only_useful(task)
    n_rows = count_rows(task)
    if wanted.n_components == "auto":
        most = wanted.effort.max_components
        if most > 1 and wanted.max_components is not None:
            most = wanted.max_components
        tried = sizes.list_sizes(n_rows, most)
    else:
        tried = [int(wanted.n_components)]
    factors = [0]
    if STRUCTURES[wanted.spec.covariance_type].n_factors:
        known = int((~np.isnan(task.x)).any(axis=0).sum())
        number = wanted.n_factors
        factors = sizes.list_factors(n_rows, known) if number == "auto" else [int(number)]
    # Something is hidden to calibrate by, even if there is no size to choose.
    calibrates = wanted.n_components == "auto"
    if task.whole_rows:
        calibrates = n_rows >= ROWS_TO_HOLD_OUT * tried[0]
    with showing(wanted.running.verbose), comparing(tried):
        if len(tried) > 1 or len(factors) > 1 or calibrates:
            return _compare(wanted, task, tried, factors)
        only = _with(wanted, factors[0], wanted.spec.reg_covar)
        fitted = fit_size(only, tried[0], read_rows(task, wanted.spec), task)
        return Chosen(fitted, (), (fitted.advice,), reg_covar=wanted.spec.reg_covar)


def find_factors(wanted: Wanted, task: Task) -> int:
    """Return the number of factors with which a mixture of a given size tells hidden cells best."""
    chosen = choose(wanted._replace(average=False, n_factors="auto"), task)
    return STRUCTURES[chosen.fitted.parameters.structure].n_factors


def _with(wanted: Wanted, n_factors: int, ridge: float) -> Wanted:
    """Return what is wanted with so many factors, if covariances have any, and a ridge."""
    kind = name_structure(wanted.spec.covariance_type, n_factors)
    return wanted._replace(spec=wanted.spec._replace(covariance_type=kind, reg_covar=ridge))


def _compare(wanted: Wanted, task: Task, tried: list[int], factors: list[int]) -> Chosen:
    rng = np.random.default_rng([wanted.seed, 1])
    sample = sample_rows(task, rng, wanted.effort.max_rows)
    hidden = _hide(sample, rng)
    cells = judging.hide_from(sample.x, sample.weight, hidden, sample.n_levels)
    shown = sample._replace(x=np.where(hidden, np.nan, sample.x))
    matrix = read_rows(shown, wanted.spec)  # one for all sizes
    fits: dict[Size, Fitted] = {}
    told: dict[Size, Told] = {}

    def judge(n_components: int, n_factors: int, ridge: float) -> Candidate:
        began = time.perf_counter()
        this = _with(wanted, n_factors, ridge)
        fitted = _fit_within(this, n_components, matrix, task, wanted.effort.compared)
        if wanted.n_factors == "auto":
            fitted = fitted._replace(parameters=without_idle(fitted.parameters))
        n_factors = STRUCTURES[fitted.parameters.structure].n_factors
        size = Size(n_components, n_factors, ridge)
        model = model_of(fitted, task, wanted.running.n_jobs)
        fills = task.target_columns is None and not task.whole_rows
        answer = judging.ask(model, cells, limited=fills)
        fits[size], told[size] = fitted, answer
        loss = -answer.log_score if task.whole_rows else judging.measure_loss(cells, answer)
        error = judging.measure_error(cells, answer.mean)
        seconds = time.perf_counter() - began
        found = n_components, error, answer.log_score, fitted.n_iter, seconds
        candidate = Candidate(*found, loss=loss, n_factors=n_factors, reg_covar=ridge)
        if wanted.running.verbose:
            logger.info(
                "%d component%s%s: error of hidden cells %.4f standard deviations, log score %.4f, "
                "%d iterations, %.1f s",
                n_components,
                "s" * (n_components > 1),
                f", ridge {ridge:g}" * (ridge > wanted.spec.reg_covar),
                *found[1:],
            )
        return candidate

    # What brings nothing on a small part of the rows may do so on all of them.
    many = len(sample.x) >= SHARE_TO_FORESEE * len(task.x)
    foresees = wanted.effort.foresees and many
    plain = partial(judge, ridge=wanted.spec.reg_covar)
    grown = _grow(tried, factors, plain, len(sample.x), foresees=foresees)
    if _may_need_ridge(wanted, shown):
        grown += sizes.grow_ridge(
            grown, lambda size, ridge: judge(size, 0, ridge), average=wanted.average
        )
    best = sizes.choose_best(grown, average=wanted.average)
    of_best = [told[sizes.size_of(each)] for each in best]
    shares = None if task.whole_rows else judging.find_shares(cells, of_best)
    candidates = sizes.share(grown, best, shares)
    blind = fits[sizes.size_of(best[0])]
    whole = read_rows(task, wanted.spec)
    kept = [each for each in candidates if each.share > 0]
    parts = [part for each in kept for part in _fit_all(wanted, whole, task, fits, each)]
    calibration = trust = error = None
    if not task.whole_rows:
        # What is united has other quantiles than its best part: calibrate what is alike.
        compared = [fits[sizes.size_of(each)].parameters for each in kept]
        together = unite(compared, np.array([each.share for each in kept]))
        model = model_of(blind._replace(parameters=together), task, wanted.running.n_jobs)
        if len(cells.x):
            trust, error = _find_trust(
                model, cells, [told[sizes.size_of(each)] for each in kept], kept
            )
        calibration = calibrate(model._replace(trust=trust), sample, cells)
    weights = np.repeat([each.share for each in kept], wanted.effort.n_starts)
    united = _unite(parts, weights / wanted.effort.n_starts, whole, wanted.running.n_jobs)
    advice = tuple(each.advice for each in parts)
    found = Chosen(united, candidates, advice, blind, cells.x, cells.weight, calibration)
    largest = max(kept, key=lambda each: each.share)
    return found._replace(trust=trust, error=error, reg_covar=largest.reg_covar)


def as_chosen(wanted: Wanted, chosen: Chosen) -> Wanted:
    """Return what is wanted with the ridge that was chosen, to fit the mixture again."""
    return wanted._replace(spec=wanted.spec._replace(reg_covar=chosen.reg_covar))


def _may_need_ridge(wanted: Wanted, shown: Task) -> bool:
    """Tell whether columns are many for the rows that show them, and a ridge can be added."""
    if not (wanted.seeks_ridge and STRUCTURES[wanted.spec.covariance_type].HAS_AXES):
        return False
    numbers = (
        np.ones(shown.x.shape[1], dtype=bool) if shown.n_levels is None else shown.n_levels < 1
    )
    known = shown.weight @ ~np.isnan(shown.x[:, numbers]) / shown.weight.sum()
    known = known[known > 0]  # the others are as if they were not there
    return count_rows(shown) * float(known.sum()) < sizes.ROWS_PER_COLUMN * len(known) ** 2


def _grow(
    tried: list[int],
    factors: list[int],
    judge: Callable[[int, int], Candidate],
    n_rows: int,
    *,
    foresees: bool,
) -> tuple[Candidate, ...]:
    """Return the sizes that were judged: first how many factors, then of how many components."""
    grown: tuple[Candidate, ...] = ()
    if len(factors) > 1:
        grown = sizes.grow_factors(factors, lambda n_factors: judge(tried[0], n_factors))
        [found] = sizes.choose_best(grown, average=False)
        factors = [found.n_factors]
    known, [n_factors] = {(each.n_components, each.n_factors): each for each in grown}, factors
    fewest = sizes.ROWS_PER_FACTOR * n_factors  # rows of a component
    more = sizes.grow(
        [size for size in tried if size == tried[0] or size * fewest <= n_rows],
        lambda size: known.get((size, n_factors)) or judge(size, n_factors),
        1 if n_factors else sizes.PATIENCE,
        foresees=foresees,
        leaps=n_rows >= ROWS_TO_LEAP,
    )
    new = (each for each in more if each not in grown)
    return grown + tuple(sorted(new, key=lambda each: each.n_components))


def _find_trust(
    model: Density, cells: Hidden, told: Sequence[Told], kept: Sequence[Candidate]
) -> tuple[np.ndarray, float]:
    """Return how far to trust what rows tell of each column, (D,), and the error that is left."""
    nothing = np.full((1, cells.x.shape[1]), np.nan)
    levels = density.level_probabilities(model, nothing) if told[0].levels else ()
    alone = Told(np.zeros(1), density.fill(model, nothing).mean, levels, np.nan)
    shares = np.array([each.share for each in kept])
    united = judging.unite_told(told, shares / shares.sum())
    trust = judging.find_trust(cells, united, alone)
    pooled = trust * united.mean + (1.0 - trust) * alone.mean
    return trust, judging.measure_error(cells, pooled)


def _fit_all(
    wanted: Wanted,
    whole: Matrix,
    task: Task,
    fits: dict[Size, Fitted],
    kept: Candidate,
) -> list[Fitted]:
    """Return mixtures of a size that is kept, fitted to all cells.

    They begin where the comparison left the size if the way from a start of their own would be too
    long. That is better: what priors shrink to is told from the start, by all cells. Factors
    always have a start of their own: it is near the end, and has those that fewer cells hid.
    """
    size, spend = kept.n_components, wanted.effort.kept
    wanted = _with(wanted, kept.n_factors, kept.reg_covar)
    far = _count_iterations(wanted, spend, whole, size) < wanted.spec.max_iter
    far &= not kept.n_factors
    starts = [wanted._replace(seed=wanted.seed + i) for i in range(wanted.effort.n_starts)]
    befores = [fits[sizes.size_of(kept)] if far else None, *(None for _ in starts[1:])]
    return [
        _fit_within(start, size, whole, task, spend, before)
        for start, before in zip(starts, befores, strict=True)
    ]


def _fit_within(
    wanted: Wanted,
    n_components: int,
    matrix: Matrix,
    task: Task,
    spend: Spend,
    before: Fitted | None = None,
) -> Fitted:
    """Return a mixture fitted in as many iterations as may be spent."""
    most = wanted.spec.max_iter
    allowed = min(most, _count_iterations(wanted, spend, matrix, n_components))
    limited = wanted._replace(spec=wanted.spec._replace(max_iter=allowed))
    fitted = fit_size(limited, n_components, matrix, task, before)
    if most <= spend.least:
        return fitted
    return fitted._replace(advice="")  # it ended when it was to end


def _count_iterations(wanted: Wanted, spend: Spend, matrix: Matrix, n_components: int) -> int:
    n_factors = STRUCTURES[wanted.spec.covariance_type].n_factors
    return count_iterations(spend, matrix.patterns, n_components, n_factors)


def _hide(task: Task, rng: np.random.Generator) -> np.ndarray:
    """Return True for the cells that sizes are judged by, (n, D)."""
    if task.whole_rows:
        return hide_rows(task.x, task.weight, rng, task.n_levels)
    columns, weight, n_levels = task.target_columns, task.weight, task.n_levels
    return hide(task.x, "mcar", rng, columns=columns, weight=weight, n_levels=n_levels)


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
    record = Iteration(mean, mean, None, 0.0, (f"averaged {len(fits)} mixtures",))
    n_iter = max(each.n_iter for each in fits)
    return first._replace(
        parameters=parameters_to_user(parameters_to_internal(parameters, first.units), first.units),
        history=(record,),
        n_iter=n_iter,
        converged=all(each.converged for each in fits),
        stop_reason=f"the {len(fits)} best models were averaged, after {n_iter} iterations at most",
        target=None,
        center=None,
        advice="",
    )
