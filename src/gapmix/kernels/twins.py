"""The kernels of `kernels.lanes` in plain NumPy: slow, obvious, and used when Numba is missing.

They keep the same contract, layout of the factors included, so that either can follow the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

LANES = 8
LOG_2PI = float(np.log(2.0 * np.pi))
LINE = 64  # bytes of a line of the cache


def empty_packed(n: int) -> np.ndarray:
    """Return room for n elements of eight factors, (n, LANES), each within one line."""
    memory = np.empty((n + 1) * LANES)
    first = -memory.ctypes.data % LINE // memory.itemsize
    return memory[first : first + n * LANES].reshape(n, LANES)


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


def gather(
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    missing_source: np.ndarray,
    observed_source: np.ndarray,
    solution: np.ndarray,
) -> None:
    """Collect right-hand sides: for each row, its source's values at the pattern's variables."""
    for g, p, _, _ in _walk(size, low, high, pattern, packed_start):
        v = variables[variable_start[p] : variable_start[p] + size[g]]
        source = missing_source if side[g] == 1 else observed_source
        values = source[start[p] : start[p + 1]][:, v].ravel()
        solution[solution_start[p] : solution_start[p] + values.size] = values


def gather_products(
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    prec: np.ndarray,
    z: np.ndarray,
    solution: np.ndarray,
) -> None:
    """Do what `gather` does, with (prec z) at the missing variables computed on the way."""
    layout = (side, size, low, high, pattern, variables, variable_start, packed_start, start)
    gather(*layout, solution_start, z @ prec, z, solution)


def measure(
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    z: np.ndarray,
    solution: np.ndarray,
    distance: np.ndarray,
) -> None:
    """Set the distance of rows on the observed side, z_o' S_oo^-1 z_o."""
    for g, p, _, _ in _walk(size, low, high, pattern, packed_start):
        if side[g] == 0:
            v = variables[variable_start[p] : variable_start[p] + size[g]]
            s, n_rows = int(solution_start[p]), int(start[p + 1] - start[p])
            a = solution[s : s + n_rows * v.size].reshape(n_rows, v.size)
            distance[start[p] : start[p + 1]] = (z[start[p] : start[p + 1]][:, v] * a).sum(axis=1)


def fill(
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    solution: np.ndarray,
    rows: np.ndarray,
) -> None:
    """Fill the gaps of rows on the missing side: minus the solution, at the missing variables."""
    for g, p, _, _ in _walk(size, low, high, pattern, packed_start):
        if side[g] == 1:
            v = variables[variable_start[p] : variable_start[p] + size[g]]
            s, n_rows = int(solution_start[p]), int(start[p + 1] - start[p])
            values = solution[s : s + n_rows * v.size].reshape(n_rows, v.size)
            rows[start[p] : start[p + 1], v] = -values


def find_sets(
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    sets: np.ndarray,
) -> None:
    """Set for rows on the missing side: size, first variable, first of its solution, pattern."""
    for g, p, _, _ in _walk(size, low, high, pattern, packed_start):
        if side[g] == 1:
            rows = np.arange(start[p], start[p + 1])
            sets[rows, 0], sets[rows, 1], sets[rows, 3] = size[g], variable_start[p], p
            sets[rows, 2] = solution_start[p] + (rows - start[p]) * size[g]


def prepare(
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    prec: np.ndarray,
    solution: np.ndarray,
    sets: np.ndarray,
) -> None:
    """Collect right-hand sides: (prec z)_m of rows with `sets`, z_o of the others; z = x - mean."""
    layout = (side, size, low, high, pattern, variables, variable_start, packed_start, start)
    z = x - mean
    for g, p, _, _ in _walk(size, low, high, pattern, packed_start):
        if side[g] == 1:
            v = variables[variable_start[p] : variable_start[p] + size[g]]
            z[start[p] : start[p + 1], v] = 0.0
    gather(*layout, solution_start, z @ prec, z, solution)


def complete(
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    root: np.ndarray,
    solution: np.ndarray,
    log_det: np.ndarray,
    log_det_all: float,
    n_observed: np.ndarray,
    sets: np.ndarray,
    rows: np.ndarray,
    log_density: np.ndarray,
) -> None:
    """Set the log densities of all rows; set `rows`, which come first, to the completed z."""
    layout = (side, size, low, high, pattern, variables, variable_start, packed_start, start)
    m = len(rows)
    z, distance = x - mean, np.empty(len(x))
    measure(*layout, solution_start, z, solution, distance)
    fill(*layout, solution_start, solution, z)
    rows[:] = z[:m]
    distance[:m] = log_det_all + ((rows @ root.T) ** 2).sum(axis=1)
    distance += np.repeat(log_det, np.diff(start))
    log_density[:] = -0.5 * (n_observed * LOG_2PI + distance)


def add_rows(rows: np.ndarray, resp: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """Add resp z to `first` and resp z z' to the lower triangle of `second`; return sum resp."""
    first += resp @ rows
    second += np.tril((rows.T * resp) @ rows)
    return float(resp.sum())


def solve_block(
    prec: np.ndarray,
    sigma: np.ndarray,
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    solution: np.ndarray,
    packed: np.ndarray,
    log_det: np.ndarray,
) -> int:
    """Factor A_ss of every pattern and solve with it, in place of the right-hand sides."""
    for g, p, base, lane in _walk(size, low, high, pattern, packed_start):
        k = int(size[g])
        v = variables[variable_start[p] : variable_start[p] + k]
        matrix = prec if side[g] == 1 else sigma
        try:
            chol = np.linalg.cholesky(matrix[np.ix_(v, v)])
        except np.linalg.LinAlgError:
            return p
        log_det[p] = 2.0 * np.log(np.diagonal(chol)).sum()
        stored = chol.T.copy()
        np.fill_diagonal(stored, 1.0 / np.diagonal(chol))
        packed[base : base + k * (k + 1) // 2, lane] = stored[np.triu_indices(k)]
        n_rows = int(start[p + 1] - start[p])
        part = slice(int(solution_start[p]), int(solution_start[p]) + n_rows * k)
        right = solution[part].reshape(n_rows, k)
        solution[part] = np.linalg.solve(chol.T, np.linalg.solve(chol, right.T)).T.ravel()
    return -1


def add_block(
    side: np.ndarray,
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    variables: np.ndarray,
    variable_start: np.ndarray,
    packed_start: np.ndarray,
    start: np.ndarray,
    solution_start: np.ndarray,
    solution: np.ndarray,
    packed: np.ndarray,
    resp: np.ndarray,
    second: np.ndarray,
    dual_second: np.ndarray,
    dual_first: np.ndarray,
) -> None:
    """Add weighted inverses of A_ss, and for the observed side the solutions, in place."""
    for g, p, base, lane in _walk(size, low, high, pattern, packed_start):
        k = int(size[g])
        v = variables[variable_start[p] : variable_start[p] + k]
        r = resp[start[p] : start[p + 1]]
        if not r.sum() > 0:
            continue
        upper = np.zeros((k, k))
        upper[np.triu_indices(k)] = packed[base : base + k * (k + 1) // 2, lane]
        np.fill_diagonal(upper, 1.0 / np.diagonal(upper))
        half = np.linalg.inv(upper.T)
        inverse = r.sum() * (half.T @ half)
        if side[g] == 1:
            second[np.ix_(v, v)] += np.tril(inverse)
            continue
        s = int(solution_start[p])
        a = solution[s : s + len(r) * k].reshape(len(r), k)
        dual_second[np.ix_(v, v)] += np.tril((a.T * r) @ a - inverse)
        dual_first[v] += r @ a


def _walk(
    size: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    pattern: np.ndarray,
    packed_start: np.ndarray,
) -> Iterator[tuple[int, int, int, int]]:
    """Yield group, pattern, first row of its factor in `packed`, and lane."""
    for g in range(len(size)):
        n_elements = int(size[g] * (size[g] + 1) // 2)
        for q in range(int(low[g]), int(high[g])):
            batch, lane = divmod(q - int(low[g]), LANES)
            yield g, int(pattern[q]), int(packed_start[g]) + batch * n_elements, lane
