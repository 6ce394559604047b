"""Rows eight at a time, one in each lane: right-hand sides, filling, and distances.

For tables of moderate width: a few rows and a matrix stay in the cache from the first step to the
last, where a chain of large matrix products would write every intermediate result to memory.
`kernels.twins` has the same functions in plain NumPy.
"""

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import HAS_NUMBA, compile_inline, compile_kernel
from gapmix.kernels.interleaved import empty_vectors
from gapmix.kernels.records import COMPONENT, MATRIX, PLACES, REALS, SOLVED
from gapmix.kernels.twins import LOG_2PI
from gapmix.plan.layout import LANES

if HAS_NUMBA:  # the tiles speak to Numba's compiler
    from gapmix.kernels.row_tiles import (
        DOT_ROWS,
        add_lengths,
        add_products,
        dots,
        load_rows,
        multiply,
        store_rows,
        weigh_row,
    )
    from gapmix.kernels.vectors import TILE

DOT_BLOCK, DOT_SUM = 2, 20  # cycles of a product of eight columns, and of adding these up
CHUNK = 64  # rows whose products are summed before the sums leave the registers


@compile_inline
def _load(x, mean, row, n_rows, z):  # type: ignore[no-untyped-def]
    """Set z to eight rows less the mean, one in each lane."""
    d = mean.size
    if d >= LANES:
        load_rows(x, mean, z, (row, n_rows - 1))
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


@compile_kernel(PLACES, MATRIX, COMPONENT, REALS, twin=twins.collect)
def collect(places, x, component, solution):  # type: ignore[no-untyped-def]
    """Collect right-hand sides: (prec z)_m or z_o of each row, z = x - mean."""
    of_row, variables = places.of_row, places.variables
    mean, prec = component.mean, component.prec
    n_rows, d = places.n_missing_side, mean.size
    for row in range(n_rows, len(of_row)):
        k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
        for i in range(k):
            j = variables[v + i]
            solution[s + i] = x[row, j] - mean[j]
    z, y = empty_vectors(d), empty_vectors(d)
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


@compile_inline
def _measure(places, x, mean, solved, log_density):  # type: ignore[no-untyped-def]
    """Set the log densities of rows on the observed side."""
    of_row, variables = places.of_row, places.variables
    solution, _, log_det = solved
    for row in range(places.n_missing_side, len(of_row)):
        k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
        total = 0.0
        for i in range(k):
            j = variables[v + i]
            total += (x[row, j] - mean[j]) * solution[s + i]
        total += log_det[of_row[row, 3]] + k * LOG_2PI
        log_density[row] = -0.5 * total


@compile_kernel(PLACES, MATRIX, COMPONENT, SOLVED, MATRIX, REALS, twin=twins.complete)
def complete(places, x, component, solved, rows, log_density):  # type: ignore[no-untyped-def]
    """Set the log densities of all rows; set `rows`, which come first, to the completed z.

    On the missing side z has minus the solution in its gaps, the distance is |root z|^2 and
    log|S_oo| = log|S| + log|A_ss|; on the observed side they are z_o' solution and log|A_ss|.
    """
    of_row, variables = places.of_row, places.variables
    solution, _, log_det = solved
    mean, root, log_det_all = component.mean, component.root, component.log_det
    n_rows, d = rows.shape
    _measure(places, x, mean, solved, log_density)
    z, lengths = empty_vectors(d), empty_vectors(1)
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
        else:
            for lane in range(n_used):
                for j in range(d):
                    rows[row + lane, j] = z[j, lane]


@compile_kernel(MATRIX, REALS, REALS, MATRIX, twin=twins.add_rows)
def add_rows(rows, resp, first, second):  # type: ignore[no-untyped-def]
    """Add resp z to `first` and resp z z' to the lower triangle of `second`; return sum resp.

    The weight is a last column of the rows: its products with the others are the first sums.
    """
    n_rows, d = rows.shape
    width = (d + LANES) // LANES * LANES
    weighted, total = np.zeros((CHUNK, width)), np.zeros((width, width))
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
    for i in range(d):
        first[i] += total[d, i]
        for j in range(i + 1):
            second[i, j] += total[i, j]
    return sum_resp
