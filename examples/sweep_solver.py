"""A solver of one's own: the sweep operator. See docs/extending.md."""

import numpy as np

from gapmix.solvers import contract, naive

SUMS_DIAGONAL = naive.SUMS_DIAGONAL
prepare, accumulate, notes = naive.prepare, naive.accumulate, naive.notes
moments, precisions = naive.moments, naive.precisions


def sweep(sigma, variables):
    """Return sigma swept on the variables, and the log determinant of their block."""
    swept, log_det = sigma.copy(), 0.0
    for v in variables:
        pivot, row = swept[v, v], swept[v].copy()
        swept -= np.outer(row, row) / pivot
        swept[v] = swept[:, v] = row / pivot
        swept[v, v] = -1.0 / pivot
        log_det += np.log(pivot)
    return swept, log_det


def solve_pattern(z, observed, sigma):
    """Return density and conditional moments of rows z = x - mean (r, d) that share a pattern."""
    o, m = np.flatnonzero(observed), np.flatnonzero(~observed)
    swept, log_det = sweep(sigma, o)
    distance = -np.einsum("ri,ij,rj->r", z[:, o], swept[np.ix_(o, o)], z[:, o])
    log_density = -0.5 * (o.size * contract.LOG_2PI + log_det + distance)
    return naive.Solved(log_density, m, z[:, o] @ swept[np.ix_(o, m)], swept[np.ix_(m, m)])


def visit(parameters, block):
    """Return log densities, and everything solved on the way."""
    return naive.visit(parameters, block, solve=solve_pattern)


def complete(parameters, block, *, spread=True):
    """Return the rows filled by each component, with conditional variances: they cost nothing."""
    return naive.completed(parameters, block, visit(parameters, block))
