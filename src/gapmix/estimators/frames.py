"""Data frames with their gaps filled: observed cells stay what they were, whatever their type."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from numbers import Integral, Real
from typing import Any

import narwhals as nw
import numpy as np

from gapmix.estimators.levels import is_frame, to_levels
from gapmix.estimators.marks import NO_MARKS, Marks, gap_test, marks_at
from gapmix.estimators.validation import exceeds_float64

DIGITS = Context(prec=100)


def fill_frame(
    X: Any,
    x: np.ndarray,
    filled: np.ndarray,
    levels: dict[int, np.ndarray] | None = None,
    marks: Marks = NO_MARKS,
) -> Any:
    """Return the data frame with the gaps of `x` (n, d) taken from `filled`.

    Columns keep their types. Only one of integers whose gaps get other numbers becomes one of
    float64, if that holds all of its values; if not (beyond 2^53), what is filled in is rounded.

    `levels` are those of the columns that are categories, whose codes `x` and `filled` hold. They
    keep their types, and all that is not a gap, also what is no known level.
    """
    levels = levels or {}
    if not is_frame(X):
        raise TypeError(
            f"Expected a pandas, polars or pyarrow data frame, got {type(X).__name__}. For arrays "
            "use transform."
        )
    gaps = np.isnan(x)
    places = np.flatnonzero(gaps.any(axis=0)).tolist()
    if hasattr(X, "iloc"):  # pandas allows names that are not text, narwhals does not
        result = X.copy()
        for j in places:
            series = nw.from_native(X.iloc[:, j], series_only=True)
            if j in levels:
                made = _fill_category(
                    series, to_levels(filled[:, j], levels[j]), marks_at(marks, j)
                )
            else:
                made = _fill_column(series, gaps[:, j], filled[:, j])
            result.isetitem(j, made if isinstance(made, np.ndarray) else made.to_native().array)
        return result
    frame = nw.from_native(X, eager_only=True)
    columns = []
    for j in places:
        name = frame.columns[j]
        if j in levels:
            made = _fill_category(
                frame[name], to_levels(filled[:, j], levels[j]), marks_at(marks, j)
            )
        else:
            made = _fill_column(frame[name], gaps[:, j], filled[:, j])
        if isinstance(made, np.ndarray):
            made = nw.new_series(name, made, nw.Float64, backend=frame.implementation)
        columns.append(made)
    return frame.with_columns(*columns).to_native() if columns else X


def _fill_column(series: Any, gaps: np.ndarray, filled: np.ndarray) -> Any:
    """Return a column with its gaps filled: an array (n,), or a series of the type it had."""
    known = _exact(series, gaps, filled)
    if not known:
        return filled
    rows = np.flatnonzero(gaps)
    values: Any = _round(filled[rows].tolist(), known, series.dtype)
    native = series.to_native()
    if series.implementation.is_polars():  # older versions cannot scatter decimals
        polars = series.implementation.to_native_namespace()
        whole = np.full(len(gaps), None)
        whole[rows] = values
        made = polars.Series(whole.tolist(), dtype=native.dtype)
        return nw.from_native(native.zip_with(polars.Series(~gaps), made), series_only=True)
    if hasattr(native, "chunks"):  # pyarrow replaces by values of the same type only
        arrow = series.implementation.to_native_namespace()
        typed = arrow.chunked_array([arrow.array(values, type=native.type)])
        values = nw.from_native(typed, series_only=True)
    elif isinstance(native.dtype, np.dtype) and native.dtype.kind == "f":
        values = np.array(values, dtype=native.dtype)  # pandas refuses to round them itself
    return series.scatter(rows.tolist(), values)


def _fill_category(series: Any, values: np.ndarray, marks: Marks) -> Any:
    """Return a category with its gaps taken from levels (n,), a series of the type it had."""
    shown, is_gap = series.to_list(), gap_test(marks)
    rows = [i for i, value in enumerate(shown) if is_gap(value)]
    native = series.to_native()
    if hasattr(native, "iloc"):
        native = native.copy()
        if hasattr(native, "cat"):  # pandas has no place for levels that it was not told of
            known = set(native.cat.categories)
            new = [level for level in dict.fromkeys(values[rows]) if level not in known]
            native = native.cat.add_categories(new)
        native.iloc[rows] = values[rows].tolist()
        return nw.from_native(native, series_only=True)
    for i in rows:
        shown[i] = values[i]
    # Through text: narwhals before 2.28 cannot make categories of pyarrow from a list.
    words = nw.String if series.dtype == nw.Categorical else series.dtype
    made = nw.new_series(series.name, shown, words, backend=series.implementation)
    return made if words == series.dtype else made.cast(series.dtype)


def _exact(series: Any, gaps: np.ndarray, filled: np.ndarray) -> list[Any]:
    """Return the observed values of a column that keeps its type, nothing if float64 will do."""
    dtype, native = series.dtype, series.to_native()
    nullable = hasattr(native, "iloc") and native.dtype != np.float64  # pandas has several
    if dtype == nw.Float64 and not nullable:
        return []
    if dtype == nw.Boolean or not dtype.is_numeric():
        values = [value for value, gap in zip(series.to_list(), gaps, strict=True) if not gap]
        return [] if all(map(_is_held, values)) else values
    new = filled[gaps]
    if dtype.is_integer() and not exceeds_float64(series) and (new != np.round(new)).any():
        return []
    return [value for value, gap in zip(series.to_list(), gaps, strict=True) if not gap]


def _is_held(value: Any) -> bool:
    """Tell whether float64 holds a value: all of a number, or all digits of a decimal."""
    if isinstance(value, Decimal):
        return Decimal(repr(float(value))) == value
    return not isinstance(value, Real) or bool(float(value) == value)


def _round(values: Sequence[float], known: Sequence[Any], dtype: Any) -> list[Any]:
    """Return values in the manner of those that are known: whole numbers, decimals as long."""
    if all(isinstance(value, Decimal) for value in known):
        last = min(int(value.as_tuple().exponent) for value in known)
        unit = Decimal(1).scaleb(last)
        return [Decimal(repr(value)).quantize(unit, context=DIGITS) for value in values]
    if not all(isinstance(value, Integral) for value in known):
        return list(values)
    whole = [round(value) for value in values]
    if not dtype.is_integer():
        return whole
    signed = dtype.is_signed_integer()
    n_bits = int(str(dtype).removeprefix("U").removeprefix("Int"))
    low = -(2 ** (n_bits - 1)) if signed else 0
    high = 2 ** (n_bits - signed) - 1
    return [min(max(value, low), high) for value in whole]
