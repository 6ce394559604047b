"""A start worth climbing from: the best of a few by a look at some of the rows, then moves.

Several k-means starts are compared by their objective on a sample of the rows. The best climbs
until EM only gains little from pass to pass, and components that sit badly are regrouped. All of
it is counted in passes, one being the work of an iteration on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gapmix import categories
from gapmix.em.records import Engine, Fit, Settings
from gapmix.em.repair import CollapseError
from gapmix.em.run import run
from gapmix.parameters import Parameters
from gapmix.plan.canonical import put_in_order
from gapmix.plan.rows import Rows, prepare_rows
from gapmix.solvers import Solver
from gapmix.starts.regroup import Table, is_movable, regroup
from gapmix.structures import STRUCTURES

N_STARTS = 4
SHARE = 0.2  # of the rows that a sample has at least
# Rows per free parameter of a sample to compare starts and moves on, and of one to climb on: EM on
# fewer leads to optima that the whole table does not have.
COMPARED_PER_NUMBER, CLIMBED_PER_NUMBER = 5, 20
LARGEST_SHARE = 0.5  # a sample that would be larger is the whole table
QUIET = 1e-2  # gain per row and pass from which on moves are looked for: EM does the rest by itself
N_QUIET = 10  # passes to wait for it
ROUNDS = 3  # of moves, at most

MakeStart = Callable[[], Parameters]


class Found(NamedTuple):
    """A start, and what was done to find it."""

    parameters: Parameters
    note: str
    passes: float  # work, one pass being an iteration on all rows


def find_start(
    solver: Solver,
    rows: Rows,
    make: MakeStart,
    settings: Settings,
    engine: Engine,
    rng: np.random.Generator,
) -> Found:
    """Return the best start found, of those that `make` makes by chance.

    The solver must be one that needs no trees.
    """
    first = make()
    table = _as_table(rows)
    slopes = Slopes(solver, table, settings, engine, _shuffle(table, rng))
    small = slopes.cut(COMPARED_PER_NUMBER, first)
    best, best_value, passes = first, -np.inf, 0.0
    for number in range(N_STARTS):
        start = first if number == 0 else make()
        fit = small.climb(start, 1)
        passes += small.share
        if fit is not None and fit.history[0].objective > best_value:
            best, best_value = start, fit.history[0].objective
    n_moves = 0
    if is_movable(first, settings):
        best, n_moves, work = _improve(small, slopes.cut(CLIMBED_PER_NUMBER, first), best)
        passes += work
    note = (
        f"start: the best of {N_STARTS} by {len(small.table.x)} of {len(table.x)} rows, "
        f"{n_moves} moves, the work of {passes:.2f} passes"
    )
    return Found(best, note, passes)


def _improve(small: Slope, large: Slope, start: Parameters) -> tuple[Parameters, int, float]:
    """Return a start after climbs and moves, the number of moves and the work in passes."""
    parameters, n_moves, passes = start, 0, 0.0
    for _ in range(ROUNDS):
        fit = large.climb(parameters, N_QUIET)
        if fit is None:
            break
        parameters = fit.parameters
        passes += large.share * len(fit.history)
        if not fit.converged:
            break
        moved = regroup(small.solver, small.table, parameters, small.settings, small.engine)
        passes += small.share * moved.passes
        if not moved.moves:
            break
        parameters = moved.parameters
        n_moves += len(moved.moves)
    return parameters, n_moves, passes


class Slope(NamedTuple):
    """Rows to climb on, and how."""

    solver: Solver
    table: Table
    rows: Rows
    settings: Settings
    engine: Engine
    share: float  # of all rows

    def climb(self, start: Parameters, n_iterations: int) -> Fit | None:
        """Return the fit after plain steps, or None if a component collapsed."""
        settings = self.settings._replace(max_iter=n_iterations)
        try:
            return run(self.solver, self.rows, start, settings, self.engine, keep_start=True)
        except CollapseError:
            return None


class Slopes(NamedTuple):
    """Samples of one table, the smaller part of the larger."""

    solver: Solver
    table: Table
    settings: Settings
    engine: Engine
    order: np.ndarray  # (n,) by chance, copies of a row next to each other

    def cut(self, rows_per_number: int, start: Parameters) -> Slope:
        """Return a sample with so many rows per free parameter, or the whole table."""
        structure, n_components = STRUCTURES[start.structure], len(start.weights)
        x, weight, codes = self.table
        n, d = float(weight.sum()), int((~np.isnan(x)).any(axis=0).sum())
        per_component = 0 if structure.SHARED else structure.count_free(d)
        per_component += sum(table.shape[1] - 1 for table in start.categories)
        wanted = rows_per_number * n_components * (1 + d + per_component)
        size = max(SHARE * n, float(wanted))
        chosen = np.arange(len(x))
        if size <= LARGEST_SHARE * n:
            before = np.cumsum(weight[self.order]) - weight[self.order]
            chosen = np.sort(self.order[before < size])
        table = Table(x[chosen], weight[chosen], codes[chosen])
        return Slope(
            self.solver,
            table,
            prepare_rows(
                table.x,
                table.weight,
                n_components,
                codes=table.codes,
                n_factors=structure.n_factors,
            ),
            _coarse(
                self.settings,
                float(table.weight.sum() / weight.sum()),
                has_target=structure.HAS_TARGET,
            ),
            self.engine,
            float(table.weight.sum()) / n,
        )


def _shuffle(table: Table, rng: np.random.Generator) -> np.ndarray:
    """Return the rows in an order by chance that units and places of columns do not change."""
    order = put_in_order(categories.add_codes(table.x, table.codes), table.weight)
    return np.argsort(rng.permutation(len(order.rows))[order.which], kind="stable")


def _as_table(rows: Rows) -> Table:
    """Return the rows with NaN where missing."""
    observed = np.repeat(rows.patterns.observed, np.diff(rows.patterns.start), axis=0)
    return Table(np.where(observed, rows.x, np.nan), rows.weight, rows.codes)


def _coarse(settings: Settings, share: float, *, has_target: bool) -> Settings:
    """Return settings for plain steps until gains are small, on a share of the rows.

    Priors are scaled so that the objective per row is what it is on all rows. Those whose target
    is yet to be found are left out.
    """
    prior = settings.regularizer
    is_ready = prior.target is not None or not has_target
    prior = prior._replace(
        ridge=prior.ridge * share,
        shrinkage=prior.shrinkage * share if is_ready else 0.0,
        mean_shrinkage=0.0 if prior.center is None else prior.mean_shrinkage * share,
        levels=prior.levels._replace(rows=prior.levels.rows * share),
    )
    return settings._replace(regularizer=prior, tol=QUIET, accelerate=None)
