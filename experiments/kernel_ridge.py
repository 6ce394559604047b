"""Kernel ridge regression: one factorisation per kernel serves every weight decay.

With the Gram matrix G = V diag(e) V', the coefficients for decay a are V diag(1 / (e + a)) V' y.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh


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
        return (1.0 + kernel.scale * dots) ** kernel.degree
    if kernel.name == "gaussian":
        squares = (x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2.0 * dots
        return np.exp(-np.maximum(squares, 0.0) / (2.0 * kernel.scale**2))
    raise ValueError(f"There is no kernel {kernel.name!r}: use linear, gaussian or polynomial.")


def solve(kernel: Kernel, x: np.ndarray, y: np.ndarray, decays: np.ndarray) -> np.ndarray:
    """Return the coefficients of the rows for each decay, (n, number of decays)."""
    values, vectors = eigh(gram(kernel, x, x), overwrite_a=True, check_finite=False, driver="evd")
    values = np.maximum(values, 0.0)  # a Gram matrix has no other; the rest is rounding
    return vectors @ ((vectors.T @ y)[:, None] / (values[:, None] + decays))
