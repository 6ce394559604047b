"""Trees over patterns for the solvers that walk: how they are asked for, and how they are made."""

from functools import partial
from typing import NamedTuple

import numpy as np

from gapmix.plan.costs import Costs, tree_edge_seconds, tree_start_seconds
from gapmix.plan.layout import on_missing_side
from gapmix.plan.patterns import Patterns, count_rows
from gapmix.plan.trees import (
    EdgeCost,
    Tree,
    Walk,
    add_medians,
    arborescence,
    best_root,
    cluster_members,
    cut_at_depth,
    prune_virtual,
    schedule,
    spanning_tree,
)

CLUSTER_BYTES = 64 * 2**20  # rows and columns held by one walk
CLUSTERS_TO_SHARE = 4  # made so that threads have something to share
MIN_CLUSTER = 64  # patterns below which cutting a tree costs more than it brings


class Route(NamedTuple):
    """A tree over the index sets of patterns of one block, and the order in which it is walked."""

    tree: Tree
    walk: Walk
    pattern: np.ndarray  # (T,) pattern of each node within its block, -1 for a virtual one
    missing_side: bool


class Cluster(NamedTuple):
    """Patterns that are walked together: one block."""

    patterns: np.ndarray  # numbers of the patterns
    routes: tuple[Route, ...]


class TreeOptions(NamedTuple):
    """How trees are made. Pass as `solver=` in place of a name to change more than the name.

    `cost` is "hamming" (the paper's), "seconds" (measured, directed, with starting from scratch as
    an edge) or a function of (common, added, removed) variables, elementwise on arrays, in a unit
    of its own: `cost(0, size, 0)`, from the empty set, is that of starting a set from scratch.
    `recompute_every` starts again at depths that are a multiple of it; `virtual_patterns` adds
    medians that shorten the tree; `max_cluster` is the most patterns of one tree, and None asks for
    one tree over all of them, which threads then cannot share.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> from gapmix.plan import TreeOptions
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> X[X > 1] = np.nan
    >>> options = TreeOptions("paper", recompute_every=5)
    >>> GaussianMixture(solver=options, random_state=0).fit(X).plan_.solver
    'paper'
    """

    name: str = "paper"
    cost: str | EdgeCost = "hamming"
    recompute_every: int | None = None
    virtual_patterns: bool = False
    max_cluster: int | None = 4000


PAPER = TreeOptions()
TREE = TreeOptions("tree", cost="seconds", max_cluster=1000)


def make_forest(
    patterns: Patterns, n_components: int, options: TreeOptions, costs: Costs
) -> tuple[Cluster, ...]:
    """Cut the patterns into clusters and find a tree for each."""
    observed = patterns.observed
    n_patterns = len(observed)
    if options.max_cluster is None:
        clusters = [np.arange(n_patterns)]
    else:
        clusters = _cut(patterns, n_components, options.max_cluster)
    clusters = [
        numbers[np.argsort(~on_missing_side(observed[numbers]), kind="stable")]
        for numbers in clusters
    ]
    return tuple(
        Cluster(numbers, _make_routes(observed[numbers], options, costs)) for numbers in clusters
    )


def _cut(patterns: Patterns, n_components: int, max_cluster: int) -> list[np.ndarray]:
    """Return clusters that fit in memory, several of them so that threads can share the work."""
    n_patterns, d = patterns.observed.shape
    held = 8.0 * n_components * d * (2 * count_rows(patterns) + 8)
    n_clusters = int(np.clip(n_patterns // MIN_CLUSTER, 1, CLUSTERS_TO_SHARE))
    limit = min(CLUSTER_BYTES, 1.05 * held.sum() / n_clusters)
    return cluster_members(patterns.observed, held, max_cluster, limit)


def _make_routes(observed: np.ndarray, options: TreeOptions, costs: Costs) -> tuple[Route, ...]:
    """Return one route over the observed sets for `paper`, one for each side for `tree`."""
    if options.name == "paper":
        return (_make_route(observed, np.arange(len(observed)), False, options, costs),)
    missing_side = on_missing_side(observed)
    routes = []
    for side in (True, False):
        numbers = np.flatnonzero(missing_side == side)
        if numbers.size:
            members = ~observed[numbers] if side else observed[numbers]
            routes.append(_make_route(members, numbers, side, options, costs))
    return tuple(routes)


def _make_route(
    members: np.ndarray, numbers: np.ndarray, side: bool, options: TreeOptions, costs: Costs
) -> Route:
    tree = _make_tree(members, options, costs)
    if options.recompute_every is not None:
        tree = cut_at_depth(tree, options.recompute_every)
    pattern = np.full(len(tree.parent), -1)
    pattern[: numbers.size] = numbers
    return Route(tree, schedule(tree), pattern, side)


def _make_tree(members: np.ndarray, options: TreeOptions, costs: Costs) -> Tree:
    n_real = len(members)
    if options.virtual_patterns:
        members = add_medians(members)
    if options.cost == "hamming":
        return best_root(spanning_tree(members, n_real))

    if callable(options.cost):  # its unit is not ours, so starting is in its unit too
        tree = arborescence(members, options.cost, partial(_from_nothing, options.cost))
    else:
        edge, start = partial(tree_edge_seconds, costs), partial(tree_start_seconds, costs)
        tree = arborescence(members, edge, start)
    return prune_virtual(tree._replace(n_real=n_real))


def _from_nothing(cost: EdgeCost, size: np.ndarray) -> np.ndarray:
    """Return what reaching sets from the empty one costs."""
    nothing = np.zeros_like(size)
    return cost(nothing, size, nothing)
