"""What was filled: how it compares with what is known, and where the model is least sure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapmix.kinds import to_possible
from gapmix.report.gaps import some_rows
from gapmix.report.subject import Subject
from gapmix.selection.sizes import measure_spread

MAX_PANELS = 12  # columns whose filled values are drawn beside the known ones
MAX_DRAWN = 2_000  # gaps of each of them that get a random value
LEAST_CERTAIN = 10  # cells
PER_COLUMN = 3  # of them, at most
COVERAGE = 0.9


class ColumnFilled(NamedTuple):
    """The filled cells of a column beside its known ones, in its own units."""

    column: int
    n_filled: int
    mean_known: float
    mean_filled: float
    spread_known: float
    typical_std: float  # median standard deviation of a filled cell
    explained: float  # 1 - mean variance of a filled cell / variance of the column, 0 to 1
    drawn: np.ndarray  # random values of some of its gaps; empty beyond the first MAX_PANELS


class UncertainCell(NamedTuple):
    """A filled cell of which the model is least sure."""

    row: int  # from 1
    column: int
    value: float  # as it is written, such as a whole number
    low: float  # of the 90 % interval
    high: float
    relative: float  # its standard deviation in those of the column
    n_known: int  # cells of its row


class CategoryFilled(NamedTuple):
    """The filled cells of a category beside its known ones."""

    column: int
    n_filled: int
    often_known: str  # the most frequent level, and its share
    share_known: float
    often_filled: str
    share_filled: float
    probability: float  # mean, of the levels filled in


class FilledFacts(NamedTuple):
    """What was filled."""

    n_filled: int
    columns: tuple[ColumnFilled, ...]  # with gaps and known values, most gaps first
    unknowable: tuple[int, ...]  # columns without any known value
    constant: tuple[int, ...]  # columns with one value only
    explained: float  # over all filled cells, NaN if there are none
    uncertain: tuple[UncertainCell, ...]
    categories: tuple[CategoryFilled, ...] = ()  # with gaps and known values, most gaps first


def describe_filled(subject: Subject) -> FilledFacts:
    """Fill the table of a report and return what came of it."""
    x, imputer = subject.x, subject.imputer
    gaps = np.isnan(x)
    n_missing = gaps.sum(axis=0)
    filled, std = x.copy(), np.zeros_like(x)
    rows = np.flatnonzero(gaps.any(axis=1))
    if rows.size:
        filled[rows], std[rows] = imputer.impute_with_std(x[rows])
    spread = measure_spread(x)
    known = len(x) - n_missing
    constant = (spread == 0) & (known > 0)
    is_number = np.array([j not in subject.levels for j in range(x.shape[1])], dtype=bool)
    varying = (n_missing > 0) & (spread > 0) & is_number
    order = [int(j) for j in np.argsort(-n_missing, kind="stable") if varying[j]]
    judged = gaps & varying
    relative = np.zeros_like(x)
    relative[:, varying] = std[:, varying] / spread[varying]
    drawn = _draw_gaps(subject, order[:MAX_PANELS])
    nothing = np.empty(0)
    return FilledFacts(
        int(n_missing[known > 0].sum()),
        tuple(
            _compare(j, x[:, j], filled[:, j], std[:, j], float(spread[j]), drawn.get(j, nothing))
            for j in order
        ),
        tuple(np.flatnonzero(known == 0).tolist()),
        tuple(np.flatnonzero(constant & (n_missing > 0)).tolist()),
        _explained(relative[judged]),
        _find_uncertain(subject, np.where(judged, relative, -1.0), filled),
        tuple(
            _compare_levels(j, x[:, j], filled[:, j], std[:, j], subject.levels[j])
            for j in sorted(subject.levels, key=lambda j: -n_missing[j])
            if n_missing[j] and known[j]
        ),
    )


def _compare_levels(
    j: int, x: np.ndarray, filled: np.ndarray, std: np.ndarray, levels: Sequence[str]
) -> CategoryFilled:
    gap = np.isnan(x)
    known = np.bincount(x[~gap].astype(int), minlength=len(levels)) / (~gap).sum()
    new = np.bincount(filled[gap].astype(int), minlength=len(levels)) / gap.sum()
    a, b = int(known.argmax()), int(new.argmax())
    return CategoryFilled(
        j,
        int(gap.sum()),
        levels[a],
        float(known[a]),
        levels[b],
        float(new[b]),
        float(1.0 - std[gap].mean()),
    )


def _draw_gaps(subject: Subject, columns: list[int]) -> dict[int, np.ndarray]:
    """Return random values of gaps of each column, some evenly spaced ones where they are many."""
    if not columns:
        return {}
    places = {j: np.flatnonzero(np.isnan(subject.x[:, j])) for j in columns}
    chosen = {j: rows[some_rows(rows.size, MAX_DRAWN)] for j, rows in places.items()}
    rows = np.unique(np.concatenate(list(chosen.values())))
    values = subject.imputer.sample(subject.x[rows], 1, random_state=subject.seed)[0]
    return {j: values[np.searchsorted(rows, mine), j] for j, mine in chosen.items()}


def _compare(
    j: int, x: np.ndarray, filled: np.ndarray, std: np.ndarray, spread: float, drawn: np.ndarray
) -> ColumnFilled:
    gap = np.isnan(x)
    return ColumnFilled(
        j,
        int(gap.sum()),
        float(x[~gap].mean()),
        float(filled[gap].mean()),
        spread,
        float(np.median(std[gap])),
        _explained(std[gap] / spread),
        drawn,
    )


def _explained(relative: np.ndarray) -> float:
    """Return the share of a variance of 1 that is known of cells with these deviations."""
    return float(np.clip(1.0 - np.mean(relative**2), 0.0, 1.0)) if relative.size else np.nan


def _find_uncertain(
    subject: Subject, relative: np.ndarray, filled: np.ndarray
) -> tuple[UncertainCell, ...]:
    """Return the filled cells with the largest relative deviations, a few of each column."""
    candidates = []
    for j in np.flatnonzero((relative >= 0).any(axis=0)):
        rows = np.argsort(-relative[:, j], kind="stable")[:PER_COLUMN]
        candidates += [(int(i), int(j)) for i in rows if relative[i, j] >= 0]
    candidates.sort(key=lambda cell: -relative[cell])
    cells = candidates[:LEAST_CERTAIN]
    if not cells:
        return ()
    given = subject.x[[i for i, _ in cells]]
    low, high = subject.imputer.intervals(given, COVERAGE)
    written = to_possible(subject.imputer.possible(), given, filled[[i for i, _ in cells]])
    return tuple(
        UncertainCell(
            i + 1,
            j,
            float(written[place, j]),
            float(low[place, j]),
            float(high[place, j]),
            float(relative[i, j]),
            int((~np.isnan(given[place])).sum()),
        )
        for place, (i, j) in enumerate(cells)
    )
