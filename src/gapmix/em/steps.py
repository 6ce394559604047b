"""The two steps of EM, as pure functions on records, on rows wherever these are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gapmix import categories, kernels
from gapmix.em.records import Engine, Settings, Shards
from gapmix.parameters import Parameters
from gapmix.plan.rows import Block, Rows, deal_queues
from gapmix.solvers import Solver
from gapmix.statistics import Moments, Statistics, merge_into, zero_statistics
from gapmix.structures import STRUCTURES


def look(
    parameters: Parameters, block: Block, log_density: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return log p(row) (n,) and responsibilities (n, K), of numbers and categories.

    `log_density` (n, K) is the solver's, of the numbers, and may be overwritten. A row so far away
    that every density underflows is given the weights.
    """
    tables, joint = parameters.categories, np.ascontiguousarray(log_density.T)
    if tables:
        first = categories.find_starts(categories.count_levels(tables))
        log_theta = np.ascontiguousarray(categories.take_logs(tables))
        kernels.load("levels").add_log_levels(block.codes, first, log_theta, joint)
    # Kernels take what can be written to, which parameters that were mapped from a file cannot.
    log_prob, weights = np.empty(joint.shape[1]), np.array(parameters.weights)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    kernels.load("sharing").share_out(joint, weights, log_weights, log_prob)
    return log_prob, joint.T


def e_step(
    solver: Solver, prepared: Any, parameters: Parameters, rows: Rows, engine: Engine
) -> Statistics:
    """Return the statistics of all rows: densities, responsibilities and sums in one pass."""
    empty = partial(
        zero_statistics,
        len(parameters.weights),
        rows.x.shape[1],
        diagonal=solver.SUMS_DIAGONAL,
        observed_side=any(block.n_missing_side < block.x.shape[0] for block in rows.blocks),
        n_levels=sum(categories.count_levels(parameters.categories)),
        n_sums=STRUCTURES[parameters.structure].n_sums,
    )

    def sum_queue(queue: tuple[Block, ...]) -> Statistics:
        return sum_blocks(solver, prepared, parameters, queue, empty())

    parts = iter(engine.map(sum_queue, deal_queues(rows)))
    total = next(parts)
    for part in parts:  # each is let go before the next queue needs its memory
        merge_into(total, part)
    return total


def sum_blocks(
    solver: Solver,
    prepared: Any,
    parameters: Parameters,
    blocks: Sequence[Block],
    total: Statistics,
) -> Statistics:
    """Add the statistics of the blocks to `total`, one after the other, and return it.

    Where a matrix of a pattern has no factor, the log-likelihood becomes NaN: the pass is void.
    """
    first = categories.find_starts(categories.count_levels(parameters.categories))
    try:
        for block in blocks:
            visit = solver.visit(prepared, block)
            log_prob, resp = look(parameters, block, visit.log_density)
            total.log_likelihood[...] += block.weight @ log_prob
            resp = resp * block.weight[:, None]
            if parameters.categories:
                shares = np.ascontiguousarray(resp.T)
                kernels.load("levels").count_levels(block.codes, first, shares, total.counts)
            solver.accumulate(prepared, block, visit, resp, total)
    except np.linalg.LinAlgError:
        total.log_likelihood[...] = np.nan
    return total


def sum_rows(
    solver: Solver, prepared: Any, parameters: Parameters, rows: Rows | Shards, engine: Engine
) -> Statistics:
    """Return the statistics of all rows, wherever these are."""
    if isinstance(rows, Rows):
        return e_step(solver, prepared, parameters, rows, engine)
    return rows.sum_statistics(prepared, parameters)


def take_moments(solver: Solver, prepared: Any, statistics: Statistics) -> Moments:
    """Return what the M step reads, of numbers and of categories."""
    return solver.moments(prepared, statistics)._replace(counts=statistics.counts)


def m_step(moments: Moments, parameters: Parameters, settings: Settings) -> Parameters:
    """Return the parameters that maximise the expected objective.

    Moments are about the current means; components without rows keep their mean and covariance.
    """
    structure = STRUCTURES[parameters.structure]
    means, covariances = structure.maximize(moments, parameters, settings.regularizer)
    n_components = len(moments.resp)
    if settings.equal_weights:
        weights = np.full(n_components, 1.0 / n_components)
    else:
        weights = moments.resp / moments.resp.sum()
    held = settings.regularizer
    tables = categories.maximize(moments.counts, parameters.categories, held.levels)
    return Parameters(weights, means, covariances, parameters.structure, tables)


def evaluate(
    solver: Solver,
    prepared: Any,
    parameters: Parameters,
    statistics: Statistics,
    n_rows: float,
    settings: Settings,
) -> tuple[float, float]:
    """Return log-likelihood and objective per row."""
    value = float(statistics.log_likelihood) / n_rows
    structure = STRUCTURES[parameters.structure]
    precisions = solver.precisions(prepared)
    held = settings.regularizer
    prior = structure.log_prior(parameters.means, *precisions, held)
    prior += categories.log_prior(parameters.categories, held.levels)
    return value, value + prior / n_rows


def log_likelihood(
    solver: Solver, prepared: Any, parameters: Parameters, rows: Rows, engine: Engine
) -> float:
    """Return the mean log p(x_o) of the rows."""

    def sum_queue(queue: tuple[Block, ...]) -> float:
        return sum(
            float(
                block.weight @ look(parameters, block, solver.visit(prepared, block).log_density)[0]
            )
            for block in queue
        )

    return sum(engine.map(sum_queue, deal_queues(rows))) / float(rows.weight.sum())


def total_weight(rows: Rows | Shards) -> float:
    """Return the sum of the rows' weights."""
    return float(rows.weight.sum()) if isinstance(rows, Rows) else rows.total_weight
