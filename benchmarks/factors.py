"""Wide tables with factors: time of an iteration against rows and columns, error against the truth.

python -m benchmarks.factors                                       ten seconds
python -m benchmarks.factors --wide                                up to 5,000 x 10,000, a minute
python -m benchmarks.factors --plot benchmarks/results/wide.png    time against rows and columns
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

from gapmix import GaussianMixture, GaussianMixtureImputer

Figure: Any
try:
    from matplotlib.figure import Figure
except ImportError:  # everything but the picture works without it
    Figure = None

GAPS = 0.1
GROWTH = (1000, 2000, 4000, 8000)
OTHERS = 500  # columns where rows grow, and rows where columns do


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


def run(n: int, d: int, q: int, how: str = "given") -> Line:
    """Fit and fill some rows, in a process of its own."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool:
        line = pool.submit(measure, n, d, q, how).result()
    print(
        f"{n:>6} {d:>6} {q:>3} {how:>7} {line.wall:>8.2f} {line.spent:>8.2f} {line.n_iter:>5} "
        f"{line.each:>9.4f} {line.more:>8.0f} {line.error:>7.4f} {line.true:>7.4f}",
        flush=True,
    )
    return line


def measure(n: int, d: int, q: int, how: str) -> Line:
    """Return what a fit takes beside the table, and how well it fills.

    `how` is "given" (as many factors as there are), "ten" (the same, ten iterations) or "auto".
    """
    x, gaps, model = draw(n, d, q)
    true, some = true_error(x, gaps, model), x[:300].copy()
    x[gaps] = np.nan
    forget_peak()
    before = find_peak()
    wall, spent = time.perf_counter(), time.process_time()
    fitted = FITS[how](q).fit(x)
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    more = find_peak() - before
    if how == "auto":  # of several fits the iterations are not comparable
        filled, n_iter, each = fitted.transform(x[:300]), fitted.mixture_.n_iter_, np.nan
    else:
        filled, n_iter, each = fitted.impute(x[:300]), fitted.n_iter_, spent / fitted.n_iter_
    error = float(np.sqrt(np.mean((filled - some)[gaps[:300]] ** 2)))
    return Line(wall, spent, n_iter, each, more, error, true)


def make_mixture(q: int, **options: Any) -> GaussianMixture:
    """Return a mixture of one component with as many factors as the rows have."""
    options = {"shrinkage": "auto", "random_state": 0} | options
    return GaussianMixture(covariance_type="factor", n_factors=q, **options)


FITS: dict[str, Any] = {
    "given": make_mixture,
    "ten": lambda q: make_mixture(q, tol=0, max_iter=10),
    "auto": lambda q: GaussianMixtureImputer(random_state=0),
}


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
        pairs = [(size, OTHERS) if name == "rows" else (OTHERS, size) for size in GROWTH]
        spent = np.array([1000 * run(*pair, 10, "ten").each for pair in pairs])
        sizes = np.array(GROWTH)
        slope = float(sizes @ spent / (sizes @ sizes))
        axis.plot([0, sizes[-1]], [0, slope * sizes[-1]], color="#777777", lw=1)
        axis.plot(sizes, spent, "o", color="#d55e00")
        other = "columns" if name == "rows" else "rows"
        axis.set(xlabel=f"{name} ({OTHERS} {other})", ylim=(0, None))
        axis.set_ylabel("processor time of an iteration, ms")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    print("  rows columns q factors  seconds  process iter. seconds/it  more MB   error    true")
    if asked.plot:
        draw_growth(asked.plot)
        return
    for n, d in ((250, 500), (500, 500), (1000, 500), (500, 1000), (500, 2000)):
        run(n, d, 5)
    if asked.wide:
        run(1000, 2000, 10)
        run(1000, 2000, 10, "auto")
        run(5000, 10_000, 10)


if __name__ == "__main__":
    main()
