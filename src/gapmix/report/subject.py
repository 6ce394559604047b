"""What a report is about: a table, a fitted estimator, and where both come from."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gapmix.estimators.bounds import read_bounds
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.imputer import as_imputer as fill_by
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.validation import column_names
from gapmix.kinds import DECLARED

MAX_TABLE = 30  # rows of a table on the page


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


def as_imputer(estimator: Any) -> GaussianMixtureImputer:
    """Return a fitted estimator as an imputer of matrices; a mixture is one of a given size.

    The estimator is left as it is: what is returned knows columns by their numbers only.
    """
    check_is_fitted(estimator)
    if isinstance(estimator, GaussianMixtureImputer):
        imputer = copy.copy(estimator)
        names = getattr(imputer, "feature_names_in_", None)
        low, high = read_bounds(imputer.bounds, column_names(imputer), names)
        imputer.bounds = {
            j: (_limit(low[j]), _limit(high[j]))
            for j in range(imputer.n_features_in_)
            if np.isfinite(low[j]) or np.isfinite(high[j])
        } or None
        return _by_number(imputer)
    if not isinstance(estimator, GaussianMixture):
        raise TypeError(
            "A report needs a fitted GaussianMixtureImputer or GaussianMixture, which fill gaps; "
            f"this is a {type(estimator).__name__}."
        )
    return _by_number(fill_by(estimator))


def _by_number(imputer: GaussianMixtureImputer) -> GaussianMixtureImputer:
    imputer.column_kinds_ = dict(enumerate(imputer.column_kinds_.values()))
    if hasattr(imputer, "feature_names_in_"):
        del imputer.feature_names_in_
    return imputer


def contender(imputer: GaussianMixtureImputer, columns: np.ndarray) -> GaussianMixtureImputer:
    """Return an imputer with the same settings, not fitted, for some of the columns.

    It tries no larger sizes than those that were kept: a part of the table needs no more.
    """
    limits = imputer.bounds or {}
    bounds = {place: limits[j] for place, j in enumerate(columns.tolist()) if j in limits}
    kinds = {place: imputer.column_kinds_[j] for place, j in enumerate(columns.tolist())}
    declared = {place: kind for place, kind in kinds.items() if kind in DECLARED}
    changed: dict[str, Any] = {"bounds": bounds or None, "use_target": False}
    changed["column_kinds"] = "auto" if imputer.column_kinds == "auto" else declared
    changed |= {"add_indicator": False, "verbose": 0}
    kept = [each.n_components for each in imputer.selection_ if each.share > 0]
    if kept:
        changed["max_components"] = max(kept)
    return GaussianMixtureImputer(**{**imputer.get_params(), **changed})


def _limit(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
