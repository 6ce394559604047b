"""A picture of a plan: its trees, or how large its patterns are."""

from __future__ import annotations

from contextlib import suppress
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gapmix.plan.forests import Route
from gapmix.plan.layout import on_missing_side
from gapmix.plan.patterns import Patterns
from gapmix.plan.planner import Plan
from gapmix.plots.canvas import open_axes, write_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

with suppress(ImportError):  # told when something is drawn
    from matplotlib import collections, colormaps, colors, lines, ticker

SIDES = {  # name, fill, hatch, marker, by missing_side
    True: ("missing variables", "#2b5c9e", "", "o"),
    False: ("observed variables", "#f2b45c", "///", "s"),
}
MAX_LABELLED = 40  # nodes that have room for their numbers
MAX_MARKED = 300  # nodes that have room for a marker


class _Layout(NamedTuple):
    """Where the nodes of all routes stand, side by side; nodes are numbered through."""

    across: np.ndarray  # (T,)
    depth: np.ndarray  # (T,)
    parent: np.ndarray  # (T,) or -1
    missing_side: np.ndarray  # (T,) bool
    virtual: np.ndarray  # (T,) bool
    size: np.ndarray  # (T,) variables in the set of each node
    changes: np.ndarray  # (T,) variables in which a node differs from its parent, 0 for a root


def plot_plan(plan: Plan, *, ax: Axes | None = None) -> Axes:
    """Draw the trees of a plan; for a plan without trees, how large its patterns are.

    Nodes stand below what they are computed from; an edge is the wider and darker, the more
    variables change on it. Stars are computed from scratch. Above a few hundred nodes only edges
    and stars are drawn, with a histogram of the numbers of changes.

    Parameters
    ----------
    plan : Plan
        What `GaussianMixture.plan_` or `make_plan` hold.
    ax : Axes, default=None
        Where to draw, a figure of its own by default. Its frame is hidden.

    Returns
    -------
    Axes
        Its `child_axes` are the panels: the tree, the scale of changes and, when there are many
        nodes, the histogram of changes; or the histogram of sizes alone.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix.plan.patterns import find_patterns
    >>> from gapmix.plan.planner import make_plan
    >>> from gapmix.plots import plot_plan
    >>> observed = np.array([[True, True, True], [True, True, False], [True, False, False]])
    >>> plan = make_plan(find_patterns(observed), 1, solver="paper")
    >>> print(plot_plan(plan).get_title(loc="left"))
    Solver: paper, because it was asked for.
    3 nodes: 1 from scratch, 2 moved with 2 changes; numbers: variables in its set
    """
    if plan.text:
        raise ValueError(
            "This plan was read from a model file, which keeps its words and not its patterns: "
            "print plan.explain(), or draw the table with plot_patterns."
        )
    ax = open_axes(ax, 10.0, 6.0, panels=True)
    inches = ax.get_window_extent().width / ax.figure.dpi
    title = fill(f"Solver: {plan.solver}, {plan.reason}", max(30, int(12 * inches)))
    if not plan.forest:
        _draw_sizes(ax.inset_axes((0.0, 0.0, 1.0, 0.92)), plan.patterns)
    else:
        layout = _lay_out([route for cluster in plan.forest for route in cluster.routes])
        _draw_forest(ax, layout)
        moved = layout.parent >= 0
        title += (
            f"\n{len(moved):,} nodes: {int((~moved).sum()):,} from scratch, "
            f"{int(moved.sum()):,} moved with {int(layout.changes.sum()):,} changes"
        )
        if len(moved) <= MAX_LABELLED:
            title += "; numbers: variables in its set"
    ax.set_title(title, fontsize=10, loc="left")
    return ax


def _draw_sizes(ax: Axes, patterns: Patterns) -> None:
    """Draw a histogram of the sizes of index sets, one side on top of the other."""
    observed = patterns.observed
    missing_side = on_missing_side(observed)
    n_observed = observed.sum(axis=1)
    size = np.where(missing_side, observed.shape[1] - n_observed, n_observed)
    _histogram(ax, size, missing_side)
    ax.set(xlabel="variables in the index set of a pattern", ylabel="patterns")
    if len(observed):
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)


def _histogram(ax: Axes, values: np.ndarray, missing_side: np.ndarray) -> None:
    """Draw counts of whole numbers by side, in at most 40 bins."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    step = max(1, -(-(high - low + 1) // 40))
    edges = np.arange(low, high + step + 1, step) - 0.5
    bottom = np.zeros(edges.size - 1)
    for side, (name, color, hatch, _) in SIDES.items():
        counts = np.histogram(values[missing_side == side], edges)[0]
        if counts.any():
            look: dict[str, Any] = {"color": color, "edgecolor": "0.2", "lw": 0.5, "label": name}
            ax.bar(edges[:-1], counts, step, bottom, align="edge", hatch=hatch, **look)
        bottom += counts
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(ticker.MaxNLocator(6, integer=True))
    ax.spines[["top", "right"]].set_visible(False)


def _lay_out(routes: list[Route]) -> _Layout:
    """Place leaves side by side in the order of their visits, and parents above their children."""
    parts, first, left = [], 0, 0.0
    for route in routes:
        tree, walk = route.tree, route.walk
        child = np.flatnonzero(tree.parent >= 0)
        n = len(tree.parent)
        is_leaf = np.ones(n, dtype=bool)
        is_leaf[tree.parent[child]] = False
        low = np.full(n, np.inf)
        leaves = walk.order[is_leaf[walk.order]]
        low[leaves] = left + np.arange(leaves.size)
        high = np.where(is_leaf, low, -np.inf)
        for node in walk.order[::-1]:
            parent = tree.parent[node]
            if parent >= 0:
                middle = 0.5 * (low[node] + high[node])
                low[parent], high[parent] = min(low[parent], middle), max(high[parent], middle)
        changes = np.zeros(n, dtype=int)
        changes[child] = (tree.members[child] != tree.members[tree.parent[child]]).sum(axis=1)
        parts.append(
            _Layout(
                0.5 * (low + high),
                walk.depth,
                np.where(tree.parent >= 0, tree.parent + first, -1),
                np.full(n, route.missing_side),
                np.arange(n) >= tree.n_real,
                tree.members.sum(axis=1),
                changes,
            )
        )
        first += n
        left += leaves.size + max(1.0, 0.02 * leaves.size)
    return _Layout(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _draw_forest(ax: Axes, layout: _Layout) -> None:
    """Draw trees, the scale of their edges and, when nodes are many, the numbers of changes."""
    n = len(layout.parent)
    many = n > MAX_MARKED
    tree = ax.inset_axes((0.0, 0.36, 0.92, 0.64) if many else (0.0, 0.0, 0.92, 1.0))
    _draw_edges(tree, ax.inset_axes((0.94, 0.4 if many else 0.1, 0.02, 0.56)), layout, many)
    handles = _draw_nodes(tree, layout, many)
    deepest = int(layout.depth.max())
    tree.set(ylabel="depth", ylim=(deepest + 0.5, -0.6), xticks=())
    tree.set_yticks(np.arange(0, deepest + 1, max(1, -(-deepest // 8))))
    tree.margins(x=0.03)
    tree.spines[["top", "right", "bottom"]].set_visible(False)
    place: dict[str, Any] = {"bbox_to_anchor": (0.0, 1.0 if many else 0.0), "ncols": 4}
    if not many:
        tree.legend(handles=handles, frameon=False, loc="upper left", **place)
        return
    moved = layout.parent >= 0
    below = ax.inset_axes((0.0, 0.0, 0.92, 0.24))
    _histogram(below, layout.changes[moved], layout.missing_side[moved])
    below.set(xlabel="variables that change on an edge", ylabel="edges")
    bars, _ = below.get_legend_handles_labels()
    below.legend(handles=[*bars, handles[-1]], frameon=False, loc="lower left", **place)


def _draw_edges(ax: Axes, scale: Axes, layout: _Layout, many: bool) -> None:
    """Draw an edge from each node to its parent, wide and dark where much changes."""
    child = np.flatnonzero(layout.parent >= 0)
    if not child.size:
        scale.set_axis_off()
        return
    parent, changes = layout.parent[child], layout.changes[child]
    place = np.column_stack([layout.across, layout.depth])
    low, high = int(changes.min()), int(changes.max())
    dark = colors.ListedColormap(colormaps["cividis_r"](np.linspace(0.2, 1.0, 256)))
    width = (0.5 if many else 1.0) + (0.7 if many else 2.5) * (changes - low) / max(1, high - low)
    order = np.argsort(changes, kind="stable")  # dark ones on top
    edges = collections.LineCollection(
        list(np.stack([place[parent], place[child]], axis=1)[order]),
        linewidths=width[order],
        array=changes[order].astype(float),
        cmap=dark,
        norm=colors.Normalize(low - 0.5, high + 0.5),
        zorder=1,
    )
    ax.add_collection(edges)
    bar = ax.figure.colorbar(edges, cax=scale, label="variables that change")
    bar.ax.yaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))


def _draw_nodes(ax: Axes, layout: _Layout, many: bool) -> list[Any]:
    """Mark nodes by side, virtual ones hollow, those from scratch by stars; return the key."""
    root, virtual = layout.parent < 0, layout.virtual
    handles = []

    def mark(chosen: np.ndarray, marker: str, color: str, area: float) -> None:
        look: dict[str, Any] = {"marker": marker, "edgecolors": "k", "linewidths": 0.6}
        place = layout.across[chosen], layout.depth[chosen]
        ax.scatter(*place, s=area, c=color, zorder=2, **look)

    def explain(marker: str, color: str, label: str) -> None:
        look: dict[str, Any] = {"markerfacecolor": color, "markeredgecolor": "k", "label": label}
        handles.append(lines.Line2D([], [], linestyle="", marker=marker, **look))

    for side, (name, color, _, marker) in SIDES.items():
        here = layout.missing_side == side
        if not here.any():
            continue
        if not many:
            mark(here & ~root & ~virtual, marker, color, 36.0)
        mark(here & root, "*", color, 70.0 if many else 150.0)
        explain(marker, color, f"on its {name}")
    if not many and virtual.any():
        mark(virtual & ~root, "D", "w", 24.0)
        explain("D", "w", "virtual")
    explain("*", "0.7", "from scratch")
    if len(root) <= MAX_LABELLED:
        for across, depth, size in zip(layout.across, layout.depth, layout.size, strict=True):
            write_beside(ax, str(size), (across, depth), 7)
    return handles
