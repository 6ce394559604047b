"""Wide tables with factors: time of an iteration against rows and columns, error against the truth.

python -m benchmarks.factors                                     a minute
python -m benchmarks.factors --wide                              up to 5,000 x 10,000
python -m benchmarks.factors --plot docs/images/wide.png         time against rows and columns
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gapmix import GaussianMixture

Figure: Any
try:
    from matplotlib.figure import Figure
except ImportError:  # everything but the picture works without it
    Figure = None

GAPS = 0.1
GROWTH = (500, 1000, 2000, 4000)


class Line(NamedTuple):
    """What was measured of one table."""

    wall: float  # seconds of the fit
    spent: float  # and of processors
    n_iter: int
    each: float  # processor seconds for each iteration, the start included
    more: float  # MB beside the table
    error: float  # of hidden cells
    true: float  # the same, of the model that rows were drawn from


def draw(n: int, d: int, q: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, tuple]:
    """Return rows of q factors and noise, True for their gaps, and the model they are from."""
    rng = np.random.default_rng(seed)
    loadings, noise = 0.5 * rng.normal(size=(d, q)), rng.uniform(0.3, 1.0, d)
    x = rng.normal(size=(n, q)) @ loadings.T
    x += rng.normal(size=(n, d)) * np.sqrt(noise)
    return x, rng.random((n, d)) < GAPS, (loadings, noise)


def true_error(x: np.ndarray, gaps: np.ndarray, model: tuple, most: int = 300) -> float:
    """Return the error of the model that rows were drawn from, over some of them."""
    loadings, noise = model
    total, count = 0.0, 0
    for row, gap in zip(x[:most], gaps[:most], strict=True):
        low = loadings[~gap] / noise[~gap, None]
        inner = np.eye(loadings.shape[1]) + low.T @ loadings[~gap]
        guess = loadings[gap] @ np.linalg.solve(inner, low.T @ row[~gap])
        total, count = total + float(((guess - row[gap]) ** 2).sum()), count + int(gap.sum())
    return float(np.sqrt(total / count))


def run(n: int, d: int, q: int, max_iter: int = 20) -> Line:
    """Fit and fill some rows, in a process of its own."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool:
        line = pool.submit(measure, n, d, q, max_iter).result()
    print(
        f"{n:>6} {d:>6} {q:>3} {line.wall:>8.2f} {line.spent:>8.2f} {line.n_iter:>5} "
        f"{line.each:>9.4f} {line.more:>8.0f} {line.error:>7.4f} {line.true:>7.4f}",
        flush=True,
    )
    return line


def measure(n: int, d: int, q: int, max_iter: int) -> Line:
    """Return what a fit takes beside the table, and how well it fills."""
    x, gaps, model = draw(n, d, q)
    true, some = true_error(x, gaps, model), x[:300].copy()
    x[gaps] = np.nan
    forget_peak()
    before = find_peak()
    wall, spent = time.perf_counter(), time.process_time()
    mixture = GaussianMixture(
        covariance_type="factor",
        n_factors=q,
        shrinkage="auto",
        max_iter=max_iter,
        random_state=0,
    ).fit(x)
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    more = find_peak() - before
    away = (mixture.impute(x[:300]) - some)[gaps[:300]]
    error = float(np.sqrt(np.mean(away**2)))
    return Line(wall, spent, mixture.n_iter_, spent / mixture.n_iter_, more, error, true)


def forget_peak() -> None:
    """Let the largest memory of this process be that of now, where the system can."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


def find_peak() -> float:
    """Return the largest memory of this process since then, in MB."""
    path = Path("/proc/self/status")
    if path.exists():
        [line] = [line for line in path.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def draw_growth(path: Path) -> None:
    """Draw the processor time of an iteration against rows and columns, with straight lines."""
    figure = Figure(figsize=(7.5, 3), layout="constrained")
    for axis, name in zip(figure.subplots(1, 2), ("rows", "columns"), strict=True):
        sizes = np.array(GROWTH)
        pairs = [(size, 500) if name == "rows" else (500, size) for size in GROWTH]
        each = np.array([1000 * run(*pair, 10, max_iter=6).each for pair in pairs])
        axis.plot(sizes, each, "o", color="#d55e00")
        slope = float(sizes @ each / (sizes @ sizes))
        axis.plot([0, sizes[-1]], [0, slope * sizes[-1]], color="#777777", lw=1)
        axis.set(xlabel=f"{name} (500 of the others)", ylabel="ms per iteration", ylim=(0, None))
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    print("  rows columns  q  seconds  process iter. seconds/it  more MB   error    true")
    if asked.plot:
        draw_growth(asked.plot)
        return
    for n, d in ((250, 500), (500, 500), (1000, 500), (500, 1000), (500, 2000)):
        run(n, d, 5)
    if asked.wide:
        run(1000, 2000, 10)
        run(5000, 10_000, 10)


if __name__ == "__main__":
    main()
