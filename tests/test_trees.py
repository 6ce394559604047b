"""Discrete invariants of trees and plans: weights against brute force, visits, slots, clusters."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from benchmarks.problems import drop_out, mcar, merged_tables, squares
from conftest import size
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform

from gapmix.plan.costs import DEFAULT, at_size, tree_edge_seconds
from gapmix.plan.forests import TreeOptions
from gapmix.plan.layout import on_missing_side
from gapmix.plan.patterns import find_patterns
from gapmix.plan.planner import make_plan
from gapmix.plan.trees import (
    Tree,
    add_medians,
    arborescence,
    best_root,
    cluster_members,
    count_changes,
    cut_at_depth,
    minimum_arborescence,
    schedule,
    spanning_tree,
)

N_EXAMPLES = size(100, 1000)
FAMILIES = {
    "mcar10": mcar(50, 0.1),
    "mcar30": mcar(50, 0.3),
    "mcar50": mcar(50, 0.5),
    "mcar80": mcar(50, 0.8),
    "squares": squares(12, 3),
    "noisy tables": merged_tables(60, noise=0.02),
    "drop-out": drop_out(),
}


def distinct_sets(name, n=300):
    return find_patterns(FAMILIES[name](np.random.default_rng(0), n)).observed


@st.composite
def set_families(draw, max_sets=30):
    """Distinct sets, few variables so that distances tie."""
    d = draw(st.sampled_from([1, 2, 3, 5, 9, 70]))
    n = draw(st.integers(1, max_sets))
    return np.unique(draw(arrays(bool, (n, d), elements=st.booleans())), axis=0)


@st.composite
def forests(draw, max_nodes=60):
    """Any forest at all, nodes numbered at random; the sets do not matter."""
    n = draw(st.integers(1, max_nodes))
    parent = np.array([draw(st.integers(-1, i - 1)) for i in range(n)])
    name = np.array(draw(st.permutations(range(n))))
    renamed = np.full(n, -1)
    renamed[name] = np.where(parent >= 0, name[parent], -1)
    return Tree(np.zeros((n, 1), dtype=bool), n, renamed)


@st.composite
def single_trees(draw):
    tree = draw(forests(max_nodes=25))
    roots = np.flatnonzero(tree.parent < 0)
    parent = tree.parent.copy()
    parent[roots[1:]] = roots[0]
    return tree._replace(parent=parent)


def hamming(members):
    return squareform(pdist(members, "cityblock")).astype(int)


def edges(tree):
    """Return the edges of a tree without their direction."""
    child = np.flatnonzero(tree.parent >= 0)
    return {frozenset((int(node), int(tree.parent[node]))) for node in child}


def depths(parent):
    result = []
    for start in range(len(parent)):
        node, depth = start, 0
        while parent[node] >= 0:
            node, depth = parent[node], depth + 1
            assert depth <= len(parent), "there is a cycle"
        result.append(depth)
    return np.array(result)


def replay(tree, walk):
    """Follow a walk; every matrix must still be in its slot when a child wants it."""
    holds = [-1] * walk.n_slots
    for node in walk.order:
        parent = tree.parent[node]
        if parent >= 0:
            assert holds[walk.slot[parent]] == parent, f"node {node}: its parent's matrix is gone"
        holds[walk.slot[node]] = node


# ------------------------------------------------------------------ spanning trees


def assert_minimal(members):
    tree = spanning_tree(members)
    wanted = minimum_spanning_tree(hamming(members)).sum()
    assert count_changes(tree) == wanted
    assert (tree.parent < 0).sum() == 1
    assert depths(tree.parent).max() < len(members)


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(set_families())
def test_a_spanning_tree_weighs_what_scipy_says(members):
    assert_minimal(members)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_spanning_tree_of_every_family_weighs_what_scipy_says(name):
    assert_minimal(distinct_sets(name))


def test_drop_out_is_one_path_with_one_change_on_each_edge():
    members = distinct_sets("drop-out")
    tree = best_root(spanning_tree(members))
    assert count_changes(tree) == members.sum(axis=1).max() - members.sum(axis=1).min()


# ------------------------------------------------------------------ arborescences


@cache
def all_arborescences(n):
    """Return every way to give n nodes parents, n being the root, without a cycle."""
    parents = np.array(list(product(range(n + 1), repeat=n)))
    parents = np.column_stack([parents, np.full(len(parents), n)])
    reached = parents
    for _ in range(n):
        reached = np.take_along_axis(parents, reached, axis=1)
    return parents[(reached == n).all(axis=1)][:, :n]


def least_cost(cost):
    n = len(cost)
    return cost[np.arange(n), all_arborescences(n)].sum(axis=1).min()


def cost_of(cost, parent):
    assert (depths(np.where(parent == len(cost), -1, parent)) < len(cost)).all()
    return cost[np.arange(len(cost)), parent].sum()


@settings(max_examples=3 * N_EXAMPLES, deadline=None)
@given(st.integers(1, 5), st.data())
def test_an_arborescence_costs_what_brute_force_finds_ties_included(n, data):
    whole = data.draw(arrays(int, (n, n + 1), elements=st.integers(0, 3)))
    cost = whole.astype(float)
    assert cost_of(cost, minimum_arborescence(cost)) == least_cost(cost)


def test_an_arborescence_costs_what_brute_force_finds_on_random_costs():
    for seed in range(size(300, 3000)):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 7))
        cost = rng.exponential(size=(n, n + 1))
        cost[:, n] *= rng.choice([1.0, 3.0, 30.0])  # the dearer the root, the more cycles
        assert cost_of(cost, minimum_arborescence(cost)) == pytest.approx(least_cost(cost), 1e-12)


def test_cycles_within_cycles_are_undone():
    # 0 and 1 want each other, then both with 2, then all with 3; only 3 is cheap from the root
    cost = np.full((4, 5), 100.0)
    cost[0, 1] = cost[1, 0] = 1.0
    cost[2, 0], cost[1, 2] = 2.0, 3.0
    cost[3, 2], cost[0, 3] = 4.0, 5.0
    cost[3, 4] = 50.0
    parent = minimum_arborescence(cost)
    assert cost_of(cost, parent) == least_cost(cost)
    assert parent.tolist() == [3, 0, 0, 4]


def test_a_node_with_no_cheaper_neighbour_starts_from_scratch():
    cost = np.array([[0.0, 9.0, 1.0], [1.0, 0.0, 5.0]])
    assert minimum_arborescence(cost).tolist() == [2, 0]
    assert minimum_arborescence(np.array([[7.0, 3.0]])).tolist() == [1]


COSTS = {
    "seconds": lambda common, added, removed: tree_edge_seconds(DEFAULT, common, added, removed),
    "directed": lambda common, added, removed: 1.0 * added + 3.0 * removed + 0.1 * common,
    "free": lambda common, added, removed: 0.0 * common,
}


@pytest.mark.parametrize("name", COSTS)
def test_an_arborescence_of_sets_is_the_cheapest_there_is(name):
    def scratch(sizes):
        return at_size(DEFAULT, "scratch", sizes)

    for seed in range(size(30, 300)):
        rng = np.random.default_rng(seed)
        members = np.unique(rng.random((int(rng.integers(1, 7)), 40)) < 0.9, axis=0)
        n = len(members)
        tree = arborescence(members, COSTS[name], scratch)
        cost = np.empty((n, n + 1))
        for v, u in product(range(n), range(n)):
            both = members[v] & members[u]
            counts = both.sum(), (members[v] & ~both).sum(), (members[u] & ~both).sum()
            cost[v, u] = COSTS[name](*(np.array([float(count)]) for count in counts))[0]
        cost[:, n] = scratch(members.sum(axis=1))
        found = cost_of(cost, np.where(tree.parent < 0, n, tree.parent))
        assert found == pytest.approx(least_cost(cost), rel=1e-12)


# ------------------------------------------------------------------ walks


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(forests())
def test_every_node_is_visited_once_after_its_parent_and_finds_its_matrix(tree):
    walk = schedule(tree)
    assert sorted(walk.order) == list(range(len(tree.parent)))
    visit = np.argsort(walk.order)
    child = tree.parent >= 0
    assert (visit[child] > visit[tree.parent[child]]).all()
    replay(tree, walk)


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(forests())
def test_few_matrices_are_alive(tree):
    walk = schedule(tree)
    assert set(walk.slot) == set(range(walk.n_slots))
    assert walk.n_slots <= 1 + np.log2(len(tree.parent))


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(forests())
def test_depth_counts_edges_from_the_last_start(tree):
    assert np.array_equal(schedule(tree).depth, depths(tree.parent))


def test_a_path_needs_one_matrix_a_star_two_and_a_full_binary_tree_the_most():
    n = 2**6 - 1
    nothing = np.zeros((n, 1), dtype=bool)
    path = Tree(nothing, n, np.arange(n) - 1)
    star = Tree(nothing, n, np.where(np.arange(n) > 0, 0, -1))
    binary = Tree(nothing, n, np.where(np.arange(n) > 0, (np.arange(n) - 1) // 2, -1))
    assert [schedule(tree).n_slots for tree in (path, star, binary)] == [1, 2, 6]
    assert schedule(best_root(path)).n_slots == 1


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(single_trees())
def test_the_best_root_needs_as_few_matrices_as_any_root(tree):
    best = best_root(tree)
    assert edges(best) == edges(tree)
    assert (best.parent < 0).sum() == 1
    needed = schedule(best).n_slots
    assert needed <= schedule(tree).n_slots
    for root in range(len(tree.parent)):
        assert needed <= schedule(rooted_at(tree, root)).n_slots


def rooted_at(tree, root):
    parent = tree.parent.copy()
    path = [root]
    while parent[path[-1]] >= 0:
        path.append(parent[path[-1]])
    parent[path[1:]] = path[:-1]
    parent[root] = -1
    return tree._replace(parent=parent)


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(forests(), st.integers(1, 6))
def test_a_tree_cut_at_depths_starts_anew_there_and_nowhere_else(tree, recompute_every):
    cut = cut_at_depth(tree, recompute_every)
    old = depths(tree.parent)
    assert np.array_equal(cut.parent < 0, old % recompute_every == 0)
    kept = cut.parent >= 0
    assert np.array_equal(cut.parent[kept], tree.parent[kept])
    assert schedule(cut).depth.max() < recompute_every


# ------------------------------------------------------------------ clusters


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(set_families(max_sets=50), st.integers(1, 12), st.data())
def test_clusters_hold_every_set_once_within_bounds(members, max_size, data):
    n = len(members)
    weight = data.draw(arrays(float, n, elements=st.floats(0.1, 10.0)))
    max_weight = data.draw(st.floats(0.1, 40.0))
    clusters = cluster_members(members, weight, max_size, max_weight)
    assert sorted(np.concatenate(clusters)) == list(range(n))
    for cluster in clusters:
        assert cluster.size == 1 or cluster.size <= max_size
        assert cluster.size == 1 or weight[cluster].sum() <= max_weight


def test_what_fits_is_not_cut():
    members = distinct_sets("mcar30", 50)
    (cluster,) = cluster_members(members, np.ones(50), 50, 50.0)
    assert cluster.tolist() == list(range(50))


def test_clusters_gather_what_is_close():
    rng = np.random.default_rng(0)
    centre = np.repeat(rng.random((2, 40)) < 0.5, 50, axis=0)
    members = np.unique(centre ^ (rng.random((100, 40)) < 0.02), axis=0)
    near_first = (members != centre[0]).sum(axis=1) < (members != centre[-1]).sum(axis=1)
    n = len(members)
    limit = max(int(near_first.sum()), int((~near_first).sum())) + 2
    for cluster in cluster_members(members, np.ones(n), limit, np.inf):
        share = near_first[cluster].mean()
        assert min(share, 1 - share) < 0.2


# ------------------------------------------------------------------ virtual patterns


def shortening(members):
    """Return the virtual sets and the share by which they shorten the spanning tree."""
    n = len(members)
    more = add_medians(members)
    assert np.array_equal(more[:n], members)
    assert len(np.unique(more, axis=0)) == len(more)
    before, after = count_changes(spanning_tree(members)), count_changes(spanning_tree(more))
    return more[n:], (before - after) / max(1, before)


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(set_families())
def test_medians_come_after_the_real_sets_and_never_lengthen_the_tree(members):
    assert shortening(members)[1] >= 0


@pytest.mark.parametrize("name", ["mcar10", "mcar30", "mcar50", "mcar80"])
def test_medians_shorten_trees_of_random_gaps(name):
    virtual, saved = shortening(distinct_sets(name))
    assert len(virtual) > 0
    assert saved > 0.05


def test_medians_bring_nothing_to_a_path():
    virtual, saved = shortening(distinct_sets("drop-out"))
    assert len(virtual) == 0
    assert saved == 0


def test_three_corners_meet_in_their_median():
    members = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=bool)
    virtual, saved = shortening(members)
    assert virtual.tolist() == [[False, False, False]]
    assert saved == 1 / 4


# ------------------------------------------------------------------ whole plans

OPTIONS = {
    "paper": "paper",
    "tree": "tree",
    "paper, again every 5": TreeOptions("paper", recompute_every=5),
    "paper, virtual": TreeOptions("paper", virtual_patterns=True, max_cluster=200),
    "paper, in seconds": TreeOptions("paper", cost="seconds", max_cluster=500),
    "tree, hamming": TreeOptions("tree", max_cluster=150),
    "tree, own cost": TreeOptions("tree", cost=COSTS["directed"], max_cluster=700),
    "paper, one tree": TreeOptions("paper", max_cluster=None),
    "tree, one tree": TreeOptions("tree", max_cluster=None),
    "tree, virtual": TreeOptions("tree", virtual_patterns=True, recompute_every=7, max_cluster=300),
}


@cache
def large_table():
    """2,000 distinct patterns on both sides."""
    observed = merged_tables(100, noise=0.05)(np.random.default_rng(0), 3000)
    patterns = find_patterns(observed)
    keep = np.isin(np.arange(3000), patterns.order[patterns.start[:2000]])
    return find_patterns(observed[keep])


@pytest.mark.parametrize("name", OPTIONS)
def test_a_plan_for_thousands_of_patterns_holds_each_once(name):
    patterns, options = large_table(), OPTIONS[name]
    assert len(patterns.observed) == 2000
    plan = make_plan(patterns, 2, solver=options)
    assert plan.solver == name.split(",")[0]
    planned = np.concatenate([cluster.patterns for cluster in plan.forest])
    assert sorted(planned) == list(range(2000))
    for cluster in plan.forest:
        inside = np.concatenate([route.pattern for route in cluster.routes])
        assert sorted(inside[inside >= 0]) == list(range(cluster.patterns.size))
        if isinstance(options, TreeOptions) and options.max_cluster is None:
            assert len(plan.forest) == 1
        elif isinstance(options, TreeOptions):
            assert cluster.patterns.size <= options.max_cluster


@pytest.mark.parametrize("name", OPTIONS)
def test_routes_walk_the_sets_of_their_patterns_on_the_right_side(name):
    patterns = large_table()
    for cluster in make_plan(patterns, 2, solver=OPTIONS[name]).forest:
        observed = patterns.observed[cluster.patterns]
        first_observed = int(on_missing_side(observed).sum())
        assert on_missing_side(observed)[:first_observed].all()  # as blocks need it
        for route in cluster.routes:
            tree, walk = route.tree, route.walk
            real = route.pattern[: tree.n_real]
            assert (real >= 0).all()
            assert (route.pattern[tree.n_real :] == -1).all()
            shown = observed[real]
            assert np.array_equal(
                tree.members[: tree.n_real], ~shown if route.missing_side else shown
            )
            if name.startswith("tree"):
                assert (on_missing_side(shown) == route.missing_side).all()
            assert walk.n_slots <= 1 + np.log2(len(tree.parent))
            replay(tree, walk)


def test_the_explanation_counts_changes_starts_and_matrices():
    plan = make_plan(large_table(), 2, solver=OPTIONS["tree, hamming"])
    routes = [route for cluster in plan.forest for route in cluster.routes]
    changes = sum(count_changes(route.tree) for route in routes)
    starts = sum(int((route.tree.parent < 0).sum()) for route in routes)
    line = next(line for line in plan.explain().splitlines() if line.startswith("Trees"))
    assert f"Trees: {len(routes)} over {len(plan.forest)} clusters" in line
    assert (
        f"{starts} patterns from scratch, {2000 - starts:,} moved with {changes:,} changes" in line
    )
    assert f"at most {max(route.walk.n_slots for route in routes)} matrices alive" in line


def total_cost(routes, cost):
    """Return what a forest costs by a function, starts being reached from the empty set."""
    total = 0.0
    for route in routes:
        members, parent = route.tree.members, route.tree.parent
        for node, own in enumerate(members):
            before = members[parent[node]] if parent[node] >= 0 else np.zeros_like(own)
            total += cost((own & before).sum(), (own & ~before).sum(), (before & ~own).sum())
    return total


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("name", ["tree", "paper"])
def test_a_cost_of_ones_own_decides_the_tree_whatever_its_unit(name, unit):
    patterns = find_patterns(FAMILIES["noisy tables"](np.random.default_rng(0), 300))

    def dear_removals(common, added, removed):
        return unit * (1.0 * added + 9.0 * removed)

    def dear_additions(common, added, removed):
        return unit * (9.0 * added + 1.0 * removed)

    costs = (dear_removals, dear_additions)
    forests = []
    for cost in costs:
        options = TreeOptions(name, cost=cost, max_cluster=None)
        (cluster,) = make_plan(patterns, 1, solver=options).forest
        starts = sum(int((route.tree.parent < 0).sum()) for route in cluster.routes)
        assert starts < len(patterns.observed) / 2  # most are reached from another
        forests.append(cluster.routes)
    for own, other in ((0, 1), (1, 0)):  # each is best by its own cost
        best = total_cost(forests[own], costs[own])
        assert best < 0.9 * total_cost(forests[other], costs[own])


def test_a_single_pattern_is_a_tree_of_one():
    patterns = find_patterns(np.ones((5, 3), dtype=bool))
    for options in OPTIONS.values():
        (cluster,) = make_plan(patterns, 1, solver=options).forest
        (route,) = cluster.routes
        assert route.tree.parent.tolist() == [-1]
        assert route.walk.n_slots == 1
