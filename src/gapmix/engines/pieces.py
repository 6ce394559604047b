"""Fits and fills of tables in pieces: nothing of the size of the table is ever held here."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gapmix import categories
from gapmix import units as scaling
from gapmix.density.conditional import Filled
from gapmix.em.checkpoint import digest
from gapmix.engines.budget import least_bytes
from gapmix.engines.choose import open_shard_engine
from gapmix.engines.contract import ShardEngine
from gapmix.engines.shards import Look, Seen, ShardedRows, build, survey
from gapmix.engines.shards import Spec as ShardSpec
from gapmix.engines.sources import (
    Piece,
    Source,
    SourceError,
    label_column,
    read,
    read_values,
)
from gapmix.fitting.climb import Task, climb
from gapmix.fitting.fitted import Fitted
from gapmix.fitting.matrix import (
    Matrix,
    check_magnitudes,
    log_unit,
    make_matrix,
    number_names,
    read_validation,
)
from gapmix.fitting.order import order_fitted, order_spec
from gapmix.fitting.progress import counter
from gapmix.fitting.resuming import identify, open_checkpoint
from gapmix.fitting.spec import Running, Spec, count_factors, is_diagonal, make_settings
from gapmix.fitting.starting import refuse_other
from gapmix.kinds import Possible, to_possible
from gapmix.plan import Plan
from gapmix.plan.patterns import Patterns
from gapmix.plan.planner import make_plan
from gapmix.plan.rows import Rows, prepare_rows
from gapmix.solvers.calibrate import costs_for
from gapmix.starts.kmeans import MAX_SAMPLE
from gapmix.structures import STRUCTURES
from gapmix.threads import count_threads
from gapmix.units import Scaling
from gapmix.wording import Advised, count

SAMPLE_PER_NUMBER = 10  # sampled rows for each mean to be found: K d of them
STATE_COPIES = 8  # of the parameters, between two passes
SAMPLE_SHARE = 8  # the sample takes at most this part of the memory


class Overview(NamedTuple):
    """What one pass over a whole table tells."""

    n_useful: int
    total_weight: float
    summary: scaling.Summary  # of the columns of numbers
    counts: tuple[np.ndarray, ...]  # (L_j,) weights of the levels of each category
    sample: np.ndarray  # (m, D) in the order of the table
    sample_weight: np.ndarray  # (m,)
    digest: str  # of the contents of all pieces, if that was asked for


class FillSpec(NamedTuple):
    """A piece to be filled, and by what."""

    piece: Piece
    first: int
    fill: Callable[[np.ndarray], Filled]
    possible: Possible | None  # values that may be filled in


class FilledPiece(NamedTuple):
    """The rows of a piece with their gaps filled."""

    x: np.ndarray  # (n, D), with codes of categories
    n_filled: np.ndarray  # (D,) gaps of each column
    values: tuple[list[Any], ...] = ()  # of each category, whose unknown levels are kept
    n_unknown: tuple[int, ...] = ()  # rows that show such a level, of each category


def fit_pieces(
    spec: Spec,
    source: Source,
    weight: np.ndarray | None,
    names: list[str],
    entropy: Sequence[int],
    running: Running,
    *,
    x_val: np.ndarray | None = None,
    before: Fitted | None = None,
    n_levels: np.ndarray | None = None,
    tell: Callable[[np.ndarray, Scaling], None] = lambda sample, units: None,
) -> Fitted:
    """Return the mixture that fits the rows of a table in pieces best, by the engine asked for.

    `tell` hears of the sample (m, D) and the units that a first pass over the table finds, and
    `n_levels` (D,) tells which columns are categories; the rest is as in `fitting.whole.fit`.
    """
    _refuse_little_memory(spec, running.n_jobs, source, n_levels)
    resumed = open_checkpoint(running, entropy)
    n_starts = spec.n_init if before is None else 1
    seeds = np.random.SeedSequence(resumed.entropy).spawn(1 + n_starts)
    with open_shard_engine(running.engine, running.n_jobs, source.memory) as engine:
        hashes = running.checkpoint is not None
        size = _sample_size(source, spec.n_components)
        seen = _look(engine, source, weight, size, n_levels, seeds[0], hashes=hashes)
        _refuse_too_few(spec, seen, source)
        sample = _read_sample(spec, seen, names, n_levels, tell)
        columns, units, coding = sample.columns, sample.units, sample.coding
        spec = order_spec(spec, columns)
        if before is not None:
            refuse_other(spec, before.parameters, len(columns), n_levels)
            before = order_fitted(before, columns, coding)
        chosen = _plan(spec, sample.patterns)
        if len(sample.x) < seen.n_useful:
            chosen = chosen._replace(n_rows=source.n_rows)
        contents = {"columns": source.d, "pieces": len(source.pieces), "data": seen.digest}
        contents |= {"sample_weight": weight, "X_val": x_val}
        if n_levels is not None:
            contents["levels"] = n_levels
        fresh, saved = identify(spec, running, resumed, before, contents)
        solver = spec.solver if chosen.forest else chosen.solver
        costs = costs_for(sample.patterns, spec.n_components)
        common = columns, units, spec.n_components, solver, costs, coding, n_levels
        shards = [
            ShardSpec(piece, own, *common, count_factors(spec))
            for piece, _, own in _cut(source, weight)
        ]
        engine.load(build, shards)
        sample_rows = _lay_out(spec, sample)
        rows = ShardedRows(
            engine,
            chosen.solver,
            seen.total_weight,
            sample_rows,
            secrets.token_hex(6),
            counter("pass", len(source.pieces)),
        )
        held_rows, held_unit = None, 0.0
        if x_val is not None:
            held_rows = _lay_out(spec, read_validation(sample, x_val))
            held_unit = log_unit(held_rows, units)
        target, center = (None, None) if before is None else (before.target, before.center)
        levels = categories.make_prior(categories.reorder(seen.counts, coding))
        unit = float(seen.summary.total[columns] @ np.log(units.scale) / seen.total_weight)
        task = Task(
            rows,
            sample_rows,
            tuple(seeds[1:]),
            make_settings(spec, units, seen.total_weight, target, center, levels),
            units,
            chosen,
            sample.names,
            held_rows,
            (unit, held_unit),
            before,
            fresh._replace(solver=chosen.solver),
            saved,
        )
        found = climb(spec, task, running)._replace(n_levels=n_levels)
        return order_fitted(found, np.argsort(columns), categories.invert(coding))


def fill_pieces(
    fill: Callable[[np.ndarray], Filled],
    source: Source,
    running: Running,
    possible: Possible | None = None,
) -> Iterator[FilledPiece]:
    """Yield every piece with its gaps filled by what is `possible`, in order, by the engine."""
    specs = [FillSpec(piece, first, fill, possible) for piece, first, _ in _cut(source, None)]
    with open_shard_engine(running.engine, running.n_jobs, source.memory) as engine:
        yield from _ticking(engine.map(fill_piece, specs), counter("fill", len(specs)))


def fill_piece(spec: FillSpec) -> FilledPiece:
    """Return the rows of a piece with their gaps filled."""
    x = read(spec.piece)
    infinite = np.isinf(x)
    if infinite.any():
        row, column = (int(i) for i in np.argwhere(infinite)[0])
        label = label_column(spec.piece, column)
        raise SourceError(f"Row {spec.first + row}, column {label} holds {x[row, column]}.")
    gaps = np.isnan(x)
    filled = spec.fill(x).mean
    if spec.possible is not None:
        filled = to_possible(spec.possible, x, filled)
    columns = [j for j, levels in enumerate(spec.piece.levels) if levels is not None]
    if not columns:
        return FilledPiece(filled, gaps.sum(axis=0))
    n_filled, values, n_unknown = gaps.sum(axis=0), [], []
    for j, shown in zip(columns, read_values(spec.piece, columns), strict=True):
        levels = spec.piece.levels[j]
        assert levels is not None
        named = levels.tolist()
        codes = filled[:, j].astype(int).tolist()
        values.append(
            [
                named[code] if value is None else value
                for value, code in zip(shown, codes, strict=True)
            ]
        )
        n_missing = sum(value is None for value in shown)
        n_unknown.append(int(n_filled[j]) - n_missing)
        n_filled[j] = n_missing
    return FilledPiece(filled, n_filled, tuple(values), tuple(n_unknown))


def _look(
    engine: ShardEngine,
    source: Source,
    weight: np.ndarray | None,
    size: int,
    n_levels: np.ndarray | None,
    seed: np.random.SeedSequence,
    *,
    hashes: bool,
) -> Overview:
    """Return counts, moments of the columns and a random sample of `size` rows, in one pass."""
    n = source.n_rows
    chosen = np.arange(n)
    if n > size:
        chosen = np.sort(np.random.default_rng(seed).choice(n, size, replace=False))
    looks = []
    for piece, first, weights in _cut(source, weight):
        low, high = np.searchsorted(chosen, [first, first + piece.n_rows])
        looks.append(Look(piece, first, weights, chosen[low:high] - first, hashes, n_levels))
    parts: list[Seen] = list(_ticking(engine.map(survey, looks), counter("survey", len(looks))))
    summary = parts[0].summary
    for part in parts[1:]:
        summary = scaling.merge(summary, part.summary)
    return Overview(
        sum(part.n_useful for part in parts),
        float(sum(part.total_weight for part in parts)),
        summary,
        tuple(np.sum(each, axis=0) for each in zip(*(part.counts for part in parts), strict=True)),
        np.concatenate([part.sample for part in parts]),
        np.concatenate([part.sample_weight for part in parts]),
        digest(np.array([part.digest for part in parts])),
    )


def _sample_size(source: Source, n_components: int) -> int:
    size = max(MAX_SAMPLE, SAMPLE_PER_NUMBER * n_components * source.d)
    return min(size, max(1000, source.memory // (SAMPLE_SHARE * 8 * source.d)))


def _read_sample(
    spec: Spec,
    seen: Overview,
    names: list[str],
    n_levels: np.ndarray | None,
    tell: Callable[[np.ndarray, Scaling], None],
) -> Matrix:
    """Return the sampled rows as a fit sees them, in the units of the whole table."""
    structure = STRUCTURES[spec.covariance_type]
    units = scaling.from_summary(seen.summary, common=structure.COMMON_UNITS)
    check_magnitudes(units, number_names(names, n_levels))
    tell(seen.sample, units)
    return make_matrix(
        seen.sample, seen.sample_weight, names, spec.covariance_type, units, n_levels=n_levels
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


def _plan(spec: Spec, patterns: Patterns) -> Plan:
    """Return the plan for a sample of the rows: of the solvers that need no tree, unless asked."""
    solver = spec.solver
    if solver == "auto" and not is_diagonal(spec) and not count_factors(spec):
        solver = "dual"
    return make_plan(
        patterns,
        spec.n_components,
        solver=solver,
        diagonal=is_diagonal(spec),
        n_factors=count_factors(spec),
        costs=costs_for(patterns, spec.n_components),
    )


def _lay_out(spec: Spec, matrix: Matrix) -> Rows:
    """Return rows as they are, without a tree and without merging any."""
    return prepare_rows(
        matrix.x,
        matrix.weight,
        spec.n_components,
        patterns=matrix.patterns,
        units=matrix.units,
        codes=matrix.codes if matrix.codes.shape[1] else None,
        n_factors=count_factors(spec),
    )


def _refuse_little_memory(
    spec: Spec, n_jobs: int | None, source: Source, n_levels: np.ndarray | None
) -> None:
    """Raise an error if parameters, statistics and a few rows alone take more than is allowed."""
    levels = categories.sizes(n_levels)
    structure, d = STRUCTURES[spec.covariance_type], source.d - len(levels)
    one = d * structure.n_sums or math.prod(structure.shape(d))
    numbers = spec.n_components * (one + sum(levels))
    copies = STATE_COPIES + 2 * count_threads(n_jobs)  # two sums for each thread
    needed = 8 * copies * numbers + least_bytes(source.d)
    if needed > source.memory:
        raise ValueError(
            f"memory={source.memory / 1e6:,.0f} MB is too little for {source.d:,} columns and "
            f"{count(spec.n_components, 'component')} on {count(count_threads(n_jobs), 'thread')}: "
            f"parameters, sums and a few rows take {needed / 1e6:,.0f} MB. Allow more memory, or "
            "use fewer columns or components."
        )


def _refuse_too_few(spec: Spec, seen: Overview, source: Source) -> None:
    needed = max(1, spec.n_components)
    if seen.n_useful < needed or len(seen.sample) < needed:
        fact = (
            f"Expected n_samples >= n_components, but {spec.n_components} components are "
            f"asked for and the table has {seen.n_useful} rows with an observed value and a "
            f"positive weight (n_samples = {source.n_rows})."
        )
        raise ValueError(Advised(fact, "n_components", "Lower n_components."))


def _ticking(items: Iterator[Any], tick: Callable[[], None] | None) -> Iterator[Any]:
    for item in items:
        yield item
        if tick is not None:
            tick()
