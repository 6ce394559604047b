"""A report on a table: read it, fit a mixture to it, and write what came of it as one page."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gapmix.cli.drawing import draw_all
from gapmix.cli.fitting import FitSummary, fit_imputer
from gapmix.cli.gaps import count_gaps
from gapmix.cli.reading import OpenTable, note_codes, read_table
from gapmix.cli.requests import Fitting, Reading, Watch
from gapmix.report import write_page
from gapmix.report.page import require_report
from gapmix.report.subject import LeftColumn, Subject, as_imputer
from gapmix.tables.dates import name_unit
from gapmix.tables.schema import (
    CATEGORY,
    DATE,
    EMPTY,
    ID,
    TEXT,
    UNUSED,
    CallError,
    Schema,
    feature_names,
    features,
    unique_names,
)
from gapmix.tables.source import locate, name_table
from gapmix.tables.spelling import is_date
from gapmix.wording import count, label, listed

SAID = {  # of one column, of several
    EMPTY: ("has no values and is left empty", "have no values and are left empty"),
    ID: ("names rows and is not used", "name rows and are not used"),
    DATE: ("holds dates and is not used", "hold dates and are not used"),
    TEXT: ("holds texts and is not used", "hold texts and are not used"),
    CATEGORY: ("is a category", "are categories"),
    UNUSED: ("is not used, as asked", "are not used, as asked"),
}
CHUNK = 1 << 20  # bytes read at once for the checksum


class Reported(NamedTuple):
    """A report that was written."""

    n_rows: int
    n_features: int
    n_gaps: int
    files: tuple[str, ...]
    n_bytes: int
    fit: FitSummary


def check_report() -> None:
    """Raise an error if what a report needs is not installed."""
    try:
        require_report()
    except ImportError as error:
        raise CallError(str(error)) from error


def report(
    path: str | Path, reading: Reading, fitting: Fitting, output: Path, watch: Watch
) -> Reported:
    """Fit a mixture to a table and write a report on both."""
    checksum = _checksum(path)
    watch.plan("reading", "fitting", "page")
    table = read_table(path, reading, watch)
    imputer, summary = fit_imputer(table, fitting, watch)
    draw_all(table, imputer, fitting.plots, watch)
    schema, matrix = table.scan.schema, table.scan.matrix
    n_gaps = sum(column.n_missing for column in schema.columns)
    subject = Subject(
        as_imputer(imputer),
        matrix,
        feature_names(schema),
        name_table(path),
        fitting.seed,
        (*_describe_columns(schema), *(note.text for note in note_codes(table.codes))),
        _describe_file(path, table, checksum),
        partial(watch.stage, part="page"),
        levels={
            f: schema.columns[j].levels
            for f, j in enumerate(features(schema))
            if schema.columns[j].kind == CATEGORY
        },
        left=_list_left(schema),
        n_columns=len(schema.columns),
    )
    watch.writes(output)
    n_bytes = write_page(subject, output)
    n, d = matrix.shape
    return Reported(n, d, n_gaps, (str(output),), n_bytes, summary)


def _describe_columns(schema: Schema) -> tuple[str, ...]:
    """Return sentences on columns that the model does not see, or sees as something else."""
    names = unique_names([column.name for column in schema.columns])
    by_kind: dict[str, list[str]] = {}
    for name, column in zip(names, schema.columns, strict=True):
        by_kind.setdefault(column.kind, []).append(label(name))
    sentences = [
        f"{label(name)} holds dates, shown as {name_unit(column.spelling)} since 1970-01-01."
        for name, column in zip(names, schema.columns, strict=True)
        if is_date(column.spelling)
    ]
    for kind, (one, several) in SAID.items():
        found = by_kind.get(kind, [])
        if found:
            sentences.append(f"{listed(found)} {one if len(found) == 1 else several}.")
    return tuple(sentences)


def _list_left(schema: Schema) -> tuple[LeftColumn, ...]:
    used = set(feature_names(schema))
    _, unfilled = count_gaps(schema, known=False)
    return tuple(LeftColumn(*each, each.column in used) for each in unfilled)


def _describe_file(
    path: str | Path, table: OpenTable, checksum: str
) -> tuple[tuple[str, str], ...]:
    schema = table.scan.schema
    size = os.path.getsize(locate(path))
    return (
        (
            "Table",
            f"{name_table(path)}, {count(size, 'byte')}, {count(schema.n_rows, 'row')}, "
            f"{count(len(schema.columns), 'column')}",
        ),
        ("Checksum", f"SHA-256 {checksum} of the file"),
    )


def _checksum(path: str | Path) -> str:
    """Return the SHA-256 of a file; what is wrong with it is told when it is read."""
    digest = hashlib.sha256()
    try:
        with open(locate(path), "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except (OSError, CallError):
        return "unknown"
    return digest.hexdigest()
