"""The jobs on tables larger than memory: fit and fill in pieces, on threads or on a cluster."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gapmix.cli.earlier import OneHotModel
from gapmix.cli.filling import (
    FillResult,
    FitResult,
    apply_options,
    tell_extra,
    tell_unknown,
    writing_to,
)
from gapmix.cli.fitting import Ear, FitSummary, make_imputer, name_categories, telling
from gapmix.cli.gaps import Sureness, count_gaps, measure_sureness
from gapmix.cli.models import (
    apply_to_codes,
    columns_to_plain,
    load_model,
    marks_of,
    save_model,
    schema_of,
)
from gapmix.cli.pieces import (
    WHOLE,
    PieceTable,
    check_output,
    check_path,
    count_missing,
    describe_columns,
    join_columns,
    open_pieces,
    output_types,
    polars_types,
    read_layout,
    refuse_options,
    refuse_other_levels,
    refuse_unknown,
)
from gapmix.cli.reading import find_limit, read_bounds
from gapmix.cli.requests import Fitting, Reading, Streaming, Watch, Writing
from gapmix.em import checkpoint
from gapmix.engines.budget import DEFAULT_MEMORY
from gapmix.engines.contract import EngineError
from gapmix.engines.sources import Source, read
from gapmix.estimators.converted import as_imputer
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.levels import to_array
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.pieces import fill_source
from gapmix.estimators.shaped import list_shapes
from gapmix.estimators.sourced import code_source
from gapmix.fitting.progress import listening
from gapmix.fitting.spec import Running
from gapmix.kinds import ColumnValues, join, look, only_limits
from gapmix.starts.kmeans import MAX_SAMPLE
from gapmix.structures import STRUCTURES
from gapmix.tables.coding import match_columns
from gapmix.tables.dialect import TableError
from gapmix.tables.frames import named_rows
from gapmix.tables.scan import FIT_COPIES, available_bytes
from gapmix.tables.schema import (
    CATEGORY,
    NUMBER,
    USED,
    CallError,
    Note,
    Schema,
    feature_names,
    features,
)
from gapmix.tables.sink import refuse_types
from gapmix.wording import quote

SAMPLED_PIECES = 50  # the sample that sizes are compared on comes from at most so many


class PiecesAndModel(NamedTuple):
    """A table in pieces and a model for it."""

    table: PieceTable
    imputer: GaussianMixtureImputer
    summary: FitSummary | None  # if the model was fitted just now


def is_needed(path: str | Path, reading: Reading, how: Streaming) -> bool:
    """Tell whether a table is to be read in pieces: asked for, a folder, .npy, or too large."""
    limit = find_limit(reading)
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
    return n_bytes > (available_bytes() if limit is None else limit)


def fit(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    how: Streaming,
    output: Path,
    watch: Watch,
) -> FitResult:
    """Fit a model to a table in pieces and save it."""
    watch.plan(*_list_parts(fitting))
    with explaining():
        ready = _fit(path, reading, fitting, how, watch)
    save_model(ready.imputer, output, watch)
    assert ready.summary is not None
    n_features = ready.imputer.n_features_in_
    return FitResult(ready.table.layout.n_rows, n_features, (str(output),), ready.summary)


def impute(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    how: Streaming,
    writing: Writing,
    watch: Watch,
    model_path: Path | None = None,
) -> FillResult:
    """Fill a table in pieces by a model fitted to it, or by a model from a file."""
    check_path(path)
    check_output(writing.path)
    assert writing.path is not None
    refuse_types(writing.path, polars_types(read_layout(Path(path))))
    for option, given in (
        ("--draws", writing.draws is not None),
        ("--std", writing.std),
        ("--probabilities", writing.probabilities),
    ):
        if given:
            raise CallError(f"{option} {WHOLE}")
    watch.plan(*(_list_parts(fitting) if model_path is None else ()), "writing")
    began = time.perf_counter()
    with explaining():
        if model_path is None:
            ready = _fit(path, reading, fitting, how, watch)
            if writing.model_path is not None:
                save_model(ready.imputer, writing.model_path, watch)
        else:
            ready = _match(path, reading, fitting, load_model(model_path), watch)
        to_here = time.perf_counter()
        n_filled = _fill(ready, fitting, how, writing, watch)
    columns = ready.table.layout.names
    used = ready.imputer.feature_names_in_
    by_column = {str(name): int(n) for name, n in zip(used, n_filled, strict=True) if n}
    _, unfilled = count_gaps(ready.table.schema, known=model_path is not None)
    spent = 0.0 if ready.summary is None else ready.summary.seconds
    return FillResult(
        ready.table.layout.n_rows,
        len(columns),
        sum(by_column.values()) + sum(each.n_gaps for each in unfilled),
        sum(by_column.values()),
        by_column,
        unfilled,
        (str(writing.path),),
        ready.summary,
        {
            "reading": to_here - began - spent,
            "fitting": spent,
            "filling and writing": time.perf_counter() - to_here,
        },
        _look_at(ready),
    )


def _look_at(ready: PiecesAndModel) -> Sureness | None:
    """Return how sure the cells are that are filled in the first piece."""
    imputer, source = ready.imputer, ready.table.source
    names = list(source.names or ())
    coded = code_source(source, imputer.is_categorical_, imputer.categories_, names)
    columns = {column.name: column for column in ready.table.schema.columns}
    used = [columns[name] for name in names]
    return measure_sureness(apply_to_codes(imputer), read(coded.pieces[0]), used)


def _fit(
    path: str | Path, reading: Reading, fitting: Fitting, how: Streaming, watch: Watch
) -> PiecesAndModel:
    place = check_path(path)
    of_all = (
        ("--missing-values", reading.missing_values),
        ("--plots", fitting.plots),
        ("--refine", fitting.refine),
    )
    for option, given in of_all:
        if given:
            raise CallError(f"{option} {WHOLE}")
    layout = read_layout(place)
    running = Running(fitting.threads, how.scheduler or "threads")
    watch.stage(f"Looking for categories in {place.name}")
    schema = describe_columns(place, layout, reading.roles, _memory(reading), running, watch)
    table = open_pieces(place, layout, schema, feature_names(schema), _memory(reading))
    imputer = make_imputer(fitting).set_params(
        bounds=read_bounds(fitting.bounds, schema), shapes=None, refine=False
    )
    coded = _code(table)
    ear, names = Ear(watch), feature_names(schema)
    with telling(watch), listening(ear.hear, _shower(place, fitting, watch)):
        n_components = _find_size(imputer, coded, schema, fitting, watch)
        mixture = GaussianMixture(
            n_components,
            categorical_features=[names[f] for f in _find_levels(schema)],
            random_state=fitting.seed,
            engine=how.scheduler or "threads",
            n_jobs=fitting.threads,
            checkpoint=how.checkpoint,
            **(imputer.hand_on() | _take_structure(imputer, table.source)),
        )
        _tell_resume(how, watch)
        mixture.fit(table.source)
        seen = look_at_pieces(coded)
    mixture.set_params(engine="threads", n_jobs=None, checkpoint=None)  # it goes to other places
    imputer = as_imputer(mixture, imputer, seen)
    imputer.columns_ = columns_to_plain(schema)
    summary = ear.sum_up(imputer)._replace(converged=bool(mixture.converged_))
    return PiecesAndModel(table, imputer, summary)


def _list_parts(fitting: Fitting) -> tuple[str, ...]:
    return (*(("sizes",) if fitting.components is None else ()), "reading", "fitting")


def _memory(reading: Reading) -> int:
    return find_limit(reading) or DEFAULT_MEMORY


def _find_levels(schema: Schema) -> dict[int, tuple[Any, ...]]:
    """Return the levels of the categories among the columns used, by their place."""
    used = [schema.columns[j] for j in features(schema)]
    return {f: column.values for f, column in enumerate(used) if column.kind == CATEGORY}


def _code(table: PieceTable) -> Source:
    """Return the columns used of a table with codes of levels for categories."""
    levels = _find_levels(table.schema)
    chosen = np.isin(np.arange(table.source.d), list(levels))
    categories = [to_array(list(each)) for each in levels.values()]
    return code_source(table.source, chosen, categories, list(map(str, range(table.source.d))))


def _find_size(
    imputer: GaussianMixtureImputer, source: Source, schema: Schema, fitting: Fitting, watch: Watch
) -> int:
    """Return the number of components: as given, or the best on a sample.

    The imputer is fitted to the sample then, and knows what it compared and how to calibrate
    intervals. A fit that goes on from a checkpoint compares again: what is saved is the same.
    """
    if fitting.components is not None:
        return fitting.components
    watch.stage(
        "Comparing numbers of components on a sample of the rows", fitting.max_iter, part="sizes"
    )
    sample = draw_rows(source, fitting.seed)
    imputer.set_params(categorical_features=name_categories(schema))
    imputer.fit(named_rows(sample, source.names or (), _find_levels(schema)))
    best = max(imputer.selection_, key=lambda each: each.share, default=None)
    return 1 if best is None else best.n_components


def _take_structure(imputer: GaussianMixtureImputer, source: Source) -> dict[str, Any]:
    """Return covariance type, number of factors and ridge, as given or as found on a sample."""
    if hasattr(imputer, "mixture_"):
        named = ("covariance_type", "n_factors", "reg_covar")
        return {name: getattr(imputer.mixture_, name) for name in named}
    name, number = imputer._spec((source.n_rows, source.d)).covariance_type, imputer.n_factors
    return {
        "covariance_type": STRUCTURES[name].covariance_type or name,
        "n_factors": GaussianMixture.n_factors if isinstance(number, str) else number,
    }


def look_at_pieces(source: Source) -> tuple[ColumnValues, ...]:
    """Return what the columns of numbers of a table show; nothing of categories."""
    levels = source.pieces[0].levels or (None,) * source.d
    numbers = [j for j, each in enumerate(levels) if each is None]
    seen = [ColumnValues()] * source.d
    for piece in source.pieces:
        x = read(piece)
        for j in numbers:
            seen[j] = join(seen[j], look(x[:, j]))
    return tuple(seen)


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
                f"{quote(str(how.checkpoint))} holds a fit: it goes on after iteration {n_done} of "
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
            watch.stage(f"Reading {place.name}", total, "pieces", part="reading")
        watch.step(done)
        if done == total:
            watch.stage("Fitting", fitting.max_iter, part="fitting")

    return show_progress


def _match(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    imputer: GaussianMixtureImputer,
    watch: Watch,
) -> PiecesAndModel:
    """Open a table for a model that exists."""
    place = check_path(path)
    schema = schema_of(imputer)
    if isinstance(apply_to_codes(imputer), OneHotModel):
        raise CallError(
            "The model has categories as version 0.1 saved them, which "
            f"{WHOLE.replace('leave it out, or read', 'read')}"
        )
    own = any(column.marks for column in schema.columns)
    if reading.missing_values or own or marks_of(imputer).numbers:
        raise CallError("--missing-values needs the whole table: turn such cells into nulls first.")
    layout = read_layout(place)
    refuse_options(reading.roles)
    found = count_missing(match_columns(schema, layout.names).schema, layout)
    apply_options(imputer, fitting, found)
    refuse_unknown([c.name for c in schema.columns if c.kind == NUMBER], layout)
    refuse_other_levels(found, layout)
    names = [column.name for column in schema.columns if column.kind in USED]
    tell_extra(found, watch)
    return PiecesAndModel(open_pieces(place, layout, found, names, _memory(reading)), imputer, None)


def _fill(
    ready: PiecesAndModel, fitting: Fitting, how: Streaming, writing: Writing, watch: Watch
) -> np.ndarray:
    """Write the table with its gaps filled; return how many there were in each column used."""
    assert writing.path is not None
    table = ready.table
    types = output_types(table, raw_means=writing.raw_means)
    mixture = copy.copy(ready.imputer.mixture_)
    mixture.set_params(engine=how.scheduler or "threads", n_jobs=fitting.threads)
    mixture.is_categorical_ = ready.imputer.is_categorical_
    mixture.categories_ = ready.imputer.categories_
    watch.stage(f"Writing {writing.path.name}", len(table.source.pieces), "pieces", part="writing")
    n_filled = np.zeros(table.source.d, dtype=int)
    n_unknown = np.zeros(len(mixture.categories_), dtype=int)
    source = table.source._replace(names=None)
    possible = ready.imputer.possible()
    if writing.raw_means:
        possible = only_limits(possible)
    shapes, trust = list_shapes(ready.imputer, source.d), ready.imputer.trust_
    parts = fill_source(mixture, source, possible, shapes, trust, ready.imputer.heads_)
    with (
        telling(watch),
        writing_to(writing.path, types.names, None, watch, raw=writing.raw) as sink,
    ):
        for number, part in enumerate(parts):
            sink.write(join_columns(table, number, part, types))
            n_filled += part.n_filled
            n_unknown += np.array(part.n_unknown, dtype=int)
            watch.step(number + 1)
    named = ready.imputer.feature_names_in_[ready.imputer.is_categorical_].tolist()
    tell_unknown({name: n for name, n in zip(named, n_unknown.tolist(), strict=True) if n}, watch)
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
