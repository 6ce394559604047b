"""Expectation-maximisation as pure functions on records: e_step, m_step, run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from gapmix.covariance import Regularizer, estimate, log_prior, restrict
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.repair import find_empty, split_heaviest
from gapmix.rows import Block, Rows, deal_lanes
from gapmix.solvers import Solver
from gapmix.statistics import Moments, Statistics, merge_into, zero_statistics

T = TypeVar("T")
R = TypeVar("R")

NOT_FINITE = "The starting parameters give a log-likelihood that is not finite."
MAX_REPAIRS_PER_COMPONENT = 3
WARM_UP = 10  # tied iterations that give the covariance and mean that priors shrink to


class Engine(Protocol):
    """Where lanes of blocks run."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return function(item) for every item, in the order of the items."""


class Settings(NamedTuple):
    """What a fit is asked to do."""

    covariance_type: str
    regularizer: Regularizer
    equal_weights: bool = False
    tol: float = 1e-3  # per row
    max_iter: int = 100
    patience: int = 3  # iterations without a better validation likelihood


class Iteration(NamedTuple):
    """One iteration of EM: the values belong to the parameters it started from, per row."""

    log_likelihood: float
    objective: float  # log-likelihood plus log-prior: what EM climbs
    validation: float | None  # mean log-likelihood of the validation rows
    seconds: float
    events: tuple[str, ...]  # repairs made and forms chosen in this iteration


class Fit(NamedTuple):
    """The outcome of a run from one start."""

    parameters: Parameters
    history: tuple[Iteration, ...]
    converged: bool
    stop_reason: str
    target: np.ndarray | None  # the pooled covariance that shrinkage used
    center: np.ndarray | None  # the overall mean that mean_shrinkage used


class CollapseError(ValueError):
    """A component collapsed and could not be repaired; the message says which."""

    def __init__(self, message: str, component: int, pivot: int | None) -> None:
        super().__init__(message)
        self.component = component
        self.pivot = pivot


def responsibilities(log_density: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log p(x_o) (n,) and p(component | x_o) (n, K), both computed in logs.

    A row so far away that every density underflows is given the weights.
    """
    joint = np.array(log_density.T, order="C")  # (K, n): sums over components are then fast
    with np.errstate(divide="ignore"):
        joint += np.log(weights)[:, None]
    top = joint.max(axis=0)
    lost = ~np.isfinite(top)
    top[lost] = 0.0
    joint -= top
    resp = np.exp(joint, out=joint)
    resp[:, lost] = weights[:, None]
    total = resp.sum(axis=0)
    log_prob = np.log(total) + top
    log_prob[lost] = -np.inf
    resp /= total
    return log_prob, resp.T


def e_step(
    solver: Solver, prepared: Any, weights: np.ndarray, rows: Rows, engine: Engine
) -> Statistics:
    """Return the statistics of all rows: densities, responsibilities and sums in one pass."""
    n_components, d = len(weights), rows.x.shape[1]

    def sum_lane(lane: tuple[Block, ...]) -> Statistics:
        total = zero_statistics(n_components, d, diagonal=solver.SUMS_DIAGONAL)
        for block in lane:
            visit = solver.visit(prepared, block)
            log_prob, resp = responsibilities(visit.log_density, weights)
            total.log_likelihood[...] += block.weight @ log_prob
            solver.accumulate(prepared, block, visit, resp * block.weight[:, None], total)
        return total

    parts = engine.map(sum_lane, deal_lanes(rows))
    for part in parts[1:]:
        merge_into(parts[0], part)
    return parts[0]


def m_step(moments: Moments, parameters: Parameters, settings: Settings) -> Parameters:
    """Return the parameters that maximise the expected objective.

    Moments are about the current means; components without rows keep their mean and covariance.
    """
    resp = moments.resp
    alive = resp > 0
    safe = np.where(alive, resp, 1.0)
    seen = _add_prior_rows(moments._replace(resp=safe), parameters.means, settings.regularizer)
    shift = seen.first / seen.resp[:, None]
    # A shared covariance is divided by the rows of all components together.
    counted = resp if settings.covariance_type == "tied" else safe
    covariances = estimate(
        counted, _scatter(seen, shift), settings.covariance_type, settings.regularizer
    )
    if len(covariances) == len(alive):
        covariances[~alive] = parameters.covariances[~alive]
    n_components = len(resp)
    if settings.equal_weights:
        weights = np.full(n_components, 1.0 / n_components)
    else:
        weights = resp / resp.sum()
    return Parameters(weights, parameters.means + shift, covariances)


def _add_prior_rows(moments: Moments, means: np.ndarray, regularizer: Regularizer) -> Moments:
    """Return the moments with `mean_shrinkage` further rows at the overall mean in each component.

    They move means and widen covariances as rows would, but count neither for the weights nor for
    the number of rows that covariances are divided by.
    """
    if regularizer.center is None:
        return moments
    away = regularizer.center - means
    square = away**2 if moments.second.ndim == 2 else away[:, :, None] * away[:, None, :]
    n_rows = regularizer.mean_shrinkage
    return Moments(
        moments.resp + n_rows, moments.first + n_rows * away, moments.second + n_rows * square
    )


def _scatter(moments: Moments, shift: np.ndarray) -> np.ndarray:
    """Return the expected scatter about the new means, mean + shift: (K, d, d) or (K, d)."""
    resp = moments.resp
    if moments.second.ndim == 2:
        return np.maximum(moments.second - resp[:, None] * shift**2, 0.0)
    return moments.second - resp[:, None, None] * shift[:, :, None] * shift[:, None, :]


def log_likelihood(
    solver: Solver, prepared: Any, weights: np.ndarray, rows: Rows, engine: Engine
) -> float:
    """Return the mean log p(x_o) of the rows."""

    def sum_lane(lane: tuple[Block, ...]) -> float:
        return sum(
            float(
                block.weight
                @ responsibilities(solver.visit(prepared, block).log_density, weights)[0]
            )
            for block in lane
        )

    return sum(engine.map(sum_lane, deal_lanes(rows))) / float(rows.weight.sum())


def run(
    solver: Solver,
    rows: Rows,
    start: Parameters,
    settings: Settings,
    engine: Engine,
    *,
    keep_start: bool = False,
    validation: Rows | None = None,
    callback: Callable[[Iteration], None] | None = None,
) -> Fit:
    """Iterate EM from `start` until it converges, runs out of iterations or validation worsens.

    With `keep_start`, the first iteration starts from `start` exactly; otherwise shrinkage may
    improve it first. The objective never falls, except at an iteration whose events name a repair,
    and unless one of the paper's own regularisers is on (`loading`, or `n_kept` with a fill other
    than the mean).
    """
    settings, start, first_events = _with_target(
        solver, rows, start, settings, engine, keep_start=keep_start
    )
    start = start._replace(covariances=restrict(start.covariances, settings.regularizer))
    total_weight = float(rows.weight.sum())
    history: list[Iteration] = []
    parameters, best = start, start
    prepared, best_value, best_at = _prepare(solver, parameters), -np.inf, 0
    previous, events = -np.inf, first_events
    n_repairs = 0
    converged, stop_reason = False, f"max_iter={settings.max_iter} iterations were reached"
    for iteration in range(1, settings.max_iter + 1):
        began = time.perf_counter()
        statistics = e_step(solver, prepared, parameters.weights, rows, engine)
        value = float(statistics.log_likelihood) / total_weight
        prior = log_prior(parameters.means, *solver.precisions(prepared), settings.regularizer)
        objective = value + prior / total_weight
        if not np.isfinite(objective):
            if not history:
                raise CollapseError(NOT_FINITE, 0, None)
            parameters, stop_reason = best, "the log-likelihood stopped being finite"
            break
        held_out = None
        if validation is not None:
            held_out = log_likelihood(solver, prepared, parameters.weights, validation, engine)
            if held_out > best_value:
                best, best_value, best_at = parameters, held_out, iteration
        else:
            best = parameters

        events += solver.notes(prepared, statistics)
        moments = solver.moments(prepared, statistics)
        updated = m_step(moments, parameters, settings)
        parameters, prepared, repairs = _repaired(
            solver,
            updated,
            moments,
            allowed=n_repairs < MAX_REPAIRS_PER_COMPONENT * len(start.weights),
            # A prior keeps an empty component proper, and asks for it to be empty.
            revive=settings.regularizer.shrinkage == 0,
        )
        n_repairs += len(repairs)
        record = Iteration(
            value, objective, held_out, time.perf_counter() - began, events + repairs
        )
        history.append(record)
        if callback is not None:
            callback(record)
        events = ()

        gain, previous = objective - previous, objective
        if validation is not None and iteration - best_at >= settings.patience:
            parameters = best
            stop_reason = (
                f"the validation likelihood has not risen for {settings.patience} iterations; "
                f"the parameters of iteration {best_at} are kept"
            )
            converged = True
            break
        if abs(gain) < settings.tol and not repairs:
            stop_reason = f"the last gain, {gain:.2g} per row, is below tol={settings.tol:g}"
            converged = True
            break
    if validation is not None and parameters is not best:
        held_out = log_likelihood(solver, prepared, parameters.weights, validation, engine)
        parameters = parameters if held_out > best_value else best
    used = settings.regularizer
    return Fit(parameters, tuple(history), converged, stop_reason, used.target, used.center)


def _with_target(
    solver: Solver,
    rows: Rows,
    start: Parameters,
    settings: Settings,
    engine: Engine,
    *,
    keep_start: bool,
) -> tuple[Settings, Parameters, tuple[str, ...]]:
    """Find the pooled covariance and the overall mean to shrink to, by a few tied iterations.

    They are then held fixed: a prior that moved with the parameters would not be one, and the
    objective could fall. Unless the start is to be kept, the iterations improve it as well.
    """
    regularizer = settings.regularizer
    n_components = len(start.weights)
    is_tied = settings.covariance_type == "tied"
    needs_target = regularizer.shrinkage > 0 and regularizer.target is None and not is_tied
    needs_center = regularizer.mean_shrinkage > 0 and regularizer.center is None
    if n_components == 1 or not (needs_target or needs_center):
        return settings, start, ()
    plain = settings._replace(regularizer=Regularizer(regularizer.ridge))

    def share(parameters: Parameters, resp: np.ndarray) -> Parameters:
        pooled = np.tensordot(resp / resp.sum(), parameters.covariances, axes=1)
        return parameters._replace(covariances=np.repeat(pooled[None], n_components, axis=0))

    parameters = start if is_tied else share(start, start.weights)
    for _ in range(WARM_UP):
        prepared = _prepare(solver, parameters)
        moments = solver.moments(
            prepared, e_step(solver, prepared, parameters.weights, rows, engine)
        )
        parameters = m_step(moments, parameters, plain)
        if not is_tied:
            parameters = share(parameters, moments.resp)
    if needs_target:
        regularizer = regularizer._replace(target=parameters.covariances[0])
    if needs_center:
        regularizer = regularizer._replace(center=parameters.weights @ parameters.means)
    event = f"shrinkage: pooled covariance from {WARM_UP} iterations with a shared one"
    settings = settings._replace(regularizer=regularizer)
    return settings, start if keep_start else parameters, (event,)


def _prepare(solver: Solver, parameters: Parameters) -> Any:
    try:
        return solver.prepare(parameters)
    except NotPositiveDefiniteError as error:
        raise CollapseError(str(error), error.component, error.pivot) from error


def _repaired(
    solver: Solver, parameters: Parameters, moments: Moments, *, allowed: bool, revive: bool
) -> tuple[Parameters, Any, tuple[str, ...]]:
    """Return parameters that can be factored, what was prepared of them, and what was repaired.

    Empty components are split off others only with `revive`.
    """
    events: list[str] = []
    resp = moments.resp
    if allowed and revive:
        for dead in find_empty(resp):
            split = split_heaviest(parameters, int(dead), resp)
            if split is not None:
                parameters, donor = split
                events.append(
                    f"repair: component {dead} was empty ({resp[dead]:.1e} of "
                    f"{resp.sum():g} rows); restarted as half of component {donor}"
                )
    for _ in range(len(resp)):
        try:
            return parameters, solver.prepare(parameters), tuple(events)
        except NotPositiveDefiniteError as error:
            split = None
            if allowed and parameters.covariances.shape[0] > 1:
                split = split_heaviest(parameters, error.component, resp)
            if split is None:
                raise CollapseError(str(error), error.component, error.pivot) from error
            parameters, donor = split
            events.append(
                f"repair: component {error.component} collapsed (on {resp[error.component]:.3g} of "
                f"{resp.sum():g} rows); restarted as half of component {donor}"
            )
    raise CollapseError("Every component collapsed.", 0, None)
