"""How well gaps are filled on a given table: hide known cells, fill them, compare.

Which imputer is best, and whether its intervals are right, depends on the table. What can be told
from it is told here: cells whose values are known are hidden, by chance or by a rule, and every
contender fills them without having seen them.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  unlocks the next import
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from gapmix.estimators import checks
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.validation import read_table, to_matrix
from gapmix.evaluate.scores import Evaluation, Score
from gapmix.selection.hiding import MECHANISMS, hide
from gapmix.selection.sizes import measure_spread

COVERAGES = (0.5, 0.9)
CHANGED = 1e-6  # standard deviations by which a known value may differ and still count as kept


def default_imputers(random_state: Any = None) -> dict[str, Any]:
    """Return the usual contenders: column means, near rows, regressions in turn, the mixture.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Seed of those that draw.

    Returns
    -------
    dict
        Name to transformer, for `hide_and_score`; add your own to it.

    Examples
    --------
    >>> from gapmix.evaluate import default_imputers
    >>> list(default_imputers())
    ['mean', 'k-NN', 'iterative', 'mixture']
    """
    return {
        "mean": SimpleImputer(keep_empty_features=True),
        "k-NN": _Scaled(KNNImputer(keep_empty_features=True)),
        "iterative": IterativeImputer(keep_empty_features=True, random_state=random_state),
        "mixture": GaussianMixtureImputer(random_state=random_state),
    }


def hide_and_score(
    X: Any,
    imputers: Mapping[str, Any] | None = None,
    *,
    mechanism: str = "mcar",
    share: float = 0.2,
    driver: Any = None,
    n_repeats: int = 5,
    random_state: Any = None,
) -> Evaluation:
    """Hide known cells of a table, have imputers fill them, and tell how well they did.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)
        The table; it may have gaps.
    imputers : dict or None, default=None
        Contenders, name to transformer with `fit_transform`; they are not changed. pandas and
        polars frames reach them as frames. None takes `default_imputers()`.
    mechanism : {'mcar', 'patterns', 'mar'}, default='mcar'
        What is hidden: any known cell with the same chance; in each row, what is missing in
        another one drawn at random, which mimics the real gaps; or, for 'mar', cells of the rows
        with large values in the column `driver`, which stays known itself.
    share : float, default=0.2
        Share of the known cells that is hidden, by 'mcar' and 'mar'.
    driver : column name or number, default=None
        For 'mar'; by default the column with the fewest gaps.
    n_repeats : int, default=5
        How often cells are hidden and filled anew. All imputers see the same tables.
    random_state : int, RandomState instance or None, default=None
        Seed of what is hidden, and of the default imputers.

    Returns
    -------
    Evaluation
        `summary()` is a table as text, `to_frame()` all scores in a data frame, `overall()` a
        record for each imputer; `gapmix.plots.plot_hide_and_score` draws it.

    Notes
    -----
    Interval coverage is given for imputers with `intervals(X, coverage)`, the log score for those
    with `score_samples(X)`: each hidden cell by itself, given what its row shows. Guessing a
    column's mean and variance scores about -1.42.

    An imputer that fails, drops a column, leaves a gap or changes known values is reported so in
    `problem`, and has no error. Warnings of contenders are not shown. Every row and column keeps
    some known value.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.impute import SimpleImputer
    >>> from gapmix import GaussianMixtureImputer
    >>> from gapmix.evaluate import hide_and_score
    >>> contenders = {"mean": SimpleImputer(), "mixture": GaussianMixtureImputer(2)}
    >>> result = hide_and_score(load_iris().data, contenders, n_repeats=2, random_state=0)
    >>> [(each.imputer, round(each.error, 1)) for each in result.overall()]
    [('mean', 1.0), ('mixture', 0.4)]
    """
    _check(mechanism, share, imputers)
    checks.check_positive_int("n_repeats", n_repeats)
    random = check_random_state(random_state)
    reader = GaussianMixtureImputer()  # only to remember the columns' names
    x = read_table(reader, X, reset=True, min_rows=2)
    table = _Table(x, _list_names(X, x.shape[1]), _rebuilder(X))
    if imputers is None:
        imputers = default_imputers(int(random.randint(2**31)))
    place = _find_driver(driver, table) if mechanism == "mar" else 0
    scores: list[Score] = []
    for repeat in range(n_repeats):
        rng = np.random.default_rng(random.randint(0, 2**31, size=4))
        hidden = hide(x, mechanism, rng, share=share, driver=place)
        if not hidden.any():
            raise ValueError(_explain_nothing_hidden(x, mechanism, share))
        for name, imputer in imputers.items():
            scores.extend(_score(str(name), imputer, repeat, table, hidden))
    ordered = sorted(scores, key=lambda score: list(map(str, imputers)).index(score.imputer))
    return Evaluation(tuple(ordered), mechanism, n_repeats, (x.shape[0], x.shape[1]))


# -------------------------------------------------------------------- one contender


class _Table(NamedTuple):
    """The table: its values, and how to give it to contenders."""

    x: np.ndarray  # (n, d), NaN where missing
    names: list[str]
    rebuild: Callable[[np.ndarray, np.ndarray], Any]  # values, row numbers -> a table like X


class _Guesses(NamedTuple):
    """What a contender gave, column by column; NaN where it gave nothing."""

    filled: np.ndarray  # (n, d)
    log_score: np.ndarray  # (d,)
    coverage: np.ndarray  # (2, d)
    problems: list[str]  # (d,)


class _Scaled(TransformerMixin, BaseEstimator):
    """An imputer at work in columns scaled to variance 1, back in the columns' units after."""

    def __init__(self, imputer: Any) -> None:
        self.imputer = imputer

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Return X filled."""
        x = np.asarray(to_matrix(X), dtype=float)
        scaler = StandardScaler().fit(x)
        filled = clone(self.imputer).fit_transform(scaler.transform(x))
        return np.where(np.isnan(x), scaler.inverse_transform(filled), x)


def _score(name: str, imputer: Any, repeat: int, table: _Table, hidden: np.ndarray) -> list[Score]:
    """Return how a contender fills the hidden cells, by column."""
    x = table.x
    d = x.shape[1]
    spread = measure_spread(x)
    shown = np.where(hidden, np.nan, x)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            contender = clone(imputer) if hasattr(imputer, "get_params") else copy.deepcopy(imputer)
            result = contender.fit_transform(table.rebuild(shown, np.arange(len(x))))
            seconds = time.perf_counter() - began
            filled, problems = _read_result(result, contender, shown, hidden, table, spread)
            guesses = _Guesses(
                filled,
                _log_scores(contender, table, shown, hidden, spread),
                _coverages(contender, table, shown, hidden),
                problems,
            )
    except Exception as error:  # whatever goes wrong in a contender is a result, not the end
        seconds = time.perf_counter() - began
        lines = str(error).strip().splitlines()
        problem = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
        nothing = np.full((2, d), np.nan)
        guesses = _Guesses(np.full_like(x, np.nan), nothing[0], nothing, [problem] * d)
    scores = []
    for j in np.flatnonzero(hidden.any(axis=0)):
        cells = hidden[:, j]
        rmse = float(np.sqrt(np.mean((guesses.filled[cells, j] - x[cells, j]) ** 2)))
        if guesses.problems[j]:
            rmse = np.nan
        scores.append(
            Score(
                name,
                repeat,
                table.names[j],
                int(cells.sum()),
                rmse / spread[j] if spread[j] > 0 else np.nan,
                rmse,
                float(guesses.log_score[j]),
                float(guesses.coverage[0, j]),
                float(guesses.coverage[1, j]),
                seconds,
                guesses.problems[j],
            )
        )
    return scores


def _read_result(
    result: Any,
    contender: Any,
    shown: np.ndarray,
    hidden: np.ndarray,
    table: _Table,
    spread: np.ndarray,
) -> tuple[np.ndarray, list[str]]:
    """Return the filled table (n, d), and for each column what is wrong with it, if anything."""
    values = np.asarray(to_matrix(result), dtype=float)
    n, d = shown.shape
    if values.ndim != 2 or len(values) != n:
        raise ValueError(f"it returned shape {values.shape} for a table of shape {(n, d)}")
    places = _find_columns(result, contender, values.shape[1], table)
    filled = np.full((n, d), np.nan)
    problems = [""] * d
    for j, place in enumerate(places):
        if place is None:
            problems[j] = f"column {table.names[j]!r} was dropped"
            continue
        filled[:, j] = values[:, place]
        n_left = int(np.isnan(filled[hidden[:, j], j]).sum())
        if n_left:
            problems[j] = f"{n_left} gaps of column {table.names[j]!r} were left"
        known = ~np.isnan(shown[:, j])
        allowed = CHANGED * spread[j] + 1e-12 * np.abs(shown[:, j])
        changed = known & ~(np.abs(filled[:, j] - shown[:, j]) <= allowed)
        if changed.any():
            row = int(np.flatnonzero(changed)[0])
            problems[j] = (
                f"known values of column {table.names[j]!r} were changed "
                f"({shown[row, j]:g} into {filled[row, j]:g} in row {row})"
            )
    return filled, problems


def _find_columns(result: Any, contender: Any, n_columns: int, table: _Table) -> list[int | None]:
    """Return where the columns of the table are in a result; None for one that was dropped.

    Columns after those of the table, as indicators of gaps are, do not matter.
    """
    d = len(table.names)
    if n_columns >= d:
        return list(range(d))
    if nw.dependencies.is_into_dataframe(result):
        found = [str(name) for name in nw.from_native(result).columns]
    elif hasattr(contender, "get_feature_names_out"):
        found = [str(name) for name in contender.get_feature_names_out()]
    else:
        found = []
    wanted = table.names if set(found) & set(table.names) else [f"x{j}" for j in range(d)]
    if len(found) != n_columns or not set(found) <= set(wanted):
        raise ValueError(f"it returned {n_columns} of {d} columns, and does not say which")
    return [found.index(name) if name in found else None for name in wanted]


def _log_scores(
    contender: Any, table: _Table, shown: np.ndarray, hidden: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Return the mean log density of the hidden cells of each column, (d,), NaN if not offered.

    log p(cell | shown) = log p(shown and cell) - log p(shown), one cell at a time.
    """
    scores = np.full(shown.shape[1], np.nan)
    if not hasattr(contender, "score_samples"):
        return scores
    everything = np.asarray(contender.score_samples(table.rebuild(shown, np.arange(len(shown)))))
    for j in np.flatnonzero(hidden.any(axis=0) & (spread > 0)):
        rows = np.flatnonzero(hidden[:, j])
        with_cell = shown[rows]
        with_cell[:, j] = table.x[rows, j]
        gain = np.asarray(contender.score_samples(table.rebuild(with_cell, rows)))
        scores[j] = np.mean(gain - everything[rows]) + np.log(spread[j])
    return scores


def _coverages(contender: Any, table: _Table, shown: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Return the share of hidden cells inside their intervals, (2, d), NaN if not offered."""
    shares = np.full((len(COVERAGES), shown.shape[1]), np.nan)
    if not hasattr(contender, "intervals"):
        return shares
    given = table.rebuild(shown, np.arange(len(shown)))
    judged = np.flatnonzero(hidden.any(axis=0))
    for number, coverage in enumerate(COVERAGES):
        low, high = (np.asarray(to_matrix(end)) for end in contender.intervals(given, coverage))
        inside = (low <= table.x) & (table.x <= high)
        shares[number, judged] = [inside[hidden[:, j], j].mean() for j in judged]
    return shares


# -------------------------------------------------------------------- the table


def _list_names(X: Any, d: int) -> list[str]:
    if nw.dependencies.is_into_dataframe(X):
        return [str(name) for name in getattr(X, "column_names", getattr(X, "columns", ()))]
    return [str(j) for j in range(d)]


def _rebuilder(X: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    """Return a function that makes a table like X from values and the numbers of their rows."""
    if not nw.dependencies.is_into_dataframe(X):
        return lambda values, rows: values.copy()
    if hasattr(X, "iloc"):
        return lambda values, rows: _rebuild_pandas(X, values, rows)
    frame = nw.from_native(X, eager_only=True)
    return lambda values, rows: nw.from_numpy(
        np.ascontiguousarray(values), schema=frame.columns, backend=frame.implementation
    ).to_native()


def _rebuild_pandas(X: Any, values: np.ndarray, rows: np.ndarray) -> Any:
    """Return rows of a pandas frame with other values, column by column.

    Made from one array, the frame would hand contenders read-only values.
    """
    frame = X.iloc[rows].copy()
    for j in range(values.shape[1]):
        frame.isetitem(j, values[:, j].copy())
    return frame


def _find_driver(driver: Any, table: _Table) -> int:
    d = len(table.names)
    if driver is None:
        return int((~np.isnan(table.x)).sum(axis=0).argmax())
    if str(driver) in table.names:
        return table.names.index(str(driver))
    if isinstance(driver, int | np.integer) and 0 <= driver < d:
        return int(driver)
    raise ValueError(f"driver={driver!r} is not a column of the table: {', '.join(table.names)}.")


def _check(mechanism: Any, share: Any, imputers: Any) -> None:
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        known = ", ".join(map(repr, MECHANISMS))
        raise ValueError(f"mechanism={mechanism!r} is not known. Use one of {known}.")
    if not 0 < share < 1:
        raise ValueError(f"share={share!r} must lie strictly between 0 and 1.")
    if imputers is None:
        return
    if not isinstance(imputers, Mapping) or not imputers:
        raise ValueError(
            "imputers must be a dict from names to transformers, with one at least, as in "
            "{'mean': SimpleImputer()}."
        )
    for name, imputer in imputers.items():
        if not hasattr(imputer, "fit_transform"):
            raise ValueError(
                f"imputers[{name!r}] is a {type(imputer).__name__}, which has no fit_transform."
            )


def _explain_nothing_hidden(x: np.ndarray, mechanism: str, share: float) -> str:
    n, d = x.shape
    if mechanism == "patterns" and not np.isnan(x).any():
        return "The table has no gaps to take patterns from. Use mechanism='mcar' or 'mar'."
    return (
        f"No cell could be hidden in a table of {n} rows and {d} columns with "
        f"{int((~np.isnan(x)).sum())} known values (mechanism={mechanism!r}, share={share:g}): "
        "every row keeps a value and every column two. Use more rows or columns, or a larger share."
    )
