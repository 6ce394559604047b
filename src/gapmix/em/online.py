"""EM for endless streams: stochastic approximation of the statistics (Cappe and Moulines, 2009).

After every batch the running mean of the statistics per row moves a step towards those of the
batch, s <- (1 - g) s + g s_batch with g = (n + 2) ** -power, and the M step follows. It is not
exact EM: it forgets, never sees a row twice, and its objective may fall. With 1/2 < power <= 1 it
converges to a stationary point of the likelihood of the stream.

References
----------
Cappe, Moulines: On-line expectation-maximization algorithm for latent data models. JRSS B 71(3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.em import run as em
from gapmix.parameters import Parameters
from gapmix.plan.rows import Rows
from gapmix.solvers import Solver
from gapmix.statistics import Moments

POWER = 0.6
BURN_IN = 2  # batches that only gather statistics, as Cappe and Moulines advise


class Online(NamedTuple):
    """Where a stream stands: moments per row about zero, in internal units."""

    parameters: Parameters
    moments: Moments  # of one average row, about zero
    n_batches: int
    total_weight: float


def begin(parameters: Parameters) -> Online:
    """Return a stream that has seen nothing, at these parameters."""
    n_components, d = parameters.means.shape
    second = (n_components, d) if parameters.covariances.ndim == 2 else (n_components, d, d)
    nothing = Moments(np.zeros(n_components), np.zeros((n_components, d)), np.zeros(second))
    return Online(parameters, nothing, 0, 0.0)


def step(
    stream: Online, solver: Solver, rows: Rows, settings: em.Settings, engine: em.Engine
) -> tuple[Online, float]:
    """Return the stream after a batch, and the batch's mean log-likelihood before it."""
    parameters = stream.parameters
    prepared = solver.prepare(parameters)
    statistics = em.e_step(solver, prepared, parameters.weights, rows, engine)
    weight = em.total_weight(rows)
    seen = _shift(solver.moments(prepared, statistics), parameters.means)
    gain = 1.0 if stream.n_batches == 0 else (stream.n_batches + 1.0) ** -POWER
    moments = Moments(
        *(
            (1.0 - gain) * old + gain * new / weight
            for old, new in zip(stream.moments, seen, strict=True)
        )
    )
    if stream.n_batches + 1 >= BURN_IN:
        n_rows = stream.total_weight + weight  # what priors are weighed against
        about = (n_rows * array for array in _shift(moments, -parameters.means))
        parameters = em.m_step(Moments(*about), parameters, settings)
    stream = Online(parameters, moments, stream.n_batches + 1, stream.total_weight + weight)
    return stream, float(statistics.log_likelihood) / weight


def _shift(moments: Moments, by: np.ndarray) -> Moments:
    """Return the moments of rows that are all moved: E[(z + b)(z + b)']."""
    resp, first, second = moments
    moved = first + resp[:, None] * by
    if second.ndim == 2:
        return Moments(resp, moved, second + 2.0 * first * by + resp[:, None] * by**2)
    cross = first[:, :, None] * by[:, None, :]
    square = resp[:, None, None] * by[:, :, None] * by[:, None, :]
    return Moments(resp, moved, second + cross + np.swapaxes(cross, 1, 2) + square)
