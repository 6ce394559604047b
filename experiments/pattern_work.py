"""What the paper says of patterns and trees, measured: depth, costs, virtual patterns, updates."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks import iteration
from benchmarks.problems import FAMILIES, make_problem, mcar
from scipy.linalg import lapack

from experiments.store import Cell, Result
from gapmix.plan import TreeOptions
from gapmix.plan.costs import DEFAULT
from gapmix.plan.forests import make_forest
from gapmix.plan.patterns import find_patterns
from gapmix.plan.trees import Tree, count_changes, spanning_tree
from gapmix.solvers import paper
from gapmix.solvers.moving import MovingFactor
from gapmix.threads import open_engine

DEEP = ("mcar10", "mcar30", "squares", "noisy tables", "bursts", "drop-out")
COSTED = ("squares", "mcar10", "noisy tables", "bursts")
SOLVERS = ("naive", "paper", "tree", "dual")


def elaborate(common: np.ndarray, added: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """Count operations on the factor: k^2 for a variable more, 3/2 k^2 for one less."""
    return (added + 1.5 * removed) * (common + added) ** 2.0


TREES = {
    "differing variables (the paper's)": TreeOptions("paper", max_cluster=None),
    "operations counted": TreeOptions("paper", cost=elaborate, max_cluster=None),
    "seconds measured": TreeOptions("paper", cost="seconds", max_cluster=None),
    "virtual patterns": TreeOptions("paper", virtual_patterns=True, max_cluster=None),
}


def pattern_cells(rows: tuple[int, ...], widths: tuple[int, ...], seeds: range) -> list[Cell]:
    """Return the cells: depths, the paper's motivating case, trees, updates, growth with rows."""
    cells = []
    for seed in seeds:
        cells += [
            Cell("pattern-depth", {"family": f, "n": n, "seed": seed}, measure_depth, is_line=True)
            for f in DEEP
            for n in rows
        ]
        cells += [
            Cell("pattern-half", {"d": d, "n": rows[1], "seed": seed}, time_half, is_line=True)
            for d in widths
        ]
        cells += [
            Cell(
                "pattern-tree", {"family": f, "n": rows[1], "seed": seed}, time_trees, is_line=True
            )
            for f in COSTED
        ]
        cells += [
            Cell("pattern-update", {"size": d, "seed": seed}, time_updates, is_line=True)
            for d in widths
        ]
        cells += [
            Cell(
                "pattern-rows", {"n": 2 * n, "d": widths[0], "seed": seed}, time_rows, is_line=True
            )
            for n in rows
        ]
    return cells


def measure_depth(config: dict[str, Any]) -> Result:
    """Return the depth of one tree over all patterns, rooted at its centre."""
    observed = FAMILIES[config["family"]](np.random.default_rng(config["seed"]), config["n"])
    patterns = find_patterns(observed).observed
    tree = spanning_tree(patterns)
    return {
        "n_patterns": len(patterns),
        "depth": (diameter(tree) + 1) // 2,
        "changes": count_changes(tree) / max(1, len(patterns) - 1),
    }


def diameter(tree: Tree) -> int:
    """Return the number of edges on the longest path of a tree."""
    neighbours: list[list[int]] = [[] for _ in tree.parent]
    for node, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            neighbours[node].append(parent)
            neighbours[parent].append(node)

    def farthest(start: int) -> tuple[int, int]:
        away, queue = {start: 0}, [start]
        for node in queue:
            for other in neighbours[node]:
                if other not in away:
                    away[other] = away[node] + 1
                    queue.append(other)
        return away[queue[-1]], queue[-1]

    return farthest(farthest(0)[1])[0]


def time_half(config: dict[str, Any]) -> Result:
    """Time an iteration with half as many patterns as rows and no structure, by solver."""
    rng = np.random.default_rng(config["seed"])
    half = mcar(config["d"], 0.3)(rng, config["n"] // 2)
    return time_iterations(np.concatenate([half, half]), {name: name for name in SOLVERS})


def time_rows(config: dict[str, Any]) -> Result:
    """Time an iteration on rows whose patterns nearly all differ, and the making of the tree."""
    observed = mcar(config["d"], 0.3)(np.random.default_rng(config["seed"]), config["n"])
    began = time.process_time()
    make_forest(find_patterns(observed), 1, TREES["differing variables (the paper's)"], DEFAULT)
    built = time.process_time() - began
    return {**time_iterations(observed, {name: name for name in SOLVERS}), "build": built}


def time_trees(config: dict[str, Any]) -> Result:
    """Time an iteration of the paper's algorithm along trees made in several ways."""
    observed = FAMILIES[config["family"]](np.random.default_rng(config["seed"]), config["n"])
    observed = observed[observed.any(axis=1)]
    patterns = find_patterns(observed)
    built, changes = {}, {}
    for name, options in TREES.items():
        began = time.process_time()
        (cluster,) = make_forest(patterns, 1, options, DEFAULT)
        built[name] = time.process_time() - began
        changes[name] = sum(count_changes(route.tree) for route in cluster.routes)
    return {**time_iterations(observed, TREES), "build": built, "changes": changes}


def time_iterations(observed: np.ndarray, solvers: dict[str, Any], rounds: int = 2) -> Result:
    """Return processor seconds of an iteration by solver, the least of a few, one component."""
    problem = make_problem("", observed, 1)
    start = iteration.make_start(problem)
    works = {
        name: iteration.set_up(
            iteration.make_mixture(problem, start, solver=solver, accelerate=None), problem.x
        )
        for name, solver in solvers.items()
    }
    best = dict.fromkeys(solvers, np.inf)
    with open_engine(1) as engine:
        for _ in range(rounds):
            for name, work in works.items():
                state = iteration.begin(work)
                began = time.thread_time()
                iteration.iterate(work, state, engine)
                best[name] = min(best[name], time.thread_time() - began)
    return {"seconds": best, "n_patterns": len(find_patterns(observed).observed)}


def time_updates(config: dict[str, Any]) -> Result:
    """Time moving a factor and a conditional covariance by n_d variables against making them anew.

    Of `size` variables half of n_d leave and half enter.
    """
    size, rng = config["size"], np.random.default_rng(config["seed"])
    root = rng.normal(size=(2 * size, 3 * size))
    matrix = root @ root.T / (3 * size)
    start = np.sort(rng.permutation(2 * size)[:size])
    others = np.setdiff1d(np.arange(2 * size), start)
    fresh, moved = MovingFactor(2 * size), MovingFactor(2 * size)
    fresh.start(matrix, start)
    block = matrix[np.ix_(start, start)]
    inverse = np.linalg.inv(block)
    records = []
    for n_d in (d for d in (2, 4, 8, 16, 32, 64) if d <= size):
        leaving, entering = start[:: size // (n_d // 2)][: n_d // 2], others[: n_d // 2]

        def move(leaving: np.ndarray = leaving, entering: np.ndarray = entering) -> None:
            moved.copy_from(fresh)
            moved.delete(leaving)
            moved.append(matrix, entering)

        def lemma(leaving: np.ndarray = leaving, entering: np.ndarray = entering) -> None:
            paper._move_covariance(start, inverse, matrix, entering, leaving)

        records.append({"n_d": n_d, "factor": _least(move), "covariance": _least(lemma)})
    return {
        "moved": records,
        "factor": _least(lambda: moved.start(matrix, start)),
        "covariance": _least(lambda: lapack.dpotri(lapack.dpotrf(block.T)[0])),
    }


def _least(work: Callable[[], Any], rounds: int = 7) -> float:
    """Return the least processor seconds of a few rounds, each long enough to be measured."""
    work()
    best = np.inf
    for _ in range(rounds):
        began, n = time.thread_time(), 0
        while time.thread_time() - began < 2e-3:
            work()
            n += 1
        best = min(best, (time.thread_time() - began) / n)
    return best
