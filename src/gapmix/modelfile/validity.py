"""What the values of a loaded estimator must be for it to give answers: each is checked here.

Shapes and types are what `mixture` and `values` look at; a forged file may have these right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gapmix.categories import Tables, count_levels, split
from gapmix.estimators.bounds import read_bounds, store_columns
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.passing import WORDS, model_kinds
from gapmix.estimators.shaped import store_shapes
from gapmix.estimators.validation import column_names
from gapmix.kinds import ANY, CATEGORY, KINDS, MOST_CODES, TWO_VALUED, ColumnValues
from gapmix.selection.classes import COOLEST, HOTTEST
from gapmix.selection.sizes import Candidate
from gapmix.shapes import IDENTITY, Shape, can_be
from gapmix.storage.recordfile import ModelFileError
from gapmix.units import select_columns, to_user

SIMPLEX = 1e-8  # what shares may be away from a sum of 1
NEAR = 1e-6  # what a constant may be away from its column's mean, relative to either


def check_shares(name: str, shares: np.ndarray) -> None:
    """Check that shares are finite, none is negative, and they sum to 1."""
    if not (np.isfinite(shares).all() and shares.size and shares.min() >= 0):
        raise ModelFileError(f"The {name} must be finite and at least 0.")
    if abs(shares.sum() - 1.0) > SIMPLEX:
        raise ModelFileError(f"The {name} must sum to 1, and sum to {shares.sum():g}.")


def check_counts(name: str, counts: np.ndarray, tables: Tables, resp: np.ndarray) -> None:
    """Check the counts of levels (K, sum of L_j) per row: no more than a component has rows."""
    if counts.size and counts.min() < 0:
        raise ModelFileError(f"{name} holds a number below 0.")
    for count in split(counts, count_levels(tables)) if tables else ():
        if (count.sum(axis=1) > resp + SIMPLEX).any():
            raise ModelFileError(f"{name} counts more rows than a component has.")


def check_settings(estimator: Any) -> None:
    """Check what an estimator would be asked to do, as `fit` does."""
    try:
        if isinstance(estimator, GaussianMixture):
            estimator._check()
        else:
            estimator._check_parameters()
        check_random_state(estimator.random_state)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"A setting cannot be used: {error}") from error


def check_imputer(imputer: Any) -> None:
    """Check the fitted attributes of a GaussianMixtureImputer."""
    check_settings(imputer)
    d, mixture = imputer.n_features_in_, imputer.mixture_
    _check_levels(imputer, mixture)
    if mixture.n_features_in_ < d or (mixture.n_features_in_ > d and not imputer.use_target):
        raise ModelFileError(f"The mixture has {mixture.n_features_in_} columns, the table {d}.")
    _check_size(imputer)
    _check_selection(_held(imputer, "selection_", tuple))
    _check_calibration(_held(imputer, "calibration_", np.ndarray, type(None)), d)
    _check_trust(imputer, d)
    _check_constant(imputer, np.arange(d))
    _check_columns(imputer)
    _check_shapes(imputer)
    places = _held(imputer, "indicated_", np.ndarray)
    if places.dtype != np.int64 or places.ndim != 1 or not np.isin(places, np.arange(d)).all():
        raise ModelFileError(f"indicated_ must hold numbers of the {d} columns.")
    if (np.diff(places) <= 0).any():
        raise ModelFileError("indicated_ must be increasing.")
    try:
        read_bounds(imputer.bounds, column_names(imputer), _names(imputer))
    except ValueError as error:
        raise ModelFileError(str(error)) from error


def check_regressor(regressor: Any) -> None:
    """Check the fitted attributes of a GaussianMixtureRegressor."""
    check_settings(regressor)
    _check_size(regressor)
    _check_selection(_held(regressor, "selection_", tuple))
    n_targets = _held(regressor, "n_targets_", int)
    flat = _held(regressor, "_flat", bool)
    _check_levels(regressor, regressor.mixture_)
    if n_targets < 1 or regressor.mixture_.n_features_in_ != regressor.n_features_in_ + n_targets:
        raise ModelFileError(
            f"n_targets_ is {n_targets}, and the mixture has {regressor.mixture_.n_features_in_} "
            f"columns beside {regressor.n_features_in_} inputs."
        )
    if flat and n_targets > 1:
        raise ModelFileError(f"{n_targets} targets cannot be flat.")
    _check_constant(regressor, regressor.n_features_in_ + np.arange(n_targets))


def check_classifier(classifier: Any) -> None:
    """Check the fitted attributes of a GaussianMixtureClassifier."""
    check_settings(classifier)
    classes, n = _held(classifier, "classes_", np.ndarray), len(classifier.mixtures_)
    if classes.shape != (n,) or n < 2 or len(set(classes.tolist())) < n:
        raise ModelFileError(f"classes_ must hold a different label for each of {n} mixtures.")
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise ModelFileError("classes_ holds a label that is not finite.")
    if any(mixture.n_features_in_ != classifier.n_features_in_ for mixture in classifier.mixtures_):
        raise ModelFileError(f"Not every mixture has {classifier.n_features_in_} columns.")
    for mixture in classifier.mixtures_:
        _check_levels(classifier, mixture)
    priors = _held(classifier, "priors_", np.ndarray)
    if priors.shape != (n,) or priors.dtype != np.float64 or not priors.min() > 0:
        raise ModelFileError(f"priors_ must hold a positive number for each of {n} classes.")
    check_shares("priors_", priors)
    exponent = _held(classifier, "exponent_", float)
    if not COOLEST <= exponent <= HOTTEST:
        raise ModelFileError(
            f"exponent_ is {exponent:g}; it must lie between {COOLEST:g} and {HOTTEST:g}."
        )
    _check_count(classifier, "n_iter_", 0)
    for each in _held(classifier, "selection_", list):
        _check_selection(each)


def _held(estimator: Any, name: str, *types: type) -> Any:
    """Return a fitted attribute, which must be there and have one of the types exactly."""
    value = getattr(estimator, name, ModelFileError)
    if type(value) not in types:
        wanted = " or ".join(kind.__name__ for kind in types)
        state = "is missing" if value is ModelFileError else f"is a {type(value).__name__}"
        raise ModelFileError(f"{name} {state}; it must be {wanted}.")
    return value


def _names(estimator: Any) -> np.ndarray | None:
    names: np.ndarray | None = getattr(estimator, "feature_names_in_", None)
    return names


def _check_count(estimator: Any, name: str, smallest: int) -> int:
    count: int = _held(estimator, name, int)
    if count < smallest:
        raise ModelFileError(f"{name} is {count}; it must be at least {smallest}.")
    return count


def _check_size(estimator: Any) -> None:
    n_components = len(estimator.mixture_.weights_)
    if _check_count(estimator, "n_components_", 1) != n_components:
        raise ModelFileError(
            f"n_components_ is {estimator.n_components_}; the mixture has {n_components}."
        )
    _check_count(estimator, "n_iter_", 0)


def _check_selection(selection: Any) -> None:
    """Check the sizes that were compared, if any were."""
    if type(selection) is not tuple or not all(type(each) is Candidate for each in selection):
        raise ModelFileError("selection_ must hold what came of each size.")
    for each in selection:
        whole = (each.n_components, each.n_iter)
        numbers = (each.error, each.log_score, each.seconds, each.share)
        right = all(type(value) is int for value in whole) and each.n_components >= 1
        right = right and each.n_iter >= 0 and all(type(value) is float for value in numbers)
        if not right or any(map(math.isnan, numbers)) or min(each.error, each.seconds) < 0:
            raise ModelFileError(f"selection_ has a size that cannot be: {each}.")
    if selection:
        check_shares("shares of selection_", np.array([each.share for each in selection]))


def _check_constant(estimator: Any, columns: np.ndarray) -> None:
    """Check the values of columns that never vary: they are the means of these."""
    constant = _held(estimator, "constant_", np.ndarray)
    shape, kind = (len(columns),), np.float64
    if constant.shape != shape or constant.dtype != kind or np.isinf(constant).any():
        raise ModelFileError(f"constant_ must hold a number or NaN for each of {shape[0]} columns.")
    is_number = ~estimator.mixture_.is_categorical_
    places = np.flatnonzero(is_number[columns])
    if not np.isnan(np.delete(constant, places)).all():
        raise ModelFileError("constant_ holds a number for a category.")
    units = estimator.mixture_._scaling
    units = select_columns(units, (np.cumsum(is_number) - 1)[columns[places]])
    mean = to_user(units.mean, units)
    away = np.abs(constant[places] - mean) > NEAR * (np.abs(mean) + units.scale)
    if away.any():
        wrong = int(np.flatnonzero(away)[0])
        raise ModelFileError(
            f"constant_ is {constant[places[wrong]]:g} for column {places[wrong]}, whose mean is "
            f"{mean[wrong]:g}."
        )


def _check_columns(imputer: Any) -> None:
    """Check what is known of the columns; files of earlier versions know nothing."""
    if not hasattr(imputer, "column_kinds_") and not hasattr(imputer, "column_values_"):
        store_columns(imputer, None)
        imputer.passed_ = {}
        return
    if not hasattr(imputer, "passed_"):
        imputer.passed_ = {}
    passed, known = _held(imputer, "passed_", dict), _held(imputer, "column_kinds_", dict)
    if not all(kind in WORDS and known.get(name) == kind for name, kind in passed.items()):
        raise ModelFileError(f"passed_ must hold one of {', '.join(WORDS)} for each column.")
    kinds, values = model_kinds(imputer), _held(imputer, "column_values_", tuple)
    names = _names(imputer)
    keys = list(range(imputer.n_features_in_)) if names is None else names.tolist()
    if list(kinds) != keys or not all(kind in KINDS for kind in kinds.values()):
        raise ModelFileError(f"column_kinds_ must hold one of {', '.join(KINDS)} for each column.")
    if len(values) != len(keys) or not all(map(_can_be, values)):
        raise ModelFileError("column_values_ has a column that cannot be.")
    for kind, each, is_category in zip(
        kinds.values(), values, imputer.is_categorical_, strict=True
    ):
        if (kind == CATEGORY) != is_category or (kind == TWO_VALUED and len(each.values or ()) < 2):
            raise ModelFileError(f"A column of kind {kind!r} cannot have {each}.")


def _check_shapes(imputer: Any) -> None:
    """Check how columns are transformed; those of earlier files are not."""
    if not hasattr(imputer, "column_shapes_"):
        store_shapes(imputer)
        return
    shapes = _held(imputer, "column_shapes_", dict)
    kinds = model_kinds(imputer)
    if list(shapes) != list(kinds):
        raise ModelFileError("column_shapes_ must hold a shape for each column.")
    for shape, kind in zip(shapes.values(), kinds.values(), strict=True):
        right = type(shape) is Shape and type(shape.name) is str
        right = right and all(type(value) is float for value in shape[1:]) and can_be(shape)
        if not right or (shape != Shape() and (kind == CATEGORY or shape.name == IDENTITY)):
            raise ModelFileError(f"A column of kind {kind!r} cannot have the shape {shape}.")


def _can_be(each: Any) -> bool:
    """Tell whether these are the values of a column."""
    if type(each) is not ColumnValues or not all(
        type(end) is float for end in (each.low, each.high)
    ):
        return False
    if type(each.n) is not int or type(each.decimals) is not int or not ANY <= each.decimals <= 15:
        return False
    if each.n == 0:
        return each == ColumnValues()
    if not -np.inf < each.low <= each.high < np.inf:
        return False
    if each.values is None:
        return True
    right = type(each.values) is tuple and 0 < len(each.values) <= MOST_CODES
    right = right and all(type(value) is float for value in each.values)
    inside = right and each.values[0] == each.low and each.values[-1] == each.high
    return bool(inside and (np.diff(each.values) > 0).all())


def _check_levels(estimator: Any, mixture: GaussianMixture) -> None:
    """Check that a mixture has the categories of its estimator, with the same levels."""
    columns = np.flatnonzero(estimator.is_categorical_).tolist()
    found = np.flatnonzero(mixture.is_categorical_).tolist()
    if columns != found:
        raise ModelFileError(
            f"The categories of the table are columns {columns}, those of the mixture {found}."
        )
    each = zip(columns, estimator.categories_, mixture.categories_, strict=True)
    for column, wanted, levels in each:
        if wanted.tolist() != levels.tolist() or wanted.dtype != levels.dtype:
            raise ModelFileError(
                f"Column {column} has {len(wanted)} levels in the table and {len(levels)} in the "
                "mixture, or others."
            )


def _check_calibration(calibration: np.ndarray | None, d: int) -> None:
    """Check the curves of the columns; files of earlier versions have one for all."""
    if calibration is None:
        return
    right = calibration.dtype == np.float64 and calibration.shape[:-1] in ((), (d,))
    right = right and calibration.ndim > 0 and calibration.shape[-1] > 1
    if not right or not ((calibration >= 0) & (calibration <= 1)).all():
        raise ModelFileError("calibration_ must hold at least two numbers from 0 to 1.")
    if (np.diff(calibration) < 0).any():
        raise ModelFileError("calibration_ must not fall.")


def _check_trust(imputer: Any, d: int) -> None:
    """Check how far columns are trusted; and how well hidden cells were told.

    Columns of earlier files are trusted without limit.
    """
    if not hasattr(imputer, "trust_"):
        imputer.trust_ = np.ones(d)
    if not hasattr(imputer, "hidden_error_"):
        imputer.hidden_error_ = None
    error = _held(imputer, "hidden_error_", float, type(None))
    if error is not None and not 0 <= error < math.inf:
        raise ModelFileError(f"hidden_error_ is {error!r}; it must be a finite number from 0 on.")
    trust = _held(imputer, "trust_", np.ndarray)
    if trust.dtype != np.float64 or trust.shape != (d,) or not ((trust >= 0) & (trust <= 1)).all():
        raise ModelFileError("trust_ must hold a number from 0 to 1 for each column.")
