"""Moves that EM cannot make by itself: merge two components, and split a third in two.

EM cannot carry a component across a region without rows, so a mixture that has one component too
many here and one too few there stays as it is. A move is tried on the rows concerned only. With w
the share of a row that a group of components is responsible for, Jensen's inequality gives

    log p'(x) - log p(x) >= w log(q'(x) / q(x)),

q being the group's part of the density and q' what replaces it. So a small mixture fitted to rows
of weight w tells what a move gains at least, on all rows, at the price of a small part of a pass.
Groups that share no component add up. Priors are sums over components and are counted with them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix import categories
from gapmix.density.conditional import ReadyDensity, score
from gapmix.em.records import Engine, Settings
from gapmix.em.repair import CollapseError, split_heaviest
from gapmix.em.run import run
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.plan.rows import lay_out_rows, prepare_rows
from gapmix.solvers import Solver
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import members
from gapmix.structures.regularizer import is_monotone

LEAST_SHARE = 0.01  # rows of which a group has less are left out of its table; the loss is counted
LEAST_ROWS = 3  # rows that a component needs per column, and per half after a split
LEAST_GAIN = 0.02  # per row, for a move to be made
N_SPLIT, N_MERGE = 10, 3  # iterations of the small mixtures
PAIRS_PER_COMPONENT = 1.0  # pairs whose merging is tried


class Table(NamedTuple):
    """Rows in internal units, in any order."""

    x: np.ndarray  # (n, d) NaN where missing
    weight: np.ndarray  # (n,)
    codes: np.ndarray  # (n, C) levels of the categories, -1 where missing


class Change(NamedTuple):
    """What becomes of a group of components, and by how much the objective rises at least."""

    members: tuple[int, ...]
    parameters: Parameters  # of what replaces them, weights adding up to 1
    gain: float  # in sums over rows, negative for a loss


class Regrouped(NamedTuple):
    """A mixture after the moves that raised its objective."""

    parameters: Parameters
    moves: tuple[str, ...]  # in words
    gain: float  # of the objective, per row, at least
    passes: float  # work done, one pass being all rows times all components


def is_movable(parameters: Parameters, settings: Settings) -> bool:
    """Tell whether there are moves: they need three components with covariances of their own."""
    regularizer = settings.regularizer
    free = is_monotone(regularizer) and regularizer.n_kept is None
    shared = STRUCTURES[parameters.structure].SHARED
    return len(parameters.weights) > 2 and not shared and free


def regroup(
    solver: Solver,
    table: Table,
    parameters: Parameters,
    settings: Settings,
    engine: Engine,
) -> Regrouped:
    """Return the mixture after the best moves, as many as pay and share no component."""
    n_components, d = parameters.means.shape
    ready = ReadyDensity(solver, solver.prepare(parameters), parameters)
    n_factors = STRUCTURES[parameters.structure].n_factors
    rows = lay_out_rows(table.x, n_components, codes=table.codes, n_factors=n_factors)
    resp = score(ready, rows, engine).resp
    mass = table.weight @ resp
    work = 1.0 * len(table.x) * n_components
    local = Local(solver, table, settings, engine)
    splits, merges = [], []
    for k in np.flatnonzero(mass >= 2 * LEAST_ROWS * d):
        change, cost = _try_split(local, parameters, resp, int(k))
        work += cost
        splits += [change] if change is not None else []
    splits.sort(key=lambda change: -change.gain)
    if splits:
        for pair in _likely_pairs(parameters, mass):
            change, cost = _try_merge(local, parameters, resp, pair)
            work += cost
            merges += [change] if change is not None else []
    merges.sort(key=lambda change: -change.gain)
    least = LEAST_GAIN * float(table.weight.sum())
    moves, gain = [], 0.0
    while True:
        best = _best_move(splits, merges, least)
        if best is None:
            break
        split, merge = best
        parameters = _replace(parameters, split, merge, equal=settings.equal_weights)
        gain += split.gain + merge.gain
        i, j = merge.members
        moves.append(f"merged components {i} and {j}, split component {split.members[0]}")
        used = {*split.members, *merge.members}
        splits = [each for each in splits if used.isdisjoint(each.members)]
        merges = [each for each in merges if used.isdisjoint(each.members)]
    passes = work / (len(table.x) * n_components)
    return Regrouped(parameters, tuple(moves), gain / float(table.weight.sum()), passes)


class Local(NamedTuple):
    """What all small mixtures of one round share."""

    solver: Solver
    table: Table
    settings: Settings
    engine: Engine


def _try_split(
    local: Local, parameters: Parameters, resp: np.ndarray, k: int
) -> tuple[Change | None, float]:
    """Return what is gained by making component k two, along its longest axis, and the work."""
    alone = members(parameters, (k,))
    both = members(parameters, (k, k))._replace(weights=np.array([1.0, 0.0]))
    halves = split_heaviest(both, 1, both.weights)
    assert halves is not None
    return _try_change(local, (k,), resp[:, k], alone, halves[0], N_SPLIT)


def _try_merge(
    local: Local, parameters: Parameters, resp: np.ndarray, pair: tuple[int, int]
) -> tuple[Change | None, float]:
    """Return what is lost by making two components one, and the work."""
    two = members(parameters, pair)
    return _try_change(local, pair, resp[:, list(pair)].sum(axis=1), two, _merged(two), N_MERGE)


def _try_change(
    local: Local,
    group: tuple[int, ...],
    share: np.ndarray,
    before: Parameters,
    start: Parameters,
    n_iterations: int,
) -> tuple[Change | None, float]:
    """Return the change of a group to a mixture climbed to from `start`, and the work done."""
    solver, (x, weight, codes), settings, engine = local
    share = np.minimum(share, 1.0)
    near = share > LEAST_SHARE
    # log(1 - w) is the least that log p can change by in a row where the group's part vanishes
    left_out = -float(weight[~near] @ np.log1p(-share[~near]))
    most = max(len(before.weights), len(start.weights))
    weights = weight[near] * share[near]
    n_factors = STRUCTURES[start.structure].n_factors
    rows = prepare_rows(x[near], weights, most, codes=codes[near], n_factors=n_factors)
    settings = settings._replace(accelerate=None, tol=0.0)
    was, now = settings._replace(max_iter=1), settings._replace(max_iter=n_iterations)
    n_near = len(weights)
    work = float(n_near * (len(before.weights) + n_iterations * len(start.weights)))
    try:
        old = run(solver, rows, before, was, engine, keep_start=True)
        new = run(solver, rows, start, now, engine, keep_start=True)
    except (CollapseError, NotPositiveDefiniteError):
        return None, work
    made = new.parameters
    total, d = float(weights.sum()), x.shape[1]
    if any("repair" in event for record in new.history for event in record.events):
        return None, work
    if len(made.weights) > 1 and made.weights.min() * total < LEAST_ROWS * d:
        return None, work  # a few rows can be fitted as well as one likes
    gain = total * (new.history[-1].objective - old.history[-1].objective) - left_out
    if settings.equal_weights:
        gain += total * float(np.log(len(made.weights) / len(before.weights)))
    return Change(group, made, gain), work


def _likely_pairs(parameters: Parameters, mass: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs whose merging seems to lose least, if every row had one component.

    The loss is then 1/2 (N log|S| - N_i log|S_i| - N_j log|S_j|) + N_i log(N_i / N)
    + N_j log(N_j / N).
    """
    n_components = len(mass)
    rows = np.maximum(mass, np.finfo(float).tiny)
    log_det = STRUCTURES[parameters.structure].log_det
    surprise = categories.sum_entropy(parameters.categories)
    half = 0.5 * rows * log_det(parameters.covariances)
    half = half - rows * surprise if parameters.categories else half
    found = []
    for i in range(n_components):
        for j in range(i):
            pair = members(parameters._replace(weights=rows / rows.sum()), (i, j))
            both = rows[i] + rows[j]
            merged = _merged(pair)
            loss = 0.5 * both * log_det(merged.covariances)[0] - half[i] - half[j]
            if merged.categories:
                loss -= both * categories.sum_entropy(merged.categories)[0]
            loss += float(rows[i] * np.log(rows[i] / both) + rows[j] * np.log(rows[j] / both))
            found.append((float(loss), (j, i)))
    n_tried = max(2, round(PAIRS_PER_COMPONENT * n_components))
    return [pair for _, pair in sorted(found)[:n_tried]]


def _merged(two: Parameters) -> Parameters:
    """Return one component with the first two moments of a mixture."""
    mean = two.weights @ two.means
    covariance = STRUCTURES[two.structure].merge(two)
    tables = categories.merge(two.categories, two.weights)
    return Parameters(np.ones(1), mean[None], covariance, two.structure, tables)


def _best_move(
    splits: list[Change], merges: list[Change], least: float
) -> tuple[Change, Change] | None:
    """Return the split and the merge, of different components, that gain most together."""
    pairs = [
        (split, merge)
        for split in splits
        for merge in merges
        if set(split.members).isdisjoint(merge.members) and split.gain + merge.gain > least
    ]
    return max(pairs, key=lambda pair: pair[0].gain + pair[1].gain, default=None)


def _replace(parameters: Parameters, split: Change, merge: Change, *, equal: bool) -> Parameters:
    """Return the mixture after a move: one of the pair is the merged one, the other a half."""
    weights, means, covariances = (array.copy() for array in parameters[:3])
    tables = tuple(table.copy() for table in parameters.categories)
    (k,), (i, j) = split.members, merge.members
    if not equal:
        weights[i] += weights[j]
        weights[[k, j]] = weights[k] * split.parameters.weights
    means[i], covariances[i] = merge.parameters.means[0], merge.parameters.covariances[0]
    for target, half in ((k, 0), (j, 1)):
        means[target] = split.parameters.means[half]
        covariances[target] = split.parameters.covariances[half]
    for c, table in enumerate(tables):
        table[i] = merge.parameters.categories[c][0]
        table[[k, j]] = split.parameters.categories[c]
    return Parameters(weights, means, covariances, parameters.structure, tables)
