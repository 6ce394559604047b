"""What a block asks of its patterns, many at a time: gather, factor, solve, fill, add up.

Patterns of one size are taken eight at a time and solved side by side (`kernels.interleaved`).
`kernels.twins` has the same functions in plain NumPy.
"""

from __future__ import annotations

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_inline, compile_kernel
from gapmix.kernels.interleaved import LANES, cholesky, invert, solve

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
def _collect(packed, base, origin, n_chosen, k, factor):  # type: ignore[no-untyped-def]
    """Bring the factors of up to eight patterns of a group together, turning U into L = U'."""
    n_elements = k * (k + 1) // 2
    whole = n_chosen == LANES and origin[0] % LANES == 0 and origin[LANES - 1] == origin[0] + 7
    if whole:  # they are side by side already
        first = base + origin[0] // LANES * n_elements
        for j in range(k):
            line = first + j * k - j * (j + 1) // 2
            for i in range(j, k):
                for lane in range(LANES):
                    factor[i * (i + 1) // 2 + j, lane] = packed[line + i, lane]
        return
    for lane in range(LANES):
        source = origin[lane if lane < n_chosen else 0]
        first = base + source // LANES * n_elements
        old = source % LANES
        for j in range(k):
            line = first + j * k - j * (j + 1) // 2
            for i in range(j, k):
                factor[i * (i + 1) // 2 + j, lane] = packed[line + i, old]


@compile_inline
def _multiply_rows(inverse, lane, k, solution, first, n_rows, right):  # type: ignore[no-untyped-def]
    """Multiply rows of right-hand sides by an inverse (lower triangle), in place."""
    for r in range(n_rows):
        s = first + r * k
        for i in range(k):
            right[i] = solution[s + i]
        for i in range(k):
            row = i * (i + 1) // 2
            total = 0.0
            for j in range(i + 1):
                total += inverse[row + j, lane] * right[j]
            for j in range(i + 1, k):
                total += inverse[j * (j + 1) // 2 + i, lane] * right[j]
            solution[s + i] = total


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
    work = np.empty((max(1, size.max() if size.size else 1), LANES))
    place = np.empty(work.shape, dtype=np.uint32)
    origin = np.empty(LANES, dtype=np.int64)
    factor = np.empty((SMALL * (SMALL + 1) // 2, LANES))
    inverse = np.empty_like(factor)
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
            for i in range(k):
                row = base + i * k - i * (i + 1) // 2
                for j in range(i, k):
                    for lane in range(LANES):
                        packed[row + j, lane] = matrix[place[i, lane], place[j, lane]]
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
                _collect(packed, packed_start[g], origin, n_used, k, factor)
                invert(factor, k, inverse)
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
    factor = np.empty((largest * (largest + 1) // 2, LANES))
    inverse = np.empty((largest * (largest + 1) // 2, LANES))
    chosen = np.empty(LANES, dtype=np.int64)
    origin = np.empty(LANES, dtype=np.int64)
    weight = np.empty(LANES)
    for g in range(side.size):
        k = size[g]
        if k == 0:
            continue
        n_chosen = 0
        for q in range(low[g], high[g]):
            p = pattern[q]
            total = 0.0
            for i in range(start[p], start[p + 1]):
                total += resp[i]
            if total > 0.0:
                chosen[n_chosen] = p
                weight[n_chosen] = total
                origin[n_chosen] = q - low[g]
                n_chosen += 1
            if n_chosen == LANES or (q == high[g] - 1 and n_chosen > 0):
                _collect(packed, packed_start[g], origin, n_chosen, k, factor)
                invert(factor, k, inverse)
                for lane in range(n_chosen):
                    p = chosen[lane]
                    v = variable_start[p]
                    w = weight[lane]
                    if side[g] == 1:
                        for i in range(k):
                            line = second[variables[v + i]]
                            row = i * (i + 1) // 2  # inverses: lower triangle, row by row
                            for j in range(i + 1):
                                line[variables[v + j]] += w * inverse[row + j, lane]
                        continue
                    for i in range(k):
                        line = dual_second[variables[v + i]]
                        row = i * (i + 1) // 2
                        for j in range(i + 1):
                            line[variables[v + j]] -= w * inverse[row + j, lane]
                    for r in range(start[p + 1] - start[p]):
                        s = solution_start[p] + r * k
                        share = resp[start[p] + r]
                        for i in range(k):
                            line = dual_second[variables[v + i]]
                            scaled = share * solution[s + i]
                            dual_first[variables[v + i]] += scaled
                            for j in range(i + 1):
                                line[variables[v + j]] += scaled * solution[s + j]
                n_chosen = 0
