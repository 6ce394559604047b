"""Columns of categories as the user has them: which they are, their levels, codes and back.

In a matrix a category is the number of its level in `categories_`, NaN where it is missing. A level
that was not there in training is missing to the mixture, and stays as it is in what is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from sklearn.utils.validation import validate_data

from gapmix.categories import RARE_ROWS
from gapmix.estimators.marks import (
    DOUBTFUL_LEVELS,
    USUAL_MARKS,
    Marks,
    gap_test,
    marks_at,
    show,
)
from gapmix.estimators.warning import warn_user
from gapmix.wording import Advised, list_names

MOST_LEVELS = 50  # a column of more is not taken for a category unless it is named as one,
FEW_LEVELS = 10  # nor one of more than so many, if it has
LEVELS_PER_ROW = 0.5  # more levels than this for each value: these are names of rows
SLIPS = 0.05  # of the values of a column of numbers that may be other texts by mistake

IsGap = Callable[[Any], bool]


def find_categories(
    estimator: Any, X: Any, marks: Marks, labels: list[str] | None, *, reset: bool
) -> tuple[Any, np.ndarray, list[np.ndarray]]:
    """Return X, which of its columns are categories, (d,), and their levels.

    With `reset` they are found, otherwise they are those of the fit. X is a frame or has been made
    an array if there are any.
    """
    none = np.zeros(0, dtype=bool)
    if not reset:
        chosen, categories = getattr(estimator, "is_categorical_", none), []
        if chosen.any():
            categories = estimator.categories_
            if labels is None:
                X = to_objects(X)
                validate_data(estimator, X, reset=False, skip_check_array=True)
        return X, chosen, categories
    asked = getattr(estimator, "categorical_features", None)
    if asked is None or (labels is None and isinstance(asked, str) and asked == "from_dtype"):
        return X, none, []
    if labels is None:
        X = to_objects(X)
        labels = [str(j) for j in range(X.shape[1])]
    chosen = find_categorical(X, asked, marks, len(labels))
    named = not isinstance(asked, str)
    columns = np.flatnonzero(chosen).tolist()
    categories = [
        find_levels(X, j, labels[j], gap_test(marks_at(marks, j)), named=named) for j in columns
    ]
    if columns and not named:
        types = [series.dtype for series in columns_of(X)]
        for j, levels in zip(columns, categories, strict=True):
            if types[j] in (nw.String, nw.Object):
                _warn_of_answers([str(level) for level in levels.tolist()], labels[j])
    return X, chosen, categories


def _warn_of_answers(levels: list[str], label: str) -> None:
    """Warn of a column of numbers that is a category for the texts among them."""
    if are_mostly_numbers(levels):
        texts = [repr(level) for level in levels if not is_numeral(level)]
        warn_user(
            f"Column {label} has numbers and texts ({list_names(texts, 3)}) and is used as a "
            "category. If it should be numbers, replace the texts, for example by "
            "pandas.to_numeric(column, errors='coerce')."
        )


def find_categorical(X: Any, asked: Any, marks: Marks, d: int) -> np.ndarray:
    """Return True for the columns that are categories, (d,), as `categorical_features` asks."""
    if isinstance(asked, str) and asked == "from_dtype":
        if not is_frame(X):
            return np.zeros(d, dtype=bool)
        tests = [gap_test(marks_at(marks, j)) for j in range(d)]
        pairs = zip(columns_of(X), tests, strict=True)
        return np.array([_is_category(series, is_gap) for series, is_gap in pairs], dtype=bool)
    names = list(X.column_names if hasattr(X, "column_names") else X.columns) if is_frame(X) else []
    return choose_columns(asked, names, d)


def choose_columns(asked: Any, names: list[Any], d: int) -> np.ndarray:
    """Return True for the columns that are named, numbered or masked, (d,); None is none."""
    chosen = np.zeros(d, dtype=bool)
    if asked is None:
        return chosen
    if isinstance(asked, str):
        raise ValueError(
            f"categorical_features={asked!r} is not known. Use 'from_dtype', a list of names "
            "or numbers of columns, a mask, or None."
        )
    wanted = np.asarray(asked).reshape(-1)
    if wanted.dtype == bool:
        if len(wanted) != d:
            raise ValueError(
                f"categorical_features is a mask of {len(wanted)} columns; X has {d} columns."
            )
        return wanted
    for each in asked if isinstance(asked, list | tuple | set) else wanted.tolist():
        if each in names:
            chosen[names.index(each)] = True
        elif isinstance(each, Integral) and 0 <= int(each) < d:
            chosen[int(each)] = True
        else:
            raise ValueError(
                f"categorical_features names the column {each!r}, but X has no such column. It has "
                f"{list_names([repr(name) for name in names]) if names else f'0 to {d - 1}'}."
            )
    return chosen


def _is_category(series: Any, is_gap: IsGap) -> bool:
    """Tell by the type of a column, of objects by the values, whether it is a category."""
    dtype = series.dtype
    if series.null_count() == len(series):
        return False
    if dtype in (nw.Boolean, nw.Categorical, nw.Enum):
        return True
    if dtype not in (nw.String, nw.Object, nw.Unknown):
        return False
    distinct = set()
    for value in (series.unique() if dtype == nw.String else series).to_list():
        if is_gap(value):
            continue
        if not isinstance(value, str | bool | np.bool_ | int | float):
            return False
        distinct.add(value)
    if any(isinstance(value, str) for value in distinct):
        # Numbers written as text are told to be so, with the marks of gaps among them.
        return not are_numbers([str(value) for value in distinct])
    return bool(distinct) and all(isinstance(value, bool | np.bool_) for value in distinct)


def are_numbers(texts: Collection[str]) -> bool:
    """Tell whether distinct texts are numbers, apart from slips and marks of gaps among them.

    Codes such as 02139 are not, nor answers such as 0, 1, 2 and 3+.
    """
    return are_mostly_numbers(texts) and not has_answers(texts)


def are_mostly_numbers(texts: Collection[str]) -> bool:
    """Tell whether at least half of some texts are numbers, and not codes that look like these."""
    mostly = bool(texts) and 2 * sum(map(is_numeral, texts)) >= len(texts)
    return mostly and not are_padded(texts)


def has_answers(texts: Collection[str]) -> bool:
    """Tell whether a few distinct texts, mostly numbers, have others with a meaning among them."""
    n_answers = sum(not is_numeral(text) and not _marks_gaps(text) for text in texts)
    return len(texts) <= MOST_LEVELS and n_answers > SLIPS * len(texts)


def _marks_gaps(text: str) -> bool:
    """Tell whether a text among numbers probably stands for a gap."""
    bare = text.strip().lower()
    usual = bare in USUAL_MARKS or bare in DOUBTFUL_LEVELS
    return usual or not any(map(str.isalnum, bare))


def are_padded(texts: Collection[str]) -> bool:
    """Tell whether texts are codes such as 02139, for which zeros before a number speak.

    These codes are all of one length, or half of all texts have such zeros.
    """
    texts = [text.strip() for text in texts]
    n_padded = sum(text.isdecimal() and text[0] == "0" and len(text) > 1 for text in texts)
    if not n_padded:
        return False
    lengths = {len(text) for text in texts if text.isdecimal()}
    return len(lengths) == 1 or 2 * n_padded >= len(texts)


def is_numeral(text: str) -> bool:
    """Tell whether a text is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def find_levels(X: Any, column: int, label: str, is_gap: IsGap, *, named: bool) -> np.ndarray:
    """Return the levels that a column shows: in the order of its type, or sorted.

    A column of very many levels is refused, unless it was named as a category.
    """
    distinct, n = _distinct(X, column, label, is_gap)
    return order_levels(distinct, n, label, _declared(X, column), named=named)


def order_levels(
    distinct: list[Any],
    n: int,
    label: str,
    order: list[Any] | None = None,
    *,
    named: bool,
) -> np.ndarray:
    """Return distinct values of a column, shown by `n` rows, as levels; see `find_levels`."""
    n_levels = len(distinct)
    if n_levels == 0:
        raise ValueError(f"Column {label} is to be a category and has no value at all.")
    if too_many_levels(n_levels, n) and not named:
        raise ValueError(
            f"Column {label} has {n_levels} distinct values in {n} rows, like "
            f"{distinct[0]!r}: too many for a category. Leave it out, or name it in "
            "categorical_features if it is one."
        )
    if any(map(is_infinite, distinct)):
        raise ValueError(f"Column {label} is to be a category and holds an infinite number.")
    if order is not None:
        distinct = [value for value in order if value in set(distinct)]
    else:
        try:
            distinct.sort()
        except TypeError:
            distinct.sort(key=lambda value: (type(value).__name__, str(value)))
    return to_array(distinct)


def too_many_levels(n_levels: int, n: int) -> bool:
    """Tell whether so many distinct values among `n` name rows rather than kinds."""
    return n_levels > MOST_LEVELS or (n_levels > FEW_LEVELS and n_levels > LEVELS_PER_ROW * n)


def _distinct(X: Any, column: int, label: str, is_gap: IsGap) -> tuple[list[Any], int]:
    """Return the distinct values of a column that are no gaps, and how many cells hold them."""
    stored = stored_codes(X, column)
    if stored is not None:
        counts = np.bincount(stored.codes + 1, minlength=len(stored.values) + 1)[1:]
        held = [j for j in np.flatnonzero(counts) if not is_gap(stored.values[j])]
        return [stored.values[j] for j in held], int(counts[held].sum())
    known = [value for value in values_of(X, column) if not is_gap(value)]
    try:
        return list(dict.fromkeys(known)), len(known)
    except TypeError as error:
        raise TypeError(f"Column {label} holds values that cannot be levels: {error}.") from error


def is_infinite(level: Any) -> bool:
    """Tell whether a level is a number beyond all others, which no table means."""
    return isinstance(level, float) and math.isinf(level)


def _declared(X: Any, column: int) -> list[Any] | None:
    if not is_frame(X):
        return None
    if hasattr(X, "iloc"):
        categories = getattr(X.dtypes.iloc[column], "categories", None)
        return None if categories is None else list(categories.tolist())
    dtype = columns_of(X)[column].dtype
    return list(dtype.categories) if isinstance(dtype, nw.Enum) else None


def encode(
    X: Any, column: int, levels: np.ndarray, label: str, is_gap: IsGap, *, tell: bool
) -> np.ndarray:
    """Return the codes of a column (n,), NaN where it is missing or not a known level."""
    stored = stored_codes(X, column)
    if stored is None:
        codes, strange = _encode_values(values_of(X, column), levels, label, is_gap)
    else:
        codes, strange = _encode_stored(stored, levels, is_gap)
    if strange and tell:
        warn_user(tell_unknown(label, sum(strange.values()), list(strange)))
    return codes


def tell_unknown(label: str, n: int, levels: Sequence[Any] = ()) -> str:
    """Return what is said of rows that show levels which were not there in training."""
    named = f" ({list_names([repr(level) for level in levels])})" if levels else ""
    return (
        f"Column {label}: {n} row{'s have' if n > 1 else ' has'} a level not seen in training"
        f"{named}. It is kept, and treated as missing."
    )


def _encode_values(
    values: Sequence[Any], levels: np.ndarray, label: str, is_gap: IsGap
) -> tuple[np.ndarray, dict[Any, int]]:
    """Return the codes of values, and how often those occur that are no level."""
    place = {level: float(code) for code, level in enumerate(levels.tolist())}
    codes = np.full(len(values), np.nan)
    strange: dict[Any, int] = {}
    for i, value in enumerate(values):
        if is_gap(value):
            continue
        try:
            code = place.get(value)
        except TypeError as error:
            raise TypeError(
                f"Column {label}, row {i}: {show(value)} cannot be a level ({error})."
            ) from error
        if code is None:
            strange[value] = strange.get(value, 0) + 1
        else:
            codes[i] = code
    return codes, strange


class Stored(NamedTuple):
    """A column as codes, and what they stand for."""

    codes: np.ndarray  # (n,) places in `values`, -1 where missing
    values: list[Any]


def stored_codes(X: Any, column: int) -> Stored | None:
    """Return the codes by which a frame stores texts or categories, None if it keeps no codes."""
    if not is_frame(X):
        return None
    if hasattr(X, "iloc"):
        cells = X.iloc[:, column]
        if not hasattr(cells, "cat"):
            return None
        return Stored(np.asarray(cells.cat.codes, dtype=int), cells.cat.categories.tolist())
    series = columns_of(X)[column]
    dtype = series.dtype
    if not series.implementation.is_polars():
        return None
    if dtype in (nw.String, nw.Categorical):
        values = series.unique().drop_nulls().cast(nw.String).to_list()
        series = series.cast(nw.String).cast(nw.Enum(values))
    elif isinstance(dtype, nw.Enum):
        values = list(dtype.categories)
    else:
        return None
    codes = series.to_native().to_physical().cast(int).fill_null(-1).to_numpy()
    return Stored(codes, values)


def _encode_stored(
    stored: Stored, levels: np.ndarray, is_gap: IsGap
) -> tuple[np.ndarray, dict[Any, int]]:
    """Return what `_encode_values` returns, from stored codes: each distinct value is met once."""
    place = {level: float(code) for code, level in enumerate(levels.tolist())}
    known = [not is_gap(value) for value in stored.values]
    table = [
        place.get(value, np.nan) if there else np.nan
        for value, there in zip(stored.values, known, strict=True)
    ]
    codes = np.array([*table, np.nan])[stored.codes]
    counts = np.bincount(stored.codes + 1, minlength=len(table) + 1)[1:]
    strange = {
        value: int(counts[j])
        for j, value in enumerate(stored.values)
        if counts[j] and known[j] and value not in place
    }
    return codes, strange


def decode(
    X: Any, filled: np.ndarray, categories: Sequence[np.ndarray], columns: np.ndarray, marks: Marks
) -> np.ndarray:
    """Return a filled matrix (..., n, D) as objects: levels for codes, known cells as they were."""
    result = filled.astype(object)
    for column, levels in zip(np.flatnonzero(columns).tolist(), categories, strict=True):
        codes, is_gap = filled[..., column], gap_test(marks_at(marks, column))
        result[..., column] = to_levels(codes, levels)
        if X is None:
            continue
        for i, value in enumerate(values_of(X, int(column))):
            if not is_gap(value):
                result[..., i, column] = value
    return result


def to_levels(codes: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the levels of codes, as objects; NaN where there is none."""
    named = np.empty(len(levels) + 1, dtype=object)
    named[:-1] = levels.tolist()
    named[-1] = np.nan
    found: np.ndarray = named[np.where(np.isnan(codes), -1, codes).astype(int)]
    return found


def to_array(values: list[Any]) -> np.ndarray:
    """Return levels as an array, of objects unless they are all numbers or all True and False."""
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "biuf":
        return array
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def is_frame(X: Any) -> bool:
    """Tell whether X is a data frame of a kind that narwhals reads."""
    return not isinstance(X, np.ndarray | list | tuple) and nw.dependencies.is_into_dataframe(X)


def columns_of(X: Any) -> list[Any]:
    """Return the columns of a data frame as series of narwhals."""
    if hasattr(X, "iloc"):  # pandas allows names that are not text, narwhals does not
        X = X.set_axis([str(j) for j in range(X.shape[1])], axis=1)
    frame = nw.from_native(X, eager_only=True)
    return list(frame.iter_columns())


def values_of(X: Any, column: int) -> list[Any]:
    """Return the values of one column as Python's own objects."""
    if is_frame(X):
        if hasattr(X, "iloc"):
            return list(X.iloc[:, column].tolist())
        return list(columns_of(X)[column].to_list())
    if isinstance(X, np.ndarray):  # masked cells come out as None
        return list(X[:, column].tolist())
    return [row[column] for row in X]


def to_objects(X: Any) -> Any:
    """Return an array of objects, or a masked one, from what is no frame."""
    if isinstance(X, np.ndarray):
        array: np.ndarray = X
    else:
        array = np.asarray(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"Expected a table with rows and columns; X has shape {array.shape}.")
    return array


def count_levels(estimator: Any) -> np.ndarray | None:
    """Return the number of levels of each column, 0 for numbers; None without categories."""
    if not estimator.categories_:
        return None
    n_levels = np.zeros(len(estimator.is_categorical_), dtype=int)
    n_levels[estimator.is_categorical_] = [len(levels) for levels in estimator.categories_]
    return n_levels


def dict_levels(estimator: Any) -> dict[int, np.ndarray]:
    """Return the levels of the columns that are categories, by their numbers."""
    columns = np.flatnonzero(estimator.is_categorical_).tolist()
    return dict(zip(columns, estimator.categories_, strict=True))


def pick_levels(categories: Sequence[np.ndarray], which: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return some levels of each category, those that are True in (L_j,); () is none of any."""
    if not which:
        return [levels[:0] for levels in categories]
    return [levels[each] for levels, each in zip(categories, which, strict=True)]


def warn_of_rare(mixtures: Sequence[Any], names: list[str], *, of: str = "") -> None:
    """Warn about categories whose rare levels components do not tell apart."""
    columns = np.flatnonzero(mixtures[0].is_categorical_).tolist()
    for place, (j, levels) in enumerate(zip(columns, mixtures[0].categories_, strict=True)):
        rare = {level for each in mixtures for level in each.rare_levels_[place].tolist()}
        if rare:
            fact = (
                f"Column {names[j]}: {len(rare)} of its {len(levels)} levels are in fewer than "
                f"{RARE_ROWS:g} rows{of} each. Every component gives them one joint probability, "
                "split as in all rows."
            )
            warn_user(Advised(fact, "rare_levels_", "rare_levels_ lists them."))


def only_numbers(estimator: Any, x: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return the columns of numbers and their names."""
    if not estimator.categories_:
        return x, names
    columns = np.flatnonzero(~estimator.is_categorical_)
    return x[:, columns], [names[j] for j in columns]
