"""The kernels in plain NumPy: slow, obvious, and used when Numba is missing.

They keep the same contract, layout of the factors included, so that either can follow the other.
"""

from collections.abc import Iterator

import numpy as np
from scipy.special import expit, softmax

from gapmix.kernels.records import Components, Places, Solved, Sums
from gapmix.plan.layout import LANES, Batches
from gapmix.shapes import NAMES, Shape, inverse

LOG_2PI = float(np.log(2.0 * np.pi))
LINE = 64  # bytes of a line of the cache
EPSILON = float(np.finfo(float).eps)  # share of a component that moves no digit of a moment
NOISE = 1e-9  # what gains of splits may differ by for rounding


def empty_packed(n_components: int, n: int) -> np.ndarray:
    """Return room for n elements of eight factors, (C, n, LANES), each within one line."""
    memory = np.empty((n_components * n + 1) * LANES)
    first = -memory.ctypes.data % LINE // memory.itemsize
    return memory[first : first + n_components * n * LANES].reshape(n_components, n, LANES)


def center(
    x: np.ndarray, observed: np.ndarray, start: np.ndarray, mean: np.ndarray, z: np.ndarray
) -> None:
    """Set z to x - mean where observed and to 0 elsewhere."""
    z[:] = np.where(np.repeat(observed, np.diff(start), axis=0), x - mean, 0.0)


def take_block(matrix: np.ndarray, variables: np.ndarray, block: np.ndarray) -> None:
    """Set block to the rows and columns of a matrix at these variables."""
    block[:] = matrix[np.ix_(variables, variables)]


def add_lower(total: np.ndarray, variables: np.ndarray, block: np.ndarray, weight: float) -> None:
    """Add weight times the lower triangle of a block to a matrix at these variables."""
    total[np.ix_(variables, variables)] += weight * np.tril(block)


def weigh(rows: np.ndarray, resp: np.ndarray, weighted: np.ndarray, first: np.ndarray) -> None:
    """Collect sqrt(resp) times the rows that have some, and add the sum of resp times rows."""
    used = np.flatnonzero(resp)
    weighted[:] = np.sqrt(resp[used])[:, None] * rows[used]
    first += resp[used] @ rows[used]


def find_places(batches: Batches, of_row: np.ndarray) -> None:
    """Set for each row: size of its set, first variable, first of its solution, pattern."""
    for g, p, _, _ in _walk(batches, len(batches.size)):
        rows = np.arange(batches.start[p], batches.start[p + 1])
        first = batches.solution_start[p] + (rows - rows[:1]) * batches.size[g]
        of_row[rows, 0], of_row[rows, 1] = batches.size[g], batches.variable_start[p]
        of_row[rows, 2], of_row[rows, 3] = first, p


def cells_of(places: Places) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, variable, and place in the solutions, of every element of the rows' sets."""
    size, first, solution_start, _ = places.of_row.T
    row = np.repeat(np.arange(len(size)), size)
    within = np.arange(len(row)) - (np.cumsum(size) - size)[row]
    return row, places.variables[first[row] + within], solution_start[row] + within


def gather(
    places: Places, missing_source: np.ndarray, observed_source: np.ndarray, solution: np.ndarray
) -> None:
    """Collect right-hand sides: for each row, its source's values at the pattern's variables."""
    row, variable, at = cells_of(places)
    missing = row < places.n_missing_side
    for source, here in ((missing_source, missing), (observed_source, ~missing)):
        solution[at[here]] = source[row[here], variable[here]]


def gather_products(places: Places, prec: np.ndarray, z: np.ndarray, solution: np.ndarray) -> None:
    """Do what `gather` does, with (prec z) at the missing variables computed on the way."""
    gather(places, z @ prec, z, solution)


def measure(places: Places, z: np.ndarray, solution: np.ndarray, distance: np.ndarray) -> None:
    """Set the distance of rows on the observed side, z_o' S_oo^-1 z_o."""
    row, variable, at = cells_of(places)
    lengths = np.bincount(row, z[row, variable] * solution[at], len(z))
    distance[places.n_missing_side :] = lengths[places.n_missing_side :]


def fill(places: Places, solution: np.ndarray, rows: np.ndarray) -> None:
    """Fill the gaps of rows on the missing side: minus the solution, at the missing variables."""
    row, variable, at = cells_of(places)
    here = row < places.n_missing_side
    rows[row[here], variable[here]] = -solution[at[here]]


def collect(
    places: Places,
    x: np.ndarray,
    components: Components,
    chosen: np.ndarray,
    solution: np.ndarray,
) -> None:
    """Collect right-hand sides: (prec z)_m or z_o of each row, z = x - mean."""
    for k, right in zip(chosen, solution, strict=True):
        z = x - components.mean[k]
        fill(places, np.zeros_like(right), z)
        gather(places, z @ components.prec[k], z, right)


def complete(
    places: Places,
    x: np.ndarray,
    components: Components,
    chosen: np.ndarray,
    solved: Solved,
    rows: np.ndarray,
    log_density: np.ndarray,
) -> None:
    """Set the log densities of all rows; set `rows`, which come first, to the completed z."""
    m, (n, d) = places.n_missing_side, x.shape
    size, pattern = places.of_row[:, 0], places.of_row[:, 3]
    n_observed = np.where(np.arange(n) < m, d - size, size)
    for c, k in enumerate(chosen):
        z, distance = x - components.mean[k], np.empty(n)
        measure(places, z, solved.solution[c], distance)
        fill(places, solved.solution[c], z)
        rows[c] = z[:m]
        length = ((rows[c] @ components.root[k].T) ** 2).sum(axis=1)
        distance[:m] = components.log_det[k] + length
        log_density[k] = -0.5 * (n_observed * LOG_2PI + solved.log_det[c, pattern] + distance)


def add_rows(rows: np.ndarray, chosen: np.ndarray, resp: np.ndarray, sums: Sums) -> None:
    """Add resp, resp z and resp z z' of the rows z (C, m, d) that come first in `resp` (K, n_b)."""
    for c, k in enumerate(chosen):
        r = resp[k, : rows.shape[1]]
        sums.resp[k] += r.sum()
        sums.first[k] += r @ rows[c]
        sums.second[k] += np.tril((rows[c].T * r) @ rows[c])


def solve_block(
    batches: Batches, components: Components, chosen: np.ndarray, solved: Solved
) -> tuple[int, int]:
    """Factor A_ss of every pattern and solve with it, in place of the right-hand sides."""
    for c, component in enumerate(chosen):
        for g, p, base, lane in _walk(batches, batches.n_small):
            k = int(batches.size[g])
            v = batches.variables[batches.variable_start[p] :][:k]
            matrix = (components.prec if batches.side[g] == 1 else components.sigma)[component]
            try:
                chol = np.linalg.cholesky(matrix[np.ix_(v, v)])
            except np.linalg.LinAlgError:
                return int(component), p
            solved.log_det[c, p] = 2.0 * np.log(np.diagonal(chol)).sum()
            stored = chol.T.copy()
            np.fill_diagonal(stored, 1.0 / np.diagonal(chol))
            solved.packed[c, base : base + k * (k + 1) // 2, lane] = stored[np.triu_indices(k)]
            right = _solutions(batches, p, k, solved.solution[c])
            right[:] = np.linalg.solve(chol.T, np.linalg.solve(chol, right.T)).T
    return -1, -1


def add_block(
    batches: Batches, chosen: np.ndarray, solved: Solved, resp: np.ndarray, sums: Sums
) -> None:
    """Add weighted inverses of A_ss, and for the observed side the solutions, in place."""
    for c, component in enumerate(chosen):
        for g, p, base, lane in _walk(batches, batches.n_small):
            k = int(batches.size[g])
            v = batches.variables[batches.variable_start[p] :][:k]
            r = resp[component, batches.start[p] : batches.start[p + 1]]
            if not r.sum() > 0:
                continue
            upper = np.zeros((k, k))
            upper[np.triu_indices(k)] = solved.packed[c, base : base + k * (k + 1) // 2, lane]
            np.fill_diagonal(upper, 1.0 / np.diagonal(upper))
            half = np.linalg.inv(upper.T)
            inverse = r.sum() * (half.T @ half)
            if batches.side[g] == 1:
                sums.second[component][np.ix_(v, v)] += np.tril(inverse)
                continue
            a = _solutions(batches, p, k, solved.solution[c])
            sums.dual_second[component][np.ix_(v, v)] += np.tril((a.T * r) @ a - inverse)
            sums.dual_first[component, v] += r @ a


def find_variances(
    batches: Batches,
    observed: np.ndarray,
    components: Components,
    chosen: np.ndarray,
    solved: Solved,
    variance: np.ndarray,
) -> None:
    """Set the conditional variances (K, P_b, d) of what each pattern (P_b, d) misses."""
    for component in chosen:
        sigma = components.sigma[component]
        for _, p, _, _ in _walk(batches, batches.n_small):
            o, m = np.flatnonzero(observed[p]), np.flatnonzero(~observed[p])
            explained = sigma[np.ix_(m, o)] @ np.linalg.solve(sigma[np.ix_(o, o)], sigma[o][:, m])
            left = np.diagonal(sigma[np.ix_(m, m)] - explained)
            variance[component, p, m] = np.maximum(left, 0.0)


def blend(resp: np.ndarray, means: np.ndarray, deviation: np.ndarray, total: np.ndarray) -> None:
    """Add resp (n, K) times what components fill, means (K, d) + deviation (K, n, d), to total."""
    total += np.einsum("nk,knd->nd", resp, deviation + means[:, None])


def blend_spread(
    resp: np.ndarray,
    means: np.ndarray,
    deviation: np.ndarray,
    variance: np.ndarray,
    pattern: np.ndarray,
    mean: np.ndarray,
    total: np.ndarray,
) -> None:
    """Add the variance of what components fill about the mean (n, d) of them all to total."""
    away = deviation + means[:, None] - mean
    total += np.einsum("nk,knd->nd", resp, variance[:, pattern] + away**2)


def _solutions(batches: Batches, p: int, k: int, solution: np.ndarray) -> np.ndarray:
    """Return the solutions of the rows of pattern p, (r, k), as a view."""
    n_rows = int(batches.start[p + 1] - batches.start[p])
    return solution[int(batches.solution_start[p]) :][: n_rows * k].reshape(n_rows, k)


def _walk(batches: Batches, n_groups: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield group, pattern, first row of its factor in `packed`, and lane."""
    for g in range(n_groups):
        n_elements = int(batches.size[g] * (batches.size[g] + 1) // 2)
        low, high = int(batches.low[g]), int(batches.high[g])
        for q in range(low, high):
            batch, lane = divmod(q - low, LANES)
            yield (
                g,
                int(batches.pattern[q]),
                int(batches.packed_start[g]) + batch * n_elements,
                lane,
            )


def share_out(
    joint: np.ndarray, weights: np.ndarray, log_weights: np.ndarray, log_prob: np.ndarray
) -> None:
    """Turn log densities (K, n) into responsibilities, in place; set log p(row) (n,)."""
    joint += log_weights[:, None]
    top = joint.max(axis=0)
    lost = ~np.isfinite(top)
    top[lost] = 0.0
    joint -= top
    np.exp(joint, out=joint)
    joint[:, lost] = weights[:, None]
    total = joint.sum(axis=0)
    log_prob[:] = np.log(total) + top
    log_prob[lost] = -np.inf
    joint /= total


def add_moments(
    number: int,
    power: float,
    nodes: np.ndarray,
    shares: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    near: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Add mean and mean square of u - near (cells,), u being x in units of its transform."""
    shape = Shape(NAMES[number], power=power)
    component, cell = np.nonzero(weight > EPSILON)
    weight, mean, std = (each[component, cell] for each in (weight, mean, std))
    for node, share in zip(nodes.tolist(), shares.tolist(), strict=True):
        away = inverse(shape, mean + node * std) - near[cell]
        held = share * weight * away
        first += np.bincount(cell, held, len(near))
        second += np.bincount(cell, held * away, len(near))


def drop_negligible(resp: np.ndarray, negligible: float, kept: np.ndarray) -> None:
    """Set `kept` to shares (K, n), and to 0 where they are negligible beside their component's."""
    kept[:] = np.where(resp > negligible * resp.max(axis=1, keepdims=True), resp, 0.0)


def add_log_levels(
    codes: np.ndarray, first: np.ndarray, log_theta: np.ndarray, total: np.ndarray
) -> None:
    """Add log p(categories shown | component) to total (K, n); log_theta is (levels, K)."""
    for start, column in zip(first, codes.T, strict=True):
        seen = np.flatnonzero(column >= 0)
        total[:, seen] += log_theta[start + column[seen]].T


def count_levels(
    codes: np.ndarray, first: np.ndarray, resp: np.ndarray, counts: np.ndarray
) -> None:
    """Add responsibilities (K, n) to the counts (K, levels) of the levels that rows show."""
    for start, column in zip(first, codes.T, strict=True):
        seen = np.flatnonzero(column >= 0)
        for k, share in enumerate(resp):
            found = np.bincount(column[seen], share[seen])
            counts[k, start : start + len(found)] += found


def add_trees(
    x: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    value: np.ndarray,
    start: np.ndarray,
    total: np.ndarray,
) -> None:
    """Add the leaf of every row of x (n, p) in every tree to total (n, k), or to one by turns."""
    rows, width = np.arange(len(x)), value.shape[1]
    for tree, root in enumerate(start[:-1]):
        node = np.full(len(x), root)
        while (inner := left[node] >= 0).any():
            below = np.where(x[rows, feature[node]] <= threshold[node], left[node], right[node])
            node = np.where(inner, below, node)
        column = tree * width % total.shape[1]
        total[:, column : column + width] += value[node]


def add_slopes(x: np.ndarray, slope: np.ndarray, total: np.ndarray) -> None:
    """Add the products of every row of x (n, p) with slopes (k, p) to total (n, k)."""
    total += x @ slope.T


def grow_tree(
    bins: np.ndarray,
    n_bins: int,
    used: np.ndarray,
    grad: np.ndarray,
    hess: np.ndarray,
    least: int,
    penalty: float,
    feature: np.ndarray,
    place: np.ndarray,
    value: np.ndarray,
    node: np.ndarray,
) -> None:
    """Set the nodes of a tree, those of k at 2 k + 1 and 2 k + 2, and the node (n,) of each row."""
    p = len(used)
    feature[:], node[:] = -1, 0
    for k in range(len(feature) // 2):
        rows = np.flatnonzero(node == k)
        if len(rows) < 2 * least:
            continue
        cell = (np.arange(p) * n_bins + bins[rows][:, used]).ravel()
        each = [
            np.bincount(cell, np.repeat(weight, p), p * n_bins).reshape(p, n_bins)
            for weight in (grad[rows], hess[rows], np.ones(len(rows)))
        ]
        total_grad, total_hess = grad[rows].sum(), hess[rows].sum()
        left_grad, left_hess, left = (sums.cumsum(axis=1) for sums in each)
        whole = total_grad**2 / (total_hess + penalty)
        with np.errstate(all="ignore"):  # of sides without a row
            gain = left_grad**2 / (left_hess + penalty) - whole
            gain += (total_grad - left_grad) ** 2 / (total_hess - left_hess + penalty)
        fits = (left >= least) & (len(rows) - left >= least) & (each[2] > 0)
        most = NOISE * (whole + total_hess)
        for at in np.flatnonzero(fits.ravel()):
            if gain.flat[at] > most:
                most = gain.flat[at] * (1.0 + NOISE)
                feature[k], place[k] = used[at // n_bins], at % n_bins
        if feature[k] >= 0:
            node[rows] = 2 * k + 1 + (bins[rows, feature[k]] > place[k])
    sums = [np.bincount(node, weight, len(feature)) for weight in (grad, hess)]
    value[:] = -sums[0] / (sums[1] + penalty)


def boost_trees(
    bins: np.ndarray,
    n_bins: int,
    used: np.ndarray,
    own: np.ndarray,
    weight: np.ndarray,
    raw: np.ndarray,
    named: bool,
    least: int,
    penalty: float,
    rate: float,
    feature: np.ndarray,
    place: np.ndarray,
    value: np.ndarray,
) -> None:
    """Grow trees (T, M), one for each output in turn, on what those before leave."""
    n, n_outputs = raw.shape
    node = np.empty(n, dtype=np.int64)
    for t, features in enumerate(used):
        output = t % n_outputs
        if output == 0:
            told = (
                raw.copy() if not named else softmax(raw, axis=1) if n_outputs > 1 else expit(raw)
            )
        share = told[:, output]
        grad = weight * (share - own[:, output])
        hess = weight * (share * (1.0 - share)) if named else weight
        given = feature[t], place[t], value[t], node
        grow_tree(bins, n_bins, features, grad, hess, least, penalty, *given)
        value[t] *= rate
        raw[:, output] += value[t, node]


def plant_tree(
    bins: np.ndarray,
    rows: np.ndarray,
    level: np.ndarray,
    amount: np.ndarray,
    weight: np.ndarray,
    least: int,
    depth: int,
    chance: np.ndarray,
    feature: np.ndarray,
    place: np.ndarray,
    left: np.ndarray,
    value: np.ndarray,
) -> int:
    """Grow a tree of a forest on some `rows` (m,); return its number of nodes."""
    p, k = bins.shape[1], value.shape[1]
    output = np.where(level[:, None] == np.arange(k), amount[:, None], 0.0) * weight[:, None]
    open_nodes, n_nodes = [(0, rows, 0)], 1
    while open_nodes:
        node, own, deep = open_nodes.pop()
        value[node] = output[own].sum(axis=0) / weight[own].sum()
        feature[node], place[node], left[node] = -1, 0, -1
        if deep >= depth or len(own) < 2 * least:
            continue
        most = (output[own].sum(axis=0) ** 2).sum() / weight[own].sum() + NOISE * weight[own].sum()
        for j in range(p):
            first, last = int(bins[own, j].min()), int(bins[own, j].max())
            cut = first + int(chance[node * p + j] * (last - first))
            inside = bins[own, j] <= cut
            low, high = own[inside], own[~inside]
            if min(len(low), len(high)) < least:
                continue
            gain = sum(
                (output[side].sum(axis=0) ** 2).sum() / weight[side].sum() for side in (low, high)
            )
            if gain > most:
                most = gain * (1.0 + NOISE)
                feature[node], place[node] = j, cut
        if feature[node] >= 0:
            goes_left = bins[own, feature[node]] <= place[node]
            left[node] = n_nodes
            open_nodes.append((n_nodes + 1, own[~goes_left], deep + 1))
            open_nodes.append((n_nodes, own[goes_left], deep + 1))
            n_nodes += 2
    return n_nodes


def plant_trees(
    bins: np.ndarray,
    level: np.ndarray,
    amount: np.ndarray,
    weight: np.ndarray,
    least: int,
    depth: int,
    chance: np.ndarray,
    feature: np.ndarray,
    place: np.ndarray,
    left: np.ndarray,
    value: np.ndarray,
    n_nodes: np.ndarray,
) -> None:
    """Grow the trees (T, N) of a forest on all rows, and set their numbers of nodes (T,)."""
    rows = np.arange(len(bins))
    for t, drawn in enumerate(chance):
        given = feature[t], place[t], left[t], value[t]
        n_nodes[t] = plant_tree(bins, rows, level, amount, weight, least, depth, drawn, *given)
