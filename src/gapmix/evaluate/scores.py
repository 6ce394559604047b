"""What came of hiding cells: a record for each imputer, repeat and column, and tables of them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from gapmix.evaluate.levels import Calibration, Confusion, LevelCells, calibrate, confuse
from gapmix.evaluate.ranking import Ranked, RowErrors, rank, tell
from gapmix.selection.hiding import MECHANISMS
from gapmix.wording import align, count

COVERAGES = (0.5, 0.9)  # of the intervals that are judged
OURS = "mixture"  # what contenders call it
ALONE = "mixture alone"  # the same without its heads, if it has some


class Score(NamedTuple):
    """How one imputer filled the hidden cells of one column, once.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.impute import SimpleImputer
    >>> from gapmix.evaluate import hide_and_score
    >>> result = hide_and_score(load_iris().data, {"mean": SimpleImputer()}, random_state=0)
    >>> first = result.scores[0]
    >>> first.imputer, first.repeat, first.column, round(first.error)
    ('mean', 0, '0', 1)
    """

    imputer: str
    repeat: int
    column: str
    n_hidden: int
    error: float  # root mean square error, in standard deviations of the column
    rmse: float  # the same in the column's units
    log_score: float  # mean log density of a hidden cell, the column scaled to variance 1
    coverage_50: float  # share of hidden cells inside their 50 % interval
    coverage_90: float
    seconds: float  # of fit_transform, for the whole table
    problem: str  # why there are no numbers; empty if all is well
    wrong: float = np.nan  # share of hidden cells of a category that got another level; it has no
    # error, and a log score without units
    sure: float = np.nan  # mean probability of the levels filled in; 1 - wrong if it is right
    weight: float = np.nan  # of the head of the column, if the imputer refines


class Overall(NamedTuple):
    """How one imputer filled all hidden cells, or those of a column: means over the repeats.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.impute import SimpleImputer
    >>> from gapmix.evaluate import hide_and_score
    >>> result = hide_and_score(load_iris().data, {"mean": SimpleImputer()}, random_state=0)
    >>> [(each.imputer, round(each.error)) for each in result.overall()]
    [('mean', 1)]
    """

    imputer: str
    n_hidden: int
    error: float
    error_spread: float  # standard deviation between repeats; NaN if there was only one
    log_score: float
    coverage_50: float
    coverage_90: float
    seconds: float
    problem: str
    wrong: float = np.nan  # of categories, the share of hidden cells that got another level
    sure: float = np.nan  # and the mean probability of the levels filled in
    level_log_score: float = np.nan  # and the mean log probability of the true level
    weight: float = np.nan  # of heads, if the imputer refines


class Evaluation(NamedTuple):
    """What `hide_and_score` found.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.impute import SimpleImputer
    >>> from gapmix.evaluate import hide_and_score
    >>> result = hide_and_score(load_iris().data, {"mean": SimpleImputer()}, n_repeats=2)
    >>> result.mechanism, result.n_repeats, result.shape, len(result.scores)
    ('mcar', 2, (150, 4), 8)
    """

    scores: tuple[Score, ...]  # one for each imputer, repeat and column with hidden cells
    mechanism: str
    n_repeats: int
    shape: tuple[int, int]
    cells: tuple[LevelCells, ...] = ()  # hidden cells of categories
    rows: tuple[RowErrors, ...] = ()  # what each imputer missed in each row, each time

    def __repr__(self) -> str:
        """Return what `summary` does: the records would fill many screens."""
        return self.summary()

    def overall(self) -> tuple[Overall, ...]:
        """Return one record for each imputer, in the order in which they were given."""
        return tuple(_gather(scores) for scores in _group(self.scores, "imputer").values())

    def by_column(self) -> dict[str, tuple[Overall, ...]]:
        """Return the same for each column of which cells were hidden."""
        return {
            column: self._replace(scores=tuple(scores)).overall()
            for column, scores in _group(self.scores, "column").items()
        }

    def ranking(self, *, levels: bool = False) -> tuple[Ranked, ...]:
        """Return imputers by their error, best first, with standard errors over the rows.

        With `levels` by the share of wrong levels of categories. Those that failed are left out.
        """
        return rank(self.rows, levels=levels)

    def verdict(self) -> str:
        """Return in words what fills the table best, by how much, and whether that is sure.

        A difference is sure if it is over two of its standard errors.
        """
        numbers, levels = self.ranking(), self.ranking(levels=True)
        mixed = bool(numbers and levels)
        parts = (
            tell(numbers, "the numbers of this table" if mixed else "this table", OURS),
            tell(levels, "its categories" if mixed else "this table", OURS, levels=True),
        )
        return " ".join(part for part in parts if part)

    def calibration(self, imputer: str) -> list[Calibration]:
        """Return how often the levels that an imputer filled in are right, by probability."""
        return calibrate(each for each in self.cells if each.imputer == imputer)

    def confusion(self, imputer: str, column: str) -> Confusion:
        """Return which levels of a category an imputer took for which."""
        found = [e for e in self.cells if e.imputer == imputer and e.column == column]
        if not found:
            raise ValueError(f"{imputer!r} filled no hidden level of a category {column!r}.")
        return confuse(found)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the scores as dicts."""
        return [score._asdict() for score in self.scores]

    def to_frame(self) -> Any:
        """Return the scores as a pandas data frame or, without pandas, as a list of dicts."""
        columns = {name: [getattr(score, name) for score in self.scores] for name in Score._fields}
        try:
            return nw.from_dict(columns, backend="pandas").to_native()
        except ImportError:
            return self.to_dicts()

    def summary(self) -> str:
        """Return a table as text, a line for each imputer, best first, and the verdict."""
        head: tuple[str, ...] = ("", "error", "+-", "log score", "in 50 %", "in 90 %", "seconds")
        ranked = sorted(self.overall(), key=lambda each: (np.isnan(each.error), each.error))
        mixed = any(not np.isnan(each.wrong) for each in ranked)
        lines = [(*head, "wrong levels") if mixed else head]
        for each in ranked:
            wrong = (_show(100 * each.wrong, 1, " %"),) if mixed else ()
            lines.append(
                (
                    each.imputer,
                    _show(each.error, 3),
                    _show(each.error_spread, 3),
                    _show(each.log_score, 2),
                    _show(100 * each.coverage_50, 0, " %"),
                    _show(100 * each.coverage_90, 0, " %"),
                    _show(each.seconds, 2),
                    *wrong,
                )
            )
        n, d = self.shape
        title = (
            f"{n:,} rows x {d:,} columns, {count(self.n_repeats, 'repeat')}; hidden: "
            f"{MECHANISMS[self.mechanism]}.\n"
            "Error in standard deviations of the columns; log score of columns with variance 1."
        )
        problems = [f"{each.imputer}: {each.problem}" for each in ranked if each.problem]
        verdict = self.verdict()
        ends = [*([""] if problems else []), *problems, *(["", verdict] if verdict else [])]
        return "\n".join([title, "", align(lines), *ends])


def _group(scores: Iterable[Score], field: str) -> dict[str, list[Score]]:
    groups: dict[str, list[Score]] = {}
    for score in scores:
        groups.setdefault(getattr(score, field), []).append(score)
    return groups


def _gather(scores: list[Score]) -> Overall:
    """Return the means of an imputer's scores over columns, weighted by cells, and repeats."""
    n_hidden = np.array([score.n_hidden for score in scores], dtype=float)
    repeat = np.array([score.repeat for score in scores])
    errors = []
    for number in np.unique(repeat):
        here = repeat == number
        squares = np.array([score.error for score in scores])[here] ** 2
        varies = ~np.isnan(squares) | np.array([bool(score.problem) for score in scores])[here]
        # A failed column leaves no error at all: without it, the others would look too good.
        mean = (
            np.average(squares[varies], weights=n_hidden[here][varies]) if varies.any() else np.nan
        )
        errors.append(np.sqrt(mean))
    problems = list(dict.fromkeys(score.problem for score in scores if score.problem))
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Overall(
        scores[0].imputer,
        int(n_hidden.sum()),
        float(np.mean(errors)),
        float(np.std(errors, ddof=1)) if len(errors) > 1 else np.nan,
        _weighted([score.log_score for score in scores], n_hidden),
        _weighted([score.coverage_50 for score in scores], n_hidden),
        _weighted([score.coverage_90 for score in scores], n_hidden),
        float(np.mean(list({score.repeat: score.seconds for score in scores}.values()))),
        problems[0] + more if problems else "",
        _weighted([score.wrong for score in scores], n_hidden),
        _weighted([score.sure for score in scores], n_hidden),
        _weighted(
            [np.nan if np.isnan(score.wrong) else score.log_score for score in scores], n_hidden
        ),
        _weighted([score.weight for score in scores], n_hidden),
    )


def _weighted(values: list[float], weight: np.ndarray) -> float:
    """Return the mean of the values that are there, NaN if none is."""
    array = np.array(values)
    there = ~np.isnan(array)
    return float(np.average(array[there], weights=weight[there])) if there.any() else np.nan


def _show(value: float, digits: int, unit: str = "") -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}{unit}"
