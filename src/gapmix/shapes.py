"""Shapes of columns: monotone transforms under which skewed or bounded values look Gaussian.

A mixture is fitted to y = g(x). The density of x is that of y times g'(x), quantiles and draws map
through g^-1, and the mean of x is an integral over y (`density.shaped`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

IDENTITY, LOG, LOGIT, YEO_JOHNSON = "identity", "log", "logit", "yeo-johnson"
NAMES = (IDENTITY, LOG, LOGIT, YEO_JOHNSON)
FARTHEST = 1e40  # in units of `scale`: values beyond it count as this
LARGEST_UNIT = 1e150  # of `scale`, and one over it: results stay within float64


class Shape(NamedTuple):
    """The transform of a column, y = g((x - origin) / scale).

    With u = (x - origin) / scale, g is u itself, log u, log(u / (1 - u)), or Yeo and Johnson's
    ((1 + u)^power - 1) / power, turned about 0 with 2 - power in place of power where u < 0.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix.shapes import Shape, forward, inverse
    >>> amounts = Shape("log", least=0.5)
    >>> forward(amounts, np.array([1.0, np.e])).tolist()
    [0.0, 1.0]
    >>> inverse(amounts, forward(amounts, np.array([0.0]))).tolist()
    [0.5]
    """

    name: str = IDENTITY
    origin: float = 0.0
    scale: float = 1.0
    power: float = 1.0  # of Yeo-Johnson, from 0 to 2, so that every y has an x
    least: float = -FARTHEST  # values of u below it, and above `most`, count as these
    most: float = FARTHEST


def forward(shape: Shape, x: np.ndarray) -> np.ndarray:
    """Return g(x); NaN stays NaN, all else is finite."""
    return x if shape.name == IDENTITY else _forward(shape, _place(shape, x))


def inverse(shape: Shape, y: np.ndarray) -> np.ndarray:
    """Return the x that g takes to y; finite for every y, as far out as it may be."""
    if shape.name == IDENTITY:
        return y
    if shape.name == LOG:
        u = np.exp(np.clip(y, -np.log(FARTHEST), np.log(FARTHEST)))
    elif shape.name == LOGIT:
        u = expit(y)
    else:
        power = np.where(y < 0, 2.0 - shape.power, shape.power)
        far = np.minimum(np.abs(y), 1e300)
        steady = np.maximum(power, np.finfo(float).tiny)
        exponent = np.where(power > 0, np.log1p(steady * far) / steady, far)
        u = np.copysign(np.expm1(np.minimum(exponent, np.log(FARTHEST))), y)
    return shape.origin + shape.scale * u


def log_derivative(shape: Shape, x: np.ndarray) -> np.ndarray:
    """Return log g'(x)."""
    if shape.name == IDENTITY:
        return np.zeros_like(x)
    u = _place(shape, x)
    if shape.name == LOG:
        slope = -np.log(u)
    elif shape.name == LOGIT:
        slope = -np.log(u) - np.log1p(-u)
    else:
        slope = (shape.power - 1.0) * np.copysign(np.log1p(np.abs(u)), u)
    return np.asarray(slope - np.log(shape.scale))


def _place(shape: Shape, x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.clip((x - shape.origin) / shape.scale, shape.least, shape.most)


def _forward(shape: Shape, u: np.ndarray) -> np.ndarray:
    if shape.name == LOG:
        return np.log(u)
    if shape.name == LOGIT:
        return np.asarray(np.log(u) - np.log1p(-u))
    power = np.where(u < 0, 2.0 - shape.power, shape.power)
    far = np.log1p(np.abs(u))
    steady = np.maximum(power, np.finfo(float).tiny)
    return np.copysign(np.where(power > 0, np.expm1(steady * far) / steady, far), u)


def can_be(shape: Shape) -> bool:
    """Tell whether constants are such that every value has a transform, and the other way round."""
    name, origin, scale, power, least, most = shape
    inside = {LOG: least > 0.0, LOGIT: least > 0.0 and most < 1.0}.get(name, True)
    near = abs(origin) <= LARGEST_UNIT and 1.0 / LARGEST_UNIT <= scale <= LARGEST_UNIT
    span = -FARTHEST <= least < most <= FARTHEST
    return name in NAMES and near and span and 0.0 <= power <= 2.0 and inside


def list_shaped(shapes: Sequence[Shape]) -> list[tuple[int, Shape]]:
    """Return the columns that are transformed, with how."""
    return [(j, shape) for j, shape in enumerate(shapes) if shape.name != IDENTITY]


def forward_table(shapes: Sequence[Shape], x: np.ndarray) -> np.ndarray:
    """Return rows (n, D) with columns transformed; the rows themselves if none is."""
    shaped = list_shaped(shapes)
    y = x.copy() if shaped else x
    for j, shape in shaped:
        y[:, j] = forward(shape, x[:, j])
    return y


def inverse_table(shapes: Sequence[Shape], y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Bring the gaps of rows x (n, D) back from transformed ones (..., n, D), in place.

    What x shows comes back as it was. Returns the rows.
    """
    for j, shape in list_shaped(shapes):
        known = ~np.isnan(x[:, j])
        y[..., j] = np.where(known, x[:, j], inverse(shape, y[..., j]))
    return y


def log_slopes(shapes: Sequence[Shape], x: np.ndarray) -> np.ndarray:
    """Return the sum of log g'(x) over what each row shows, (n,)."""
    total = np.zeros(len(x))
    for j, shape in list_shaped(shapes):
        total += np.nan_to_num(log_derivative(shape, x[:, j]))
    return total
