"""How one contender fills hidden cells, column by column; what goes wrong in it is a result."""

import copy
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from sklearn.base import clone

from gapmix.estimators.levels import encode, is_frame, values_of
from gapmix.estimators.marks import NO_MARKS, gap_test
from gapmix.estimators.validation import to_matrix
from gapmix.evaluate.levels import LevelCells
from gapmix.evaluate.ranking import RowErrors
from gapmix.evaluate.scores import COVERAGES, Score
from gapmix.selection.sizes import measure_spread

CHANGED = 1e-6  # standard deviations by which a known value may differ and still count as kept


class Truth(NamedTuple):
    """All known cells, and how to give them to contenders less those that are hidden."""

    x: np.ndarray  # (n, d), NaN where missing
    rows: np.ndarray  # (n,) their numbers in the table that was given
    names: list[str]
    rebuild: Callable[[np.ndarray, np.ndarray], Any]  # values, row numbers -> a table like X
    levels: dict[int, np.ndarray]  # of the columns that are categories; x holds their codes


class Judged(NamedTuple):
    """How a contender filled hidden cells, by column."""

    scores: list[Score]
    cells: list[LevelCells]  # of categories
    rows: RowErrors


def score(name: str, imputer: Any, repeat: int, truth: Truth, hidden: np.ndarray) -> Judged:
    """Return how a contender fills the hidden cells, by column."""
    x = truth.x
    d = x.shape[1]
    spread = measure_spread(x)
    shown = np.where(hidden, np.nan, x)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            contender = clone(imputer) if hasattr(imputer, "get_params") else copy.deepcopy(imputer)
            result = contender.fit_transform(truth.rebuild(shown, truth.rows))
            seconds = time.perf_counter() - began
            filled, problems = _read_result(result, contender, shown, hidden, truth, spread)
            log_score = _log_scores(contender, truth, shown, hidden, spread)
            coverage = _coverages(contender, truth, shown, hidden)
            sure = _probabilities(contender, truth, shown)
            heads = getattr(contender, "heads_", None)
            weights = {} if heads is None else {h.column: h.weight for h in heads.heads}
    except Exception as error:  # whatever goes wrong in a contender is a result, not the end
        seconds = time.perf_counter() - began
        lines = str(error).strip().splitlines()
        problem = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
        filled, problems = np.full_like(x, np.nan), [problem] * d
        log_score, coverage, sure = np.full(d, np.nan), np.full((2, d), np.nan), {}
        weights = {}
    scores, levels = [], []
    for j in np.flatnonzero(hidden.any(axis=0)).tolist():
        cells = hidden[:, j]
        rmse = float(np.sqrt(np.mean((filled[cells, j] - x[cells, j]) ** 2)))
        wrong = np.nan
        if j in truth.levels:
            wrong, rmse = float(np.mean(filled[cells, j] != x[cells, j])), np.nan
            unknown = np.full(int(cells.sum()), np.nan)
            probability = sure[j][cells] if j in sure else unknown
            if not problems[j]:
                named = tuple(str(level) for level in truth.levels[j].tolist())
                true, found = x[cells, j], filled[cells, j]
                levels.append(
                    LevelCells(name, repeat, truth.names[j], named, true, found, probability)
                )
        if problems[j]:
            rmse = wrong = np.nan
        scores.append(
            Score(
                name,
                repeat,
                truth.names[j],
                int(cells.sum()),
                rmse / spread[j] if spread[j] > 0 else np.nan,
                rmse,
                float(log_score[j]),
                float(coverage[0, j]),
                float(coverage[1, j]),
                seconds,
                problems[j],
                wrong,
                float(np.mean(sure[j][cells])) if j in sure and not problems[j] else np.nan,
                weights.get(j, np.nan),
            )
        )
    return Judged(scores, levels, _miss(name, repeat, truth, filled, hidden, spread, problems))


def _miss(
    name: str,
    repeat: int,
    truth: Truth,
    filled: np.ndarray,
    hidden: np.ndarray,
    spread: np.ndarray,
    problems: list[str],
) -> RowErrors:
    """Return what a contender missed in each row."""
    is_level = np.array([j in truth.levels for j in range(len(problems))], dtype=bool)
    numbers, levels = hidden & ~is_level & (spread > 0), hidden & is_level
    failed = np.array([np.nan if problem else 1.0 for problem in problems])
    off = (filled - truth.x) * failed / np.where(spread > 0, spread, 1.0)
    return RowErrors(
        name,
        repeat,
        np.sum(off**2, axis=1, where=numbers),
        numbers.sum(axis=1),
        np.sum((filled != truth.x) * failed, axis=1, where=levels),
        levels.sum(axis=1),
    )


def _read_result(
    result: Any,
    contender: Any,
    shown: np.ndarray,
    hidden: np.ndarray,
    truth: Truth,
    spread: np.ndarray,
) -> tuple[np.ndarray, list[str]]:
    """Return the filled table (n, d), and for each column what is wrong with it, if anything."""
    values = _to_codes(result, truth)
    n, d = shown.shape
    if values.ndim != 2 or len(values) != n:
        raise ValueError(f"it returned shape {values.shape} for a table of shape {(n, d)}")
    places = _find_columns(result, contender, values.shape[1], truth)
    filled = np.full((n, d), np.nan)
    problems = [""] * d
    for j, place in enumerate(places):
        if place is None:
            problems[j] = f"column {truth.names[j]!r} was dropped"
            continue
        filled[:, j] = values[:, place]
        n_left = int(np.isnan(filled[hidden[:, j], j]).sum())
        if n_left:
            problems[j] = f"{n_left} gaps of column {truth.names[j]!r} were left"
        known = ~np.isnan(shown[:, j])
        allowed = CHANGED * spread[j] + 1e-12 * np.abs(shown[:, j])
        changed = known & ~(np.abs(filled[:, j] - shown[:, j]) <= allowed)
        if changed.any():
            row = int(np.flatnonzero(changed)[0])
            problems[j] = (
                f"known values of column {truth.names[j]!r} were changed "
                f"({shown[row, j]:g} into {filled[row, j]:g} in row {truth.rows[row]})"
            )
    return filled, problems


def _to_codes(result: Any, truth: Truth) -> np.ndarray:
    """Return a table as numbers, with codes for levels; what is no level is a gap."""
    if not truth.levels:
        return np.asarray(to_matrix(result), dtype=float)
    if not is_frame(result):
        result = np.asarray(result, dtype=object)
    n, d = result.shape
    if d < len(truth.names):
        raise ValueError(f"it returned {d} of {len(truth.names)} columns, some of them categories")
    values = np.full((n, d), np.nan)
    for j in range(d):
        if j in truth.levels:
            values[:, j] = encode(result, j, truth.levels[j], "", gap_test(NO_MARKS), tell=False)
        else:
            values[:, j] = [np.nan if v is None else float(v) for v in values_of(result, j)]
    return values


def _find_columns(result: Any, contender: Any, n_columns: int, truth: Truth) -> list[int | None]:
    """Return where the columns of the table are in a result; None for one that was dropped.

    Columns after those of the table, as indicators of gaps are, do not matter.
    """
    d = len(truth.names)
    if n_columns >= d:
        return list(range(d))
    if nw.dependencies.is_into_dataframe(result):
        found = [str(name) for name in nw.from_native(result).columns]
    elif hasattr(contender, "get_feature_names_out"):
        found = [str(name) for name in contender.get_feature_names_out()]
    else:
        found = []
    wanted = truth.names if set(found) & set(truth.names) else [f"x{j}" for j in range(d)]
    if len(found) != n_columns or not set(found) <= set(wanted):
        raise ValueError(f"it returned {n_columns} of {d} columns, and does not say which")
    return [found.index(name) if name in found else None for name in wanted]


def _log_scores(
    contender: Any, truth: Truth, shown: np.ndarray, hidden: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Return the mean log density of the hidden cells of each column, (d,), NaN if not offered.

    log p(cell | shown) = log p(shown and cell) - log p(shown), one cell at a time.
    """
    scores = np.full(shown.shape[1], np.nan)
    if not hasattr(contender, "score_samples"):
        return scores
    everything = np.asarray(contender.score_samples(truth.rebuild(shown, truth.rows)))
    for j in np.flatnonzero(hidden.any(axis=0) & (spread > 0)):
        rows = np.flatnonzero(hidden[:, j])
        with_cell = shown[rows]
        with_cell[:, j] = truth.x[rows, j]
        gain = np.asarray(contender.score_samples(truth.rebuild(with_cell, truth.rows[rows])))
        unit = 0.0 if j in truth.levels else np.log(spread[j])
        scores[j] = np.mean(gain - everything[rows]) + unit
    return scores


def _probabilities(contender: Any, truth: Truth, shown: np.ndarray) -> dict[int, np.ndarray]:
    """Return the probability of the most probable level of each category, if offered, (n,)."""
    if not truth.levels or not hasattr(contender, "probabilities"):
        return {}
    told = contender.probabilities(truth.rebuild(shown, truth.rows))
    return {
        j: np.asarray(table).max(axis=1)
        for j, table in zip(truth.levels, told.values(), strict=True)
    }


def _coverages(contender: Any, truth: Truth, shown: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Return the share of hidden cells inside their intervals, (2, d), NaN if not offered."""
    shares = np.full((len(COVERAGES), shown.shape[1]), np.nan)
    if not hasattr(contender, "intervals"):
        return shares
    given = truth.rebuild(shown, truth.rows)
    judged = [j for j in np.flatnonzero(hidden.any(axis=0)).tolist() if j not in truth.levels]
    for number, coverage in enumerate(COVERAGES):
        low, high = (_to_codes(end, truth) for end in contender.intervals(given, coverage))
        inside = (low <= truth.x) & (truth.x <= high)
        shares[number, judged] = [inside[hidden[:, j], j].mean() for j in judged]
    return shares
