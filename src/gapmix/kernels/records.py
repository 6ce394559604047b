"""What kernels and their twins are given, by name; examples say which types they compile for."""

from typing import NamedTuple

import numpy as np

from gapmix.plan.layout import LANES, lay_out


class Component(NamedTuple):
    """One component of a mixture."""

    mean: np.ndarray  # (d,)
    sigma: np.ndarray  # (d, d) covariance S
    root: np.ndarray  # (d, d) lower R, with R'R the precision
    prec: np.ndarray  # (d, d) precision S^-1
    log_det: float  # log|S|


class Places(NamedTuple):
    """Where each row of a block finds its index set and its solution."""

    variables: np.ndarray  # index sets, as in `plan.layout.Batches`
    of_row: np.ndarray  # (n_b, 4) size of the set, its first variable, first of solution, pattern
    n_missing_side: int  # rows solved on their missing variables; they come first


class Solved(NamedTuple):
    """What solving a block leaves, under one component, as `plan.layout.Batches` lays it out."""

    solution: np.ndarray  # A_ss^-1 times the right-hand sides; these, before
    packed: np.ndarray  # (n_packed, LANES) factors of small index sets, eight side by side
    log_det: np.ndarray  # (P_b,) log|A_ss|


class Sums(NamedTuple):
    """One component's share of `statistics.Statistics`."""

    first: np.ndarray  # (d,)
    second: np.ndarray  # (d, d) lower triangle
    dual_first: np.ndarray  # (d,)
    dual_second: np.ndarray  # (d, d) lower triangle; (0, 0) if no row is on the observed side


INT, REAL = 0, 0.0
INTS, REALS = np.zeros(1, dtype=np.int64), np.zeros(1)
MATRIX, FLAGS = np.zeros((1, 1)), np.zeros((1, 1), dtype=bool)
INT_MATRIX = np.zeros((1, 1), dtype=np.int64)
CODES = np.zeros((1, 1), dtype=np.int32)
# An index that cannot be negative needs no check for it.
VARIABLES, VARIABLE_MATRIX = np.zeros(1, dtype=np.uint32), np.zeros((1, LANES), dtype=np.uint32)
BATCHES = lay_out(np.ones((1, 1), dtype=bool), np.array([0, 1]))
COMPONENT = Component(REALS, MATRIX, MATRIX, MATRIX, REAL)
PLACES = Places(VARIABLES, INT_MATRIX, INT)
SOLVED = Solved(REALS, MATRIX, REALS)
SUMS = Sums(REALS, MATRIX, REALS, MATRIX)
