"""Grow a small tree on binned features; `kernels.twins` has the same in plain NumPy."""

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_kernel
from gapmix.kernels.records import BINS, INT, INTS, REAL, REALS
from gapmix.kernels.twins import NOISE


@compile_kernel(BINS, INT, REALS, REALS, INT, REAL, INTS, INTS, REALS, INTS, twin=twins.grow_tree)
def grow_tree(bins, n_bins, grad, hess, least, penalty, feature, place, value, node):  # type: ignore[no-untyped-def]
    """Set the nodes of a tree, those of k at 2 k + 1 and 2 k + 2, and the node (n,) of each row.

    `feature` (M,) is -1 in leaves; rows whose bin is up to `place` go to the left. A split has at
    least `least` rows on either side and gains most of G^2 / (H + penalty), sums of gradients and
    curvatures; of those that gain alike but for rounding, the first. `value` is -G / (H + penalty).
    """
    n, p = bins.shape
    n_inner = len(feature) // 2
    feature[:] = -1
    node[:] = 0
    first, width = 0, 1  # nodes of a level
    while first < n_inner:
        sums = np.zeros((width, p, n_bins, 3))
        for i in range(n):
            k = node[i] - first
            if k >= 0:
                for j in range(p):
                    b = bins[i, j]
                    sums[k, j, b, 0] += grad[i]
                    sums[k, j, b, 1] += hess[i]
                    sums[k, j, b, 2] += 1.0
        for k in range(width):
            total_grad, total_hess, count = 0.0, 0.0, 0.0
            for b in range(n_bins):
                total_grad += sums[k, 0, b, 0]
                total_hess += sums[k, 0, b, 1]
                count += sums[k, 0, b, 2]
            if count < 2 * least:
                continue
            whole = total_grad * total_grad / (total_hess + penalty)
            most = NOISE * (whole + total_hess)
            for j in range(p):
                left_grad, left_hess, left = 0.0, 0.0, 0.0
                for b in range(n_bins - 1):
                    left_grad += sums[k, j, b, 0]
                    left_hess += sums[k, j, b, 1]
                    left += sums[k, j, b, 2]
                    if left < least or sums[k, j, b, 2] == 0.0:
                        continue
                    if count - left < least:
                        break
                    right_grad, right_hess = total_grad - left_grad, total_hess - left_hess
                    gain = (
                        left_grad * left_grad / (left_hess + penalty)
                        + right_grad * right_grad / (right_hess + penalty)
                        - whole
                    )
                    if gain > most:
                        most = gain * (1.0 + NOISE)
                        feature[first + k] = j
                        place[first + k] = b
        for i in range(n):
            k = node[i]
            if k >= first and feature[k] >= 0:
                node[i] = 2 * k + 1 if bins[i, feature[k]] <= place[k] else 2 * k + 2
        first += width
        width *= 2
    sums_of = np.zeros((len(feature), 2))
    for i in range(n):
        sums_of[node[i], 0] += grad[i]
        sums_of[node[i], 1] += hess[i]
    for k in range(len(feature)):
        value[k] = -sums_of[k, 0] / (sums_of[k, 1] + penalty)
