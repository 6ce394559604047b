"""Rows eight at a time, one in each lane: right-hand sides, filling, and distances.

For tables of moderate width: a few rows and a matrix stay in the cache from the first step to the
last, where a chain of large matrix products would write every intermediate result to memory.
`kernels.twins` has the same functions in plain NumPy.
"""

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import HAS_NUMBA, compile_inline, compile_kernel
from gapmix.kernels.interleaved import empty_vectors
from gapmix.kernels.records import COMPONENTS, INTS, MATRICES, MATRIX, PLACES, SOLVED, SUMS
from gapmix.kernels.twins import LOG_2PI
from gapmix.plan.layout import LANES

if HAS_NUMBA:  # the tiles speak to Numba's compiler
    from gapmix.kernels.row_tiles import (
        DOT_ROWS,
        add_lengths,
        add_products,
        dots,
        load_narrow,
        load_rows,
        multiply,
        store_narrow,
        store_rows,
        weigh_row,
    )
    from gapmix.kernels.vectors import TILE

DOT_BLOCK, DOT_SUM = 2, 20  # cycles of a product of eight columns, and of adding these up
NEGLIGIBLE = 1e-20  # share of a component that moves no digit of a filled cell
CHUNK = 64  # rows whose products are summed before the sums leave the registers


@compile_inline
def _can_overlap(x, row):  # type: ignore[no-untyped-def]
    """Tell whether eight numbers from the start of each of eight rows on are within an array."""
    return (row + LANES - 1) * x.shape[1] + LANES <= x.size


@compile_inline
def _load(x, mean, row, n_rows, z):  # type: ignore[no-untyped-def]
    """Set z to eight rows less the mean, one in each lane; z has room for eight columns."""
    d = mean.size
    if d >= LANES:
        load_rows(x, mean, z, (row, n_rows - 1))
    elif _can_overlap(x, row):
        load_narrow(x, mean, z, (row,))
    else:
        for lane in range(LANES):
            for j in range(d):
                z[j, lane] = x[min(row + lane, n_rows - 1), j] - mean[j]


@compile_inline
def _multiply_few(x, mean, prec, row, of_row, variables, solution, line, y):  # type: ignore[no-untyped-def]
    """Set one row's right-hand sides, (prec z)_m: one product for each missing variable."""
    d = mean.size
    k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
    last = (d - 1) // LANES * LANES  # the last block is of the last eight columns, see `dots`
    for j in range(last):
        line[j] = x[row, j] - mean[j]
    for e in range(LANES):
        j = d - LANES + e
        line[last + e] = x[row, j] - mean[j] if j >= last else 0.0
    for i in range(k):
        place = np.int64(variables[v + i])
        line[place if place < last else last + place - d + LANES] = 0.0
    for i in range(0, k, DOT_ROWS):
        one, two, three, four = i, min(i + 1, k - 1), min(i + 2, k - 1), min(i + 3, k - 1)
        chosen = (
            np.int64(variables[v + one]),
            np.int64(variables[v + two]),
            np.int64(variables[v + three]),
            np.int64(variables[v + four]),
        )
        dots(prec, line, y, chosen)
        for r in range(min(DOT_ROWS, k - i)):
            solution[s + i + r] = y[0, r]


@compile_inline
def _collect_rows(places, x, mean, prec, solution):  # type: ignore[no-untyped-def]
    """Collect the right-hand sides of one component."""
    of_row, variables = places.of_row, places.variables
    n_rows, d = places.n_missing_side, mean.size
    for row in range(n_rows, len(of_row)):
        k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
        for i in range(k):
            j = variables[v + i]
            solution[s + i] = x[row, j] - mean[j]
    z, y = empty_vectors(max(d, LANES)), empty_vectors(d)
    line = empty_vectors(d // LANES + 1).reshape(-1)
    for row in range(0, n_rows, LANES):
        n_used = min(LANES, n_rows - row)
        most = 0
        for here in range(row, row + n_used):
            most = max(most, of_row[here, 0])
        if most == 0:
            continue
        if d >= LANES and most * (DOT_BLOCK * (d // LANES) + DOT_SUM) < d * d // LANES:
            for here in range(row, row + n_used):
                _multiply_few(x, mean, prec, here, of_row, variables, solution, line, y)
            continue
        _load(x, mean, row, n_rows, z)
        for lane in range(n_used):
            v = of_row[row + lane, 1]
            for i in range(of_row[row + lane, 0]):
                z[variables[v + i], lane] = 0.0
        for i in range(0, d, 2 * TILE):
            multiply(prec, z, y, (i, min(2 * TILE, d - i)))
        for lane in range(n_used):
            v, s = of_row[row + lane, 1], of_row[row + lane, 2]
            for i in range(of_row[row + lane, 0]):
                solution[s + i] = y[variables[v + i], lane]


@compile_kernel(PLACES, MATRIX, COMPONENTS, INTS, MATRIX, twin=twins.collect)
def collect(places, x, components, chosen, solution):  # type: ignore[no-untyped-def]
    """Collect right-hand sides: (prec z)_m or z_o of each row, z = x - mean.

    This is done for each of the components `chosen` (C,); `solution` is (C, n_solution).
    """
    for c in range(chosen.size):
        k = chosen[c]
        _collect_rows(places, x, components.mean[k], components.prec[k], solution[c])


@compile_inline
def _measure(places, x, mean, solution, log_det, log_density):  # type: ignore[no-untyped-def]
    """Set the log densities of rows on the observed side."""
    of_row, variables = places.of_row, places.variables
    for row in range(places.n_missing_side, len(of_row)):
        k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
        total = 0.0
        for i in range(k):
            j = variables[v + i]
            total += (x[row, j] - mean[j]) * solution[s + i]
        total += log_det[of_row[row, 3]] + k * LOG_2PI
        log_density[row] = -0.5 * total


@compile_inline
def _complete_rows(places, x, component, solved, rows, log_density):  # type: ignore[no-untyped-def]
    """Do what `complete` does under one component."""
    of_row, variables = places.of_row, places.variables
    solution, log_det = solved
    mean, root, log_det_all = component
    n_rows, d = rows.shape
    _measure(places, x, mean, solution, log_det, log_density)
    z, lengths = empty_vectors(max(d, LANES)), empty_vectors(1)
    for row in range(0, n_rows, LANES):
        n_used = min(LANES, n_rows - row)
        _load(x, mean, row, n_rows, z)
        for lane in range(LANES):
            here = row + min(lane, n_used - 1)
            v, s = of_row[here, 1], of_row[here, 2]
            for i in range(of_row[here, 0]):
                z[variables[v + i], lane] = -solution[s + i]
            lengths[0, lane] = 0.0
        for i in range(0, d, 2 * TILE):
            add_lengths(root, z, lengths, (i, min(2 * TILE, d - i)))
        for lane in range(n_used):
            constant = log_det_all + log_det[of_row[row + lane, 3]]
            constant += (d - of_row[row + lane, 0]) * LOG_2PI
            log_density[row + lane] = -0.5 * (constant + lengths[0, lane])
        if d >= LANES:
            store_rows(rows, z, (row, n_rows - 1))
        elif _can_overlap(rows, row):
            store_narrow(rows, z, (row,))
        else:
            for lane in range(n_used):
                for j in range(d):
                    rows[row + lane, j] = z[j, lane]


@compile_kernel(PLACES, MATRIX, COMPONENTS, INTS, SOLVED, MATRICES, MATRIX, twin=twins.complete)
def complete(places, x, components, chosen, solved, rows, log_density):  # type: ignore[no-untyped-def]
    """Set the log densities (K, n_b) of all rows; set `rows` (C, m, d) to the completed z.

    On the missing side z has minus the solution in its gaps, the distance is |root z|^2 and
    log|S_oo| = log|S| + log|A_ss|; on the observed side they are z_o' solution and log|A_ss|.
    """
    for c in range(chosen.size):
        k = chosen[c]
        component = components.mean[k], components.root[k], components.log_det[k]
        of_this = solved.solution[c], solved.log_det[c]
        _complete_rows(places, x, component, of_this, rows[c], log_density[k])


@compile_inline
def _multiply_rows(rows, resp, weighted, total):  # type: ignore[no-untyped-def]
    """Add resp z z' to the lower triangle of `total`; return sum resp.

    The weight is a last column of the rows: its products with the others are the first sums.
    """
    n_rows, d = rows.shape
    n_used, sum_resp = 0, 0.0
    for row in range(n_rows):
        if resp[row] > 0.0:
            share = np.sqrt(resp[row])
            weighted[n_used, d] = share
            if d >= LANES:
                weigh_row(rows, weighted, (row, n_used))
            else:
                for j in range(d):
                    weighted[n_used, j] = share * rows[row, j]
            n_used += 1
            sum_resp += resp[row]
        if n_used == CHUNK or row == n_rows - 1:
            for i in range(0, d + 1, 2 * TILE):
                height = min(2 * TILE, d + 1 - i)
                for j in range(0, i + height, LANES):
                    add_products(weighted, total, (i, j, n_used, height))
            n_used = 0
    return sum_resp


@compile_kernel(MATRICES, INTS, MATRIX, SUMS, twin=twins.add_rows)
def add_rows(rows, chosen, resp, sums):  # type: ignore[no-untyped-def]
    """Add resp, resp z and resp z z' of the rows z (C, m, d) that come first in `resp` (K, n_b)."""
    _, _, d = rows.shape
    width = (d + LANES) // LANES * LANES
    weighted, total = np.zeros((CHUNK, width)), np.zeros((width, width))
    for c in range(chosen.size):
        k = chosen[c]
        total[:] = 0.0
        sums.resp[k] += _multiply_rows(rows[c], resp[k], weighted, total)
        for i in range(d):
            sums.first[k, i] += total[d, i]
            for j in range(i + 1):
                sums.second[k, i, j] += total[i, j]


@compile_kernel(MATRIX, MATRIX, MATRICES, MATRIX, twin=twins.blend)
def blend(resp, means, deviation, total):  # type: ignore[no-untyped-def]
    """Add resp (n, K) times what components fill, means (K, d) + deviation (K, n, d), to total."""
    n_components, n, d = deviation.shape
    for k in range(n_components):
        for row in range(n):
            share = resp[row, k]
            if share > NEGLIGIBLE:
                for j in range(d):
                    total[row, j] += share * (deviation[k, row, j] + means[k, j])


@compile_kernel(MATRIX, MATRIX, MATRICES, MATRICES, INTS, MATRIX, MATRIX, twin=twins.blend_spread)
def blend_spread(resp, means, deviation, variance, pattern, mean, total):  # type: ignore[no-untyped-def]
    """Add the variance of what components fill about the mean (n, d) of them all to total.

    It is resp (n, K) times their own variance (K, P, d), of the `pattern` (n,) of each row, and the
    square of their distance from the mean; see `blend`.
    """
    n_components, n, d = deviation.shape
    for k in range(n_components):
        for row in range(n):
            share = resp[row, k]
            if share > NEGLIGIBLE:
                p = pattern[row]
                for j in range(d):
                    away = deviation[k, row, j] + means[k, j] - mean[row, j]
                    total[row, j] += share * (variance[k, p, j] + away * away)
