"""What goes back to the user: matrices with levels for codes, data frames of the same types."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from sklearn import get_config

from gapmix.estimators.frames import fill_frame
from gapmix.estimators.levels import columns_of, decode, dict_levels, is_frame, to_objects
from gapmix.estimators.marks import Marks, read_marks
from gapmix.estimators.passing import model_marks


def restore_levels(
    estimator: Any, X: Any, values: np.ndarray, missing_values: Any = np.nan
) -> np.ndarray:
    """Return a matrix (..., n, D) as the user knows it: with levels, if there are categories.

    Cells that X shows come back as they are there; None is a table without any.
    """
    if not estimator.categories_:
        return values
    if X is not None and not is_frame(X):
        X = to_objects(X)
    marks = _read_marks(estimator, missing_values)
    return decode(X, values, estimator.categories_, estimator.is_categorical_, marks)


def finish(imputer: Any, X: Any, x: np.ndarray, filled: np.ndarray) -> Any:
    """Return what `transform` gives: levels for codes, and the indicator's columns."""
    indicators = np.isnan(x[:, imputer.indicated_])
    kind, marks = container_of(imputer), model_marks(imputer)
    framed = bool(imputer.categories_) and kind != "default"
    if framed and is_frame(X):
        restored = restore_frame(imputer, X, x, filled, marks)
    else:
        restored = restore_levels(imputer, X, filled, marks)
    if framed:
        return to_container(imputer, kind, restored, indicators)
    return np.column_stack([restored, indicators]) if imputer.indicated_.size else restored


def restore_frame(
    estimator: Any, X: Any, x: np.ndarray, values: np.ndarray, missing_values: Any = np.nan
) -> Any:
    """Return the data frame X with the gaps of `x` (n, D) taken from `values`, types kept."""
    return fill_frame(X, x, values, dict_levels(estimator), _read_marks(estimator, missing_values))


def _read_marks(estimator: Any, missing_values: Any) -> Marks:
    names = getattr(estimator, "feature_names_in_", None)
    return read_marks(missing_values, names, estimator.n_features_in_)


def as_frame_like(X: Any, values: np.ndarray, levels: np.ndarray) -> Any:
    """Return values (n, L) as a data frame of the kind of X, levels as names; or as they are."""
    if not is_frame(X):
        return values
    if hasattr(X, "iloc"):
        return type(X)(values, index=X.index, columns=levels.tolist())
    frame = nw.from_native(X, eager_only=True)
    named = {str(level): values[:, j] for j, level in enumerate(levels.tolist())}
    return nw.from_dict(named, backend=frame.implementation).to_native()


def container_of(estimator: Any) -> str:
    """Return what `set_output`, or scikit-learn's configuration, asks for: a frame or 'default'."""
    own = getattr(estimator, "_sklearn_output_config", {})
    asked: str = own.get("transform", get_config()["transform_output"])
    return asked


def to_container(estimator: Any, kind: str, filled: Any, indicators: np.ndarray) -> Any:
    """Return a filled table as a data frame of a kind, numbers as numbers, with 0 and 1 beside.

    `filled` is a data frame with its types kept, or an array of objects (n, D); `indicators`
    (n, q) are the last columns.
    """
    names = [str(name) for name in estimator.get_feature_names_out()]
    backend: Any = kind
    d = estimator.n_features_in_
    of_gaps = dict(zip(names[d:], indicators.T.astype(float), strict=True))
    if hasattr(filled, "iloc"):  # scikit-learn makes other frames of one of pandas
        return filled.assign(**of_gaps)
    columns: Any = filled.T if isinstance(filled, np.ndarray) else columns_of(filled)
    if not isinstance(filled, np.ndarray) and columns[0].implementation.value == kind:
        frame = nw.from_native(filled, eager_only=True)
        beside = [nw.new_series(*each, nw.Float64, backend=backend) for each in of_gaps.items()]
        return frame.with_columns(*beside).to_native()
    table = {
        name: list(column) if chosen else np.array(list(column), dtype=float)
        for name, column, chosen in zip(names[:d], columns, estimator.is_categorical_, strict=True)
    }
    return nw.from_dict({**table, **of_gaps}, backend=backend).to_native()
