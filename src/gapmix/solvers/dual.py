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

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from gapmix import kernels
from gapmix.kernels.blas import add_products
from gapmix.kernels.records import Component, Places, Solved, Sums
from gapmix.kernels.twins import empty_packed
from gapmix.parameters import Factored, Parameters
from gapmix.plan.layout import Batches
from gapmix.plan.rows import Block, expand
from gapmix.solvers import root_form
from gapmix.solvers.contract import LOG_2PI, Completed, Visit
from gapmix.statistics import Moments, Statistics, pull_back
from gapmix.structures.mixtures import factor

SUMS_DIAGONAL = False
# Digits against time, see docs/method.md and `python -m benchmarks.stability`:
ROOT_CONDITION = 1e6  # Cholesky of K_mm loses about eps * condition
WIDE_ROOT_CONDITION = 1e9  # for wide tables, where QR would dominate and the 1-norm overstates
WIDE = 128  # columns
NEGLIGIBLE = 1e-20  # of the largest responsibility in a block: no digit of a sum depends on it
# Memory traffic against the speed of large products, see `python -m benchmarks.growth`:
DOT_COST = 6.0  # a multiply-add of a dot product against one of a large matrix product
WIDEST_IN_CACHE = 256  # columns up to which rows are completed and added up in the cache
TRIANGULAR_FROM = 64  # columns from which a triangular product beats a full one


class Prepared(NamedTuple):
    """Means and factors, and the form chosen for each component."""

    means: np.ndarray  # (K, d)
    factored: Factored
    root_form: np.ndarray  # (K,) bool


class Kept(NamedTuple):
    """One component's share of a visit."""

    rows: np.ndarray  # (n_b, d), or less, E[z] for rows on the missing side, which come first
    solved: Solved
    large: dict[int, np.ndarray]  # factors of large index sets, by pattern


def prepare(parameters: Parameters) -> Prepared:
    """Factor the covariances and choose the square-root form where conditioning demands it."""
    factored = factor(parameters)
    means = np.ascontiguousarray(parameters.means)
    limit = ROOT_CONDITION if means.shape[1] <= WIDE else max(ROOT_CONDITION, WIDE_ROOT_CONDITION)
    return Prepared(means, factored, factored.condition > limit)


def visit(prepared: Prepared, block: Block) -> Visit:
    """Return log densities; keep completed rows and factors for `accumulate`."""
    factored, n_components = prepared.factored, len(prepared.means)
    log_density = np.empty((n_components, len(block.x)))
    in_cache = block.x.shape[1] <= WIDEST_IN_CACHE
    places = _find_places(block)
    kept: list[Kept | root_form.Kept] = []
    for k, mean in enumerate(prepared.means):
        component = _component(prepared, k)
        if in_cache and not prepared.root_form[k]:
            kept.append(_solve_in_cache(block, places, component, k, log_density[k]))
            continue
        z = center(block, mean)
        one: Kept | root_form.Kept
        if prepared.root_form[k]:
            distance, log_det, one = root_form.solve(z, block, factored, k)
        else:
            distance, log_det, one = _solve(z, block, places, component, k)
        log_density[k] = -0.5 * (block.n_observed * LOG_2PI + log_det + distance)
        kept.append(one)
    return Visit(log_density.T, kept)


def _component(prepared: Prepared, k: int) -> Component:
    factored = prepared.factored
    matrices = factored.sigma[k], factored.root[k], factored.prec[k]
    return Component(prepared.means[k], *matrices, float(factored.log_det[k]))


def _find_places(block: Block) -> Places:
    of_row = np.empty((len(block.x), 4), dtype=np.int64)
    kernels.load("lanes").find_places(block.batches, of_row)
    return Places(block.batches.variables, of_row, block.n_missing_side)


def center(block: Block, mean: np.ndarray) -> np.ndarray:
    """Return the block's rows less the mean, 0 where missing, (n_b, d)."""
    z = np.empty_like(block.x)
    kernels.load("single").center(block.x, block.observed, block.start, mean, z)
    return z


def _solve_in_cache(
    block: Block, places: Places, component: Component, k: int, log_density: np.ndarray
) -> Kept:
    """Set the log densities (n_b,) and return what to keep: rows eight at a time, in the cache."""
    completing = kernels.load("completing")
    rows = np.empty((block.n_missing_side, block.x.shape[1]))
    solved = _empty_solved(block.batches)
    completing.collect(places, block.x, component, solved.solution)
    large = _solve_sets(block.batches, component, solved, k)
    completing.complete(places, block.x, component, solved, rows, log_density)
    return Kept(rows, solved, large)


def _solve(
    z: np.ndarray, block: Block, places: Places, component: Component, k: int
) -> tuple[np.ndarray, np.ndarray, Kept]:
    """Return distance (n_b,), log|S_oo| (n_b,) and what to keep; z becomes the completed rows."""
    single, m = kernels.load("single"), block.n_missing_side
    solved, distance = _empty_solved(block.batches), np.empty(len(z))
    if _dots_are_cheaper(block):
        single.gather_products(places, component.prec, z, solved.solution)
    else:
        single.gather(places, z[:m] @ component.prec, z, solved.solution)
    large = _solve_sets(block.batches, component, solved, k)
    single.measure(places, z, solved.solution, distance)
    single.fill(places, solved.solution, z)
    distance[:m] = squared_length(z[:m], component.root)
    log_det = expand(solved.log_det, block)
    log_det[:m] += component.log_det
    return distance, log_det, Kept(z, solved, large)


def _empty_solved(batches: Batches) -> Solved:
    """Return room for right-hand sides, factors and log determinants."""
    packed = empty_packed(batches.n_packed)
    return Solved(np.empty(batches.n_solution), packed, np.zeros(len(batches.pattern)))


def _solve_sets(
    batches: Batches, component: Component, solved: Solved, k: int
) -> dict[int, np.ndarray]:
    """Solve with the index sets of all patterns, in place; return the factors of large ones."""
    bad = kernels.load("lanes").solve_block(batches, component, solved)
    if bad >= 0:
        raise np.linalg.LinAlgError(f"Component {k}, pattern {bad}: no Cholesky factor.")
    return _solve_large(batches, component, solved)


def _dots_are_cheaper(block: Block) -> bool:
    """Tell whether (K z)_m is best computed entry by entry instead of as a whole product."""
    m, d = block.n_missing_side, block.x.shape[1]
    n_missing = m * d - int(block.n_observed[:m].sum())
    return DOT_COST * n_missing < m * d


def _solve_large(batches: Batches, component: Component, solved: Solved) -> dict[int, np.ndarray]:
    """Factor large index sets by LAPACK and solve with them, in place; return the factors."""
    factors: dict[int, np.ndarray] = {}
    if batches.n_small == len(batches.size):
        return factors
    take_block, solution = kernels.load("single").take_block, solved.solution
    for g in range(batches.n_small, len(batches.size)):
        matrix = component.prec if batches.side[g] else component.sigma
        for p in batches.pattern[batches.low[g] : batches.high[g]]:
            s, part, _ = _part_of(batches, g, p)
            small = np.empty((s.size, s.size))
            take_block(matrix, s, small)
            upper, info = lapack.dpotrf(small.T, lower=0, overwrite_a=True)
            if info:
                raise np.linalg.LinAlgError(f"Pattern {p}: no Cholesky factor.")
            solved.log_det[p] = 2.0 * np.log(np.diagonal(upper)).sum()
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
    for k, kept in enumerate(visit.kept):
        visit.kept[k] = None  # the next block needs as much memory
        accumulate_component(prepared, block, k, kept, r[k], total)


def accumulate_component(
    prepared: Prepared,
    block: Block,
    k: int,
    kept: Kept | root_form.Kept,
    r: np.ndarray,
    total: Statistics,
) -> None:
    """Add the share of component k, whose responsibilities are r (n_b,)."""
    if isinstance(kept, root_form.Kept):
        root_form.accumulate(prepared.factored, block, k, kept, r, total)
        return
    accumulate_completed(block, k, kept.rows, r, total)
    total.dual_resp[k] += r[block.n_missing_side :].sum()
    sums = Sums(total.first[k], total.second[k], total.dual_first[k], total.dual_second[k])
    kernels.load("lanes").add_block(block.batches, kept.solved, r, sums)
    if kept.large:
        _add_large(block.batches, kept, r, sums)


def accumulate_completed(
    block: Block, k: int, rows: np.ndarray, r: np.ndarray, total: Statistics
) -> None:
    """Add sums over the completed rows of the missing side; rows without weight are passed over."""
    m, d = block.n_missing_side, rows.shape[1]
    if d <= WIDEST_IN_CACHE:
        add_rows = kernels.load("completing").add_rows
        total.resp[k] += add_rows(rows[:m], r[:m], total.first[k], total.second[k])
        return
    r = r[:m]
    weighted = np.empty((np.count_nonzero(r), d))
    kernels.load("single").weigh(rows, r, weighted, total.first[k])
    total.resp[k] += r.sum()
    add_products(weighted, total.second[k])


def _add_large(batches: Batches, kept: Kept, r: np.ndarray, sums: Sums) -> None:
    """Add the inverses of large index sets, and solutions on the observed side."""
    add_lower = kernels.load("single").add_lower
    for g in range(batches.n_small, len(batches.size)):
        for p in batches.pattern[batches.low[g] : batches.high[g]]:
            s, part, rows = _part_of(batches, g, p)
            weight = float(r[rows].sum())
            if weight == 0.0:
                continue
            inverse = lapack.dpotri(kept.large[int(p)], lower=0)[0].T  # lower triangle in C order
            if batches.side[g]:
                add_lower(sums.second, s, inverse, weight)
                continue
            a = kept.solved.solution[part].reshape(-1, s.size)
            sums.dual_first[s] += r[rows] @ a
            add_lower(sums.dual_second, s, (a.T * r[rows]) @ a - weight * inverse, 1.0)


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
    for k, kept in enumerate(seen.kept):
        deviation[k, :m] = kept.rows[:m]
        if isinstance(kept, root_form.Kept):
            deviation[k, m:] = kept.rows[m:] @ prepared.factored.chol[k].T
        else:
            dense = _dense_solution(block, kept.solved.solution)
            deviation[k, m:] = dense[m:] @ prepared.factored.sigma[k]
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
