"""Moving a Cholesky factor when variables go: the inner loop of `solvers.moving`."""

import numpy as np

from gapmix.kernels.compiled import compile_kernel
from gapmix.kernels.records import INT, INTS, MATRIX


def delete_columns_twin(upper: np.ndarray, size: int, positions: np.ndarray) -> None:
    """Delete variables from U with U'U = A, in place, by a QR factorisation of what is left."""
    left = np.delete(upper[:size, :size], positions, axis=1)
    factor: np.ndarray = np.linalg.qr(left).R
    factor *= np.where(np.diagonal(factor) < 0, -1.0, 1.0)[:, None]
    n_left = size - len(positions)
    upper[:n_left, :n_left] = np.triu(factor)


def _delete_columns(upper: np.ndarray, size: int, positions: np.ndarray) -> None:
    """Delete the variables at `positions` (ascending) from U with U'U = A, in place, by rotations.

    A row whose variable goes has no column of its own left: it is carried along, and rotated into
    every row below it. All deletions are done in one pass: each row of U is read and written once,
    and the few carried rows stay in the cache.
    """
    n_deleted = positions.size
    n_left = size - n_deleted
    carried = np.empty((max(1, n_deleted), max(1, n_left)))
    main = np.empty(max(1, n_left))
    n_carried = 0
    i = 0  # the row that is written
    for r in range(size):
        row = upper[r]
        goes = n_carried < n_deleted and positions[n_carried] == r
        target = carried[n_carried] if goes else main
        column = r + 1 if goes else r
        following = n_carried + 1 if goes else n_carried
        place = i
        while column < size:  # what is left of the row, moved together
            stop = positions[following] if following < n_deleted else size
            out, source = target[place : place + stop - column], row[column:stop]
            for c in range(out.size):
                out[c] = source[c]
            place += stop - column
            column = stop + 1
            following += 1
        if goes:
            n_carried += 1
            continue
        for s in range(n_carried):
            other = carried[s]
            length = np.hypot(main[i], other[i])
            cosine, sine = main[i] / length, other[i] / length
            # counting from 0 over slices: only then are the loops known to need no index check
            upper_part, lower_part = main[i:n_left], other[i:n_left]
            for c in range(upper_part.size):
                top, low = upper_part[c], lower_part[c]
                upper_part[c] = cosine * top + sine * low
                lower_part[c] = cosine * low - sine * top
        out, source = upper[i, i:n_left], main[i:n_left]
        for c in range(out.size):
            out[c] = source[c]
        i += 1


_LIKE = (MATRIX, INT, INTS)
delete_columns = compile_kernel(*_LIKE, twin=delete_columns_twin)(_delete_columns)
delete_columns_quickly = compile_kernel(*_LIKE, twin=delete_columns_twin, keep_lock=True)(
    _delete_columns
)
