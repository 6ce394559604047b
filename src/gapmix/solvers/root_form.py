"""The square-root form: what `dual` does, without squaring the condition number.

Where forming K_mm or S_oo would cost too many digits, a QR factorisation of the columns R[:, m] of
R'R = K, or of the rows G[o, :] of G G' = S, gives the same quantities. On the observed side sums
are taken in the coordinates b = G' a, in which embed(S_oo^-1) becomes an orthogonal projector.
About 2 d k^2 operations for each pattern instead of k^3.
"""

from typing import NamedTuple

import numpy as np

from gapmix.parameters import Factored
from gapmix.plan.layout import Group
from gapmix.plan.rows import Block
from gapmix.statistics import Statistics

LOOP_ROWS = 8  # patterns with at least this many rows on average are multiplied one by one
CHUNK_BYTES = 16 * 2**20  # of orthonormal columns made at a time


class Kept(NamedTuple):
    """One component's share of a visit."""

    rows: np.ndarray  # (n_b, d) E[z] on the missing side, b on the observed side
    inverses: list[np.ndarray]  # (B, k, k) K_mm^-1 of each chunk on the missing side


def solve(
    z: np.ndarray, block: Block, factored: Factored, k: int
) -> tuple[np.ndarray, np.ndarray, Kept]:
    """Return distance (n_b,), log|S_oo| (n_b,) and what to keep."""
    rows, distance, log_det = z.copy(), np.empty(len(z)), np.empty(len(z))
    inverses = []
    for group in _chunks(block, z.shape[1]):
        row, cell = group.row, (group.row[:, None], group.variables[group.member])
        ortho, upper = _factor(group, factored, k)
        half = np.linalg.inv(upper)
        diagonal = np.diagonal(upper, axis1=1, axis2=2)
        log_det[row] = 2.0 * np.log(np.abs(diagonal)).sum(axis=1)[group.member]
        if group.missing_side:
            white = z[row] @ factored.root[k].T  # R z
            inside = _apply(ortho.transpose(0, 2, 1), group, white)
            rows[cell] = -_apply(half, group, inside)
            distance[row] = ((white - _apply(ortho, group, inside)) ** 2).sum(axis=1)
            log_det[row] += factored.log_det[k]
            inverses.append(half @ half.transpose(0, 2, 1))
        else:
            inside = _apply(half.transpose(0, 2, 1), group, z[cell])
            rows[row] = _apply(ortho, group, inside)  # b = G' a
            distance[row] = (inside**2).sum(axis=1)
    return distance, log_det, Kept(rows, inverses)


def accumulate(
    factored: Factored, block: Block, k: int, kept: Kept, r: np.ndarray, total: Statistics
) -> None:
    """Add the share of component k, whose responsibilities are r (n_b,), in place."""
    m = block.n_missing_side
    for part, n, first, second in (
        (slice(0, m), total.resp, total.first, total.second),
        (slice(m, None), total.dual_resp, total.dual_first, total.dual_second),
    ):
        rows = kept.rows[part]
        if not len(rows):
            continue
        n[k] += r[part].sum()
        first[k] += r[part] @ rows
        second[k] += (rows.T * r[part]) @ rows
    d = block.x.shape[1]
    inverses = iter(kept.inverses)
    for group in _chunks(block, d):
        weight = np.bincount(group.member, r[group.row], len(group.pattern))  # (B,)
        if group.missing_side:
            total.second[k] += embed_sum(weight, next(inverses), group.variables, d)
        elif weight.any():
            ortho = _factor(group, factored, k)[0]
            columns = (ortho * np.sqrt(weight)[:, None, None]).transpose(1, 0, 2).reshape(d, -1)
            total.dual_second[k] -= columns @ columns.T


def variances(factored: Factored, block: Block, k: int) -> np.ndarray:
    """Return the conditional variances of all variables, (P_b, d)."""
    d = block.x.shape[1]
    result = np.zeros((len(block.observed), d))
    for group in _chunks(block, d):
        ortho, upper = _factor(group, factored, k)
        if group.missing_side:
            half = np.linalg.inv(upper)
            result[group.pattern[:, None], group.variables] = (half**2).sum(axis=2)
        else:
            explained = ((factored.chol[k] @ ortho) ** 2).sum(axis=2)
            left = np.diagonal(factored.sigma[k]) - explained
            result[group.pattern] = np.maximum(left, 0.0)
    result[block.observed] = 0.0
    return result


def embed_sum(weight: np.ndarray, inverse: np.ndarray, variables: np.ndarray, d: int) -> np.ndarray:
    """Return the sum over patterns of weight * inverse, placed at its variables, (d, d)."""
    place = variables[:, :, None] * d + variables[:, None, :]
    values = weight[:, None, None] * inverse
    return np.bincount(place.ravel(), values.ravel(), d * d).reshape(d, d)


def _factor(group: Group, factored: Factored, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Q (B, d, k) and T (B, k, k) with Q T = R[:, m] or G[o, :]'."""
    columns = factored.root[k].T if group.missing_side else factored.chol[k]
    result = np.linalg.qr(columns[group.variables].transpose(0, 2, 1))
    return result.Q, result.R


def _chunks(block: Block, d: int) -> list[Group]:
    """Return the block's groups, cut so that the columns of each take limited memory."""
    pieces = []
    for group in block.groups:
        step = max(1, CHUNK_BYTES // (8 * d * max(1, group.variables.shape[1])))
        for low in range(0, len(group.pattern), step):
            rows = slice(*np.searchsorted(group.member, [low, low + step]))
            pieces.append(
                Group(
                    group.missing_side,
                    group.variables[low : low + step],
                    group.pattern[low : low + step],
                    group.row[rows],
                    group.member[rows] - low,
                )
            )
    return pieces


def _apply(matrices: np.ndarray, group: Group, right: np.ndarray) -> np.ndarray:
    """Multiply each row of `right` (R, j) by its pattern's matrix (B, i, j), giving (R, i)."""
    n_patterns, n_rows = len(matrices), len(right)
    if n_rows < LOOP_ROWS * n_patterns:
        mine = matrices if n_patterns == n_rows else matrices[group.member]
        return (mine @ right[:, :, None])[:, :, 0]
    result = np.empty((n_rows, matrices.shape[1]))
    bounds = np.searchsorted(group.member, np.arange(n_patterns + 1))
    for b in range(n_patterns):
        rows = slice(bounds[b], bounds[b + 1])
        result[rows] = right[rows] @ matrices[b].T
    return result
