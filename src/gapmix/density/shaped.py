"""Mean and variance of columns that were transformed, by Gauss-Hermite quadrature."""

from __future__ import annotations

import numpy as np

from gapmix import kernels
from gapmix.shapes import NAMES, Shape, inverse

NODES, SHARES = np.polynomial.hermite_e.hermegauss(20)
SHARES = SHARES / SHARES.sum()


def mean_and_variance(
    shape: Shape, weight: np.ndarray, mean: np.ndarray, std: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of x, (cells,), where y is a mixture of Gaussians.

    All three are (K, cells). Sums are taken about the x of the mean of y, which is near.
    """
    unit = Shape(shape.name, power=shape.power)
    near = inverse(unit, (weight * mean).sum(axis=0))
    first, second = np.zeros_like(near), np.zeros_like(near)
    parts = (np.ascontiguousarray(each) for each in (weight, mean, std))
    number = NAMES.index(shape.name)
    kernels.load("shaped").add_moments(
        number, shape.power, NODES, SHARES, *parts, near, first, second
    )
    variance = np.maximum(second - first**2, 0.0)
    return shape.origin + shape.scale * (near + first), shape.scale**2 * variance
