"""What kernels and their twins are given, by name; examples say which types they compile for."""

from typing import NamedTuple

import numpy as np

from gapmix.plan.layout import LANES, lay_out


class Components(NamedTuple):
    """The components of a mixture."""

    mean: np.ndarray  # (K, d)
    sigma: np.ndarray  # (K, d, d) covariances S
    root: np.ndarray  # (K, d, d) lower R, with R'R the precision
    prec: np.ndarray  # (K, d, d) precisions S^-1
    log_det: np.ndarray  # (K,) log|S|


class Places(NamedTuple):
    """Where each row of a block finds its index set and its solution."""

    variables: np.ndarray  # index sets, as in `plan.layout.Batches`
    of_row: np.ndarray  # (n_b, 4) size of the set, its first variable, first of solution, pattern
    n_missing_side: int  # rows solved on their missing variables; they come first


class Solved(NamedTuple):
    """What solving a block leaves, under C components, as `plan.layout.Batches` lays it out."""

    solution: np.ndarray  # (C, n_solution) A_ss^-1 times the right-hand sides; these, before
    packed: np.ndarray  # (C, n_packed, LANES) factors of small index sets, eight side by side
    log_det: np.ndarray  # (C, P_b) log|A_ss|


class Sums(NamedTuple):
    """What kernels add to, of `statistics.Statistics`."""

    resp: np.ndarray  # (K,)
    first: np.ndarray  # (K, d)
    second: np.ndarray  # (K, d, d) lower triangles
    dual_first: np.ndarray  # (K, d)
    dual_second: np.ndarray  # (K, d, d) lower triangles; (K, 0, 0) with no row on that side


INT, REAL = 0, 0.0
INTS, REALS = np.zeros(1, dtype=np.int64), np.zeros(1)
MATRIX, FLAGS = np.zeros((1, 1)), np.zeros((1, 1), dtype=bool)
MATRICES = np.zeros((1, 1, 1))
INT_MATRIX = np.zeros((1, 1), dtype=np.int64)
CODES = np.zeros((1, 1), dtype=np.int32)
BINS = np.zeros((1, 1), dtype=np.uint8)
# An index that cannot be negative needs no check for it.
VARIABLES, VARIABLE_MATRIX = np.zeros(1, dtype=np.uint32), np.zeros((1, LANES), dtype=np.uint32)
BATCHES = lay_out(np.ones((1, 1), dtype=bool), np.array([0, 1]))
COMPONENTS = Components(MATRIX, MATRICES, MATRICES, MATRICES, REALS)
PLACES = Places(VARIABLES, INT_MATRIX, INT)
SOLVED = Solved(MATRIX, MATRICES, MATRIX)
SUMS = Sums(REALS, MATRIX, MATRICES, MATRIX, MATRICES)
