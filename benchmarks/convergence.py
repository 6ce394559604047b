"""Passes and seconds to the optimum: plain EM against each accelerator, over twenty problems.

    python -m benchmarks.convergence --results benchmarks/results
    python -m benchmarks.convergence --fits 200

The target is the best objective that any of the runs of a problem reached, less 1e-6 per row; all
start from the same parameters. A run that does not get there, because its passes ran out or because
it climbed another optimum, is shown as such and not left out: `>` before the number of passes it
had. Ratios with such a number for plain EM are lower bounds.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from benchmarks.problems import make_problem, mcar
from gapmix import GaussianMixture

METHODS: dict[str, str | None] = {
    "plain": None,
    "auto": "auto",
    "anderson": "anderson",
    "squarem": "squarem",
}
WITHIN = 1e-6  # per row
TYPES = ("full", "tied", "diag", "spherical")
MAX_PLAIN, MAX_ACCELERATED = 20_000, 2_000


class Trace(NamedTuple):
    """One run: the objective and the seconds after every pass."""

    objective: np.ndarray  # (passes,)
    seconds: np.ndarray  # (passes,) since the beginning


class Reached(NamedTuple):
    """When a run came to the target, or what it had when it did not."""

    passes: int
    seconds: float
    there: bool


def draw_chain(seed: int, n: int, d: int, share: float, correlation: float) -> np.ndarray:
    """Return rows whose neighbouring columns are correlated, with gaps at random."""
    rng = np.random.default_rng(seed)
    sigma = correlation ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    x = rng.normal(size=(n, d)) @ np.linalg.cholesky(sigma).T
    return _punch(rng, x, share)


def draw_clusters(
    seed: int, d: int, n_components: int, share: float, separation: float, condition: float
) -> np.ndarray:
    """Return 1,500 rows of a mixture with gaps at random."""
    observed = mcar(d, share)(np.random.default_rng(seed + 1), 1500)
    return make_problem("", observed, n_components, seed, condition, separation).x


def _punch(rng: np.random.Generator, x: np.ndarray, share: float) -> np.ndarray:
    return np.where(rng.random(x.shape) < share, np.nan, x)


def read_abalone(share: float) -> np.ndarray:
    """Return the numeric columns of Abalone with gaps at random."""
    path = Path(os.environ["GAPMIX_DATA"]) / "abalone" / "abalone.data"
    rows = [line.strip().split(",")[1:] for line in path.read_text().splitlines() if line.strip()]
    return _punch(np.random.default_rng(0), np.array(rows, dtype=float), share)


def read_small_digits(share: float) -> np.ndarray:
    """Return scikit-learn's digits, pixels that vary, with gaps at random."""
    x = load_digits().data
    return _punch(np.random.default_rng(0), x[:, x.std(axis=0) > 1], share)


def make_problems() -> dict[str, tuple[np.ndarray, int]]:
    """Return the twenty tables, each with its number of components."""
    made = {
        f"one Gaussian, {100 * share:.0f} %": (draw_chain(i, n, d, share, 0.95), 1)
        for i, (n, d, share) in enumerate(
            [(1000, 8, 0.1), (1000, 10, 0.3), (1000, 10, 0.5), (2000, 8, 0.8)]
        )
    }
    made["one Gaussian, correlation 0.999, 50 %"] = (draw_chain(4, 1000, 8, 0.5, 0.999), 1)
    apart = [(5, 3, 0.1, 2.0), (5, 3, 0.3, 2.0), (5, 3, 0.5, 2.0), (8, 3, 0.8, 2.0)]
    apart += [(10, 4, 0.3, 1.0), (10, 4, 0.5, 1.0)]
    for i, (d, K, share, separation) in enumerate(apart):
        name = f"separated {separation:g}, d={d}, {100 * share:.0f} %"
        made[name] = (draw_clusters(10 + i, d, K, share, separation, 100.0), K)
    touching = [(4, 3, 0.1, 0.5), (4, 3, 0.3, 0.5), (4, 2, 0.5, 0.5), (5, 2, 0.6, 0.3)]
    touching += [(5, 2, 0.8, 0.5)]
    for i, (d, K, share, separation) in enumerate(touching):
        name = f"overlapping {separation:g}, d={d}, {100 * share:.0f} %"
        made[name] = (draw_clusters(20 + i, d, K, share, separation, 10.0), K)
    made["Abalone, 10 %"] = (read_abalone(0.1), 3)
    made["Abalone, 40 %"] = (read_abalone(0.4), 2)
    made["digits, 30 %"] = (read_small_digits(0.3)[:800], 1)
    made["digits, every fourth pixel, 50 %"] = (read_small_digits(0.5)[:800, ::4], 2)
    return made


def trace(x: np.ndarray, n_components: int, method: str) -> Trace:
    """Return the course of a run to where gains are rounding error, or passes run out."""
    plain = METHODS[method] is None
    model = GaussianMixture(
        n_components,
        accelerate=METHODS[method],
        tol=1e-12,
        max_iter=MAX_PLAIN if plain else MAX_ACCELERATED,
        random_state=0,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[~np.isnan(x).all(axis=1)])
    seconds = np.cumsum([record.seconds for record in model.history_])
    return Trace(np.array(model.lower_bounds_), seconds)


def when_reached(run: Trace, target: float) -> Reached:
    """Return the first pass at or above the target."""
    above = run.objective >= target
    at = int(above.argmax()) if above.any() else len(above) - 1
    return Reached(at + 1, float(run.seconds[at]), bool(above.any()))


def compare(x: np.ndarray, n_components: int) -> tuple[dict[str, Trace], dict[str, Reached]]:
    """Return the runs of all methods on a problem, and when each came to the target."""
    runs = {method: trace(x, n_components, method) for method in METHODS}
    best = max(float(run.objective.max()) for run in runs.values())
    return runs, {method: when_reached(run, best - WITHIN) for method, run in runs.items()}


def draw(runs: dict[str, dict[str, Trace]], path: Path) -> None:
    """Write plots of what is missing to the best objective against passes, one per problem."""
    n_rows = -(-len(runs) // 4)
    figure = Figure(figsize=(16, 3 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, 4, squeeze=False).ravel()
    for axes, (name, traces) in zip(panels, runs.items(), strict=False):
        best = max(float(run.objective.max()) for run in traces.values())
        for method, run in traces.items():
            left = np.maximum(best - run.objective, 1e-12)
            axes.loglog(np.arange(1, len(left) + 1), left, label=method)
        axes.axhline(WITHIN, color="0.7", linestyle=":")
        axes.set_title(name, fontsize=10)
    panels[0].set(xlabel="passes", ylabel="objective per row below the best")
    panels[0].legend()
    figure.savefig(path, dpi=80)


def draw_fit(seed: int) -> tuple[np.ndarray, int, str]:
    """Return a random table, a number of components and a covariance type."""
    rng = np.random.default_rng([seed, 98])
    n_components, d = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    n, share = int(rng.integers(300, 1000)), rng.uniform(0.1, 0.6)
    means = rng.normal(size=(n_components, d)) * rng.uniform(1, 3)
    labels = rng.integers(0, n_components, n)
    x = np.empty((n, d))
    for k in range(n_components):
        root = rng.normal(size=(d, d))
        x[labels == k] = means[k] + rng.normal(size=(int((labels == k).sum()), d)) @ root.T
    x = _punch(rng, x, share)
    return x[~np.isnan(x).all(axis=1)], n_components, TYPES[seed % len(TYPES)]


def check_fits(n_fits: int) -> tuple[int, int, float]:
    """Return how many of the random fits end lower than plain EM, higher, and the largest fall."""
    lower, higher, fall = 0, 0, 0.0
    for seed in range(n_fits):
        x, n_components, covariance_type = draw_fit(seed)
        ends = []
        for method, max_iter in ((None, 4000), ("auto", 1500)):
            model = GaussianMixture(
                n_components,
                covariance_type=covariance_type,
                reg_covar=1e-4,
                accelerate=method,
                tol=1e-12,
                max_iter=max_iter,
                random_state=seed,
                n_jobs=1,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(x)
            ends.append(model.lower_bound_)
            repaired = any("repair" in e for record in model.history_ for e in record.events)
            if not repaired:
                fall = max(fall, -float(np.diff(model.lower_bounds_).min(initial=0.0)))
        lower += ends[1] < ends[0] - 1e-8 * abs(ends[0])
        higher += ends[1] > ends[0] + 1e-5
    return lower, higher, fall


def summarise(table: dict[str, dict[str, Reached]]) -> list[str]:
    """Return the lines that compare every accelerator with plain EM."""
    slowest = sorted(table, key=lambda name: table[name]["plain"].passes)[-(len(table) // 4) :]
    lines = []
    for method in list(METHODS)[1:]:
        ratio = {
            name: row["plain"].passes / row[method].passes if row[method].there else np.nan
            for name, row in table.items()
        }
        all_ratios = np.array(list(ratio.values()))
        missed = [name for name, value in ratio.items() if np.isnan(value)]
        # a run that never came to the target counts as no faster at all
        ranked = np.nan_to_num(all_ratios, nan=0.0)
        slow = [float(np.nan_to_num(ratio[name])) for name in slowest]
        lines.append(
            f"{method}: median {np.median(ranked):.2f} times fewer passes, smallest "
            f"{ranked.min():.2f}; slowest quarter: median {np.median(slow):.1f}, smallest "
            f"{min(slow):.1f}; target missed on {len(missed)}: {', '.join(missed) or '-'}"
        )
    return lines


def main() -> None:
    """Run all problems, print a table, write it and the plots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--fits", type=int, default=0, help="random fits to compare with plain EM")
    given = parser.parse_args()
    folder = given.results
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("agg")
    if given.fits:
        lower, higher, fall = check_fits(given.fits)
        print(
            f"{given.fits} random fits: {lower} lower than plain EM, {higher} higher; "
            f"largest fall of an objective {fall:.1g}"
        )
        return
    table, all_runs = {}, {}
    with (folder / "convergence.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["problem", "method", "passes", "seconds", "reached"])
        for name, (x, n_components) in make_problems().items():
            all_runs[name], table[name] = compare(x, n_components)
            cells = []
            for method, found in table[name].items():
                writer.writerow([name, method, found.passes, f"{found.seconds:.4f}", found.there])
                mark = " " if found.there else ">"
                cells.append(f"{method} {mark}{found.passes:5d} ({found.seconds:6.2f} s)")
            file.flush()
            print(f"{name:40s} {'  '.join(cells)}", flush=True)
    draw(all_runs, folder / "convergence.png")
    print("\n".join(summarise(table)))


if __name__ == "__main__":
    main()
