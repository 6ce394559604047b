"""Columns of a data frame that are no part of the model: ids, texts, and dates unless asked for.

They are left out before a frame is read, and come back untouched where a frame is filled. Dates
that are asked for (`column_kinds={column: "number"}`) are microseconds since 1970 in between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np

from gapmix.estimators.levels import (
    SLIPS,
    are_padded,
    choose_columns,
    columns_of,
    is_frame,
    is_numeral,
    too_many_levels,
)
from gapmix.estimators.marks import gap_test, marks_at, read_marks
from gapmix.estimators.warning import warn_user
from gapmix.wording import count, list_names

ID, DATE, TEXT = "id", "date", "text"
NAMES_ROWS = 0.9  # a column with this share of distinct values is an id
DAY = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ].*)?\s*")
DAY_LENGTH = 86_400_000_000  # microseconds
BY_COLUMN = ("missing_values", "bounds", "column_kinds", "shapes")  # parameters
WORDS = {ID: "an id", DATE: "dates", TEXT: "texts"}


def find_passed(imputer: Any, X: Any) -> dict[Any, str]:
    """Return the columns of a frame that are no part of the model, and what they are.

    Those with gaps are named in a warning.
    """
    if not is_frame(X) or len(set(_names(X))) < len(_names(X)):  # doubles are refused later
        return {}
    names = _names(X)
    marks = read_marks(
        imputer.missing_values, np.array([*names, None], dtype=object)[:-1], len(names)
    )
    told = imputer.column_kinds if isinstance(imputer.column_kinds, dict) else {}
    asked = imputer.categorical_features
    by_type = isinstance(asked, str) and asked == "from_dtype"
    named = choose_columns(None if by_type else asked, names, len(names))
    passed, left = {}, []
    for j, (name, series) in enumerate(zip(names, columns_of(X), strict=True)):
        is_gap = gap_test(marks_at(marks, j))
        kind = None if named[j] or name in told else _judge(series, is_gap, texts=asked is not None)
        if kind is None:
            continue
        passed[name] = kind
        values = [value for value in series.to_list() if not is_gap(value)]
        if kind in (ID, TEXT):
            _warn_of_torn(values, name)
        n_gaps = len(series) - len(values)
        if n_gaps:
            left.append(f"{name!r} ({WORDS[kind]}; {count(n_gaps, 'gap')} left)")
    if 0 < len(names) == len(passed):
        listed = [f"{name!r} ({WORDS[kind]})" for name, kind in passed.items()]
        raise ValueError(
            f"X has no column to learn from: {list_names(listed, 8)}. To use a column as a "
            "category, name it in categorical_features."
        )
    if passed:
        _refuse_numbers(imputer, names, passed)
    if left:
        dates = ""
        if DATE in passed.values():
            dates = ' To fill dates, use column_kinds={column: "number"}.'
        warn_user(
            f"Passed through, not filled: {list_names(left, 8)}. To fill a column as a category, "
            f"name it in categorical_features.{dates}"
        )
    return passed


def _refuse_numbers(imputer: Any, names: list[Any], passed: dict[Any, str]) -> None:
    """Raise an error if a parameter names columns by number, which passed ones would shift."""
    given = {name: getattr(imputer, name) for name in BY_COLUMN}
    keys = {name: [*told] for name, told in given.items() if isinstance(told, dict)}
    if imputer.categorical_features is not None:
        asked = np.asarray(imputer.categorical_features, dtype=object)
        keys["categorical_features"] = asked.ravel().tolist()
    kept = f"{count(len(passed), 'column')} ({list_names([*map(repr, passed)], 3)})"
    for name, listed in keys.items():
        if any(isinstance(each, Integral | np.bool_) and each not in names for each in listed):
            raise ValueError(
                f"{name} refers to columns by number, but the model leaves out {kept} of the "
                "table, so it is not clear which columns are meant. Use names."
            )


def _judge(series: Any, is_gap: Any, *, texts: bool) -> str | None:
    """Return what a column is that is no part of the model, None if it is."""
    if series.dtype in (nw.Date, nw.Datetime):
        return DATE
    if not texts or series.dtype not in (nw.String, nw.Object, nw.Categorical):
        return None
    values = [value for value in series.to_list() if not is_gap(value)]
    if not all(isinstance(value, str | float | int) for value in values):
        return None
    distinct = set(values)
    words = [value for value in distinct if isinstance(value, str)]
    if not words:
        return None
    n_days = sum(bool(DAY.fullmatch(text)) for text in words)
    many = too_many_levels(len(distinct), len(values))
    if n_days == len(distinct) or (many and n_days >= NAMES_ROWS * len(distinct)):
        return DATE
    n_others = sum(not is_numeral(text) for text in words)
    if not many or (n_others <= SLIPS * len(distinct) and not are_padded(words)):
        return None
    return ID if len(distinct) >= NAMES_ROWS * len(values) else TEXT


def _warn_of_torn(values: list[Any], name: Any) -> None:
    """Warn of a column that is passed through for some texts among many numbers."""
    texts = [value for value in values if isinstance(value, str)]
    others = [text for text in texts if not is_numeral(text)]
    if 2 * len(others) <= len(values) and not are_padded(texts):
        warn_user(
            f"Column {name!r} is mostly numbers, but {count(len(others), 'cell')} of it "
            f"{'is text' if len(others) == 1 else 'are texts'}, like {others[0]!r}. It is passed "
            "through and not used. If texts mark gaps, replace them by NaN, for example with "
            "pandas.to_numeric(column, errors='coerce'); if it is a category, name it in "
            "categorical_features."
        )


def _names(X: Any) -> list[Any]:
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def only_used(X: Any, passed: Mapping[Any, str]) -> Any:
    """Return a frame without the columns that are passed through, other dates as numbers."""
    if not is_frame(X) or len(set(_names(X))) < len(_names(X)):
        return X
    names, series = _names(X), columns_of(X)
    used = [j for j, name in enumerate(names) if name not in passed]
    dates = [j for j in used if series[j].dtype in (nw.Date, nw.Datetime)]
    if len(used) == len(names) and not dates:
        return X
    if hasattr(X, "iloc"):
        kept = X.iloc[:, used].copy()
        for j in dates:
            kept.isetitem(used.index(j), _to_numbers(series[j]))
        return kept
    frame = nw.from_native(X, eager_only=True).select([names[j] for j in used])
    made = [
        nw.new_series(names[j], _to_numbers(series[j]), nw.Float64, backend=frame.implementation)
        for j in dates
    ]
    return frame.with_columns(*made).to_native()


def _to_numbers(series: Any) -> np.ndarray:
    """Return dates as microseconds since 1970, NaN where missing."""
    moments = series.cast(nw.Datetime("us")) if series.dtype == nw.Date else series
    gaps = moments.is_null().to_list()
    cells = zip(moments.dt.timestamp("us").to_list(), gaps, strict=True)
    return np.array([np.nan if gap else float(value) for value, gap in cells])


def put_back(X: Any, filled: Any) -> Any:
    """Return the frame X with the columns that `only_used` left of it, filled."""
    names, series = _names(X), columns_of(X)
    done = dict(zip(_names(filled), columns_of(filled), strict=True))
    dates: dict[Any, Any] = {
        name: _fill_dates(each, np.asarray(done[name].to_numpy(), dtype=float))
        for name, each in zip(names, series, strict=True)
        if name in done and each.dtype in (nw.Date, nw.Datetime)
    }
    if hasattr(X, "iloc"):
        result = X.copy()
        for j, name in enumerate(names):
            if name in dates:
                result.isetitem(j, dates[name].to_native().array)
            elif name in done:
                result.isetitem(j, filled[name].array)
        return result
    frame = nw.from_native(X, eager_only=True)
    made = [dates[name].alias(name) if name in dates else column for name, column in done.items()]
    return frame.with_columns(*made).to_native()


def _fill_dates(series: Any, numbers: np.ndarray) -> Any:
    """Return dates with gaps taken from microseconds (n,): whole days where all that are known are.

    The type, with its time zone and unit, stays.
    """
    gaps = np.array(series.is_null().to_list())
    known = numbers[~gaps]
    unit = DAY_LENGTH if (known % DAY_LENGTH == 0).all() else 1
    whole = np.round(numbers[gaps] / unit) * unit
    new = nw.new_series("new", whole.astype(np.int64), nw.Int64, backend=series.implementation)
    dates = new.cast(nw.Datetime("us"))
    zone = getattr(series.dtype, "time_zone", None)
    if zone:
        dates = dates.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    return series.scatter(np.flatnonzero(gaps).tolist(), dates.cast(series.dtype))


def model_marks(imputer: Any) -> Any:
    """Return the `missing_values` of columns that are part of the model."""
    given = imputer.missing_values
    if not isinstance(given, dict):
        return given
    return {name: marks for name, marks in given.items() if name not in imputer.passed_}


def model_kinds(imputer: Any) -> dict[Any, str]:
    """Return the kinds of the columns that are part of the model."""
    passed = getattr(imputer, "passed_", {})
    return {name: kind for name, kind in imputer.column_kinds_.items() if name not in passed}
