"""A fitted mixture as a record: what a fit returns and an estimator stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapmix import units as scaling
from gapmix.density import Density
from gapmix.em.records import Fit, Iteration
from gapmix.parameters import Parameters
from gapmix.plan import Plan
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import parameters_to_user
from gapmix.units import Scaling


class Fitted(NamedTuple):
    """A mixture and how it came about; parameters and densities in the user's units."""

    parameters: Parameters
    units: Scaling
    plan: Plan
    history: tuple[Iteration, ...]
    n_iter: int
    converged: bool
    stop_reason: str
    target: np.ndarray | None  # the pooled covariance that shrinkage used
    center: np.ndarray | None  # the overall mean that mean_shrinkage used
    advice: str = ""  # what to say to the user, if it did not converge
    n_levels: np.ndarray | None = None  # (D,) levels of the table's columns, 0 for numbers
    rare: tuple[np.ndarray, ...] = ()  # (L_j,) True for rare levels of each category; () for none


def to_fitted(
    run: Fit,
    units: Scaling,
    plan: Plan,
    log_units: tuple[float, float] = (0.0, 0.0),
) -> Fitted:
    """Return the outcome of a run in the user's units.

    `log_units` are `matrix.log_unit` of the rows and of the validation rows, if there are any.
    """
    rescale = STRUCTURES[run.parameters.structure].rescale
    return Fitted(
        parameters_to_user(run.parameters, units),
        units,
        plan,
        _history_to_user(run.history, *log_units),
        len(run.history),
        run.converged,
        run.stop_reason,
        None if run.target is None else rescale(run.target[None], units.scale)[0],
        None if run.center is None else scaling.to_user(run.center, units),
    )


def density_of(fitted: Fitted, n_jobs: int | None) -> Density:
    """Return the density of a fitted mixture."""
    # A tree pays over many iterations; new rows are solved once, each pattern afresh.
    solver = "dual" if fitted.plan.forest else fitted.plan.solver
    return Density(fitted.parameters, fitted.units, solver, n_jobs, fitted.n_levels)


def advise(fitted: Fitted, tol: float) -> str:
    """Return what to say of a fit that did not converge; nothing of one that did."""
    if fitted.converged or not tol > 0:
        return ""
    values = [record.objective for record in fitted.history]
    gain = values[-1] - values[-2] if len(values) > 1 else np.inf
    remedy = "Raise max_iter or tol, or lower n_components."
    if "finite" in fitted.stop_reason:
        remedy = "Raise reg_covar, or lower n_components."
    n_repairs = sum("repair" in event for record in fitted.history for event in record.events)
    repairs = f" {n_repairs} components had to be repaired on the way." if n_repairs else ""
    gained = f"last gain {gain:.4g} per row, " if np.isfinite(gain) else ""
    return (
        f"The fit did not converge: {fitted.stop_reason} ({gained}tol={tol:g}).{repairs} {remedy}"
    )


def _history_to_user(
    history: Sequence[Iteration], unit: float, held_unit: float
) -> tuple[Iteration, ...]:
    return tuple(
        record._replace(
            log_likelihood=record.log_likelihood - unit,
            objective=record.objective - unit,
            validation=None if record.validation is None else record.validation - held_unit,
        )
        for record in history
    )
