"""Trees over patterns: from which pattern each one is reached, and in what order.

A tree is data: parents, what changes on each edge, which matrices are alive. Two kinds are made.

- The paper's: a minimum spanning tree of the complete graph whose weights count the variables in
  which two patterns differ; optionally with virtual patterns, medians that no row has.
- An arborescence: costs are directed (adding a variable and removing one do not cost the same) and
  "from scratch" is an edge too, from a virtual root. Its minimum is found by Edmonds' algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np

# cost(common, added, removed) of reaching a set from another one, elementwise on arrays: `common`
# variables are in both sets, `added` only in the new one, `removed` only in the old one.
EdgeCost = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
ScratchCost = Callable[[np.ndarray], np.ndarray]  # cost(size) of starting anew

PAIRS_BELOW = 8  # neighbours of a node among which medians are sought


class Tree(NamedTuple):
    """A forest over index sets; a node without a parent is computed from scratch."""

    members: np.ndarray  # (T, d) bool, the set of each node; nodes from n_real on are virtual
    n_real: int
    parent: np.ndarray  # (T,) node, or -1 for from scratch


class Walk(NamedTuple):
    """An order of visits in which every node comes after its parent and few matrices are alive.

    A node's matrix lives in a slot. The last child of a node takes over its parent's slot, all
    others copy it into a free one.
    """

    order: np.ndarray  # (T,) nodes in the order of their visits
    slot: np.ndarray  # (T,) slot of each node's matrix
    depth: np.ndarray  # (T,) edges to the nearest ancestor computed from scratch
    n_slots: int


def count_changes(tree: Tree) -> int:
    """Return the number of variables that change over all edges."""
    child = np.flatnonzero(tree.parent >= 0)
    return int((tree.members[child] != tree.members[tree.parent[child]]).sum())


def spanning_tree(members: np.ndarray, n_real: int | None = None) -> Tree:
    """Return a minimum spanning tree under the number of differing variables (Prim).

    O(T^2) time and O(T) memory beside the sets. Rooted at the first node; see `best_root`.
    """
    n = len(members)
    parent = np.full(n, -1)
    signs = members.astype(np.float32)
    size = signs.sum(axis=1)
    distance = np.full(n, np.inf, dtype=np.float32)
    nearest = np.full(n, -1)
    outside = np.arange(n)
    node = 0
    while outside.size:
        outside = outside[outside != node]
        to_node = size[outside] + size[node] - 2.0 * (signs[outside] @ signs[node])
        closer = to_node < distance[outside]
        distance[outside[closer]] = to_node[closer]
        nearest[outside[closer]] = node
        if outside.size:
            node = int(outside[np.argmin(distance[outside])])
            parent[node] = nearest[node]
    return Tree(members, n if n_real is None else n_real, parent)


def arborescence(members: np.ndarray, edge_cost: EdgeCost, scratch_cost: ScratchCost) -> Tree:
    """Return a minimum-cost forest where starting a node from scratch is an edge too.

    Exact over all pairs; O(T^2) time and memory.
    """
    n = len(members)
    signs = members.astype(np.float32)
    size = members.sum(axis=1).astype(np.float32)
    common = signs @ signs.T  # exact: counts far below 2 ** 24
    cost = np.empty((n, n + 1))
    cost[:, :n] = edge_cost(common, size[:, None] - common, size[None, :] - common)
    cost[:, n] = scratch_cost(size)
    parent = minimum_arborescence(cost)
    return Tree(members, n, np.where(parent == n, -1, parent))


def minimum_arborescence(cost: np.ndarray) -> np.ndarray:
    """Return the parent of each node in a minimum-cost arborescence (Edmonds).

    `cost[v, u]` is the cost of the edge from u to v; the last column is the root. A path is grown
    backwards along cheapest incoming edges. When it meets itself, the cycle is contracted to one
    node, each edge into it being charged less the edge it would replace; when it meets the root or
    an earlier path, it is finished. Contractions are undone at the end.
    """
    n = len(cost)
    incoming = {v: cost[v].astype(float) for v in range(n)}  # by source
    enters = {v: np.full(n + 1, v) for v in range(n)}  # the node that an edge from u really enters
    for v in range(n):
        incoming[v][v] = np.inf
    holder = np.arange(n + 1)  # the contracted node that now holds each node
    holder[n] = -1  # the root
    within: list[list[int]] = [[] for _ in range(n)]  # what was contracted into each node
    chosen: dict[int, int] = {}  # source of the cheapest edge into a (contracted) node
    finished = np.zeros(2 * n + 1, dtype=bool)
    for start in range(n):
        if finished[holder[start]]:
            continue
        path = [int(holder[start])]
        while True:
            v = path[-1]
            source = int(np.argmin(incoming[v]))
            chosen[v] = source
            u = int(holder[source])
            if source == n or finished[u]:
                finished[path] = True
                break
            if u not in path:
                path.append(u)
                continue
            cycle = path[path.index(u) :]
            path[-len(cycle) :] = [_contract(cycle, incoming, enters, holder, within, chosen)]
    return _undo_contractions(n, enters, within, chosen)


def _contract(
    cycle: list[int],
    incoming: dict[int, np.ndarray],
    enters: dict[int, np.ndarray],
    holder: np.ndarray,
    within: list[list[int]],
    chosen: dict[int, int],
) -> int:
    """Replace the nodes of a cycle by a new one, in place, and return its number."""
    new = len(within)
    within.append(cycle)
    charged = np.stack([incoming[v] - incoming[v][chosen[v]] for v in cycle])
    cheapest = charged.argmin(axis=0)
    sources = np.arange(charged.shape[1])
    incoming[new] = charged[cheapest, sources]
    enters[new] = np.stack([enters[v] for v in cycle])[cheapest, sources]
    inside = np.isin(holder[:-1], cycle)
    holder[:-1][inside] = new
    incoming[new][:-1][inside] = np.inf
    for v in cycle:
        del incoming[v]
    return new


def _undo_contractions(
    n: int, enters: dict[int, np.ndarray], within: list[list[int]], chosen: dict[int, int]
) -> np.ndarray:
    """Return the parent of every original node: an edge into a cycle replaces one inside it."""
    held_in = {v: new for new, cycle in enumerate(within) for v in cycle}
    parent = np.full(n, -1)
    settled = np.zeros(len(within), dtype=bool)
    for node in range(len(within) - 1, -1, -1):
        if settled[node]:
            continue
        # the edge into `node` is final: it enters one original node, through all that hold it
        source = chosen[node]
        entered = int(enters[node][source])
        parent[entered] = source
        while True:
            settled[entered] = True
            if entered == node:
                break
            entered = held_in[entered]
    return parent


def cut_at_depth(tree: Tree, recompute_every: int) -> Tree:
    """Start anew at every node whose depth is a multiple of `recompute_every`."""
    depth = _depths(tree.parent)
    return tree._replace(parent=np.where(depth % recompute_every == 0, -1, tree.parent))


def cluster_members(
    members: np.ndarray, weight: np.ndarray, max_size: int, max_weight: float
) -> list[np.ndarray]:
    """Cut sets into clusters of at most `max_size` sets and a total of at most `max_weight`.

    Clusters are halved by a 2-median on bits (Hamming distance, majority-vote centres), with the
    border set where both halves weigh the same. A single set is never cut.
    """
    finished: list[np.ndarray] = []
    pending = [np.arange(len(members))]
    while pending:
        nodes = pending.pop()
        if nodes.size < 2 or (nodes.size <= max_size and weight[nodes].sum() <= max_weight):
            finished.append(nodes)
            continue
        pending += _halve(nodes, members[nodes], weight[nodes])[::-1]
    return finished


def _halve(nodes: np.ndarray, sets: np.ndarray, weight: np.ndarray) -> list[np.ndarray]:
    middle = _majority(sets)
    first = sets[np.argmax((sets != middle).sum(axis=1))]
    second = sets[np.argmax((sets != first).sum(axis=1))]
    for _ in range(3):
        side = (sets != first).sum(axis=1) - (sets != second).sum(axis=1)
        order = np.argsort(side, kind="stable")
        heavy = np.cumsum(weight[order])
        border = int(np.clip(np.searchsorted(heavy, heavy[-1] / 2) + 1, 1, nodes.size - 1))
        first, second = _majority(sets[order[:border]]), _majority(sets[order[border:]])
    return [np.sort(nodes[order[:border]]), np.sort(nodes[order[border:]])]


def _majority(sets: np.ndarray) -> np.ndarray:
    return sets.mean(axis=0) > 0.5


def add_medians(members: np.ndarray, max_rounds: int = 4) -> np.ndarray:
    """Return the sets followed by virtual ones that shorten the spanning tree.

    The coordinate-wise median of three sets is their best meeting point. Medians of a node and two
    of its neighbours are added as long as they save changes; those that end up with fewer than
    three neighbours save nothing and are dropped again.
    """
    n_real = len(members)
    for _ in range(max_rounds):
        new = _saving_medians(spanning_tree(members))
        if not len(new):
            break
        members = np.concatenate([members, new])
    while True:
        degree = np.array([len(others) for others in _neighbours(spanning_tree(members))])
        keep = (np.arange(len(members)) < n_real) | (degree >= 3)
        if keep.all():
            return members
        members = members[keep]


def _saving_medians(tree: Tree) -> np.ndarray:
    members = tree.members
    known = {row.tobytes() for row in members}
    new = []
    for node, neighbours in enumerate(_neighbours(tree)):
        best: tuple[int, np.ndarray] | None = None
        for a, b in combinations(neighbours[:PAIRS_BELOW], 2):
            median = (members[node].astype(int) + members[a] + members[b]) >= 2
            saved = int((members[node] != median).sum())  # d(v,a) + d(v,b) less the three edges
            if saved > 0 and (best is None or saved > best[0]) and median.tobytes() not in known:
                best = (saved, median)
        if best is not None:
            known.add(best[1].tobytes())
            new.append(best[1])
    return np.array(new, dtype=bool).reshape(-1, members.shape[1])


def prune_virtual(tree: Tree) -> Tree:
    """Drop virtual nodes from which no real one is reached."""
    while True:
        n = len(tree.parent)
        has_child = np.zeros(n, dtype=bool)
        has_child[tree.parent[tree.parent >= 0]] = True
        keep = has_child | (np.arange(n) < tree.n_real)
        if keep.all():
            return tree
        new_number = np.cumsum(keep) - 1
        parent = tree.parent[keep]
        parent = np.where(parent >= 0, new_number[parent], -1)
        tree = Tree(tree.members[keep], tree.n_real, parent)


def _neighbours(tree: Tree) -> list[list[int]]:
    lists: list[list[int]] = [[] for _ in tree.parent]
    for node, parent in enumerate(tree.parent):
        if parent >= 0:
            lists[node].append(int(parent))
            lists[parent].append(node)
    return lists


def best_root(tree: Tree) -> Tree:
    """Re-root a spanning tree so that as few matrices as possible are alive at once.

    What a subtree needs is its Strahler number: the need of its neediest child, or one more than
    the second neediest. Two sweeps give it for every possible root; only the three largest needs
    around a node matter.
    """
    n = len(tree.parent)
    if n == 0:
        return tree
    below, largest = _sum_needs(tree.parent)
    for node in _top_down(tree.parent):
        parent = tree.parent[node]
        if parent >= 0:
            others = list(largest[parent])
            if below[node] in others:
                others.remove(below[node])
            _insert(largest[node], _need(others))
    needs = np.array([_need(around) for around in largest])
    return _reroot(tree, int(np.argmin(needs)))


def _sum_needs(parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the subtree of each node needs (T,), and its three neediest branches (T, 3)."""
    need, largest = np.ones(len(parent), dtype=int), np.zeros((len(parent), 3), dtype=int)
    for node in _top_down(parent)[::-1]:
        need[node] = _need(largest[node])
        if parent[node] >= 0:
            _insert(largest[parent[node]], need[node])
    return need, largest


def _need(branches: np.ndarray | list[int]) -> int:
    """Return the matrices needed by a node whose two neediest branches come first."""
    return max(1, int(branches[0]), int(branches[1]) + 1 if branches[1] > 0 else 0)


def _insert(largest: np.ndarray, value: int) -> None:
    """Insert a value into the three largest, in place, descending."""
    largest[:] = sorted([*largest, value], reverse=True)[:3]


def _reroot(tree: Tree, root: int) -> Tree:
    parent = tree.parent.copy()
    node, above = root, -1
    while node >= 0:
        parent[node], node, above = above, int(parent[node]), node
    return tree._replace(parent=parent)


def schedule(tree: Tree) -> Walk:
    """Order the visits, needy branches last, and give every matrix a slot.

    At most 1 + log2(T) slots: two branches must need m each for a node to need m + 1.
    """
    parent = tree.parent
    n = len(parent)
    need, _ = _sum_needs(parent)
    children: list[list[int]] = [[] for _ in range(n)]
    for node in np.flatnonzero(parent >= 0).tolist():
        children[parent[node]].append(node)
    order, slot = [], np.full(n, -1)
    free: list[int] = []
    n_slots = 0
    stack = [int(node) for node in np.flatnonzero(parent < 0)[::-1]]
    last_child = {max(kids, key=lambda kid: (need[kid], kid)) for kids in children if kids}
    while stack:
        node = stack.pop()
        order.append(node)
        if node in last_child:
            slot[node] = slot[parent[node]]
        else:
            if not free:
                free.append(n_slots)
                n_slots += 1
            slot[node] = free.pop()
        kids = sorted(children[node], key=lambda kid: (need[kid], kid))
        stack += kids[::-1]
        if not kids:
            free.append(int(slot[node]))
    return Walk(np.array(order, dtype=int), slot, _depths(parent), n_slots)


def _top_down(parent: np.ndarray) -> np.ndarray:
    """Return nodes so that each comes after its parent."""
    return np.argsort(_depths(parent), kind="stable")


def _depths(parent: np.ndarray) -> np.ndarray:
    """Return the number of edges to each node's root."""
    depth = np.full(len(parent), -1)
    for start in range(len(parent)):
        path = []
        node = start
        while node >= 0 and depth[node] < 0:
            path.append(node)
            node = int(parent[node])
        base = depth[node] if node >= 0 else -1
        for steps, visited in enumerate(reversed(path), start=1):
            depth[visited] = base + steps
    return depth
