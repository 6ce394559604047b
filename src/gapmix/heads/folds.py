"""Folds of rows, and models that have not seen the rows of a fold."""

from __future__ import annotations

import numpy as np

from gapmix.density import Density
from gapmix.fitting.climb import CollapsedFitError
from gapmix.fitting.fitted import Fitted
from gapmix.heads.column import N_FOLDS
from gapmix.heads.features import View
from gapmix.heads.indicators import Indicators, can_be_told, count_indicators, spread_out
from gapmix.plan.canonical import draw_uniform
from gapmix.selection.choose import Wanted, fit_size
from gapmix.selection.task import Task, model_of, read_rows

N_ITER = 4  # in which a mixture forgets the rows of a fold
MOST_INDICATORS = 200  # columns: the time of one row goes with their square
N_ITER_OF_INDICATORS = 20  # of their Gaussian
RIDGE_OF_INDICATORS = 2.0  # relative to variances, times columns over rows


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


def fit_indicators(
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
    apart = np.repeat(view.order, [count_indicators(view, j) for j in view.order.tolist()])
    if len(varies) > MOST_INDICATORS or len(set(apart[varies].tolist())) < 2:
        return None, nothing
    spec = wanted.spec._replace(
        n_components=1,
        covariance_type="full",
        reg_covar=RIDGE_OF_INDICATORS * len(varies) / len(x),
        shrinkage=0.0,
        mean_shrinkage=0.0,
        n_init=1,
        max_iter=N_ITER_OF_INDICATORS,
    )
    alone = wanted._replace(spec=spec, running=wanted.running._replace(verbose=0))
    rows = Task(x[:, varies], task.weight, [str(j) for j in varies])
    try:
        fitted = fit_size(alone, 1, read_rows(rows, spec), rows)
    except (CollapsedFitError, ValueError):  # too few rows
        return None, nothing
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
