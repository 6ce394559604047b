"""The door: whatever the user has becomes a float64 matrix with NaN for gaps, or a clear error.

Below this module nothing is checked again.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

CODE_SHARE = 0.005  # an extreme integer is suspected if at least this share of the values equals it
MAX_NAMES = 5  # names listed in a message before "and N more"


def read_table(estimator: Any, X: Any, *, reset: bool, min_rows: int = 1) -> np.ndarray:
    """Return `X` as an (n, d) float64 array with NaN for gaps, and check it against the estimator.

    Takes arrays, masked arrays (the mask counts), lists, and pandas, polars or pyarrow tables,
    with nullable types. With `reset`, number and names of the columns are recorded on the
    estimator; without it, they must agree with what was recorded.
    """
    x = to_matrix(X)
    x = check_array(
        x,
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
        estimator=estimator,
        input_name="X",
    )
    validate_data(estimator, X if _has_columns(X) else x, reset=reset, skip_check_array=True)
    _refuse_infinite(x, column_names(estimator))
    return x


def to_matrix(X: Any) -> Any:
    """Return a numeric array with NaN for gaps; shape and finiteness are checked elsewhere."""
    if sparse.issparse(X):
        raise TypeError(
            "X is a sparse matrix. Its zeros are values, not gaps, and a Gaussian mixture needs "
            "them all: pass X.toarray(), with NaN in the cells that are missing."
        )
    if isinstance(X, np.ma.MaskedArray):
        values = np.ma.getdata(X)
        if values.dtype.kind not in "biuf":
            values = to_matrix(values)
        matrix = np.array(values, dtype=np.float64)
        matrix[np.ma.getmaskarray(X)] = np.nan
        return matrix
    if _has_columns(X):
        return _read_frame(X)
    array = X if isinstance(X, np.ndarray) else np.asarray(_tolerate_ragged(X))
    if array.dtype.kind in "biuf" or array.ndim != 2:
        return array
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: X has dtype {array.dtype}. "
            "Pass real and imaginary parts as separate columns."
        )
    return (
        np.column_stack([_read_objects(array[:, j], f"column {j}") for j in range(array.shape[1])])
        if array.shape[1]
        else array.astype(np.float64)
    )


def column_names(estimator: Any) -> list[str]:
    """Return the columns' names as messages show them: quoted names, or numbers."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [str(j) for j in range(getattr(estimator, "n_features_in_", 0))]
    return [repr(str(name)) for name in names]


def list_names(names: Sequence[str]) -> str:
    """Return names joined for a message, cut after a few."""
    shown = ", ".join(names[:MAX_NAMES])
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"


def read_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Return row weights (n,), all finite, none negative, not all zero; None means 1 each."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers: {error}.") from error
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}; X has {n} rows, so it must be ({n},)."
        )
    for bad, what in ((~np.isfinite(weight), "not finite"), (weight < 0, "negative")):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"sample_weight is {what} in {int(bad.sum())} of {n} rows, first in row {row} "
                f"({weight[row]}). Give every row a weight of 0 or more."
            )
    if not weight.any():
        raise ValueError(f"sample_weight is 0 in all {n} rows: there is nothing to fit.")
    return weight


def warn_codes(x: np.ndarray, names: list[str]) -> None:
    """Warn where one extreme integer repeats far from all other values of its column."""
    for j, name in enumerate(names):
        column = x[:, j]
        column = column[~np.isnan(column)]
        if column.size < 20:
            continue
        for code, beyond in (
            (column.min(), column > column.min()),
            (column.max(), column < column.max()),
        ):
            n_code = column.size - int(beyond.sum())
            if (
                code != np.round(code)
                or n_code < max(2, CODE_SHARE * column.size)
                or not beyond.any()
            ):
                continue
            rest = column[beyond]
            gap = min(abs(rest.min() - code), abs(rest.max() - code))
            if gap > 2.0 * (rest.max() - rest.min()) and np.unique(rest).size >= 5:
                warnings.warn(
                    f"Column {name}: the value {code:g} occurs {n_code} times, far from all others "
                    f"({rest.min():g} to {rest.max():g}). It is taken as a number. If it stands "
                    "for a gap, replace it by NaN first.",
                    UserWarning,
                    stacklevel=4,
                )


def _has_columns(X: Any) -> bool:
    """Tell whether X is a data frame of a kind that narwhals reads."""
    return (
        isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)
        if not (isinstance(X, np.ndarray | list | tuple))
        else False
    )


def _read_frame(X: Any) -> np.ndarray:
    """Return the columns of a data frame as floats; null and NaN both mean missing."""
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else []
    if hasattr(X, "column_names"):  # pyarrow
        names = [str(name) for name in X.column_names]
    if hasattr(X, "iloc"):  # pandas allows duplicate names, narwhals does not
        X = X.set_axis(range(len(names)), axis=1)
        X.columns = [str(j) for j in range(len(names))]
    frame = nw.from_native(X, eager_only=True)
    if not frame.columns:
        return np.empty((len(frame), 0))
    return np.column_stack(
        [
            _read_series(frame[position], repr(name))
            for position, name in zip(frame.columns, names, strict=True)
        ]
    )


def _read_series(series: Any, where: str) -> np.ndarray:
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        if series.null_count() == len(series):
            return np.full(len(series), np.nan)
        floats: np.ndarray = series.cast(nw.Float64).to_numpy()
        return np.asarray(floats, dtype=np.float64)
    if series.null_count() == len(series):
        return np.full(len(series), np.nan)
    if dtype in (nw.Object, nw.Unknown):
        return _read_objects(np.asarray(series.to_list(), dtype=object), f"column {where}")
    values = series.drop_nulls().head(1).to_list()
    raise ValueError(
        f"Column {where} holds {dtype} values (such as {values[0]!r}), not numbers. Leave it out, "
        "or turn it into numbers first, for example with OrdinalEncoder or OneHotEncoder."
    )


def _read_objects(values: np.ndarray, where: str) -> np.ndarray:
    """Return objects as floats: None and the missing marks of pandas become NaN."""
    result = np.empty(len(values))
    for i, value in enumerate(values):
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            result[i] = np.nan
            continue
        try:
            if isinstance(value, str | bytes | complex):
                raise TypeError
            result[i] = float(value)
        except (TypeError, ValueError) as error:
            text = repr(value)
            raise ValueError(
                f"Row {i}, {where}: {text[:40]} could not be converted to a number (its type is "
                f"{type(value).__name__}; argument must be a string or a number is what float() "
                "says of it). Use NaN or None for gaps, and encode text as numbers first."
            ) from error
    return result


def _tolerate_ragged(X: Any) -> Any:
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"X could not be read as a table: {error}. Every row needs the same number of values."
        ) from error


def _refuse_infinite(x: np.ndarray, names: list[str]) -> None:
    infinite = np.isinf(x)
    if infinite.any():
        row, column = (int(i) for i in np.argwhere(infinite)[0])
        raise ValueError(
            f"X contains infinity in {int(infinite.sum())} cells, first in row {row}, column "
            f"{names[column]} ({x[row, column]}). Replace it by a finite value, or by NaN if it "
            "stands for a gap."
        )
