"""The jobs on tables larger than memory: fit and fill in pieces, on threads or on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gapmix.cli.filling import Filled, Fitted
from gapmix.cli.fitting import Ear, FitSummary, make_imputer, telling
from gapmix.cli.models import columns_from_plain, columns_to_plain, load_model, save_model
from gapmix.cli.pieces import (
    PieceTable,
    check_output,
    check_path,
    describe_columns,
    join_columns,
    open_pieces,
    output_types,
    read_layout,
    refuse_unknown,
    writing_pieces,
)
from gapmix.cli.requests import Fitting, Reading, Streaming, Watch, Writing, read_bounds
from gapmix.em import checkpoint
from gapmix.engines.contract import EngineError
from gapmix.engines.sources import DEFAULT_MEMORY, Source, read
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.pieces import fill_source
from gapmix.estimators.tablemodel import TableModel
from gapmix.fitting.progress import listening
from gapmix.selection.sizes import Candidate
from gapmix.starts.kmeans import MAX_SAMPLE
from gapmix.tables.cells import read_marks
from gapmix.tables.coding import match_columns
from gapmix.tables.dialect import TableError
from gapmix.tables.scan import FIT_COPIES, available_bytes
from gapmix.tables.schema import (
    CATEGORY,
    NUMBER,
    CallError,
    Note,
    feature_names,
    name_columns,
    show,
)

SAMPLED_PIECES = 50  # the sample that sizes are compared on comes from at most so many


class Ready(NamedTuple):
    """A table in pieces and a model for it."""

    table: PieceTable
    model: TableModel
    summary: FitSummary | None  # if the model was fitted just now


def is_needed(path: str | Path, reading: Reading, how: Streaming) -> bool:
    """Tell whether a table is to be read in pieces: asked for, a folder, .npy, or too large."""
    if how != Streaming():
        return True
    place = Path(path)
    if place.is_dir() or (place.suffix == ".npy" and place.is_file()):
        return True
    if place.suffix not in (".parquet", ".pq") or not place.is_file():
        return False
    try:
        layout = read_layout(place)
    except (ImportError, ValueError):
        return False  # whoever reads it whole says what is wrong
    n_bytes = FIT_COPIES * 8 * len(layout.names) * layout.n_rows
    limit = available_bytes() if reading.max_bytes is None else reading.max_bytes
    return n_bytes > limit and not reading.roles.one_hot


def fit(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    how: Streaming,
    output: Path,
    watch: Watch,
) -> Fitted:
    """Fit a model to a table in pieces and save it."""
    with explaining():
        ready = _fit(path, reading, fitting, how, watch)
    save_model(ready.model, output)
    assert ready.summary is not None
    n_features = ready.model.n_features_in_
    return Fitted(ready.table.layout.n_rows, n_features, (str(output),), ready.summary)


def impute(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    how: Streaming,
    writing: Writing,
    watch: Watch,
    model_path: Path | None = None,
) -> Filled:
    """Fill a table in pieces by a model fitted to it, or by a model from a file."""
    check_path(path)
    check_output(writing.path)
    assert writing.path is not None
    if writing.draws is not None or writing.std:
        raise CallError(
            "--draws and --std need the whole table: leave them out, or read it without --memory, "
            "--engine, --scheduler and --checkpoint."
        )
    began = time.perf_counter()
    with explaining():
        if model_path is None:
            ready = _fit(path, reading, fitting, how, watch)
            if writing.model_path is not None:
                save_model(ready.model, writing.model_path)
        else:
            ready = _match(path, reading, how, watch, load_model(model_path))
        _place(ready.model.mixture_, fitting, how)
        to_here = time.perf_counter()
        n_filled = _fill(ready, writing, watch)
    columns = ready.table.layout.names
    by_column = {name: int(n) for name, n in zip(_used(ready.model), n_filled, strict=True) if n}
    spent = 0.0 if ready.summary is None else ready.summary.seconds
    return Filled(
        ready.table.layout.n_rows,
        len(columns),
        sum(by_column.values()),
        by_column,
        (str(writing.path),),
        ready.summary,
        {
            "reading": to_here - began - spent,
            "fitting": spent,
            "filling and writing": time.perf_counter() - to_here,
        },
    )


def _fit(
    path: str | Path, reading: Reading, fitting: Fitting, how: Streaming, watch: Watch
) -> Ready:
    place = check_path(path)
    if reading.missing_values:
        raise CallError("--missing-values needs the whole table: turn such cells into nulls first.")
    if fitting.plots is not None:
        raise CallError("--plots needs the whole table: leave it out.")
    layout = read_layout(place)
    schema = describe_columns(layout, reading.roles, watch)
    names = feature_names(schema)
    bounds = read_bounds(fitting.bounds, schema)
    table = open_pieces(place, layout, schema, names, how.memory or DEFAULT_MEMORY)
    ear = Ear(watch)
    with telling(names, watch), listening(ear.hear, _shower(place, fitting, watch)):
        n_components, candidates = _find_size(table.source, fitting, how, watch)
        mixture = make_mixture(fitting, how, n_components)
        _tell_resume(how, watch)
        mixture.fit(table.source)
    model = _to_model(mixture, table, names, bounds)
    return Ready(table, model, ear.sum_up(mixture, candidates))


def make_mixture(fitting: Fitting, how: Streaming, n_components: int) -> GaussianMixture:
    """Return the estimator that is asked for, with the priors of the one for whole tables."""
    whole = make_imputer(fitting)
    mixture = GaussianMixture(
        n_components,
        covariance_type=fitting.covariance_type,
        n_init=fitting.starts,
        max_iter=fitting.max_iter,
        tol=fitting.tol,
        random_state=fitting.seed,
        shrinkage=whole.shrinkage,
        mean_shrinkage=whole.mean_shrinkage,
        checkpoint=how.checkpoint,
    )
    return _place(mixture, fitting, how)


def _place(mixture: GaussianMixture, fitting: Fitting, how: Streaming) -> GaussianMixture:
    """Say where a mixture works."""
    engine = how.scheduler or how.engine or "threads"
    mixture.set_params(engine=engine, n_jobs=fitting.threads)
    return mixture


def _find_size(
    source: Source, fitting: Fitting, how: Streaming, watch: Watch
) -> tuple[int, tuple[Candidate, ...]]:
    """Return the number of components: as given, of the checkpoint, or the best on a sample."""
    if fitting.components is not None:
        return fitting.components, ()
    saved = None if how.checkpoint is None else checkpoint.load(how.checkpoint)
    if saved is not None:
        return int(saved.identity["n_components"]), ()
    watch.stage("Comparing sizes on a sample of the rows", fitting.max_iter)
    imputer: GaussianMixtureImputer = make_imputer(fitting)
    candidates = tuple(imputer.fit(draw_rows(source, fitting.seed)).selection_)
    if not candidates:
        return 1, ()
    best = max(candidates, key=lambda each: each.share)
    return best.n_components, candidates


def draw_rows(source: Source, seed: int) -> np.ndarray:
    """Return rows drawn by chance from some pieces, spread over the whole table."""
    rng = np.random.default_rng([seed, 2])
    n_pieces = len(source.pieces)
    chosen = np.unique(np.linspace(0, n_pieces - 1, min(n_pieces, SAMPLED_PIECES)).astype(int))
    per_piece = -(-MAX_SAMPLE // len(chosen))
    parts = []
    for number in chosen:
        x = read(source.pieces[number])
        rows = np.sort(rng.choice(len(x), min(per_piece, len(x)), replace=False))
        parts.append(x[rows])
    return np.concatenate(parts)


def _tell_resume(how: Streaming, watch: Watch) -> None:
    saved = None if how.checkpoint is None else checkpoint.load(how.checkpoint)
    if saved is not None and saved.progress is not None:
        n_done = len(saved.progress.history)
        watch.note(
            Note(
                f"{show(str(how.checkpoint))} holds a fit: it goes on after iteration {n_done} of "
                f"start {saved.number + 1}. Delete the file to begin afresh."
            )
        )


def _shower(place: Path, fitting: Fitting, watch: Watch) -> Callable[[str, int, int], None]:
    """Return what turns the progress of a fit in pieces into stages and steps of a watch."""

    def show_progress(what: str, done: int, total: int) -> None:
        if what == "pass":
            watch.piece(done, total)
            return
        if done == 1:
            watch.stage(f"Reading {place.name}", total, "pieces")
        watch.step(done)
        if done == total:
            watch.stage("Fitting", fitting.max_iter)

    return show_progress


def _to_model(
    mixture: GaussianMixture, table: PieceTable, names: list[str], bounds: list[list[float]]
) -> TableModel:
    """Return what is saved: the mixture and its columns, without where it was fitted."""
    if hasattr(mixture, "feature_names_in_"):
        del mixture.feature_names_in_  # rows are given to it without names
    mixture.set_params(engine="threads", n_jobs=None, checkpoint=None)
    return TableModel().fit(
        mixture,
        names=names,
        columns=columns_to_plain(table.schema),
        marks=[],
        bounds=bounds,
    )


def _match(
    path: str | Path, reading: Reading, how: Streaming, watch: Watch, model: TableModel
) -> Ready:
    """Open a table for a model that exists."""
    place = check_path(path)
    schema = columns_from_plain(model.columns_)
    if any(column.kind == CATEGORY for column in schema.columns):
        raise CallError("The model uses categories (--one-hot), which need the whole table.")
    if read_marks((*reading.missing_values, *model.marks_)).numbers:
        raise CallError("--missing-values needs the whole table: turn such cells into nulls first.")
    layout = read_layout(place)
    found = match_columns(schema, layout.names).schema
    names = [column.name for column in schema.columns if column.kind == NUMBER]
    refuse_unknown(names, layout)
    extra = [column.name for column in found.columns if column.name not in names]
    if extra:
        watch.note(Note(f"{name_columns(extra)}: not known to the model, passed through."))
    memory = how.memory or DEFAULT_MEMORY
    return Ready(open_pieces(place, layout, found, names, memory), model, None)


def _used(model: TableModel) -> list[str]:
    return [str(name) for name in model.feature_names_in_]


def _fill(ready: Ready, writing: Writing, watch: Watch) -> np.ndarray:
    """Write the table with its gaps filled; return how many there were in each column used."""
    assert writing.path is not None
    table, model = ready.table, ready.model
    types = output_types(table, round_whole=writing.round_whole)
    bounds = np.array(model.bounds_, dtype=float).T
    total = len(table.source.pieces)
    watch.stage(f"Writing {writing.path.name}", total, "pieces")
    n_filled = np.zeros(table.source.d, dtype=int)
    source = table.source._replace(names=None)
    with (
        telling(_used(model), watch),
        writing_pieces(writing.path, types, raw=writing.raw) as write,
    ):
        for number, part in enumerate(fill_source(model.mixture_, source, bounds)):
            write(join_columns(table, number, part, types))
            n_filled += part.n_filled
            watch.step(number + 1)
    return n_filled


@contextmanager
def explaining() -> Iterator[None]:
    """Turn what engines and optional packages say into errors of the command line."""
    try:
        yield
    except EngineError as error:
        raise TableError(str(error)) from error
    except ImportError as error:
        raise CallError(str(error)) from error
