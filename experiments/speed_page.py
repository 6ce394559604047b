"""The parts of the page that tell times: of solvers, updates and trees."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.report import table


def timing_part(timing: dict[str, Any]) -> list[str]:
    """Return the section on times."""
    where, busy = timing["machine"], timing["others_cpu"]
    note = "" if busy is None else f" Others had up to {100 * busy:.0f} % of the cores meanwhile."
    solvers = list(timing["ratios"]["naive-row"] or timing["ratios"]["naive"])
    of = {s: [row for row in timing["rows"] if row["solver"] == s] for s in solvers}

    counts = [
        re.findall(r"(\d+) patterns from scratch, ([\d,]+) moved", r["trees"]) for r in of["tree"]
    ]
    moved = [sum(int(c[0][i].replace(",", "")) for c in counts if c) for i in (0, 1)]

    def mean(solver: str, name: str) -> float:
        return sum(row[name] for row in of[solver]) / len(of[solver])

    def ratio(solver: str, base: str) -> str:
        found = timing["ratios"][base].get(solver)
        return f"{found['mean']:.3g} ± {found['half']:.2g}" if found else ""

    return [
        "### Time per iteration",
        f"{where['cpu']}, one thread, {where['blas']}; processor seconds of an iteration with one "
        "component, mean over digits, intervals over digits. `paper` has one tree over all "
        "patterns; making it takes the time in the last column, once in a fit. `tree` and `dual` "
        f"are ours. Of {sum(moved):,} patterns in all digits `tree` starts {moved[0]:,} from "
        f"scratch and moves {moved[1]:,}, so that its time is no evidence for a spanning tree, and "
        f"`dual` has none.{note} `python -m experiments.mnist --only timing --again` takes times "
        "anew, best on a quiet machine.",
        table(
            ["solver", "seconds", "times naive-row", "times naive", "seconds to plan"],
            [
                [
                    solver,
                    f"{mean(solver, 'seconds_per_iteration'):.3g}",
                    ratio(solver, "naive-row"),
                    ratio(solver, "naive"),
                    f"{mean(solver, 'plan_seconds'):.2g}",
                ]
                for solver in solvers
            ],
        ),
        *retrained_part(timing["retrained"]),
    ]


def retrained_part(rows: list[dict[str, Any]]) -> list[str]:
    """Return the times of the chosen mixture retrained, if it was."""
    if not rows:
        return []
    return [
        "Chosen mixtures retrained until they converge; seconds include the plan. The last column "
        "is the largest difference in "
        "log-likelihood per image, at any iteration, from `dual`:",
        table(
            ["digit", "components", "solver", "iterations", "seconds", "times naive", "off by"],
            [
                [
                    str(row["digit"]),
                    str(row["n_components"]),
                    row["solver"],
                    str(row["iterations"]),
                    f"{row['seconds']:.3g}",
                    f"{row['over naive']:.3g}",
                    f"{row['difference_log_likelihood']:.1e}",
                ]
                for row in rows
            ],
        ),
    ]


def patterns_part(tables: dict[str, Any]) -> list[str]:
    """Return the sections on trees, updates and the motivating case."""
    solvers = list(dict.fromkeys(r["solver"] for r in tables["half"]))
    widths = list(dict.fromkeys(r["d"] for r in tables["half"]))
    half = {(r["d"], r["solver"]): f"{r['mean']:.2f} ± {r['half']:.2f}" for r in tables["half"]}
    sizes = list(dict.fromkeys(r["size"] for r in tables["updates"]))
    steps = sorted({r["n_d"] for r in tables["updates"]})
    moved = {
        (r["size"], r["n_d"]): f"{r['factor']:.2g} / {r['covariance']:.2g}"
        for r in tables["updates"]
    }
    return [
        "### Half as many patterns as rows, without structure",
        "Times faster than naive EM that does each pattern once; three draws.",
        table(
            ["d", *solvers], [[str(d), *(half[d, solver] for solver in solvers)] for d in widths]
        ),
        "### An update against a fresh factor, and against a fresh conditional covariance",
        "Time of moving it over that of making it anew, factor of S_oo / covariance (K_mm)^-1, by "
        "size (down) and variables that change, n_d (across).",
        table(
            ["n", *(f"n_d = {n_d}" for n_d in steps)],
            [[str(n), *(moved.get((n, n_d), "") for n_d in steps)] for n in sizes],
        ),
        "### Depth of one tree over all patterns, rooted at its centre",
        table(
            ["patterns of", "rows (log2)", "distinct (log2)", "depth"],
            [
                [
                    r["family"],
                    f"{r['n']} ({r['log2_n']:.1f})",
                    f"{r['n_patterns']:.0f} ({r['log2_patterns']:.1f})",
                    f"{r['depth']:.1f}",
                ]
                for r in tables["depth"]
            ],
        ),
        "### Ways to make the tree of the paper's algorithm",
        table(
            ["patterns of", "tree", "time of an iteration", "changes", "seconds to make"],
            [
                [
                    r["family"],
                    r["tree"],
                    f"{r['mean']:.2f} ± {r['half']:.2f}",
                    f"{r['changes']:.3f}",
                    f"{r['build_seconds']:.2g}",
                ]
                for r in tables["trees"]
            ],
        ),
    ]
