"""`partial_fit`: one batch of an endless stream at a time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gapmix import units as scaling
from gapmix.em import online
from gapmix.em.records import Fit, Iteration
from gapmix.em.repair import CollapseError
from gapmix.em.steps import total_weight
from gapmix.estimators import options
from gapmix.estimators.validation import column_names
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.solvers import SOLVERS
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import parameters_to_user
from gapmix.threads import open_engine

N_KEPT = 1000  # records of the last batches


def partial_fit(estimator: Any, x: np.ndarray, weight: np.ndarray) -> Any:
    """Take one batch of checked rows; the first sets units and start."""
    for name in ("keep_components", "validation_fraction"):
        if getattr(estimator, name):
            raise ValueError(
                f"partial_fit does not go with {name}={getattr(estimator, name)!r}: it needs all "
                "rows at once. Use fit, or leave it at its default."
            )
    useful = (weight > 0) & ~np.isnan(x).all(axis=1)
    stream = getattr(estimator, "_stream", None)
    if stream is None:
        estimator._refuse_too_few(x, useful)
    elif not useful.any():
        return estimator
    began = time.perf_counter()
    x, weight = x[useful], weight[useful]
    names = column_names(estimator)
    if stream is None:
        units = options.measure_units(x, weight, estimator.covariance_type, names)
        options.warn_of_unknown(units.known, names)
    else:
        units = estimator._scaling
        options.check_reach(x, units, names)
    chosen, rows = estimator._plan_rows(x, weight, units, estimator.solver)
    history: tuple[Iteration, ...] = ()
    with open_engine(estimator.n_jobs) as engine, options.explaining_collapse(estimator, names):
        if stream is None:
            random = check_random_state(estimator.random_state)
            rng = np.random.default_rng(random.randint(0, 2**31, size=4))
            stream = online.Online(estimator._start(rows, units, rng))
            target, center = _prior(estimator, stream.parameters, units)
        else:
            history, target, center = estimator.history_, estimator._target, estimator._center
        total = stream.total_weight + total_weight(rows)
        settings = options.settings(estimator, units, total, target, center)
        try:
            stream, value = online.step(stream, SOLVERS[chosen.solver], rows, settings, engine)
        except NotPositiveDefiniteError as error:
            raise CollapseError(str(error), error.component, error.pivot) from error
        value -= options.log_unit(rows, units)
        record = Iteration(value, value, None, time.perf_counter() - began, ())
        reason = f"partial_fit has seen {stream.n_batches} batches"
        held = settings.regularizer
        fit = Fit(
            stream.parameters,
            (*history, record)[-N_KEPT:],
            False,
            reason,
            held.target,
            held.center,
        )
        estimator._store(fit, units, chosen)
        estimator._stream = stream
    return estimator


def _prior(
    estimator: Any, start: Parameters, units: scaling.Scaling
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return covariance and mean to shrink to, in the user's units: those of the start, pooled."""
    if len(start.weights) == 1:
        return None, None
    user = parameters_to_user(start, units)
    target = None
    if estimator.shrinkage != 0 and not STRUCTURES[start.structure].SHARED:
        target = np.tensordot(user.weights, user.covariances, axes=1)
    return target, user.weights @ user.means if estimator.mean_shrinkage != 0 else None
