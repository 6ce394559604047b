"""Moving a Cholesky factor when a variable goes: the inner loop of `solvers.factor`."""

from __future__ import annotations

import numpy as np

from gapmix.kernels.compiled import compile_kernel


def delete_column_twin(upper: np.ndarray, size: int, position: int) -> None:
    """Delete a variable from U with U'U = A, in place, by a QR factorisation of what is left."""
    left = np.delete(upper[:size, :size], position, axis=1)
    factor: np.ndarray = np.linalg.qr(left).R
    factor *= np.where(np.diagonal(factor) < 0, -1.0, 1.0)[:, None]
    upper[: size - 1, : size - 1] = np.triu(factor)


@compile_kernel("void(float64[:, ::1], int64, int64)", delete_column_twin)
def delete_column(upper: np.ndarray, size: int, position: int) -> None:
    """Delete the variable at `position` from U with U'U = A, in place, by Givens rotations.

    Without its column, U has one element below the diagonal in each column from `position` on;
    rotating neighbouring rows removes them from the top. Each row is read and written once.
    """
    for i in range(position):
        row = upper[i]
        for c in range(position, size - 1):
            row[c] = row[c + 1]
    carry = np.empty(size)
    for c in range(position, size - 1):
        carry[c] = upper[position, c + 1]
    for i in range(position, size - 1):
        below = upper[i + 1]
        row = upper[i]
        length = np.hypot(carry[i], below[i + 1])
        cosine, sine = carry[i] / length, below[i + 1] / length
        for c in range(i, size - 1):
            top = carry[c]
            low = below[c + 1]
            row[c] = cosine * top + sine * low
            carry[c] = cosine * low - sine * top
