"""How each pattern will be solved: its side, its size, its parent, and which solver is cheapest.

A plan is data. It is made once per table, before any arithmetic, and can be printed and counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.plan.costs import DEFAULT, Costs, at_size, tree_edge_seconds, tree_start_seconds
from gapmix.plan.forests import PAPER, TREE, Cluster, Route, TreeOptions, make_forest
from gapmix.plan.layout import on_missing_side
from gapmix.plan.patterns import Patterns, count_rows
from gapmix.plan.trees import count_changes
from gapmix.wording import count, short_duration

SOLVERS = (
    "naive-row",
    "naive",
    "paper",
    "tree",
    "dual",
)  # "diagonal" and "factors" are never asked for


class Plan(NamedTuple):
    """What will be done for a table, and what each alternative is predicted to cost.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> X[:50, 1] = np.nan
    >>> plan = GaussianMixture(random_state=0).fit(X).plan_
    >>> print(plan.explain().splitlines()[0])
    200 rows x 4 columns, 50 gaps (6.2 % of the cells).
    >>> plan.solver
    'dual'
    """

    patterns: Patterns
    solver: str  # the solver that will run
    requested: str  # what the caller asked for
    n_components: int
    seconds: dict[str, float]  # predicted for one E step, one thread, by solver
    bounds: frozenset[str]  # those of which only a lower bound was worked out, having no tree
    reason: str  # why this solver, in a sentence
    forest: tuple[Cluster, ...] = ()  # for the solvers that walk
    text: str = ""  # the plan in words, where its patterns were not kept (model files)
    n_rows: int | None = None  # of the table, where patterns are those of a sample of its rows

    def explain(self) -> str:
        """Return the plan in words: patterns, sides, cost of each alternative, and the choice."""
        if self.text:
            return self.text
        observed = self.patterns.observed
        d = observed.shape[1]
        n_missing = d - observed.sum(axis=1)
        rows = count_rows(self.patterns)
        n, gaps = int(rows.sum()), int(n_missing @ rows)
        missing_side = on_missing_side(observed)
        sample = "" if self.n_rows is None else f"A table of {self.n_rows:,} rows; in a sample: "
        lines = [
            f"{sample}{n:,} rows x {d:,} columns, {gaps:,} gaps "
            f"({100 * gaps / max(1, n * d):.1f} % of the cells).",
            f"{len(observed):,} distinct patterns; {int(rows[n_missing == 0].sum()):,} rows are "
            f"complete, {int(rows[n_missing == d].sum()):,} are empty.",
            f"Sides: {int(missing_side.sum()):,} patterns on their missing variables "
            f"(mean {_mean(n_missing[missing_side]):.1f}), "
            f"{int((~missing_side).sum()):,} on their observed ones "
            f"(mean {_mean(d - n_missing[~missing_side]):.1f}).",
        ]
        lines += [_explain_forest(self.forest)] if self.forest else []
        components = count(self.n_components, "component")
        of_sample = "" if self.n_rows is None else " on the sample"
        lines.append(f"Predicted time of one E step{of_sample} with {components}, one thread:")
        for name, cost in sorted(self.seconds.items(), key=lambda item: item[1]):
            remark = "   <- used" if name == self.solver else ""
            remark = "   at least: no tree can do better" if name in self.bounds else remark
            lines.append(f"  {name:<10} {short_duration(cost):>9}{remark}")
        return "\n".join([*lines, f"Solver: {self.solver}, {self.reason}"])


def make_plan(
    patterns: Patterns,
    n_components: int,
    *,
    solver: str | TreeOptions = "auto",
    diagonal: bool = False,
    n_factors: int = 0,
    costs: Costs = DEFAULT,
) -> Plan:
    """Choose the solver for a table of patterns; `diagonal` covariances need no factor.

    Those of a few factors (`n_factors`) have a solver of their own.

    A tree is only built if it is asked for, or if it could pay: if walking one variable per pattern
    were cheaper than starting every pattern from scratch.
    """
    options = {"paper": PAPER, "tree": TREE}
    if isinstance(solver, TreeOptions):
        options[solver.name] = solver
        solver = solver.name
    seconds = predict(patterns, n_components, costs)
    seconds["tree"] = _least_tree_seconds(patterns, n_components, costs)
    seconds["paper"] = _least_paper_seconds(patterns, n_components, costs)
    forests: dict[str, tuple[Cluster, ...]] = {}

    def build(name: str) -> None:
        forests[name] = make_forest(patterns, n_components, options[name], costs)
        seconds[name] = predict_walk(patterns, n_components, name, forests[name], costs)

    requested = solver
    if n_factors:
        seconds = {"factors": predict_factors(patterns, n_components, n_factors, costs)}
        solver, reason = "factors", f"because covariances have {count(n_factors, 'factor')}."
    elif diagonal and solver == "auto":
        n_cells = float(count_rows(patterns).sum()) * patterns.observed.shape[1]
        seconds["diagonal"] = 6 * costs.multiply_add * n_components * n_cells
        solver, reason = "diagonal", "because diagonal covariances need no factor."
    elif solver == "auto":
        if seconds["tree"] < seconds["dual"]:
            build("tree")
        solver = min(("dual", *forests), key=seconds.__getitem__)
        reason = _reason(solver, seconds, is_built="tree" in forests)
    else:
        reason = "because it was asked for."
        if solver in options:
            build(solver)
    bounds = frozenset({"tree", "paper"} - forests.keys()) & seconds.keys()
    forest = forests.get(solver, ())
    return Plan(patterns, solver, requested, n_components, seconds, bounds, reason, forest)


def predict(patterns: Patterns, n_components: int, costs: Costs) -> dict[str, float]:
    """Return the predicted seconds of one E step for the solvers that need no tree."""
    observed = patterns.observed
    d = observed.shape[1]
    rows = count_rows(patterns).astype(float)
    n_o = observed.sum(axis=1).astype(float)
    n_m = d - n_o
    madd = costs.multiply_add
    textbook = at_size(costs, "cholesky", n_o) + 2 * costs.node + madd * n_o * n_m * d
    per_row = 0.5 * costs.node + madd * (2 * n_o * d)
    smaller = np.minimum(n_o, n_m)
    from_scratch = at_size(costs, "scratch", smaller) + madd * smaller**2 * rows
    scatter = madd * d * d
    naive_scatter = 2 * scatter
    return {
        "naive-row": n_components * float((textbook + per_row + naive_scatter) @ rows),
        "naive": n_components
        * float(textbook.sum() + (madd * 2 * n_o * d) @ rows + naive_scatter * rows.sum()),
        "dual": n_components * (from_scratch.sum() + row_seconds(patterns, costs)),
    }


def predict_factors(patterns: Patterns, n_components: int, n_factors: int, costs: Costs) -> float:
    """Return the predicted seconds of one E step with factors and noise."""
    n, d = float(len(patterns.order)), patterns.observed.shape[1]
    products = 2.0 * n * d * (n_factors + 2) * (n_factors + 3) / 2
    small = 2.0 * costs.node * np.sqrt(n_factors) * len(patterns.observed) / 4
    return n_components * (costs.multiply_add * (products + 30 * n * d) + small)


def row_seconds(patterns: Patterns, costs: Costs) -> float:
    """Return what rows and set-up cost in `dual` and `tree` alike, for one component."""
    d = patterns.observed.shape[1]
    n = float(count_rows(patterns).sum())
    return costs.multiply_add * (3 * n * d * d + 3 * d**3)


def predict_walk(
    patterns: Patterns, n_components: int, name: str, forest: tuple[Cluster, ...], costs: Costs
) -> float:
    """Return the predicted seconds of one E step along a forest."""
    d = patterns.observed.shape[1]
    rows = count_rows(patterns).astype(float)
    total = 0.0
    for cluster in forest:
        for route in cluster.routes:
            total += walk_seconds(route, name, costs)
            if name == "tree":
                total += costs.multiply_add * d * d * count_changes(route.tree)
            size = route.tree.members.sum(axis=1)[: route.tree.n_real]
            in_route = cluster.patterns[route.pattern[: route.tree.n_real]]
            together = 0.6 + 0.4 * rows[in_route]  # rows of a pattern are solved in one call
            total += float(at_size(costs, "solve", size) @ together)
    if name == "paper":
        n = float(rows.sum())
        total += costs.multiply_add * (n * d * d + 3 * d**3)
    else:
        total += row_seconds(patterns, costs)
    return n_components * total


def walk_seconds(route: Route, name: str, costs: Costs) -> float:
    """Return the predicted seconds of moving matrices along a route, without the rows."""
    tree = route.tree
    child = np.flatnonzero(tree.parent >= 0)
    here, before = tree.members[child], tree.members[tree.parent[child]]
    common, added = (here & before).sum(axis=1), (here & ~before).sum(axis=1)
    removed = (before & ~here).sum(axis=1)
    size = tree.members.sum(axis=1)
    roots = size[tree.parent < 0]
    if name == "tree":
        moves = tree_edge_seconds(costs, common, added, removed)
        return float(moves.sum() + tree_start_seconds(costs, roots).sum())
    d = tree.members.shape[1]
    moves = 3 * costs.node + 0.4 * at_size(costs, "append", size[child]) * (added > 0)
    moves = moves + 0.5 * at_size(costs, "delete", size[child]) * removed
    lemma = costs.multiply_add * 3 * (added + removed) * (d - size[child]) ** 2.0
    return float((moves + lemma).sum() + at_size(costs, "cholesky", roots).sum())


def _least_tree_seconds(patterns: Patterns, n_components: int, costs: Costs) -> float:
    """Return a bound no tree can beat: every pattern one variable away from its parent."""
    observed = patterns.observed
    n_o = observed.sum(axis=1)
    smaller = np.minimum(n_o, observed.shape[1] - n_o)
    one = np.ones_like(smaller)
    step = np.minimum(
        tree_edge_seconds(costs, smaller, one, 0 * one), tree_start_seconds(costs, smaller)
    )
    solve = at_size(costs, "solve", smaller)
    return n_components * (float((step + solve).sum()) + row_seconds(patterns, costs))


def _least_paper_seconds(patterns: Patterns, n_components: int, costs: Costs) -> float:
    """Return a bound for the paper's solver: every pattern one variable away from its parent."""
    observed = patterns.observed
    d = observed.shape[1]
    n = float(count_rows(patterns).sum())
    n_o = observed.sum(axis=1)
    step = 3 * costs.node + np.minimum(
        0.4 * at_size(costs, "append", n_o), 0.5 * at_size(costs, "delete", n_o)
    )
    total = float((step + at_size(costs, "solve", n_o)).sum())
    return n_components * (total + costs.multiply_add * (n * d * d + 3 * d**3))


def _reason(solver: str, seconds: dict[str, float], *, is_built: bool) -> str:
    ratio = seconds["tree"] / seconds["dual"]
    if solver == "tree":
        return (
            "because patterns are large and close to each other: moving a factor is predicted to "
            f"take {ratio:.2f} of the time of starting each anew."
        )
    if not is_built:
        return (
            "because patterns are small: starting each from scratch on its smaller side "
            f"({short_duration(seconds['dual'])}) is predicted to be no slower than the best tree "
            f"there could be ({short_duration(seconds['tree'])})."
        )
    return (
        "because patterns are far from each other: the best tree is predicted to take "
        f"{ratio:.2f} times as long as starting each from scratch."
    )


def _explain_forest(forest: tuple[Cluster, ...]) -> str:
    routes = [route for cluster in forest for route in cluster.routes]
    if not routes:
        return "Trees: none."
    n_changes = sum(count_changes(route.tree) for route in routes)
    edges = sum(int((route.tree.parent >= 0).sum()) for route in routes)
    roots = sum(int((route.tree.parent < 0).sum()) for route in routes)
    n_virtual = sum(len(route.tree.parent) - route.tree.n_real for route in routes)
    depth = max(int(route.walk.depth.max(initial=0)) for route in routes)
    slots = max(route.walk.n_slots for route in routes)
    virtual = f", {n_virtual} virtual patterns" if n_virtual else ""
    return (
        f"Trees: {len(routes)} over {len(forest)} clusters{virtual}; {roots} patterns from "
        f"scratch, {edges:,} moved with {n_changes:,} changes "
        f"({n_changes / max(1, edges):.1f} each); depth up to {depth}, at most {slots} "
        "matrices alive."
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0
