"""How well a table's gaps can be filled, as `gapmix evaluate` shows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gapmix.cli.fitting import make_imputer, name_categories, rows_of
from gapmix.cli.reading import read_table, require_columns
from gapmix.cli.requests import Fitting, Reading, Watch
from gapmix.evaluate.compare import MAX_ROWS, hide_and_score
from gapmix.evaluate.contenders import beside_itself, default_imputers, leave_slow
from gapmix.evaluate.levels import Calibration
from gapmix.evaluate.ranking import Ranked
from gapmix.evaluate.scores import ALONE, COVERAGES, OURS, Evaluation, Overall
from gapmix.fitting.progress import Event, listening
from gapmix.selection.sizes import measure_spread
from gapmix.tables.dialect import TableError
from gapmix.tables.schema import CATEGORY, CallError, Note, feature_names, features
from gapmix.wording import quote


class MethodScore(NamedTuple):
    """How well one way of filling did."""

    method: str
    error: float  # root mean square, in standard deviations of the columns, mean of the repeats
    by_column: tuple[float, ...]  # the same for each column, the share of wrong levels for
    # categories; NaN where nothing was hidden
    coverage: tuple[float, ...]  # share of hidden cells inside the intervals; empty without any
    seconds: float  # of all repeats
    problem: str  # why there is no error; empty if all is well
    wrong: float = math.nan  # share of hidden cells of categories that got another level
    relative_wrong: float = math.nan  # the same, 1 for the most frequent level
    level_log_score: float = math.nan  # mean log probability of the true level
    sure: float = math.nan  # mean probability of the levels filled in
    weights: tuple[float, ...] = ()  # of the heads of the columns, if it is refined


class Evaluated(NamedTuple):
    """How well several ways of filling did on hidden cells of one table."""

    path: str
    n_rows: int
    n_hidden: int  # in all repeats
    repeats: int
    share: float
    columns: tuple[str, ...]
    coverages: tuple[float, ...]
    scores: tuple[MethodScore, ...]
    categories: tuple[str, ...] = ()  # of the columns
    calibration: tuple[Calibration, ...] = ()  # of the probabilities of the mixture
    ranking: tuple[Ranked, ...] = ()  # by error, best first, with standard errors
    level_ranking: tuple[Ranked, ...] = ()  # by the share of wrong levels
    verdict: str = ""  # both in words


def evaluate(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    watch: Watch,
    *,
    repeats: int = 3,
    share: float = 0.1,
    methods: tuple[str, ...] = (),
) -> Evaluated:
    """Hide a share of the known cells, several times, and compare ways to fill them.

    `methods` are those compared; none stands for all, except 'iterative' on very many columns.
    """
    chosen = _choose(methods, fitting)
    watch.plan("reading", *chosen * repeats)
    table = read_table(path, reading, watch)
    require_columns(table)
    schema, x = table.scan.schema, np.ascontiguousarray(table.scan.matrix)
    names, used = feature_names(schema), [schema.columns[j] for j in features(schema)]
    every_method, chosen = chosen, chosen if methods else leave_slow(chosen, len(names))
    if chosen != every_method:
        watch.plan(*chosen * repeats)
        text = f"iterative is left out: its regressions would take hours on {len(names):,} columns."
        watch.note(Note(f"{text} --methods {','.join(every_method)} compares all."))
    varies = measure_spread(x) > 0
    columns = [names[f] for f in np.flatnonzero(varies)]
    if not columns:
        raise TableError("No column varies, so there is nothing to compare.")
    mixed = any(column.kind == CATEGORY for column in used)
    named = name_categories(schema)
    ours = make_imputer(fitting).set_params(categorical_features=named)
    if len(x) > MAX_ROWS:
        watch.note(Note(f"Evaluated on {MAX_ROWS:,} rows drawn from {len(x):,}."))
    every = default_imputers(fitting.seed, mixed=named if mixed else False) | {OURS: ours}
    every = beside_itself(every)
    try:
        with _showing(watch, repeats, fitting.max_iter) as tell:
            found = hide_and_score(
                rows_of(table) if mixed else x,
                {name: every[name] for name in chosen},
                share=share,
                columns=columns,
                n_repeats=repeats,
                max_rows=MAX_ROWS,
                feature_names=names,
                categorical_features=named,
                random_state=fitting.seed,
                progress=tell,
            )
    except ValueError as error:
        raise TableError(str(error)) from error
    scores = _score_methods(found, columns)
    n_hidden = found.overall()[0].n_hidden
    return Evaluated(
        str(path),
        found.shape[0],
        n_hidden,
        repeats,
        share,
        tuple(columns),
        COVERAGES,
        scores,
        tuple(names[f] for f, c in enumerate(used) if c.kind == CATEGORY and varies[f]),
        tuple(found.calibration(OURS)),
        found.ranking(),
        found.ranking(levels=True),
        found.verdict(),
    )


def _choose(methods: tuple[str, ...], fitting: Fitting) -> tuple[str, ...]:
    """Return the methods asked for, in the order of the table of results; none asks for all."""
    known = tuple(beside_itself({**default_imputers(), OURS: make_imputer(fitting)}))
    for name in methods:
        if name not in known:
            raise CallError(f"--methods: {quote(name)} is not one of {', '.join(known)}.")
    return tuple(name for name in known if name in methods) or known


@contextmanager
def _showing(watch: Watch, repeats: int, max_iter: int) -> Iterator[Callable[[str, int], None]]:
    """Yield what hears which method begins and ends a repeat, and show how far it is."""
    at_work = ""

    def tell(method: str, done: int) -> None:
        nonlocal at_work
        at_work = "" if at_work else method
        if at_work:
            text = f"Filling by {method}, round {done + 1} of {repeats}"
            watch.stage(text, max_iter, part=method)

    def hear(event: Event) -> bool:
        return at_work in (ALONE, OURS) and watch.iteration(
            event
        )  # others count levels by a mixture of one

    def hear_steps(what: str, done: int, total: int) -> None:
        watch.piece(done, total, what)

    with listening(hear, hear_steps):
        yield tell


def _score_methods(found: Evaluation, columns: list[str]) -> tuple[MethodScore, ...]:
    parts = found.by_column()
    majority = next((each.wrong for each in found.overall() if each.imputer != OURS), np.nan)
    return tuple(
        MethodScore(
            each.imputer,
            each.error,
            tuple(_pick(parts[name][place]) if name in parts else np.nan for name in columns),
            (each.coverage_50, each.coverage_90) if np.isfinite(each.coverage_90) else (),
            each.seconds * found.n_repeats,
            each.problem,
            each.wrong,
            each.wrong / majority if majority > 0 else np.nan,
            each.level_log_score,
            each.sure,
            tuple(parts[name][place].weight if name in parts else np.nan for name in columns)
            if np.isfinite(each.weight)
            else (),
        )
        for place, each in enumerate(found.overall())
    )


def _pick(each: Overall) -> float:
    """Return the error of a column of numbers, the share of wrong levels of a category."""
    return each.error if np.isnan(each.wrong) else each.wrong
