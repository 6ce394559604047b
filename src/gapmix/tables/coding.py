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
    parse_levels,
    parse_numbers,
    refuse_infinite,
    write_numbers,
)
from gapmix.tables.dialect import TableError
from gapmix.tables.scan import read_integers, typed_levels, typed_numbers
from gapmix.tables.schema import (
    CATEGORY,
    NUMBER,
    UNUSED,
    Column,
    Schema,
    features,
    list_columns,
    unique_names,
)
from gapmix.tables.source import Chunk
from gapmix.wording import quote

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None


class Output(NamedTuple):
    """How filled cells are written."""

    std: bool = False  # a column of standard deviations beside each filled one
    raw_means: bool = False  # what is filled into columns of whole numbers need not be whole
    typed: bool = False  # columns with types (Parquet) rather than texts


class Encoded(NamedTuple):
    """Rows of the matrix, and which cells of the table are gaps."""

    x: np.ndarray  # (n, D) NaN where missing
    gaps: dict[int, np.ndarray]  # by column, (n,) bool
    n_unknown: int  # cells of categories whose level the model does not know


def encode(chunk: Chunk, schema: Schema, marks: Marks, dialect: Dialect | None) -> Encoded:
    """Return the rows of a chunk as numbers.

    A level that the schema does not have counts as unknown, but is no gap to be filled.
    """
    layout = features(schema)
    x = np.empty((len(chunk.frame), len(layout)))
    gaps: dict[int, np.ndarray] = {}
    n_unknown = 0
    for f, feature in enumerate(layout):
        j, column = feature.column, schema.columns[feature.column]
        if column.kind == NUMBER:
            x[:, f] = _encode_numbers(chunk, j, column, marks, dialect)
            gaps[j] = np.isnan(x[:, f])
        elif feature.level == 1:
            texts = _encode_levels(chunk, j, marks, dialect)
            gaps[j] = np.array([text is None for text in texts])
            place = {level: i for i, level in enumerate(column.levels)}
            codes = np.array([-1 if text is None else place.get(text, -2) for text in texts])
            n_unknown += int((codes == -2).sum())
            for level in range(1, len(column.levels)):
                x[:, f + level - 1] = np.where(codes < 0, np.nan, codes == level)
    return Encoded(x, gaps, n_unknown)


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
    """
    layout = features(schema)
    place = {(f.column, f.level): i for i, f in enumerate(layout)}
    series: list[Any] = []
    for j, column in enumerate(schema.columns):
        cells = chunk.frame[:, j]
        if column.kind == NUMBER:
            f = place[j, -1]
            made = _decode_numbers(cells, column, encoded.gaps[j], filled[:, f], output, dialect)
        elif column.kind == CATEGORY:
            means = filled[:, [place[j, level] for level in range(1, len(column.levels))]]
            made = _decode_levels(cells, column, encoded.gaps[j], means)
        else:
            made = cells
        series.append(made.alias(str(len(series))))
        if output.std and std is not None and has_std(column):
            spread = np.where(encoded.gaps[j], std[:, place[j, -1]], np.nan)
            series.append(_decode_std(cells, spread, dialect, output).alias(str(len(series))))
    return chunk.frame.select(*series)


def output_columns(schema: Schema, output: Output) -> list[int | None]:
    """Return the table's column behind each column written, None for standard deviations."""
    places: list[int | None] = []
    for j, column in enumerate(schema.columns):
        places += [j, None] if output.std and has_std(column) else [j]
    return places


def output_names(schema: Schema, output: Output) -> list[str]:
    """Return the names of the columns written."""
    names: list[str] = []
    taken = {column.name for column in schema.columns}
    for j in output_columns(schema, output):
        name = f"{names[-1]}_std" if j is None else schema.columns[j].name
        while j is None and name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return names


def has_std(column: Column) -> bool:
    """Tell whether a column gets standard deviations beside it."""
    return column.kind == NUMBER and column.n_missing > 0


def most_probable(means: np.ndarray) -> np.ndarray:
    """Return the number of the most probable level (n,), from the means of all but level 0."""
    first = 1.0 - means.sum(axis=1, keepdims=True)
    return np.concatenate([first, means], axis=1).argmax(axis=1)


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
        if column.kind in (NUMBER, CATEGORY)
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
    here = {(present[f.column], f.level): i for i, f in enumerate(features(schema))}
    places = [here[labels[f.column], f.level] for f in features(fitted)]
    return Match(schema, np.array(places, dtype=int))


def _encode_numbers(
    chunk: Chunk, j: int, column: Column, marks: Marks, dialect: Dialect | None
) -> np.ndarray:
    series = chunk.frame[:, j]
    if dialect is None:
        values = typed_numbers(series)
        if values is None and series.null_count() == len(series):
            values = np.full(len(series), np.nan)
        if values is None:
            raise TableError(
                f"The column {quote(column.name)} holds {series.dtype} values; the model was "
                "fitted with numbers in it."
            )
        for code in marks.numbers:
            values[values == code] = np.nan
    else:
        parsed = parse_numbers(nw.to_native(series), marks, dialect.decimal)
        if parsed.n_other:
            raise TableError(
                f"Row {chunk.first_row + parsed.first_other:,}, column {quote(column.name)}: "
                f"{quote(parsed.others[0])} is not a number, but the model was fitted with numbers "
                "in this column. If it marks a gap, name it in --missing-values."
            )
        values = parsed.values
    refuse_infinite(values, chunk.first_row, quote(column.name))
    return values


def _encode_levels(chunk: Chunk, j: int, marks: Marks, dialect: Dialect | None) -> list[str | None]:
    series = chunk.frame[:, j]
    if dialect is None:
        return [None if t is None or t.strip() in marks.texts else t for t in typed_levels(series)]
    texts: list[str | None] = parse_levels(nw.to_native(series), marks).to_list()
    return texts


def _decode_numbers(
    cells: Any,
    column: Column,
    gaps: np.ndarray,
    filled: np.ndarray,
    output: Output,
    dialect: Dialect | None,
) -> Any:
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


def _decode_levels(cells: Any, column: Column, gaps: np.ndarray, means: np.ndarray) -> Any:
    if not gaps.any():
        return cells
    levels = [column.levels[i] for i in most_probable(means[gaps])]
    new = nw.new_series("new", levels, nw.String, backend=cells.implementation)
    truth = cells.dtype == nw.Object and set(column.levels) <= {"True", "False"}
    if cells.dtype == nw.Boolean or truth:
        values = [level == "True" for level in levels]
        new = nw.new_series("new", values, nw.Boolean, backend=cells.implementation)
    if cells.dtype not in (nw.String, nw.Boolean):
        new = new.cast(cells.dtype)
    return cells.scatter(np.flatnonzero(gaps).tolist(), new)


def _decode_std(cells: Any, spread: np.ndarray, dialect: Dialect | None, output: Output) -> Any:
    """Return standard deviations, null where the cell was observed."""
    known = ~np.isnan(spread)
    if dialect is not None and not output.typed:
        texts = pl.Series([None] * len(spread), dtype=pl.String)
        written = write_numbers(spread[known], dialect.decimal)
        return nw.from_native(texts.scatter(np.flatnonzero(known), written), series_only=True)
    values = [value if ok else None for value, ok in zip(spread.tolist(), known, strict=True)]
    return nw.new_series("std", values, nw.Float64, backend=cells.implementation)
