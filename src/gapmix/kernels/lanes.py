"""What a block asks of its patterns, many at a time, under one component after the other.

Patterns of one size are taken eight at a time and solved side by side (`kernels.interleaved`).
`kernels.twins` has the same functions in plain NumPy.
"""

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
from gapmix.kernels.records import (
    BATCHES,
    COMPONENTS,
    FLAGS,
    INT_MATRIX,
    INTS,
    MATRICES,
    MATRIX,
    SOLVED,
    SUMS,
)
from gapmix.plan.layout import LANES

# Up to this size and from so many rows, inverses are multiplied with: an inverse for eight patterns
# once, against two triangular solves for each row, in lanes that wait for the largest pattern.
SMALL, MANY_ROWS = 12, 8
_LOGS_AT_ONCE = 16  # diagonal elements multiplied before a logarithm is taken


@compile_kernel(BATCHES, INT_MATRIX, twin=twins.find_places)
def find_places(batches, of_row):  # type: ignore[no-untyped-def]
    """Set for each row: size of its set, first variable, first of its solution, pattern."""
    start, variable_start = batches.start, batches.variable_start
    solution_start = batches.solution_start
    for g in range(batches.size.size):
        k = batches.size[g]
        for q in range(batches.low[g], batches.high[g]):
            p = batches.pattern[q]
            for row in range(start[p], start[p + 1]):
                of_row[row, 0] = k
                of_row[row, 1] = variable_start[p]
                of_row[row, 2] = solution_start[p] + (row - start[p]) * k
                of_row[row, 3] = p


@compile_inline
def _largest(batches):  # type: ignore[no-untyped-def]
    """Return the largest size of index sets solved in lanes; they ascend."""
    return max(1, batches.size[batches.n_small - 1] if batches.n_small else 1)


@compile_inline
def _find_variables(variables, variable_start, chosen, k, place):  # type: ignore[no-untyped-def]
    """Set place[:k, lane] to the variables of the pattern chosen for each lane."""
    for lane in range(LANES):
        v = variable_start[chosen[lane]]
        for i in range(k):
            place[i, lane] = variables[v + i]


@compile_inline
def _most_rows(start, chosen, n_used):  # type: ignore[no-untyped-def]
    """Return how many rows the largest of the chosen patterns has."""
    most = 0
    for lane in range(n_used):
        most = max(most, start[chosen[lane] + 1] - start[chosen[lane]])
    return most


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
def _take_logs(packed, base, k, products, logs):  # type: ignore[no-untyped-def]
    """Set the log determinant of each lane from the factors."""
    for lane in range(LANES):
        products[lane], logs[lane] = 1.0, 0.0
    for i in range(k):
        diagonal = base + i * k - i * (i + 1) // 2 + i
        for lane in range(LANES):
            products[lane] *= packed[diagonal, lane]
        if (i + 1) % _LOGS_AT_ONCE == 0 or i == k - 1:
            for lane in range(LANES):
                logs[lane] -= 2.0 * np.log(products[lane])
                products[lane] = 1.0


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


@compile_inline
def _load_rows(solution, solution_start, start, chosen, r, k, work):  # type: ignore[no-untyped-def]
    """Set work[:k, lane] to row r of each chosen pattern; one without takes its first row."""
    for lane in range(LANES):
        p = chosen[lane]
        s = solution_start[p] + (r if r < start[p + 1] - start[p] else 0) * k
        for i in range(k):
            work[i, lane] = solution[s + i]


@compile_inline
def _solve_sets(batches, sigma, prec, solved):  # type: ignore[no-untyped-def]
    """Do what `solve_block` does under one component; return -1 or a pattern without factor."""
    work = empty_vectors(_largest(batches))
    place = np.empty(work.shape, dtype=np.uint32)
    origin, chosen = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    inverse, right = empty_vectors(SMALL * (SMALL + 1) // 2), np.empty(SMALL)
    products, logs = np.empty(LANES), np.empty(LANES)
    solution, packed, log_det = solved
    pattern, start, solution_start = batches.pattern, batches.start, batches.solution_start
    variables, variable_start = batches.variables, batches.variable_start
    for g in range(batches.n_small):
        k, low, high = batches.size[g], batches.low[g], batches.high[g]
        group, n_elements = batches.packed_start[g], k * (k + 1) // 2
        matrix = prec if batches.side[g] == 1 else sigma
        for q in range(low, high, LANES):
            n_used, base = min(LANES, high - q), group + (q - low) // LANES * n_elements
            for lane in range(LANES):
                # lanes without a pattern of their own repeat the first one
                chosen[lane] = pattern[q + (lane if lane < n_used else 0)]
            _find_variables(variables, variable_start, chosen, k, place)
            gather_triangle(matrix, place, packed, base, k)
            cholesky(packed, base, k)
            _take_logs(packed, base, k, products, logs)
            most = 0
            for lane in range(n_used):
                p = chosen[lane]
                log_det[p] = logs[lane]
                if not np.isfinite(log_det[p]):
                    return p
                most = max(most, start[p + 1] - start[p])
            if k <= SMALL and most >= MANY_ROWS:  # the inverse pays for itself
                for lane in range(LANES):
                    origin[lane] = q - low + lane
                _collect(packed, group, origin, k, inverse)
                invert(inverse, k)
                for lane in range(n_used):
                    p = chosen[lane]
                    first, n_rows = solution_start[p], start[p + 1] - start[p]
                    _multiply_rows(inverse, lane, k, solution, first, n_rows, right)
                continue
            for r in range(most):
                _load_rows(solution, solution_start, start, chosen, r, k, work)
                solve(packed, base, k, work)
                for lane in range(n_used):
                    p = chosen[lane]
                    if r < start[p + 1] - start[p]:
                        s = solution_start[p] + r * k
                        for i in range(k):
                            solution[s + i] = work[i, lane]
    return -1


@compile_kernel(BATCHES, COMPONENTS, INTS, SOLVED, twin=twins.solve_block)
def solve_block(batches, components, chosen, solved):  # type: ignore[no-untyped-def]
    """Factor A_ss of every pattern and solve with it, in place of the right-hand sides.

    On the missing side A is the precision, on the observed side the covariance. On entry
    `solved.solution` holds right-hand sides (rows of a pattern together), on return A_ss^-1 times
    them. Factors and log determinants are set. Returns (-1, -1), or a component of those `chosen`
    and a pattern that has no factor.
    """
    for c in range(chosen.size):
        k = chosen[c]
        of_this = solved.solution[c], solved.packed[c], solved.log_det[c]
        bad = _solve_sets(batches, components.sigma[k], components.prec[k], of_this)
        if bad >= 0:
            return k, bad
    return -1, -1


@compile_inline
def _add_sets(batches, solution, packed, resp, into):  # type: ignore[no-untyped-def]
    """Do what `add_block` does under one component."""
    second, dual_first, dual_second = into
    largest = _largest(batches)
    inverse, right = empty_vectors(largest * (largest + 1) // 2), empty_vectors(largest + 1)
    place = np.empty((largest, LANES), dtype=np.uint32)
    origin, chosen = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    weight = empty_vectors(1)
    pattern, start, solution_start = batches.pattern, batches.start, batches.solution_start
    variables, variable_start = batches.variables, batches.variable_start
    for g in range(batches.n_small):
        k, low, high = batches.size[g], batches.low[g], batches.high[g]
        if k == 0:
            continue
        observed_side = batches.side[g] == 0
        total = dual_second if observed_side else second
        n_chosen = 0
        for q in range(low, high):
            p = pattern[q]
            w = 0.0
            for row in range(start[p], start[p + 1]):
                w += resp[row]
            if w > 0.0:
                weight[0, n_chosen] = -w if observed_side else w
                origin[n_chosen], chosen[n_chosen] = q - low, p
                n_chosen += 1
            if n_chosen == 0 or (n_chosen < LANES and q < high - 1):
                continue
            for lane in range(n_chosen, LANES):  # the first one again, without weight
                origin[lane], chosen[lane], weight[0, lane] = origin[0], chosen[0], 0.0
            _find_variables(variables, variable_start, chosen, k, place)
            _collect(packed, batches.packed_start[g], origin, k, inverse)
            invert(inverse, k)
            scale_triangle(inverse, k, weight)
            for r in range(_most_rows(start, chosen, n_chosen) if observed_side else 0):
                _load_rows(solution, solution_start, start, chosen, r, k, right)
                for lane in range(LANES):
                    p = chosen[lane]
                    here = lane < n_chosen and r < start[p + 1] - start[p]
                    right[k, lane] = resp[start[p] + r] if here else 0.0
                    for i in range(k):
                        dual_first[place[i, lane]] += right[k, lane] * right[i, lane]
                add_square(inverse, k, right)
            scatter_triangle(total, place, inverse, k)
            n_chosen = 0


@compile_kernel(BATCHES, INTS, SOLVED, MATRIX, SUMS, twin=twins.add_block)
def add_block(batches, chosen, solved, resp, sums):  # type: ignore[no-untyped-def]
    """Add weighted inverses of A_ss, and for the observed side the solutions, in place.

    Missing side: second += w A_ss^-1. Observed side: dual_second += sum resp a a' - w A_ss^-1 and
    dual_first += sum resp a. Lower triangles only; `resp` is (K, n_b). Patterns without
    responsibility cost nothing.
    """
    for c in range(chosen.size):
        k = chosen[c]
        into = sums.second[k], sums.dual_first[k], sums.dual_second[k]
        _add_sets(batches, solved.solution[c], solved.packed[c], resp[k], into)


@compile_inline
def _left_over(inverse, lane, k, place, sigma, j):  # type: ignore[no-untyped-def]
    """Return what variables at place[:k, lane] leave of the variance of variable j."""
    explained, at = 0.0, 0
    for a in range(k):
        one = sigma[j, place[a, lane]]
        explained += inverse[at, lane] * one * one
        for b in range(a + 1, k):
            explained += 2.0 * inverse[at + b - a, lane] * one * sigma[j, place[b, lane]]
        at += k - a
    return max(sigma[j, j] - explained, 0.0)


@compile_inline
def _find_variances(batches, observed, sigma, packed, variance):  # type: ignore[no-untyped-def]
    """Do what `find_variances` does under one component."""
    largest, d = _largest(batches), len(sigma)
    inverse = empty_vectors(largest * (largest + 1) // 2)
    place = np.empty((largest, LANES), dtype=np.uint32)
    origin, chosen = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    for g in range(batches.n_small):
        k, low, high = batches.size[g], batches.low[g], batches.high[g]
        for q in range(low, high, LANES):
            n_used = min(LANES, high - q)
            for lane in range(LANES):
                origin[lane] = q - low + (lane if lane < n_used else 0)
                chosen[lane] = batches.pattern[low + origin[lane]]
            _find_variables(batches.variables, batches.variable_start, chosen, k, place)
            _collect(packed, batches.packed_start[g], origin, k, inverse)
            invert(inverse, k)
            for lane in range(n_used):
                p = chosen[lane]
                if batches.side[g] == 1:
                    for i in range(k):
                        variance[p, place[i, lane]] = inverse[i * k - i * (i - 1) // 2, lane]
                    continue
                for j in range(d):
                    if not observed[p, j]:
                        variance[p, j] = _left_over(inverse, lane, k, place, sigma, j)


@compile_kernel(BATCHES, FLAGS, COMPONENTS, INTS, SOLVED, MATRICES, twin=twins.find_variances)
def find_variances(batches, observed, components, chosen, solved, variance):  # type: ignore[no-untyped-def]
    """Set the conditional variances (K, P_b, d) of what each pattern (P_b, d) misses.

    Missing side: the diagonal of A_ss^-1. Observed side: what observed variables leave unexplained.
    """
    for c in range(chosen.size):
        k = chosen[c]
        _find_variances(batches, observed, components.sigma[k], solved.packed[c], variance[k])
