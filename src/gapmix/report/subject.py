"""What a report is about: a table, a fitted estimator, and where both come from."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gapmix.estimators.converted import as_imputer as from_mixture
from gapmix.estimators.converted import on_matrices
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.mixture import GaussianMixture
from gapmix.kinds import DECLARED

MAX_TABLE = 30  # rows of a table on the page


class LeftColumn(NamedTuple):
    """A column of the table whose gaps are not filled."""

    name: str
    n_gaps: int
    reason: str
    used: bool = False  # whether it is a column of the matrix all the same


class Subject(NamedTuple):
    """What a report is about."""

    imputer: GaussianMixtureImputer  # fitted
    x: np.ndarray  # (n, d), NaN where missing
    names: list[str]  # (d,)
    title: str  # of the table
    seed: int  # of what is hidden and drawn for the report
    notes: tuple[str, ...] = ()  # what the reader should know about the table
    provenance: tuple[tuple[str, str], ...] = ()
    progress: Callable[[str], None] = lambda text: None  # hears what is done next
    levels: Mapping[int, Sequence[str]] = MappingProxyType({})  # of categories, whose codes x has
    left: tuple[LeftColumn, ...] = ()  # columns of the table whose gaps are not filled
    n_columns: int = 0  # of the table, with those that are not used


def as_imputer(estimator: Any) -> GaussianMixtureImputer:
    """Return a fitted estimator as an imputer of matrices; a mixture is one of a given size.

    The estimator is left as it is: what is returned knows columns by their numbers only.
    """
    check_is_fitted(estimator)
    if isinstance(estimator, GaussianMixtureImputer):
        return on_matrices(estimator)
    if not isinstance(estimator, GaussianMixture):
        raise TypeError(
            "A report needs a fitted GaussianMixtureImputer or GaussianMixture, which fill gaps; "
            f"this is a {type(estimator).__name__}."
        )
    return on_matrices(from_mixture(estimator))


def contender(
    imputer: GaussianMixtureImputer, columns: np.ndarray, categories: list[int]
) -> GaussianMixtureImputer:
    """Return an imputer with the same settings, not fitted, for some of the columns.

    It tries no larger sizes than those that were kept, as a part of the table needs no more, but
    two at least: comparing them also sets intervals right. Covariances are as for the whole table.
    `categories` are the places of categories among the columns.
    """
    limits = imputer.bounds or {}
    bounds = {place: limits[j] for place, j in enumerate(columns.tolist()) if j in limits}
    kinds = {place: imputer.column_kinds_[j] for place, j in enumerate(columns.tolist())}
    declared = {place: kind for place, kind in kinds.items() if kind in DECLARED}
    changed: dict[str, Any] = {"bounds": bounds or None, "use_target": False}
    changed["column_kinds"] = "auto" if imputer.column_kinds == "auto" else declared
    if isinstance(imputer.shapes, dict):
        shapes = enumerate(imputer.column_shapes_[j].name for j in columns.tolist())
        changed["shapes"] = dict(shapes)
    changed |= {"add_indicator": False, "verbose": 0, "categorical_features": categories or None}
    kept = [each.n_components for each in imputer.selection_ if each.share > 0]
    if kept:
        changed["max_components"] = max(2, *kept)
    if imputer.covariance_type == "auto":
        changed["covariance_type"] = imputer.mixture_.covariance_type
    return GaussianMixtureImputer(**{**imputer.get_params(deep=False), **changed})
