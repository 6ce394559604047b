"""Shards: the rows of one piece of a table, laid out for EM, and what is asked of them.

All functions here run where the rows are. What crosses is small: a specification or parameters
one way, packed statistics the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gapmix import categories
from gapmix import units as scaling
from gapmix.categories import NO_CODING, Coding
from gapmix.em.checkpoint import digest
from gapmix.em.steps import sum_blocks
from gapmix.engines.contract import ShardEngine
from gapmix.engines.sources import Piece, SourceError, label_column, read
from gapmix.parameters import Parameters
from gapmix.plan.costs import Costs
from gapmix.plan.forests import Cluster, TreeOptions
from gapmix.plan.patterns import Patterns, find_patterns
from gapmix.plan.planner import make_plan
from gapmix.plan.rows import Block, Rows, compress_rows, prepare_rows
from gapmix.solvers import SOLVERS
from gapmix.statistics import Statistics, merge_into, pack, unpack, zero_statistics
from gapmix.structures import STRUCTURES
from gapmix.threads import one_blas_thread
from gapmix.units import Scaling, Summary


class Look(NamedTuple):
    """Which rows to look at, before anything is known of them."""

    piece: Piece
    first: int  # number of its first row in the table
    weight: np.ndarray | None  # (n,) row weights; None means 1 each
    chosen: np.ndarray  # rows of the piece that go to the sample
    hashes: bool  # whether a digest of the rows is asked for
    n_levels: np.ndarray | None  # (D,) levels of each column, 0 for numbers


class Seen(NamedTuple):
    """What a first pass over a piece tells."""

    n_useful: int  # rows with an observed value and a positive weight
    total_weight: float  # of these
    summary: Summary  # of the columns of numbers
    counts: tuple[np.ndarray, ...]  # (L_j,) weights of the levels of each category
    sample: np.ndarray  # (m, D) the chosen rows, without useless ones
    sample_weight: np.ndarray  # (m,)
    digest: str  # of the rows; "" if not asked for


class Spec(NamedTuple):
    """How to build a shard."""

    piece: Piece
    weight: np.ndarray | None
    columns: np.ndarray  # (d,) of numbers, in the order of the fit
    units: Scaling  # in this order
    n_components: int
    solver: str | TreeOptions
    costs: Costs
    coding: Coding = NO_CODING  # of categories, in the order of the fit
    n_levels: np.ndarray | None = None  # (D,) levels of each column, 0 for numbers
    n_factors: int = 0  # of the components


class Shard(NamedTuple):
    """Blocks of rows with their patterns and plan."""

    blocks: tuple[Block, ...]


class Message(NamedTuple):
    """What a pass needs: the solver and the parameters, or what it prepared from them."""

    token: str  # names the pass
    solver: str
    parameters: Parameters
    prepared: Any  # None where it cannot be shared


def survey(look: Look) -> Seen:
    """Return counts, columns' moments and the sampled rows of a piece."""
    x = read(look.piece)
    infinite = np.isinf(x)
    if infinite.any():
        row, column = (int(i) for i in np.argwhere(infinite)[0])
        raise SourceError(
            f"Row {look.first + row}, column {label_column(look.piece, column)} holds "
            f"{x[row, column]}. Every value must be finite, or NaN where it is missing."
        )
    weight = np.ones(len(x)) if look.weight is None else look.weight
    useful = (weight > 0) & ~np.isnan(x).all(axis=1)
    sampled = look.chosen[useful[look.chosen]]
    weight = np.where(useful, weight, 0.0)
    numbers, codes = categories.split_table(x, look.n_levels)
    with one_blas_thread():
        summary = scaling.summarize(numbers, weight)
    total = float(weight.sum())
    counts = categories.count_codes(codes, weight, categories.sizes(look.n_levels))
    contents = digest(x) if look.hashes else ""
    return Seen(int(useful.sum()), total, summary, counts, x[sampled], weight[sampled], contents)


def build(spec: Spec) -> Shard:
    """Return the shard of a piece: rows in internal units, sorted by pattern, cut into blocks."""
    x = read(spec.piece)
    weight = np.ones(len(x)) if spec.weight is None else spec.weight
    useful = (weight > 0) & ~np.isnan(x).all(axis=1)
    if not useful.any():
        return Shard(())
    if not useful.all():
        x, weight = x[useful], weight[useful]
    x, codes = categories.split_table(x, spec.n_levels)
    x, codes = np.ascontiguousarray(x[:, spec.columns]), categories.recode(codes, spec.coding)
    patterns: Patterns = find_patterns(~np.isnan(x))
    with one_blas_thread():
        name = spec.solver if isinstance(spec.solver, str) else spec.solver.name
        forest: tuple[Cluster, ...] = ()
        if name in ("tree", "paper"):
            forest = make_plan(
                patterns, spec.n_components, solver=spec.solver, costs=spec.costs
            ).forest
        if spec.n_components == 1 and not codes.shape[1]:
            x, weight, patterns = compress_rows(x, weight, patterns)
        rows = prepare_rows(
            x,
            weight,
            spec.n_components,
            patterns=patterns,
            forest=forest,
            units=spec.units,
            codes=codes if codes.shape[1] else None,
            n_factors=spec.n_factors,
        )
    return Shard(rows.blocks)


def sum_shard(shard: Shard, message: Message) -> np.ndarray:
    """Return the packed statistics of a shard, its blocks added up in order."""
    solver, parameters = SOLVERS[message.solver], message.parameters
    n_components, d = parameters.means.shape
    n_levels = sum(categories.count_levels(parameters.categories))
    shape: dict[str, Any] = {
        "n_levels": n_levels,
        "n_sums": STRUCTURES[parameters.structure].n_sums,
    }
    total = zero_statistics(n_components, d, diagonal=solver.SUMS_DIAGONAL, **shape)
    with one_blas_thread():
        sum_blocks(solver, _prepared(message), parameters, shard.blocks, total)
    return pack(total, shape["n_sums"])


class _Last:
    """What this process prepared last: all its shards ask for the same."""

    lock = threading.Lock()
    token = ""
    prepared: Any = None


def _prepared(message: Message) -> Any:
    if message.prepared is not None:
        return message.prepared
    with _Last.lock:
        if _Last.token != message.token:
            _Last.prepared = SOLVERS[message.solver].prepare(message.parameters)
            _Last.token = message.token
        return _Last.prepared


class ShardedRows:
    """The rows of a fit as shards on an engine: what `em.run` takes in place of `Rows`."""

    def __init__(
        self,
        engine: ShardEngine,
        solver: str,
        total_weight: float,
        sample: Rows,
        name: str,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self.total_weight = total_weight
        self.sample = sample
        self.n_bytes = 0  # received in the last pass
        self._engine = engine
        self._solver = solver
        self._name = name  # tells passes of different fits apart
        self._n_passes = 0
        self._tick = tick

    def sum_statistics(self, prepared: Any, parameters: Parameters) -> Statistics:
        """Return the statistics of all rows, shards merged in their order."""
        self._n_passes += 1
        self.n_bytes = 0
        message = Message(
            f"{self._name}-{self._n_passes}",
            self._solver,
            parameters,
            prepared if self._engine.SHARES_MEMORY else None,
        )
        n_components, d = parameters.means.shape
        shape: dict[str, Any] = {
            "diagonal": SOLVERS[self._solver].SUMS_DIAGONAL,
            "n_levels": sum(categories.count_levels(parameters.categories)),
            "n_sums": STRUCTURES[parameters.structure].n_sums,
        }
        total = zero_statistics(n_components, d, **shape)
        for vector in self._engine.step(sum_shard, message):
            self.n_bytes += vector.nbytes
            merge_into(total, unpack(vector, n_components, d, **shape))
            if self._tick is not None:
                self._tick()
        return total
