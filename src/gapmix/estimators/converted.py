"""Imputers made of what is fitted already."""

from __future__ import annotations

import copy

import numpy as np

from gapmix.estimators.base import HANDED_ON
from gapmix.estimators.bounds import read_bounds, store_columns
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.passing import model_kinds
from gapmix.estimators.shaped import store_shapes
from gapmix.estimators.validation import column_names
from gapmix.kinds import ColumnValues


def as_imputer(
    mixture: GaussianMixture,
    imputer: GaussianMixtureImputer | None = None,
    seen: tuple[ColumnValues, ...] | None = None,
) -> GaussianMixtureImputer:
    """Return an imputer, fitted, that fills by a mixture which was fitted by itself.

    An imputer that is given keeps its settings, and what it knows of sizes and intervals if it was
    fitted to a part of the rows. `seen` is what the columns show, if that is known.
    """
    if imputer is None:
        imputer = GaussianMixtureImputer(
            len(mixture.weights_),
            random_state=mixture.random_state,
            n_jobs=mixture.n_jobs,
            **{name: getattr(mixture, name) for name in HANDED_ON},
        )
    if not hasattr(imputer, "selection_"):
        imputer.selection_, imputer.calibration_ = (), None
        imputer.trust_, imputer.hidden_error_ = np.ones(mixture.n_features_in_), None
    imputer.mixture_ = copy.copy(mixture)
    imputer.n_features_in_ = mixture.n_features_in_
    if hasattr(mixture, "feature_names_in_"):
        imputer.feature_names_in_ = mixture.feature_names_in_
        del imputer.mixture_.feature_names_in_  # rows are given to it without names
    imputer.is_categorical_, imputer.categories_ = mixture.is_categorical_, mixture.categories_
    imputer.passed_ = {}
    store_columns(imputer, seen)
    store_shapes(imputer)
    imputer.indicated_ = np.empty(0, dtype=int)
    imputer.n_components_, imputer.n_iter_ = len(mixture.weights_), mixture.n_iter_
    return imputer


def on_matrices(imputer: GaussianMixtureImputer) -> GaussianMixtureImputer:
    """Return a fitted imputer that reads and gives matrices: codes for levels, NaN for gaps.

    Columns are known by their numbers. The imputer itself is left as it is.
    """
    made = copy.copy(imputer)
    names = getattr(imputer, "feature_names_in_", None)
    limits = np.transpose(read_bounds(imputer.bounds, column_names(imputer), names))
    made.bounds = {
        j: (low if np.isfinite(low) else None, high if np.isfinite(high) else None)
        for j, (low, high) in enumerate(limits.tolist())
        if np.isfinite(low) or np.isfinite(high)
    } or None
    made.column_kinds_ = dict(enumerate(model_kinds(imputer).values()))
    made.passed_ = {}
    made.column_shapes_ = dict(enumerate(imputer.column_shapes_.values()))
    made.__dict__.pop("feature_names_in_", None)
    made.is_categorical_ = np.zeros(imputer.n_features_in_, dtype=bool)
    made.categories_, made.missing_values = [], np.nan
    return made
