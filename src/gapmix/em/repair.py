"""What to do with a component that lost its rows or its volume: split the heaviest one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gapmix import categories
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.solvers import Solver
from gapmix.structures import STRUCTURES

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
    structure = STRUCTURES[parameters.structure]
    offset, covariances = structure.split(parameters.covariances, donor, dead)
    means[dead] = means[donor] + offset
    means[donor] = means[donor] - offset
    if not np.allclose(weights, weights[0]) or weights[dead] < EMPTY_SHARE:
        weights[dead] = weights[donor] = 0.5 * (weights[dead] + weights[donor])
    tables = categories.tilt(parameters.categories, donor, dead)
    return Parameters(weights, means, covariances, parameters.structure, tables), donor


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
            if allowed and not STRUCTURES[parameters.structure].SHARED:
                split = split_heaviest(parameters, error.component, resp)
            if split is None:
                raise CollapseError(str(error), error.component, error.pivot) from error
            parameters, donor = split
            events.append(
                f"repair: component {error.component} collapsed (on {resp[error.component]:.3g} of "
                f"{resp.sum():g} rows); restarted as half of component {donor}"
            )
    raise CollapseError("Every component collapsed.", 0, None)
