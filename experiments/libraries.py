"""The speed-up of the paper's algorithm with the BLAS and LAPACK that this process has.

Run as `python -m experiments.libraries [NAME]` in every environment to be compared; what is
measured is added to the stored results, under the name of the library as it is found or as it is
given. OpenBLAS has several implementations in one: the environment variable
`OPENBLAS_CORETYPE=Haswell` and the like, set before, choose one. `experiments/redirect.py` puts
another library in its place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import machine
from benchmarks.problems import FAMILIES
from threadpoolctl import threadpool_limits

from experiments.outputs import RESULTS
from experiments.pattern_work import time_iterations
from experiments.statistics import mean_and_half
from experiments.store import Cell, Result, read_lines, work
from gapmix.plan import TreeOptions

KIND = "library"
SEEDS = (0, 1, 2)
SOLVERS: dict[str, Any] = {"naive": "naive", "paper": TreeOptions("paper", max_cluster=None)}


def library_cells(library: str) -> list[Cell]:
    """Return the cells that time an iteration with this library, a draw of squares each."""
    configs = [{"family": "squares", "n": 1000, "seed": s, "library": library} for s in SEEDS]
    return [Cell(KIND, config, time_solvers, is_line=True) for config in configs]


def time_solvers(config: dict[str, Any]) -> Result:
    """Return processor seconds of one iteration with each solver, on one thread."""
    observed = FAMILIES[config["family"]](np.random.default_rng(config["seed"]), config["n"])
    clock = machine.read_clock()
    with threadpool_limits(1):
        timed = time_iterations(observed, SOLVERS)
    return {**timed, "others_cpu": machine.others_since(clock)}


def summarise(folder: Path) -> list[dict[str, Any]]:
    """Return the speed-up over naive EM for each pattern, by library, mean over draws."""
    groups: dict[str, list[dict[str, float]]] = {}
    for record in read_lines(folder / f"{KIND}.jsonl").values():
        groups.setdefault(record["config"]["library"], []).append(record["result"]["seconds"])
    return [
        {
            "library": library,
            "n": len(group),
            **{name: float(np.mean([each[name] for each in group])) for name in SOLVERS},
            **mean_and_half([each["naive"] / each["paper"] for each in group]),
        }
        for library, group in groups.items()
        if len(group) == len(SEEDS)
    ]


def main() -> None:
    """Time what has not been timed with this library, and store it."""
    library = " ".join(sys.argv[1:]) or machine.blas()
    for cell in library_cells(library):
        found = work(cell, RESULTS / "full")
        print(f"{library}, draw {cell.config['seed']}: {found['seconds']}", file=sys.stderr)


if __name__ == "__main__":
    main()
