"""Fit the mixture behind an imputer, a regressor or a class: of a given size, or of good ones."""

from __future__ import annotations

import copy
import logging
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from gapmix import density
from gapmix.em.records import Fit, Iteration
from gapmix.estimators import options
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.progress import showing
from gapmix.selection import sizes as selection
from gapmix.selection.sizes import Candidate
from gapmix.structures.mixtures import parameters_to_internal, unite
from gapmix.units import Scaling

logger = logging.getLogger("gapmix")

# Parameters that an imputer, a regressor and a classifier hand on to their mixtures.
HANDED_ON = (
    "covariance_type",
    "tol",
    "reg_covar",
    "max_iter",
    "n_init",
    "shrinkage",
    "mean_shrinkage",
    "solver",
    "accelerate",
    "n_jobs",
)
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

    def fit(self, mixture: GaussianMixture) -> GaussianMixture:
        """Fit a mixture to the task's rows."""
        mixture._fit_matrix(
            self.x, self.weight, None, self.names, units=self.units, target=self.pooled
        )
        return mixture


class Chosen(NamedTuple):
    """A fitted mixture, the sizes it was chosen from, and a fit that has not seen some rows."""

    mixture: GaussianMixture
    candidates: tuple[Candidate, ...]  # empty if the size was given
    blind: GaussianMixture | None = None  # the best size, fitted without what was hidden
    held: np.ndarray | None = None  # (m, d) rows of which something was hidden
    calibration: np.ndarray | None = None  # see selection.calibrate_intervals


def check(estimator: Any) -> None:
    """Raise an error about a parameter that all three estimators share."""
    n_components = estimator.n_components
    if not (isinstance(n_components, str) and n_components == "auto"):
        if isinstance(n_components, str):
            raise ValueError(
                f"n_components={n_components!r} is not known. Use 'auto' or a whole number of at "
                "least 1."
            )
        options.check_positive_int("n_components", n_components)
    if estimator.max_components is not None:
        options.check_positive_int("max_components", estimator.max_components)
    options.check_switch("average", estimator.average)
    options.check(make(estimator, 1, 0).set_params(verbose=estimator.verbose))


def fit(estimator: Any, task: Task, seed: int) -> Chosen:
    """Fit a mixture of the size the estimator asks for, or of sizes that prove good.

    With "auto", sizes are compared on cells hidden from them, and the best three are fitted again
    to everything, from where they were, and united.
    """
    n_rows = _count_rows(task)
    if estimator.n_components == "auto":
        most = MAX_COMPONENTS if estimator.max_components is None else estimator.max_components
        sizes = selection.list_sizes(n_rows, most)
    else:
        sizes = [int(estimator.n_components)]
    # A class holds rows out to calibrate by, even if there is nothing to choose.
    holds_out = task.whole_rows and n_rows >= ROWS_TO_HOLD_OUT * sizes[0]
    with showing(estimator.verbose):
        if len(sizes) > 1 or holds_out:
            chosen = _choose(estimator, task, seed, sizes)
        else:
            chosen = Chosen(task.fit(make(estimator, sizes[0], seed)), ())
    chosen.mixture.n_features_in_ = task.x.shape[1]
    return chosen


def _choose(estimator: Any, task: Task, seed: int, sizes: list[int]) -> Chosen:
    rng = np.random.default_rng([seed, 1])
    sample = _sample_rows(task, rng)
    observed = ~np.isnan(sample.x)
    if task.whole_rows:
        hidden = selection.hide_rows(observed, rng)
    else:
        hidden = selection.hide_cells(observed, rng, task.target_columns)
    shown = np.where(hidden, np.nan, sample.x)
    part = sample._replace(x=shown)
    fitted: dict[int, GaussianMixture] = {}

    def judge(n_components: int) -> Candidate:
        began = time.perf_counter()
        mixture = make(estimator, n_components, seed)
        with warnings.catch_warnings():  # said of the fits that are kept
            warnings.simplefilter("ignore")
            part.fit(mixture)
        fitted[n_components] = mixture
        candidate = _judge(mixture, sample.x, shown, hidden, time.perf_counter() - began)
        if estimator.verbose:
            logger.info(
                "%d components: error of hidden cells %.4f standard deviations, log score %.4f, "
                "%d iterations, %.1f s",
                *candidate[:5],
            )
        return candidate

    def loss(candidate: Candidate) -> float:
        return -candidate.log_score if task.whole_rows else candidate.error

    tried = selection.grow(sizes, judge, loss)
    share = selection.share_by_log_score if task.whole_rows else selection.share_by_error
    candidates = share(tried, average=estimator.average)
    best = min(tried, key=loss).n_components
    blind = copy.copy(fitted[best])
    kept = [_refit(fitted[each.n_components], task) for each in candidates if each.share > 0]
    shares = np.array([each.share for each in candidates if each.share > 0])
    held = np.asarray(hidden.any(axis=1))
    calibration = None
    if not task.whole_rows:
        calibration = _calibrate(blind, sample.x[held], shown[held], hidden[held])
    united = _unite(kept, shares, task)
    return Chosen(united, candidates, blind, sample.x[held], calibration)


def _calibrate(
    mixture: GaussianMixture, x: np.ndarray, shown: np.ndarray, hidden: np.ndarray
) -> np.ndarray | None:
    """Return how to ask for intervals so that they hold what they should, judged by hidden cells.

    Columns that do not vary say nothing about it.
    """
    known = ~np.isnan(x)
    low = np.min(x, axis=0, where=known, initial=np.inf)
    high = np.max(x, axis=0, where=known, initial=-np.inf)
    judged = hidden & (low < high)
    if not judged.any():
        return None
    return selection.calibrate_intervals(density.distribution(mixture._density(), shown, x)[judged])


def make(estimator: Any, n_components: int, seed: int) -> GaussianMixture:
    """Return a mixture of this size with the parameters an estimator hands on."""
    handed_on = {name: getattr(estimator, name) for name in HANDED_ON}
    # At 1, sizes are shown; at 2, also the starts of every fit.
    verbose = 1 if estimator.verbose in (2, 3) else 0
    return GaussianMixture(n_components, random_state=seed, verbose=verbose, **handed_on)


def _count_rows(task: Task) -> int:
    """Return the number of rows that say something, each counted once however often it is there.

    So a weight of 2 leads to the same sizes as the row given twice. In a long table it does not
    matter: enough rows for every size are left.
    """
    useful = task.x[(task.weight > 0) & ~np.isnan(task.x).all(axis=1)]
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
    mixture: GaussianMixture,
    x: np.ndarray,
    shown: np.ndarray,
    hidden: np.ndarray,
    seconds: float,
) -> Candidate:
    """Return how well a mixture tells hidden cells from the rest of their rows.

    log p(hidden | shown) = log p(all of the row) - log p(what is shown of it).
    """
    held = np.asarray(hidden.any(axis=1))
    error = log_score = 0.0
    if held.any():
        model = mixture._density()
        error = selection.measure_error(x, _fill_rows(model, x, shown, held), hidden)
        gain = density.score(model, x[held]).log_prob - density.score(model, shown[held]).log_prob
        log_score = float(gain.sum() / hidden.sum())
    return Candidate(len(mixture.weights_), error, log_score, mixture.n_iter_, seconds)


def _fill_rows(
    model: density.Density, x: np.ndarray, shown: np.ndarray, held: np.ndarray
) -> np.ndarray:
    filled = x.copy()
    filled[held] = density.fill(model, shown[held]).mean
    return filled


def _refit(mixture: GaussianMixture, task: Task) -> GaussianMixture:
    """Fit a mixture to the whole table, from where it stands and with the priors it has."""
    return task.fit(mixture.set_params(warm_start=True)).set_params(warm_start=False)


def _unite(mixtures: list[GaussianMixture], shares: np.ndarray, task: Task) -> GaussianMixture:
    """Return one mixture of the components of all; the first is the one to look at for history."""
    first = mixtures[0]
    if len(mixtures) == 1:
        return first
    units = first._scaling
    parameters = unite([each._user_parameters() for each in mixtures], shares)
    shape = {"n_components": len(parameters.weights), "covariance_type": parameters.structure}
    result = GaussianMixture(**{**first.get_params(), **shape})
    model = first._density()._replace(parameters=parameters)
    useful = (task.weight > 0) & ~np.isnan(task.x).all(axis=1)
    log_prob = density.score(model, task.x[useful]).log_prob
    mean = float(np.average(log_prob, weights=task.weight[useful]))
    # What is stored was put together, not climbed to: one record says what it is worth.
    record = Iteration(mean, mean, None, 0.0, (f"united {len(mixtures)} mixtures",))
    n_iter = max(each.n_iter_ for each in mixtures)
    outcome = Fit(
        parameters_to_internal(parameters, units),
        (record,),
        all(each.converged_ for each in mixtures),
        f"{len(mixtures)} mixtures were united, the slowest after {n_iter} iterations",
        None,
        None,
    )
    result._store(outcome, units, first.plan_)
    result.n_iter_ = n_iter
    return result
