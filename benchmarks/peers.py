"""Whole jobs: a table with holes goes in, a filled one comes out. Each filler has its own process.

Fillers that are not installed are passed over with a note. `python -m benchmarks.peers NAME FOLDER`
fills FOLDER/table.npy and writes FOLDER/filled.npy; `fill` calls it with a time limit.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from benchmarks.problems import Problem
from gapmix import GaussianMixture

ROOT = Path(__file__).parent.parent
MAX_MESSAGE = 120  # letters of an error shown in a table
KNN_ROWS = 5_000  # its cost grows with the square of the rows
AMELIA = """
folder <- commandArgs(trailingOnly = TRUE)[1]
size <- scan(file.path(folder, "size.txt"), quiet = TRUE)
x <- matrix(readBin(file.path(folder, "table.bin"), "double", size[1] * size[2]), size[1])
x[is.nan(x)] <- NA
suppressPackageStartupMessages(library(Amelia))
set.seed(0)
seconds <- system.time(filled <- amelia(x, m = 1, p2s = 0))[["elapsed"]]
writeBin(as.vector(filled$imputations[[1]]), file.path(folder, "filled.bin"))
cat(seconds)
"""


class Job(NamedTuple):
    """The outcome of a filler on a table."""

    filler: str
    seconds: float | None  # None when there is no result; the note says why
    rmse: float | None  # on hidden cells, in standard deviations of their column
    n_rows: int
    note: str


class Filler(NamedTuple):
    """One way to fill a table."""

    fill: Callable[[np.ndarray, int], tuple[np.ndarray, float, str]]  # -> filled, seconds, note
    needs: str = ""  # a Python module, if not always there
    max_rows: int | None = None
    repeats: int = 1
    threads: int | None = None  # where not those of all others


def _timed(fit: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the filled table and the seconds, all code being loaded by a small table first."""
    small = np.random.default_rng(0).normal(size=(60, 4))
    small[::7, 1] = np.nan
    fit(small)
    began = time.perf_counter()
    filled = fit(x)
    return filled, time.perf_counter() - began


def _gapmix(tol: float) -> Callable[[np.ndarray, int], tuple[np.ndarray, float, str]]:
    def fill(x: np.ndarray, threads: int) -> tuple[np.ndarray, float, str]:
        model = GaussianMixture(1, tol=tol, max_iter=1000, random_state=0, n_jobs=threads)
        filled, seconds = _timed(lambda x: model.fit(x).impute(x), x)
        state = "converged" if model.converged_ else "did not converge"
        return filled, seconds, f"{state} in {model.n_iter_} iterations"

    return fill


def _iterative(x: np.ndarray, threads: int) -> tuple[np.ndarray, float, str]:
    model = IterativeImputer(random_state=0)
    filled, seconds = _timed(model.fit_transform, x)
    reached = "its iteration limit" if model.n_iter_ == model.max_iter else "its tolerance"
    return filled, seconds, f"{model.n_iter_} rounds, to {reached}"


def _nearest(x: np.ndarray, threads: int) -> tuple[np.ndarray, float, str]:
    return *_timed(KNNImputer().fit_transform, x), ""


def _copula(x: np.ndarray, threads: int) -> tuple[np.ndarray, float, str]:
    module = importlib.import_module("gcimpute.gaussian_copula")

    def fit(x: np.ndarray) -> np.ndarray:
        return np.asarray(module.GaussianCopula(random_state=0, n_jobs=threads).fit_transform(X=x))

    return *_timed(fit, x), "Gaussian copula"


def _pygmmis(x: np.ndarray, threads: int) -> tuple[np.ndarray, float, str]:
    pygmmis = importlib.import_module("pygmmis")

    def fit(x: np.ndarray) -> np.ndarray:
        mean, spread = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
        z = (x - mean) / spread
        d = x.shape[1]
        model = pygmmis.GMM(K=1, D=d)
        model.amp[:], model.mean[0], model.covar[0] = 1.0, 0.0, np.eye(d)
        pygmmis.fit(model, z, init_method="none", w=1e-6)
        return _conditional_means(z, model.mean[0], model.covar[0]) * spread + mean

    return *_timed(fit, x), "gaps filled by us: it has no filling of its own"


def _conditional_means(z: np.ndarray, mean: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    filled = z.copy()
    for row in filled:
        m = np.isnan(row)
        weights = np.linalg.solve(sigma[np.ix_(~m, ~m)], row[~m] - mean[~m])
        row[m] = mean[m] + sigma[np.ix_(m, ~m)] @ weights
    return filled


def _amelia(x: np.ndarray, threads: int) -> tuple[np.ndarray, float, str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "size.txt").write_text("{} {}".format(*x.shape))
        x.ravel(order="F").tofile(folder / "table.bin")
        done = subprocess.run(["Rscript", "-e", AMELIA, name], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(" ".join(done.stderr.split()))
        filled = np.fromfile(folder / "filled.bin").reshape(x.shape, order="F")
    return filled, float(done.stdout), "one random draw, not a mean: more error by design"


FILLERS: dict[str, Filler] = {
    "gapmix": Filler(_gapmix(1e-3), repeats=3),
    "gapmix, tol=1e-6": Filler(_gapmix(1e-6), repeats=3),
    "IterativeImputer()": Filler(_iterative),
    "IterativeImputer(), 1 thread": Filler(_iterative, threads=1),  # small products gain nothing
    "KNNImputer()": Filler(_nearest, max_rows=KNN_ROWS),
    "Amelia": Filler(_amelia),
    "gcimpute": Filler(_copula, needs="gcimpute"),
    "pyGMMis": Filler(_pygmmis, needs="pygmmis"),
}


def why_absent(name: str) -> str:
    """Return why a filler cannot run here, or nothing if it can."""
    needs = FILLERS[name].needs
    if needs and importlib.util.find_spec(needs) is None:
        return f"skipped: not installed (pip install {name})"
    if name == "Amelia":
        if shutil.which("Rscript") is None:
            return "skipped: R is not installed (Debian: r-cran-amelia)"
        test = "quit(status = !requireNamespace('Amelia', quietly = TRUE))"
        if subprocess.run(["Rscript", "-e", test], capture_output=True).returncode:
            return "skipped: R has no Amelia (Debian: r-cran-amelia)"
    return ""


def fill(problem: Problem, name: str, *, threads: int, limit: float) -> Job:
    """Fill the table in a process of its own, within `limit` seconds."""
    filler = FILLERS[name]
    x, complete = problem.x[: filler.max_rows], problem.complete[: filler.max_rows]
    absent = why_absent(name)
    if absent:
        return Job(name, None, None, len(x), absent)
    notes = [f"first {len(x):,} rows only"] if len(x) < len(problem.x) else []
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "table.npy", x)
        seconds, found = [], ""
        for _ in range(filler.repeats):
            answer = _run_limited(name, folder, filler.threads or threads, limit)
            if isinstance(answer, str):
                return Job(name, None, None, len(x), "; ".join([*notes, answer]))
            seconds.append(float(answer["seconds"]))
            found = answer["note"]
        filled = np.load(Path(folder) / "filled.npy")
    hidden = np.isnan(x)
    error = ((filled - complete) / complete.std(axis=0))[hidden]
    notes += [found] if found else []
    return Job(
        name,
        float(np.median(seconds)),
        float(np.sqrt(np.mean(error**2))),
        len(x),
        "; ".join(notes),
    )


def _run_limited(name: str, folder: str, threads: int, limit: float) -> dict[str, Any] | str:
    """Return what the process of a filler printed, or in words why it printed nothing."""
    command = [sys.executable, "-m", "benchmarks.peers", name, folder, "--threads", str(threads)]
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    pinned = {variable: str(threads) for variable in variables}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **pinned},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its own children stop with it
    )
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"stopped after {limit:g} s"
    if process.returncode:
        return f"failed: {err.strip().splitlines()[-1][:MAX_MESSAGE] if err.strip() else ''}"
    return json.loads(out.strip().splitlines()[-1])


def main() -> None:
    """Fill the table of a folder and print how long it took."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", choices=FILLERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    x = np.load(given.folder / "table.npy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled, seconds, note = FILLERS[given.name].fill(x, given.threads)
    np.save(given.folder / "filled.npy", filled)
    print(json.dumps({"seconds": seconds, "note": note}))


if __name__ == "__main__":
    main()
