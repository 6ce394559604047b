"""What a job is asked to do, what it tells on the way, and what it reads first."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from gapmix.fitting.progress import Event
from gapmix.tables.cells import Marks, read_marks
from gapmix.tables.dialect import Given, TableError
from gapmix.tables.scan import Scan, scan
from gapmix.tables.schema import (
    CallError,
    Note,
    Roles,
    Schema,
    assign_roles,
    feature_names,
    find_column,
    show,
)
from gapmix.tables.source import Source, open_table


class Reading(NamedTuple):
    """How a table is read."""

    given: Given = Given()
    roles: Roles = Roles()
    missing_values: tuple[str, ...] = ()
    max_bytes: int | None = None


class Fitting(NamedTuple):
    """How a mixture is fitted."""

    components: int | None = None  # None finds it
    covariance_type: str = "full"
    starts: int = 1
    max_iter: int = 200
    tol: float = 1e-3
    seed: int = 0
    threads: int | None = None
    bounds: tuple[str, ...] = ()  # "column=low:high"
    plots: Path | None = None  # folder for pictures


class Streaming(NamedTuple):
    """Where a table is worked on in pieces, and within what memory."""

    engine: str | None = None  # 'threads' or 'dask'
    scheduler: str | None = None  # address of a Dask cluster
    memory: int | None = None  # bytes
    checkpoint: Path | None = None  # file that holds the state of the fit


class Writing(NamedTuple):
    """How a completed table is written."""

    path: Path | None = None  # None is standard output
    draws: int | None = None
    draw_column: bool = False
    std: bool = False
    round_whole: bool = False
    raw: bool = False
    model_path: Path | None = None  # also save the model


class Watch(Protocol):
    """Hears what a job does while it does it."""

    def note(self, note: Note) -> None:
        """Hear something the user should know."""

    def stage(self, text: str, total: int | None = None, unit: str = "rows") -> None:
        """Hear that a new part of the work begins, with so many steps."""

    def step(self, done: int) -> None:
        """Hear how many steps of the stage are done."""

    def iteration(self, event: Event) -> bool:
        """Hear of an iteration of a fit; return True to end the fit."""

    def piece(self, done: int, total: int) -> None:
        """Hear how many pieces of the table an iteration has seen."""


class Silent:
    """A watch that hears and says nothing."""

    def note(self, note: Note) -> None:
        """Do nothing."""

    def stage(self, text: str, total: int | None = None, unit: str = "rows") -> None:
        """Do nothing."""

    def step(self, done: int) -> None:
        """Do nothing."""

    def iteration(self, event: Event) -> bool:
        """Never end a fit."""
        return False

    def piece(self, done: int, total: int) -> None:
        """Do nothing."""


class Table(NamedTuple):
    """A table that has been read once."""

    source: Source
    scan: Scan
    marks: Marks


def read_table(path: str | Path, reading: Reading, watch: Watch) -> Table:
    """Open a table, read it once, and tell what there is to know about it."""
    source = open_table(path, reading.given)
    marks = read_marks(reading.missing_values)
    roles = assign_roles(source.names, reading.roles)
    watch.stage(f"Reading {Path(path).name}", source.n_rows)
    seen = scan(source, roles, marks, max_bytes=reading.max_bytes, progress=watch.step)
    for note in seen.notes:
        watch.note(note)
    return Table(source, seen, marks)


def require_numbers(table: Table) -> None:
    """Raise an error if there is nothing to fit."""
    schema, matrix = table.scan.schema, table.scan.matrix
    if matrix.shape[1] == 0:
        raise TableError(
            f"None of the {len(schema.columns)} columns holds numbers, so there is nothing to fit. "
            "Give --one-hot for categories, or --delimiter and --decimal if numbers were misread."
        )
    if len(matrix) < 2:
        raise TableError("The table has 1 row; a fit needs at least 2.")


def read_bounds(bounds: tuple[str, ...], schema: Schema) -> list[list[float]]:
    """Return lowest and highest value of each feature from texts such as "rain=0:"."""
    names = feature_names(schema)
    result = [[-np.inf, np.inf] for _ in names]
    for text in bounds:
        name, equals, span = text.rpartition("=")
        low, colon, high = span.partition(":")
        try:
            pair = [float(low) if low else -np.inf, float(high) if high else np.inf]
        except ValueError:
            pair = [np.nan, np.nan]
        if not equals or not colon or not pair[0] < pair[1]:
            raise CallError(
                f"--bounds {show(text)} is not understood. Write COLUMN=LOW:HIGH with LOW below "
                "HIGH; either may be left out, as in --bounds rain=0: or --bounds share=0:1."
            )
        columns = [column.name for column in schema.columns]
        j = find_column(columns, name, "--bounds")
        if schema.columns[j].kind != "number":
            raise CallError(f"--bounds: the column {show(name)} is not used as numbers.")
        result[names.index(columns[j])] = pair
    return result
