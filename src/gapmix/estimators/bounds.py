"""What users declare of columns: bounds `{column: (low, high)}`, kinds `{column: kind}`."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from gapmix.kinds import (
    ANY,
    CATEGORY,
    CONSTANT,
    DECLARED,
    EMPTY,
    NUMBER,
    POSITIVE,
    SHARE,
    TWO_VALUED,
    WHOLE,
    ColumnValues,
    tell,
)
from gapmix.wording import list_names


def read_bounds(
    bounds: Any, names: list[str], feature_names: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest value allowed in each column, infinite where there is no limit.

    Columns are given by name, or by number if the table has no names or the number is not one.
    """
    d = len(names)
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    if bounds is None:
        return low, high
    if not isinstance(bounds, dict):
        raise ValueError(
            f"bounds must be a dict from column to (low, high); it is {type(bounds).__name__}."
        )
    for column, limits in bounds.items():
        place = find_column("bounds", column, d, feature_names)
        low[place], high[place] = _read_limits(column, limits)
    return low, high


def find_column(option: str, column: Any, d: int, feature_names: np.ndarray | None) -> int:
    """Return the number of a column that a user names, or numbers, in an option."""
    if feature_names is not None:
        found = np.flatnonzero(feature_names == column)
        if found.size:
            return int(found[0])
    whole = isinstance(column, Integral) and not isinstance(column, bool)
    if whole and 0 <= int(column) < d:
        return int(column)
    known = "0 to " + str(d - 1) if feature_names is None else ", ".join(map(repr, feature_names))
    raise ValueError(
        f"{option} name the column {column!r}, but the table has no such column. It has {known}."
    )


def _read_limits(column: Any, limits: Any) -> tuple[float, float]:
    wrong = ValueError(
        f"bounds of column {column!r} are {limits!r}; they must be two numbers (low, high) with "
        "low <= high, None for no limit."
    )
    if not isinstance(limits, tuple | list) or len(limits) != 2:
        raise wrong
    if any(not (end is None or isinstance(end, Real)) for end in limits):
        raise wrong
    low = -np.inf if limits[0] is None else float(limits[0])
    high = np.inf if limits[1] is None else float(limits[1])
    if not low <= high:
        raise wrong
    return low, high


def read_limits(limits: Any) -> bool:
    """Tell whether filled values stay within the range seen."""
    if limits is None:
        return False
    if not isinstance(limits, str) or limits != "seen":
        raise ValueError(
            f"limits={limits!r} is not known. Use 'seen' or None; for limits of your own, bounds."
        )
    return True


def read_kinds(
    asked: Any, seen: Sequence[ColumnValues], categorical: np.ndarray, names: np.ndarray | None
) -> list[str]:
    """Return the kind of each column: as it looks, or as `column_kinds` declares it."""
    kinds = [
        CATEGORY if is_category else tell(each)
        for each, is_category in zip(seen, categorical, strict=True)
    ]
    if isinstance(asked, str) and asked == "auto":
        return kinds
    if not isinstance(asked, dict):
        raise ValueError(
            f"column_kinds={asked!r} is not known. Use 'auto', or a dict from column to one of "
            f"{', '.join(map(repr, DECLARED))}."
        )
    for column, kind in asked.items():
        j = find_column("column_kinds", column, len(kinds), names)
        wrong = _why_not(kind, kinds[j], seen[j])
        if wrong:
            raise ValueError(f"column_kinds={{{column!r}: {kind!r}}} does not work: {wrong}")
        kinds[j] = kind
    return kinds


def _why_not(kind: Any, found: str, seen: ColumnValues) -> str:
    """Return why a column cannot be of the kind declared, nothing if it can."""
    if found == CATEGORY:
        return (
            ""
            if kind == CATEGORY
            else "the column is a category. Use categorical_features instead."
        )
    if kind == CATEGORY:
        return "to make it a category, name it in categorical_features."
    if not isinstance(kind, str) or kind not in DECLARED:
        return f"there is no such kind. Use one of {list_names([*map(repr, DECLARED)])}."
    if found in (CONSTANT, EMPTY):
        return ""
    if kind == WHOLE and seen.decimals != 0:
        return f"not all values are whole numbers below 2^53; {_shown(seen)}."
    if kind == TWO_VALUED and (seen.values is None or len(seen.values) != 2):
        return f"the column does not have two values; {_shown(seen)}."
    if kind == SHARE and not 0 <= seen.low <= seen.high <= 1:
        return f"the values go from {seen.low:g} to {seen.high:g}."
    if kind == POSITIVE and seen.low < 0:
        return f"the smallest value is {seen.low:g}."
    return ""


def _shown(seen: ColumnValues) -> str:
    if seen.values is None:
        return f"they go from {seen.low:g} to {seen.high:g}"
    return f"it has {list_names([f'{value:g}' for value in seen.values], 6)}"


def find_constants(x: np.ndarray) -> np.ndarray:
    """Return the value of columns whose observed values are all the same, NaN for others, (d,)."""
    observed = ~np.isnan(x)
    low = np.min(x, axis=0, initial=np.inf, where=observed)
    high = np.max(x, axis=0, initial=-np.inf, where=observed)
    return np.where(low == high, low, np.nan)


def store_columns(imputer: Any, seen: tuple[ColumnValues, ...] | None) -> None:
    """Let an imputer know what its columns show, and so what they are."""
    names = getattr(imputer, "feature_names_in_", None)
    d, is_categorical = imputer.n_features_in_, imputer.is_categorical_
    values = (ColumnValues(),) * d if seen is None else seen
    kinds = read_kinds(imputer.column_kinds, values, is_categorical, names)
    declared = set()
    if isinstance(imputer.column_kinds, dict):
        declared = {find_column("column_kinds", each, d, names) for each in imputer.column_kinds}
    # A column that was called numbers may have others than those it shows.
    imputer.column_values_ = tuple(
        each._replace(decimals=ANY, values=None)
        if each.n and j in declared and kinds[j] in (NUMBER, SHARE, POSITIVE)
        else each
        for j, each in enumerate(values)
    )
    if seen is None:  # nothing is known of the rows
        kinds = [NUMBER if kind == EMPTY else kind for kind in kinds]
    keys = range(d) if names is None else names.tolist()
    imputer.column_kinds_ = dict(zip(keys, kinds, strict=True))
    constant = [each.low if each.low == each.high else np.nan for each in imputer.column_values_]
    imputer.constant_ = np.array(constant)


def find_limits(imputer: Any, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest value that an imputer's bounds allow in each column."""
    low, high = read_bounds(imputer.bounds, names, getattr(imputer, "feature_names_in_", None))
    limited = imputer.is_categorical_ & (np.isfinite(low) | np.isfinite(high))
    if limited.any():
        raise ValueError(
            f"bounds name the column {names[int(limited.argmax())]}, which is a category."
        )
    return low, high
