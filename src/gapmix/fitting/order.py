"""What is asked for and what was found with the columns in another order.

Fits are made with columns in canonical order (`plan/canonical.py`), so that their places in the
user's table change nothing, not even rounding.
"""

from __future__ import annotations

import numpy as np

from gapmix import categories
from gapmix.categories import NO_CODING, Coding
from gapmix.fitting.fitted import Fitted
from gapmix.fitting.spec import Spec
from gapmix.fitting.starting import read_means, read_precisions
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import marginal_parameters
from gapmix.units import select_columns


def order_spec(spec: Spec, columns: np.ndarray) -> Spec:
    """Return what is asked for with given starting values in this order of columns."""
    if spec.means_init is not None:
        spec = spec._replace(means_init=read_means(spec, len(columns))[:, columns])
    if spec.precisions_init is not None:
        structure = STRUCTURES[spec.covariance_type]
        given = structure.from_public(read_precisions(spec, len(columns)), len(columns))
        ordered = structure.to_public(structure.marginal(given, columns))
        spec = spec._replace(precisions_init=ordered)
    return spec


def order_fitted(fitted: Fitted, columns: np.ndarray, coding: Coding = NO_CODING) -> Fitted:
    """Return a fit with its columns of numbers in this order, its categories under this coding."""
    patterns = fitted.plan.patterns
    patterns = patterns._replace(observed=patterns.observed[:, columns])
    return fitted._replace(
        parameters=marginal_parameters(fitted.parameters, columns)._replace(
            categories=categories.reorder(fitted.parameters.categories, coding)
        ),
        rare=categories.reorder(fitted.rare, coding) if fitted.rare else (),
        units=select_columns(fitted.units, columns),
        plan=fitted.plan._replace(patterns=patterns),
        target=order_target(fitted.target, fitted.parameters.structure, columns),
        center=order_array(fitted.center, columns),
    )


def order_array(array: np.ndarray | None, columns: np.ndarray) -> np.ndarray | None:
    """Return a vector over columns in this order of them."""
    return None if array is None else array[columns]


def order_target(
    target: np.ndarray | None, structure: str, columns: np.ndarray
) -> np.ndarray | None:
    """Return what shrinkage uses, a covariance of a structure, in this order of columns."""
    return None if target is None else STRUCTURES[structure].marginal(target[None], columns)[0]
