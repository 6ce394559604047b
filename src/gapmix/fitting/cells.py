"""Fit factors to a sparse table, whose stored cells are the ones seen: cost follows the cells.

Nothing of the size of the table is made, so ratings of very many rows and columns will do. There
is one component: that is what starts without a dense row can be made for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from gapmix.em.run import run
from gapmix.fitting.fitted import Fitted, advise, density_of, to_fitted
from gapmix.fitting.spec import Running, Spec, count_factors, make_settings
from gapmix.parameters import Parameters
from gapmix.plan.layout import lay_out
from gapmix.plan.patterns import Patterns
from gapmix.plan.planner import Plan
from gapmix.plan.rows import Block, Rows, no_codes
from gapmix.solvers import SOLVERS, factors
from gapmix.starts.loadings import find_loadings
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import parameters_to_internal
from gapmix.threads import open_engine
from gapmix.units import Scaling, Summary, from_summary

ROWS_AT_ONCE = 4096
SEED = 20061114


class Cells(NamedTuple):
    """A sparse table in the user's units."""

    x: csr_array  # (n, d) stored cells are seen, whatever their value
    weight: np.ndarray  # (n,) positive


def fit_cells(spec: Spec, cells: Cells, running: Running) -> Fitted:
    """Return one component with factors, fitted to the cells."""
    structure, (n, d) = STRUCTURES[spec.covariance_type], cells.x.shape
    if spec.shrinkage == "auto":  # noise is in the cells that are there
        weight = float(cells.weight @ np.diff(cells.x.indptr))
        spec = spec._replace(shrinkage=structure.auto_shrinkage(cells.x.nnz / n, weight / d))
    units = measure_cells(cells, common=structure.COMMON_UNITS)
    rows = prepare_cells(cells, units)
    settings = make_settings(spec, units, float(cells.weight.sum()))
    with open_engine(running.n_jobs) as engine:
        rng = np.random.default_rng(SEED)
        resp, means = np.ones((n, 1)), np.zeros((1, d))
        loadings = find_loadings(rows, units, resp, means, count_factors(spec), rng)
        covariances = structure.begin_with(loadings, np.ones((1, d)), np.ones(1), units.variance)
        start = Parameters(np.ones(1), units.mean[None], covariances, spec.covariance_type)
        done = run(SOLVERS[structure.SOLVER], rows, start, settings, engine, keep_start=True)
    log_unit = float(cells.weight @ (_ones(cells.x) @ np.log(units.scale)) / cells.weight.sum())
    fitted = to_fitted(done, units, _plan(cells.x), (log_unit, 0.0))
    return fitted._replace(advice=advise(fitted, spec.tol))


def predict(
    fitted: Fitted, x: csr_array, rows: np.ndarray, columns: np.ndarray, n_jobs: int | None = None
) -> np.ndarray:
    """Return the conditional mean of some cells given the stored cells of their rows."""
    model = density_of(fitted, n_jobs)
    inside = parameters_to_internal(model.parameters, model.units)
    needed, which = np.unique(rows, return_inverse=True)
    told = np.empty(len(rows))
    order = np.argsort(which, kind="stable")
    with open_engine(1):
        prepared = factors.prepare(inside)
        for low in range(0, len(needed), ROWS_AT_ONCE):
            part = needed[low : low + ROWS_AT_ONCE]
            block = prepare_cells(Cells(x[part], np.ones(len(part))), model.units).blocks[0]
            [(mean, _)] = factors.visit(prepared, block).kept[1]
            ends = np.searchsorted(which[order], [low, low + len(part)])
            asked = order[ends[0] : ends[1]]
            told[asked] = factors.predict_cells(
                mean, prepared.loadings[0], which[asked] - low, columns[asked]
            )
    told += inside.means[0][columns]
    return told * model.units.scale[columns] + model.units.center[columns]


def prepare_cells(cells: Cells, units: Scaling) -> Rows:
    """Return sparse rows in internal units, cut into blocks."""
    x, weight = cells
    value = (x.data - units.center[x.indices]) / units.scale[x.indices]
    inside = csr_array((value, x.indices, x.indptr), shape=x.shape)
    blocks = []
    for low in range(0, x.shape[0], ROWS_AT_ONCE):
        part = inside[low : low + ROWS_AT_ONCE]
        n = part.shape[0]
        none = np.ones((1, 1), dtype=bool)
        blocks.append(
            Block(
                part,
                weight[low : low + n],
                _ones(part),
                np.arange(n + 1),
                np.diff(part.indptr),
                n,
                lay_out(none, np.array([0, 1])),
                no_codes(n),
            )
        )
    return Rows(_no_patterns(x.shape[1]), inside, weight, tuple(blocks), no_codes(x.shape[0]))


def _ones(x: csr_array) -> csr_array:
    """Return 1 where a cell is stored."""
    return csr_array((np.ones(len(x.data)), x.indices, x.indptr), shape=x.shape)


def measure_cells(cells: Cells, *, common: bool) -> Scaling:
    """Return the units of the columns, from their stored cells."""
    x, d = cells.x, cells.x.shape[1]
    weight = np.repeat(cells.weight, np.diff(x.indptr))
    total = np.bincount(x.indices, weight, d)
    largest = np.zeros(d)
    np.maximum.at(largest, x.indices, np.abs(x.data))
    exponent = np.where(largest > 0, np.frexp(largest)[1], 0)
    unit = np.ldexp(x.data, -exponent[x.indices])
    safe = np.where(total > 0, total, 1.0)
    mean = np.bincount(x.indices, weight * unit, d) / safe
    variance = np.bincount(x.indices, weight * (unit - mean[x.indices]) ** 2, d) / safe
    return from_summary(Summary(exponent, total, mean, variance), common=common)


def _no_patterns(d: int) -> Patterns:
    return Patterns(np.empty((0, d), dtype=bool), np.empty(0, dtype=int), np.zeros(1, dtype=int))


def _plan(x: csr_array) -> Plan:
    n, d = x.shape
    text = (
        f"{n:,} rows x {d:,} columns, {x.nnz:,} cells stored "
        f"({100 * x.nnz / max(1, n * d):.2f} %).\nSolver: factors, over the stored cells."
    )
    reason = "because the table is sparse."
    return Plan(_no_patterns(d), "factors", "auto", 1, {}, frozenset(), reason, text=text)
