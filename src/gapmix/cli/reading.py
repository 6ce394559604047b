"""A table as a job finds it: read once, with what there is to know about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from gapmix.cli.requests import Reading, Watch
from gapmix.engines.budget import read_memory
from gapmix.estimators.marks import Marks
from gapmix.estimators.warning import Code, find_codes, say_code
from gapmix.tables.cells import read_marks
from gapmix.tables.dates import read_date
from gapmix.tables.dialect import TableError
from gapmix.tables.marking import read_missing, write_missing
from gapmix.tables.scan import Scan, scan
from gapmix.tables.schema import (
    MAX_LISTED,
    NUMBER,
    CallError,
    Note,
    Schema,
    assign_roles,
    feature_names,
    features,
    find_column,
    find_kept,
    name_columns,
    unique_names,
)
from gapmix.tables.source import Source, name_table, open_table
from gapmix.tables.spelling import is_date
from gapmix.wording import count, quote

LEAST_STEPS = 20  # from value to value, before a column is said to count rows
Bounds = dict[str, tuple[float | None, float | None]]  # by the name of a feature


class OpenTable(NamedTuple):
    """A table that has been read once and can be read again."""

    source: Source
    scan: Scan
    marks: Marks  # of all columns; the schema has those of single ones
    codes: Mapping[str, Code] = MappingProxyType({})  # values that may stand for gaps, by column


def read_table(path: str | Path, reading: Reading, watch: Watch) -> OpenTable:
    """Open a table, read it once, and tell what there is to know about it."""
    source = open_table(path, reading.given)
    common, own = read_missing(reading.missing_values, source.names)
    marks = read_marks(common)
    roles = assign_roles(source.names, reading.roles)
    kept = find_kept(source.names, reading.roles, roles)
    limit = find_limit(reading)
    watch.stage(f"Reading {name_table(path)}", source.n_rows, part="reading")
    seen = scan(source, roles, marks, own=own, kept=kept, max_bytes=limit, progress=watch.step)
    codes = _find_codes(seen)
    none = np.isnan(seen.matrix).all(axis=1) & (seen.matrix.shape[1] > 0)
    empty = note_empty(np.flatnonzero(none).tolist())
    counting = _note_counting(seen)
    for note in (*seen.notes, *counting, *seen.gap_notes, *note_codes(codes), *empty):
        watch.note(note)
    return OpenTable(source, seen, marks, codes)


def _find_codes(seen: Scan) -> dict[str, Code]:
    """Return values that may stand for gaps, by the names of their columns."""
    layout, names = features(seen.schema), feature_names(seen.schema)
    numbers = [f for f, j in enumerate(layout) if seen.schema.columns[j].kind == NUMBER]
    return {names[numbers[code.column]]: code for code in find_codes(seen.matrix[:, numbers])}


def _note_counting(seen: Scan) -> list[Note]:
    """Return what is said of columns that count the rows, as numbers that name them do."""
    found = []
    layout = zip(feature_names(seen.schema), features(seen.schema), strict=True)
    for f, (name, j) in enumerate(layout):
        rows = np.flatnonzero(~np.isnan(seen.matrix[:, f]))
        steps = np.diff(seen.matrix[rows, f]) if seen.schema.columns[j].whole else np.empty(0)
        if len(steps) >= LEAST_STEPS and (steps > 0).all() and steps.sum() < 2 * np.ptp(rows):
            found.append(name)
    if not found:
        return []
    one = len(found) == 1
    it = "it only numbers" if one else "they only number"
    return [
        Note(
            f"{name_columns(found)} {'counts' if one else 'count'} up by about one from row to row "
            f"and {'is' if one else 'are'} used like any other number. If {it} the rows, give "
            f"--leave-out '{','.join(found)}'."
        )
    ]


def note_codes(codes: Mapping[str, Code]) -> list[Note]:
    """Return what is said of values that may stand for gaps, with the option to type."""
    if not codes:
        return []
    said = [say_code(code, quote(name)) for name, code in codes.items()]
    more = f" {len(said) - MAX_LISTED} more columns have such values." * (len(said) > MAX_LISTED)
    stands = "it stands for a gap" if len(said) == 1 else "they stand for gaps"
    option = write_missing((name, code.value) for name, code in codes.items())
    return [
        Note(
            f"{' '.join(said[:MAX_LISTED])}{more} If {stands}, give --missing-values '{option}'.",
            warning=True,
        )
    ]


def note_empty(empty: Sequence[int]) -> list[Note]:
    """Return what is said of rows without any value, by their numbers from 0."""
    if not empty:
        return []
    one = len(empty) == 1
    rows = f"{count(len(empty), 'row')} {'has' if one else 'have'} no value in any column used"
    where = f"row {empty[0] + 1:,}" if one else f"the first is row {empty[0] + 1:,}"
    filled = "It is" if one else "They are"
    return [
        Note(f"{rows} ({where}). {filled} filled with typical values of the table.", warning=True)
    ]


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
        spelling = next((c.spelling for c in schema.columns if c.name == name), "")
        try:
            ends = [
                read_date(end, spelling) if is_date(spelling) and end else end
                for end in (low, high)
            ]
            pair = (float(ends[0] or -math.inf), float(ends[1] or math.inf))
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
