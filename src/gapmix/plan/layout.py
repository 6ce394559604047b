"""How the patterns of a block are laid out for compiled code: sides, index sets, sizes, batches."""

from typing import NamedTuple

import numpy as np

from gapmix.plan.patterns import Patterns, count_rows

LANES = 8  # patterns solved side by side
# What is solved side by side shares vector registers; what is solved alone has LAPACK's blocking,
# and its rows one matrix product. `python -m benchmarks.solver_costs` shows what either costs.
LARGEST_IN_LANES = 192  # larger index sets are left to LAPACK, one by one: eight fill 1.2 MB,
BLAS_SIZE, BLAS_ROWS = 12, 24  # and so are those of patterns with so many variables and rows


class Group(NamedTuple):
    """Patterns that share a side and a size, so that they can be solved in one batch.

    On the missing side the index set of a pattern holds its missing variables, on the observed
    side its observed ones. Both sides do the same thing with it: factor the small matrix A_ss.
    """

    missing_side: bool
    variables: np.ndarray  # (B, k) variables in the index set of each pattern
    pattern: np.ndarray  # (B,) number of the pattern
    row: np.ndarray  # (R,) rows of these patterns, pattern by pattern
    member: np.ndarray  # (R,) which of the B patterns a row belongs to


class Batches(NamedTuple):
    """The groups of a block laid out for compiled code; the first ten arrays are its contract."""

    side: np.ndarray  # (G,) 1 missing, 0 observed
    size: np.ndarray  # (G,) variables in the index sets, ascending
    low: np.ndarray  # (G,) patterns of group g are pattern[low[g]:high[g]]
    high: np.ndarray  # (G,)
    pattern: np.ndarray  # (P_b,)
    variables: np.ndarray  # index sets, one after the other in the order of `pattern`
    variable_start: np.ndarray  # (P_b,) where the set of pattern p begins
    packed_start: np.ndarray  # (G,) where the factors of group g begin
    start: np.ndarray  # (P_b + 1,) rows of pattern p
    solution_start: np.ndarray  # (P_b,) where the solutions of the rows of pattern p begin
    n_small: int  # groups that are solved in lanes come first
    n_packed: int  # rows of the array of factors
    n_solution: int


def on_missing_side(observed: np.ndarray) -> np.ndarray:
    """Return True for the patterns (P, d) whose missing set is the smaller or equal one."""
    n_observed = observed.sum(axis=1)
    return observed.shape[1] - n_observed <= n_observed


def index_sets(observed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return side (P,), index set (P, d) and its size (P,) of each pattern: the smaller side."""
    missing_side = on_missing_side(observed)
    in_set = np.where(missing_side[:, None], ~observed, observed)
    return missing_side, in_set, in_set.sum(axis=1)


def group_patterns(observed: np.ndarray, start: np.ndarray) -> tuple[Group, ...]:
    """Batch the patterns (P, d) of a block by side and size; rows of p are start[p]:start[p+1]."""
    missing_side, in_set, size = index_sets(observed)
    rows = np.diff(start)
    key = 2 * size + missing_side
    groups = []
    for value in np.unique(key):  # by size, then side
        pattern = np.flatnonzero(key == value)
        n_rows = rows[pattern]
        variables = np.nonzero(in_set[pattern])[1].reshape(pattern.size, int(value) // 2)
        member = np.repeat(np.arange(pattern.size), n_rows)
        within = np.arange(member.size) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
        row = np.repeat(start[pattern], n_rows) + within
        groups.append(Group(bool(value % 2), variables, pattern, row, member))
    return tuple(groups)


def lay_out(observed: np.ndarray, start: np.ndarray) -> Batches:
    """Lay out the patterns (P, d) of a block: those solved in lanes first, by size and side."""
    rows = np.diff(start)
    missing_side, in_set, size = index_sets(observed)
    alone = (size > LARGEST_IN_LANES) | ((size >= BLAS_SIZE) & (rows >= BLAS_ROWS))
    pattern = np.lexsort((-rows, missing_side, size, alone))
    size_p = size[pattern]
    key = np.stack([alone[pattern], size_p, missing_side[pattern]])
    is_first = np.ones(len(pattern), dtype=bool)
    is_first[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    low = np.flatnonzero(is_first)
    high = np.append(low[1:], len(pattern))
    variable_start, solution_start = np.empty_like(pattern), np.empty_like(pattern)
    variable_start[pattern] = np.cumsum(size_p) - size_p
    cells = size_p * rows[pattern]
    solution_start[pattern] = np.cumsum(cells) - cells
    group_size, group_alone = size_p[low], alone[pattern[low]]
    elements = group_size * (group_size + 1) // 2
    packed = np.where(group_alone, 0, -(-(high - low) // LANES) * elements)
    return Batches(
        missing_side[pattern[low]].astype(np.int64),
        group_size,
        low,
        high,
        pattern,
        np.nonzero(in_set[pattern])[1].astype(np.uint32),
        variable_start,
        np.cumsum(packed) - packed,
        np.ascontiguousarray(start, dtype=np.int64),
        solution_start,
        int((~group_alone).sum()),
        int(packed.sum()),
        int(cells.sum()),
    )


def sequence(patterns: Patterns) -> np.ndarray:
    """Return the order in which patterns are laid out: by side, then size, most rows first.

    Blocks then hold few sizes, and rows on the missing side come before all others.
    """
    missing_side, _, size = index_sets(patterns.observed)
    return np.lexsort((-count_rows(patterns), size, ~missing_side))
