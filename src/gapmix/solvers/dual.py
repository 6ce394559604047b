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
from gapmix.kernels.records import Components, Places, Solved, Sums
from gapmix.kernels.twins import cells_of, empty_packed
from gapmix.parameters import Factored, Parameters
from gapmix.plan.layout import Batches
from gapmix.plan.rows import Block, expand
from gapmix.solvers import root_form
from gapmix.solvers.contract import LOG_2PI, Completed, Visit
from gapmix.statistics import Moments, Statistics, pull_back
from gapmix.structures.mixtures import factor

SUMS_DIAGONAL = False
# Digits against time, see docs/method.md and `python -m benchmarks.stability`:
ROOT_CONDITION = 1e8  # Cholesky of K_mm loses about eps * condition
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
    components: Components  # the same for kernels


class Kept(NamedTuple):
    """What a visit keeps of C components: all that are solved in the cache, or one."""

    chosen: np.ndarray  # (C,) which they are
    rows: np.ndarray  # (C, n_b, d), or less, E[z] for rows on the missing side, which come first
    solved: Solved
    large: list[dict[int, np.ndarray]]  # factors of large index sets, by pattern


class KeptRoot(NamedTuple):
    """What a visit keeps of a component in square-root form."""

    component: int
    kept: root_form.Kept


def prepare(parameters: Parameters) -> Prepared:
    """Factor the covariances and choose the square-root form where conditioning demands it."""
    factored = factor(parameters)
    means = np.ascontiguousarray(parameters.means)
    limit = ROOT_CONDITION if means.shape[1] <= WIDE else max(ROOT_CONDITION, WIDE_ROOT_CONDITION)
    shared = factored.sigma, factored.root, factored.prec, factored.log_det  # or each its own
    components = Components(means, *(np.ascontiguousarray(each) for each in shared))
    return Prepared(means, factored, factored.condition > limit, components)


def visit(prepared: Prepared, block: Block) -> Visit:
    """Return log densities; keep completed rows and factors for `accumulate`."""
    log_density = np.empty((len(prepared.means), len(block.x)))
    places = _find_places(block)
    plain = np.flatnonzero(~prepared.root_form)  # components
    kept: list[Kept | KeptRoot] = []
    if block.x.shape[1] <= WIDEST_IN_CACHE:
        if plain.size:
            kept.append(_solve_in_cache(prepared.components, plain, block, places, log_density))
    else:
        kept += [
            _solve(prepared.components, k, block, places, log_density[k]) for k in plain.tolist()
        ]
    for k in np.flatnonzero(prepared.root_form).tolist():
        z = center(block, prepared.means[k])
        distance, log_det, own = root_form.solve(z, block, prepared.factored, k)
        log_density[k] = _to_log_density(block, distance, log_det)
        kept.append(KeptRoot(k, own))
    return Visit(log_density.T, kept)


def _to_log_density(block: Block, distance: np.ndarray, log_det: np.ndarray) -> np.ndarray:
    value: np.ndarray = -0.5 * (block.n_observed * LOG_2PI + log_det + distance)
    return value


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
    components: Components,
    chosen: np.ndarray,
    block: Block,
    places: Places,
    log_density: np.ndarray,
) -> Kept:
    """Set log densities (K, n_b) and return what to keep: rows eight at a time, in the cache.

    All components in few calls: with many components blocks have few rows, and the calls would
    take longer than what they do.
    """
    completing = kernels.load("completing")
    rows = np.empty((len(chosen), block.n_missing_side, block.x.shape[1]))
    solved = _empty_solved(block.batches, len(chosen))
    completing.collect(places, block.x, components, chosen, solved.solution)
    large = _solve_sets(block.batches, components, chosen, solved)
    completing.complete(places, block.x, components, chosen, solved, rows, log_density)
    return Kept(chosen, rows, solved, large)


def _solve(
    components: Components, k: int, block: Block, places: Places, log_density: np.ndarray
) -> Kept:
    """Set the log densities (n_b,) of one component and return what to keep."""
    single, m = kernels.load("single"), block.n_missing_side
    z, prec = center(block, components.mean[k]), components.prec[k]
    solved, distance = _empty_solved(block.batches, 1), np.empty(len(z))
    solution, chosen = solved.solution[0], np.array([k])
    if _dots_are_cheaper(block):
        single.gather_products(places, prec, z, solution)
    else:
        single.gather(places, z[:m] @ prec, z, solution)
    large = _solve_sets(block.batches, components, chosen, solved)
    single.measure(places, z, solution, distance)
    single.fill(places, solution, z)
    distance[:m] = squared_length(z[:m], components.root[k])
    log_det = expand(solved.log_det[0], block)
    log_det[:m] += components.log_det[k]
    log_density[:] = _to_log_density(block, distance, log_det)
    return Kept(chosen, z[None], solved, large)


def _empty_solved(batches: Batches, n_components: int) -> Solved:
    """Return room for right-hand sides, factors and log determinants."""
    packed = empty_packed(n_components, batches.n_packed)
    log_det = np.zeros((n_components, len(batches.pattern)))
    return Solved(np.empty((n_components, batches.n_solution)), packed, log_det)


def _solve_sets(
    batches: Batches, components: Components, chosen: np.ndarray, solved: Solved
) -> list[dict[int, np.ndarray]]:
    """Solve with the index sets of all patterns, in place; return the factors of large ones."""
    k, bad = kernels.load("lanes").solve_block(batches, components, chosen, solved)
    if bad >= 0:
        raise np.linalg.LinAlgError(f"Component {k}, pattern {bad}: no Cholesky factor.")
    if batches.n_small == len(batches.size):
        return []
    return [
        _solve_large(batches, components, int(k), solved.solution[c], solved.log_det[c])
        for c, k in enumerate(chosen)
    ]


def _dots_are_cheaper(block: Block) -> bool:
    """Tell whether (K z)_m is best computed entry by entry instead of as a whole product."""
    m, d = block.n_missing_side, block.x.shape[1]
    n_missing = m * d - int(block.n_observed[:m].sum())
    return DOT_COST * n_missing < m * d


def _solve_large(
    batches: Batches, components: Components, k: int, solution: np.ndarray, log_det: np.ndarray
) -> dict[int, np.ndarray]:
    """Factor large index sets by LAPACK and solve with them, in place; return the factors."""
    factors: dict[int, np.ndarray] = {}
    take_block = kernels.load("single").take_block
    for g in range(batches.n_small, len(batches.size)):
        matrix = (components.prec if batches.side[g] else components.sigma)[k]
        for p in batches.pattern[batches.low[g] : batches.high[g]]:
            s, part, _ = _part_of(batches, g, p)
            small = np.empty((s.size, s.size))
            take_block(matrix, s, small)
            upper, info = lapack.dpotrf(small.T, lower=0, overwrite_a=True)
            if info:
                raise np.linalg.LinAlgError(f"Component {k}, pattern {p}: no Cholesky factor.")
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
    r = np.empty_like(by_component)
    kernels.load("sharing").drop_negligible(by_component, NEGLIGIBLE, r)
    sums = sums_of(total)
    for i, kept in enumerate(visit.kept):
        visit.kept[i] = None  # the next block needs as much memory
        if isinstance(kept, KeptRoot):
            k = kept.component
            root_form.accumulate(prepared.factored, block, k, kept.kept, r[k], total)
            continue
        chosen = kept.chosen
        add_completed(block, chosen, kept.rows, r, sums)
        total.dual_resp[chosen] += r[chosen, block.n_missing_side :].sum(axis=1)
        kernels.load("lanes").add_block(block.batches, chosen, kept.solved, r, sums)
        for c, large in enumerate(kept.large):
            _add_large(block.batches, kept.solved.solution[c], large, chosen[c], r, sums)


def sums_of(total: Statistics) -> Sums:
    """Return what kernels add to."""
    return Sums(*(getattr(total, name) for name in Sums._fields))


def add_completed(
    block: Block, chosen: np.ndarray, rows: np.ndarray, resp: np.ndarray, sums: Sums
) -> None:
    """Add sums over the completed rows (C, m, d) of the missing side, resp being (K, n_b).

    Rows without weight are passed over.
    """
    m, d = block.n_missing_side, rows.shape[2]
    if d <= WIDEST_IN_CACHE:
        kernels.load("completing").add_rows(rows, chosen, resp, sums)
        return
    for k, own in zip(chosen, rows, strict=True):
        r = resp[k, :m]
        weighted = np.empty((np.count_nonzero(r), d))
        kernels.load("single").weigh(own, r, weighted, sums.first[k])
        sums.resp[k] += r.sum()
        add_products(weighted, sums.second[k])


def _add_large(
    batches: Batches,
    solution: np.ndarray,
    factors: dict[int, np.ndarray],
    component: int,
    resp: np.ndarray,
    sums: Sums,
) -> None:
    """Add the inverses of large index sets, and solutions on the observed side."""
    add_lower, r = kernels.load("single").add_lower, resp[component]
    for g in range(batches.n_small, len(batches.size)):
        for p in batches.pattern[batches.low[g] : batches.high[g]]:
            s, part, rows = _part_of(batches, g, p)
            weight = float(r[rows].sum())
            if weight == 0.0:
                continue
            inverse = lapack.dpotri(factors[int(p)], lower=0)[0].T  # lower triangle in C order
            if batches.side[g]:
                add_lower(sums.second[component], s, inverse, weight)
                continue
            a = solution[part].reshape(-1, s.size)
            sums.dual_first[component, s] += r[rows] @ a
            outer = (a.T * r[rows]) @ a
            add_lower(sums.dual_second[component], s, outer - weight * inverse, 1.0)


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
    m, components = block.n_missing_side, prepared.components
    deviation = np.empty((n_components, len(block.x), d))
    variance = np.zeros((n_components, len(block.observed), d))
    for kept in seen.kept:
        if isinstance(kept, KeptRoot):
            k, rows = kept.component, kept.kept.rows
            deviation[k, :m] = rows[:m]
            deviation[k, m:] = rows[m:] @ prepared.factored.chol[k].T
            if spread:
                variance[k] = root_form.variances(prepared.factored, block, k)
            continue
        chosen = kept.chosen
        deviation[chosen, :m] = kept.rows[:, :m]
        if m < len(block.x):
            dense = _dense_solutions(block, kept.solved.solution)
            whole = len(chosen) == n_components
            deviation[chosen, m:] = dense @ components.sigma[... if whole else chosen]
        if spread:
            given = block.batches, block.observed, components, chosen, kept.solved
            kernels.load("lanes").find_variances(*given, variance)
            for c, large in enumerate(kept.large):
                _add_variances(block, components.sigma[chosen[c]], large, variance[chosen[c]])
    observed = expand(block.observed, block)
    for k, mean in enumerate(prepared.means):
        np.copyto(deviation[k], block.x - mean, where=observed)
    return Completed(seen.log_density, deviation, variance)


def _add_variances(
    block: Block, sigma: np.ndarray, factors: dict[int, np.ndarray], variance: np.ndarray
) -> None:
    """Set the conditional variances (P_b, d) of patterns with large index sets."""
    for g in range(block.batches.n_small, len(block.batches.size)):
        for p in block.batches.pattern[block.batches.low[g] : block.batches.high[g]]:
            s, _, _ = _part_of(block.batches, g, p)
            if block.batches.side[g]:
                variance[p, s] = np.diagonal(lapack.dpotri(factors[int(p)], lower=0)[0])
                continue
            m = np.flatnonzero(~block.observed[p])
            half = lapack.dtrtrs(factors[int(p)], sigma[np.ix_(s, m)], lower=0, trans=1)[0]
            variance[p, m] = np.maximum(np.diagonal(sigma)[m] - (half**2).sum(axis=0), 0.0)


def _dense_solutions(block: Block, solution: np.ndarray) -> np.ndarray:
    """Return solutions (C, n_solution) on the observed side at their variables, zero elsewhere."""
    row, variable, at = cells_of(_find_places(block))
    m = block.n_missing_side
    here = row >= m
    dense = np.zeros((len(solution), len(block.x) - m, block.x.shape[1]))
    dense[:, row[here] - m, variable[here]] = solution[:, at[here]]
    return dense


def notes(prepared: Prepared, statistics: Statistics) -> tuple[str, ...]:
    """Record the components that needed the square-root form."""
    return tuple(
        f"component {k}: square-root form (condition {prepared.factored.condition[k]:.1e})"
        for k in np.flatnonzero(prepared.root_form)
    )
