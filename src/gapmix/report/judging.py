"""How good the filling is: known cells of the table are hidden, filled and compared."""

from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from gapmix.evaluate.compare import hide_and_score
from gapmix.evaluate.contenders import beside_itself, default_imputers
from gapmix.evaluate.levels import Calibration, Confusion
from gapmix.evaluate.scores import OURS, Evaluation, Overall
from gapmix.report.subject import Subject, contender
from gapmix.selection.sizes import measure_spread

SHARE = 0.1  # of the known cells, hidden each time
MAX_ROWS = 2_000  # a report is read after seconds, not minutes
MAX_COLUMNS = 30  # regressions in turn take the cube of their number
ENOUGH_CELLS = 1_000  # hidden cells, after which there is no repeat
MAX_REPEATS = 3


class Judged(NamedTuple):
    """How well several methods filled hidden cells."""

    evaluation: Evaluation  # its columns are called by their numbers
    ours: Overall
    by_column: dict[int, tuple[Overall, ...]]  # by method, numbers with the largest error first
    calibration: list[Calibration]  # of the levels that the mixture filled in
    confusions: dict[int, Confusion]  # by column, of the mixture, most wrong levels first


def judge(subject: Subject) -> Judged | str:
    """Hide known cells and compare ways to fill them, the mixture with the report's settings.

    Returns why, if nothing could be judged.
    """
    x = subject.x
    spread = measure_spread(x)
    if (spread > 0).sum() < 2:
        return "Fewer than two columns vary, so there is nothing to fill a hidden cell from."
    n_missing = np.isnan(x).sum(axis=0)
    order = np.argsort(-np.where(spread > 0, n_missing, -1), kind="stable")
    columns = np.sort(order[: min(MAX_COLUMNS, int((spread > 0).sum()))])
    part = np.ascontiguousarray(x[:, columns])
    n_known = (~np.isnan(part)).sum() * min(1.0, MAX_ROWS / len(part))
    n_repeats = int(np.clip(np.ceil(ENOUGH_CELLS / max(1.0, SHARE * n_known)), 1, MAX_REPEATS))
    categories = [place for place, j in enumerate(columns.tolist()) if j in subject.levels]
    methods = default_imputers(subject.seed, mixed=categories or False)
    ours = contender(subject.imputer, columns, categories)
    methods[OURS] = ours.set_params(random_state=subject.seed)
    methods = beside_itself(methods)
    try:
        # Small matrices: threads of BLAS would only wait for each other.
        with threadpool_limits(1, user_api="blas"):
            evaluation = hide_and_score(
                part,
                methods,
                share=SHARE,
                n_repeats=n_repeats,
                max_rows=MAX_ROWS,
                feature_names=[str(j) for j in columns],
                categorical_features=categories or None,
                random_state=subject.seed,
                progress=lambda name, done: subject.progress(
                    f"Filling hidden cells by {name}, {done} of {n_repeats} rounds done"
                ),
            )
    except ValueError as error:
        return str(error)
    overall = evaluation.overall()
    place = [each.imputer for each in overall].index(OURS)
    if not np.isfinite(overall[place].error) and not np.isfinite(overall[place].wrong):
        return overall[place].problem or "No column varies in the rows that were used for this."
    hardest = sorted(
        evaluation.by_column().items(), key=lambda item: -np.nan_to_num(item[1][place].error)
    )
    return Judged(
        evaluation,
        overall[place],
        {int(column): them for column, them in hardest},
        evaluation.calibration(OURS),
        _confusions(evaluation, subject),
    )


def _confusions(evaluation: Evaluation, subject: Subject) -> dict[int, Confusion]:
    """Return which levels of each category the mixture took for which, under their own names."""
    found = {}
    for column in {each.column for each in evaluation.cells if each.imputer == OURS}:
        table, levels = evaluation.confusion(OURS, column), subject.levels[int(column)]
        named = tuple(levels[int(float(code))] for code in table.levels)
        found[int(column)] = table._replace(levels=named)
    wrong = {j: 1.0 - np.trace(t.counts) / t.counts.sum() for j, t in found.items()}
    return {j: found[j] for j in sorted(found, key=lambda j: (-wrong[j], j))}
