"""What goes back to the user: matrices with levels for codes, data frames of the same types."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from sklearn import get_config

from gapmix.estimators.levels import decode, is_frame, to_levels, to_objects
from gapmix.estimators.marks import gap_test, read_marks


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
    is_gap = gap_test(read_marks(missing_values))
    return decode(X, values, estimator.categories_, estimator.is_categorical_, is_gap)


def fill_frame(
    X: Any, x: np.ndarray, filled: np.ndarray, levels: dict[int, np.ndarray] | None = None
) -> Any:
    """Return the data frame with the gaps of `x` (n, d) taken from `filled`.

    `levels` are those of the columns that are categories; these keep their types.
    """
    levels = levels or {}
    if not is_frame(X):
        raise TypeError(
            f"Expected a pandas, polars or pyarrow data frame, got {type(X).__name__}. For arrays "
            "use transform."
        )
    gaps = np.flatnonzero(np.isnan(x).any(axis=0))
    if hasattr(X, "iloc"):  # pandas allows names that are not text, narwhals does not
        result = X.copy()
        for j in gaps.tolist():
            values = filled[:, j]
            if j in levels:
                values = _fill_category(X.iloc[:, j], to_levels(values, levels[j]))
            result.isetitem(int(j), values)
        return result
    frame = nw.from_native(X, eager_only=True)
    columns = []
    for j in gaps.tolist():
        name, cells, dtype = frame.columns[j], filled[:, j].tolist(), nw.Float64()
        if j in levels:
            dtype = frame[name].dtype
            shown, new = frame[name].to_list(), to_levels(filled[:, j], levels[j]).tolist()
            cells = [b if a is None else a for a, b in zip(shown, new, strict=True)]
        columns.append(nw.new_series(name, cells, dtype, backend=frame.implementation))
    return frame.with_columns(*columns).to_native() if columns else X


def _fill_category(series: Any, values: np.ndarray) -> Any:
    """Return a pandas series with its gaps taken from levels (n,), of the same type."""
    gaps = series.isna().to_numpy()
    if hasattr(series, "cat"):
        new = [level for level in dict.fromkeys(values[gaps]) if level not in series.cat.categories]
        series = series.cat.add_categories(new)
    series = series.copy()
    series.iloc[np.flatnonzero(gaps)] = values[gaps].tolist()
    return series


def dict_levels(estimator: Any) -> dict[int, np.ndarray]:
    """Return the levels of the columns that are categories, by their numbers."""
    columns = np.flatnonzero(estimator.is_categorical_).tolist()
    return dict(zip(columns, estimator.categories_, strict=True))


def as_frame_like(X: Any, values: np.ndarray, levels: np.ndarray) -> Any:
    """Return values (n, L) as a data frame of the kind of X, levels as names; or as they are."""
    if not is_frame(X):
        return values
    if hasattr(X, "iloc"):
        return type(X)(values, index=X.index, columns=levels.tolist())
    frame = nw.from_native(X, eager_only=True)
    named = {str(level): values[:, j] for j, level in enumerate(levels.tolist())}
    return nw.from_dict(named, backend=frame.implementation).to_native()


def wants_frame(estimator: Any) -> bool:
    """Tell whether `set_output`, or scikit-learn's configuration, asks for data frames."""
    own = getattr(estimator, "_sklearn_output_config", {})
    return own.get("transform", get_config()["transform_output"]) != "default"
