"""A Cholesky factor that moves from one index set to another: what `paper` and `tree` walk with."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from gapmix import kernels
from gapmix.kernels.blas import LONG_CALL, solve_upper
from gapmix.statistics import mirror

LOSS = 1e-13  # a pivot below this share of its diagonal element has lost its digits


class MovingFactor:
    """The factor U of A_ss = U'U, with variables in an order of its own. Changes in place.

    Variables are appended last and deleted from anywhere. The array is as wide as the largest set
    on the way, so that moving never allocates.
    """

    def __init__(self, width: int) -> None:
        self._upper = np.zeros((width, width))
        self._variables = np.zeros(width, dtype=int)
        self._size = 0

    @property
    def variables(self) -> np.ndarray:
        """Variables in the factor's order, (k,)."""
        return self._variables[: self._size]

    def start(self, matrix: np.ndarray, variables: np.ndarray) -> None:
        """Factor A_ss from scratch."""
        k = variables.size
        if k:
            upper, info = lapack.dpotrf(matrix[np.ix_(variables, variables)].T, lower=0, clean=1)
            if info:
                raise np.linalg.LinAlgError(f"pivot {info} is not positive")
            self._upper[:k, :k] = upper
        self._variables[:k] = variables
        self._size = k

    def copy_from(self, other: MovingFactor) -> None:
        """Become a copy of another factor."""
        k = other._size
        self._upper[:k, :k] = other._upper[:k, :k]
        self._variables[:k] = other._variables[:k]
        self._size = k

    def delete(self, variables: np.ndarray) -> None:
        """Take variables out of the set, O(k^2) each, in one pass."""
        positions = np.sort(self.positions(variables))
        factors = kernels.load("factors")
        is_long = self._size**2 >= LONG_CALL
        delete = factors.delete_columns if is_long else factors.delete_columns_quickly
        delete(self._upper, self._size, positions)
        left = np.delete(self.variables, positions)
        self._size = left.size
        self._variables[: left.size] = left

    def append(self, matrix: np.ndarray, variables: np.ndarray) -> bool:
        """Put variables into the set, all at once; return False if their pivots are lost.

        With W = U^-T A_sv, the new columns are W above the factor of A_vv - W'W.
        """
        k, m = self._size, variables.size
        cross = np.ascontiguousarray(matrix[np.ix_(variables, self.variables)])
        self.solve(cross, transposed=True)
        own = matrix[np.ix_(variables, variables)]
        corner, info = lapack.dpotrf((own - cross @ cross.T).T, lower=0, clean=1)
        if info or (np.diagonal(corner) ** 2 <= LOSS * np.diagonal(own)).any():
            return False
        self._upper[:k, k : k + m] = cross.T
        self._upper[k : k + m, k : k + m] = corner
        self._variables[k : k + m] = variables
        self._size = k + m
        return True

    def solve(self, rows: np.ndarray, *, transposed: bool) -> None:
        """Solve U x = b, or U' x = b, for each row b of `rows` (r, k), in place."""
        solve_upper(self._upper, self._size, rows, transposed=transposed)

    def log_det(self) -> float:
        """Return log|A_ss|."""
        k = self._size
        return 2.0 * float(np.log(np.diagonal(self._upper)[:k]).sum())

    def positions(self, variables: np.ndarray) -> np.ndarray:
        """Return where variables stand in the factor's order."""
        order = np.argsort(self.variables)
        return order[np.searchsorted(self.variables, variables, sorter=order)]

    def inverse_columns(self, positions: np.ndarray) -> np.ndarray:
        """Return rows of A_ss^-1, (m, k), for variables at these positions."""
        rows = np.zeros((positions.size, self._size))
        rows[np.arange(positions.size), positions] = 1.0
        self.solve(rows, transposed=True)
        self.solve(rows, transposed=False)
        return rows

    def inverse(self) -> np.ndarray:
        """Return A_ss^-1, (k, k)."""
        k = self._size
        if k == 0:
            return np.empty((0, 0))
        half, _ = lapack.dpotri(np.asfortranarray(self._upper[:k, :k]), lower=0)
        return mirror(half.T)
