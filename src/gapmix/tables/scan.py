"""The first look at a table: what its columns are, where gaps are, and the matrix to fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from gapmix.estimators.levels import are_padded, is_numeral
from gapmix.estimators.marks import Marks
from gapmix.tables.cells import add_marks
from gapmix.tables.dialect import TableError
from gapmix.tables.dressed import find_dressed
from gapmix.tables.marking import note_marks
from gapmix.tables.schema import (
    CATEGORY,
    DATE,
    EMPTY,
    ID,
    MAX_LISTED,
    TEXT,
    Column,
    Note,
    Schema,
    features,
    list_columns,
    name_columns,
)
from gapmix.tables.source import Source
from gapmix.tables.spelling import name_values
from gapmix.tables.tally import (
    Tally,
    begin_again,
    count_width,
    find_spellings,
    gather,
    is_coded,
    look,
    look_at_levels,
    looks_like_numbers,
    mixes_numbers,
    to_column,
    with_point,
)
from gapmix.wording import count, list_names, quote

FIT_COPIES = 4.5  # what a fit holds at its peak, in matrices


class Scan(NamedTuple):
    """What a table holds."""

    schema: Schema
    matrix: np.ndarray  # (n, D) NaN where missing, places of levels; (0, D) if it was not kept
    notes: tuple[Note, ...]
    gap_notes: tuple[Note, ...] = ()  # on what was taken for gaps


def scan(
    source: Source,
    roles: list[str] | None = None,
    marks: Marks | None = None,
    *,
    own: Mapping[int, Sequence[str]] = MappingProxyType({}),
    kept: Collection[int] = (),
    keep: bool = True,
    max_bytes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Scan:
    """Read a table once and return its schema and matrix.

    `marks` stand for gaps in all columns, `own` in the columns of these numbers. `roles` has "use",
    "category", "numbers" or "pass" for every column (`schema.assign_roles`),
    `kept` the columns that are used but not filled. `max_bytes` is the memory a fit may use;
    without it, what the machine has to spare. `progress` is called with the number of rows read
    so far. Columns whose first text stands far behind numbers are read once more.
    """
    marks = Marks() if marks is None else marks
    tallies = [
        Tally(role, add_marks(marks, own.get(j, ())))
        for j, role in enumerate(roles or ["use"] * len(source.names))
    ]
    find_spellings(source, tallies)
    n_rows = n_blank = 0
    for chunk in source.chunks():
        for j, tally in enumerate(tallies):
            look(tally, chunk, j, source, keep=keep)
        n_rows, n_blank = n_rows + len(chunk.frame), n_blank + chunk.n_blank
        if keep:
            _check_memory(source, tallies, n_rows, max_bytes)
        if progress is not None:
            progress(n_rows)
    if n_rows == 0:
        raise TableError("The table has a header but no rows.")
    late = [j for j, tally in enumerate(tallies) if tally.late]
    for j in late:
        begin_again(tallies[j])
    for chunk in source.chunks() if late else ():
        for j in late:
            look_at_levels(tallies[j], chunk, j, source, keep=keep)
    decimal = "." if source.dialect is None else source.dialect.decimal
    columns = [
        to_column(name, tally, n_rows, decimal)._replace(
            keep=j in kept, marks=tuple(own.get(j, ()))
        )
        for j, (name, tally) in enumerate(zip(source.names, tallies, strict=True))
    ]
    schema = Schema(tuple(columns), n_rows)
    notes = (*source.notes, *_notes(source, columns, tallies, decimal))
    gap_notes = (
        *_note_blank(n_blank),
        *note_marks(columns, tallies, marks, n_rows, new=keep),
    )
    return Scan(schema, _assemble(schema, tallies, keep), notes, gap_notes)


def available_bytes() -> int:
    """Return how much memory the machine has to spare."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 2**63


def _check_memory(source: Source, tallies: list[Tally], n_rows: int, max_bytes: int | None) -> None:
    """Raise an error as soon as it is clear that the fit would not fit into memory."""
    width = sum(map(count_width, tallies))
    needed = int(FIT_COPIES * 8 * width * max(n_rows, source.n_rows or 0))
    limit = available_bytes() + 8 * width * n_rows if max_bytes is None else max_bytes
    if needed > limit:
        raise TableError(
            f"After {n_rows:,} rows it is clear that a fit in memory would need more than "
            f"{needed / 2**30:.2g} GB, but only {limit / 2**30:.2g} GB may be used. You can use "
            "fewer columns (--columns), convert the table to Parquet, which can be fitted in "
            "pieces, or fit a model to part of the rows and fill all of them with --model, which "
            "needs little memory."
        )


def _assemble(schema: Schema, tallies: list[Tally], keep: bool) -> np.ndarray:
    """Return the matrix, giving back the memory of each column's parts as they are copied."""
    layout = features(schema)
    # By columns, so that a frame with their names can be made of it without a copy.
    matrix = np.empty((schema.n_rows if keep else 0, len(layout)), order="F")
    for f, j in enumerate(layout if keep else ()):
        gather(tallies[j], schema.columns[j], matrix[:, f])
    return matrix


def _note_blank(n_blank: int) -> list[Note]:
    if not n_blank:
        return []
    were = "was skipped and is" if n_blank == 1 else "were skipped and are"
    return [Note(f"{count(n_blank, 'empty line')} {were} not in the output.")]


def _notes(source: Source, columns: list[Column], tallies: list[Tally], decimal: str) -> list[Note]:
    notes, passed, kinds = [], [], {column.kind for column in columns}
    for column, tally in zip(columns, tallies, strict=True):
        dressed = "" if tally.values else find_dressed(tally.codes, decimal)
        if column.loose and tally.n_other:
            notes.append(_note_loose(column, tally))
        elif dressed and column.kind in (CATEGORY, TEXT) and tally.role == "use":
            notes.append(_note_dressed(column, dressed))
        elif column.kind == CATEGORY and tally.role == "use" and is_coded(tally):
            notes.append(_note_coded(column, tally))
        elif column.kind == CATEGORY and tally.role == "use" and mixes_numbers(tally, decimal):
            notes.append(_note_answers(column, tally, decimal))
        elif column.kind == TEXT and tally.codes and looks_like_numbers(tally, decimal):
            notes.append(_note_numbers(column, tally))
        elif column.kind in (ID, DATE, TEXT):
            passed.append(describe_passed(column, tally))
    if passed:
        notes.append(note_passed(passed, dated=DATE in kinds))
    empty = [c.name for c in columns if c.kind == EMPTY]
    if empty:
        notes.append(note_empty_columns(empty))
    twice = sorted({name for name in source.names if name and source.names.count(name) > 1})
    if twice:
        labels = [
            f"{twice[0]} ({j + 1})" for j, name in enumerate(source.names) if name == twice[0]
        ]
        notes.append(
            Note(
                f"The name{'s' if len(twice) > 1 else ''} {list_columns(twice)} "
                f"{'are' if len(twice) > 1 else 'is'} used by more than one column. All are used "
                f"and keep their names. In options, write {list_columns(labels[:2])}."
            )
        )
    return notes


def note_empty_columns(names: Sequence[str]) -> Note:
    """Return what is said of columns without any value."""
    has, it_stays = ("have", "They stay") if len(names) > 1 else ("has", "It stays")
    return Note(f"{name_columns(names)} {has} no values to learn from. {it_stays} empty.")


def note_passed(passed: list[str], *, dated: bool = False) -> Note:
    """Return what is said of columns that are passed through, each with what it is."""
    dates = " To fill dates, give --numbers COLUMN." * dated
    return Note(
        f"Passed through, not filled: {list_names(passed, MAX_LISTED)}. "
        f"To fill one as a category, give --categories COLUMN.{dates}"
    )


def describe_passed(column: Column, tally: Tally) -> str:
    """Return the name of a column that is passed through, what it is, and its gaps."""
    n = len(tally.codes)
    what = {
        DATE: "dates",
        ID: f"an id: {n:,} different texts in {count(tally.n_counted, 'cell')}",
        TEXT: f"{n:,} different texts in {count(tally.n_counted, 'cell')}, too many for a category",
    }[column.kind]
    if column.kind == TEXT and tally.what:
        what = "neither numbers nor texts"
    gaps = f"{count(column.n_missing, 'gap')} left" if column.n_missing else "no gaps"
    return f"{quote(column.name)} ({what}; {gaps})"


def _note_dressed(column: Column, dressed: str) -> Note:
    left = f" with {count(column.n_missing, 'gap')}" if column.n_missing else ""
    is_used = column.kind == CATEGORY
    what = "used as a category" if is_used else f"passed through unfilled{left}"
    return Note(
        f"Column {quote(column.name)} has numbers with separators, signs or units, as in "
        f"{quote(dressed)}. It is {what}. Give --numbers {quote(column.name)} to have it filled as "
        "numbers of this kind.",
        warning=not is_used,
    )


def _note_coded(column: Column, tally: Tally) -> Note:
    padded = next(text for text in tally.codes if are_padded([text]))
    return Note(
        f"Column {quote(column.name)} has numbers with leading zeros, as in {quote(padded)}. These "
        f"are taken as codes, so the column is a category. Give --numbers {quote(column.name)} if "
        "they are numbers."
    )


def _note_answers(column: Column, tally: Tally, decimal: str) -> Note:
    texts = [quote(text) for text in tally.codes if not is_numeral(with_point(text, decimal))]
    return Note(
        f"Column {quote(column.name)} has numbers and texts ({list_names(texts, 3)}) and is used "
        f"as a category. Give --numbers {quote(column.name)} if it should be numbers, with gaps "
        "instead of texts."
    )


def _note_loose(column: Column, tally: Tally) -> Note:
    shown = list_names([quote(other) for other in tally.others], 3)
    return Note(
        f"Column {quote(column.name)}: {count(tally.n_other, 'cell')} "
        f"{'is' if tally.n_other == 1 else 'are'} not a {name_values(column.spelling)} "
        f"({shown}) and {'counts as a gap' if tally.n_other == 1 else 'count as gaps'} (--numbers)."
    )


def _note_numbers(column: Column, tally: Tally) -> Note:
    where = f"row {tally.first_other:,} has {quote(tally.others[0])}" if tally.others else "as text"
    left = f" with {count(column.n_missing, 'gap')}" if column.n_missing else ""
    return Note(
        f"Column {quote(column.name)} looks like numbers, but {where}. It is passed through "
        f"unfilled{left}. Give --numbers {quote(column.name)} to treat all that is not a number as "
        f"a gap, --missing-values {quote(','.join(tally.others))} to treat only this as a gap, or "
        f"--categories {quote(column.name)} to treat the column as a category.",
        warning=True,
    )
