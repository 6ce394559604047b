"""Fill tables as they are asked for, each by a line of JSON: `python -m benchmarks.fillers`.

The folder of a request has the rows in task.npz; answers go to seen.npz and new.npz beside it,
times to the standard output. Draws and intervals are not part of the times.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.fillers import CONTESTANTS
from benchmarks.fillers.contract import Fitted

DRAWS = 20
COVERAGE = 0.9
MAX_MESSAGE = 120  # letters of an error


def main() -> None:
    """Answer requests until there are no more; what goes wrong in a contestant is an answer."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what contestants print is not for us
        warnings.simplefilter("ignore")
        for line in sys.stdin:
            try:
                answer = fill(**json.loads(line))
            except Exception as error:
                text = " ".join(f"{type(error).__name__}: {error}".split())
                answer = {"failed": text[:MAX_MESSAGE]}
            print(json.dumps(answer), file=answers, flush=True)


def fill(name: str, folder: str, seed: int, threads: int) -> dict[str, float]:
    """Fill seen and new rows; return the seconds that fitting and filling the seen ones took."""
    module, settings, *_ = CONTESTANTS[name]
    filler = importlib.import_module(f"benchmarks.fillers.{module}")
    with np.load(Path(folder) / "task.npz") as task:
        x, new, n_levels = task["seen"], task["new"], task["n_levels"]
    warm_up(filler, n_levels)
    wall, processor = time.perf_counter(), _processor()
    fitted = filler.fit(x, n_levels, seed, threads, **settings)
    times = {"seconds": time.perf_counter() - wall, "processor": _processor() - processor}
    _write(Path(folder) / "seen.npz", fitted.seen, fitted, x)
    if fitted.fill is not None:
        _write(Path(folder) / "new.npz", fitted.fill(new), fitted, new)
    return times


def warm_up(filler: ModuleType, n_levels: np.ndarray) -> None:
    """Load compiled code, if a contestant says that it has some, by a fit to a small table."""
    if not getattr(filler, "COMPILED", False):
        return
    rng = np.random.default_rng(0)
    x = np.where(n_levels > 0, rng.integers(0, 2, (60, len(n_levels))), rng.normal(size=(60, 1)))
    x += np.where(n_levels > 0, 0.0, rng.normal(size=x.shape))
    x[rng.random(x.shape) < 0.1] = np.nan
    filler.fit(x, n_levels, 0, 1, n_components=2, max_iter=5)


def _write(path: Path, filled: np.ndarray, fitted: Fitted, rows: np.ndarray) -> None:
    """Write what was filled, with draws and ends of intervals if there are any."""
    found: dict[str, Any] = {"filled": filled}
    if fitted.draw is not None:
        found["draws"] = fitted.draw(rows, DRAWS)
    if fitted.intervals is not None:
        found["low"], found["high"] = fitted.intervals(rows, COVERAGE)
    if fitted.sure is not None:
        found["sure"] = fitted.sure(rows)
    np.savez(path, **found)


def _processor() -> float:
    """Return the processor seconds of this process and of its children so far."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


if __name__ == "__main__":
    main()
