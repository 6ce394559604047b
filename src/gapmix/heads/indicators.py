"""One Gaussian of all columns, levels of categories being columns of 0 and 1.

Within a component of the mixture, categories and numbers say nothing of each other. Where this
takes many components and a few lines would do, one Gaussian tells more, exactly with any gaps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix import density
from gapmix.density import Density
from gapmix.density.conditional import Filled
from gapmix.heads.features import DIGITS, View, count_features, is_category, make_features
from gapmix.heads.trees import LARGEST
from gapmix.parameters import Parameters
from gapmix.units import Scaling

LEAST_ROOT = 1e-5  # of a pivot, beside the variance of its column


class Indicators(NamedTuple):
    """A Gaussian of columns that are numbers in standard deviations, or 0 and 1 for levels."""

    mean: np.ndarray  # (q,)
    covariance: np.ndarray  # (q, q)


def can_be_told(view: View) -> bool:
    """Tell whether a table has numbers or categories beside a category."""
    return len(view.levels) > 1 and any(is_category(view, j) for j in range(len(view.levels)))


def count_indicators(view: View, column: int) -> int:
    """Return how many columns stand for one: a category's levels, or one of two."""
    n_levels = len(view.levels[column])
    return n_levels if n_levels > 2 else 1


def find_own(view: View, column: int) -> slice:
    """Return the columns that stand for a column."""
    place = int(np.flatnonzero(view.order == column)[0])
    first = sum(count_indicators(view, j) for j in view.order[:place].tolist())
    return slice(first, first + count_indicators(view, column))


def spread_out(view: View, x: np.ndarray) -> np.ndarray:
    """Return the columns that stand for those of a table (n, D), (n, q), NaN where missing.

    A level that is too rare to be shown is as if it were missing.
    """
    parts = []
    for j in view.order.tolist():
        own, levels = x[:, [j]], view.levels[j]
        if is_category(view, j):
            shown = np.isin(own, levels)
            parts.append(np.where(shown, own == levels[-count_indicators(view, j) :], np.nan))
        else:
            parts.append((own - view.center[j]) / view.scale[j])
    return np.hstack(parts)


def describe(
    view: View,
    indicators: Indicators | None,
    column: int,
    filled: Filled,
    missing: np.ndarray,
) -> np.ndarray:
    """Return the features (n, p) of rows for the head of a column that they do not show.

    After those of `make_features` comes what the Gaussian of indicators tells of the column.
    """
    features = make_features(view, column, filled, missing)
    if indicators is None:
        return features
    x = spread_out(view, np.where(missing, np.nan, filled.mean))
    mean, covariance = indicators
    units = Scaling(*(np.zeros(len(mean)), np.ones(len(mean))) * 2, np.ones(len(mean), dtype=bool))
    alone = Parameters(np.ones(1), mean[None], covariance[None], "full")
    told = density.fill(Density(alone, units, "dual", 1), x).mean[:, find_own(view, column)]
    return np.hstack([features, np.round(told, DIGITS)])


def count_described(view: View, indicators: Indicators | None, column: int) -> int:
    """Return how many features `describe` gives."""
    more = 0 if indicators is None else count_indicators(view, column)
    return count_features(view, column) + more


def find_fault(view: View, indicators: Indicators) -> str:
    """Return what is wrong with indicators that came from a file, nothing if all is well."""
    mean, covariance = indicators
    q = sum(count_indicators(view, j) for j in range(len(view.levels)))
    if not can_be_told(view) or mean.shape != (q,) or covariance.shape != (q, q):
        return f"they must be {q}, those of levels among them"
    if not all((np.abs(each) < LARGEST).all() for each in (mean, covariance)):
        return f"a mean or a covariance is beyond {LARGEST:g} standard deviations"
    variance = np.diagonal(covariance)
    if not np.array_equal(covariance, covariance.T) or not (variance > 1 / LARGEST).all():
        return "the covariance is not symmetric, or a variance is not above 0"
    root = np.sqrt(variance)
    try:
        pivots = np.diagonal(np.linalg.cholesky(covariance / np.outer(root, root)))
    except np.linalg.LinAlgError:
        pivots = np.zeros(1)
    return "" if (pivots > LEAST_ROOT).all() else "the covariance is not positive definite"
