"""The paper's algorithm: two matrices moved along a minimum spanning tree of the patterns.

Per component, two walks:

1. density and conditional mean, from the Cholesky factor of S_oo, moved by appending variables
   (always last) and deleting them (from anywhere, by Givens rotations);
2. once the responsibilities are known, the conditional covariance C = (K_mm)^-1 itself, moved by
   the inverse variance lemma (equations 6 to 10), additions and removals.

The lemma works on an explicit inverse and can lose all its digits in one step when S is badly
conditioned. That is noticed, by its pivots and by a probe of K_mm C = I, and answered by computing
afresh; the number of times is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from gapmix.kernels.blas import add_products
from gapmix.parameters import Factored, Parameters
from gapmix.plan.forests import Route
from gapmix.plan.rows import Block, expand
from gapmix.solvers import naive
from gapmix.solvers.contract import LOG_2PI, Completed, Visit
from gapmix.solvers.moving import LOSS, MovingFactor
from gapmix.statistics import Statistics, mirror
from gapmix.structures.mixtures import factor

SUMS_DIAGONAL = False
moments = naive.moments
MAX_RESIDUAL = 1e-9  # of K_mm C v - v, relative to v


class Prepared(NamedTuple):
    """Means, and covariances with their precisions: K is computed once per iteration."""

    means: np.ndarray  # (K, d)
    factored: Factored


class Held(NamedTuple):
    """What the first walk leaves for the second."""

    rows: list[np.ndarray]  # (n_b, d) for each component: rows completed, less the mean
    recomputed: int  # factors of S_oo that had to be computed afresh


def prepare(parameters: Parameters) -> Prepared:
    """Factor the covariances."""
    return Prepared(parameters.means, factor(parameters))


def visit(prepared: Prepared, block: Block) -> Visit:
    """Walk the tree with the factor of S_oo; return log densities, hold completed rows."""
    n_components = len(prepared.means)
    observed = expand(block.observed, block)
    log_density = np.empty((len(block.x), n_components))
    completed, recomputed = [], 0
    for k in range(n_components):
        sigma = prepared.factored.sigma[k]
        z = np.where(observed, block.x - prepared.means[k], 0.0)
        for route in block.routes:
            recomputed += _walk_factors(z, log_density[:, k], block, route, sigma)
        completed.append(z)
    return Visit(log_density, Held(completed, recomputed))


def _walk_factors(
    z: np.ndarray, log_density: np.ndarray, block: Block, route: Route, sigma: np.ndarray
) -> int:
    """Complete the rows z in place and set log densities; return how often it started anew."""
    tree, walk = route.tree, route.walk
    slots = [MovingFactor(len(sigma)) for _ in range(walk.n_slots)]
    recomputed = 0
    for node in walk.order:
        parent = tree.parent[node]
        factor = slots[walk.slot[node]]
        if parent < 0:
            factor.start(sigma, np.flatnonzero(tree.members[node]))
        else:
            if walk.slot[parent] != walk.slot[node]:
                factor.copy_from(slots[walk.slot[parent]])
            factor.delete(np.flatnonzero(tree.members[parent] & ~tree.members[node]))
            entering = np.flatnonzero(tree.members[node] & ~tree.members[parent])
            if entering.size and not factor.append(sigma, entering):
                factor.start(sigma, np.flatnonzero(tree.members[node]))
                recomputed += 1
        pattern = int(route.pattern[node])
        if pattern < 0:
            continue
        rows = slice(int(block.start[pattern]), int(block.start[pattern + 1]))
        o, m = factor.variables, np.flatnonzero(~block.observed[pattern])
        white = np.ascontiguousarray(z[rows][:, o])
        factor.solve(white, transposed=True)
        log_density[rows] = -0.5 * (o.size * LOG_2PI + factor.log_det() + (white**2).sum(axis=1))
        factor.solve(white, transposed=False)
        z[rows, m] = white @ sigma[np.ix_(o, m)]
    return recomputed


def accumulate(
    prepared: Prepared, block: Block, visit: Visit, resp: np.ndarray, total: Statistics
) -> None:
    """Add sums of rows, then walk the tree with C and add it once for each pattern."""
    total.recomputed[...] += visit.held.recomputed
    for k, z in enumerate(visit.held.rows):
        r = resp[:, k]
        total.resp[k] += r.sum()
        total.first[k] += r @ z
        add_products(z * np.sqrt(r)[:, None], total.second[k])
        weight = np.add.reduceat(r, block.start[:-1])
        for route in block.routes:
            for pattern, variables, covariance, anew in walk_covariances(
                route, prepared.factored.prec[k]
            ):
                total.recomputed[...] += anew
                if pattern >= 0:
                    total.second[k][np.ix_(variables, variables)] += weight[pattern] * covariance


def walk_covariances(
    route: Route, prec: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
    """Yield (pattern, missing variables, C, 1 if computed afresh for lack of digits) on the way."""
    tree, walk = route.tree, route.walk
    slots: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0, int), np.empty((0, 0)))] * (
        walk.n_slots
    )
    for node in walk.order:
        parent = tree.parent[node]
        missing = np.flatnonzero(~tree.members[node])
        moved = None
        if parent >= 0:
            entering = np.flatnonzero(~tree.members[node] & tree.members[parent])
            leaving = np.flatnonzero(tree.members[node] & ~tree.members[parent])
            variables, covariance = slots[walk.slot[parent]]
            moved = _move_covariance(variables, covariance, prec, entering, leaving)
        if moved is None:
            variables, covariance = missing, _invert(prec[np.ix_(missing, missing)])
        else:
            variables, covariance = moved
        slots[walk.slot[node]] = (variables, covariance)
        anew = int(parent >= 0 and moved is None)
        yield int(route.pattern[node]), variables, covariance, anew


def _move_covariance(
    variables: np.ndarray,
    covariance: np.ndarray,
    prec: np.ndarray,
    entering: np.ndarray,
    leaving: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Move C = (K_mm)^-1 by the inverse variance lemma; None if it lost its digits."""
    if leaving.size:
        gone = np.isin(variables, leaving)
        y, x = np.flatnonzero(gone), np.flatnonzero(~gone)
        corner, cross = covariance[np.ix_(y, y)], covariance[np.ix_(y, x)]
        solved = _solve_positive(corner, cross)
        if solved is None:
            return None
        covariance = covariance[np.ix_(x, x)] - cross.T @ solved
        variables = variables[x]
    if entering.size:
        cross = prec[np.ix_(entering, variables)]  # Lambda_YX
        b = cross @ covariance
        own = prec[np.ix_(entering, entering)]
        conditional = own - b @ cross.T  # Lambda_Y|X
        if (np.diagonal(conditional) <= LOSS * np.diagonal(own)).any():
            return None
        inverse = _solve_positive(conditional, np.eye(entering.size))
        if inverse is None:
            return None
        lower = inverse @ b
        covariance = np.block([[covariance + b.T @ lower, -lower.T], [-lower, inverse]])
        variables = np.concatenate([variables, entering])
    if not _holds(prec[np.ix_(variables, variables)], covariance):
        return None
    return variables, covariance


def _holds(matrix: np.ndarray, inverse: np.ndarray) -> bool:
    """Probe matrix @ inverse = 1 with one vector; O(n_m^2)."""
    probe = np.where(np.arange(len(matrix)) % 2 == 0, 1.0, -1.0)
    residual = matrix @ (inverse @ probe) - probe
    return bool(np.abs(residual).max(initial=0.0) <= MAX_RESIDUAL)


def _solve_positive(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Return matrix^-1 right for a positive definite matrix, or None if it is not."""
    factor_, info = lapack.dpotrf(matrix.T, lower=0)
    if info:
        return None
    solution: np.ndarray = lapack.dpotrs(factor_, right, lower=0)[0]
    return solution


def _invert(matrix: np.ndarray) -> np.ndarray:
    if not matrix.size:
        return matrix
    chol, _ = lapack.dpotrf(matrix.T, lower=0)
    return mirror(lapack.dpotri(chol, lower=0)[0].T)


def precisions(prepared: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """Return precisions (K, d, d) and log|S| (K,)."""
    return prepared.factored.prec, prepared.factored.log_det


def complete(prepared: Prepared, block: Block, *, spread: bool = True) -> Completed:
    """Return the rows filled by each component, with conditional variances if asked for."""
    seen = visit(prepared, block)
    n_components, d = prepared.means.shape
    variance = np.zeros((n_components, len(block.observed), d))
    for k in range(n_components if spread else 0):
        for route in block.routes:
            for pattern, variables, covariance, _ in walk_covariances(
                route, prepared.factored.prec[k]
            ):
                if pattern >= 0:
                    variance[k, pattern, variables] = np.diagonal(covariance)
    return Completed(seen.log_density, np.stack(seen.held.rows), variance)


def notes(prepared: Prepared, statistics: Statistics) -> tuple[str, ...]:
    """Record how often a matrix had to be computed afresh because it had lost its digits."""
    n = int(statistics.recomputed)
    return (f"{n} matrices lost their digits and were computed afresh",) if n else ()
