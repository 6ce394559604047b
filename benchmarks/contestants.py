"""Those whose iterations are timed: gapmix's solvers on gaps, scikit-learn without.

A contestant does one iteration of EM per call of `step`, which returns the seconds it took, and
knows the log-likelihood per row of the parameters its last iteration started from.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol

import numpy as np
from sklearn.mixture import GaussianMixture as CompleteMixture
from threadpoolctl import threadpool_limits

from benchmarks import iteration
from benchmarks.problems import Problem
from gapmix import units as scaling
from gapmix.parameters import NotPositiveDefiniteError
from gapmix.plan.patterns import find_patterns
from gapmix.plan.rows import prepare_rows
from gapmix.threads import open_engine

SCIKIT_LEARN = "scikit-learn, complete"
ONE_THREAD = "scikit-learn, complete, 1 thread"  # BLAS threads do not always pay
NAIVE_SECONDS = 2.0  # what an iteration of `naive` may take before a part of the table must do
NAIVE_TRIAL = 24  # patterns timed to find out


class Contestant(Protocol):
    """Anything that iterates."""

    name: str
    kind: str  # "solver" or "peer"
    note: str
    log_likelihood: float | None  # per row; None where it cannot be compared

    def step(self) -> float:
        """Do one iteration and return its seconds."""


class Gapmix:
    """gapmix on the table with gaps."""

    kind = "solver"

    def __init__(
        self,
        problem: Problem,
        start: iteration.Start,
        *,
        solver: str = "auto",
        threads: int,
        reg_covar: float = 1e-6,
    ) -> None:
        mixture = iteration.make_mixture(problem, start, solver=solver, reg_covar=reg_covar)
        self._work = iteration.set_up(mixture, problem.x)
        self._threads = threads
        self._state: iteration.State | None = None
        chosen = self._work.plan.solver
        self.name = f"gapmix ({chosen})" if solver == "auto" else f"gapmix, solver={solver!r}"
        self.name += "" if reg_covar == 1e-6 else f", reg_covar={reg_covar:g}"

    def step(self) -> float:
        """Do one iteration and return its seconds; the engine is open already, as in a fit."""
        with open_engine(self._threads) as engine:
            if self._state is None:
                self._state = iteration.begin(self._work)
            began = time.perf_counter()
            self._state = iteration.iterate(self._work, self._state, engine)
            return time.perf_counter() - began

    @property
    def log_likelihood(self) -> float | None:
        """Per row, of the parameters the last iteration started from."""
        return None if self._state is None else self._state.log_likelihood

    @property
    def note(self) -> str:
        """Number of patterns, and components that needed more than the plain form."""
        n_patterns = len(self._work.plan.patterns.observed)
        notes = () if self._state is None else self._state.notes
        special = f"; in the last iteration {len(notes)} x square-root form" if notes else ""
        return f"{n_patterns:,} patterns{special}"


class NaivePart:
    """The textbook's solver on some of the patterns, the time of its E step scaled up.

    The parameters stay where they are: a part of the rows could not carry the M step. Its time, and
    that of the factors for the next E step, do not depend on the rows and are taken once.
    """

    kind = "solver"
    name = "gapmix, solver='naive'"
    log_likelihood = None

    def __init__(
        self,
        problem: Problem,
        start: iteration.Start,
        n_chosen: int,
        *,
        threads: int,
        reg_covar: float = 1e-6,
    ) -> None:
        mixture = iteration.make_mixture(problem, start, solver="naive", reg_covar=reg_covar)
        work = iteration.set_up(mixture, problem.x)
        patterns = find_patterns(~np.isnan(problem.x))
        n_patterns = len(patterns.observed)
        rng = np.random.default_rng(0)
        chosen = np.sort(rng.choice(n_patterns, min(n_chosen, n_patterns), replace=False))
        rows = np.concatenate(
            [patterns.order[patterns.start[p] : patterns.start[p + 1]] for p in chosen]
        )
        internal = scaling.to_internal(problem.x[rows][:, work.columns], work.units)
        part = prepare_rows(internal, np.ones(len(rows)), problem.n_components)
        self._work = work._replace(rows=part)
        self._threads = threads
        self.factor = n_patterns / len(chosen)
        self.note = (
            f"timed on {len(chosen):,} of {n_patterns:,} patterns, E step scaled up accordingly"
        )

    def step(self) -> float:
        """Return what an iteration on all patterns would take."""
        with open_engine(self._threads) as engine:
            state = iteration.begin(self._work)
            began = time.perf_counter()
            statistics = iteration.expect(self._work, state, engine)
            rows_done = time.perf_counter()
            try:
                iteration.maximise(self._work, state, statistics)
            except NotPositiveDefiniteError:  # too few rows; the start's factors cost the same
                iteration.begin(self._work)
            return (rows_done - began) * self.factor + time.perf_counter() - rows_done


def make_naive(
    problem: Problem,
    start: iteration.Start,
    *,
    threads: int,
    reg_covar: float = 1e-6,
    affordable: float = NAIVE_SECONDS,
) -> Contestant:
    """Return `naive` on the whole table if an iteration is affordable, else on a part of it."""
    trial = NaivePart(problem, start, NAIVE_TRIAL, threads=threads, reg_covar=reg_covar)
    trial.step()
    predicted = trial.step()
    if predicted <= affordable or trial.factor <= 1:
        return Gapmix(problem, start, solver="naive", threads=threads, reg_covar=reg_covar)
    n_patterns = NAIVE_TRIAL * trial.factor
    n_chosen = max(NAIVE_TRIAL, int(n_patterns * affordable / predicted))
    return NaivePart(problem, start, n_chosen, threads=threads, reg_covar=reg_covar)


class ScikitLearn:
    """scikit-learn on the complete table."""

    kind = "peer"

    def __init__(
        self,
        problem: Problem,
        start: iteration.Start,
        *,
        threads: int,
        reg_covar: float = 1e-6,
    ) -> None:
        self.name = SCIKIT_LEARN if threads > 1 else ONE_THREAD
        self._x = problem.complete
        self._threads = threads
        self._model = make_complete(problem, start, reg_covar=reg_covar, max_iter=1)
        self._model.weights_, self._model.means_ = start.weights, start.means
        # scikit-learn wants the upper U with U U' the precision.
        upper = [np.linalg.cholesky(prec[::-1, ::-1])[::-1, ::-1] for prec in start.precisions]
        self._model.precisions_cholesky_ = np.array(upper)
        self.log_likelihood: float | None = None
        self.note = "the same table without gaps"

    def step(self) -> float:
        """Do one iteration and return its seconds."""
        with threadpool_limits(self._threads):
            began = time.perf_counter()
            value, log_resp = self._model._e_step(self._x)
            self._model._m_step(self._x, log_resp)
            seconds = time.perf_counter() - began
        self.log_likelihood = float(value)
        return seconds


def make_complete(
    problem: Problem, start: iteration.Start, *, reg_covar: float, max_iter: int
) -> CompleteMixture:
    """Return scikit-learn's estimator for this start."""
    return CompleteMixture(
        problem.n_components,
        weights_init=start.weights,
        means_init=start.means,
        precisions_init=start.precisions,
        reg_covar=reg_covar,
        max_iter=max_iter,
    )


def make_contestants(
    problem: Problem,
    start: iteration.Start,
    solvers: tuple[str, ...],
    *,
    threads: int,
    reg_covar: float = 1e-6,
    also_reg_covar: float | None = None,
) -> list[Contestant]:
    """Return gapmix's solvers and scikit-learn, all at the same start; the first is compared."""
    common = {"threads": threads, "reg_covar": reg_covar}
    first, *others = solvers
    made: list[Contestant] = [
        Gapmix(problem, start, solver=first, **common),
        ScikitLearn(problem, start, **common),
    ]
    if threads > 1:
        made.append(ScikitLearn(problem, start, threads=1, reg_covar=reg_covar))
    if also_reg_covar is not None:
        other = {"threads": threads, "reg_covar": also_reg_covar}
        made.append(Gapmix(problem, start, solver=first, **other))
    for solver in others:
        make = make_naive if solver == "naive" else partial(Gapmix, solver=solver)
        made.append(make(problem, start, **common))
    return made
