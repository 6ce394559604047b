"""Expectation-maximisation as pure functions on records: e_step, m_step, run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from gapmix.em import accelerate
from gapmix.em.repair import CollapseError, make_factorable, prepare, revive
from gapmix.em.stopping import N_AGREEING, N_LOOKED_AT, longest_step, to_limit
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.plan.rows import Block, Rows, deal_queues
from gapmix.solvers import Solver
from gapmix.statistics import Moments, Statistics, merge_into, zero_statistics
from gapmix.structures.covariance import Regularizer, estimate, is_monotone, log_prior, restrict

T = TypeVar("T")
R = TypeVar("R")

INTERRUPTED = "the fit was interrupted; the best parameters so far are kept"
NOT_FINITE = "The starting parameters give a log-likelihood that is not finite."
MAX_REPAIRS_PER_COMPONENT = 3
CREDIT = 10.0  # a proposal is believed to gain at most so many times what the last passes gained
WARM_UP = 10  # tied iterations that give the covariance and mean that priors shrink to


class Engine(Protocol):
    """Where queues of blocks run."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
        """Yield function(item) for every item, in the order of the items."""


class Shards(Protocol):
    """Rows kept elsewhere, in parts: on disk, or in the memory of other machines."""

    total_weight: float
    sample: Rows  # some of them, for what need not see all

    def sum_statistics(self, prepared: Any, parameters: Parameters) -> Statistics:
        """Return the statistics of all rows, parts merged in a fixed order."""


class Settings(NamedTuple):
    """What a fit is asked to do."""

    covariance_type: str
    regularizer: Regularizer
    equal_weights: bool = False
    tol: float = 1e-3  # per row
    max_iter: int = 100
    patience: int = 3  # iterations without a better validation likelihood
    accelerate: str | None = None  # one of accelerate.METHODS; None asks for plain steps


class Iteration(NamedTuple):
    """One pass over the rows: the values belong to the parameters it started from, per row.

    A pass at proposed parameters that turned out lower changes nothing: its record repeats the
    values of the last accepted one, and an event that begins with "rejected" tells what was found.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> X[::4, 1] = np.nan
    >>> history = GaussianMixture(2, random_state=0).fit(X).history_
    >>> bool(np.all(np.diff([each.objective for each in history]) >= -1e-9))
    True
    """

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
    empty = partial(
        zero_statistics,
        len(weights),
        rows.x.shape[1],
        diagonal=solver.SUMS_DIAGONAL,
        observed_side=any(block.n_missing_side < len(block.x) for block in rows.blocks),
    )

    def sum_queue(queue: tuple[Block, ...]) -> Statistics:
        return sum_blocks(solver, prepared, weights, queue, empty())

    parts = iter(engine.map(sum_queue, deal_queues(rows)))
    total = next(parts)
    for part in parts:  # each is let go before the next queue needs its memory
        merge_into(total, part)
    return total


def sum_blocks(
    solver: Solver, prepared: Any, weights: np.ndarray, blocks: Sequence[Block], total: Statistics
) -> Statistics:
    """Add the statistics of the blocks to `total`, one after the other, and return it."""
    for block in blocks:
        visit = solver.visit(prepared, block)
        log_prob, resp = responsibilities(visit.log_density, weights)
        total.log_likelihood[...] += block.weight @ log_prob
        solver.accumulate(prepared, block, visit, resp * block.weight[:, None], total)
    return total


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

    def sum_queue(queue: tuple[Block, ...]) -> float:
        return sum(
            float(
                block.weight
                @ responsibilities(solver.visit(prepared, block).log_density, weights)[0]
            )
            for block in queue
        )

    return sum(engine.map(sum_queue, deal_queues(rows))) / float(rows.weight.sum())


def _pass(
    solver: Solver, prepared: Any, parameters: Parameters, rows: Rows | Shards, engine: Engine
) -> Statistics:
    """Return the statistics of all rows, wherever these are."""
    if isinstance(rows, Rows):
        return e_step(solver, prepared, parameters.weights, rows, engine)
    return rows.sum_statistics(prepared, parameters)


def total_weight(rows: Rows | Shards) -> float:
    """Return the sum of the rows' weights."""
    return float(rows.weight.sum()) if isinstance(rows, Rows) else rows.total_weight


class State(NamedTuple):
    """Where a run stands between two passes: with rows and settings, all that it goes on from."""

    parameters: Parameters  # of the next pass
    accelerator: accelerate.State | None
    plain: Parameters | None = None  # the step to fall back to, if `parameters` are a proposal
    resp: np.ndarray | None = None  # (K,) the responsibilities behind it
    objectives: tuple[float, ...] = ()  # of the last accepted passes
    kept: Parameters | None = None  # the last ones accepted; the best, with validation rows
    best: float = -np.inf  # validation likelihood of these
    n_stale: int = 0  # passes accepted since
    n_repairs: int = 0
    left: tuple[float, ...] = ()  # estimates of what is left to gain, after the last passes


class Progress(NamedTuple):
    """All that a run needs to go on later as if it had never stopped."""

    state: State
    history: tuple[Iteration, ...]
    target: np.ndarray | None  # what priors shrink to, once that was found
    center: np.ndarray | None
    stop_reason: str | None  # not None: no pass is left to do


def run(
    solver: Solver,
    rows: Rows | Shards,
    start: Parameters,
    settings: Settings,
    engine: Engine,
    *,
    keep_start: bool = False,
    events: tuple[str, ...] = (),
    validation: Rows | None = None,
    callback: Callable[[Iteration], bool | None] | None = None,
    resume: Progress | None = None,
    save: Callable[[Progress], None] | None = None,
) -> Fit:
    """Iterate EM from `start` until it converges, runs out of iterations or validation worsens.

    With `keep_start`, the first iteration starts from `start` exactly; otherwise shrinkage may
    improve it first. The objective never falls, except at an iteration whose events name a repair,
    and unless one of the paper's own regularisers is on (`loading`, or `n_kept` with a fill other
    than the mean).

    An iteration is one pass over the rows. It gives the objective at the parameters and the plain
    step of EM from them; an accelerator may propose other parameters for the next pass. If these
    turn out to be lower they are rejected, and the pass after that is at the plain step.

    After every iteration `save` is given all that is needed to `resume` from there, to the same
    bits; `start` is not looked at then. The first record begins with the given `events`.
    """
    history: list[Iteration] = []
    stop_reason, unless_converged = None, f"max_iter={settings.max_iter} iterations were reached"
    if resume is None:
        at_hand = rows if isinstance(rows, Rows) else rows.sample
        settings, start, found = _with_target(
            solver, at_hand, start, settings, engine, keep_start=keep_start
        )
        events += found
        start = start._replace(covariances=restrict(start.covariances, settings.regularizer))
        method = _method(settings)
        state = State(start, None if method is None else accelerate.State(method))
    else:
        state, stop_reason, events = resume.state, resume.stop_reason, ()
        history += resume.history
        held = settings.regularizer._replace(target=resume.target, center=resume.center)
        settings = settings._replace(regularizer=held)
    used = settings.regularizer
    prepared = prepare(solver, state.parameters)
    while stop_reason is None and len(history) < settings.max_iter:
        began = time.perf_counter()
        statistics = _pass(solver, prepared, state.parameters, rows, engine)
        value, objective = _objective(
            solver, prepared, state.parameters.means, statistics, rows, settings
        )
        repairs: tuple[str, ...]
        if state.plain is not None and not objective >= state.objectives[-1]:
            events += (f"rejected: the proposal's objective is {objective:.6g}",)
            del prepared, statistics
            state, prepared, repairs = _step_back(solver, state)
            record = history[-1]
        elif not np.isfinite(objective):
            if state.kept is None:
                raise CollapseError(NOT_FINITE, 0, None)
            stop_reason = "the log-likelihood stopped being finite"
            return Fit(state.kept, tuple(history), False, stop_reason, used.target, used.center)
        else:
            held_out = None
            if validation is not None:
                weights = state.parameters.weights
                held_out = log_likelihood(solver, prepared, weights, validation, engine)
            state = _accept(state, objective, held_out)
            events += solver.notes(prepared, statistics)
            moments = solver.moments(prepared, statistics)
            del prepared, statistics  # large matrices: the next ones need the room
            updated, resp = m_step(moments, state.parameters, settings), moments.resp
            del moments
            state, prepared, repairs = _step(solver, state, updated, resp, settings)
            state = _estimate_left(state)
            record = Iteration(value, objective, held_out, 0.0, ())
            if not repairs:
                stop_reason = _reason_to_stop(state, settings)
            del updated
        seconds = time.perf_counter() - began
        history.append(record._replace(seconds=seconds, events=events + repairs))
        events = ()
        if save is not None:
            save(Progress(state, tuple(history), used.target, used.center, stop_reason))
        if callback is not None and callback(history[-1]):  # it asks to stop
            unless_converged = INTERRUPTED
            break
    parameters = _final(solver, state, settings, validation, engine)
    converged = stop_reason is not None
    if stop_reason is None:
        stop_reason = unless_converged
    elif state.n_stale >= settings.patience:
        best_at = int(np.argmax([record.validation or -np.inf for record in history])) + 1
        stop_reason += f"; the parameters of iteration {best_at} are kept"
    return Fit(parameters, tuple(history), converged, stop_reason, used.target, used.center)


def _method(settings: Settings) -> str | None:
    """Return how to accelerate: not at all where proposals would leave what is allowed."""
    constrained = settings.regularizer.n_kept is not None
    return settings.accelerate if is_monotone(settings.regularizer) and not constrained else None


def _objective(
    solver: Solver,
    prepared: Any,
    means: np.ndarray,
    statistics: Statistics,
    rows: Rows | Shards,
    settings: Settings,
) -> tuple[float, float]:
    """Return log-likelihood and objective per row."""
    n_rows = total_weight(rows)
    value = float(statistics.log_likelihood) / n_rows
    prior = log_prior(means, *solver.precisions(prepared), settings.regularizer)
    return value, value + prior / n_rows


def _accept(state: State, objective: float, held_out: float | None) -> State:
    """Return the state after a pass that counts."""
    state = state._replace(objectives=(*state.objectives, objective)[-N_LOOKED_AT:])
    if held_out is None:
        return state._replace(kept=state.parameters)
    if held_out > state.best:
        return state._replace(kept=state.parameters, best=held_out, n_stale=0)
    return state._replace(n_stale=state.n_stale + 1)


def _step(
    solver: Solver, state: State, updated: Parameters, resp: np.ndarray, settings: Settings
) -> tuple[State, Any, tuple[str, ...]]:
    """Return the state before the next pass, what was prepared for it, and what was repaired.

    `updated` is the plain step. It is taken unless the accelerator proposes something else, and
    always after a repair, which ends what the accelerator knew.
    """
    # A prior keeps an empty component proper, and asks for it to be empty.
    allowed = _may_repair(state) and settings.regularizer.shrinkage == 0
    plain, revived = revive(updated, resp, allowed=allowed)
    accelerator = state.accelerator
    if accelerator is not None and not revived:
        accelerator = accelerate.observe(
            accelerator,
            state.parameters,
            plain,
            settings.covariance_type,
            equal_weights=settings.equal_weights,
        )
        proposal = None
        longest = longest_step(state.objectives, len(resp))
        if longest > 1.0:
            accelerator, proposal = accelerate.propose(accelerator, longest)
        if proposal is not None:
            try:
                prepared = solver.prepare(proposal)
            except NotPositiveDefiniteError:
                accelerator = accelerate.refuse(accelerator)
            else:
                state = state._replace(parameters=proposal, plain=plain, resp=resp)
                return state._replace(accelerator=accelerator), prepared, ()
    state = state._replace(accelerator=accelerator, plain=plain, resp=resp)
    return _take_plain(solver, state, revived)


def _step_back(solver: Solver, state: State) -> tuple[State, Any, tuple[str, ...]]:
    """Return the state at the plain step, after a proposal was rejected."""
    if state.accelerator is not None:
        state = state._replace(accelerator=accelerate.refuse(state.accelerator))
    return _take_plain(solver, state, ())


def _take_plain(
    solver: Solver, state: State, revived: tuple[str, ...]
) -> tuple[State, Any, tuple[str, ...]]:
    """Return the state at the plain step, repaired where it cannot be factored."""
    plain, resp = state.plain, state.resp
    assert plain is not None
    assert resp is not None
    plain, prepared, split = make_factorable(solver, plain, resp, allowed=_may_repair(state))
    repairs = revived + split
    accelerator = state.accelerator
    if repairs and accelerator is not None:
        accelerator = accelerate.restart(accelerator)
    state = State(
        plain,
        accelerator,
        objectives=() if repairs else state.objectives,
        kept=state.kept,
        best=state.best,
        n_stale=state.n_stale,
        n_repairs=state.n_repairs + len(repairs),
        left=() if repairs else state.left,
    )
    return state, prepared, repairs


def _may_repair(state: State) -> bool:
    return state.n_repairs < MAX_REPAIRS_PER_COMPONENT * len(state.parameters.weights)


def _reason_to_stop(state: State, settings: Settings) -> str | None:
    """Return why to stop after an accepted pass, or None to go on."""
    if state.n_stale >= settings.patience:
        return f"the validation likelihood has not risen for {settings.patience} iterations"
    if settings.accelerate is None or not is_monotone(settings.regularizer):
        gain = float(np.diff(state.objectives[-2:]).sum()) if len(state.objectives) > 1 else np.inf
        if abs(gain) < settings.tol:
            return f"the last gain, {gain:.2g} per row, is below tol={settings.tol:g}"
        return None
    left = max(state.left)
    if len(state.left) == N_AGREEING and left < settings.tol:
        return f"what is left to gain, about {left:.2g} per row, is below tol={settings.tol:g}"
    return None


def _estimate_left(state: State) -> State:
    """Return the state with what is left to gain: along the proposal, and after that."""
    left = to_limit(state.objectives)
    if state.accelerator is not None and np.isfinite(state.accelerator.to_gain):
        # A component that fades promises for ever what it never brings.
        recent = max(0.0, state.objectives[-1] - state.objectives[0])
        left += min(state.accelerator.to_gain, CREDIT * recent)
    return state._replace(left=(*state.left, left)[-N_AGREEING:])


def _final(
    solver: Solver,
    state: State,
    settings: Settings,
    validation: Rows | None,
    engine: Engine,
) -> Parameters:
    """Return the parameters a run ends with: the last plain step, or the best on validation rows.

    A proposal that no pass has looked at is not taken.
    """
    kept = state.kept
    assert kept is not None
    if state.n_stale >= settings.patience:
        return kept
    parameters = state.parameters if state.plain is None else state.plain
    if validation is None and state.plain is None:
        return parameters
    try:
        prepared = solver.prepare(parameters)
    except NotPositiveDefiniteError:
        return kept
    if validation is None:
        return parameters
    value = log_likelihood(solver, prepared, parameters.weights, validation, engine)
    return parameters if value > state.best else kept


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
        prepared = prepare(solver, parameters)
        sums = e_step(solver, prepared, parameters.weights, rows, engine)
        moments = solver.moments(prepared, sums)
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
