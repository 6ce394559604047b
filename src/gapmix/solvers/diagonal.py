"""Diagonal covariances: variables are independent within a component, so gaps simply drop out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.parameters import SMALLEST_VARIANCE, NotPositiveDefiniteError, Parameters
from gapmix.plan.rows import Block, expand
from gapmix.solvers import naive
from gapmix.solvers.contract import LOG_2PI, Completed, Visit
from gapmix.statistics import Moments, Statistics

SUMS_DIAGONAL = True
notes = naive.notes


class Prepared(NamedTuple):
    """Means and variances, and what the densities need of them."""

    means: np.ndarray  # (K, d)
    variances: np.ndarray  # (K, d)
    root: np.ndarray  # (K, d) 1 / standard deviation
    log_variances: np.ndarray  # (K, d)


def prepare(parameters: Parameters) -> Prepared:
    """Return what the densities need; refuses variances that are not positive."""
    variances = parameters.covariances
    bad = ~(np.isfinite(variances) & (variances > SMALLEST_VARIANCE))
    if bad.any():
        component, pivot = np.argwhere(bad)[0]
        raise NotPositiveDefiniteError(int(component), int(pivot))
    return Prepared(parameters.means, variances, 1.0 / np.sqrt(variances), np.log(variances))


def visit(prepared: Prepared, block: Block) -> Visit:
    """Return the sum of the log densities of the observed variables."""
    observed = expand(block.observed, block)
    log_det = expand(block.observed @ prepared.log_variances.T, block)  # (n_b, K)
    mahalanobis = np.stack(
        [
            (np.where(observed, (block.x - mean) * root, 0.0) ** 2).sum(axis=1)
            for mean, root in zip(prepared.means, prepared.root, strict=True)
        ],
        axis=1,
    )
    n_observed = observed.sum(axis=1)[:, None]
    return Visit(-0.5 * (n_observed * LOG_2PI + log_det + mahalanobis), observed)


def accumulate(
    prepared: Prepared, block: Block, visit: Visit, resp: np.ndarray, total: Statistics
) -> None:
    """Add the diagonal of sum resp E[z z']: a gap has E[z] = 0 and E[z^2] = variance."""
    observed = visit.held
    total.resp[:] += resp.sum(axis=0)
    gaps = resp.T @ (~observed)  # (K, d) responsibility in rows where the variable is missing
    for k, mean in enumerate(prepared.means):
        z = np.where(observed, block.x - mean, 0.0)
        total.first[k] += resp[:, k] @ z
        total.second[k] += resp[:, k] @ z**2 + gaps[k] * prepared.variances[k]


def moments(prepared: Prepared, statistics: Statistics) -> Moments:
    """Return the moments as they were summed."""
    return Moments(statistics.resp, statistics.first, statistics.second)


def precisions(prepared: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """Return 1 / variances (K, d) and their log determinant (K,)."""
    return 1.0 / prepared.variances, prepared.log_variances.sum(axis=1)


def complete(prepared: Prepared, block: Block, *, spread: bool = True) -> Completed:
    """Return the rows with gaps at the component's mean and variance."""
    seen = visit(prepared, block)
    deviation = np.where(seen.held, block.x - prepared.means[:, None, :], 0.0)
    variance = np.where(block.observed, 0.0, prepared.variances[:, None, :])
    return Completed(seen.log_density, deviation, variance)
