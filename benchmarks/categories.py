"""What categories add to an iteration of EM: the same rows with and without them, in turn.

    python -m benchmarks.categories

20,000 rows of 16 numbers, 10 categories of 5 levels, 5 components, a line for each share of gaps.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from gapmix import categories
from gapmix.em.records import Engine, Settings
from gapmix.em.steps import e_step, m_step, take_moments
from gapmix.parameters import Parameters
from gapmix.plan.rows import Rows, prepare_rows
from gapmix.solvers import SOLVERS
from gapmix.structures.regularizer import Regularizer
from gapmix.threads import open_engine

ROWS, NUMBERS, CATEGORIES, LEVELS, COMPONENTS = 20_000, 16, 10, 5, 5
SHARES = (0.0, 0.05, 0.2, 0.5)
REPEATS = 25


class Work(NamedTuple):
    """Rows, and where an iteration starts."""

    rows: Rows
    parameters: Parameters
    settings: Settings


def make_work(share: float, n: int = ROWS) -> tuple[Work, Work]:
    """Return the work without and with categories; `share` of all cells is missing."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, COMPONENTS, n)
    means = rng.normal(size=(COMPONENTS, NUMBERS))
    x = rng.normal(size=(n, NUMBERS)) + means[group]
    x[rng.random(x.shape) < share] = np.nan
    tables = tuple(rng.dirichlet(np.ones(LEVELS), COMPONENTS) for _ in range(CATEGORIES))
    drawn = [(rng.random((n, 1)) > np.cumsum(table, axis=1)[group]).sum(axis=1) for table in tables]
    codes = np.minimum(np.column_stack(drawn), LEVELS - 1).astype(np.int32)
    codes[rng.random(codes.shape) < share] = -1
    weight, equal = np.ones(n), np.full(COMPONENTS, 1 / COMPONENTS)
    covariances = np.repeat(np.eye(NUMBERS)[None], COMPONENTS, axis=0)
    plain = Parameters(equal, means, covariances, "full")
    prior = Regularizer(np.full(NUMBERS, 1e-6))
    shares = categories.measure_shares(codes, weight, [LEVELS] * CATEGORIES)
    return (
        Work(prepare_rows(x, weight, COMPONENTS), plain, Settings(prior)),
        Work(
            prepare_rows(x, weight, COMPONENTS, codes=codes),
            plain._replace(categories=tables),
            Settings(prior._replace(levels=categories.LevelPrior(shares))),
        ),
    )


def time_iteration(work: Work, engine: Engine) -> float:
    """Return the seconds of one iteration."""
    began = time.perf_counter()
    solver = SOLVERS["dual"]
    prepared = solver.prepare(work.parameters)
    sums = e_step(solver, prepared, work.parameters, work.rows, engine)
    m_step(take_moments(solver, prepared, sums), work.parameters, work.settings)
    return time.perf_counter() - began


def measure(share: float, n_jobs: int | None, n: int = ROWS, repeats: int = REPEATS) -> np.ndarray:
    """Return the median seconds of an iteration without and with categories."""
    works = make_work(share, n)
    with open_engine(n_jobs) as engine:
        times = [[time_iteration(work, engine) for work in works] for _ in range(repeats + 1)]
    return np.median(times[1:], axis=0)


def main() -> None:
    """Print a line for each share of gaps and number of threads."""
    print("gaps  threads  without ms  with ms  ratio")
    for n_jobs in (1, None):
        for share in SHARES:
            without, with_them = measure(share, n_jobs)
            print(
                f"{share:4.2f}  {n_jobs or 'all':>7}  {1e3 * without:10.1f}  {1e3 * with_them:7.1f}"
                f"  {with_them / without:5.2f}"
            )


if __name__ == "__main__":
    main()
