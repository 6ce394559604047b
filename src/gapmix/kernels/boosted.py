"""Learners at work on rows, each row by itself; `kernels.twins` has the same in plain NumPy."""

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_kernel
from gapmix.kernels.records import INTS, MATRIX, REALS


@compile_kernel(MATRIX, INTS, REALS, INTS, INTS, MATRIX, INTS, MATRIX, twin=twins.add_trees)
def add_trees(x, feature, threshold, left, right, value, start, total):  # type: ignore[no-untyped-def]
    """Add the leaf of every row of x (n, p) in every tree to total (n, k).

    Leaves have `value` (N, k) for all outputs, or (N, 1), and trees serve outputs by turns.
    Trees are added in their order, row by row: the sums are scikit-learn's, bit by bit.
    """
    n, n_outputs = total.shape
    width = value.shape[1]
    for tree in range(len(start) - 1):
        column = tree * width % n_outputs
        for i in range(n):
            node = start[tree]
            while left[node] >= 0:
                node = left[node] if x[i, feature[node]] <= threshold[node] else right[node]
            for c in range(width):
                total[i, column + c] += value[node, c]


@compile_kernel(MATRIX, MATRIX, MATRIX, twin=twins.add_slopes)
def add_slopes(x, slope, total):  # type: ignore[no-untyped-def]
    """Add the products of every row of x (n, p) with slopes (k, p) to total (n, k).

    A product of matrices would round a row by how many others there are.
    """
    n, n_outputs = total.shape
    for i in range(n):
        for k in range(n_outputs):
            for j in range(slope.shape[1]):
                total[i, k] += x[i, j] * slope[k, j]
