"""A table as a job finds it: read once, with what there is to know about it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from gapmix.cli.requests import Reading, Watch
from gapmix.engines.budget import read_memory
from gapmix.estimators.marks import Marks
from gapmix.tables.cells import read_marks
from gapmix.tables.dialect import TableError
from gapmix.tables.scan import Scan, scan
from gapmix.tables.schema import (
    NUMBER,
    CallError,
    Schema,
    assign_roles,
    find_column,
    find_kept,
    unique_names,
)
from gapmix.tables.source import Source, open_table
from gapmix.wording import quote

Bounds = dict[str, tuple[float | None, float | None]]  # by the name of a feature


class OpenTable(NamedTuple):
    """A table that has been read once and can be read again."""

    source: Source
    scan: Scan
    marks: Marks


def read_table(path: str | Path, reading: Reading, watch: Watch) -> OpenTable:
    """Open a table, read it once, and tell what there is to know about it."""
    source = open_table(path, reading.given)
    marks = read_marks(reading.missing_values)
    roles = assign_roles(source.names, reading.roles)
    kept = find_kept(source.names, reading.roles, roles)
    limit = find_limit(reading)
    watch.stage(f"Reading {Path(path).name}", source.n_rows, part="reading")
    seen = scan(source, roles, marks, kept=kept, max_bytes=limit, progress=watch.step)
    for note in seen.notes:
        watch.note(note)
    return OpenTable(source, seen, marks)


def find_limit(reading: Reading) -> int | None:
    """Return the bytes that work may take, None if nothing is said about it."""
    try:
        return None if reading.memory is None else read_memory(reading.memory)
    except ValueError as error:
        raise CallError(f"--{error}") from error


def require_columns(table: OpenTable) -> None:
    """Raise an error if there is nothing to fit."""
    schema, matrix = table.scan.schema, table.scan.matrix
    if matrix.shape[1] == 0:
        raise TableError(
            f"None of the {len(schema.columns)} columns holds numbers or categories, so there is "
            "nothing to fit. Give --categories for codes or texts of many levels, or --delimiter "
            "and --decimal if numbers were misread."
        )
    if len(matrix) < 2:
        raise TableError("The table has 1 row; a fit needs at least 2.")


def read_bounds(texts: tuple[str, ...], schema: Schema) -> Bounds | None:
    """Return the bounds that an imputer takes from texts such as "rain=0:"."""
    names = [column.name for column in schema.columns]
    labels = unique_names(names)
    result: Bounds = {}
    for text in texts:
        name, equals, span = text.rpartition("=")
        low, colon, high = span.partition(":")
        try:
            pair = (float(low) if low else -math.inf, float(high) if high else math.inf)
        except ValueError:
            pair = (math.nan, math.nan)
        if not equals or not colon or not pair[0] < pair[1]:
            raise CallError(
                f"--bounds {quote(text)} is not understood. Write COLUMN=LOW:HIGH with LOW below "
                "HIGH; either may be left out, as in --bounds rain=0: or --bounds share=0:1."
            )
        j = find_column(names, name, "--bounds")
        if schema.columns[j].kind != NUMBER:
            raise CallError(f"--bounds: the column {quote(name)} is not used as numbers.")
        result[labels[j]] = pair
    return result or None
