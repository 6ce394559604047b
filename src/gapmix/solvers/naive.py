"""The textbook, once per distinct pattern: Cholesky of S_oo. The paper's baseline and our oracle.

Equations 1 to 4 of the paper, with the normaliser of its equation 2 corrected.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from gapmix.parameters import Parameters
from gapmix.plan.rows import Block
from gapmix.solvers.contract import LOG_2PI, Completed, Visit
from gapmix.statistics import Moments, Statistics, mirror
from gapmix.structures.mixtures import as_full, factor

SUMS_DIAGONAL = False
Pieces = Callable[[Block], Iterator[tuple[int, slice]]]


class Solved(NamedTuple):
    """One pattern under one component."""

    log_density: np.ndarray  # (r,) of its rows
    missing: np.ndarray  # (n_m,) variables
    filled: np.ndarray  # (r, n_m) E[x_m | x_o] - mean_m
    covariance: np.ndarray  # (n_m, n_m) of x_m given x_o


def prepare(parameters: Parameters) -> Parameters:
    """Return the parameters with full matrices; refuses covariances that have no factor."""
    factor(parameters)
    return as_full(parameters)


def solve_pattern(z: np.ndarray, observed: np.ndarray, sigma: np.ndarray) -> Solved:
    """Return density and conditional moments of rows z = x - mean (r, d) that share a pattern."""
    o, m = np.flatnonzero(observed), np.flatnonzero(~observed)
    chol = np.linalg.cholesky(sigma[np.ix_(o, o)])
    white = _whiten(chol, z[:, o].T)  # (n_o, r)
    half = _whiten(chol, sigma[np.ix_(o, m)])  # (n_o, n_m)
    log_det = 2.0 * np.log(np.diagonal(chol)).sum()
    log_density = -0.5 * (o.size * LOG_2PI + log_det + (white**2).sum(axis=0))
    return Solved(log_density, m, white.T @ half, sigma[np.ix_(m, m)] - half.T @ half)


def _whiten(chol: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return inv(chol) @ right; SciPy before 1.14 refuses matrices without rows."""
    return solve_triangular(chol, right, lower=True) if right.size else right


def by_pattern(block: Block) -> Iterator[tuple[int, slice]]:
    """Yield each pattern of the block with its rows."""
    for p in range(len(block.observed)):
        yield p, slice(int(block.start[p]), int(block.start[p + 1]))


def by_row(block: Block) -> Iterator[tuple[int, slice]]:
    """Yield each row of the block, alone, with its pattern."""
    for p, rows in by_pattern(block):
        for i in range(rows.start, rows.stop):
            yield p, slice(i, i + 1)


def visit(
    parameters: Parameters,
    block: Block,
    pieces: Pieces = by_pattern,
    solve: Callable[[np.ndarray, np.ndarray, np.ndarray], Solved] = solve_pattern,
) -> Visit:
    """Return log densities, and everything solved on the way."""
    n_components = len(parameters.means)
    log_density = np.empty((len(block.x), n_components))
    kept = []
    for k in range(n_components):
        solved = []
        for p, rows in pieces(block):
            z = block.x[rows] - parameters.means[k]
            one = solve(z, block.observed[p], parameters.covariances[k])
            log_density[rows, k] = one.log_density
            solved.append((rows, one))
        kept.append(solved)
    return Visit(log_density, kept)


def accumulate(
    parameters: Parameters, block: Block, visit: Visit, resp: np.ndarray, total: Statistics
) -> None:
    """Add sum resp E[z] and sum resp E[z z'] of the block's rows."""
    for k, solved in enumerate(visit.kept):
        for rows, one in solved:
            z = block.x[rows] - parameters.means[k]
            z[:, one.missing] = one.filled
            r = resp[rows, k]
            total.resp[k] += r.sum()
            total.first[k] += r @ z
            second = (z.T * r) @ z
            second[np.ix_(one.missing, one.missing)] += r.sum() * one.covariance
            total.second[k] += second


def moments(parameters: Parameters, statistics: Statistics) -> Moments:
    """Return the moments as they were summed."""
    return Moments(statistics.resp, statistics.first, mirror(statistics.second))


def precisions(parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """Return precisions (K, d, d) and log|S| (K,)."""
    factored = factor(parameters)
    return factored.prec, factored.log_det


def complete(parameters: Parameters, block: Block, *, spread: bool = True) -> Completed:
    """Return the rows filled by each component, with conditional variances."""
    return completed(parameters, block, visit(parameters, block))


def completed(parameters: Parameters, block: Block, seen: Visit) -> Completed:
    """Return what a visit has found out: rows filled, with conditional variances."""
    n_components, d = parameters.means.shape
    deviation = block.x - parameters.means[:, None, :]
    variance = np.zeros((n_components, len(block.observed), d))
    for k, solved in enumerate(seen.kept):
        for rows, one in solved:
            deviation[k][rows, one.missing] = one.filled
            p = np.searchsorted(block.start, rows.start, side="right") - 1
            variance[k, p, one.missing] = np.diagonal(one.covariance)
    return Completed(seen.log_density, deviation, variance)


def notes(parameters: Parameters, statistics: Statistics) -> tuple[str, ...]:
    """Return nothing: there is one way only."""
    return ()
