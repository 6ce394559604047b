"""Columns of categories in pieces of a table: their values as codes of levels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gapmix.storage.extras import need

Levels = tuple[np.ndarray | None, ...]  # of each column, None for numbers; () if all are numbers


def to_rows(part: Any, levels: Levels = ()) -> np.ndarray:
    """Return a computed partition, an array or a pandas frame, as rows."""
    if not is_frame(part):
        return code_matrix(np.array(part, ndmin=2), levels)
    if not levels:
        part = part.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.array(part, dtype=np.float64, order="C", ndmin=2)
    x = np.empty((len(part), len(levels)))
    for j, known in enumerate(levels):
        column = part.iloc[:, j]
        if known is None:
            x[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            x[:, j] = code_values(list_values(column), known)
    return x


def is_frame(part: Any) -> bool:
    """Tell whether a computed partition is a data frame of pandas."""
    return hasattr(part, "iloc")


def code_matrix(x: np.ndarray, levels: Levels) -> np.ndarray:
    """Return rows as floats, with codes in place of levels; NaN for what is not one of these."""
    coded = np.array(x, dtype=np.float64, order="C")
    for j, known in enumerate(levels):
        if known is not None:
            coded[:, j] = code_values(list_values(x[:, j]), known)
    return coded


def code_values(values: Sequence[Any], levels: np.ndarray) -> np.ndarray:
    """Return the codes of values, NaN where they are None or not among the levels."""
    place = {level: code for code, level in enumerate(levels.tolist())}
    codes = (place.get(value, np.nan) for value in values)
    return np.fromiter(codes, dtype=np.float64, count=len(values))


def code_arrow(column: Any, levels: np.ndarray) -> np.ndarray:
    """Return the codes of a column of pyarrow."""
    arrow, compute = need("pyarrow", "cli"), need("pyarrow.compute", "cli")
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        known = arrow.array(levels.tolist(), type=column.type)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):  # levels of another type
        return code_values(column.to_pylist(), levels)
    found = compute.index_in(column, value_set=known, skip_nulls=True)
    codes: np.ndarray = found.cast(arrow.float64()).to_numpy(zero_copy_only=False)
    return codes


def list_values(column: Any) -> list[Any]:
    """Return the values of an array, a pandas series or a pyarrow column, None where missing."""
    if hasattr(column, "to_pylist"):
        values = column.to_pylist()
        return [None if value != value else value for value in values]
    gaps = column.isna().to_numpy() if hasattr(column, "isna") else np.isnan(column)
    return [
        None if gap else value for value, gap in zip(column.tolist(), gaps.tolist(), strict=True)
    ]
