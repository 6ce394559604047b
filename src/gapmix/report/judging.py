"""How good the filling is: known cells of the table are hidden, filled and compared."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from gapmix.evaluate.compare import default_imputers, hide_and_score
from gapmix.evaluate.scores import Evaluation, Overall
from gapmix.report.subject import Subject, contender
from gapmix.selection.sizes import measure_spread

SHARE = 0.1  # of the known cells, hidden each time
MAX_ROWS = 2_000  # k-NN compares every row with every other
MAX_COLUMNS = 30  # regressions in turn take the cube of their number
ENOUGH_CELLS = 1_000  # hidden cells, after which there is no repeat
MAX_REPEATS = 3
SALT = 0x7265706F7274  # gaps that a user made with the same seed must not be the cells hidden
OURS = "mixture"


class ColumnJudged(NamedTuple):
    """How well the hidden cells of a column were filled."""

    column: int
    n_hidden: int
    errors: tuple[float, ...]  # by method, in standard deviations of the column
    coverage: float  # share of hidden cells inside their 90 % interval


class Judged(NamedTuple):
    """How well several methods filled hidden cells."""

    overall: tuple[Overall, ...]  # by method
    columns: tuple[ColumnJudged, ...]  # all that were judged, largest error of ours first
    n_hidden: int
    n_repeats: int
    n_rows: int  # of the table that was judged on
    n_columns: int


class NotJudged(NamedTuple):
    """Why nothing could be judged."""

    reason: str


def judge(subject: Subject) -> Judged | NotJudged:
    """Hide known cells and compare ways to fill them, the mixture with the report's settings."""
    x = subject.x
    spread = measure_spread(x)
    if (spread > 0).sum() < 2:
        return NotJudged(
            "Fewer than two columns vary, so there is nothing to tell a hidden cell from."
        )
    rng = np.random.default_rng([subject.seed, SALT])
    rows = np.flatnonzero(~np.isnan(x).all(axis=1))
    if len(rows) > MAX_ROWS:
        rows = np.sort(rng.choice(rows, MAX_ROWS, replace=False))
    n_missing = np.isnan(x).sum(axis=0)
    order = np.argsort(-np.where(spread > 0, n_missing, -1), kind="stable")
    columns = np.sort(order[: min(MAX_COLUMNS, int((spread > 0).sum()))])
    part = np.ascontiguousarray(x[np.ix_(rows, columns)])
    n_known = int((~np.isnan(part)).sum())
    n_repeats = int(np.clip(np.ceil(ENOUGH_CELLS / max(1.0, SHARE * n_known)), 1, MAX_REPEATS))
    seed = int(rng.integers(2**31))
    methods = default_imputers(seed)
    methods[OURS] = contender(subject.imputer, columns).set_params(random_state=seed)
    try:
        # Small matrices: threads of BLAS would only wait for each other.
        with threadpool_limits(1, user_api="blas"):
            evaluation = hide_and_score(
                part, methods, share=SHARE, n_repeats=n_repeats, random_state=seed
            )
    except ValueError as error:
        return NotJudged(str(error))
    return _gather(evaluation, columns)


def _gather(evaluation: Evaluation, columns: np.ndarray) -> Judged:
    overall = evaluation.overall()
    methods = [each.imputer for each in overall]
    judged = []
    for place, j in enumerate(columns):
        here = [score for score in evaluation.scores if score.column == str(place)]
        ours = [score for score in here if score.imputer == OURS]
        if not ours:
            continue
        cells = np.array([score.n_hidden for score in ours], dtype=float)
        errors = []
        for method in methods:
            squares = [score.error**2 for score in here if score.imputer == method]
            errors.append(float(np.sqrt(np.average(squares, weights=cells))))
        coverage = float(np.average([score.coverage_90 for score in ours], weights=cells))
        judged.append(ColumnJudged(int(j), int(cells.sum()), tuple(errors), coverage))
    place = methods.index(OURS)
    judged.sort(key=lambda each: -np.nan_to_num(each.errors[place], nan=np.inf))
    return Judged(
        overall,
        tuple(judged),
        overall[place].n_hidden,
        evaluation.n_repeats,
        *evaluation.shape,
    )
