"""Small factorisations side by side: eight matrices of one size share the vector registers.

Matrices are interleaved, element (i, j) of all eight next to each other as one vector. Factors U of
A = U'U are stored row by row, (i, j) at i k - i (i + 1) / 2 + j, with diagonal elements *inverted*.
Work goes in tiles of TILE x TILE vectors (`kernels.triangles`); if the size is no multiple of TILE,
the first tile is smaller, where sums are short.
"""

import numpy as np

from gapmix.kernels.compiled import HAS_NUMBA, compile_inline, compile_kernel
from gapmix.kernels.records import INT, MATRIX, VARIABLE_MATRIX
from gapmix.plan.layout import LANES

if HAS_NUMBA:  # the tiles speak to Numba's compiler
    from gapmix.kernels.triangles import (
        add_squares,
        copy,
        factor_corner,
        factor_tile,
        gather_row,
        invert_corner,
        invert_tile,
        multiply_corner,
        multiply_tile,
        scale,
        scatter_column,
        solve_down,
        solve_up,
    )
    from gapmix.kernels.vectors import TILE


@compile_inline
def empty_vectors(n):  # type: ignore[no-untyped-def]
    """Return n vectors, (n, LANES), each within one line of the cache."""
    memory = np.empty((n + 1) * LANES)
    first = -(memory.ctypes.data // 8) % LANES
    return memory[first : first + n * LANES].reshape((n, LANES))


@compile_inline
def _first_height(k):  # type: ignore[no-untyped-def]
    return k % TILE if k % TILE else min(k, TILE)


@compile_inline
def _place(base, k, i):  # type: ignore[no-untyped-def]
    """Return where row i begins, less i: its element j is at this place + j."""
    return base + i * k - i * (i + 1) // 2


@compile_kernel(MATRIX, VARIABLE_MATRIX, MATRIX, INT, INT)
def gather_triangle(matrix, place, a, base, k):  # type: ignore[no-untyped-def]
    """Set A in each lane to the rows and columns of a matrix at place[:k, lane]."""
    for i in range(k):
        gather_row(matrix, place, a, (k, i, _place(base, k, i)))


@compile_kernel(MATRIX, VARIABLE_MATRIX, MATRIX, INT)
def scatter_triangle(matrix, place, a, k):  # type: ignore[no-untyped-def]
    """Add A in each lane to the lower triangle of a matrix, at place[:k, lane], ascending."""
    for j in range(k):
        scatter_column(matrix, place, a, (k, j))


@compile_kernel(MATRIX, INT, MATRIX, INT)
def copy_triangle(a, base, target, k):  # type: ignore[no-untyped-def]
    """Copy matrices that begin at `base` to the beginning of a target."""
    copy(a, target, (base, k * (k + 1) // 2))


@compile_kernel(MATRIX, INT, MATRIX)
def scale_triangle(a, k, weight):  # type: ignore[no-untyped-def]
    """Multiply A by a weight for each lane, (1, LANES), in place."""
    scale(a, weight, (k * (k + 1) // 2,))


@compile_kernel(MATRIX, INT, MATRIX)
def add_square(a, k, b):  # type: ignore[no-untyped-def]
    """Add b b' times a weight to A, in place; the weight of each lane comes after b, in b[k]."""
    for i in range(k):
        add_squares(a, b, (k, i, _place(0, k, i), k))


@compile_kernel(MATRIX, INT, INT)
def cholesky(a, base, k):  # type: ignore[no-untyped-def]
    """Factor A = U'U in place, one row of tiles after the other."""
    i, height = 0, _first_height(k)
    while i < k:
        row = _place(base, k, i)
        factor_corner(a, (base, k, i, row, height))
        for j in range(i + height, k, TILE):
            factor_tile(a, (base, k, i, row, j, height))
        i += height
        height = TILE


@compile_kernel(MATRIX, INT, INT, MATRIX)
def solve(a, base, k, b):  # type: ignore[no-untyped-def]
    """Solve U'U x = b in place."""
    first = _first_height(k)
    i, height = 0, first
    while i < k:
        solve_down(a, b, (k, i, _place(base, k, i), height))
        i += height
        height = TILE
    while i > 0:
        height = TILE if i > first else first
        i -= height
        solve_up(a, b, (k, i, _place(base, k, i), height))


@compile_kernel(MATRIX, INT)
def invert(a, k):  # type: ignore[no-untyped-def]
    """Turn U into V = U^-1 and then into the inverse of A, V V', all in place (upper triangle)."""
    first = _first_height(k)
    j, width = 0, first
    while j < k:
        row_j = _place(0, k, j)
        invert_corner(a, (k, j, row_j, width))
        i, height = 0, first
        while i < j:
            invert_tile(a, (k, i, _place(0, k, i), j, row_j, height))
            i += height
            height = TILE
        j += width
        width = TILE
    j, width = 0, first
    while j < k:
        row_j = _place(0, k, j)
        i, height = 0, first
        while i < j:  # columns of V left of j are not needed any more
            multiply_tile(a, (k, i, _place(0, k, i), j, row_j, height))
            i += height
            height = TILE
        multiply_corner(a, (k, j, row_j, width))
        j += width
        width = TILE
