"""What the choice of sizes takes and brings: `python -m benchmarks.choice`.

Tables drawn from mixtures of 30 unequal components, a fifth of the cells hidden, filled with all
defaults by gapmix at each effort and by scikit-learn's IterativeImputer, alone and with extra
trees. All contestants in one run, since only ratios of their times mean something elsewhere.
`--best` and `--trees` add the two that take long. `--seconds` prints instead what a row costs under
a component, which `gapmix.selection.effort` predicts iterations by.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from gapmix import GaussianMixture, GaussianMixtureImputer
from gapmix.plan.costs import DEFAULT
from gapmix.plan.patterns import find_patterns
from gapmix.plan.planner import predict

SIZES = ((5_000, 12), (10_000, 5), (20_000, 9), (20_000, 16))
SHARE = 0.2  # of the cells
Contestants = dict[str, Callable[[], Any]]


def draw(n: int, d: int, n_groups: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Return rows from a mixture, and which of their cells are hidden."""
    rng = np.random.default_rng(0)
    group = rng.choice(n_groups, n, p=rng.dirichlet(np.ones(n_groups)))
    center = 2.0 * rng.normal(size=(n_groups, d))
    root = rng.normal(size=(n_groups, d, d)) / np.sqrt(d)
    x = center[group] + np.einsum("nij,nj->ni", root[group], rng.normal(size=(n, d)))
    return x, rng.random(x.shape) < SHARE


def list_contestants(*, best: bool, trees: bool) -> Contestants:
    """Return who fills, each by a function that makes it."""
    named: Contestants = {"IterativeImputer": IterativeImputer}
    if trees:
        learner = ExtraTreesRegressor(100, n_jobs=-1, random_state=0)
        named["extra-trees chain"] = lambda: IterativeImputer(learner, random_state=0)
    for effort in ("quick", "default", *(("best",) if best else ())):
        named[f"gapmix {effort}"] = lambda effort=effort: GaussianMixtureImputer(
            effort=effort, random_state=0
        )
    return named


def compare(n: int, d: int, contestants: Contestants) -> None:
    """Print a line for each contestant on a table of this size."""
    x, hidden = draw(n, d)
    shown = np.where(hidden, np.nan, x)
    first = None
    for name, make in contestants.items():
        began = time.perf_counter()
        filled = make().fit_transform(shown)
        seconds = time.perf_counter() - began
        first = seconds if first is None else first
        error = np.sqrt(np.mean(((filled - x) / x.std(axis=0))[hidden] ** 2))
        print(f"{n:6d} x {d:2d}  {name:18s} {seconds:7.2f} s {seconds / first:6.1f}  {error:.4f}")


def time_rows(n: int, d: int, n_components: int = 34, n_iter: int = 10) -> None:
    """Print the processor time of a row under a component, and what `plan` predicts of it."""
    x, hidden = draw(n, d)
    x[hidden] = np.nan
    took = []
    for limit in (1, 1 + n_iter):
        mixture = GaussianMixture(
            n_components, max_iter=limit, tol=0, n_jobs=1, accelerate=None, random_state=0
        )
        began = time.process_time()
        mixture.set_params(init_params="random_from_data").fit(x)
        took.append(time.process_time() - began)
    patterns = find_patterns(~np.isnan(x))
    per_row = 1e6 / (n * n_components)
    measured = per_row * (took[1] - took[0]) / n_iter
    predicted = per_row * predict(patterns, n_components, DEFAULT)["dual"]
    print(f"{n:6d} x {d:2d}  {measured:.3f} us, of which {predicted:.3f} predicted")


def main() -> None:
    """Compare contestants, or measure rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--best", "--trees", "--seconds"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args()
    contestants = list_contestants(best=given.best, trees=given.trees)
    warnings.simplefilter("ignore", ConvergenceWarning)
    GaussianMixtureImputer(2, max_iter=2).fit(draw(300, 4)[0])  # kernels are compiled
    for n, d in SIZES:
        if given.seconds:
            time_rows(n, d)
        else:
            compare(n, d, contestants)


if __name__ == "__main__":
    main()
