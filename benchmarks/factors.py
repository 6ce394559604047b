"""Wide tables with factors: time of an iteration against rows and columns, error against the truth.

python -m benchmarks.factors            a minute
python -m benchmarks.factors --wide     1,000 x 2,000 and 5,000 x 10,000 as well
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from gapmix import GaussianMixture

GAPS = 0.1


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


def run(n: int, d: int, q: int) -> None:
    """Fit, fill, and print a line."""
    x, gaps, model = draw(n, d, q)
    shown = np.where(gaps, np.nan, x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, spent = time.perf_counter(), time.process_time()
    mixture = GaussianMixture(covariance_type="factor", n_factors=q, random_state=0).fit(shown)
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    each = np.median([record.seconds for record in mixture.history_])
    some = slice(0, 300)
    away = (mixture.impute(shown[some]) - x[some])[gaps[some]]
    error = float(np.sqrt(np.mean(away**2)))
    print(
        f"{n:>6} {d:>6} {q:>3} {wall:>8.2f} {spent:>8.2f} {mixture.n_iter_:>5} {each:>9.4f} "
        f"{more:>8.0f} {error:>7.4f} {true_error(x, gaps, model):>7.4f}",
        flush=True,
    )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wide", action="store_true")
    asked = parser.parse_args()
    print("  rows columns  q  seconds  process iter. seconds/it  more MB   error    true")
    for n, d in ((250, 500), (500, 500), (1000, 500), (500, 1000), (500, 2000)):
        run(n, d, 5)
    if asked.wide:
        run(1000, 2000, 10)
        run(5000, 10_000, 10)


if __name__ == "__main__":
    main()
