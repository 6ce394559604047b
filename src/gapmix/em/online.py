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

from gapmix.em.records import Engine, Settings
from gapmix.em.steps import e_step, m_step, take_moments, total_weight
from gapmix.parameters import Parameters
from gapmix.plan.rows import Rows
from gapmix.solvers import Solver
from gapmix.statistics import Moments
from gapmix.structures import STRUCTURES

POWER = 0.6
BURN_IN = 2  # batches that only gather statistics, as Cappe and Moulines advise


class Online(NamedTuple):
    """Where a stream stands: moments per row about zero, in internal units."""

    parameters: Parameters
    moments: Moments | None = None  # of one average row, about zero; None before the first batch
    n_batches: int = 0
    total_weight: float = 0.0


def step(
    stream: Online, solver: Solver, rows: Rows, settings: Settings, engine: Engine
) -> tuple[Online, float]:
    """Return the stream after a batch, and the batch's mean log-likelihood before it."""
    parameters = stream.parameters
    move = STRUCTURES[parameters.structure].move
    prepared = solver.prepare(parameters)
    statistics = e_step(solver, prepared, parameters, rows, engine)
    weight = total_weight(rows)
    seen = move(take_moments(solver, prepared, statistics), parameters.means)
    if stream.moments is None:
        moments = Moments(*(new / weight for new in seen))
    else:
        gain = (stream.n_batches + 1.0) ** -POWER
        moments = Moments(
            *(
                (1.0 - gain) * old + gain * new / weight
                for old, new in zip(stream.moments, seen, strict=True)
            )
        )
    if stream.n_batches + 1 >= BURN_IN:
        n_rows = stream.total_weight + weight  # what priors are weighed against
        about = (n_rows * array for array in move(moments, -parameters.means))
        parameters = m_step(Moments(*about), parameters, settings)
    stream = Online(parameters, moments, stream.n_batches + 1, stream.total_weight + weight)
    return stream, float(statistics.log_likelihood) / weight
