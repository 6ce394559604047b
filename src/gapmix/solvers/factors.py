"""Factors and noise: what a row shows of the factors is a matrix of their size, q x q.

With o the observed set of a pattern, M_o = I + L_o' psi_o^-1 L_o and e = x_o - mean_o,

    f | x_o ~ N(M_o^-1 L_o' psi_o^-1 e, M_o^-1),      log|S_oo| = log|M_o| + sum log psi_o,
    distance = (e - L_o f)' psi_o^-1 (e - L_o f) + f'f     at the mean of f,

a sum of squares, so that nothing cancels where factors explain nearly all. All M_o of a block are
one product of its patterns (P_b, d) with the products of loadings (d, q (q + 1) / 2), and the sums
of the M step are products of the patterns with what is known of the factors: n d q^2 operations,
and nothing of size d x d. Blocks of sparse rows, whose stored cells are those observed, cost as
many operations for each cell.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from gapmix.parameters import Parameters
from gapmix.plan.rows import Block
from gapmix.solvers import naive
from gapmix.solvers.contract import LOG_2PI, Completed, Visit
from gapmix.statistics import Moments, Statistics
from gapmix.structures.factor import refuse_improper, triangle, unfold

CELLS = 2**16  # worked on in one go
SUMS_DIAGONAL = False  # a structure with factors says itself what is summed
notes = naive.notes


class Prepared(NamedTuple):
    """Parameters, and what the densities need of them."""

    means: np.ndarray  # (K, d)
    loadings: np.ndarray  # (K, d, q)
    noise: np.ndarray  # (K, d)
    products: np.ndarray  # (K, d, q (q + 1) / 2) l l' / psi of each column, lower triangle


class Known(NamedTuple):
    """What rows tell of the factors under one component."""

    z: np.ndarray  # (n_b, d) about the mean, 0 where missing
    mean: np.ndarray  # (n_b, q) E[f | x_o]
    spread: np.ndarray  # (P_b, q, q) covariance of f given x_o
    log_density: np.ndarray  # (n_b,)


def prepare(parameters: Parameters) -> Prepared:
    """Return what the densities need; refuses noise that is not positive."""
    loadings, noise = parameters.covariances[:, :, :-1], parameters.covariances[:, :, -1]
    refuse_improper(parameters.covariances)
    row, column = triangle(loadings.shape[2])
    products = loadings[:, :, row] * loadings[:, :, column] / noise[:, :, None]
    return Prepared(parameters.means, np.ascontiguousarray(loadings), noise, products)


def visit(prepared: Prepared, block: Block) -> Visit:
    """Return the log densities, keeping what is known of the factors."""
    seen = block.observed.astype(float)
    known = [_look(prepared, k, block, seen) for k in range(len(prepared.means))]
    density = np.stack([each.log_density for each in known], axis=1)
    kept = [(each.mean, each.spread) for each in known]
    return Visit(density, (seen, kept))


def _look(prepared: Prepared, k: int, block: Block, seen: np.ndarray) -> Known:
    """Return what the rows of a block tell of the factors of component k."""
    loadings, noise = prepared.loadings[k], prepared.noise[k]
    q = loadings.shape[1]
    precision = unfold(seen @ prepared.products[k], q)
    precision[:, np.arange(q), np.arange(q)] += 1.0
    root = np.linalg.inv(np.linalg.cholesky(precision))
    spread = np.swapaxes(root, 1, 2) @ root
    log_det = seen @ np.log(noise) - 2.0 * np.log(np.einsum("pii->pi", root)).sum(axis=1)
    z, rows = _center(prepared, k, block, seen), _each_row(block)
    mean = (spread[rows] @ (z @ (loadings / noise[:, None]))[:, :, None])[:, :, 0]
    residual = _subtract(z, mean, loadings, seen, rows)
    distance = _square(residual) @ (1.0 / noise) + (mean**2).sum(axis=1)
    log_density = -0.5 * (block.n_observed * LOG_2PI + log_det[rows] + distance)
    return Known(z, mean, spread, log_density)


def _each_row(block: Block) -> np.ndarray | slice:
    """Return the pattern of each row; a slice, which copies nothing, if each has its own."""
    n_patterns = block.observed.shape[0]
    if n_patterns == block.x.shape[0]:
        return slice(None)
    return np.repeat(np.arange(n_patterns), np.diff(block.start))


def _center(prepared: Prepared, k: int, block: Block, seen: np.ndarray) -> Any:
    """Return rows about the mean of component k, 0 where missing; sparse if they are."""
    x: Any = block.x
    if issparse(x):
        away = x.data - prepared.means[k][x.indices]
        return csr_array((away, x.indices, x.indptr), shape=x.shape)
    z = x - prepared.means[k]
    z *= seen[_each_row(block)]
    return z


def _subtract(
    z: Any, mean: np.ndarray, loadings: np.ndarray, seen: np.ndarray, rows: np.ndarray | slice
) -> Any:
    """Return what factors at their mean leave of the rows, 0 where missing."""
    if not issparse(z):
        return z - (mean @ loadings.T) * seen[rows]
    row = np.repeat(np.arange(len(mean)), np.diff(z.indptr))
    told = predict_cells(mean, loadings, row, z.indices)
    return csr_array((z.data - told, z.indices, z.indptr), shape=z.shape)


def predict_cells(
    mean: np.ndarray, loadings: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Return l'f of some cells, given by row and column."""
    told = np.empty(len(rows))
    for low in range(0, len(rows), CELLS):
        part = slice(low, low + CELLS)
        told[part] = np.einsum("cq,cq->c", mean[rows[part]], loadings[columns[part]])
    return told


def _square(z: Any) -> Any:
    """Return the squares of the cells of a block."""
    return z.multiply(z) if issparse(z) else z**2


def accumulate(
    prepared: Prepared, block: Block, visit: Visit, resp: np.ndarray, total: Statistics
) -> None:
    """Add sum resp E[v v'], v = (f, 1, z), over the rows that show each column."""
    seen, kept = visit.kept
    total.resp[:] += resp.sum(axis=0)
    q = prepared.loadings.shape[2]
    row, column = triangle(q + 1)
    n_known = len(row)  # sums of factors come first, then those with z
    inner = np.tril_indices(q)
    for k, (mean, spread) in enumerate(kept):
        r = resp[:, k]
        v = np.concatenate([mean, np.ones((len(mean), 1))], axis=1)  # (n_b, q + 1)
        weighted = v * r[:, None]
        of_rows = weighted[:, row] * v[:, column]
        of_patterns = np.add.reduceat(of_rows, block.start[:-1], axis=0)
        share = of_patterns[:, -1]  # sum of resp: the last entry of v v' is 1
        of_patterns[:, : len(inner[0])] += share[:, None] * spread[:, inner[0], inner[1]]
        z = _center(prepared, k, block, seen)
        total.second[k, :, :n_known] += seen.T @ of_patterns
        with_z = z.T @ weighted
        total.second[k, :, n_known:-1] += with_z
        total.second[k, :, -1] += r @ _square(z)
        total.first[k] += with_z[:, -1]


def moments(prepared: Prepared, statistics: Statistics) -> Moments:
    """Return the moments as they were summed."""
    return Moments(statistics.resp, statistics.first, statistics.second)


def precisions(prepared: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariances, as the structure's log-prior reads them, and no determinants."""
    covariances = np.concatenate([prepared.loadings, prepared.noise[:, :, None]], axis=2)
    return covariances, np.zeros(len(covariances))


def complete(prepared: Prepared, block: Block, *, spread: bool = True) -> Completed:
    """Return E[x | x_o] - mean = L f in the gaps, and psi + l' M_o^-1 l as their variance."""
    n_components, d = prepared.means.shape
    seen = block.observed.astype(float)
    density = np.empty((len(block.x), n_components))
    deviation = np.empty((n_components, *block.x.shape))
    variance = np.zeros((n_components, len(seen), d))
    row, column = triangle(prepared.loadings.shape[2])
    twice = np.where(row == column, 1.0, 2.0)
    for k, loadings in enumerate(prepared.loadings):
        known = _look(prepared, k, block, seen)
        density[:, k] = known.log_density
        guess = known.mean @ loadings.T
        guess *= 1.0 - seen[_each_row(block)]
        np.add(known.z, guess, out=deviation[k])
        if spread:
            noise = prepared.noise[k]
            inside = (twice * known.spread[:, row, column]) @ prepared.products[k].T
            variance[k] = np.where(block.observed, 0.0, noise * (1.0 + inside))
    return Completed(density, deviation, variance)
