"""Loadings to start from: the main axes of what is left of rows once means are taken off.

The matrix whose axes are sought is that of available pairs, never formed. With a share s_j of the
rows showing column j, z_i z_j / (s_i s_j) has the mean of the covariance where gaps are not
related, but for the diagonal, which is put right by itself. Its first axes are found by repeated
products with all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from gapmix.plan.rows import Rows, expand
from gapmix.units import Scaling

N_PRODUCTS = 8  # with the matrix; EM goes on from there
N_SPARE = 6  # directions beside those wanted
LEAST_STRENGTH = 0.01  # of a factor, in units of the noise


def find_loadings(
    rows: Rows,
    scaling: Scaling,
    resp: np.ndarray,
    means: np.ndarray,
    n_factors: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return loadings (d, q) for columns of variance 1, of rows about means (K, d).

    `resp` (n, K) tells whose mean is taken off each row.
    """
    d = rows.x.shape[1]
    square, count = np.zeros(d), np.zeros(d)
    for z, seen, weight in _residuals(rows, scaling, resp, means):
        square += weight @ (z.multiply(z) if issparse(z) else z**2)
        count += weight @ seen
    total = float(rows.weight.sum())
    share = np.maximum(count / total, 1.0 / total)
    variance = np.divide(square, count, out=np.ones(d), where=count > 0)
    surplus = square / (total * share**2) - variance  # of the diagonal

    def multiply(basis: np.ndarray) -> np.ndarray:
        inside = basis / share[:, None]
        product = np.zeros_like(basis)
        for z, _, weight in _residuals(rows, scaling, resp, means):
            product += z.T @ ((z @ inside) * weight[:, None])
        return product / (total * share[:, None]) - surplus[:, None] * basis

    width = min(d, n_factors + N_SPARE)
    basis = np.linalg.qr(rng.standard_normal((d, width)))[0]
    for _ in range(N_PRODUCTS - 1):
        basis = np.linalg.qr(multiply(basis))[0]
    small = basis.T @ multiply(basis)
    values, turns = np.linalg.eigh(0.5 * (small + small.T))
    values, axes = values[::-1][:n_factors], (basis @ turns[:, ::-1])[:, :n_factors]
    q = len(values)
    # Of noise in n rows, so much is left in the axes beside the longest q.
    left = max(1.0 - q / total, 1.0 / total) * max(1, d - q)
    noise = max(variance.sum() - values.sum(), 0.01 * variance.sum()) / left
    strength = _find_strengths(values / noise, total, d)
    # An axis that noise explains still needs loadings: at none at all EM would stay.
    size = np.sqrt(noise * np.maximum(strength, LEAST_STRENGTH))
    loadings = np.zeros((d, n_factors))
    loadings[:, :q] = axes * size
    return loadings


def _find_strengths(variance: np.ndarray, n_rows: float, d: int) -> np.ndarray:
    """Return l' psi^-1 l of a factor along each axis (q,), 0 where noise would do.

    With v the variance along the axis in units of the noise, it is the highest point over t of what
    rows gain by the factor less what automatic shrinkage takes (see `structures.factor`),
    n / 2 [v t / (1 + t) - log(1 + t)] - d / 2 log(1 + t s / d). EM moves lengths slowly.
    """
    least = d / (d + 2.0 * np.sqrt(n_rows * d))  # d / s
    square, linear = n_rows + d, 2.0 * d - n_rows * (variance - 1.0 - least)
    inside = linear**2 - 4.0 * square * (d - n_rows * least * (variance - 1.0))
    root = (np.sqrt(np.maximum(inside, 0.0)) - linear) / (2.0 * square)
    return np.where(inside > 0, np.maximum(root, 0.0), 0.0)


def _residuals(
    rows: Rows, scaling: Scaling, resp: np.ndarray, means: np.ndarray
) -> Iterator[tuple[Any, Any, np.ndarray]]:
    """Yield blocks of rows about their means, what they show, and their weights."""
    first, spread = 0, np.sqrt(scaling.variance)
    for block in rows.blocks:
        if issparse(block.x):  # of one component, whose mean is that of the columns
            x: Any = block.x
            value = (x.data - scaling.mean[x.indices]) / spread[x.indices]
            yield (
                csr_array((value, x.indices, x.indptr), shape=x.shape),
                block.observed,
                block.weight,
            )
            continue
        seen = expand(block.observed, block).astype(float)
        share = resp[first : first + len(seen)]
        z = ((block.x - scaling.mean) / spread - share @ means) * seen
        first += len(seen)
        yield z, seen, block.weight
