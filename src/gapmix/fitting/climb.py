"""All starts of a fit, the best of them kept, with a checkpoint if one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gapmix.em import checkpoint
from gapmix.em.records import Engine, Fit, Settings, Shards
from gapmix.em.repair import CollapseError
from gapmix.em.run import run
from gapmix.fitting import starting
from gapmix.fitting.fitted import Fitted, advise, to_fitted
from gapmix.fitting.progress import Report, reporting
from gapmix.fitting.spec import Running, Spec
from gapmix.fitting.starting import Start
from gapmix.plan import Plan
from gapmix.plan.rows import Rows
from gapmix.solvers import SOLVERS
from gapmix.structures.mixtures import parameters_to_internal
from gapmix.threads import open_engine
from gapmix.units import Scaling
from gapmix.wording import Advised


class Task(NamedTuple):
    """What a fit climbs on, from where, and what it is known by."""

    rows: Rows | Shards
    start_rows: Rows  # that starts are made from: all of them, or a sample
    seeds: tuple[np.random.SeedSequence, ...]  # of each start
    settings: Settings
    units: Scaling
    plan: Plan
    names: list[str]  # of the columns, for messages
    validation: Rows | None
    log_units: tuple[float, float]  # `matrix.log_unit` of the rows and of the validation rows
    before: Fitted | None  # the last solution, to continue from
    fresh: checkpoint.Saved  # identifies this fit to its checkpoint
    saved: checkpoint.Saved | None  # to go on from


def climb(spec: Spec, task: Task, running: Running) -> Fitted:
    """Climb from all starts and return the best fit."""
    origin = {"continues": task.before is not None, "validates": task.validation is not None}
    with (
        open_engine(running.n_jobs) as engine,
        reporting(
            running.verbose,
            running.verbose_interval,
            spec.n_init,
            n_components=spec.n_components,
            log_unit=task.log_units[0],
        ) as report,
        explaining_collapse(spec, task.names),
    ):
        starts: list[Callable[[], Start]]
        if task.before is not None:
            at = parameters_to_internal(task.before.parameters, task.units)
            starts = [lambda: Start(at)]
        else:
            begin = partial(starting.begin, spec, task.start_rows, task.units, engine)
            searched = starting.searches(spec, **origin)
            levels = task.settings.regularizer.levels
            starts = [
                partial(begin, seed, looks_around=searched, levels=levels) for seed in task.seeds
            ]
        best = _best_run(
            task,
            starts,
            engine,
            keep_start=starting.is_kept(spec, **origin),
            report=report,
            path=running.checkpoint,
        )
    fitted = to_fitted(best, task.units, task.plan, task.log_units)
    fitted = fitted._replace(rare=task.settings.regularizer.levels.rare)
    return fitted._replace(advice=advise(fitted, spec.tol))


def _best_run(
    task: Task,
    starts: Sequence[Callable[[], Start]],
    engine: Engine,
    *,
    keep_start: bool,
    report: Callable[[int], Report],
    path: Any,
) -> Fit:
    """Return the best run over all starts; from a checkpoint, go on where it stands."""
    saved = task.saved
    best = None if saved is None else saved.best
    resume = None if saved is None else saved.progress
    first = 0 if saved is None else saved.number
    writer = None if path is None else checkpoint.Writer(path, task.fresh)
    for number in range(first, len(starts)):
        start = starts[number]() if resume is None else Start(resume.state.parameters)
        done = run(
            SOLVERS[task.plan.solver],
            task.rows,
            start.parameters,
            task.settings,
            engine,
            keep_start=keep_start,
            events=start.events,
            validation=task.validation,
            callback=report(number),
            resume=resume,
            save=None if writer is None else writer.of_start(number, best),
        )
        resume = None
        if best is None or _final_value(done) > _final_value(best):
            best = done
    assert best is not None
    return best


def _final_value(run: Fit) -> float:
    """Return what starts are compared by: validation likelihood if there is one, else objective."""
    validation = [record.validation for record in run.history if record.validation is not None]
    return max(validation) if validation else run.history[-1].objective


class CollapsedFitError(ValueError):
    """A component collapsed and could not be repaired; the message says what to do."""


@contextmanager
def explaining_collapse(spec: Spec, names: list[str]) -> Iterator[None]:
    """Turn a collapse inside into an error that names component, column and remedies."""
    try:
        yield
    except CollapseError as error:
        column = "" if error.pivot is None else f" The column is {names[error.pivot]}."
        advice = (
            f"Increase reg_covar (now {spec.reg_covar:g}), lower n_components (now "
            f"{spec.n_components}), or leave out columns that repeat others."
        )
        raise CollapsedFitError(Advised(f"{error}{column}", "reg_covar", advice)) from error
