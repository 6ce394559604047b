"""Moments of transformed columns: what Gaussians of y are for x, by quadrature.

The numbers of transforms are their places in `shapes.NAMES`.
`kernels.twins` has the same function in plain NumPy.
"""

import math

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_inline, compile_kernel
from gapmix.kernels.exponentials import take_exponentials
from gapmix.kernels.records import INT, MATRIX, REAL, REALS
from gapmix.kernels.twins import EPSILON
from gapmix.shapes import FARTHEST, LOG, LOGIT, NAMES

LOG_NUMBER, LOGIT_NUMBER = NAMES.index(LOG), NAMES.index(LOGIT)
LOG_FARTHEST = math.log(FARTHEST)


@compile_inline
def _to_powers(number, power, y, u):  # type: ignore[no-untyped-def]
    """Set u (m,) to the exponents whose exponentials the x of y (m,) are made of."""
    for i in range(y.size):
        far = abs(y[i])
        if number == LOG_NUMBER:
            u[i] = min(max(y[i], -LOG_FARTHEST), LOG_FARTHEST)
        elif number == LOGIT_NUMBER:
            u[i] = -far
        else:
            bend = 2.0 - power if y[i] < 0.0 else power
            if bend > 0.0:
                far = math.log1p(bend * min(far, 1e300)) / bend
            u[i] = min(far, LOG_FARTHEST)


@compile_inline
def _from_powers(number, y, u):  # type: ignore[no-untyped-def]
    """Turn exponentials (m,) into x, in units of the transform, in place."""
    for i in range(y.size):
        if number == LOGIT_NUMBER:
            u[i] = (1.0 if y[i] >= 0.0 else u[i]) / (1.0 + u[i])
        elif number != LOG_NUMBER:
            u[i] = math.copysign(u[i] - 1.0, y[i])


@compile_kernel(
    INT,
    REAL,
    REALS,
    REALS,
    MATRIX,
    MATRIX,
    MATRIX,
    REALS,
    REALS,
    REALS,
    twin=twins.add_moments,
)
def add_moments(number, power, nodes, shares, weight, mean, std, near, first, second):  # type: ignore[no-untyped-def]
    """Add mean and mean square of u - near (cells,) to first and second.

    u is x in units of the transform, and y a mixture of Gaussians of this weight, mean and
    deviation, (K, cells) each. Most cells owe nothing to most components, which are left out.
    """
    n_components, n = weight.shape
    y, u, room = np.empty(nodes.size), np.empty(nodes.size), np.empty(nodes.size)
    for k in range(n_components):
        for c in range(n):
            if weight[k, c] > EPSILON:
                for i in range(nodes.size):
                    y[i] = mean[k, c] + nodes[i] * std[k, c]
                _to_powers(number, power, y, u)
                take_exponentials(u, room)
                if number != LOG_NUMBER:
                    _from_powers(number, y, u)
                once, twice = 0.0, 0.0
                for i in range(nodes.size):
                    away = u[i] - near[c]
                    once += shares[i] * away
                    twice += shares[i] * away * away
                first[c] += weight[k, c] * once
                second[c] += weight[k, c] * twice
