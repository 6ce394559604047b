"""Fit a mixture to one batch of an endless stream after the other: online EM, not exact."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from gapmix.categories import LevelPrior
from gapmix.em import online
from gapmix.em.online import Online
from gapmix.em.records import Fit, Iteration
from gapmix.em.repair import CollapseError
from gapmix.em.steps import total_weight
from gapmix.fitting.climb import explaining_collapse
from gapmix.fitting.fitted import Fitted, to_fitted
from gapmix.fitting.matrix import Matrix, log_unit, plan_rows, prior_of, refuse_too_few
from gapmix.fitting.spec import Running, Spec, make_settings
from gapmix.fitting.starting import make_start, refuse_other
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.solvers import SOLVERS
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import parameters_to_internal, parameters_to_user
from gapmix.threads import open_engine
from gapmix.units import Scaling

N_KEPT = 1000  # records of the last batches


def refuse_options(spec: Spec) -> None:
    """Raise an error about what needs all rows at once."""
    for name in ("keep_components", "validation_fraction"):
        if getattr(spec, name):
            raise ValueError(
                f"partial_fit cannot be used with {name}={getattr(spec, name)!r}, which needs all "
                "rows at once. Use fit, or leave it at its default."
            )


def fit_batch(
    spec: Spec,
    matrix: Matrix,
    running: Running,
    stream: Online | None,
    before: Fitted | None,
    entropy: Sequence[int],
) -> tuple[Online, Fitted]:
    """Return the stream and the fit after one more batch.

    Without a stream this is the first batch, which sets units and start, at the fit `before` if
    there is one; with a stream, `matrix` is in the units of that fit.
    """
    began = time.perf_counter()
    units = matrix.units
    if stream is None:
        refuse_too_few(matrix, spec.n_components)
    chosen, rows = plan_rows(spec, matrix, spec.solver)
    levels = LevelPrior(prior_of(matrix).shares)  # which levels are rare, a batch cannot tell
    history: tuple[Iteration, ...] = ()
    with open_engine(running.n_jobs) as engine, explaining_collapse(spec, matrix.names):
        if stream is None:
            if before is None:
                start = make_start(spec, rows, units, np.random.default_rng(entropy), levels.shares)
            else:
                refuse_other(spec, before.parameters, len(units.scale), matrix.n_levels)
                start = parameters_to_internal(before.parameters, units)
            stream = Online(start)
            target, center = _prior(spec, start, units)
        else:
            assert before is not None
            history, target, center = before.history, before.target, before.center
            levels = LevelPrior(_pool_levels(stream.parameters))
        total = stream.total_weight + total_weight(rows)
        settings = make_settings(spec, units, total, target, center, levels)
        try:
            stream, value = online.step(stream, SOLVERS[chosen.solver], rows, settings, engine)
        except NotPositiveDefiniteError as error:
            raise CollapseError(str(error), error.component, error.pivot) from error
    value -= log_unit(rows, units)
    record = Iteration(value, value, None, time.perf_counter() - began, ())
    reason = f"partial_fit has seen {stream.n_batches} batches"
    held = settings.regularizer
    run = Fit(stream.parameters, (), False, reason, held.target, held.center)
    fitted = to_fitted(run, units, chosen)
    history = (*history, record)[-N_KEPT:]
    return stream, fitted._replace(history=history, n_iter=len(history), n_levels=matrix.n_levels)


def _pool_levels(parameters: Parameters) -> tuple[np.ndarray, ...]:
    """Return what the mixture says of the levels of each category: their shares so far."""
    return tuple(parameters.weights @ table for table in parameters.categories)


def _prior(
    spec: Spec, start: Parameters, units: Scaling
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return covariance and mean to shrink to, in the user's units: those of the start, pooled."""
    if len(start.weights) == 1:
        return None, None
    user = parameters_to_user(start, units)
    target = None
    structure = STRUCTURES[start.structure]
    if spec.shrinkage != 0 and not structure.SHARED and structure.HAS_TARGET:
        target = np.tensordot(user.weights, user.covariances, axes=1)
    return target, user.weights @ user.means if spec.mean_shrinkage != 0 else None
