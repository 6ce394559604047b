"""What patterns cost each solver: `python -m benchmarks.solver_costs` writes results/costs.json.

One iteration of EM, one component and one thread, on each family of patterns, in processor seconds:
the least of a few rounds, solvers taken in turn. Beside them, what is counted: operations of the
factorisations on the observed and on the smaller side, and how far apart neighbours in a spanning
tree are.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import iteration, machine
from benchmarks.problems import FAMILIES, make_problem
from gapmix.plan.patterns import find_patterns
from gapmix.plan.trees import count_changes, spanning_tree
from gapmix.threads import open_engine

OUTPUT = Path(__file__).parent / "results" / "costs.json"
CHOSEN = (
    *("mcar10", "mcar30", "mcar50", "mcar80"),
    *("squares", "tables", "noisy tables", "bursts", "drop-out", "large tables"),
)
SOLVERS = ("naive", "paper", "tree", "dual")
N_ROWS = 2000
ROUNDS = 3
LIMIT = 20.0  # seconds after which a solver is not timed again


def count(observed: np.ndarray) -> dict[str, Any]:
    """Return what the patterns of a table cost by counting, n_o^3 / 3 for a factor."""
    distinct = find_patterns(observed).observed
    n_o = distinct.sum(axis=1).astype(float)
    n_m = distinct.shape[1] - n_o
    changes = count_changes(spanning_tree(distinct)) / max(1, len(distinct) - 1)
    return {
        "n_patterns": len(distinct),
        "mean_missing": float(n_m.mean()),
        "mean_smaller": float(np.minimum(n_o, n_m).mean()),
        "mean_changes": changes,
        "observed_side": float((n_o**3).sum() / 3),
        "smaller_side": float((np.minimum(n_o, n_m) ** 3).sum() / 3),
    }


def time_solvers(name: str, n_rows: int = N_ROWS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the counts of a family and the processor seconds of an iteration by solver."""
    observed = FAMILIES[name](np.random.default_rng(0), n_rows)
    observed = observed[observed.any(axis=1)]
    problem = make_problem(name, observed, 1)
    start = iteration.make_start(problem)
    works = {
        solver: iteration.set_up(
            iteration.make_mixture(problem, start, solver=solver, accelerate=None), problem.x
        )
        for solver in SOLVERS
    }
    best = dict.fromkeys(SOLVERS, np.inf)
    with open_engine(1) as engine:
        for number in range(rounds + 1):
            for solver, work in works.items():
                if LIMIT < best[solver] < np.inf:
                    continue
                state = iteration.begin(work)
                began = time.thread_time()
                iteration.iterate(work, state, engine)
                seconds = time.thread_time() - began
                if number:  # the first round compiles
                    best[solver] = min(best[solver], seconds)
    return {
        "family": name,
        "n": len(observed),
        "d": observed.shape[1],
        **count(observed),
        "seconds": best,
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.solver_costs")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    output = parser.parse_args(arguments).output
    records = []
    for name in CHOSEN:
        records.append(time_solvers(name))
        print(name, records[-1]["seconds"], file=sys.stderr, flush=True)
    document = {
        "command": "python -m benchmarks.solver_costs",
        "machine": machine.describe(1),
        "records": records,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1) + "\n")
    print(f"wrote {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
