"""Every pattern on its cheaper side, from scratch, many side by side: the work horse.

With the precision K = S^-1 and z = x - mean, zero where missing, a pattern asks for one small
factor, of A_ss with k = min(n_o, n_m):

- missing side (A = K, s = m): E[z_m] = -K_mm^-1 (K z)_m, and C = K_mm^-1 is the conditional
  covariance. The distance is evaluated after filling, |R z|^2 with R'R = K: the shorter
  z'Kz - u'Cu subtracts numbers up to cond(S) times the result.
- observed side (A = S, s = o): a = S_oo^-1 z_o and P = S_oo^-1 are summed as they are, touching
  observed cells only, and pulled back through S once per iteration (`statistics.pull_back`).

Densities need the factor; only patterns that get some responsibility need the inverse, so it waits
until responsibilities are known. A component whose condition number is too large for that is solved
in `root_form`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from gapmix import kernels
from gapmix.kernels.blas import add_products
from gapmix.kernels.twins import empty_packed
from gapmix.parameters import Factored, Parameters
from gapmix.plan.planner import Batches
from gapmix.plan.rows import Block, expand
from gapmix.solvers import root_form
from gapmix.solvers.contract import LOG_2PI, Completed, Visit
from gapmix.statistics import Moments, Statistics, pull_back
from gapmix.structures.mixtures import factor

SUMS_DIAGONAL = False
ROOT_CONDITION = 1e6  # Cholesky of K_mm loses about eps * condition; see docs/method.md
WIDE_ROOT_CONDITION = 1e9  # for wide tables, where QR would dominate and the 1-norm overstates
WIDE = 128  # columns
NEGLIGIBLE = 1e-20  # of the largest responsibility in a block: no digit of a sum depends on it
DOT_COST = 6.0  # a multiply-add of a dot product against one of a large matrix product
WIDEST_IN_LANES = 256  # columns up to which rows are completed and added up in the cache
TRIANGULAR_FROM = 64  # columns from which a triangular product beats a full one


class Prepared(NamedTuple):
    """Means and factors, and the form chosen for each component."""

    means: np.ndarray  # (K, d)
    factored: Factored
    root_form: np.ndarray  # (K,) bool


class Held(NamedTuple):
    """One component's share of a visit."""

    rows: np.ndarray  # (n_b, d), or less, E[z] for rows on the missing side, which come first
    solution: np.ndarray  # A_ss^-1 times the right-hand sides, as `plan.Batches` lays them out
    packed: np.ndarray  # factors of small index sets, eight side by side
    large: dict[int, np.ndarray]  # factors of large ones, by pattern


def prepare(parameters: Parameters) -> Prepared:
    """Factor the covariances and choose the square-root form where conditioning demands it."""
    factored = factor(parameters)
    means = np.ascontiguousarray(parameters.means)
    limit = ROOT_CONDITION if means.shape[1] <= WIDE else max(ROOT_CONDITION, WIDE_ROOT_CONDITION)
    return Prepared(means, factored, factored.condition > limit)


def visit(prepared: Prepared, block: Block) -> Visit:
    """Return log densities; hold completed rows and factors for `accumulate`."""
    factored, n_components = prepared.factored, len(prepared.means)
    log_density = np.empty((n_components, len(block.x)))
    in_lanes = block.x.shape[1] <= WIDEST_IN_LANES
    sets = np.empty((block.n_missing_side, 4), dtype=np.int64)
    if in_lanes:
        kernels.load("completing").find_sets(*block.batches[:10], sets)
    held: list[Held | root_form.Held] = []
    for k, mean in enumerate(prepared.means):
        if in_lanes and not prepared.root_form[k]:
            held.append(_solve_in_lanes(mean, block, sets, factored, k, log_density[k]))
            continue
        z = center(block, mean)
        one: Held | root_form.Held
        if prepared.root_form[k]:
            distance, log_det, one = root_form.solve(z, block, factored, k)
        else:
            distance, log_det, one = _solve(z, block, factored, k)
        log_density[k] = -0.5 * (block.n_observed * LOG_2PI + log_det + distance)
        held.append(one)
    return Visit(log_density.T, held)


def center(block: Block, mean: np.ndarray) -> np.ndarray:
    """Return the block's rows less the mean, 0 where missing, (n_b, d)."""
    z = np.empty_like(block.x)
    kernels.load("lanes").center(block.x, block.observed, block.start, mean, z)
    return z


def _solve_in_lanes(
    mean: np.ndarray,
    block: Block,
    sets: np.ndarray,
    factored: Factored,
    k: int,
    log_density: np.ndarray,
) -> Held:
    """Set the log densities (n_b,) and return what to hold: rows eight at a time, in the cache."""
    completing, batches = kernels.load("completing"), block.batches
    rows = np.empty((block.n_missing_side, block.x.shape[1]))
    solution = np.empty(batches.n_solution)
    layout = (*batches[:10], block.x, mean)
    completing.prepare(*layout, factored.prec[k], solution, sets)
    log_det, packed, large = _solve_sets(factored, batches, solution, k)
    completing.complete(
        *layout,
        factored.root[k],
        solution,
        log_det,
        factored.log_det[k],
        block.n_observed,
        sets,
        rows,
        log_density,
    )
    return Held(rows, solution, packed, large)


def _solve(
    z: np.ndarray, block: Block, factored: Factored, k: int
) -> tuple[np.ndarray, np.ndarray, Held]:
    """Return distance (n_b,), log|S_oo| (n_b,) and what to hold; z becomes the completed rows."""
    lanes, batches, m = kernels.load("lanes"), block.batches, block.n_missing_side
    solution, distance = np.empty(batches.n_solution), np.empty(len(z))
    _gather(z, block, factored.prec[k], solution)
    log_det, packed, large = _solve_sets(factored, batches, solution, k)
    lanes.measure(*batches[:10], z, solution, distance)
    lanes.fill(*batches[:10], solution, z)
    distance[:m] = squared_length(z[:m], factored.root[k])
    log_det_rows = expand(log_det, block)
    log_det_rows[:m] += factored.log_det[k]
    return distance, log_det_rows, Held(z, solution, packed, large)


def _gather(z: np.ndarray, block: Block, prec: np.ndarray, solution: np.ndarray) -> None:
    """Collect right-hand sides: (K z)_m on the missing side, z_o on the observed side."""
    lanes, layout = kernels.load("lanes"), block.batches[:10]
    if _dots_are_cheaper(block):
        lanes.gather_products(*layout, prec, z, solution)
    else:
        lanes.gather(*layout, z[: block.n_missing_side] @ prec, z, solution)


def _solve_sets(
    factored: Factored, batches: Batches, solution: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Solve in place; return log|A_ss| of each pattern (P_b,) and the factors, small and large."""
    prec, sigma = factored.prec[k], factored.sigma[k]
    packed = empty_packed(batches.n_packed)
    log_det = np.zeros(len(batches.pattern))
    bad = kernels.load("lanes").solve_block(
        prec, sigma, *_small(batches), solution, packed, log_det
    )
    if bad >= 0:
        raise np.linalg.LinAlgError(f"Component {k}, pattern {bad}: no Cholesky factor.")
    return log_det, packed, _solve_large(prec, sigma, batches, solution, log_det)


def _dots_are_cheaper(block: Block) -> bool:
    """Tell whether (K z)_m is best computed entry by entry instead of as a whole product."""
    m, d = block.n_missing_side, block.x.shape[1]
    n_missing = m * d - int(block.n_observed[:m].sum())
    return DOT_COST * n_missing < m * d


def _small(batches: Batches) -> tuple[np.ndarray, ...]:
    """Return the layout of the groups that are solved in lanes."""
    n = batches.n_small
    if n == len(batches.size):
        return batches[:10]
    return (
        batches.side[:n],
        batches.size[:n],
        batches.low[:n],
        batches.high[:n],
        batches.pattern,
        batches.variables,
        batches.variable_start,
        batches.packed_start[:n],
        batches.start,
        batches.solution_start,
    )


def _solve_large(
    prec: np.ndarray,
    sigma: np.ndarray,
    batches: Batches,
    solution: np.ndarray,
    log_det: np.ndarray,
) -> dict[int, np.ndarray]:
    """Factor large index sets by LAPACK and solve with them, in place; return the factors."""
    take_block = kernels.load("lanes").take_block
    factors = {}
    for g in range(batches.n_small, len(batches.size)):
        matrix = prec if batches.side[g] else sigma
        for p in batches.pattern[batches.low[g] : batches.high[g]]:
            s, part, _ = _part_of(batches, g, p)
            small = np.empty((s.size, s.size))
            take_block(matrix, s, small)
            upper, info = lapack.dpotrf(small.T, lower=0, overwrite_a=True)
            if info:
                raise np.linalg.LinAlgError(f"Pattern {p}: no Cholesky factor.")
            log_det[p] = 2.0 * np.log(np.diagonal(upper)).sum()
            right = solution[part].reshape(-1, s.size)
            solution[part] = lapack.dpotrs(upper, right.T, lower=0)[0].T.ravel()
            factors[int(p)] = upper
    return factors


def _part_of(batches: Batches, g: int, p: int) -> tuple[np.ndarray, slice, slice]:
    """Return the variables, the part of the solutions and the rows of pattern p of group g."""
    k = int(batches.size[g])
    v, s = int(batches.variable_start[p]), int(batches.solution_start[p])
    rows = slice(int(batches.start[p]), int(batches.start[p + 1]))
    n_rows = rows.stop - rows.start
    return batches.variables[v : v + k].astype(np.int64), slice(s, s + n_rows * k), rows


def squared_length(rows: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return |R z|^2 of each row, (m,), R lower triangular."""
    if not len(rows):
        return np.empty(0)
    if rows.shape[1] < TRIANGULAR_FROM:
        white = rows @ root.T
    else:
        white = blas.dtrmm(1.0, root.T, rows.T, side=0, lower=0, trans_a=1).T
    return np.einsum("ij,ij->i", white, white)


def accumulate(
    prepared: Prepared, block: Block, visit: Visit, resp: np.ndarray, total: Statistics
) -> None:
    """Add sums of rows by matrix products, and of inverses once per pattern that matters."""
    by_component = np.ascontiguousarray(resp.T)  # (K, n_b)
    matters = by_component > NEGLIGIBLE * by_component.max(axis=1, keepdims=True)
    r = np.where(matters, by_component, 0.0)
    for k, held in enumerate(visit.held):
        visit.held[k] = None  # the next block needs as much memory
        accumulate_component(prepared, block, k, held, r[k], total)


def accumulate_component(
    prepared: Prepared,
    block: Block,
    k: int,
    held: Held | root_form.Held,
    r: np.ndarray,
    total: Statistics,
) -> None:
    """Add the share of component k, whose responsibilities are r (n_b,)."""
    if isinstance(held, root_form.Held):
        root_form.accumulate(prepared.factored, block, k, held, r, total)
        return
    accumulate_completed(block, k, held.rows, r, total)
    total.dual_resp[k] += r[block.n_missing_side :].sum()
    kernels.load("lanes").add_block(
        *_small(block.batches),
        held.solution,
        held.packed,
        r,
        total.second[k],
        total.dual_second[k],
        total.dual_first[k],
    )
    _add_large(block.batches, k, held, r, total)


def accumulate_completed(
    block: Block, k: int, rows: np.ndarray, r: np.ndarray, total: Statistics
) -> None:
    """Add sums over the completed rows of the missing side; rows without weight are passed over."""
    m, d = block.n_missing_side, rows.shape[1]
    if d <= WIDEST_IN_LANES:
        add_rows = kernels.load("completing").add_rows
        total.resp[k] += add_rows(rows[:m], r[:m], total.first[k], total.second[k])
        return
    r = r[:m]
    weighted = np.empty((np.count_nonzero(r), d))
    kernels.load("lanes").weigh(rows, r, weighted, total.first[k])
    total.resp[k] += r.sum()
    add_products(weighted, total.second[k])


def _add_large(batches: Batches, k: int, held: Held, r: np.ndarray, total: Statistics) -> None:
    """Add the inverses of large index sets, and solutions on the observed side."""
    add_lower = kernels.load("lanes").add_lower
    for g in range(batches.n_small, len(batches.size)):
        for p in batches.pattern[batches.low[g] : batches.high[g]]:
            s, part, rows = _part_of(batches, g, p)
            weight = float(r[rows].sum())
            if weight == 0.0:
                continue
            inverse = lapack.dpotri(held.large[int(p)], lower=0)[0].T  # lower triangle in C order
            if batches.side[g]:
                add_lower(total.second[k], s, inverse, weight)
                continue
            a = held.solution[part].reshape(-1, s.size)
            total.dual_first[k][s] += r[rows] @ a
            add_lower(total.dual_second[k], s, (a.T * r[rows]) @ a - weight * inverse, 1.0)


def moments(prepared: Prepared, statistics: Statistics) -> Moments:
    """Return the moments of all rows, the observed side pulled back."""
    return pull_back(statistics, prepared.factored, prepared.root_form)


def precisions(prepared: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """Return precisions (K, d, d) and log|S| (K,)."""
    return prepared.factored.prec, prepared.factored.log_det


def complete(prepared: Prepared, block: Block, *, spread: bool = True) -> Completed:
    """Return the rows filled by each component, with conditional variances if asked for."""
    seen = visit(prepared, block)
    n_components, d = prepared.means.shape
    observed = expand(block.observed, block)
    m = block.n_missing_side
    deviation = np.empty((n_components, len(block.x), d))
    variance = np.zeros((n_components, len(block.observed), d))
    for k, held in enumerate(seen.held):
        deviation[k, :m] = held.rows[:m]
        if isinstance(held, root_form.Held):
            deviation[k, m:] = held.rows[m:] @ prepared.factored.chol[k].T
        else:
            deviation[k, m:] = (
                _dense_solution(block, held.solution)[m:] @ prepared.factored.sigma[k]
            )
        deviation[k] = np.where(observed, block.x - prepared.means[k], deviation[k])
        if spread:  # once, not in every iteration: the careful form is fast enough for all
            variance[k] = root_form.variances(prepared.factored, block, k)
    return Completed(seen.log_density, deviation, variance)


def _dense_solution(block: Block, solution: np.ndarray) -> np.ndarray:
    """Return solutions on the observed side at their variables, (n_b, d), zero elsewhere."""
    dense = np.zeros_like(block.x)
    for g in np.flatnonzero(block.batches.side == 0).tolist():
        for p in block.batches.pattern[block.batches.low[g] : block.batches.high[g]]:
            s, part, rows = _part_of(block.batches, g, p)
            dense[rows, s] = solution[part].reshape(rows.stop - rows.start, s.size)
    return dense


def notes(prepared: Prepared, statistics: Statistics) -> tuple[str, ...]:
    """Record the components that needed the square-root form."""
    return tuple(
        f"component {k}: square-root form (condition {prepared.factored.condition[k]:.1e})"
        for k in np.flatnonzero(prepared.root_form)
    )
