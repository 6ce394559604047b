"""Better starts: `init_params="auto"` against one start by k-means, over fifty seeds.

    python -m benchmarks.starts --results benchmarks/results

Passes of "auto" include the work of its search, in passes: rows touched times components, over all
rows times all components. Both run at the default tolerance. The sixth problem is not one of the
five that the targets are about: it is there because the better optimum takes longer to climb to.
"""

from __future__ import annotations

import argparse
import csv
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from benchmarks.convergence import read_abalone
from gapmix import GaussianMixture

WORK = re.compile(r"the work of ([0-9.]+) passes")


class Outcome(NamedTuple):
    """Fits of one problem from one kind of start, over seeds."""

    objective: np.ndarray  # (seeds,) per row
    passes: np.ndarray  # (seeds,)
    search: np.ndarray  # (seeds,) the part of the passes that went into the start
    seconds: float


def draw_mixture(
    seed: int,
    n: int,
    d: int,
    n_components: int,
    *,
    spread: float,
    condition: float,
    share: float,
    ratio: float | None = None,
) -> np.ndarray:
    """Return rows of a random mixture with gaps at random.

    Each weight is `ratio` times the one before; without a ratio they are alike.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.dirichlet(np.ones(n_components))
    weights = 0.5 * drawn + 0.5 / n_components
    if ratio is not None:
        weights = ratio ** np.arange(n_components)
    means = rng.normal(size=(n_components, d)) * spread
    labels = rng.choice(n_components, n, p=weights / weights.sum())
    axes = np.geomspace(1, condition, d) ** -0.5
    axes /= np.sqrt((axes**2).mean())
    x = np.empty((n, d))
    for k in range(n_components):
        rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
        rows = rng.normal(size=(int((labels == k).sum()), d))
        x[labels == k] = means[k] + (rows * axes) @ rotation.T
    return np.where(rng.random(x.shape) < share, np.nan, x)


def read_principal_digits(share: float, d: int = 10) -> np.ndarray:
    """Return the first principal components of scikit-learn's digits, with gaps at random."""
    x = load_digits().data
    x = x - x.mean(axis=0)
    axes = np.linalg.svd(x, full_matrices=False)[2][:d]
    scores = x @ axes.T
    return np.where(np.random.default_rng(0).random(scores.shape) < share, np.nan, scores)


def make_problems() -> dict[str, tuple[np.ndarray, int]]:
    """Return six tables on which k-means starts end in different optima, with their sizes."""
    overlapping = draw_mixture(2, 10_000, 8, 8, spread=1.2, condition=10, share=0.5)
    touching = draw_mixture(5, 5000, 5, 6, spread=2.0, condition=10, share=0.4)
    unequal = draw_mixture(3, 4000, 5, 8, spread=3.0, condition=30, share=0.2, ratio=0.6)
    longer = draw_mixture(4, 3000, 6, 6, spread=2.5, condition=10, share=0.4, ratio=0.6)
    made = {
        "touching, K=6, 40 %": (touching, 6),
        "unequal weights, K=8, 20 %": (unequal, 8),
        "digits, 10 principal components, K=10, 20 %": (read_principal_digits(0.2), 10),
        "Abalone, K=10, 40 %": (read_abalone(0.4), 10),
        "overlapping, K=8, 50 %": (overlapping, 8),
        "(unequal weights, K=6, 40 %)": (longer, 6),
    }
    return {name: (x[~np.isnan(x).all(axis=1)], K) for name, (x, K) in made.items()}


def run(x: np.ndarray, n_components: int, init_params: str, n_seeds: int) -> Outcome:
    """Return the outcome of fits from one kind of start."""
    objective, passes, search, seconds = [], [], [], 0.0
    for seed in range(n_seeds):
        model = GaussianMixture(
            n_components, init_params=init_params, max_iter=1000, random_state=seed, n_jobs=1
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x)
        found = WORK.search(" ".join(model.history_[0].events))
        objective.append(model.lower_bound_)
        search.append(float(found.group(1)) if found else 0.0)
        passes.append(model.n_iter_ + search[-1])
        seconds += sum(record.seconds for record in model.history_)
    return Outcome(np.array(objective), np.array(passes), np.array(search), seconds)


def main() -> None:
    """Run all problems from both kinds of start, print a table and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--seeds", type=int, default=50)
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    with (given.results / "starts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["problem", "start", "seeds", "worst", "median", "best", "passes", "of them search"]
        )
        for name, (x, n_components) in make_problems().items():
            for start in ("kmeans", "auto"):
                out = run(x, n_components, start, given.seeds)
                values = (out.objective.min(), np.median(out.objective), out.objective.max())
                row = [f"{value:.4f}" for value in values]
                row += [f"{out.passes.sum():.0f}", f"{out.search.sum():.0f}"]
                writer.writerow([name, start, given.seeds, *row])
                file.flush()
                print(f"{name:44s} {start:7s} {'  '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
