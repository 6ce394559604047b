"""The door: whatever the user has becomes a float64 matrix with NaN for gaps, or a clear error.

Below this module nothing is checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import PurePath
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from gapmix.estimators.levels import encode, find_categories, is_frame
from gapmix.estimators.marks import (
    NO_MARKS,
    Marks,
    gap_test,
    is_mark,
    is_missing,
    marks_among,
    marks_at,
    read_marks,
    show,
)
from gapmix.estimators.warning import warn_of_wiped
from gapmix.wording import list_names

LARGEST_EXACT = 2**53  # float64 holds all whole numbers up to it
LARGEST_VALUE = 1e300  # beyond it, differences and sums of values leave the range of float64


# what is recorded of a table before it is fitted
COLUMNS = ("n_features_in_", "feature_names_in_", "is_categorical_", "categories_", "passed_")


def keeping_last_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `fit` that, when it fails, leaves the columns recorded as those of the last fit."""

    @wraps(fit)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = {name: getattr(self, name) for name in COLUMNS if hasattr(self, name)}
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            for name in COLUMNS:
                vars(self).pop(name, None)
            vars(self).update(before)
            raise

    return whole


def read_table(
    estimator: Any, X: Any, *, reset: bool, min_rows: int = 1, missing_values: Any = np.nan
) -> np.ndarray:
    """Return `X` as an (n, d) float64 array with NaN for gaps, and check it against the estimator.

    Takes arrays, masked arrays (the mask counts), lists, and pandas, polars or pyarrow tables,
    with nullable types. With `reset`, number and names of the columns are recorded on the
    estimator; without it, they must agree with what was recorded.
    """
    labels = _read_labels(X) if is_frame(X) else None
    named = _name_columns(X) if isinstance(missing_values, dict) else (None, 0)
    marks = read_marks(missing_values, *named)
    if labels is not None and not reset:  # a wrong column is told by name before it is read
        validate_data(estimator, X, reset=False, skip_check_array=True)
    X, chosen, categories = find_categories(estimator, X, marks, labels, reset=reset)
    x = check_array(
        _read_mixed(X, chosen, categories, marks, labels) if categories else to_matrix(X, marks),
        dtype=np.float64,
        order="C",  # so that the layout in memory changes no bit
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
        estimator=estimator,
        input_name="X",
    )
    names = labels or [str(j) for j in range(x.shape[1])]
    if marks.numbers or marks.own:  # of categories, what is marked is no level already
        numbers = ~chosen if categories else np.ones(x.shape[1], dtype=bool)
        if reset:
            warn_of_wiped(
                x[:, numbers], marks.numbers, [n for n, a in zip(names, numbers, strict=True) if a]
            )
        each = [np.isin(x[:, j], marks_at(marks, j).numbers) for j in range(x.shape[1])]
        x = np.where(np.column_stack(each) & numbers, np.nan, x)
    _refuse_infinite(x, names)
    if labels is None or reset:
        validate_data(estimator, x if labels is None else X, reset=reset, skip_check_array=True)
    if reset and hasattr(estimator, "categorical_features"):
        estimator.is_categorical_ = chosen if categories else np.zeros(x.shape[1], dtype=bool)
        estimator.categories_ = categories
    return x


def _name_columns(X: Any) -> tuple[np.ndarray | None, int]:
    """Return names, if there are any, and number of the columns of what may be a table."""
    if is_frame(X):
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)
        return np.array([*names, None], dtype=object)[:-1], len(names)
    shape: tuple[int, ...] = ()
    if hasattr(X, "__getitem__") and not sparse.issparse(X):
        shape = np.shape(X[:1])
    return None, shape[1] if len(shape) > 1 else 0


def _read_mixed(
    X: Any,
    chosen: np.ndarray,
    categories: list[np.ndarray],
    marks: Marks,
    labels: list[str] | None,
) -> np.ndarray:
    """Return columns of numbers and codes of categories as one matrix."""
    names = labels or [str(j) for j in range(len(chosen))]
    x = np.full((len(X), len(chosen)), np.nan)
    numbers = np.flatnonzero(~chosen)
    if numbers.size:
        x[:, numbers] = to_matrix(_select(X, numbers), marks_among(marks, numbers.tolist()))
    for j, levels in zip(np.flatnonzero(chosen), categories, strict=True):
        x[:, j] = encode(X, int(j), levels, names[j], gap_test(marks_at(marks, int(j))), tell=True)
    return x


def _select(X: Any, columns: np.ndarray) -> Any:
    if isinstance(X, np.ndarray):
        return X[:, columns]
    if hasattr(X, "iloc"):
        return X.iloc[:, columns]
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    return X.select([names[j] for j in columns])


def to_matrix(X: Any, marks: Marks = NO_MARKS) -> Any:
    """Return a numeric array with NaN for gaps; shape and finiteness are checked elsewhere."""
    if sparse.issparse(X):
        raise TypeError(
            "X is a sparse matrix, which only GaussianMixtureImputer's fit and predict_cells "
            "take. Here pass X.toarray(), with NaN in the cells that are missing."
        )
    if is_frame(X):
        return _read_frame(X, marks)
    if isinstance(X, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        X = np.ma.stack(X)
    if isinstance(X, np.ma.MaskedArray):
        return _read_masked(X, marks)
    _refuse_other_containers(X)
    array = X if isinstance(X, np.ndarray) else _read_nested(X)
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind == "f":
        return _to_float64(array) if array.dtype.itemsize > 8 else array
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: X has dtype {array.dtype}. "
            "Pass real and imaginary parts as separate columns."
        )
    if array.ndim != 2:
        raise TypeError(
            f"X is a {type(X).__name__} and could not be read as a table with rows and columns of "
            f"numbers. Pass a 2-d array or a data frame{_suggest_reader(X)}."
        )
    columns = [
        _read_objects(array[:, j], f"column {j}", marks_at(marks, j)) for j in range(array.shape[1])
    ]
    return np.column_stack(columns) if columns else np.empty(array.shape)


def column_names(estimator: Any) -> list[str]:
    """Return the columns' names as messages show them: quoted names, or numbers."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [str(j) for j in range(getattr(estimator, "n_features_in_", 0))]
    return [repr(str(name)) for name in names]


def record_columns(estimator: Any, d: int, names: Sequence[str] | None) -> None:
    """Write number and names of the columns to an estimator, as `read_table` does."""
    estimator.n_features_in_ = d
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def read_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Return row weights (n,), all finite, none negative, not all zero; None means 1 each."""
    if sample_weight is None:
        return np.ones(n)
    weight = _read_weight_values(sample_weight)
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
        raise ValueError(f"sample_weight is zero in all {n} rows: there is nothing to fit.")
    return weight


def read_targets(estimator: Any, y: Any, n: int) -> np.ndarray:
    """Return targets (n, t), NaN where missing."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    if nw.dependencies.is_into_series(y):
        y = nw.from_native(y, series_only=True).to_frame().to_native()
    targets = y if is_frame(y) else _to_columns(y)
    values = np.asarray(to_matrix(targets), dtype=np.float64)
    if values.ndim != 2 or len(values) != n:
        raise ValueError(f"y has shape {values.shape}; X has {n} rows, and so must y.")
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argwhere(infinite)[0][0])
        raise ValueError(
            f"y contains infinity, first in row {row}. Replace it by NaN if it stands for a gap."
        )
    return values


def _to_columns(y: Any) -> Any:
    values = np.ma.asarray(y) if isinstance(y, np.ma.MaskedArray) else np.asarray(y)
    return values.reshape(-1, 1) if values.ndim == 1 else values


def _read_weight_values(sample_weight: Any) -> np.ndarray:
    if isinstance(sample_weight, np.ma.MaskedArray):
        sample_weight = np.ma.filled(sample_weight.astype(np.float64), np.nan)
    values = np.asarray(sample_weight)
    if values.dtype.kind == "O":
        cells = [np.nan if is_missing(value) else value for value in values.ravel()]
        values = np.asarray(cells).reshape(values.shape)
    if values.dtype.kind not in "biuf":
        found = show(values.ravel()[0]) if values.size else "nothing"
        raise ValueError(f"sample_weight must hold one number for each row; it holds {found}.")
    return values.astype(np.float64)


def _read_labels(X: Any) -> list[str]:
    """Return the columns' names as messages show them, after refusing names used twice."""
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)  # pyarrow, others
    labels = [repr(str(name)) if isinstance(name, str) else str(name) for name in names]
    places: dict[str, list[str]] = {}
    for position, label in enumerate(labels):
        places.setdefault(label, []).append(str(position))
    for label, positions in places.items():
        if len(positions) > 1:
            raise ValueError(
                f"The name {label} is used by {len(positions)} columns, at positions "
                f"{list_names(positions)}. Give every column its own name."
            )
    return labels


def _read_frame(X: Any, marks: Marks) -> np.ndarray:
    """Return the columns of a data frame as floats; null and NaN both mean missing."""
    labels = _read_labels(X)
    if hasattr(X, "iloc"):  # pandas allows names that are not text, narwhals does not
        X = X.set_axis([str(j) for j in range(len(labels))], axis=1)
    frame = nw.from_native(X, eager_only=True)
    if not labels:
        return np.empty((len(frame), 0))
    return np.column_stack(
        [
            _read_series(series, label, marks_at(marks, j))
            for j, (series, label) in enumerate(zip(frame.iter_columns(), labels, strict=True))
        ]
    )


def exceeds_float64(series: Any) -> bool:
    """Tell whether a column has whole numbers so large that float64 may have to round them."""
    if not series.dtype.is_integer() or series.null_count() == len(series):
        return False
    return not -LARGEST_EXACT <= series.min() <= series.max() <= LARGEST_EXACT


def _read_series(series: Any, label: str, marks: Marks) -> np.ndarray:
    dtype = series.dtype
    if series.null_count() == len(series):
        return np.full(len(series), np.nan)
    if exceeds_float64(series):  # pyarrow refuses to round
        cells = (np.nan if is_missing(value) else float(value) for value in series.to_list())
        return np.fromiter(cells, np.float64, len(series))
    if dtype.is_numeric() or dtype == nw.Boolean:
        floats: np.ndarray = series.cast(nw.Float64).to_numpy()
        return np.asarray(floats, dtype=np.float64)
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    if dtype in (nw.Object, nw.Unknown, nw.String):
        return _read_objects(values, f"column {label}", marks)
    row = series.is_null().to_list().index(False)
    example = ""
    if dtype.is_temporal():
        example = ", for example the days since a date"
    elif dtype in (nw.Categorical, nw.Enum):
        example = ", or name it in categorical_features"
    raise ValueError(
        f"Column {label} holds {str(dtype).split('(')[0]} values, not numbers; row {row} has "
        f"{show(values[row])}. Leave it out, or turn it into numbers first{example}."
    )


def _read_masked(X: np.ma.MaskedArray, marks: Marks) -> Any:
    """Return a masked array with NaN under the mask, whatever is hidden there."""
    mask = np.ma.getmaskarray(X)
    values = np.ma.getdata(X)
    if values.dtype.kind in "OUS":
        values = values.astype(object)
        values[mask] = None
        return to_matrix(values, marks)
    matrix = to_matrix(values)
    if matrix.dtype != np.float64 or np.shares_memory(matrix, values):
        matrix = matrix.astype(np.float64)
    matrix[mask] = np.nan
    return matrix


def _read_nested(X: Any) -> np.ndarray:
    """Return lists of rows as an array; rows of different lengths are refused."""
    try:
        array = np.asarray(X)
    except ValueError as error:
        lengths = [len(row) if hasattr(row, "__len__") else None for row in X]
        odd = next((i for i, n in enumerate(lengths) if n != lengths[0]), 0)
        raise ValueError(
            f"X could not be read as a table: row 0 has {lengths[0]} values, row {odd} has "
            f"{lengths[odd]}. Every row needs the same number; use NaN or None for gaps."
        ) from error
    # One text in a list of numbers turns them all into text: read them again as they are.
    return np.asarray(X, dtype=object) if array.dtype.kind in "US" else array


def _read_objects(values: np.ndarray, where: str, marks: Marks) -> np.ndarray:
    """Return objects as floats: None, the missing marks of pandas and `marks` become NaN.

    Where a text marks gaps, the numbers beside it are usually written as text too, and read.
    """
    values = np.array([None if is_mark(value, marks) else value for value in values], object)
    _refuse_text(values, where, numbers_too=not marks.texts)
    result = np.empty(len(values))
    for i, value in enumerate(values):
        if is_missing(value):
            result[i] = np.nan
            continue
        try:
            if isinstance(value, complex | np.complexfloating):  # float() would drop a part
                raise TypeError("complex data is not supported")
            result[i] = float(value)
        except OverflowError:
            result[i] = np.inf if value > 0 else -np.inf
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Row {i}, {where}: {show(value)} is not a number ({error}). Leave the column "
                "out, or turn it into numbers first."
            ) from error
    return result


def _refuse_text(values: np.ndarray, where: str, *, numbers_too: bool) -> None:
    """Raise an error about the first text among the values that is not even a written number.

    Written numbers are refused as well if `numbers_too`.
    """
    texts = [(i, value) for i, value in enumerate(values) if isinstance(value, str | bytes)]
    if not texts:
        return
    strange = next(((i, value) for i, value in texts if not _is_written_number(value)), None)
    if strange is None:
        if not numbers_too:
            return
        row, value = texts[0]
        advice = "Convert the column first, for example with pandas.to_numeric."
    else:
        row, value = strange
        advice = (
            "If it marks a gap, replace it by NaN, for example with pandas.to_numeric(column, "
            "errors='coerce'). Otherwise name the column in categorical_features if it is a "
            "category, or leave it out."
        )
    raise ValueError(f"Row {row}, {where}: {show(value)} is text, not a number. {advice}")


def _refuse_other_containers(X: Any) -> None:
    """Raise an error for series and lazy frames, which are easily turned into tables."""
    if nw.dependencies.is_into_series(X):
        raise ValueError(
            f"Expected a table with rows and columns, got a {type(X).__name__}, which has one "
            "dimension. Pass X.to_frame() if it is one column; to use one row of a data frame, "
            "select it with a list, as in frame.iloc[[0]]."
        )
    if isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        method = "collect" if hasattr(X, "collect") else "compute"
        raise TypeError(f"X is a {type(X).__name__}, which holds no values yet: pass X.{method}().")


def _suggest_reader(X: Any) -> str:
    if isinstance(X, str | bytes | PurePath):
        return ": read the file first, for example with pandas.read_csv(X)"
    if hasattr(X, "__next__"):
        return ", for example list(X)"
    rows_are_records = isinstance(X, list | tuple) and X and isinstance(X[0], dict)
    if isinstance(X, dict | np.ndarray) or rows_are_records:
        return ", for example pandas.DataFrame(X)"
    return ""


def _refuse_infinite(x: np.ndarray, labels: Sequence[str]) -> None:
    largest = max(np.fmax.reduce(x, axis=None), -np.fmin.reduce(x, axis=None))  # NaN if all are
    if largest > LARGEST_VALUE:
        outside = np.abs(x) > LARGEST_VALUE
        row, column = (int(i) for i in np.argwhere(outside)[0])
        n_cells = int(outside.sum())
        raise ValueError(
            f"X contains infinity or a number beyond {LARGEST_VALUE:g} in {n_cells} "
            f"cell{'s' if n_cells > 1 else ''}, first in row {row}, column {labels[column]} "
            f"({x[row, column]:g}). Replace it by NaN if it stands for a gap, or change the "
            "column's units."
        )


def _to_float64(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # too large becomes infinite, and is refused with its place
        return array.astype(np.float64)


def _is_written_number(value: str | bytes) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
