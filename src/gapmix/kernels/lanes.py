"""What a block asks of its patterns, many at a time: gather, factor, solve, fill, add up.

Patterns of one size are taken eight at a time and solved side by side (`kernels.interleaved`).
`kernels.twins` has the same functions in plain NumPy.
"""

from __future__ import annotations

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_inline, compile_kernel
from gapmix.kernels.interleaved import (
    add_square,
    cholesky,
    copy_triangle,
    empty_vectors,
    gather_triangle,
    invert,
    scale_triangle,
    scatter_triangle,
    solve,
)
from gapmix.kernels.twins import LANES

SMALL, MANY_ROWS = 12, 8  # up to this size and from so many rows, inverses are multiplied with
_LOGS_AT_ONCE = 16  # diagonal elements multiplied before a logarithm is taken

_MATRIX = "float64[:, ::1]"
_INTS = "int64[::1]"
_REALS = "float64[::1]"
# The arrays of `plan.Batches`, in their order. Variables are unsigned: an index that cannot be
# negative needs no check for it.
_LAYOUT = ", ".join([_INTS] * 5 + ["uint32[::1]"] + [_INTS] * 4)


@compile_kernel(f"void({_MATRIX}, boolean[:, ::1], {_INTS}, {_REALS}, {_MATRIX})", twins.center)
def center(x, observed, start, mean, z):  # type: ignore[no-untyped-def]
    """Set z to x - mean where observed and to 0 elsewhere; rows of pattern p share observed[p]."""
    d = x.shape[1]
    for p in range(observed.shape[0]):
        for i in range(start[p], start[p + 1]):
            for j in range(d):
                z[i, j] = x[i, j] - mean[j] if observed[p, j] else 0.0


@compile_kernel(f"void({_MATRIX}, {_INTS}, {_MATRIX})", twins.take_block)
def take_block(matrix, variables, block):  # type: ignore[no-untyped-def]
    """Set block to the rows and columns of a matrix at these variables."""
    for i in range(variables.size):
        line = matrix[variables[i]]
        for j in range(variables.size):
            block[i, j] = line[variables[j]]


@compile_kernel(f"void({_MATRIX}, {_INTS}, {_MATRIX}, float64)", twins.add_lower)
def add_lower(total, variables, block, weight):  # type: ignore[no-untyped-def]
    """Add weight times the lower triangle of a block to a matrix at these variables."""
    for i in range(variables.size):
        line = total[variables[i]]
        for j in range(i + 1):
            line[variables[j]] += weight * block[i, j]


@compile_kernel(f"void({_MATRIX}, {_REALS}, {_MATRIX}, {_REALS})", twins.weigh)
def weigh(rows, resp, weighted, first):  # type: ignore[no-untyped-def]
    """Collect sqrt(resp) times the rows that have some, and add the sum of resp times rows."""
    d = rows.shape[1]
    n_used = 0
    for i in range(resp.size):
        if resp[i] > 0.0:
            share = np.sqrt(resp[i])
            for j in range(d):
                weighted[n_used, j] = share * rows[i, j]
                first[j] += resp[i] * rows[i, j]
            n_used += 1


@compile_kernel(f"void({_LAYOUT}, {_MATRIX}, {_MATRIX}, {_REALS})", twins.gather)
def gather(  # type: ignore[no-untyped-def]
    side,
    size,
    low,
    high,
    pattern,
    variables,
    variable_start,
    packed_start,
    start,
    solution_start,
    missing_source,
    observed_source,
    solution,
):
    """Collect right-hand sides: for each row, its source's values at the pattern's variables."""
    for g in range(side.size):
        k = size[g]
        source = missing_source if side[g] == 1 else observed_source
        for q in range(low[g], high[g]):
            p = pattern[q]
            v = variable_start[p]
            s = solution_start[p]
            for row in range(start[p], start[p + 1]):
                for i in range(k):
                    solution[s + i] = source[row, variables[v + i]]
                s += k


@compile_kernel(f"void({_LAYOUT}, {_MATRIX}, {_MATRIX}, {_REALS})", twins.gather_products)
def gather_products(  # type: ignore[no-untyped-def]
    side,
    size,
    low,
    high,
    pattern,
    variables,
    variable_start,
    packed_start,
    start,
    solution_start,
    prec,
    z,
    solution,
):
    """Do what `gather` does, with (prec z) at the missing variables computed on the way.

    Cheaper than the whole product when few variables are missing.
    """
    d = z.shape[1]
    for g in range(side.size):
        k = size[g]
        for q in range(low[g], high[g]):
            p = pattern[q]
            v = variable_start[p]
            s = solution_start[p]
            for row in range(start[p], start[p + 1]):
                values = z[row]
                if side[g] == 0:
                    for i in range(k):
                        solution[s + i] = values[variables[v + i]]
                else:
                    for i in range(k):
                        line = prec[variables[v + i]]
                        total = 0.0
                        for j in range(d):
                            total += line[j] * values[j]
                        solution[s + i] = total
                s += k


@compile_kernel(f"void({_LAYOUT}, {_MATRIX}, {_REALS}, {_REALS})", twins.measure)
def measure(  # type: ignore[no-untyped-def]
    side,
    size,
    low,
    high,
    pattern,
    variables,
    variable_start,
    packed_start,
    start,
    solution_start,
    z,
    solution,
    distance,
):
    """Set the distance of rows on the observed side, z_o' S_oo^-1 z_o."""
    for g in range(side.size):
        k = size[g]
        if side[g] == 1:
            continue
        for q in range(low[g], high[g]):
            p = pattern[q]
            v = variable_start[p]
            s = solution_start[p]
            for row in range(start[p], start[p + 1]):
                total = 0.0
                for i in range(k):
                    total += z[row, variables[v + i]] * solution[s + i]
                distance[row] = total
                s += k


@compile_kernel(f"void({_LAYOUT}, {_REALS}, {_MATRIX})", twins.fill)
def fill(  # type: ignore[no-untyped-def]
    side,
    size,
    low,
    high,
    pattern,
    variables,
    variable_start,
    packed_start,
    start,
    solution_start,
    solution,
    rows,
):
    """Fill the gaps of rows on the missing side: minus the solution, at the missing variables."""
    for g in range(side.size):
        k = size[g]
        if side[g] == 0:
            continue
        for q in range(low[g], high[g]):
            p = pattern[q]
            v = variable_start[p]
            s = solution_start[p]
            for row in range(start[p], start[p + 1]):
                for i in range(k):
                    rows[row, variables[v + i]] = -solution[s + i]
                s += k


@compile_inline
def _collect(packed, base, origin, k, factor):  # type: ignore[no-untyped-def]
    """Bring the factors of eight patterns of a group together; `origin` is their place in it."""
    n_elements = k * (k + 1) // 2
    first = base + origin // LANES * n_elements
    lane_of = origin % LANES
    whole = True
    for lane in range(LANES):
        whole = whole and first[lane] == first[0] and lane_of[lane] == lane
    if whole:  # they are side by side already
        copy_triangle(packed, first[0], factor, k)
        return
    for e in range(n_elements):
        for lane in range(LANES):
            factor[e, lane] = packed[first[lane] + e, lane_of[lane]]


@compile_inline
def _multiply_rows(inverse, lane, k, solution, first, n_rows, right):  # type: ignore[no-untyped-def]
    """Multiply rows of right-hand sides by an inverse (upper triangle), in place."""
    for r in range(n_rows):
        s = first + r * k
        for i in range(k):
            right[i] = solution[s + i]
            solution[s + i] = 0.0
        place = 0
        for i in range(k):
            total = inverse[place, lane] * right[i]
            for j in range(i + 1, k):
                value = inverse[place + j - i, lane]
                total += value * right[j]
                solution[s + j] += value * right[i]
            solution[s + i] += total
            place += k - i


@compile_kernel(
    f"int64({_MATRIX}, {_MATRIX}, {_LAYOUT}, {_REALS}, {_MATRIX}, {_REALS})",
    twins.solve_block,
)
def solve_block(  # type: ignore[no-untyped-def]
    prec,
    sigma,
    side,
    size,
    low,
    high,
    pattern,
    variables,
    variable_start,
    packed_start,
    start,
    solution_start,
    solution,
    packed,
    log_det,
):
    """Factor A_ss of every pattern and solve with it, in place of the right-hand sides.

    Groups g have `side[g]` (1 missing: A = prec; 0 observed: A = sigma), `size[g]` and the patterns
    pattern[low[g]:high[g]]. On entry `solution` holds right-hand sides (rows of a pattern
    together, k numbers each, from solution_start[p] on), on return A_ss^-1 times them. `packed`
    receives the factors and `log_det` (P_b,) log|A_ss|. Returns -1, or a pattern that has no
    factor.
    """
    work = empty_vectors(max(1, size.max() if size.size else 1))
    place = np.empty(work.shape, dtype=np.uint32)
    origin = np.empty(LANES, dtype=np.int64)
    inverse = empty_vectors(SMALL * (SMALL + 1) // 2)
    right = np.empty(SMALL)
    products = np.empty(LANES)
    for g in range(side.size):
        k = size[g]
        matrix = prec if side[g] == 1 else sigma
        n_elements = k * (k + 1) // 2
        for q in range(low[g], high[g], LANES):
            n_used = min(LANES, high[g] - q)
            base = packed_start[g] + (q - low[g]) // LANES * n_elements
            for lane in range(LANES):
                # lanes without a pattern of their own repeat the first one
                v = variable_start[pattern[q + (lane if lane < n_used else 0)]]
                for i in range(k):
                    place[i, lane] = variables[v + i]
            gather_triangle(matrix, place, packed, base, k)
            cholesky(packed, base, k)

            for lane in range(LANES):
                products[lane] = 1.0
            for lane in range(n_used):
                log_det[pattern[q + lane]] = 0.0
            for i in range(k):
                diagonal = base + i * k - i * (i + 1) // 2 + i
                for lane in range(LANES):
                    products[lane] *= packed[diagonal, lane]
                if (i + 1) % _LOGS_AT_ONCE == 0 or i == k - 1:
                    for lane in range(n_used):
                        log_det[pattern[q + lane]] -= 2.0 * np.log(products[lane])
                        products[lane] = 1.0
            most = 0
            for lane in range(n_used):
                p = pattern[q + lane]
                if not np.isfinite(log_det[p]):
                    return p
                most = max(most, start[p + 1] - start[p])
            if k <= SMALL and most >= MANY_ROWS:  # the inverse pays for itself
                for lane in range(LANES):
                    origin[lane] = q - low[g] + lane
                _collect(packed, packed_start[g], origin, k, inverse)
                invert(inverse, k)
                for lane in range(n_used):
                    p = pattern[q + lane]
                    n_rows = start[p + 1] - start[p]
                    _multiply_rows(inverse, lane, k, solution, solution_start[p], n_rows, right)
                continue
            for r in range(most):
                for lane in range(LANES):
                    p = pattern[q + (lane if lane < n_used else 0)]
                    here = r if r < start[p + 1] - start[p] else 0
                    s = solution_start[p] + here * k
                    for i in range(k):
                        work[i, lane] = solution[s + i]
                solve(packed, base, k, work)
                for lane in range(n_used):
                    p = pattern[q + lane]
                    if r < start[p + 1] - start[p]:
                        s = solution_start[p] + r * k
                        for i in range(k):
                            solution[s + i] = work[i, lane]
    return -1


@compile_kernel(
    f"void({_LAYOUT}, {_REALS}, {_MATRIX}, {_REALS}, {_MATRIX}, {_MATRIX}, {_REALS})",
    twins.add_block,
)
def add_block(  # type: ignore[no-untyped-def]
    side,
    size,
    low,
    high,
    pattern,
    variables,
    variable_start,
    packed_start,
    start,
    solution_start,
    solution,
    packed,
    resp,
    second,
    dual_second,
    dual_first,
):
    """Add weighted inverses of A_ss, and for the observed side the solutions, in place.

    Missing side: second += w A_ss^-1. Observed side: dual_second += sum resp a a' - w A_ss^-1 and
    dual_first += sum resp a. Lower triangles only. Patterns without responsibility cost nothing.
    """
    largest = max(1, size.max() if size.size else 1)
    inverse = empty_vectors(largest * (largest + 1) // 2)
    right = empty_vectors(largest + 1)
    place = np.empty((largest, LANES), dtype=np.uint32)
    origin = np.empty(LANES, dtype=np.int64)
    weight = empty_vectors(1)
    for g in range(side.size):
        k = size[g]
        if k == 0:
            continue
        total = second if side[g] == 1 else dual_second
        n_chosen = 0
        for q in range(low[g], high[g]):
            p = pattern[q]
            w = 0.0
            for row in range(start[p], start[p + 1]):
                w += resp[row]
            if w > 0.0:
                weight[0, n_chosen] = w
                origin[n_chosen] = q - low[g]
                n_chosen += 1
            if n_chosen == 0 or (n_chosen < LANES and q < high[g] - 1):
                continue
            for lane in range(LANES):
                if lane >= n_chosen:  # the first one again, without weight
                    origin[lane], weight[0, lane] = origin[0], 0.0
                v = variable_start[pattern[low[g] + origin[lane]]]
                for i in range(k):
                    place[i, lane] = variables[v + i]
            _collect(packed, packed_start[g], origin, k, inverse)
            invert(inverse, k)
            if side[g] == 0:
                for lane in range(LANES):
                    weight[0, lane] = -weight[0, lane]
            scale_triangle(inverse, k, weight)
            most = 0
            if side[g] == 0:
                for lane in range(n_chosen):
                    p = pattern[low[g] + origin[lane]]
                    most = max(most, start[p + 1] - start[p])
            for r in range(most):
                for lane in range(LANES):
                    p = pattern[low[g] + origin[lane]]
                    here = lane < n_chosen and r < start[p + 1] - start[p]
                    right[k, lane] = resp[start[p] + r] if here else 0.0
                    s = solution_start[p] + (r if here else 0) * k
                    for i in range(k):
                        right[i, lane] = solution[s + i]
                        dual_first[place[i, lane]] += right[k, lane] * right[i, lane]
                add_square(inverse, k, right)
            scatter_triangle(total, place, inverse, k)
            n_chosen = 0
