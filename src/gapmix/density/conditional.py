"""What a mixture says about rows with gaps: densities, filled values, their spread, draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from gapmix.em.records import Engine
from gapmix.em.steps import look
from gapmix.parameters import Parameters
from gapmix.plan.rows import Block, Rows, expand, prepare_rows, restore_order
from gapmix.solvers import Completed, Solver
from gapmix.structures.mixtures import dense_covariances, members

QUANTILE_STEPS = 400  # most halvings of a bracket; some 55 do unless components are far apart


class ReadyDensity(NamedTuple):
    """A mixture ready for use: the solver, what it prepared, and the parameters it did so from."""

    solver: Solver
    state: Any
    parameters: Parameters  # internal units


class Scores(NamedTuple):
    """Density of each row and its share of each component, in the rows' original order."""

    log_prob: np.ndarray  # (n,) log p(x_o)
    resp: np.ndarray  # (n, K) p(component | x_o)


class Filled(NamedTuple):
    """Rows with gaps filled by their conditional mean, in the original order, internal units."""

    mean: np.ndarray  # (n, d)
    std: (
        np.ndarray
    )  # (n, d) conditional standard deviation, 0 where observed; (n, 0) if not asked for
    resp: np.ndarray  # (n, K)


def score(ready: ReadyDensity, rows: Rows, engine: Engine) -> Scores:
    """Return log p(x_o) and responsibilities of every row."""

    def score_block(block: Block) -> tuple[np.ndarray, np.ndarray]:
        visit = ready.solver.visit(ready.state, block)
        return look(ready.parameters, block, visit.log_density)

    return Scores(*_join(engine.map(score_block, rows.blocks), rows))


def fill(ready: ReadyDensity, rows: Rows, engine: Engine, *, spread: bool = False) -> Filled:
    """Return E[x | x_o] = sum_j p(j | x_o) E[x | x_o, j], and its standard deviation if asked for.

    The variance is the mean of the components' variances plus the variance of their means. Without
    it, the same means in a third of the time.
    """
    means = ready.parameters.means

    def fill_block(block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        completed, resp = _complete(ready, block, spread=spread)
        each = completed.deviation + means[:, None, :]  # (K, n_b, d)
        mean = np.einsum("nk,knd->nd", resp, each)
        observed = expand(block.observed, block)
        filled = np.where(observed, block.x, mean)
        if not spread:
            return filled, np.empty((len(mean), 0)), resp
        variance = np.zeros_like(mean)
        for k in range(len(each)):
            within = expand(completed.variance[k], block)
            variance += resp[:, k, None] * (within + (each[k] - mean) ** 2)
        return filled, np.where(observed, 0.0, np.sqrt(variance)), resp

    return Filled(*_join(engine.map(fill_block, rows.blocks), rows))


def _complete(ready: ReadyDensity, block: Block, *, spread: bool) -> tuple[Completed, np.ndarray]:
    """Return the block's rows as each component fills them, and responsibilities (n_b, K)."""
    completed = ready.solver.complete(ready.state, block, spread=spread)
    return completed, look(ready.parameters, block, completed.log_density)[1]


def _join(parts: Iterable[tuple[np.ndarray, ...]], rows: Rows) -> Iterator[np.ndarray]:
    """Yield the arrays of all blocks joined, rows in their original order."""
    for arrays in zip(*parts, strict=True):
        yield restore_order(np.concatenate(arrays), rows)


def quantiles(ready: ReadyDensity, rows: Rows, levels: np.ndarray, engine: Engine) -> np.ndarray:
    """Return quantiles of every gap given the rest of its row, (len(levels), n, d).

    Observed cells are left NaN. The conditional distribution of a cell is a mixture of the
    components' Gaussians, so its quantiles are roots of a sum of normal distribution functions.
    """
    means = ready.parameters.means

    def quantiles_of_block(block: Block) -> tuple[np.ndarray, ...]:
        completed, resp = _complete(ready, block, spread=True)
        row, column = np.nonzero(~expand(block.observed, block))
        mean = completed.deviation[:, row, column] + means[:, column]  # (K, cells)
        within = np.stack([expand(each, block)[row, column] for each in completed.variance])
        result = np.full((len(levels), *block.x.shape), np.nan)
        for each, level in zip(result, levels, strict=True):
            each[row, column] = mixture_quantile(float(level), resp[row].T, mean, np.sqrt(within))
        return tuple(result)

    return np.stack(list(_join(engine.map(quantiles_of_block, rows.blocks), rows)))


def distribution(ready: ReadyDensity, rows: Rows, values: np.ndarray, engine: Engine) -> np.ndarray:
    """Return P(gap <= value | rest of the row) for values (n, d), NaN where there is no gap."""
    means = ready.parameters.means
    ends = np.cumsum([len(block.x) for block in rows.blocks])
    parts = np.split(values[rows.patterns.order], ends[:-1])

    def distribution_of_block(item: tuple[Block, np.ndarray]) -> tuple[np.ndarray]:
        block, value = item
        completed, resp = _complete(ready, block, spread=True)
        gaps = ~expand(block.observed, block)
        result = np.where(gaps, 0.0, np.nan)
        for k, mean in enumerate(means):
            away = value - mean - completed.deviation[k]
            std = np.where(gaps, np.sqrt(expand(completed.variance[k], block)), 1.0)
            result += resp[:, k, None] * ndtr(away / std)
        return (result,)

    items = list(zip(rows.blocks, parts, strict=True))
    return next(_join(engine.map(distribution_of_block, items), rows))


def mixture_quantile(
    level: float, weight: np.ndarray, mean: np.ndarray, std: np.ndarray
) -> np.ndarray:
    """Return the quantile of each one-dimensional mixture; all arguments are (K, cells).

    It lies between the smallest and the largest quantile of the components that have a weight; the
    bracket is halved until no double is left inside, or nothing against the narrowest component.
    """
    each = mean + ndtri(level) * std
    low = np.where(weight > 0, each, np.inf).min(axis=0)
    high = np.where(weight > 0, each, -np.inf).max(axis=0)
    tiny = np.finfo(float).eps * std.min(axis=0)
    for _ in range(QUANTILE_STEPS):
        middle = 0.5 * (low + high)
        if ((middle <= low) | (middle >= high) | (high - low <= tiny)).all():
            break
        below = (weight * ndtr((middle - mean) / std)).sum(axis=0) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def draw(
    ready: ReadyDensity,
    x: np.ndarray,
    resp: np.ndarray,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of whole rows given their observed part, (n_draws, n, d), internal units.

    Also the component that each was drawn from, (n_draws, n).

    First the component, by its responsibility; then its Gaussian. With y a draw from N(0, S),
    y + E[x | x_o - y_o] has the conditional mean and covariance exactly and leaves x_o as it is
    (Matheron's rule), so drawing needs nothing but filling.
    """
    n, d = x.shape
    solver, parameters = ready.solver, ready.parameters
    result = np.empty((n_draws, n, d))
    cumulative = np.cumsum(resp, axis=1)
    chosen = (rng.random((n_draws, n, 1)) * cumulative[:, -1:] > cumulative).sum(axis=2)
    sigma = dense_covariances(parameters)
    observed = ~np.isnan(x)
    for k in range(len(parameters.weights)):
        which, row = np.nonzero(chosen == k)
        if not row.size:
            continue
        noise = rng.standard_normal((row.size, d)) @ np.linalg.cholesky(sigma[k]).T
        rows = prepare_rows(x[row] - noise, np.ones(row.size), 1)
        state = solver.prepare(members(parameters, (k,)))
        filled = np.concatenate(
            [solver.complete(state, block, spread=False).deviation[0] for block in rows.blocks]
        )
        values = restore_order(filled, rows) + parameters.means[k] + noise
        result[which, row] = np.where(observed[row], x[row], values)
    return result, chosen
