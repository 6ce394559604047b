"""What to do with a component that lost its rows or its volume: split the heaviest one."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.solvers import Solver

EMPTY_SHARE = 1e-6  # a component with less than this share of the rows is empty


class CollapseError(ValueError):
    """A component collapsed and could not be repaired; the message says which."""

    def __init__(self, message: str, component: int, pivot: int | None) -> None:
        super().__init__(message)
        self.component = component
        self.pivot = pivot


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


def prepare(solver: Solver, parameters: Parameters) -> Any:
    """Prepare a pass; a covariance without a factor is a collapse."""
    try:
        return solver.prepare(parameters)
    except NotPositiveDefiniteError as error:
        raise CollapseError(str(error), error.component, error.pivot) from error


def revive(
    parameters: Parameters, resp: np.ndarray, *, allowed: bool
) -> tuple[Parameters, tuple[str, ...]]:
    """Return parameters without empty components, as far as allowed, and what was done."""
    events: list[str] = []
    for dead in find_empty(resp) if allowed else ():
        split = split_heaviest(parameters, int(dead), resp)
        if split is not None:
            parameters, donor = split
            events.append(
                f"repair: component {dead} was empty ({resp[dead]:.1e} of "
                f"{resp.sum():g} rows); restarted as half of component {donor}"
            )
    return parameters, tuple(events)


def make_factorable(
    solver: Solver, parameters: Parameters, resp: np.ndarray, *, allowed: bool
) -> tuple[Parameters, Any, tuple[str, ...]]:
    """Return parameters that can be factored, what was prepared of them, and what was repaired."""
    events: list[str] = []
    for _ in range(len(resp)):
        try:
            return parameters, solver.prepare(parameters), tuple(events)
        except NotPositiveDefiniteError as error:
            split = None
            if allowed and parameters.covariances.shape[0] > 1:
                split = split_heaviest(parameters, error.component, resp)
            if split is None:
                raise CollapseError(str(error), error.component, error.pivot) from error
            parameters, donor = split
            events.append(
                f"repair: component {error.component} collapsed (on {resp[error.component]:.3g} of "
                f"{resp.sum():g} rows); restarted as half of component {donor}"
            )
    raise CollapseError("Every component collapsed.", 0, None)
