"""All starts of a fit, the best of them kept, with a checkpoint if one is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from gapmix.em import checkpoint
from gapmix.em.records import Engine, Fit, Settings, Shards
from gapmix.em.run import run
from gapmix.estimators import options, starting
from gapmix.estimators.progress import Report, reporting
from gapmix.estimators.starting import Start
from gapmix.estimators.warning import warn_user
from gapmix.plan.planner import Plan
from gapmix.plan.rows import Rows
from gapmix.solvers import SOLVERS
from gapmix.threads import open_engine
from gapmix.units import Scaling

# What may change when a fit goes on: where it runs, how long, and what it reports.
FREE = {"engine", "n_jobs", "checkpoint", "verbose", "verbose_interval", "max_iter", "tol"}
FREE |= {"random_state", "weights_init", "means_init", "precisions_init"}  # in the file already


def identify(estimator: Any, units: Scaling, total_weight: float) -> dict[str, Any]:
    """Return what a checkpoint must agree with: settings and data, in short."""
    digest = hashlib.sha256(np.float64(total_weight).tobytes())
    for array in units:
        digest.update(np.ascontiguousarray(array).tobytes())
    settings = {
        name: repr(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in FREE
    }
    return {**settings, "columns": len(units.scale), "data": digest.hexdigest()[:16]}


def begin(estimator: Any) -> tuple[checkpoint.Saved | None, tuple[int, ...]]:
    """Return the checkpoint to go on from, if there is one, and the entropy of the fit's seeds."""
    saved = None if estimator.checkpoint is None else checkpoint.load(estimator.checkpoint)
    if saved is not None:
        return saved, saved.entropy
    random = check_random_state(estimator.random_state)
    return None, tuple(random.randint(0, 2**31, size=4).tolist())


class Task(NamedTuple):
    """What a fit climbs on, from where, and what it is known by."""

    rows: Rows | Shards
    start_rows: Rows  # that starts are made from: all of them, or a sample
    seeds: tuple[np.random.SeedSequence, ...]  # of each start
    settings: Settings
    validation: Rows | None
    log_units: tuple[float, float]  # `options.log_unit` of the rows and of the validation rows
    continues: bool  # from the parameters that the estimator has
    fresh: checkpoint.Saved  # identifies this fit to its checkpoint
    saved: checkpoint.Saved | None  # to go on from


def fit(estimator: Any, task: Task, units: Scaling, chosen: Plan, names: list[str]) -> None:
    """Climb from all starts, store the best in the estimator, and warn if it did not converge."""
    search = starting.searches(
        estimator, continues=task.continues, validates=task.validation is not None
    )
    with (
        open_engine(estimator.n_jobs) as engine,
        reporting(
            estimator.verbose,
            estimator.verbose_interval,
            estimator.n_init,
            n_components=estimator.n_components,
            log_unit=task.log_units[0],
        ) as report,
        options.explaining_collapse(estimator, names),
    ):
        best = climb(
            chosen.solver,
            task.rows,
            [
                partial(
                    starting.begin, estimator, task.start_rows, units, engine, seed, search=search
                )
                for seed in task.seeds
            ],
            task.settings,
            engine,
            keep_start=task.continues or search or options.is_whole_start_given(estimator),
            validation=task.validation,
            report=report,
            path=estimator.checkpoint,
            fresh=task.fresh,
            saved=task.saved,
        )
        history = options.history_to_user(best.history, *task.log_units)
        estimator._store(best._replace(history=history), units, chosen)
    if not best.converged and estimator.tol > 0:
        # advice names gains, which units do not change
        warn_user(options.advise(best, estimator.tol), ConvergenceWarning)


def climb(
    solver: str,
    rows: Rows | Shards,
    starts: Sequence[Callable[[], Start]],
    settings: Settings,
    engine: Engine,
    *,
    keep_start: bool,
    validation: Rows | None,
    report: Callable[[int], Report],
    path: Any = None,
    fresh: checkpoint.Saved | None = None,
    saved: checkpoint.Saved | None = None,
) -> Fit:
    """Return the best fit over all starts; with `saved`, go on from there.

    `fresh` identifies this fit to the checkpoint at `path`.
    """
    best = None if saved is None else saved.best
    resume = None if saved is None else saved.progress
    first = 0 if saved is None else saved.number
    writer = None if path is None or fresh is None else checkpoint.Writer(path, fresh)
    for number in range(first, len(starts)):
        start = starts[number]() if resume is None else Start(resume.state.parameters)
        fit = run(
            SOLVERS[solver],
            rows,
            start.parameters,
            settings,
            engine,
            keep_start=keep_start,
            events=start.events,
            validation=validation,
            callback=report(number),
            resume=resume,
            save=None if writer is None else writer.of_start(number, best),
        )
        resume = None
        if best is None or options.final_value(fit) > options.final_value(best):
            best = fit
    assert best is not None
    return best
