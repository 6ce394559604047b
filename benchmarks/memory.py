"""Peak memory of a fit beyond the table it is given, measured in a process of its own."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import iteration
from benchmarks.contestants import make_complete
from benchmarks.problems import Problem

FITS = ("gapmix", "scikit-learn")
N_ITERATIONS = 3
STATUS = Path("/proc/self/status")
ROOT = Path(__file__).parent.parent


def allowed_bytes(problem: Problem) -> int:
    """Return the most that a fit may take: three tables and 20 K d^2 doubles."""
    n, d = problem.x.shape
    return 8 * (3 * n * d + 20 * problem.n_components * d * d)


def measure(problem: Problem, fit: str, *, threads: int, reg_covar: float) -> int:
    """Return the peak bytes that a fit of three iterations takes beyond the table."""
    with tempfile.TemporaryDirectory() as folder:
        table = problem.x if fit == "gapmix" else problem.complete
        np.save(Path(folder) / "table.npy", table)
        start = iteration.make_start(problem)
        np.savez(Path(folder) / "start.npz", **start._asdict())
        command = [sys.executable, "-m", "benchmarks.memory", fit, folder]
        command += ["--threads", str(threads), "--reg-covar", str(reg_covar)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return int(json.loads(done.stdout)["peak_bytes"])


def _resident(field: str) -> int:
    """Return VmRSS (now) or VmHWM (peak) in bytes.

    ru_maxrss is the fallback: a child starts with its parent's, so it can only show more.
    """
    if STATUS.exists():
        lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(lines[field].split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _fit(fit: str, problem: Problem, start: iteration.Start, threads: int, reg: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three iterations do not converge
        if fit == "gapmix":
            iteration.make_mixture(
                problem, start, max_iter=N_ITERATIONS, tol=0, n_jobs=threads, reg_covar=reg
            ).fit(problem.x)
        else:
            with threadpool_limits(threads):
                make_complete(problem, start, reg_covar=reg, max_iter=N_ITERATIONS).fit(problem.x)


def main() -> None:
    """Fit the table of a folder and print what it took."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("fit", choices=FITS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--reg-covar", type=float, default=1e-6)
    given = parser.parse_args()

    rng = np.random.default_rng(0)
    small = rng.normal(size=(40, 3))
    holes = np.where(rng.random(small.shape) < 0.2, np.nan, small)
    holes[:, 0] = small[:, 0]
    tiny = Problem("tiny", holes if given.fit == "gapmix" else small, small, 1)
    _fit(given.fit, tiny, iteration.make_start(tiny), given.threads, 1e-6)  # loads all code

    x = np.load(given.folder / "table.npy")
    with np.load(given.folder / "start.npz") as file:
        start = iteration.Start(**file)
    problem = Problem("table", x, x, len(start.weights))
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")  # the peak so far is forgotten
    before = _resident("VmRSS")
    _fit(given.fit, problem, start, given.threads, given.reg_covar)
    print(json.dumps({"peak_bytes": max(0, _resident("VmHWM") - before)}))


if __name__ == "__main__":
    main()
