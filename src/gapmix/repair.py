"""What to do with a component that lost its rows or its volume: split the heaviest one."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from gapmix.parameters import Parameters

EMPTY_SHARE = 1e-6  # a component with less than this share of the rows is empty


def find_empty(resp: np.ndarray) -> np.ndarray:
    """Return the components whose responsibility is a negligible share of all rows."""
    return np.flatnonzero(~(resp >= EMPTY_SHARE * resp.sum()))


def split_heaviest(
    parameters: Parameters, dead: int, resp: np.ndarray
) -> tuple[Parameters, int] | None:
    """Replace component `dead` by half of the heaviest other one; return that one too.

    The two halves sit half a standard deviation to either side of the donor's mean, along its
    longest axis, and keep its first two moments. Returns None if there is no donor.
    """
    others = resp.copy()
    others[dead] = -1.0
    donor = int(np.argmax(others))
    if others[donor] <= 0:
        return None
    weights, means = parameters.weights.copy(), parameters.means.copy()
    covariances = parameters.covariances
    shared = covariances.ndim == 3 and len(covariances) == 1
    offset = _half_axis(covariances[0 if shared else donor])
    means[dead] = means[donor] + offset
    means[donor] = means[donor] - offset
    if not np.allclose(weights, weights[0]) or weights[dead] < EMPTY_SHARE:
        weights[dead] = weights[donor] = 0.5 * (weights[dead] + weights[donor])
    if not shared:
        covariances = covariances.copy()
        taken = offset**2 if covariances.ndim == 2 else np.outer(offset, offset)
        covariances[donor] = covariances[donor] - taken
        covariances[dead] = covariances[donor]
    return Parameters(weights, means, covariances), donor


def _half_axis(covariance: np.ndarray) -> np.ndarray:
    """Return half a standard deviation along the longest axis of a covariance or of variances."""
    if covariance.ndim == 1:
        offset = np.zeros(len(covariance))
        longest = int(covariance.argmax())
        offset[longest] = 0.5 * np.sqrt(covariance[longest])
        return offset
    d = len(covariance)
    value, vector = eigh(covariance, subset_by_index=(d - 1, d - 1))
    axis: np.ndarray = 0.5 * np.sqrt(value[0]) * vector[:, 0]
    return axis
