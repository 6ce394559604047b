"""Grow trees on binned features; `kernels.twins` has the same in plain NumPy."""

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_inline, compile_kernel
from gapmix.kernels.records import (
    BINS,
    INT,
    INT_MATRIX,
    INTS,
    MATRICES,
    MATRIX,
    REAL,
    REALS,
)
from gapmix.kernels.twins import NOISE


@compile_inline
def _is_smaller(counts, node):  # type: ignore[no-untyped-def]
    """Tell whether a node has fewer rows than its sibling, or as many and is the left one."""
    if node % 2 == 1:
        return counts[node] <= counts[node + 1]
    return counts[node] < counts[node - 1]


@compile_kernel(*(BINS, INT, INTS, REALS, REALS, INT, REAL, INTS, INTS, REALS, INTS))
def grow_tree(bins, n_bins, used, grad, hess, least, penalty, feature, place, value, node):  # type: ignore[no-untyped-def]
    """Set the nodes of a tree, those of k at 2 k + 1 and 2 k + 2, and the node (n,) of each row.

    `feature` (M,) is -1 in leaves; rows whose bin is up to `place` go to the left. A split of one
    of the features `used` has at least `least` rows on either side and gains most of
    G^2 / (H + penalty), sums of gradients and curvatures; of those that gain alike but for
    rounding, the first. `value` is -G / (H + penalty).
    """
    n, p = len(bins), len(used)
    n_inner = len(feature) // 2
    feature[:] = -1
    node[:] = 0
    sums = np.empty((n_inner, p, n_bins, 3))
    counts = np.zeros(len(feature), dtype=np.int64)
    counts[0] = n
    first, width = 0, 1  # nodes of a level
    while first < n_inner:
        # Of two children the smaller is added up, and the other is what it leaves of the parent.
        for k in range(first, first + width):
            if counts[k] > 0 and (k == 0 or _is_smaller(counts, k)):
                sums[k] = 0.0
        for i in range(n):
            k = node[i]
            if k >= first and (k == 0 or _is_smaller(counts, k)):
                for u in range(p):
                    at = sums[k, u, bins[i, used[u]]]
                    at[0] += grad[i]
                    at[1] += hess[i]
                    at[2] += 1.0
        for k in range(first, first + width):
            if counts[k] < 2 * least:
                continue
            if k > 0 and not _is_smaller(counts, k):
                other = k + 1 if k % 2 == 1 else k - 1
                sums[k] = sums[(k - 1) // 2] - sums[other]
            total_grad, total_hess, count = 0.0, 0.0, float(counts[k])
            for b in range(n_bins):
                total_grad += sums[k, 0, b, 0]
                total_hess += sums[k, 0, b, 1]
            whole = total_grad * total_grad / (total_hess + penalty)
            most = NOISE * (whole + total_hess)
            for u in range(p):
                left_grad, left_hess, left = 0.0, 0.0, 0.0
                for b in range(n_bins - 1):
                    if sums[k, u, b, 2] == 0.0:
                        continue
                    left_grad += sums[k, u, b, 0]
                    left_hess += sums[k, u, b, 1]
                    left += sums[k, u, b, 2]
                    if left < least:
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
                        feature[k] = used[u]
                        place[k] = b
        for i in range(n):
            k = node[i]
            if k >= first and feature[k] >= 0:
                node[i] = 2 * k + 1 if bins[i, feature[k]] <= place[k] else 2 * k + 2
                counts[node[i]] += 1
        first += width
        width *= 2
    sums_of = np.zeros((len(feature), 2))
    for i in range(n):
        sums_of[node[i], 0] += grad[i]
        sums_of[node[i], 1] += hess[i]
    for k in range(len(feature)):
        value[k] = -sums_of[k, 0] / (sums_of[k, 1] + penalty)


@compile_inline
def _tell(raw, named, told):  # type: ignore[no-untyped-def]
    """Set `told` to what `raw` says: numbers, or the probability of the second level, or of all."""
    n, n_outputs = raw.shape
    if not named:
        told[:] = raw
        return
    for i in range(n):
        if n_outputs == 1:
            told[i, 0] = 1.0 / (1.0 + np.exp(-raw[i, 0]))
            continue
        top, total = raw[i].max(), 0.0
        for c in range(n_outputs):
            told[i, c] = np.exp(raw[i, c] - top)
            total += told[i, c]
        for c in range(n_outputs):
            told[i, c] /= total


@compile_kernel(
    *(BINS, INT, INT_MATRIX, MATRIX, REALS, MATRIX, True, INT, REAL, REAL),
    *(INT_MATRIX, INT_MATRIX, MATRIX),
    twin=twins.boost_trees,
)
def boost_trees(  # type: ignore[no-untyped-def]
    bins, n_bins, used, own, weight, raw, named, least, penalty, rate, feature, place, value
):
    """Grow trees (T, M), one for each output in turn, on what those before leave; see `grow_tree`.

    `own` (n, k) are numbers, or if they are `named`, 1 for the level of a row and 0 for others.
    `raw` (n, k) is what is told before the first tree, and after the last: of levels log odds.
    """
    n, n_outputs = raw.shape
    grad, hess, node = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    told = np.empty((n, n_outputs))
    for t in range(len(used)):
        output = t % n_outputs
        if output == 0:
            _tell(raw, named, told)
        for i in range(n):
            share = told[i, output]
            grad[i] = weight[i] * (share - own[i, output])
            hess[i] = weight[i] * (share * (1.0 - share) if named else 1.0)
        given = feature[t], place[t], value[t], node
        grow_tree(bins, n_bins, used[t], grad, hess, least, penalty, *given)
        for k in range(value.shape[1]):
            value[t, k] *= rate
        for i in range(n):
            raw[i, output] += value[t, node[i]]


@compile_kernel(*(BINS, INTS, INTS, REALS, REALS, INT, INT, REALS, INTS, INTS, INTS, MATRIX))
def plant_tree(  # type: ignore[no-untyped-def]
    bins, rows, level, amount, weight, least, depth, chance, feature, place, left, value
):
    """Grow a tree of a forest on some `rows` (m,), which it reorders; return its number of nodes.

    Output l of a row is its `amount` if that is its `level`, else 0. A node cuts each feature
    somewhere between its lowest and highest bin, where its part of `chance` says, and splits at the
    cut by which the sum of squared errors falls most: of cuts that do alike but for rounding, the
    first. `left` are numbers of nodes, the right one is next to it; `feature` is -1 in leaves.
    `value` (N, k) is the mean of each output.
    """
    p, k = bins.shape[1], value.shape[1]
    low, high = np.zeros(p, dtype=np.uint8), np.zeros(p, dtype=np.uint8)
    cut, counts = np.zeros(p, dtype=np.uint8), np.zeros(p, dtype=np.int64)
    sums, weights = np.zeros((k, p)), np.zeros(p)  # of what is up to the cuts
    total = np.zeros(k)
    others = np.empty(len(rows), dtype=np.int64)
    open_nodes = np.zeros((depth + 2, 4), dtype=np.int64)  # number, first row, end, depth
    open_nodes[0, 2] = len(rows)
    n_open, n_nodes = 1, 1
    while n_open > 0:
        n_open -= 1
        node, first, end, deep = open_nodes[n_open]
        total[:] = 0.0
        whole = 0.0  # weight
        for at in range(first, end):
            i = rows[at]
            total[level[i]] += weight[i] * amount[i]
            whole += weight[i]
        square = 0.0
        for c in range(k):
            value[node, c] = total[c] / whole
            square += total[c] * total[c]
        feature[node], place[node], left[node] = -1, 0, -1
        if deep >= depth or end - first < 2 * least:
            continue
        # All features at once: what a row has of them lies side by side.
        low[:] = bins[rows[first]]
        high[:] = low
        for at in range(first + 1, end):
            i = rows[at]
            for j in range(p):
                low[j] = min(low[j], bins[i, j])
                high[j] = max(high[j], bins[i, j])
        for j in range(p):
            cut[j] = low[j] + int(chance[node * p + j] * (high[j] - low[j]))
        sums[:, :] = 0.0
        weights[:] = 0.0
        counts[:] = 0
        for at in range(first, end):
            i = rows[at]
            own = sums[level[i]]
            amount_here, weight_here = weight[i] * amount[i], weight[i]
            for j in range(p):
                inside = bins[i, j] <= cut[j]
                own[j] += amount_here if inside else 0.0
                weights[j] += weight_here if inside else 0.0
                counts[j] += 1 if inside else 0
        most = square / whole + NOISE * whole
        for j in range(p):
            if counts[j] < least or end - first - counts[j] < least:
                continue
            below, above = 0.0, 0.0
            for c in range(k):
                below += sums[c, j] * sums[c, j]
                above += (total[c] - sums[c, j]) * (total[c] - sums[c, j])
            gain = below / weights[j] + above / (whole - weights[j])
            if gain > most:
                most = gain * (1.0 + NOISE)
                feature[node], place[node] = j, cut[j]
        if feature[node] < 0:
            continue
        middle, n_others = first, 0
        for at in range(first, end):
            i = rows[at]
            if bins[i, feature[node]] <= place[node]:
                rows[middle] = i
                middle += 1
            else:
                others[n_others] = i
                n_others += 1
        rows[middle:end] = others[:n_others]
        left[node] = n_nodes
        for side in range(2):  # the left one is next
            place_of = open_nodes[n_open]
            place_of[0], place_of[3] = n_nodes + 1 - side, deep + 1
            place_of[1], place_of[2] = (middle, end) if side == 0 else (first, middle)
            n_open += 1
        n_nodes += 2
    return n_nodes


@compile_kernel(
    *(BINS, INTS, REALS, REALS, INT, INT, MATRIX, INT_MATRIX, INT_MATRIX, INT_MATRIX, MATRICES),
    *(INTS,),
    twin=twins.plant_trees,
)
def plant_trees(  # type: ignore[no-untyped-def]
    bins, level, amount, weight, least, depth, chance, feature, place, left, value, n_nodes
):
    """Grow the trees (T, N) of a forest on all rows, and set their numbers of nodes (T,).

    See `plant_tree`.
    """
    for t in range(len(n_nodes)):
        rows = np.arange(len(bins))
        given = feature[t], place[t], left[t], value[t]
        n_nodes[t] = plant_tree(bins, rows, level, amount, weight, least, depth, chance[t], *given)
