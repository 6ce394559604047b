"""Every pattern on its cheaper side, from scratch, batched by size: the work horse.

With the precision K = S^-1 and z = x - mean, zero where missing, a pattern asks for one small
factor, of A_ss with k = min(n_o, n_m):

- missing side (A = K, s = m): E[z_m] = -K_mm^-1 (K z)_m, and C = K_mm^-1 is the conditional
  covariance. The distance is evaluated after filling, |R z|^2 with R'R = K: the shorter
  z'Kz - u'Cu subtracts numbers up to cond(S) times the result.
- observed side (A = S, s = o): a = S_oo^-1 z_o and P = S_oo^-1 are summed as they are and pulled
  back through S once per iteration (`statistics.pull_back`).

Above ROOT_CONDITION the small matrices are not formed at all: a QR factorisation of the columns
R[:, m], or of the rows G[o, :] of S = G G', gives the same quantities without squaring the
condition number. That is the square-root form; it is chosen per component.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.parameters import Factored, Parameters, factor
from gapmix.plan import Group
from gapmix.rows import Block, expand
from gapmix.solvers.contract import LOG_2PI, Completed, Visit
from gapmix.statistics import Moments, Statistics, pull_back

SUMS_DIAGONAL = False
ROOT_CONDITION = 1e6  # Cholesky of K_mm loses about eps * condition; see docs/method.md
LOOP_ROWS = 8  # patterns with at least this many rows on average are solved one by one


class Prepared(NamedTuple):
    """Means and factors, and the form chosen for each component."""

    means: np.ndarray  # (K, d)
    factored: Factored
    root_form: np.ndarray  # (K,) bool


class Solved(NamedTuple):
    """One group of patterns under one component."""

    spread: np.ndarray  # (B, k, k) inverse of A_ss; (B, d, k) orthonormal on the whitened side


class Held(NamedTuple):
    """One component's share of a visit."""

    rows: np.ndarray  # (n_b, d) E[z] on the missing side; a or b on the observed side
    solved: tuple[Solved, ...]  # one for each group


def prepare(parameters: Parameters) -> Prepared:
    """Factor the covariances and choose the square-root form where conditioning demands it."""
    factored = factor(parameters)
    return Prepared(parameters.means, factored, factored.condition > ROOT_CONDITION)


def visit(prepared: Prepared, block: Block) -> Visit:
    """Return log densities; hold completed rows and inverses for `accumulate`."""
    n_components = len(prepared.means)
    observed = expand(block.observed, block)
    log_density = np.empty((len(block.x), n_components))
    held = []
    for k in range(n_components):
        z = np.where(observed, block.x - prepared.means[k], 0.0)
        solve = _solve_root if prepared.root_form[k] else _solve_plain
        distance, log_det, component_held = solve(z, block, prepared.factored, k)
        log_density[:, k] = -0.5 * (observed.sum(axis=1) * LOG_2PI + log_det + distance)
        held.append(component_held)
    return Visit(log_density, held)


def _solve_plain(
    z: np.ndarray, block: Block, factored: Factored, k: int
) -> tuple[np.ndarray, np.ndarray, Held]:
    """Return distance (n_b,), log|S_oo| (n_b,) and what to hold, by Cholesky of A_ss."""
    rows, distance, log_det = z.copy(), np.empty(len(z)), np.empty(len(z))
    solved = []
    for group in block.groups:
        matrix = factored.prec[k] if group.missing_side else factored.sigma[k]
        chol = np.linalg.cholesky(
            matrix[group.variables[:, :, None], group.variables[:, None, :]]
        )  # (B, k, k)
        half = np.linalg.inv(chol)
        inverse = half.transpose(0, 2, 1) @ half
        log_det_ss = 2.0 * np.log(np.diagonal(chol, axis1=1, axis2=2)).sum(axis=1)
        row, cell = group.row, (group.row[:, None], group.variables[group.member])
        if group.missing_side:
            right = (z[row] @ matrix)[np.arange(row.size)[:, None], cell[1]]
            rows[cell] = -_apply(inverse, group, right)
            distance[row] = ((rows[row] @ factored.root[k].T) ** 2).sum(axis=1)
            log_det[row] = factored.log_det[k] + log_det_ss[group.member]
        else:
            rows[cell] = _apply(inverse, group, z[cell])
            distance[row] = (_apply(half, group, z[cell]) ** 2).sum(axis=1)
            log_det[row] = log_det_ss[group.member]
        solved.append(Solved(inverse))
    return distance, log_det, Held(rows, tuple(solved))


def _solve_root(
    z: np.ndarray, block: Block, factored: Factored, k: int
) -> tuple[np.ndarray, np.ndarray, Held]:
    """Return the same as `_solve_plain`, by QR of R[:, m] or of G[o, :]'."""
    rows, distance, log_det = z.copy(), np.empty(len(z)), np.empty(len(z))
    solved = []
    for group in block.groups:
        row, cell = group.row, (group.row[:, None], group.variables[group.member])
        columns = factored.root[k].T if group.missing_side else factored.chol[k]
        ortho, upper = np.linalg.qr(columns[group.variables].transpose(0, 2, 1))  # (B,d,k), (B,k,k)
        half = np.linalg.inv(upper)
        log_det_ss = 2.0 * np.log(np.abs(np.diagonal(upper, axis1=1, axis2=2))).sum(axis=1)
        if group.missing_side:
            white = z[row] @ columns  # R z
            inside = _apply(ortho.transpose(0, 2, 1), group, white)
            rows[cell] = -_apply(half, group, inside)
            distance[row] = ((white - _apply(ortho, group, inside)) ** 2).sum(axis=1)
            log_det[row] = factored.log_det[k] + log_det_ss[group.member]
            solved.append(Solved(half @ half.transpose(0, 2, 1)))
        else:
            inside = _apply(half.transpose(0, 2, 1), group, z[cell])
            rows[row] = _apply(ortho, group, inside)  # b = G' a
            distance[row] = (inside**2).sum(axis=1)
            log_det[row] = log_det_ss[group.member]
            solved.append(Solved(ortho))
    return distance, log_det, Held(rows, tuple(solved))


def _apply(matrices: np.ndarray, group: Group, right: np.ndarray) -> np.ndarray:
    """Multiply each row of `right` (R, j) by its pattern's matrix (B, i, j), giving (R, i)."""
    n_patterns, n_rows = len(matrices), len(right)
    if n_patterns == n_rows:
        return (matrices @ right[:, :, None])[:, :, 0]
    if n_rows < LOOP_ROWS * n_patterns:
        return (matrices[group.member] @ right[:, :, None])[:, :, 0]
    result = np.empty((n_rows, matrices.shape[1]))
    bounds = np.searchsorted(group.member, np.arange(n_patterns + 1))
    for b in range(n_patterns):
        rows = slice(bounds[b], bounds[b + 1])
        result[rows] = right[rows] @ matrices[b].T
    return result


def accumulate(
    prepared: Prepared, block: Block, visit: Visit, resp: np.ndarray, total: Statistics
) -> None:
    """Add sums of rows by matrix products, and of inverses once per pattern."""
    on_missing = _rows_on_missing_side(block)
    d = block.x.shape[1]
    for k, held in enumerate(visit.held):
        for side, n, first, second in (
            (on_missing, total.resp, total.first, total.second),
            (~on_missing, total.dual_resp, total.dual_first, total.dual_second),
        ):
            r = resp[side, k]
            rows = held.rows[side]
            n[k] += r.sum()
            first[k] += r @ rows
            second[k] += (rows.T * r) @ rows
        for group, solved in zip(block.groups, held.solved, strict=True):
            weight = np.bincount(group.member, resp[group.row, k], len(group.pattern))  # (B,)
            if group.missing_side:
                total.second[k] += _embed_sum(weight, solved.spread, group.variables, d)
            elif prepared.root_form[k]:
                columns = (solved.spread * np.sqrt(weight)[:, None, None]).transpose(1, 0, 2)
                columns = columns.reshape(d, -1)
                total.dual_second[k] -= columns @ columns.T
            else:
                total.dual_second[k] -= _embed_sum(weight, solved.spread, group.variables, d)


def _embed_sum(weight: np.ndarray, inverse: np.ndarray, index: np.ndarray, d: int) -> np.ndarray:
    """Return the sum over patterns of weight * inverse, placed at its variables, (d, d)."""
    place = index[:, :, None] * d + index[:, None, :]
    values = weight[:, None, None] * inverse
    return np.bincount(place.ravel(), values.ravel(), d * d).reshape(d, d)


def _rows_on_missing_side(block: Block) -> np.ndarray:
    """Return True (n_b,) for rows solved on their missing variables."""
    on_missing = np.zeros(len(block.x), dtype=bool)
    for group in block.groups:
        on_missing[group.row] = group.missing_side
    return on_missing


def moments(prepared: Prepared, statistics: Statistics) -> Moments:
    """Return the moments of all rows, the observed side pulled back."""
    return pull_back(statistics, prepared.factored, prepared.root_form)


def precisions(prepared: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """Return precisions (K, d, d) and log|S| (K,)."""
    return prepared.factored.prec, prepared.factored.log_det


def complete(prepared: Prepared, block: Block) -> Completed:
    """Return the rows filled by each component, with conditional variances."""
    seen = visit(prepared, block)
    n_components, d = prepared.means.shape
    observed = expand(block.observed, block)
    on_missing = _rows_on_missing_side(block)
    deviation = np.empty((n_components, len(block.x), d))
    variance = np.zeros((n_components, len(block.observed), d))
    for k, held in enumerate(seen.held):
        back = prepared.factored.chol[k] if prepared.root_form[k] else prepared.factored.sigma[k]
        deviation[k] = held.rows
        deviation[k, ~on_missing] = held.rows[~on_missing] @ back.T
        deviation[k] = np.where(observed, block.x - prepared.means[k], deviation[k])
        for group, solved in zip(block.groups, held.solved, strict=True):
            if group.missing_side:
                variance[k, group.pattern[:, None], group.variables] = np.diagonal(
                    solved.spread, axis1=1, axis2=2
                )
            else:
                variance[k, group.pattern] = _variance_from_observed(
                    prepared, k, group, solved.spread
                )
    variance[:, block.observed] = 0.0
    return Completed(seen.log_density, deviation, variance)


def _variance_from_observed(
    prepared: Prepared, k: int, group: Group, spread: np.ndarray
) -> np.ndarray:
    """Return diag(S - S P S), (B, d): the variance left once the observed variables are known."""
    sigma = prepared.factored.sigma[k]
    if prepared.root_form[k]:
        explained = ((prepared.factored.chol[k] @ spread) ** 2).sum(axis=2)
    else:
        cross = sigma[group.variables]  # (B, k, d)
        explained = (cross * (spread @ cross)).sum(axis=1)
    return np.maximum(np.diagonal(sigma) - explained, 0.0)


def notes(prepared: Prepared) -> tuple[str, ...]:
    """Record the components that needed the square-root form."""
    return tuple(
        f"component {k}: square-root form (condition {prepared.factored.condition[k]:.1e})"
        for k in np.flatnonzero(prepared.root_form)
    )
