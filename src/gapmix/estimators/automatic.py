"""Fit the mixture behind an imputer, a regressor or a class: of a given size, or of good ones."""

from __future__ import annotations

import logging
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from gapmix import density, em, selection
from gapmix.estimators import options
from gapmix.estimators.mixture import GaussianMixture
from gapmix.parameters import parameters_to_internal, unite
from gapmix.selection import Candidate

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
MAX_COMPONENTS = 55  # unless max_components says otherwise


class Task(NamedTuple):
    """What a mixture is fitted to, and which of its cells judge its size."""

    x: np.ndarray  # (n, d), NaN where missing
    weight: np.ndarray  # (n,)
    names: list[str]  # of the columns, for messages
    target_columns: np.ndarray | None = None  # hide these only; None hides any
    whole_rows: bool = False  # hide rows instead of cells, and judge by their density


class Chosen(NamedTuple):
    """A fitted mixture, the sizes it was chosen from, and what was hidden to judge them."""

    mixture: GaussianMixture
    candidates: tuple[Candidate, ...]  # empty if the size was given
    hidden: np.ndarray | None  # (n, d) bool


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
    if not isinstance(estimator.average, bool | np.bool_):
        raise ValueError(
            f"Invalid value for 'average': {estimator.average!r}. It must be True or False."
        )
    options.check(_make(estimator, 1, 0).set_params(verbose=estimator.verbose))


def fit(estimator: Any, task: Task, seed: int) -> Chosen:
    """Fit a mixture of the size the estimator asks for, or of sizes that prove good.

    With "auto", sizes are compared on cells hidden from them, and the best three are fitted again
    to everything, from where they were, and united.
    """
    if estimator.n_components == "auto":
        chosen = _choose(estimator, task, seed)
    else:
        mixture = _make(estimator, estimator.n_components, seed)
        mixture._fit_matrix(task.x, task.weight, None, task.names)
        chosen = Chosen(mixture, (), None)
    chosen.mixture.n_features_in_ = task.x.shape[1]
    return chosen


def _choose(estimator: Any, task: Task, seed: int) -> Chosen:
    rng = np.random.default_rng([seed, 1])
    sample = _sample_rows(task, rng)
    observed = ~np.isnan(sample.x)
    if task.whole_rows:
        hidden = selection.hide_rows(observed, rng)
    else:
        hidden = selection.hide_cells(observed, rng, task.target_columns)
    shown = np.where(hidden, np.nan, sample.x)
    useful = int((~np.isnan(shown).all(axis=1) & (sample.weight > 0)).sum())
    most = MAX_COMPONENTS if estimator.max_components is None else estimator.max_components
    fitted: dict[int, GaussianMixture] = {}

    def judge(n_components: int) -> Candidate:
        began = time.perf_counter()
        mixture = _make(estimator, n_components, seed)
        with warnings.catch_warnings():  # said of the fits that are kept
            warnings.simplefilter("ignore")
            mixture._fit_matrix(shown, sample.weight, None, sample.names)
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

    tried = selection.grow(selection.list_sizes(useful, most), judge, loss)
    share = selection.share_by_log_score if task.whole_rows else selection.share_by_error
    candidates = share(tried, average=estimator.average)
    kept = [_refit(fitted[each.n_components], task) for each in candidates if each.share > 0]
    shares = np.array([each.share for each in candidates if each.share > 0])
    return Chosen(_unite(kept, shares, task), candidates, hidden)


def _make(estimator: Any, n_components: int, seed: int) -> GaussianMixture:
    handed_on = {name: getattr(estimator, name) for name in HANDED_ON}
    # At 1, sizes are shown; at 2, also the starts of every fit.
    verbose = 1 if estimator.verbose in (2, 3) else 0
    return GaussianMixture(n_components, random_state=seed, verbose=verbose, **handed_on)


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
    mixture.set_params(warm_start=True)
    mixture._fit_matrix(task.x, task.weight, None, task.names)
    return mixture.set_params(warm_start=False)


def _unite(mixtures: list[GaussianMixture], shares: np.ndarray, task: Task) -> GaussianMixture:
    """Return one mixture of the components of all; the first is the one to look at for history."""
    first = mixtures[0]
    if len(mixtures) == 1:
        return first
    units = first._scaling
    parameters = unite([each._user_parameters() for each in mixtures], shares)
    kind = "full" if first.covariance_type == "tied" else first.covariance_type
    result = GaussianMixture(
        **{**first.get_params(), "n_components": len(parameters.weights), "covariance_type": kind}
    )
    model = first._density()._replace(parameters=parameters)
    useful = (task.weight > 0) & ~np.isnan(task.x).all(axis=1)
    log_prob = density.score(model, task.x[useful]).log_prob
    mean = float(np.average(log_prob, weights=task.weight[useful]))
    # What is stored was put together, not climbed to: one record says what it is worth.
    record = em.Iteration(mean, mean, None, 0.0, (f"united {len(mixtures)} mixtures",))
    n_iter = max(each.n_iter_ for each in mixtures)
    outcome = em.Fit(
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
