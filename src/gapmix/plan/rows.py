"""The rows of a table as EM reads them: internal units, sorted by pattern, cut into blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.plan.forests import Cluster, Route
from gapmix.plan.layout import (
    LANES,
    Batches,
    Group,
    group_patterns,
    lay_out,
    on_missing_side,
    sequence,
)
from gapmix.plan.patterns import Patterns, find_patterns, reorder
from gapmix.units import Scaling

# Small blocks stay in the cache from the first kernel to the last and let threads share the work;
# large ones have long matrix products and more patterns of a size to solve side by side. Try others
# with `python -m benchmarks.growth`.
BLOCK_BYTES = 5 * 2**19, 8 * 2**20  # working memory of a block, of small and of large tables
BLOCK_SHARE = 0.25  # of the table, in between; not critical within a factor of 4
MIN_BLOCK_ROWS = 32
WIDE = 256  # from so many columns on, as many rows: each block touches whole d x d matrices
MAX_BLOCK_ROWS = 4096
N_QUEUES = 4
# Rows per observed variable from which a pattern's rows are worth replacing by two: a factorisation
# once, against half of the rows and fewer in every iteration.
COMPRESS_FROM = 4


class Block(NamedTuple):
    """Consecutive rows, with the patterns they have: the unit of work of a solver."""

    x: np.ndarray  # (n_b, d) internal units, 0 where missing
    weight: np.ndarray  # (n_b,)
    observed: np.ndarray  # (P_b, d) bool
    start: np.ndarray  # (P_b + 1,) rows of pattern p of this block are start[p]:start[p + 1]
    n_observed: np.ndarray  # (n_b,) observed variables of each row
    n_missing_side: int  # rows solved on their missing variables; they come first
    batches: Batches  # the same patterns by size, for compiled code
    codes: np.ndarray  # (n_b, C) levels of the categories, -1 where missing
    routes: tuple[Route, ...] = ()  # trees over them, for the solvers that walk

    @property
    def groups(self) -> tuple[Group, ...]:
        """The same patterns, batched by side and size, for NumPy."""
        return group_patterns(self.observed, self.start)


class Rows(NamedTuple):
    """A whole table, ready for EM."""

    patterns: Patterns
    x: np.ndarray  # (n, d) internal units, 0 where missing, in the order of patterns.order
    weight: np.ndarray  # (n,) in the same order
    blocks: tuple[Block, ...]
    codes: np.ndarray  # (n, C) levels of the categories in the same order, -1 where missing


class Layout(NamedTuple):
    """A table to go through once: which rows make a block. Blocks are made when they are needed."""

    x: np.ndarray  # (n, d), NaN where missing: the caller's own, not a copy
    patterns: Patterns
    spans: tuple[slice, ...]  # rows patterns.order[span] are a block
    units: Scaling | None  # how to bring rows to internal units; None if they are
    codes: np.ndarray  # (n, C) levels of the categories, -1 where missing


def lay_out_rows(
    x: np.ndarray,
    n_components: int,
    units: Scaling | None = None,
    codes: np.ndarray | None = None,
    n_factors: int = 0,
) -> Layout:
    """Return the blocks that `prepare_rows` would cut, without copying any row."""
    patterns = find_patterns(~np.isnan(x))
    patterns = reorder(patterns, sequence(patterns))
    size, n = rows_per_block(patterns, n_components, n_factors), len(x)
    spans = tuple(slice(low, min(low + size, n)) for low in range(0, n, size))
    return Layout(x, patterns, spans, units, no_codes(n) if codes is None else codes)


def no_codes(n: int) -> np.ndarray:
    """Return the codes of rows without categories, (n, 0)."""
    return np.empty((n, 0), dtype=np.int32)


def take_block(layout: Layout, span: slice) -> Block:
    """Return a block of rows, copied and brought to internal units."""
    x = _to_internal(layout.x[layout.patterns.order[span]], layout.units)
    codes = layout.codes[layout.patterns.order[span]]
    return _make_block(layout.patterns, x, np.ones(len(x)), span.start, codes)


def prepare_rows(
    x: np.ndarray,
    weight: np.ndarray,
    n_components: int,
    *,
    patterns: Patterns | None = None,
    forest: tuple[Cluster, ...] = (),
    units: Scaling | None = None,
    codes: np.ndarray | None = None,
    n_factors: int = 0,
) -> Rows:
    """Sort rows (NaN where missing) by pattern and cut them into blocks.

    Rows are in internal units already, or in the user's, and `units` tells how to convert them;
    `codes` (n, C) are their categories, which patterns know nothing of. `n_factors` is that of
    the components, 0 for those that have matrices.

    Blocks are fixed by the data and the number of components, never by the number of threads, so
    that sums over them are the same bits on any machine. With a forest, each cluster of patterns
    becomes a block; a lone pattern with very many rows becomes several.
    """
    patterns = find_patterns(~np.isnan(x)) if patterns is None else patterns
    if forest:
        patterns = reorder(patterns, np.concatenate([cluster.patterns for cluster in forest]))
    else:
        patterns = reorder(patterns, sequence(patterns))
    ordered = _to_internal(x[patterns.order], units)
    weight = weight[patterns.order]
    codes = no_codes(len(x)) if codes is None else codes[patterns.order]
    size = rows_per_block(patterns, n_components, n_factors)
    if forest:
        bounds = [(*span, routes) for span, routes in _cluster_bounds(patterns, forest, size)]
    else:
        n = len(ordered)
        bounds = [(low, min(low + size, n), ()) for low in range(0, n, size)]
    blocks = tuple(
        cut_block(patterns, ordered, weight, low, high, codes)._replace(routes=routes)
        for low, high, routes in bounds
    )
    return Rows(patterns, ordered, weight, blocks, codes)


def _to_internal(rows: np.ndarray, units: Scaling | None) -> np.ndarray:
    """Bring rows that are the caller's own to internal units, 0 where missing, in place."""
    if units is not None:
        rows -= units.center
        rows /= units.scale
    np.nan_to_num(rows, copy=False, nan=0.0)
    return rows


def _cluster_bounds(
    patterns: Patterns, forest: tuple[Cluster, ...], size: int
) -> list[tuple[tuple[int, int], tuple[Route, ...]]]:
    """Return the rows of each cluster, a lone pattern's in pieces of at most `size` rows."""
    bounds = []
    first = 0
    for cluster in forest:
        low, high = (int(patterns.start[i]) for i in (first, first + len(cluster.patterns)))
        first += len(cluster.patterns)
        step = size if len(cluster.patterns) == 1 else max(1, high - low)
        bounds += [((i, min(i + step, high)), cluster.routes) for i in range(low, high, step)]
    return bounds


def compress_rows(
    x: np.ndarray, weight: np.ndarray, patterns: Patterns
) -> tuple[np.ndarray, np.ndarray, Patterns]:
    """Replace the rows of a pattern by fewer weighted ones that are the same to a single Gaussian.

    With one component, log-likelihood and statistics see the rows of a pattern only through their
    weight, mean and scatter. Those of the 2 n_o points mean +- sqrt(n_o) l_j, where the l_j are the
    columns of a root of the covariance, are the same. Patterns with few rows stay as they are.
    """
    n_rows, n_o = np.diff(patterns.start), patterns.observed.sum(axis=1)
    pieces, weights, counts = [], [], n_rows.copy()
    for p, observed in enumerate(patterns.observed):
        rows = patterns.order[patterns.start[p] : patterns.start[p + 1]]
        if n_rows[p] <= COMPRESS_FROM * n_o[p] or n_o[p] == 0:
            pieces.append(x[rows])
            weights.append(weight[rows])
            continue
        total = weight[rows].sum()
        values = x[np.ix_(rows, observed)]
        mean = weight[rows] @ values / total
        root = np.linalg.qr(np.sqrt(weight[rows])[:, None] * (values - mean)).R
        offsets = root * np.sqrt(n_o[p] / total)
        counts[p] = 2 * n_o[p]
        points = np.full((counts[p], x.shape[1]), np.nan)
        points[:, observed] = mean + np.concatenate([offsets, -offsets])
        pieces.append(points)
        weights.append(np.full(counts[p], total / counts[p]))
    start = np.concatenate([[0], np.cumsum(counts)])
    same = Patterns(patterns.observed, np.arange(start[-1]), start)
    return np.concatenate(pieces), np.concatenate(weights), same


def deal_queues(rows: Rows) -> list[tuple[Block, ...]]:
    """Deal the blocks to queues in turn, because neighbouring blocks cost alike.

    Each queue is summed in order by one thread and queues are merged in order: the tree of
    additions is fixed by the data. Few queues, because each holds statistics of its own.
    """
    n_queues = max(1, min(N_QUEUES, len(rows.blocks)))
    return [rows.blocks[first::n_queues] for first in range(n_queues)]


def rows_per_block(patterns: Patterns, n_components: int, n_factors: int = 0) -> int:
    """Return how many rows keep the working memory of a block small beside the table."""
    observed = patterns.observed
    d = observed.shape[1]
    if n_factors:  # a few arrays as large as the block, whatever its patterns
        bytes_per_row = 8.0 * (5 * d + n_components * (n_factors + 1) ** 2)
        return int(np.clip(BLOCK_BYTES[1] / bytes_per_row, MIN_BLOCK_ROWS, MAX_BLOCK_ROWS))
    n_observed = observed.sum(axis=1)
    size = np.where(on_missing_side(observed), d - n_observed, n_observed).astype(float)
    factors = float(np.mean(size * (size + 3) / 2)) if size.size else 0.0
    bytes_per_row = 8 * n_components * (2 * d + factors) + 1
    table_bytes = 8.0 * len(patterns.order) * d
    block_bytes = np.clip(BLOCK_SHARE * table_bytes, *BLOCK_BYTES)
    least = max(MIN_BLOCK_ROWS, d) if d >= WIDE else MIN_BLOCK_ROWS
    n_rows = int(np.clip(block_bytes / bytes_per_row, least, MAX_BLOCK_ROWS))
    return n_rows // LANES * LANES if n_rows > LANES else n_rows  # patterns of one row fill lanes


def cut_block(
    patterns: Patterns,
    x: np.ndarray,
    weight: np.ndarray,
    first: int,
    last: int,
    codes: np.ndarray,
) -> Block:
    """Return rows first:last as a block; `x`, `weight` and `codes` are views, not copies."""
    return _make_block(patterns, x[first:last], weight[first:last], first, codes[first:last])


def _make_block(
    patterns: Patterns, x: np.ndarray, weight: np.ndarray, first: int, codes: np.ndarray
) -> Block:
    """Return rows as a block; they are those from number `first` on, in the patterns' order."""
    last = first + len(x)
    low = int(np.searchsorted(patterns.start, first, side="right")) - 1
    high = int(np.searchsorted(patterns.start, last, side="left"))
    start = np.clip(patterns.start[low : high + 1], first, last) - first
    observed = patterns.observed[low:high]
    rows = np.diff(start)
    on_missing = rows[on_missing_side(observed)].sum()
    return Block(
        x,
        weight,
        np.ascontiguousarray(observed),
        start,
        np.repeat(observed.sum(axis=1), rows),
        int(on_missing),
        lay_out(observed, start),
        codes,
    )


def expand(per_pattern: np.ndarray, block: Block) -> np.ndarray:
    """Repeat a value per pattern (P_b, ...) for each of its rows, (n_b, ...)."""
    return np.repeat(per_pattern, np.diff(block.start), axis=0)
