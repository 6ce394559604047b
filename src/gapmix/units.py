"""The units EM works in: every column centred and scaled by powers of two.

A power of two changes the exponent of a number and not one of its digits, so going to internal
units and back rounds nothing: a covariance with condition number 1e12 survives the trip.
"""

from typing import NamedTuple

import numpy as np

CHUNK_CELLS = 2**17  # cells looked at in one go


class Scaling(NamedTuple):
    """Internal units: x_internal = (x - center) / scale, with scale a power of two."""

    center: np.ndarray  # (d,) user's units, a whole multiple of scale
    scale: np.ndarray  # (d,) power of two next to the observed standard deviation
    mean: np.ndarray  # (d,) observed mean, internal units
    variance: np.ndarray  # (d,) observed variance, internal units; 1 where never or always equal
    known: np.ndarray  # (d,) bool, the column has at least one observed value


class Summary(NamedTuple):
    """What scaling needs to know of the columns of some rows; additive by `merge`."""

    exponent: np.ndarray  # (d,) |x| <= 2 ** exponent
    total: np.ndarray  # (d,) weight of the observed values
    mean: np.ndarray  # (d,) of x / 2 ** exponent
    variance: np.ndarray  # (d,) of the same


def measure(x: np.ndarray, weight: np.ndarray, *, common: bool = False) -> Scaling:
    """Return the scaling of the columns of `x` (NaN where missing) under row weights.

    Means and variances are taken in two passes on exactly rescaled values, so neither a large
    shift nor a large magnitude costs digits. With `common`, all columns share one scale (their
    mean variance), as a spherical covariance needs.
    """
    return from_summary(summarize(x, weight), common=common)


def summarize(x: np.ndarray, weight: np.ndarray) -> Summary:
    """Return the summary of the columns of `x` (NaN where missing) under row weights."""
    n, d = x.shape
    step = max(1, CHUNK_CELLS // max(n, 1))
    parts = [_moments(x[:, low : low + step], weight) for low in range(0, d, step)]
    return Summary(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def merge(left: Summary, right: Summary) -> Summary:
    """Return the summary of both sets of rows; exact but for rounding, whatever their means."""
    exponent = np.maximum(left.exponent, right.exponent)
    sides = [
        part._replace(
            mean=np.ldexp(part.mean, part.exponent - exponent),
            variance=np.ldexp(part.variance, 2 * (part.exponent - exponent)),
        )
        for part in (left, right)
    ]
    total = left.total + right.total
    share = np.divide(right.total, total, out=np.zeros_like(total), where=total > 0)
    apart = sides[1].mean - sides[0].mean
    within = (1.0 - share) * sides[0].variance + share * sides[1].variance
    return Summary(
        exponent,
        total,
        sides[0].mean + share * apart,
        within + share * (1.0 - share) * apart**2,
    )


def from_summary(summary: Summary, *, common: bool = False) -> Scaling:
    """Return the scaling of columns with this summary."""
    exponent, total, mean, variance = summary
    known = total > 0
    varies = known & (variance > (4 * np.finfo(float).eps * np.abs(mean)) ** 2)
    if common:
        return _common_scaling(exponent, mean, variance, known, varies)
    spread = np.sqrt(np.where(varies, variance, 1.0))
    # A constant column has no spread: its own magnitude is the only unit there is.
    power = np.where(varies, exponent + np.round(np.log2(spread)).astype(int), exponent)
    return _finish(exponent, power, mean, np.where(varies, variance, np.nan), known)


def _moments(
    x: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return exponent e, weight of what is known, and mean and variance of x / 2^e, by column."""
    observed = ~np.isnan(x)
    total = weight @ observed
    safe_total = np.where(total > 0, total, 1.0)
    largest = np.max(np.abs(x), axis=0, initial=0.0, where=observed)
    exponent = np.where(largest > 0, np.frexp(largest)[1], 0)  # |x| <= 2 ** exponent
    unit = np.ldexp(np.where(observed, x, 0.0), -exponent)
    mean = weight @ unit / safe_total
    mean += weight @ np.where(observed, unit - mean, 0.0) / safe_total  # what rounding left
    variance = weight @ np.where(observed, unit - mean, 0.0) ** 2 / safe_total
    return exponent, total, mean, variance


def _common_scaling(
    exponent: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    known: np.ndarray,
    varies: np.ndarray,
) -> Scaling:
    """Return a scaling with one power of two for all columns: their root mean variance."""
    d = exponent.size
    if not varies.any():
        power = np.full(d, int(exponent[known].max(initial=0)))
        return _finish(exponent, power, mean, np.full(d, np.nan), known)
    top = int(exponent[varies].max())
    pooled = np.mean(np.ldexp(variance[varies], 2 * (exponent[varies] - top)))
    power = np.full(d, top + int(np.round(np.log2(pooled) / 2)))
    in_units = np.ldexp(pooled, 2 * (top - power))
    scaling = _finish(exponent, power, mean, np.where(varies, variance, np.nan), known)
    return scaling._replace(variance=in_units)


def _finish(
    exponent: np.ndarray,
    power: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    known: np.ndarray,
) -> Scaling:
    scale = np.ldexp(np.ones(len(power)), power)
    mean_in_units = np.where(known, np.ldexp(mean, exponent - power), 0.0)
    whole = np.round(mean_in_units)
    variance_in_units = np.ldexp(variance, 2 * (exponent - power))
    return Scaling(
        whole * scale,
        scale,
        mean_in_units - whole,
        np.where(np.isnan(variance_in_units), 1.0, variance_in_units),
        known,
    )


def no_units() -> Scaling:
    """Return the scaling of one column that no row shows."""
    return measure(np.full((1, 1), np.nan), np.ones(1))


def select_columns(scaling: Scaling, columns: np.ndarray) -> Scaling:
    """Return the scaling of some of the columns."""
    return Scaling(*(array[columns] for array in scaling))


def to_internal(x: np.ndarray, scaling: Scaling) -> np.ndarray:
    """Return rows in internal units (NaN stays NaN)."""
    return (x - scaling.center) / scaling.scale


def to_user(x: np.ndarray, scaling: Scaling) -> np.ndarray:
    """Return rows in the user's units."""
    return x * scaling.scale + scaling.center
