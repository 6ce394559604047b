"""How well a table's gaps can be filled: hide known cells, fill them in several ways, compare."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

from gapmix.cli.fitting import make_imputer, telling
from gapmix.cli.reading import read_table, require_numbers
from gapmix.cli.requests import Fitting, Reading, Watch
from gapmix.fitting.progress import listening
from gapmix.tables.dialect import TableError
from gapmix.tables.frames import named_rows
from gapmix.tables.schema import NUMBER, Note, feature_names, features

METHODS = ("mean", "k-NN", "iterative", "mixture")
COVERAGES = (0.5, 0.9)
SALT = 0x6761706D6978
MAX_ROWS = 5000  # k-NN compares every row with every other


class MethodScore(NamedTuple):
    """How well one way of filling did."""

    method: str
    error: float  # root mean square, in standard deviations of the columns, over all hidden cells
    by_column: tuple[float, ...]  # the same for each column; NaN where nothing was hidden
    coverage: tuple[float, ...]  # share of hidden cells inside the intervals; empty without any
    seconds: float  # of all repeats


class Evaluation(NamedTuple):
    """How well several ways of filling did on hidden cells of one table."""

    path: str
    n_rows: int
    n_hidden: int  # in all repeats
    repeats: int
    share: float
    columns: tuple[str, ...]
    coverages: tuple[float, ...]
    scores: tuple[MethodScore, ...]


class _Outcome(NamedTuple):
    """Filled cells of one repeat, in standard deviations."""

    error: np.ndarray  # (h,)
    inside: tuple[np.ndarray, ...]  # (h,) bool for each coverage
    seconds: float


def evaluate(
    path: str | Path,
    reading: Reading,
    fitting: Fitting,
    watch: Watch,
    *,
    repeats: int = 3,
    share: float = 0.1,
) -> Evaluation:
    """Hide a share of the known cells, several times, and compare ways to fill them."""
    table = read_table(path, reading, watch)
    require_numbers(table)
    schema, x = table.scan.schema, np.ascontiguousarray(table.scan.matrix)
    names = feature_names(schema)
    # Salted: gaps that a user made with the same seed must not be the very cells that are drawn.
    rng = np.random.default_rng([fitting.seed, SALT])
    if len(x) > MAX_ROWS:
        watch.note(Note(f"Evaluated on {MAX_ROWS:,} rows drawn from {len(x):,}."))
        x = x[np.sort(rng.choice(len(x), MAX_ROWS, replace=False))]
    numeric = [
        f for f, each in enumerate(features(schema)) if schema.columns[each.column].kind == NUMBER
    ]
    varies = np.array([f for f in numeric if np.nanstd(x[:, f]) > 0], dtype=int)
    if not varies.size:
        raise TableError("No column of numbers varies, so there is nothing to compare.")
    hidden = [_hide(x, varies, share, rng) for _ in range(repeats)]
    scores = []
    for method in METHODS:
        outcomes = []
        watch.stage(f"Filling by {method}", repeats, "repeats")
        for number, cells in enumerate(hidden):
            outcomes.append(_fill_hidden(method, x, cells, names, fitting, number, watch))
            watch.step(number + 1)
        scores.append(_summarise(method, outcomes, hidden, varies))
    return Evaluation(
        str(path),
        len(x),
        int(sum(cells.sum() for cells in hidden)),
        repeats,
        share,
        tuple(names[f] for f in varies),
        COVERAGES,
        tuple(scores),
    )


def _hide(x: np.ndarray, columns: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return True for known cells to hide, (n, d); every row and column keeps one."""
    known = ~np.isnan(x)
    allowed = np.zeros(x.shape[1], dtype=bool)
    allowed[columns] = True
    hidden: np.ndarray = known & allowed & (rng.random(x.shape) < share)
    bare = np.flatnonzero(hidden.any(axis=1) & (hidden == known).all(axis=1))
    hidden[bare, hidden[bare].argmax(axis=1)] = False
    lost = np.flatnonzero(hidden.any(axis=0) & ((known & ~hidden).sum(axis=0) < 2))
    hidden[:, lost] = False
    if not hidden.any():
        raise TableError(
            f"The table is too small to hide {100 * share:g} % of its known cells: none was drawn. "
            "Give a larger --share."
        )
    return hidden


def _fill_hidden(
    method: str,
    x: np.ndarray,
    hidden: np.ndarray,
    names: list[str],
    fitting: Fitting,
    number: int,
    watch: Watch,
) -> _Outcome:
    shown = np.where(hidden, np.nan, x)
    row, column = np.nonzero(hidden)
    spread = np.nanstd(x, axis=0)[column]
    began = time.perf_counter()
    inside: tuple[np.ndarray, ...] = ()
    with telling(_Muted(watch)), listening(watch.iteration):
        if method == "mixture":
            imputer = make_imputer(fitting._replace(seed=fitting.seed + number))
            imputer.fit(named_rows(shown, names))
            rows = np.flatnonzero(hidden.any(axis=1))
            filled = x.copy()
            asked = named_rows(shown[rows], names)
            filled[rows] = imputer.transform(asked)
            seconds = time.perf_counter() - began
            place = np.searchsorted(rows, row), column
            for coverage in COVERAGES:
                low, high = imputer.intervals(asked, coverage)
                inside += ((x[row, column] >= low[place]) & (x[row, column] <= high[place]),)
        else:
            scaler = StandardScaler().fit(shown)
            filled = scaler.inverse_transform(
                _peer(method, fitting).fit_transform(scaler.transform(shown))
            )
            seconds = time.perf_counter() - began
    return _Outcome((filled[row, column] - x[row, column]) / spread, inside, seconds)


def _peer(method: str, fitting: Fitting) -> Any:
    if method == "mean":
        return SimpleImputer(keep_empty_features=True)
    if method == "k-NN":
        return KNNImputer(n_neighbors=10, weights="distance", keep_empty_features=True)
    return IterativeImputer(max_iter=20, random_state=fitting.seed, keep_empty_features=True)


def _summarise(
    method: str, outcomes: list[_Outcome], hidden: list[np.ndarray], columns: np.ndarray
) -> MethodScore:
    error = np.concatenate([outcome.error for outcome in outcomes])
    column = np.concatenate([np.nonzero(cells)[1] for cells in hidden])
    by_column = [
        float(np.sqrt(np.mean(error[column == f] ** 2))) if (column == f).any() else np.nan
        for f in columns
    ]
    coverage = [
        float(np.mean(np.concatenate(parts)))
        for parts in zip(*(outcome.inside for outcome in outcomes), strict=True)
    ]
    return MethodScore(
        method,
        float(np.sqrt(np.mean(error**2))),
        tuple(by_column),
        tuple(coverage),
        sum(outcome.seconds for outcome in outcomes),
    )


class _Muted:
    """A watch that passes on iterations and drops notes, said already of the whole table."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def note(self, note: Note) -> None:
        """Drop it."""

    def stage(self, text: str, total: int | None = None, unit: str = "rows") -> None:
        """Drop it."""

    def step(self, done: int) -> None:
        """Drop it."""

    def iteration(self, event: Any) -> bool:
        """Pass it on."""
        return self._watch.iteration(event)

    def piece(self, done: int, total: int) -> None:
        """Drop it."""
