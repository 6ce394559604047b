"""The cheaper side along a minimum arborescence: factors move, inverses never do.

Moving from a set to a neighbouring one changes its inverse by a product of few columns:

- v leaves:  inv_old = embed(inv_new) + t t'  with  t = inv_old e_v / sqrt(inv_old_vv)
- v enters:  inv_new = embed(inv_old) + t t'  with  t = U_new^-1 e_last

(for several variables at once, t is a block of columns). So a weighted sum of inverses telescopes:

    sum_p w_p inv_p = sum over starts W inv + sum over edges +-W t t'

where W is the weight of everything below. No inverse is formed or updated on the way; the columns
are kept until the responsibilities are known and then summed in one matrix product.

A component whose conditioning demands the square-root form is left to `dual`.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gapmix.parameters import Factored
from gapmix.plan.forests import Route
from gapmix.plan.rows import Block
from gapmix.solvers import dual, root_form
from gapmix.solvers.contract import LOG_2PI, Visit
from gapmix.solvers.moving import MovingFactor
from gapmix.statistics import Statistics

SUMS_DIAGONAL = False
Prepared = dual.Prepared
prepare, moments, precisions, notes = dual.prepare, dual.moments, dual.precisions, dual.notes
complete = dual.complete  # done once, so every pattern is solved afresh
# Walks are many short steps under the interpreter lock. Two threads that walk at once hand it to
# each other at every step and are slower than one; meanwhile the other does matrix products.
_ONE_WALK = threading.Lock()


class Travelled(NamedTuple):
    """What a walk along one route leaves behind, under one component."""

    start_node: list[int]  # nodes computed from scratch,
    start_inverse: list[tuple[np.ndarray, np.ndarray]]  # with their variables and inverses
    column_node: np.ndarray  # (E,) node at the lower end of the edge of each column
    column_sign: np.ndarray  # (E,) +1 entered, -1 left
    columns: np.ndarray  # (E, d) t, zero outside the set


class Kept(NamedTuple):
    """One component's share of a visit."""

    rows: np.ndarray  # (n_b, d) E[z] on the missing side, a on the observed side
    travelled: tuple[Travelled, ...]  # one for each route


def visit(prepared: Prepared, block: Block) -> Visit:
    """Return log densities; keep completed rows and the columns of the edges."""
    log_density = np.empty((len(block.x), len(prepared.means)))
    kept: list[Kept | root_form.Kept] = []
    for k, mean in enumerate(prepared.means):
        solve = root_form.solve if prepared.root_form[k] else _walk_routes
        distance, log_det, own = solve(dual.center(block, mean), block, prepared.factored, k)
        log_density[:, k] = -0.5 * (block.n_observed * LOG_2PI + log_det + distance)
        kept.append(own)
    return Visit(log_density, kept)


def _walk_routes(
    z: np.ndarray, block: Block, factored: Factored, k: int
) -> tuple[np.ndarray, np.ndarray, Kept]:
    """Return distance (n_b,), log|S_oo| (n_b,) and what to keep."""
    rows, distance, log_det = z.copy(), np.zeros(len(z)), np.empty(len(z))
    travelled = tuple(
        _walk_route(z, block, route, factored, k, rows, distance, log_det) for route in block.routes
    )
    return distance, log_det, Kept(rows, travelled)


def _walk_route(
    z: np.ndarray,
    block: Block,
    route: Route,
    factored: Factored,
    k: int,
    rows: np.ndarray,
    distance: np.ndarray,
    log_det: np.ndarray,
) -> Travelled:
    """Walk one route, filling in `rows`, `distance` and `log_det` of its rows in place."""
    side = slice(0, block.n_missing_side) if route.missing_side else slice(0, len(z))
    matrix = factored.prec[k] if route.missing_side else factored.sigma[k]
    right = z[side] @ matrix if route.missing_side else z

    def solve_rows(pattern: int, factor: MovingFactor) -> None:
        here = slice(int(block.start[pattern]), int(block.start[pattern + 1]))
        variables = factor.variables
        solution = np.ascontiguousarray(right[here][:, variables])
        factor.solve(solution, transposed=True)
        log_det[here] = factor.log_det()
        if not route.missing_side:
            distance[here] = (solution**2).sum(axis=1)
        factor.solve(solution, transposed=False)
        rows[here, variables] = -solution if route.missing_side else solution

    with _ONE_WALK:
        travelled = travel(matrix, route, solve_rows)
    if route.missing_side:
        distance[side] = dual.squared_length(rows[side], factored.root[k])
        log_det[side] += factored.log_det[k]
    return travelled


def travel(
    matrix: np.ndarray, route: Route, at_pattern: Callable[[int, MovingFactor], None]
) -> Travelled:
    """Move a factor of `matrix` along the route; at each pattern, call at_pattern(it, factor)."""
    tree, walk = route.tree, route.walk
    width = int(tree.members.sum(axis=1).max(initial=0) + 1)
    slots = [MovingFactor(width) for _ in range(walk.n_slots)]
    start_node: list[int] = []
    start_inverse: list[tuple[np.ndarray, np.ndarray]] = []
    pieces: list[tuple[int, int, np.ndarray, np.ndarray]] = []  # node, sign, variables, columns
    for node in walk.order:
        parent = tree.parent[node]
        factor = slots[walk.slot[node]]
        if parent >= 0 and walk.slot[parent] != walk.slot[node]:
            factor.copy_from(slots[walk.slot[parent]])
        moved = parent >= 0
        if moved:
            leaving = np.flatnonzero(tree.members[parent] & ~tree.members[node])
            entering = np.flatnonzero(tree.members[node] & ~tree.members[parent])
            moved, new_pieces = move(factor, matrix, leaving, entering)
            pieces += [(int(node), *piece) for piece in new_pieces] if moved else []
        if not moved:
            factor.start(matrix, np.flatnonzero(tree.members[node]))
            start_node.append(int(node))
            start_inverse.append((factor.variables.copy(), factor.inverse()))
        if route.pattern[node] >= 0:
            at_pattern(int(route.pattern[node]), factor)
    return _pack(start_node, start_inverse, pieces, matrix.shape[0])


def move(
    factor: MovingFactor, matrix: np.ndarray, leaving: np.ndarray, entering: np.ndarray
) -> tuple[bool, list[tuple[int, np.ndarray, np.ndarray]]]:
    """Move the factor, removals first; return whether that went well, and the columns t."""
    pieces = []
    if leaving.size:
        positions = factor.positions(leaving)
        block = factor.inverse_columns(positions)  # (m, k) rows of the inverse
        corner = np.linalg.cholesky(block[:, positions])
        columns = np.linalg.solve(corner, block)
        pieces.append((-1, factor.variables.copy(), columns))
        factor.delete(leaving)
    if entering.size:
        if not factor.append(matrix, entering):
            return False, []
        k, m = factor.variables.size, entering.size
        columns = np.zeros((m, k))
        columns[:, k - m :] = np.eye(m)
        factor.solve(columns, transposed=False)  # U^-1 e for the last m variables
        pieces.append((1, factor.variables.copy(), columns))
    return True, pieces


def _pack(
    start_node: list[int],
    start_inverse: list[tuple[np.ndarray, np.ndarray]],
    pieces: list[tuple[int, int, np.ndarray, np.ndarray]],
    d: int,
) -> Travelled:
    counts = [len(columns) for _, _, _, columns in pieces]
    packed = np.zeros((sum(counts), d))
    low = 0
    for (_, _, variables, columns), count in zip(pieces, counts, strict=True):
        packed[low : low + count, variables] = columns
        low += count
    node = np.repeat(np.array([piece[0] for piece in pieces], dtype=int), counts)
    sign = np.repeat(np.array([piece[1] for piece in pieces], dtype=float), counts)
    return Travelled(start_node, start_inverse, node, sign, packed)


def accumulate(
    prepared: Prepared, block: Block, visit: Visit, resp: np.ndarray, total: Statistics
) -> None:
    """Add sums of rows by matrix products, and sums of inverses telescoped over the routes."""
    m = block.n_missing_side
    by_component = np.ascontiguousarray(resp.T)  # (K, n_b)
    sums = dual.sums_of(total)
    for k, kept in enumerate(visit.kept):
        r = by_component[k]
        if isinstance(kept, root_form.Kept):
            root_form.accumulate(prepared.factored, block, k, kept, r, total)
            continue
        dual.add_completed(block, np.array([k]), kept.rows[None, :m], by_component, sums)
        if m < len(r):
            total.dual_resp[k] += r[m:].sum()
            total.dual_first[k] += r[m:] @ kept.rows[m:]
            total.dual_second[k] += (kept.rows[m:].T * r[m:]) @ kept.rows[m:]
        weight = np.add.reduceat(r, block.start[:-1])  # (P_b,)
        for route, travelled in zip(block.routes, kept.travelled, strict=True):
            into, sign = (total.second, 1.0) if route.missing_side else (total.dual_second, -1.0)
            into[k] += sign * _telescope(route, travelled, weight, into.shape[1])


def _telescope(route: Route, travelled: Travelled, weight: np.ndarray, d: int) -> np.ndarray:
    """Return the weighted sum of the inverses of all patterns of the route, (d, d)."""
    below = np.where(route.pattern >= 0, weight[route.pattern], 0.0)
    started = np.zeros(len(below), dtype=bool)
    started[travelled.start_node] = True
    for node in route.walk.order[::-1]:
        if not started[node]:
            below[route.tree.parent[node]] += below[node]
    signed = travelled.column_sign * below[travelled.column_node]
    result: np.ndarray = (travelled.columns.T * signed) @ travelled.columns
    for node, (variables, inverse) in zip(
        travelled.start_node, travelled.start_inverse, strict=True
    ):
        result[np.ix_(variables, variables)] += below[node] * inverse
    return result
