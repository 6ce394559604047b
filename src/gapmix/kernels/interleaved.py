"""Small factorisations side by side: eight matrices of one size share the vector registers.

Matrices are interleaved, element (i, j) of all eight next to each other, so that the innermost loop
runs over matrices and compiles to single vector instructions. Factors U of A = U'U are stored row
by row, (i, j) at i k - i (i + 1) / 2 + j, with diagonal elements *inverted*.

Numba keeps compiled code by the file it is called from: after a change here, touch `lanes.py`.
"""

from __future__ import annotations

import numpy as np

from gapmix.kernels.compiled import compile_inline, compile_kernel

LANES = 8

# Sums are kept in tuples of eight numbers, one per lane; unlike arrays, these live in registers.


@compile_inline
def _add_product(total, a, i, j):  # type: ignore[no-untyped-def]
    """Return total + a[i] * a[j], lane by lane."""
    return (
        total[0] + a[i, 0] * a[j, 0],
        total[1] + a[i, 1] * a[j, 1],
        total[2] + a[i, 2] * a[j, 2],
        total[3] + a[i, 3] * a[j, 3],
        total[4] + a[i, 4] * a[j, 4],
        total[5] + a[i, 5] * a[j, 5],
        total[6] + a[i, 6] * a[j, 6],
        total[7] + a[i, 7] * a[j, 7],
    )


@compile_inline
def _subtract(a, i, total):  # type: ignore[no-untyped-def]
    for lane in range(LANES):
        a[i, lane] -= total[lane]


@compile_inline
def _store(a, i, total):  # type: ignore[no-untyped-def]
    for lane in range(LANES):
        a[i, lane] = total[lane]


@compile_inline
def _store_negative_scaled(a, i, total, scale):  # type: ignore[no-untyped-def]
    for lane in range(LANES):
        a[i, lane] = -a[scale, lane] * total[lane]


@compile_inline
def _finish_row(a, row, i, k):  # type: ignore[no-untyped-def]
    """Turn the pivot of row i into its inverse square root and scale the row by it."""
    for lane in range(LANES):
        a[row + i, lane] = 1.0 / np.sqrt(a[row + i, lane])
    for j in range(i + 1, k):
        for lane in range(LANES):
            a[row + j, lane] *= a[row + i, lane]


@compile_kernel("void(float64[:, ::1], int64, int64)", None)
def cholesky(a, base, k):  # type: ignore[no-untyped-def]
    """Factor A = U'U in place; two rows and two columns at a time, so that loads are shared."""
    zero = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    i = 0
    while i + 1 < k:
        row = base + i * k - i * (i + 1) // 2  # element (i, j) is at row + j
        below = row + k - i - 1
        j = i
        while j < k:
            last = j + 1 == k
            t0, t1, u0, u1 = zero, zero, zero, zero
            line = base
            if last:
                for p in range(i):
                    t0 = _add_product(t0, a, line + i, line + j)
                    u0 = _add_product(u0, a, line + i + 1, line + j)
                    line += k - p - 1
            else:
                for p in range(i):
                    t0 = _add_product(t0, a, line + i, line + j)
                    t1 = _add_product(t1, a, line + i, line + j + 1)
                    u0 = _add_product(u0, a, line + i + 1, line + j)
                    u1 = _add_product(u1, a, line + i + 1, line + j + 1)
                    line += k - p - 1
                _subtract(a, row + j + 1, t1)
                _subtract(a, below + j + 1, u1)
            _subtract(a, row + j, t0)
            if j > i:
                _subtract(a, below + j, u0)
            j += 2
        _finish_row(a, row, i, k)
        for j in range(i + 1, k):
            for lane in range(LANES):
                a[below + j, lane] -= a[row + i + 1, lane] * a[row + j, lane]
        _finish_row(a, below, i + 1, k)
        i += 2
    if i < k:
        total = zero
        line = base
        for p in range(i):
            total = _add_product(total, a, line + i, line + i)
            line += k - p - 1
        row = base + i * k - i * (i + 1) // 2
        _subtract(a, row + i, total)
        _finish_row(a, row, i, k)


@compile_kernel("void(float64[:, ::1], int64, int64, float64[:, ::1])", None)
def solve(a, base, k, b):  # type: ignore[no-untyped-def]
    """Solve U'U x = b in place."""
    row = base
    for i in range(k):
        for lane in range(LANES):
            b[i, lane] *= a[row + i, lane]
        for j in range(i + 1, k):
            for lane in range(LANES):
                b[j, lane] -= a[row + j, lane] * b[i, lane]
        row += k - i - 1
    for i in range(k - 1, -1, -1):
        row = base + i * k - i * (i + 1) // 2
        for j in range(i + 1, k):
            for lane in range(LANES):
                b[i, lane] -= a[row + j, lane] * b[j, lane]
        for lane in range(LANES):
            b[i, lane] *= a[row + i, lane]


@compile_kernel("void(float64[:, ::1], int64, float64[:, ::1])", None)
def invert(a, k, inverse):  # type: ignore[no-untyped-def]
    """Turn L (lower, row by row, diagonal inverted) into X = L^-1 in place; set inverse = X'X.

    Four columns of X, and two by two elements of the product, are summed at a time.
    """
    zero = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for i in range(k):
        row = i * (i + 1) // 2
        j = 0
        while j < i:
            line = j * (j + 1) // 2  # row p of X, from p = j on
            t0, t1, t2, t3 = zero, zero, zero, zero
            if j + 3 < i:
                for p in range(j, j + 3):
                    t0 = _add_product(t0, a, row + p, line + j)
                    if p > j:
                        t1 = _add_product(t1, a, row + p, line + j + 1)
                    if p > j + 1:
                        t2 = _add_product(t2, a, row + p, line + j + 2)
                    line += p + 1
                for p in range(j + 3, i):
                    t0 = _add_product(t0, a, row + p, line + j)
                    t1 = _add_product(t1, a, row + p, line + j + 1)
                    t2 = _add_product(t2, a, row + p, line + j + 2)
                    t3 = _add_product(t3, a, row + p, line + j + 3)
                    line += p + 1
                _store_negative_scaled(a, row + j, t0, row + i)
                _store_negative_scaled(a, row + j + 1, t1, row + i)
                _store_negative_scaled(a, row + j + 2, t2, row + i)
                _store_negative_scaled(a, row + j + 3, t3, row + i)
                j += 4
            else:
                for p in range(j, i):
                    t0 = _add_product(t0, a, row + p, line + j)
                    line += p + 1
                _store_negative_scaled(a, row + j, t0, row + i)
                j += 1
    i = 0
    while i < k:
        row = i * (i + 1) // 2
        below = row + i + 1
        if i + 1 == k:  # the last row alone
            for j in range(k):
                _store(inverse, row + j, _add_product(zero, a, row + i, row + j))
            break
        for j in range(0, i, 2):
            t0 = _add_product(zero, a, row + i, row + j)
            t1 = _add_product(zero, a, row + i, row + j + 1)
            u0, u1 = zero, zero
            line = below
            for p in range(i + 1, k):
                t0 = _add_product(t0, a, line + i, line + j)
                t1 = _add_product(t1, a, line + i, line + j + 1)
                u0 = _add_product(u0, a, line + i + 1, line + j)
                u1 = _add_product(u1, a, line + i + 1, line + j + 1)
                line += p + 1
            _store(inverse, row + j, t0)
            _store(inverse, row + j + 1, t1)
            _store(inverse, below + j, u0)
            _store(inverse, below + j + 1, u1)
        t0 = _add_product(zero, a, row + i, row + i)
        u0, u1 = zero, zero
        line = below
        for p in range(i + 1, k):
            t0 = _add_product(t0, a, line + i, line + i)
            u0 = _add_product(u0, a, line + i + 1, line + i)
            u1 = _add_product(u1, a, line + i + 1, line + i + 1)
            line += p + 1
        _store(inverse, row + i, t0)
        _store(inverse, below + i, u0)
        _store(inverse, below + i + 1, u1)
        i += 2
