"""The rows of a table as EM reads them: internal units, sorted by pattern, cut into blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gapmix.patterns import Patterns, find_patterns
from gapmix.plan import Group, group_patterns, on_missing_side

BLOCK_BYTES = 32 * 2**20  # working memory of a block; measured, not critical within a factor of 4
MIN_BLOCK_ROWS = 64
MAX_BLOCK_ROWS = 4096
N_LANES = 4


class Block(NamedTuple):
    """Consecutive rows, with the patterns they have: the unit of work of a solver."""

    x: np.ndarray  # (n_b, d) internal units, 0 where missing
    weight: np.ndarray  # (n_b,)
    observed: np.ndarray  # (P_b, d) bool
    start: np.ndarray  # (P_b + 1,) rows of pattern p of this block are start[p]:start[p + 1]
    groups: tuple[Group, ...]  # the same patterns, batched by side and size


class Rows(NamedTuple):
    """A whole table, ready for EM."""

    patterns: Patterns
    x: np.ndarray  # (n, d) internal units, 0 where missing, in the order of patterns.order
    weight: np.ndarray  # (n,) in the same order
    blocks: tuple[Block, ...]


def prepare_rows(x: np.ndarray, weight: np.ndarray, n_components: int) -> Rows:
    """Sort rows (internal units, NaN where missing) by pattern and cut them into blocks.

    Blocks are fixed by the data and the number of components, never by the number of threads, so
    that sums over them are the same bits on any machine.
    """
    patterns = find_patterns(~np.isnan(x))
    ordered = x[patterns.order]
    np.nan_to_num(ordered, copy=False, nan=0.0)
    weight = weight[patterns.order]
    size = rows_per_block(patterns, n_components)
    blocks = tuple(
        cut_block(patterns, ordered, weight, first, min(first + size, len(ordered)))
        for first in range(0, len(ordered), size)
    )
    return Rows(patterns, ordered, weight, blocks)


def restore_order(sorted_values: np.ndarray, rows: Rows) -> np.ndarray:
    """Return values per row (n, ...) in the order the rows had before sorting."""
    original = np.empty_like(sorted_values)
    original[rows.patterns.order] = sorted_values
    return original


def deal_lanes(rows: Rows) -> list[tuple[Block, ...]]:
    """Deal the blocks to lanes, contiguous and nearly equal in number.

    Each lane is summed in order by one thread and lanes are merged in order: the tree of additions
    is fixed by the data. Few lanes, because each holds statistics of its own.
    """
    blocks = rows.blocks
    n_lanes = max(1, min(N_LANES, len(blocks)))
    bounds = [len(blocks) * i // n_lanes for i in range(n_lanes + 1)]
    return [blocks[low:high] for low, high in pairwise(bounds)]


def rows_per_block(patterns: Patterns, n_components: int) -> int:
    """Return how many rows keep the working memory of a block near BLOCK_BYTES."""
    observed = patterns.observed
    d = observed.shape[1]
    n_observed = observed.sum(axis=1)
    size = np.where(on_missing_side(observed), d - n_observed, n_observed).astype(float)
    factors = float(np.mean(size**2)) if size.size else 0.0
    bytes_per_row = 8 * n_components * (2 * d + factors) + 1
    return int(np.clip(BLOCK_BYTES / bytes_per_row, MIN_BLOCK_ROWS, MAX_BLOCK_ROWS))


def cut_block(
    patterns: Patterns, x: np.ndarray, weight: np.ndarray, first: int, last: int
) -> Block:
    """Return rows first:last as a block; `x` and `weight` are views, not copies."""
    low = int(np.searchsorted(patterns.start, first, side="right")) - 1
    high = int(np.searchsorted(patterns.start, last, side="left"))
    start = np.clip(patterns.start[low : high + 1], first, last) - first
    observed = patterns.observed[low:high]
    return Block(
        x[first:last], weight[first:last], observed, start, group_patterns(observed, start)
    )


def expand(per_pattern: np.ndarray, block: Block) -> np.ndarray:
    """Repeat a value per pattern (P_b, ...) for each of its rows, (n_b, ...)."""
    return np.repeat(per_pattern, np.diff(block.start), axis=0)
