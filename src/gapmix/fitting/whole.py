"""Fit a mixture to a table in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapmix import categories
from gapmix.fitting.climb import Task, climb
from gapmix.fitting.fitted import Fitted
from gapmix.fitting.matrix import (
    Matrix,
    log_unit,
    plan_rows,
    prior_of,
    refuse_too_few,
    set_aside,
)
from gapmix.fitting.order import order_fitted, order_spec, order_target
from gapmix.fitting.resuming import identify, open_checkpoint
from gapmix.fitting.spec import Running, Spec, make_settings
from gapmix.fitting.starting import refuse_other
from gapmix.plan import TreeOptions
from gapmix.structures import STRUCTURES

NOWHERE = Running()


def fit(
    spec: Spec,
    matrix: Matrix,
    entropy: Sequence[int],
    running: Running = NOWHERE,
    *,
    x_val: np.ndarray | None = None,
    before: Fitted | None = None,
    target: np.ndarray | None = None,
) -> Fitted:
    """Return the mixture that fits the rows best, over all starts.

    Parameters
    ----------
    spec : what is asked for.
    matrix : the rows.
    entropy : seeds everything that is drawn.
    running : where the fit runs.
    x_val : (n, d) rows to stop on.
    before : a solution to continue from, with the priors it has.
    target : (d, d), in the user's units, the covariance that `shrinkage` would find by itself.
    """
    refuse_too_few(matrix, spec.n_components)
    spec = order_spec(spec, matrix.columns)
    structure = STRUCTURES[spec.covariance_type]
    target = target if structure.HAS_TARGET else None
    if target is not None:
        target = structure.as_target(target)
        target = order_target(target, spec.covariance_type, matrix.columns)
    if before is not None:
        refuse_other(spec, before.parameters, len(matrix.columns), matrix.n_levels)
        before = order_fitted(before, matrix.columns, matrix.coding)
    resumed = open_checkpoint(running, entropy)
    contents = {"columns": matrix.x.shape[1], "data": matrix.x, "sample_weight": matrix.weight}
    if matrix.codes.shape[1]:
        contents |= {"categories": matrix.codes, "levels": matrix.n_levels}
    fresh, saved = identify(spec, running, resumed, before, contents | {"X_val": x_val})
    n_starts = spec.n_init if before is None else 1
    split_seed, *start_seeds = np.random.SeedSequence(resumed.entropy).spawn(1 + n_starts)
    matrix, held = set_aside(spec, matrix, x_val, split_seed)
    units, asked = matrix.units, spec.solver
    if saved is not None and asked == "auto":
        asked = saved.solver  # a choice by measured time may come out otherwise now
    chosen, rows = plan_rows(spec, matrix, asked)
    validation = None
    if held is not None:
        same = asked if isinstance(asked, TreeOptions) else chosen.solver
        validation = plan_rows(spec, held, same)[1]
    if target is None and before is not None:
        target = before.target
    center = None if before is None else before.center
    task = Task(
        rows,
        rows,
        tuple(start_seeds),
        make_settings(spec, units, float(rows.weight.sum()), target, center, prior_of(matrix)),
        units,
        chosen,
        matrix.names,
        validation,
        (log_unit(rows, units), 0.0 if validation is None else log_unit(validation, units)),
        before,
        fresh._replace(solver=chosen.solver),
        saved,
    )
    found = climb(spec, task, running)._replace(n_levels=matrix.n_levels)
    return order_fitted(found, np.argsort(matrix.columns), categories.invert(matrix.coding))
