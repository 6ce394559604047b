"""Where the runs of a fit begin, and what was done to find it."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gapmix.em.records import Engine
from gapmix.estimators import options
from gapmix.parameters import Parameters
from gapmix.plan.rows import Rows
from gapmix.solvers import SOLVERS
from gapmix.starts import search as starts
from gapmix.structures import STRUCTURES
from gapmix.units import Scaling


class Start(NamedTuple):
    """Parameters to begin with, and what the first record of a run tells about them."""

    parameters: Parameters
    events: tuple[str, ...] = ()


def searches(estimator: Any, *, continues: bool, validates: bool) -> bool:
    """Tell whether a good start is looked for.

    Not if anything was given to start from, and not with rows to stop on: a run that is to be
    stopped early should not begin late.
    """
    given = (estimator.weights_init, estimator.means_init, estimator.precisions_init)
    wanted = estimator.init_params == "auto" and estimator.n_components > 1
    return wanted and not continues and not validates and all(value is None for value in given)


def begin(
    estimator: Any,
    rows: Rows,
    units: Scaling,
    engine: Engine,
    seed: np.random.SeedSequence,
    *,
    search: bool,
) -> Start:
    """Return the start of one run; with `search`, the best that a few tries find on these rows."""
    rng = np.random.default_rng(seed)
    make = partial(estimator._start, rows, units, rng)
    if not search:
        return Start(make())
    solver = STRUCTURES[estimator.covariance_type].SOLVER
    settings = options.settings(estimator, units, float(rows.weight.sum()))
    found = starts.find_start(SOLVERS[solver], rows, make, settings, engine, rng)
    return Start(found.parameters, (found.note,))
