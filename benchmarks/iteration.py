"""One iteration of EM, as `em.run` does it, in steps that can be timed one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.problems import Problem
from gapmix import GaussianMixture
from gapmix import units as scaling
from gapmix.em.records import Engine, Settings
from gapmix.em.steps import e_step, evaluate, m_step
from gapmix.fitting import starting
from gapmix.fitting.matrix import log_unit, make_matrix, plan_rows
from gapmix.fitting.order import order_spec
from gapmix.fitting.spec import make_settings
from gapmix.parameters import Parameters
from gapmix.plan.planner import Plan
from gapmix.plan.rows import Rows
from gapmix.solvers import SOLVERS, Solver
from gapmix.statistics import Statistics
from gapmix.threads import open_engine

RIDGE = 1e-3  # of the mean variance, added to the starting covariance: some pixels are constant


class Start(NamedTuple):
    """Where all contestants start, in the units of the table."""

    weights: np.ndarray  # (K,)
    means: np.ndarray  # (K, d)
    precisions: np.ndarray  # (K, d, d)


class Work(NamedTuple):
    """What a fit makes of a table before it iterates."""

    solver: Solver
    rows: Rows
    settings: Settings
    start: Parameters
    units: scaling.Scaling
    columns: np.ndarray  # (d,) their numbers in the table, in the order of the work
    plan: Plan


class State(NamedTuple):
    """Where EM stands. The values belong to the parameters the last iteration started from."""

    parameters: Parameters
    prepared: Any
    log_likelihood: float  # per row, in the table's units
    objective: float  # per row, internal units
    notes: tuple[str, ...]


def make_start(problem: Problem, seed: int = 0) -> Start:
    """Return the means of the rows nearest to K random ones, and the covariance of all for each.

    Means at the random rows themselves would give nearly all rows to one component when columns
    are many: the one that happens to be closest to the centre.
    """
    rng = np.random.default_rng(seed)
    complete, n_components = problem.complete, problem.n_components
    chosen = complete[rng.choice(len(complete), n_components, replace=False)]
    nearest = ((chosen**2).sum(axis=1) - 2.0 * complete @ chosen.T).argmin(axis=1)
    means = np.array([complete[nearest == k].mean(axis=0) for k in range(n_components)])
    sigma = np.cov(complete.T)
    sigma[np.diag_indices_from(sigma)] += RIDGE * np.diagonal(sigma).mean()
    prec = np.linalg.inv(sigma)
    prec = 0.5 * (prec + prec.T)
    return Start(
        np.full(n_components, 1.0 / n_components),
        means,
        np.repeat(prec[None], n_components, axis=0),
    )


def make_mixture(problem: Problem, start: Start, **parameters: Any) -> GaussianMixture:
    """Return the estimator that a user would fit from this start."""
    return GaussianMixture(
        problem.n_components,
        weights_init=start.weights,
        means_init=start.means,
        precisions_init=start.precisions,
        **parameters,
    )


def set_up(mixture: GaussianMixture, x: np.ndarray) -> Work:
    """Return what `mixture.fit(x)` makes before it iterates; no row of `x` may be empty."""
    spec, _ = mixture._check()
    names = [str(j) for j in range(x.shape[1])]
    matrix = make_matrix(x, np.ones(len(x)), names, spec.covariance_type)
    units = matrix.units
    plan, rows = plan_rows(spec, matrix, spec.solver)
    settings = make_settings(spec, units, float(rows.weight.sum()))
    start = starting.make_start(
        order_spec(spec, matrix.columns), rows, units, np.random.default_rng(0)
    )
    return Work(SOLVERS[plan.solver], rows, settings, start, units, matrix.columns, plan)


def begin(work: Work) -> State:
    """Return the state before the first iteration."""
    return State(work.start, work.solver.prepare(work.start), -np.inf, -np.inf, ())


def expect(work: Work, state: State, engine: Engine) -> Statistics:
    """Return the statistics of all rows: the E step."""
    return e_step(work.solver, state.prepared, state.parameters, work.rows, engine)


def maximise(work: Work, state: State, statistics: Statistics) -> State:
    """Return the next state: the M step, and what the next E step needs of its parameters.

    `em.run` would repair a component that collapsed; here that is an error.
    """
    solver, settings = work.solver, work.settings
    total = float(work.rows.weight.sum())
    value, objective = evaluate(
        solver, state.prepared, state.parameters, statistics, total, settings
    )
    notes = solver.notes(state.prepared, statistics)
    moments = solver.moments(state.prepared, statistics)
    parameters = m_step(moments, state.parameters, settings)
    return State(
        parameters,
        solver.prepare(parameters),
        value - log_unit(work.rows, work.units),
        objective,
        notes,
    )


def iterate(work: Work, state: State, engine: Engine) -> State:
    """Return the state one iteration on."""
    return maximise(work, state, expect(work, state, engine))


def run(work: Work, n_iterations: int, n_jobs: int) -> State:
    """Return the state after some iterations on `n_jobs` threads."""
    with open_engine(n_jobs) as engine:
        state = begin(work)
        for _ in range(n_iterations):
            state = iterate(work, state, engine)
    return state
