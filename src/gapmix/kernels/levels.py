"""Categories of a block of rows: log probabilities added up, and levels counted.

Components stand side by side in vectors of eight, a row after the other; a missing level is one
more, whose numbers are 0, or not looked at.
`first` (C,) is where the levels of each category begin among all; codes are -1 where missing.
`kernels.twins` has the same functions in plain NumPy.
"""

from gapmix.kernels import twins
from gapmix.kernels.compiled import HAS_NUMBA, compile_inline, compile_kernel
from gapmix.kernels.interleaved import empty_vectors
from gapmix.kernels.records import CODES, INTS, MATRIX
from gapmix.plan.layout import LANES

if HAS_NUMBA:  # the tiles speak to Numba's compiler
    from gapmix.kernels.row_tiles import add_vector


@compile_inline
def _make_room(n_lines, n_components):  # type: ignore[no-untyped-def]
    """Return lines of zeros with room for all components, and the number of vectors of a line."""
    size = (n_components + LANES - 1) // LANES
    room = empty_vectors(n_lines * size)
    room[:] = 0.0
    return room, size


@compile_inline
def _find_level(codes, first, i, c, n_levels):  # type: ignore[no-untyped-def]
    """Return which of all levels a row shows, the one after the last if it shows none."""
    code = codes[i, c]
    return first[c] + code if code >= 0 else n_levels


@compile_kernel(CODES, INTS, MATRIX, MATRIX, twin=twins.add_log_levels)
def add_log_levels(codes, first, log_theta, total):  # type: ignore[no-untyped-def]
    """Add log p(categories shown | component) to total (K, n); log_theta is (levels, K)."""
    n_rows, n_categories = codes.shape
    n_levels, n_components = log_theta.shape
    beside, size = _make_room(n_levels + 1, n_components)
    for level in range(n_levels):
        for k in range(n_components):
            beside[level * size + k // LANES, k % LANES] = log_theta[level, k]
    of_row, _ = _make_room(1, n_components)
    for i in range(n_rows):
        of_row[:] = 0.0
        for c in range(n_categories):
            level = _find_level(codes, first, i, c, n_levels)
            for v in range(size):
                add_vector(of_row, beside, (v, level * size + v))
        for k in range(n_components):
            total[k, i] += of_row[k // LANES, k % LANES]


@compile_kernel(CODES, INTS, MATRIX, MATRIX, twin=twins.count_levels)
def count_levels(codes, first, resp, counts):  # type: ignore[no-untyped-def]
    """Add responsibilities (K, n) to the counts (K, levels) of the levels that rows show."""
    n_rows, n_categories = codes.shape
    n_components, n_levels = counts.shape
    beside, size = _make_room(n_levels + 1, n_components)
    of_row, _ = _make_room(1, n_components)
    for i in range(n_rows):
        for k in range(n_components):
            of_row[k // LANES, k % LANES] = resp[k, i]
        for c in range(n_categories):
            level = _find_level(codes, first, i, c, n_levels)
            for v in range(size):
                add_vector(beside, of_row, (level * size + v, v))
    for k in range(n_components):
        for level in range(n_levels):
            counts[k, level] += beside[level * size + k // LANES, k % LANES]
