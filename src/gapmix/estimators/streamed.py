"""Fits and fills of tables in pieces: nothing of the size of the table is ever held here."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gapmix import density
from gapmix import units as scaling
from gapmix.density.fitted import Density
from gapmix.em import checkpoint
from gapmix.engines.choose import open_shard_engine
from gapmix.engines.contract import ShardEngine
from gapmix.engines.shards import Look, Seen, ShardedRows, Spec, build, survey
from gapmix.engines.sources import (
    Piece,
    Source,
    SourceError,
    label_column,
    least_bytes,
    need,
    open_source,
    read,
)
from gapmix.estimators import climb, options
from gapmix.estimators.validation import column_names, read_table, warn_codes
from gapmix.estimators.warning import Advised
from gapmix.plan import planner as plan
from gapmix.plan.patterns import find_patterns
from gapmix.plan.rows import prepare_rows
from gapmix.solvers.calibrate import costs_for
from gapmix.starts.kmeans import MAX_SAMPLE
from gapmix.storage.atomicfile import Replacement
from gapmix.threads import count_threads

Progress = Callable[[str, int, int], None]  # what, pieces done, pieces in all
SAMPLE_PER_NUMBER = 10  # sampled rows for each mean to be found: K d of them
STATE_COPIES = 8  # of the parameters, between two passes
SAMPLE_SHARE = 8  # the sample takes at most this part of the memory


class Overview(NamedTuple):
    """What one pass over a whole table tells."""

    n_useful: int
    total_weight: float
    summary: scaling.Summary
    sample: np.ndarray  # (m, d) in the order of the table
    sample_weight: np.ndarray  # (m,)


class FillSpec(NamedTuple):
    """A piece to be filled, and by what."""

    piece: Piece
    first: int
    density: Density
    bounds: np.ndarray | None  # (2, d) lowest and highest values filled in


class FilledPiece(NamedTuple):
    """The rows of a piece with their gaps filled."""

    x: np.ndarray  # (n, d)
    n_filled: np.ndarray  # (d,) gaps of each column


def fit_source(
    estimator: Any,
    X: Any,
    sample_weight: np.ndarray | None = None,
    x_val: Any = None,
    *,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> Any:
    """Fit a `GaussianMixture` to a table in pieces, by its `engine`.

    `GaussianMixture.fit` calls this when it is given such a table; by itself it also reports.

    Parameters
    ----------
    estimator : GaussianMixture
        It is fitted in place.
    X : path, array, memory map, dask collection or Source
        Whatever `gapmix.engines.sources.open_source` takes.
    sample_weight : ndarray of shape (n_samples,), default=None
        Row weights.
    x_val : array-like or data frame, default=None
        Rows to stop on.
    memory : int or str, default=None
        Passed on to `open_source`.
    progress : callable, default=None
        Called after every piece of every pass with what is being done, pieces done, pieces in all.

    Returns
    -------
    GaussianMixture
        The estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> from gapmix.estimators.streamed import fit_source
    >>> rows = np.random.default_rng(0).normal(size=(500, 2))
    >>> rows[::5, 1] = np.nan
    >>> seen = set()
    >>> mixture = fit_source(GaussianMixture(), rows, progress=lambda *step: seen.add(step))
    >>> sorted(seen)
    [('pass', 1, 1), ('survey', 1, 1)]
    """
    options.check(estimator)
    source = open_source(X) if memory is None else open_source(X, memory=memory)
    if estimator.validation_fraction is not None:
        raise ValueError(
            "validation_fraction cannot be used with a table in pieces: give rows of your own to "
            "stop on, fit(X, X_val=...)."
        )
    _refuse_little_memory(estimator, source)
    if source.n_rows < 2:
        raise ValueError(f"The table has {source.n_rows} rows; at least 2 are needed.")
    _record_columns(estimator, source)
    names = column_names(estimator)
    held = None if x_val is None else read_table(estimator, x_val, reset=False)
    saved, entropy = climb.begin(estimator)
    continues = estimator.warm_start and hasattr(estimator, "means_")
    seeds = np.random.SeedSequence(entropy).spawn(2 if continues else 1 + estimator.n_init)
    with open_shard_engine(estimator.engine, estimator.n_jobs, source.memory) as shard_engine:
        seen = _look(
            shard_engine, source, sample_weight, estimator.n_components, seeds[0], progress
        )
        _refuse_too_few(estimator, seen, source)
        warn_codes(seen.sample, np.ones(len(seen.sample)), names)
        units = scaling.from_summary(seen.summary, common=estimator.covariance_type == "spherical")
        options.check_magnitudes(units, names)
        options.warn_of_unknown(units.known, names)
        chosen = _plan(estimator, seen.sample)
        identity = climb.identify(estimator, units, seen.total_weight)
        if saved is not None:
            checkpoint.check_identity(saved, identity, estimator.checkpoint)
        costs = costs_for(chosen.patterns, estimator.n_components)
        solver = estimator.solver if chosen.forest else chosen.solver
        shard_engine.load(
            build,
            [
                Spec(piece, weight, units, estimator.n_components, solver, costs)
                for piece, _, weight in _cut(source, sample_weight)
            ],
        )
        sample_rows = prepare_rows(
            seen.sample, seen.sample_weight, estimator.n_components, units=units
        )
        tick = None if progress is None else _counter(progress, "pass", len(source.pieces))
        rows = ShardedRows(
            shard_engine,
            chosen.solver,
            seen.total_weight,
            sample_rows,
            secrets.token_hex(6),
            tick,
        )
        held_rows = None
        if held is not None:
            *_, kept = options.set_aside(estimator, held, np.ones(len(held)), held, seeds[0])
            assert kept is not None
            options.check_reach(kept.x, units, names)
            held_rows = prepare_rows(kept.x, kept.weight, estimator.n_components, units=units)
        target = estimator._target if continues else None
        center = estimator._center if continues else None
        settings = options.settings(estimator, units, seen.total_weight, target, center)
        unit = float(seen.summary.total @ np.log(units.scale) / seen.total_weight)
        held_unit = 0.0 if held_rows is None else options.log_unit(held_rows, units)
        task = climb.Task(
            rows,
            sample_rows,
            tuple(seeds[1:]),
            settings,
            held_rows,
            (unit, held_unit),
            continues,
            checkpoint.Saved(identity, entropy, chosen.solver, 0, None, None),
            saved,
        )
        climb.fit(estimator, task, units, chosen, names)
    return estimator


def impute_source(
    estimator: Any,
    X: Any,
    out: str | os.PathLike[str],
    *,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> None:
    """Write a table in pieces to a Parquet or CSV file, gaps filled, rows in their order.

    Pieces are filled by the estimator's engine and written here, one after the other. The file
    appears under its name when it is whole.

    Parameters
    ----------
    estimator : GaussianMixture
        Fitted.
    X : path, array, memory map, dask collection or Source
        The table, with the columns of the fit.
    out : path
        A name that ends in `.parquet`, `.pq` or `.csv`.
    memory, progress
        As in `fit_source`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> from gapmix.estimators.streamed import impute_source
    >>> rows = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, np.nan], [5.0, 10.0]])
    >>> mixture = GaussianMixture().fit(rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "filled.csv")
    ...     impute_source(mixture, rows, path)
    ...     print(np.loadtxt(path, delimiter=",", skiprows=1).round(2)[2])
    [3. 6.]
    """
    check_is_fitted(estimator)
    source = open_source(X) if memory is None else open_source(X, memory=memory)
    path = Path(out)
    if path.suffix not in (".parquet", ".pq", ".csv"):
        raise ValueError(f"{path}: the name must end in .parquet, .pq or .csv.")
    fitted = getattr(estimator, "feature_names_in_", None)
    names = source.names or tuple(str(j) for j in range(source.d))
    if fitted is not None:
        names = tuple(str(name) for name in fitted)
    write = _write_csv if path.suffix == ".csv" else _write_parquet
    with Replacement(path) as stream:
        parts = fill_pieces(estimator, source, progress=progress)
        write(stream, names, (part.x for part in parts))


def fill_pieces(
    estimator: Any,
    source: Source,
    *,
    bounds: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Iterator[FilledPiece]:
    """Yield every piece with its gaps filled, in order, by the estimator's engine.

    `bounds` (2, d) are the lowest and highest values filled in.
    """
    if source.d != estimator.n_features_in_:
        raise ValueError(
            f"The table has {source.d} columns, and the mixture was fitted to "
            f"{estimator.n_features_in_}."
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and source.names is not None and tuple(fitted) != source.names:
        raise ValueError(
            f"The table's columns {list(source.names)[:5]} ... are not those of the fit, "
            f"{list(fitted)[:5]} ..., in the same order."
        )
    model = estimator._density()._replace(n_jobs=1)  # pieces side by side already
    specs = [FillSpec(piece, first, model, bounds) for piece, first, _ in _cut(source, None)]
    tick = None if progress is None else _counter(progress, "fill", len(specs))
    with open_shard_engine(estimator.engine, estimator.n_jobs, source.memory) as engine:
        yield from _ticking(engine.map(fill_piece, specs), tick)


def fill_piece(spec: FillSpec) -> FilledPiece:
    """Return the rows of a piece with their gaps filled."""
    x = read(spec.piece)
    infinite = np.isinf(x)
    if infinite.any():
        row, column = (int(i) for i in np.argwhere(infinite)[0])
        label = label_column(spec.piece, column)
        raise SourceError(f"Row {spec.first + row}, column {label} holds {x[row, column]}.")
    gaps = np.isnan(x)
    filled = density.fill_means(spec.density, x)
    if spec.bounds is not None:
        filled = np.where(gaps, np.clip(filled, *spec.bounds), filled)
    return FilledPiece(filled, gaps.sum(axis=0))


def _write_parquet(stream: BinaryIO, names: tuple[str, ...], parts: Iterator[np.ndarray]) -> None:
    arrow, parquet = need("pyarrow", "cli"), need("pyarrow.parquet", "cli")
    schema = arrow.schema([(name, arrow.float64()) for name in names])
    # A dictionary of values that hardly repeat costs time and saves nothing.
    with parquet.ParquetWriter(stream, schema, use_dictionary=False) as writer:
        for x in parts:
            writer.write_table(arrow.table(list(x.T.copy()), schema=schema))


def _write_csv(stream: BinaryIO, names: tuple[str, ...], parts: Iterator[np.ndarray]) -> None:
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    stream.write((",".join(quoted) + "\n").encode())
    for x in parts:
        stream.writelines((",".join(map(repr, row)) + "\n").encode() for row in x.tolist())


def _look(
    engine: ShardEngine,
    source: Source,
    weight: np.ndarray | None,
    n_components: int,
    seed: np.random.SeedSequence,
    progress: Progress | None,
) -> Overview:
    """Return counts, moments of the columns and a random sample of rows, in one pass."""
    n = source.n_rows
    size = max(MAX_SAMPLE, SAMPLE_PER_NUMBER * n_components * source.d)
    size = min(size, max(1000, source.memory // (SAMPLE_SHARE * 8 * source.d)))
    chosen = np.arange(n)
    if n > size:
        chosen = np.sort(np.random.default_rng(seed).choice(n, size, replace=False))
    looks = []
    for piece, first, weights in _cut(source, weight):
        low, high = np.searchsorted(chosen, [first, first + piece.n_rows])
        looks.append(Look(piece, first, weights, chosen[low:high] - first))
    tick = None if progress is None else _counter(progress, "survey", len(looks))
    parts: list[Seen] = list(_ticking(engine.map(survey, looks), tick))
    summary = parts[0].summary
    for part in parts[1:]:
        summary = scaling.merge(summary, part.summary)
    return Overview(
        sum(part.n_useful for part in parts),
        float(sum(part.total_weight for part in parts)),
        summary,
        np.concatenate([part.sample for part in parts]),
        np.concatenate([part.sample_weight for part in parts]),
    )


def _cut(
    source: Source, weight: np.ndarray | None
) -> Iterator[tuple[Piece, int, np.ndarray | None]]:
    """Yield every piece with the number of its first row and the weights of its rows."""
    first = 0
    for piece in source.pieces:
        last = first + piece.n_rows
        yield piece, first, None if weight is None else weight[first:last]
        first = last


def _plan(estimator: Any, sample: np.ndarray) -> plan.Plan:
    """Return the plan for a sample of the rows: of the solvers that need no tree, unless asked."""
    diagonal = estimator.covariance_type in ("diag", "spherical")
    solver = estimator.solver
    if isinstance(solver, str) and solver == "auto" and not diagonal:
        solver = "dual"
    patterns = find_patterns(~np.isnan(sample))
    return plan.make_plan(
        patterns,
        estimator.n_components,
        solver=solver,
        diagonal=diagonal,
        costs=costs_for(patterns, estimator.n_components),
    )


def _record_columns(estimator: Any, source: Source) -> None:
    """Write number and names of the columns to the estimator, as `read_table` does for others."""
    estimator.n_features_in_ = source.d
    if source.names is not None:
        estimator.feature_names_in_ = np.array(source.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _refuse_little_memory(estimator: Any, source: Source) -> None:
    """Raise an error if parameters, statistics and a few rows alone take more than is allowed."""
    diagonal = estimator.covariance_type in ("diag", "spherical")
    numbers = estimator.n_components * source.d * (1 if diagonal else source.d)
    copies = STATE_COPIES + 2 * count_threads(estimator.n_jobs)  # two sums for each thread
    needed = 8 * copies * numbers + least_bytes(source.d)
    if needed > source.memory:
        raise ValueError(
            f"memory={source.memory / 1e6:,.0f} MB is too little for {source.d:,} columns and "
            f"{estimator.n_components} components on {count_threads(estimator.n_jobs)} threads: "
            f"parameters, sums and a few rows take {needed / 1e6:,.0f} MB. Allow more memory, or "
            "use fewer columns or components."
        )


def _refuse_too_few(estimator: Any, seen: Overview, source: Source) -> None:
    needed = max(1, estimator.n_components)
    if seen.n_useful < needed or len(seen.sample) < needed:
        fact = (
            f"Expected n_samples >= n_components, but {estimator.n_components} components are "
            f"asked for and the table has {seen.n_useful} rows with an observed value and a "
            f"positive weight (n_samples = {source.n_rows})."
        )
        raise ValueError(Advised(fact, "n_components", "Lower n_components."))


def _counter(progress: Progress, what: str, total: int) -> Callable[[], None]:
    count = 0

    def tick() -> None:
        nonlocal count
        count = count % total + 1
        progress(what, count, total)

    return tick


def _ticking(items: Iterator[Any], tick: Callable[[], None] | None) -> Iterator[Any]:
    for item in items:
        yield item
        if tick is not None:
            tick()
