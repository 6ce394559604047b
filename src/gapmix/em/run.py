"""Expectation-maximisation: passes over the rows until nothing is left to gain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gapmix import categories
from gapmix.em import accelerate
from gapmix.em.records import Engine, Fit, Iteration, Progress, Settings, Shards, State
from gapmix.em.repair import CollapseError, make_factorable, prepare, revive
from gapmix.em.steps import (
    e_step,
    evaluate,
    log_likelihood,
    m_step,
    sum_rows,
    take_moments,
    total_weight,
)
from gapmix.em.stopping import (
    CAUTION,
    N_AGREEING,
    N_LOOKED_AT,
    longest_step,
    rounding_error,
    to_limit,
)
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.plan.rows import Rows
from gapmix.solvers import Solver
from gapmix.structures import STRUCTURES
from gapmix.structures.regularizer import is_monotone

INTERRUPTED = "the fit was interrupted; the best parameters so far are kept"
NOT_FINITE = "The starting parameters give a log-likelihood that is not finite."
MAX_REPAIRS_PER_COMPONENT = 3
CREDIT = 10.0  # a proposal is believed to gain at most so many times what the last passes gained
WARM_UP = 10  # tied iterations that give the covariance and mean that priors shrink to,
WARM_UP_OF_MANY = 5  # with many rows for each column,
MANY_ROWS, MANY_FOR_COLUMN = 2_000, 100
WARM_UP_OF_MEANS = 2  # and for the mean alone


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
    if resume is None:
        at_hand = rows if isinstance(rows, Rows) else rows.sample
        settings, start, found = _with_target(
            solver, at_hand, start, settings, engine, keep_start=keep_start
        )
        events += found
        resume = Progress(_first_state(start, settings), (), None, None, None)
    else:
        settings, events = _with_target_of(settings, resume), ()
    state, history, used = resume.state, list(resume.history), settings.regularizer
    # by the tol of now
    stop_reason = None if resume.stop_reason is None else _reason_to_stop(state, settings)
    interrupted = False
    prepared = prepare(solver, state.parameters)
    while stop_reason is None and len(history) < settings.max_iter:
        began = time.perf_counter()
        statistics = sum_rows(solver, prepared, state.parameters, rows, engine)
        value, objective = evaluate(
            solver, prepared, state.parameters, statistics, total_weight(rows), settings
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
                held_out = log_likelihood(solver, prepared, state.parameters, validation, engine)
            state = _accept(state, objective, held_out)
            events += solver.notes(prepared, statistics)
            moments = take_moments(solver, prepared, statistics)
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
            interrupted = True
            break
    parameters = _final(solver, state, settings, validation, engine)
    converged = stop_reason is not None
    reason = _explain(stop_reason, state, history, settings, interrupted=interrupted)
    return Fit(parameters, tuple(history), converged, reason, used.target, used.center)


def _first_state(start: Parameters, settings: Settings) -> State:
    """Return the state before the first pass, with a start that the regularizer allows."""
    restrict, held = STRUCTURES[start.structure].restrict, settings.regularizer
    start = start._replace(
        covariances=restrict(start.covariances, held),
        categories=categories.pool_rare(start.categories, held.levels),
    )
    method = _method(settings)
    return State(start, None if method is None else accelerate.State(method))


def _explain(
    stop_reason: str | None,
    state: State,
    history: Sequence[Iteration],
    settings: Settings,
    *,
    interrupted: bool,
) -> str:
    """Return why a run ended, and which parameters it keeps if not the last."""
    if stop_reason is None:
        reached = f"max_iter={settings.max_iter} iterations were reached"
        return INTERRUPTED if interrupted else reached
    if state.n_stale >= settings.patience:
        best_at = int(np.argmax([record.validation or -np.inf for record in history])) + 1
        return f"{stop_reason}; the parameters of iteration {best_at} are kept"
    return stop_reason


def _method(settings: Settings) -> str | None:
    """Return how to accelerate: not at all where proposals would leave what is allowed."""
    constrained = settings.regularizer.n_kept is not None
    return settings.accelerate if is_monotone(settings.regularizer) and not constrained else None


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
        return f"the gain still possible, about {left:.2g} per row, is below tol={settings.tol:g}"
    return None


def _estimate_left(state: State) -> State:
    """Return the state with what is left to gain: along the proposal, and after that."""
    left = CAUTION * to_limit(state.objectives)
    if state.accelerator is not None and np.isfinite(state.accelerator.to_gain):
        # A component that fades promises for ever what it never brings.
        recent = state.objectives[-1] - state.objectives[0]
        if recent > rounding_error(state.objectives):
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
    value = log_likelihood(solver, prepared, parameters, validation, engine)
    return parameters if value > state.best else kept


def _with_target_of(settings: Settings, progress: Progress) -> Settings:
    held = settings.regularizer._replace(target=progress.target, center=progress.center)
    return settings._replace(regularizer=held)


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
    structure = STRUCTURES[start.structure]
    shrinks = regularizer.shrinkage > 0 and not structure.SHARED and structure.HAS_TARGET
    needs_target = shrinks and regularizer.target is None
    needs_center = regularizer.mean_shrinkage > 0 and regularizer.center is None
    if len(start.weights) == 1 or not (needs_target or needs_center):
        return settings, start, ()
    bare = regularizer._replace(
        shrinkage=0.0, mean_shrinkage=0.0, loading=None, n_kept=None, target=None, center=None
    )
    plain = settings._replace(regularizer=bare)

    def share(parameters: Parameters, resp: np.ndarray) -> Parameters:
        return parameters._replace(covariances=structure.pool(parameters.covariances, resp))

    parameters = share(start, start.weights)
    n, d = rows.x.shape
    n_passes = WARM_UP_OF_MANY if n >= max(MANY_ROWS, MANY_FOR_COLUMN * d) else WARM_UP
    n_passes = n_passes if structure.HAS_TARGET else WARM_UP_OF_MEANS
    for _ in range(n_passes):
        prepared = prepare(solver, parameters)
        sums = e_step(solver, prepared, parameters, rows, engine)
        moments = take_moments(solver, prepared, sums)
        parameters = share(m_step(moments, parameters, plain), moments.resp)
    if needs_target:
        regularizer = regularizer._replace(target=parameters.covariances[0])
    if needs_center:
        regularizer = regularizer._replace(center=parameters.weights @ parameters.means)
    event = f"shrinkage: pooled covariance from {n_passes} iterations with a shared one"
    settings = settings._replace(regularizer=regularizer)
    return settings, start if keep_start else parameters, (event,)
