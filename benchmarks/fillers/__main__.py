"""Fill a table in this process: `python -m benchmarks.fillers NAME FOLDER`.

FOLDER/task.npz holds the rows; answers go to FOLDER/seen.npz and FOLDER/new.npz, times to the
standard output. Draws and intervals are not part of the times.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks.fillers import CONTESTANTS
from benchmarks.fillers.contract import Fitted

DRAWS = 20
COVERAGE = 0.9


def main() -> None:
    """Fit, fill and tell how long it took."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", choices=CONTESTANTS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    module, settings, *_ = CONTESTANTS[given.name]
    filler = importlib.import_module(f"benchmarks.fillers.{module}")
    with np.load(given.folder / "task.npz") as task:
        x, new, n_levels = task["seen"], task["new"], task["n_levels"]
    warnings.simplefilter("ignore")
    warm_up(filler, n_levels)
    wall, processor = time.perf_counter(), _processor()
    fitted = filler.fit(x, n_levels, given.seed, given.threads, **settings)
    wall, processor = time.perf_counter() - wall, _processor() - processor
    for name, rows in (("seen", x), ("new", new)):
        if name == "seen":
            filled = fitted.seen
        elif fitted.fill is None:
            continue
        else:
            filled = fitted.fill(rows)
        np.savez(given.folder / f"{name}.npz", filled=filled, **_doubt(fitted, rows))
    print(json.dumps({"seconds": wall, "processor": processor}))


def warm_up(filler: ModuleType, n_levels: np.ndarray) -> None:
    """Load compiled code, if a contestant says that it has some, by a fit to a small table."""
    if not getattr(filler, "COMPILED", False):
        return
    rng = np.random.default_rng(0)
    x = np.where(n_levels > 0, rng.integers(0, 2, (60, len(n_levels))), rng.normal(size=(60, 1)))
    x += np.where(n_levels > 0, 0.0, rng.normal(size=x.shape))
    x[rng.random(x.shape) < 0.1] = np.nan
    filler.fit(x, n_levels, 0, 1, n_components=2, max_iter=5)


def _doubt(fitted: Fitted, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return draws and ends of intervals, those that there are."""
    found = {}
    if fitted.draw is not None:
        found["draws"] = fitted.draw(rows, DRAWS)
    if fitted.intervals is not None:
        found["low"], found["high"] = fitted.intervals(rows, COVERAGE)
    return found


def _processor() -> float:
    """Return the processor seconds of this process and of its children so far."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


if __name__ == "__main__":
    main()
