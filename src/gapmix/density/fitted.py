"""A fitted mixture at work on new rows: densities, filled values, quantiles and draws.

Everything here is in the user's units, and every row is treated by itself: the rows beside it and
the order of the columns change its answer by rounding only, since sums are taken in another order
(matrix products of other shapes; below 1e-11 standard deviations in `tests/test_promises.py`, more
where a covariance is nearly singular). The number of threads changes no bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix import units as scaling
from gapmix.density import conditional
from gapmix.density.conditional import Filled, ReadyDensity, Scores
from gapmix.parameters import Parameters
from gapmix.plan.rows import Layout, lay_out_rows
from gapmix.solvers import SOLVERS
from gapmix.structures.mixtures import (
    dense_covariances,
    marginal_parameters,
    parameters_to_internal,
)
from gapmix.threads import open_engine
from gapmix.units import Scaling, select_columns


class Density(NamedTuple):
    """The density of a mixture, and how to compute with it."""

    parameters: Parameters  # in the user's units
    units: Scaling
    solver: str
    n_jobs: int | None


def marginal(density: Density, columns: np.ndarray) -> Density:
    """Return the density of some of the columns, the others integrated out."""
    return density._replace(
        parameters=marginal_parameters(density.parameters, columns),
        units=select_columns(density.units, columns),
    )


def _prepare(density: Density) -> ReadyDensity:
    parameters = parameters_to_internal(density.parameters, density.units)
    solver = SOLVERS[density.solver]
    with open_engine(1):
        return ReadyDensity(solver, solver.prepare(parameters), parameters)


def _lay_out(density: Density, x: np.ndarray) -> Layout:
    return lay_out_rows(x, len(density.parameters.weights), density.units)


def score(density: Density, x: np.ndarray) -> Scores:
    """Return log p(x_o) of each row, 0 for an empty one, and its share of each component."""
    with open_engine(density.n_jobs) as engine:
        return conditional.score(_prepare(density), _lay_out(density, x), engine)


def fill(density: Density, x: np.ndarray, *, spread: bool = False) -> Filled:
    """Return rows with gaps filled by their conditional mean, and its deviation if asked for."""
    with open_engine(density.n_jobs) as engine:
        return conditional.fill(_prepare(density), _lay_out(density, x), engine, spread=spread)


def quantiles(density: Density, x: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return quantiles of every gap given the rest of its row, (len(levels), n, d).

    Observed values come back as they were.
    """
    with open_engine(density.n_jobs) as engine:
        return conditional.quantiles(_prepare(density), _lay_out(density, x), levels, engine)


def distribution(density: Density, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return P(gap <= value | rest of the row) for values (n, d), NaN where there is no gap."""
    inside = scaling.to_internal(values, density.units)
    with open_engine(density.n_jobs) as engine:
        return conditional.distribution(_prepare(density), _lay_out(density, x), inside, engine)


def draw(density: Density, x: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return draws of the gaps given the rest of each row, (n_draws, n, d)."""
    ready = _prepare(density)
    with open_engine(density.n_jobs) as engine:
        resp = conditional.score(ready, _lay_out(density, x), engine).resp
        inside = scaling.to_internal(x, density.units)
        draws = conditional.draw(ready, inside, resp, n_draws, rng)
    draws *= density.units.scale  # in place: draws are as large as several tables
    draws += density.units.center
    np.copyto(draws, x, where=~np.isnan(x))
    return draws


def sample_rows(
    density: Density, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return new rows (n, d) and the component each came from, (n,), components in order."""
    inside = parameters_to_internal(density.parameters, density.units)
    labels = np.repeat(np.arange(len(inside.weights)), rng.multinomial(n, inside.weights))
    noise = rng.standard_normal((n, inside.means.shape[1]))
    for k, chol in enumerate(np.linalg.cholesky(dense_covariances(inside))):
        noise[labels == k] = noise[labels == k] @ chol.T
    return density.parameters.means[labels] + noise * density.units.scale, labels
