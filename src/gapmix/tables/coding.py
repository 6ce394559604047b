"""Chunks of a table into rows of the matrix, and filled rows back into cells.

Observed cells are never rewritten: the text or the typed value that was read is what is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from gapmix.estimators.marks import Marks
from gapmix.storage.tablefiles import Dialect
from gapmix.tables.cells import (
    add_marks,
    find_codes,
    parse_levels,
    parse_numbers,
    refuse_infinite,
    write_numbers,
)
from gapmix.tables.dialect import TableError
from gapmix.tables.schema import (
    NUMBER,
    UNUSED,
    USED,
    Column,
    Schema,
    features,
    is_filled,
    list_columns,
    unique_names,
)
from gapmix.tables.source import Chunk
from gapmix.tables.spelling import fill_spelled, is_date, name_values, read_spelled, write_spelled
from gapmix.tables.tally import read_integers, typed_numbers
from gapmix.wording import quote

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None


class Output(NamedTuple):
    """How filled cells are written."""

    std: bool = False  # a column of standard deviations beside each filled one of numbers
    probabilities: bool = False  # a column of probabilities beside each filled category
    raw_means: bool = False  # what is filled into columns of whole numbers need not be whole
    typed: bool = False  # columns with types (Parquet) rather than texts


class Encoded(NamedTuple):
    """Rows of the matrix, and which cells of the table are gaps."""

    x: np.ndarray  # (n, D) NaN where missing
    gaps: dict[int, np.ndarray]  # by column, (n,) bool
    unknown: dict[int, int]  # by column, cells of categories whose level the schema does not have


def encode(chunk: Chunk, schema: Schema, marks: Marks, dialect: Dialect | None) -> Encoded:
    """Return the rows of a chunk as numbers, categories as the places of their levels.

    A level that the schema does not have counts as unknown: missing, but no gap to be filled.
    """
    layout = features(schema)
    x = np.empty((len(chunk.frame), len(layout)))
    gaps: dict[int, np.ndarray] = {}
    unknown: dict[int, int] = {}
    for f, j in enumerate(layout):
        column = schema.columns[j]
        own = add_marks(marks, column.marks)
        if column.kind == NUMBER:
            x[:, f] = _encode_numbers(chunk, j, column, own, dialect)
            gaps[j] = np.isnan(x[:, f])
            continue
        texts = parse_levels(chunk.column(j), own, typed=dialect is None).texts
        truth = all(isinstance(value, bool) for value in column.values)
        x[:, f] = find_codes(texts, column.levels, truth=truth and bool(column.values))
        gaps[j] = texts.is_null().to_numpy()
        unknown[j] = int((np.isnan(x[:, f]) & ~gaps[j]).sum())
    return Encoded(x, gaps, unknown)


def decode(
    chunk: Chunk,
    schema: Schema,
    encoded: Encoded,
    filled: np.ndarray,
    std: np.ndarray | None,
    output: Output,
    dialect: Dialect | None,
) -> Any:
    """Return the chunk as a frame with its gaps filled; columns are called "0", "1", ...

    From a text file it is a polars frame; otherwise a narwhals frame of the kind that came in.
    `std` has standard deviations and, for categories, the probability of another level.
    """
    place = {j: f for f, j in enumerate(features(schema))}
    series: list[Any] = []
    for j, column in enumerate(schema.columns):
        made = cells = chunk.column(j)
        if not is_filled(column):
            pass
        elif column.kind == NUMBER:
            values = filled[:, place[j]]
            made = _decode_numbers(cells, column, encoded.gaps[j], values, output, dialect)
        else:
            made = _decode_levels(cells, column, encoded.gaps[j], filled[:, place[j]])
        series.append(made.alias(str(len(series))))
        if std is not None and beside(column, output):
            spread = std[:, place[j]] if column.kind == NUMBER else 1.0 - std[:, place[j]]
            spread = np.where(encoded.gaps[j], spread, np.nan)
            series.append(_decode_std(cells, spread, dialect, output).alias(str(len(series))))
    return chunk.frame.select(*series)


def output_names(schema: Schema, output: Output) -> list[str]:
    """Return the names of the columns written."""
    names: list[str] = []
    taken = {column.name for column in schema.columns}
    for column in schema.columns:
        names.append(column.name)
        ending = beside(column, output)
        if ending:
            name = f"{column.name}_{ending}"
            while name in taken:
                name += "_"
            taken.add(name)
            names.append(name)
    return names


def beside(column: Column, output: Output) -> str:
    """Return what is written beside a column, by the ending of its name; empty for nothing."""
    if not column.n_missing or not is_filled(column):
        return ""
    if column.kind == NUMBER:
        return "std" if output.std else ""
    return "probability" if output.probabilities else ""


class Match(NamedTuple):
    """The columns of a table as a model sees them."""

    schema: Schema  # of the table; columns the model does not know are passed through
    places: np.ndarray  # (D,) for each feature of the model, its place in the table's matrix


def match_columns(fitted: Schema, names: tuple[str, ...]) -> Match:
    """Find the columns a model was fitted to in another table, by name, in any order."""
    labels = unique_names([column.name for column in fitted.columns])
    wanted = {
        label: column
        for label, column in zip(labels, fitted.columns, strict=True)
        if column.kind in USED
    }
    present = unique_names(names)
    absent = [label for label in wanted if label not in present]
    twice = [label for label in absent if label in names]
    if twice:
        raise TableError(
            f"The model was fitted with the column {quote(twice[0])}, and {names.count(twice[0])} "
            "columns of this table have that name. Rename all but one."
        )
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise TableError(
            f"The model was fitted with the column {quote(absent[0])}{more}, which this table does "
            f"not have: it has {list_columns(names)}. Columns are matched by name."
        )
    columns = tuple(
        wanted[label]._replace(name=name) if label in wanted else Column(name, UNUSED)
        for name, label in zip(names, present, strict=True)
    )
    schema = Schema(columns)
    here = {present[j]: f for f, j in enumerate(features(schema))}
    places = [here[labels[j]] for j in features(fitted)]
    return Match(schema, np.array(places, dtype=int))


def _encode_numbers(
    chunk: Chunk, j: int, column: Column, marks: Marks, dialect: Dialect | None
) -> np.ndarray:
    series = chunk.column(j)
    if _is_spelled(series, column):
        parsed = read_spelled(series, marks, column.spelling)
    elif dialect is not None:
        parsed = parse_numbers(nw.to_native(series), marks, dialect.decimal)
    else:
        found = typed_numbers(series, marks)
        if found is None or (found.n_other and not column.loose):
            raise TableError(
                f"The column {quote(column.name)} holds {series.dtype} values; the model was "
                "fitted with numbers in it."
            )
        parsed = found
    if parsed.n_other and not column.loose:
        raise TableError(
            f"Row {chunk.first_row + parsed.first_other:,}, column {quote(column.name)}: "
            f"{quote(parsed.others[0])} is not a {name_values(column.spelling)}, as the model "
            "expects here. If it marks a gap, name it in --missing-values, or give --numbers "
            f"{quote(column.name)} to fill every such cell."
        )
    refuse_infinite(parsed.values, chunk.first_row, quote(column.name))
    return parsed.values


def _is_spelled(cells: Any, column: Column) -> bool:
    """Tell whether cells are in the spelling of their column; elsewhere they may be numbers."""
    return is_date(column.spelling) or (bool(column.spelling) and cells.dtype == nw.String)


def _decode_numbers(
    cells: Any,
    column: Column,
    gaps: np.ndarray,
    filled: np.ndarray,
    output: Output,
    dialect: Dialect | None,
) -> Any:
    if _is_spelled(cells, column):
        return fill_spelled(cells, gaps, filled, column.spelling)
    whole = column.large or (column.whole and not output.raw_means)
    values = np.round(filled) if whole else filled
    if dialect is None:
        return _decode_typed(cells, column, gaps, values, whole=whole)
    if output.typed and column.large:
        return _fill_integers(read_integers(cells, gaps), gaps, values)
    if output.typed and not column.long:  # a text file becomes a Parquet file: texts get types
        keeps_whole = column.whole and (whole or column.n_missing == 0)
        typed = values.astype(np.int64) if keeps_whole else values
        return nw.from_native(pl.Series(typed), series_only=True)
    if not gaps.any():
        return cells
    texts = write_numbers(values[gaps], dialect.decimal, whole=whole)
    return cells.scatter(np.flatnonzero(gaps).tolist(), nw.from_native(texts, series_only=True))


def _decode_typed(
    cells: Any, column: Column, gaps: np.ndarray, values: np.ndarray, *, whole: bool
) -> Any:
    """Return typed cells with gaps filled; the type follows from the whole column, not a chunk."""
    if column.n_missing == 0:
        return cells
    if not cells.dtype.is_numeric():  # a column of nulls without a type
        return nw.new_series(cells.name, values, nw.Float64, backend=cells.implementation)
    if cells.dtype.is_integer() and whole:
        return _fill_integers(cells, gaps, values)
    if cells.dtype.is_integer():
        cells = cells.cast(nw.Float64)
    if not gaps.any():
        return cells
    if cells.dtype == nw.Decimal and cells.implementation.is_polars():
        return nw.from_native(_fill_decimals(nw.to_native(cells), gaps, values), series_only=True)
    places = np.flatnonzero(gaps).tolist()
    new = nw.new_series("new", values[gaps], nw.Float64, backend=cells.implementation)
    return cells.scatter(places, new.cast(cells.dtype))


def _fill_decimals(cells: Any, gaps: np.ndarray, values: np.ndarray) -> Any:
    """Return polars decimals with gaps filled by the nearest that their type can hold."""
    kind = cells.dtype
    limit = (10.0 ** (kind.precision - kind.scale) - 10.0**-kind.scale) * (1 - 1e-15)
    new = pl.Series(np.where(gaps, np.clip(values, -limit, limit), 0.0)).cast(kind)
    return cells.zip_with(pl.Series(~gaps), new)


def _fill_integers(cells: Any, gaps: np.ndarray, values: np.ndarray) -> Any:
    """Return integers with gaps filled by whole numbers, the nearest that their type can hold."""
    if not gaps.any():
        return cells
    n_bits = int(str(cells.dtype).lower().removeprefix("u").removeprefix("int"))
    signed = str(cells.dtype).startswith("Int")
    low, high = (-(2 ** (n_bits - 1)), 2 ** (n_bits - 1) - 1) if signed else (0, 2**n_bits - 1)
    new = [min(max(int(value), low), high) for value in values[gaps]]
    made = nw.new_series("new", new, cells.dtype, backend=cells.implementation)
    return cells.scatter(np.flatnonzero(gaps).tolist(), made)


def _decode_levels(cells: Any, column: Column, gaps: np.ndarray, codes: np.ndarray) -> Any:
    """Return a category with levels in its gaps, spelled as they are known."""
    if not gaps.any():
        return cells
    levels = [column.levels[int(code)] for code in codes[gaps]]
    new = nw.new_series("new", levels, nw.String, backend=cells.implementation)
    truth = cells.dtype == nw.Object and {level.lower() for level in levels} <= {"true", "false"}
    if cells.dtype == nw.Boolean or truth:
        values = [level.lower() == "true" for level in levels]
        new = nw.new_series("new", values, nw.Boolean, backend=cells.implementation)
    if cells.dtype not in (nw.String, nw.Boolean):
        new = new.cast(cells.dtype)
    return cells.scatter(np.flatnonzero(gaps).tolist(), new)


def _decode_std(cells: Any, spread: np.ndarray, dialect: Dialect | None, output: Output) -> Any:
    """Return standard deviations or probabilities, null where the cell was observed."""
    known = ~np.isnan(spread)
    if dialect is not None and not output.typed:
        texts = pl.Series([None] * len(spread), dtype=pl.String)
        written = write_numbers(spread[known], dialect.decimal)
        return nw.from_native(texts.scatter(np.flatnonzero(known), written), series_only=True)
    values = [value if ok else None for value, ok in zip(spread.tolist(), known, strict=True)]
    return nw.new_series("std", values, nw.Float64, backend=cells.implementation)


def draw_series(name: str, values: np.ndarray, column: Column) -> pl.Series:
    """Return numbers that were drawn as a column has them: whole ones whole, dates as dates."""
    if column.spelling:
        return write_spelled(values, column.spelling).alias(name)
    series = pl.Series(name, values)
    return series.round().cast(pl.Int64) if column.whole else series
