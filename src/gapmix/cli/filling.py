"""Fill a table, and the other jobs that apply a model to rows: score, sample."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from gapmix.cli.drawing import draw_all
from gapmix.cli.files import list_targets
from gapmix.cli.fitting import FitSummary, fit_imputer, telling
from gapmix.cli.gaps import Sureness, Unfilled, count_gaps, measure_sureness
from gapmix.cli.models import apply_to_codes, load_model, marks_of, save_model, schema_of
from gapmix.cli.reading import (
    OpenTable,
    note_empty,
    read_bounds,
    read_table,
    require_columns,
)
from gapmix.cli.requests import Fitting, Reading, Watch, Writing
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.kinds import to_possible
from gapmix.storage.tablefiles import Dialect, is_parquet
from gapmix.tables.coding import (
    Output,
    decode,
    draw_series,
    encode,
    match_columns,
    output_names,
)
from gapmix.tables.marking import read_missing
from gapmix.tables.scan import scan
from gapmix.tables.schema import (
    NUMBER,
    UNUSED,
    CallError,
    Note,
    Schema,
    features,
    find_column,
    find_columns,
    list_columns,
    name_columns,
)
from gapmix.tables.sink import Sink, refuse_types, writing
from gapmix.tables.source import name_table, open_table
from gapmix.wording import count

SAMPLE_ROWS = 50_000  # drawn in one go


class FillResult(NamedTuple):
    """What was filled, and where it went."""

    n_rows: int
    n_columns: int
    n_gaps: int  # cells that are missing, in all columns
    n_filled: int
    by_column: dict[str, int]  # filled cells
    unfilled: tuple[Unfilled, ...]
    files: tuple[str, ...]
    fit: FitSummary | None
    seconds: dict[str, float]  # of reading, fitting, filling, writing
    sure: Sureness | None = None  # of the first rows; None if nothing was filled, or not known


def impute(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    writing: Writing,
    watch: Watch,
    model_path: Path | None = None,
) -> FillResult:
    """Fill the gaps of a table by a model fitted to it, or by a model from a file."""
    began = time.perf_counter()
    refuse_types(writing.path, open_table(path, reading.given).types)
    plan_parts(watch, model_path, len({target for _, target in list_targets(writing)}))
    wanted = writing.model_path is not None or fitting.plots is not None
    ready = prepare(path, reading, fitting, watch, model_path, only_for_gaps=not wanted)
    read_and_fit = time.perf_counter() - began
    fit_seconds = ready.summary.seconds if ready.summary else 0.0
    if writing.model_path is not None:
        assert ready.imputer is not None
        save_model(ready.imputer, writing.model_path, watch)
    began = time.perf_counter()
    files, filling, sure = _write_tables(ready, writing, fitting.seed, watch)
    schema = ready.table.scan.schema
    by_column, unfilled = count_gaps(schema, known=model_path is not None)
    return FillResult(
        schema.n_rows,
        len(schema.columns),
        sum(column.n_missing for column in schema.columns),
        sum(by_column.values()),
        by_column,
        unfilled,
        files,
        ready.summary,
        {
            "reading": read_and_fit - fit_seconds,
            "fitting": fit_seconds,
            "filling": filling,
            "writing": time.perf_counter() - began - filling,
        },
        sure,
    )


def plan_parts(watch: Watch, model_path: Path | None, n_files: int = 1) -> None:
    """Tell who watches of which parts the job consists."""
    watch.plan("reading", *(["fitting"] if model_path is None else []), *["writing"] * n_files)


class FitResult(NamedTuple):
    """A model that was fitted and saved."""

    n_rows: int
    n_features: int
    files: tuple[str, ...]
    fit: FitSummary


class ScoreResult(NamedTuple):
    """How probable rows are."""

    n_rows: int
    mean: float
    lowest: float
    lowest_row: int  # from 1
    files: tuple[str, ...]
    fit: FitSummary | None


def score(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    output: Path | None,
    watch: Watch,
    model_path: Path | None = None,
) -> ScoreResult:
    """Write the log density of what each row shows, under a model fitted to the table or given."""
    id_column, types = reading.roles.id, open_table(path, reading.given).types
    refuse_types(output, {name: kind for name, kind in types.items() if name == id_column})
    plan_parts(watch, model_path)
    ready = prepare(path, reading, fitting, watch, model_path)
    schema, source = ready.table.scan.schema, ready.table.source
    kept = () if id_column is None else (find_column(source.names, id_column, "--id"),)
    names = [source.names[j] for j in kept] + ["log_density", "n_observed"]
    scores = []
    watch.stage("Scoring", schema.n_rows, part="writing")
    with writing_to(output, names, source.dialect, watch) as sink, telling(watch):
        for chunk in source.chunks():
            encoded = encode(chunk, schema, ready.table.marks, source.dialect)
            values = ready.model.score_samples(encoded.x[:, ready.places])
            scores.append(values)
            cells = [nw.to_native(chunk.column(j)).alias(str(i)) for i, j in enumerate(kept)]
            cells.append(pl.Series("log_density", values))
            cells.append(pl.Series("n_observed", (~np.isnan(encoded.x)).sum(axis=1)))
            sink.write(pl.DataFrame(cells))
            watch.step(chunk.first_row + len(values) - 1)
    every = np.concatenate(scores)
    lowest = int(every.argmin())
    return ScoreResult(
        len(every),
        float(every.mean()),
        float(every[lowest]),
        lowest + 1,
        (str(output) if output else "-",),
        ready.summary,
    )


class SampleResult(NamedTuple):
    """Rows that were drawn."""

    n_rows: int
    n_columns: int
    files: tuple[str, ...]


def fit(
    path: str | Path, reading: Reading, fitting: Fitting, output: Path, watch: Watch
) -> FitResult:
    """Fit a model to a table and save it."""
    watch.plan("reading", "fitting")
    table = read_table(path, reading, watch)
    imputer, summary = fit_imputer(table, fitting, watch)
    draw_all(table, imputer, fitting.plots, watch)
    save_model(imputer, output, watch)
    return FitResult(table.scan.schema.n_rows, imputer.n_features_in_, (str(output),), summary)


def sample(
    model_path: Path, n_rows: int, output: Path | None, seed: int, watch: Watch
) -> SampleResult:
    """Write rows drawn from a model: the columns that it was fitted to."""
    if n_rows < 1:
        raise CallError(f"--rows must be at least 1, not {n_rows}.")
    imputer = load_model(model_path)
    schema = schema_of(imputer)
    used = [schema.columns[j] for j in features(schema)]
    names, model = [column.name for column in used], apply_to_codes(imputer)
    watch.plan("writing")
    watch.stage("Drawing rows", n_rows, part="writing")
    with writing_to(output, names, None, watch) as sink:
        for number, first in enumerate(range(0, n_rows, SAMPLE_ROWS)):
            n_drawn = min(SAMPLE_ROWS, n_rows - first)
            empty = np.full((n_drawn, len(used)), np.nan)
            x = model.sample(empty, 1, _random([seed, number]))[0]
            x = to_possible(model.possible(drawn=True), empty, x)
            cells = [
                draw_series(str(f), x[:, f], column)
                if column.kind == NUMBER
                else pl.Series(str(f), list(column.values or column.levels)).gather(
                    x[:, f].astype(int)
                )
                for f, column in enumerate(used)
            ]
            sink.write(pl.DataFrame(cells))
            watch.step(first + n_drawn)
    return SampleResult(n_rows, len(names), (str(output) if output else "-",))


class TableAndModel(NamedTuple):
    """A table and a model for it."""

    table: OpenTable  # without its matrix
    imputer: GaussianMixtureImputer | None  # None if there is nothing to fill
    model: Any  # the same at work on matrices with places of levels
    summary: FitSummary | None  # if the model was fitted just now
    places: np.ndarray  # (D,) for each feature of the model, its place in the table's matrix


def prepare(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    watch: Watch,
    model_path: Path | None,
    *,
    only_for_gaps: bool = False,
) -> TableAndModel:
    """Read a table and fit a model to it, or match its columns with those of a model from a file.

    The matrix is given up as soon as the model is there: rows are read again to be written. If the
    model is wanted `only_for_gaps` and there are none to fill, there is none.
    """
    if model_path is not None:
        return _match(path, reading, fitting, load_model(model_path), watch)
    table = read_table(path, reading, watch)
    require_columns(table)
    if only_for_gaps and not count_gaps(table.scan.schema, known=False)[0]:
        watch.note(Note("There are no gaps to fill, so nothing was fitted."))
        return TableAndModel(table, None, None, None, np.empty(0, dtype=int))
    imputer, summary = fit_imputer(table, fitting, watch)
    draw_all(table, imputer, fitting.plots, watch)
    n_features = imputer.n_features_in_
    slim = table._replace(scan=table.scan._replace(matrix=np.empty((0, n_features))))
    model = apply_to_codes(imputer)
    return TableAndModel(slim, imputer, model, summary, np.arange(n_features))


@contextmanager
def writing_to(
    path: Path | None, names: list[str], dialect: Dialect | None, watch: Watch, *, raw: bool = False
) -> Iterator[Sink]:
    """Open where a table goes; a run that fails inside leaves no file."""
    if path is not None:
        watch.writes(path)
    with writing(path, names, dialect, raw=raw) as sink:
        yield sink
    if sink.n_guarded:
        watch.note(
            Note(
                f"{count(sink.n_guarded, 'cell')} that a spreadsheet would run as a formula got a "
                "leading '. Give --raw to write texts as they are."
            )
        )


def apply_options(imputer: GaussianMixtureImputer, fitting: Fitting, schema: Schema) -> None:
    """Let a model from a file work with the threads and within the bounds asked for."""
    bounds = {**(imputer.bounds or {}), **(read_bounds(fitting.bounds, schema) or {})}
    limits = imputer.limits if fitting.limits else None
    imputer.set_params(n_jobs=fitting.threads, bounds=bounds or None, limits=limits)


def tell_extra(schema: Schema, watch: Watch) -> None:
    """Tell which columns of a table a model does not know."""
    extra = [column.name for column in schema.columns if column.kind == UNUSED]
    if extra:
        is_not = "is" if len(extra) == 1 else "are"
        watch.note(Note(f"{name_columns(extra)} {is_not} not used by the model."))


def _match(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    imputer: GaussianMixtureImputer,
    watch: Watch,
) -> TableAndModel:
    """Read a table for a model that exists: its columns, its levels, its marks."""
    source = open_table(path, reading.given)
    for note in source.notes:
        watch.note(note)
    match = match_columns(schema_of(imputer), source.names)
    apply_options(imputer, fitting, match.schema)
    tell_extra(match.schema, watch)
    common, given = read_missing(reading.missing_values, source.names)
    marks = marks_of(imputer, common)
    own = {j: (*c.marks, *given.get(j, ())) for j, c in enumerate(match.schema.columns)}
    watch.stage(f"Reading {name_table(path)}", source.n_rows, part="reading")
    loose = find_columns(source.names, reading.roles.numbers, "--numbers")
    kept = find_columns(source.names, reading.roles.keep, "--keep")
    roles = [  # of categories only gaps are counted: a model knows their levels
        "pass" if column.kind != NUMBER else "numbers" if j in loose or column.spelling else "use"
        for j, column in enumerate(match.schema.columns)
    ]
    seen = scan(source, roles, marks, own=own, keep=False, progress=watch.step)
    for note in seen.gap_notes:
        watch.note(note)
    columns = [
        column._replace(
            n_missing=found.n_missing,
            whole=found.whole if found.kind == NUMBER else column.whole,
            large=found.large,
            long=found.long,
            marks=found.marks,
            loose=j in loose,
            keep=j in kept,
        )
        for j, (column, found) in enumerate(
            zip(match.schema.columns, seen.schema.columns, strict=True)
        )
    ]
    schema = Schema(tuple(columns), seen.schema.n_rows)
    table = OpenTable(source, seen._replace(schema=schema), marks)
    return TableAndModel(table, imputer, apply_to_codes(imputer), None, match.places)


def _write_tables(
    ready: TableAndModel, writing: Writing, seed: int, watch: Watch
) -> tuple[tuple[str, ...], float, Sureness | None]:
    """Write the completed table, or one for each draw; return files, seconds of filling, sureness.

    How sure filled cells are is told from the first rows.
    """
    files: dict[Path | None, list[int | None]] = {}
    for draw, target in list_targets(writing):
        files.setdefault(target, []).append(draw)
    schema, dialect = ready.table.scan.schema, ready.table.source.dialect
    unknown: dict[int, int] = {}
    empty: list[int] = []  # rows without any value
    seconds, sure = 0.0, None
    for target, draws in files.items():
        output = Output(writing.std, writing.probabilities, writing.raw_means, is_parquet(target))
        names = output_names(schema, output)
        if writing.draw_column:
            names = [_new_name("draw", names), *names]
        what = target.name if target else "the table"
        watch.stage(f"Writing {what}", schema.n_rows * len(draws), part="writing")
        with writing_to(target, names, dialect, watch, raw=writing.raw) as sink:
            for turn, draw in enumerate(draws):
                for number, chunk in enumerate(ready.table.source.chunks()):
                    key = None if draw is None else [seed, draw, number]
                    encoded = encode(chunk, schema, ready.table.marks, dialect)
                    began = time.perf_counter()
                    filled, std = _complete(ready, encoded.x, key, writing)
                    seconds += time.perf_counter() - began
                    made = decode(chunk, schema, encoded, filled, std, output, dialect)
                    if target == next(iter(files)) and not turn:
                        sure = sure or _look_at(ready, encoded.x)
                        for j, n_cells in encoded.unknown.items():
                            unknown[j] = unknown.get(j, 0) + n_cells
                        rows = np.flatnonzero(np.isnan(encoded.x).all(axis=1)) + chunk.first_row
                        empty += (rows - 1).tolist()
                    frame = nw.to_native(made)
                    if writing.draw_column:
                        frame = frame.select(pl.lit(draw).alias("draw"), pl.all())
                    sink.write(frame)
                    watch.step(turn * schema.n_rows + chunk.first_row + len(encoded.x) - 1)
    if ready.summary is None and ready.model is not None:  # otherwise told when it was read
        for note in note_empty(empty):
            watch.note(note)
    tell_unknown({schema.columns[j].name: n for j, n in unknown.items() if n}, watch)
    return tuple("-" if target is None else str(target) for target in files), seconds, sure


def _look_at(ready: TableAndModel, x: np.ndarray) -> Sureness | None:
    """Return how sure the cells are that are filled in rows of the table's matrix."""
    if ready.model is None:
        return None
    schema = ready.table.scan.schema
    used = [schema.columns[j] for j in features(schema)]
    return measure_sureness(ready.model, x[:, ready.places], [used[f] for f in ready.places])


def tell_unknown(unknown: dict[str, int], watch: Watch) -> None:
    """Tell of levels that a model does not know, by column."""
    if unknown:
        n_cells = sum(unknown.values())
        watch.note(
            Note(
                f"{count(n_cells, 'cell')} of {list_columns(list(unknown))} "
                f"{'holds' if n_cells == 1 else 'hold'} a level that the model does not know. "
                f"{'It is' if n_cells == 1 else 'They are'} kept, but treated as missing when the "
                "rest of the row is filled.",
                warning=True,
            )
        )


def _complete(
    ready: TableAndModel, x: np.ndarray, key: list[int] | None, writing: Writing
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return rows of the table's matrix filled by means, or by a draw, and deviations of means."""
    if ready.model is None:
        return x, None
    back, model, given = np.argsort(ready.places), ready.model, x[:, ready.places]
    if key is not None:
        drawn, rows = x.copy(), np.flatnonzero(np.isnan(x).any(axis=1))
        if rows.size:
            draws = model.sample(given[rows], 1, _random(key))[0]
            drawn[rows] = to_possible(model.possible(drawn=True), given[rows], draws)[:, back]
        return drawn, None
    std = None
    if writing.std or writing.probabilities:
        filled, deviations = model.impute_with_std(given)
        std = deviations[:, back]
    else:  # indicators, if there are any, stand behind the columns
        filled = np.asarray(model.transform(given))[:, : len(back)]
    if not writing.raw_means:
        filled = to_possible(model.possible(), given, filled)
    return filled[:, back], std


def _random(key: list[int]) -> np.random.RandomState:
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(key)))


def _new_name(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name
