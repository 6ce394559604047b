"""Data frames of any kind to a matrix with a schema, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from gapmix.storage.extras import need
from gapmix.tables.cells import read_marks
from gapmix.tables.coding import Output, decode, encode, output_names
from gapmix.tables.scan import Scan, scan
from gapmix.tables.schema import Roles, Schema, assign_roles
from gapmix.tables.source import Chunk, open_frame

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None


def named_rows(x: np.ndarray, names: Sequence[str], levels: Mapping[int, Sequence[Any]]) -> Any:
    """Return a matrix as a data frame, so that estimators know its columns by name and type.

    `levels` are those of the columns that hold places of levels. A matrix that is stored by columns
    is not copied.
    """
    arrow = need("pyarrow", "cli")
    frame = pl.from_arrow(arrow.table([arrow.array(column) for column in x.T], names=list(names)))
    return frame.with_columns(
        _name_levels(frame[:, j].fill_nan(None).cast(pl.UInt32), levels[j]).alias(names[j])
        for j in levels
    )


def _name_levels(codes: Any, levels: Sequence[Any]) -> Any:
    """Return levels for their places: of a type of categories, or as the numbers they are."""
    if all(isinstance(level, str) for level in levels):
        kind = pl.Enum(list(levels))
        return pl.Series(list(levels), dtype=kind).gather(codes)
    return pl.Series(list(levels)).gather(codes)


def read_frame(
    frame: Any,
    *,
    columns: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing_values: Sequence[str | float] = (),
) -> Scan:
    """Return matrix and schema of a pandas, polars or pyarrow table.

    Examples
    --------
    >>> import polars as pl
    >>> from gapmix.tables.frames import fill_frame, read_frame
    >>> frame = pl.DataFrame({"kind": ["b", None, "a"], "x": [1, None, 3], "y": [2.0, 4.0, None]})
    >>> seen = read_frame(frame)
    >>> seen.matrix
    array([[ 1.,  1.,  2.],
           [nan, nan,  4.],
           [ 0.,  3., nan]])
    >>> fill_frame(frame, seen.schema, [[1, 1.0, 2.0], [0, 2.5, 4.0], [0, 3.0, 3.5]]).rows()
    [('b', 1, 2.0), ('a', 2, 4.0), ('a', 3, 4.0)]
    """
    source = open_frame(frame)
    roles = assign_roles(source.names, Roles(tuple(columns), tuple(leave_out), tuple(categories)))
    return scan(source, roles, read_marks([str(value) for value in missing_values]))


def fill_frame(
    frame: Any,
    schema: Schema,
    filled: Any,
    std: Any = None,
    *,
    raw_means: bool = False,
    missing_values: Sequence[str | float] = (),
) -> Any:
    """Return the table with its gaps filled from the matrix `filled` (n, D).

    Kind of frame, names, order of columns and rows and types stay; whole numbers are rounded. With
    `raw_means` they are not, and a column of integers with gaps becomes one of floats. With `std`,
    a column of standard deviations follows each filled one.
    """
    marks = read_marks([str(value) for value in missing_values])
    chunk = Chunk(nw.from_native(frame, eager_only=True), 1)
    encoded = encode(chunk, schema, marks, None)
    spread = None if std is None else np.asarray(std, dtype=np.float64)
    output = Output(std=std is not None, raw_means=raw_means, typed=True)
    made = decode(
        chunk, schema, encoded, np.asarray(filled, dtype=np.float64), spread, output, None
    )
    names = output_names(schema, output)
    return made.rename(dict(zip(made.columns, names, strict=True))).to_native()
