"""Kernel ridge regression: the coefficients for decay a are (G + a I)^-1 y, G the Gram matrix.

By a Cholesky factor where the decay is above the rounding errors of G, else by its eigenvalues, of
which those that rounding made negative are put at zero.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh


class Kernel(NamedTuple):
    """A kernel: x.z, exp(-|x - z|^2 / (2 scale^2)), or (1 + scale x.z)^degree."""

    name: str  # linear, gaussian or polynomial
    scale: float = 1.0
    degree: int = 1


def gram(kernel: Kernel, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the kernel of every row of x with every row of z."""
    dots = x @ z.T
    if kernel.name == "linear":
        return dots
    if kernel.name == "polynomial":
        dots *= kernel.scale
        dots += 1.0
        return reduce(np.multiply, [dots] * kernel.degree)  # far faster than a power
    if kernel.name == "gaussian":
        squares = (x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2.0 * dots
        return np.exp(-np.maximum(squares, 0.0) / (2.0 * kernel.scale**2))
    raise ValueError(f"There is no kernel {kernel.name!r}: use linear, gaussian or polynomial.")


def solve(matrix: np.ndarray, y: np.ndarray, decay: float) -> np.ndarray:
    """Return the coefficients of the rows, given their Gram matrix."""
    noise = np.finfo(float).eps * np.trace(matrix) * len(matrix)
    ridged = matrix.copy()
    if decay > noise:
        np.fill_diagonal(ridged, ridged.diagonal() + decay)
        factor = cho_factor(ridged, overwrite_a=True, check_finite=False)
        return cho_solve(factor, y, check_finite=False)
    values, vectors = eigh(ridged, overwrite_a=True, check_finite=False, driver="evd")
    values = np.maximum(values, 0.0)  # a Gram matrix has no other; the rest is rounding
    return vectors @ ((vectors.T @ y) / (values + decay))
