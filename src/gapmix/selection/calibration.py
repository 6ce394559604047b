"""How wide to make intervals so that they hold what they should, judged by hidden cells."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from gapmix import density
from gapmix.density import Density
from gapmix.kinds import find_spans
from gapmix.selection.judging import Hidden
from gapmix.selection.task import Task, count_rows

ROUNDING = 1e-9  # of shares that are added up
N_QUANTILES = 201  # of the widths that calibrate intervals
PRIOR_CELLS = 100  # what expected widths count for beside them
LARGEST_COVERAGE = 1.0 - 1e-9


def calibrate(model: Density, sample: Task, cells: Hidden) -> np.ndarray | None:
    """Return how to ask for intervals so that they hold what they should, judged by hidden cells.

    (D, N_QUANTILES); columns that do not vary, and categories, say nothing about it. With too few
    rows for any cell to be hidden, intervals are as wide as so few rows let expect.
    """
    varies = cells.spread > 0
    if not varies.any():
        return None
    judged = cells.hidden & varies
    row = np.flatnonzero(judged.any(axis=1))
    low, high = find_ends(sample, cells.x[row])
    widths = measure_widths(model, cells.shown[row], low, high)[judged[row]]
    at, column = np.nonzero(judged)
    known = sample.weight @ ~np.isnan(sample.x[:, varies]) / sample.weight.sum()  # share of cells
    n_rows = count_rows(sample) * float(known.mean())
    common = calibrate_intervals(
        widths, cells.weight[at], expect_widths(n_rows, float(known.sum()))
    )
    order = np.argsort(column, kind="stable")
    starts = np.searchsorted(column[order], np.arange(1, len(varies)))
    own, weight = np.split(widths[order], starts), np.split(cells.weight[at[order]], starts)
    return np.stack([calibrate_intervals(*each, common) for each in zip(own, weight, strict=True)])


def find_ends(task: Task, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends, (n, D) each, of what is brought to the values of rows (n, D) of a task."""
    return (x, x) if task.possible is None else find_spans(task.possible, x)


def measure_widths(
    model: Density, shown: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return how wide central intervals must be to reach from `low` to `high`, all (n, D).

    It is the coverage to ask of the model, 0 for a cell whose median lies between the two.
    """
    below = density.distribution(model, shown, low)
    above = below if _are_same(low, high) else density.distribution(model, shown, high)
    return np.maximum(np.maximum(2.0 * below - 1.0, 1.0 - 2.0 * above), 0.0)


def _are_same(low: np.ndarray, high: np.ndarray) -> bool:
    return low is high or np.array_equal(low, high, equal_nan=True)


def calibrate_intervals(widths: np.ndarray, weight: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return how wide central intervals had to be to hold hidden cells, as sorted quantiles.

    `widths` is the coverage to ask of the model for an interval that just holds the cell, and cells
    count by their weight. If the model were exact, widths would be uniform; where it is too sure of
    itself they pile up near 1. The result has `N_QUANTILES` entries, entry i being what to ask of
    the model for a coverage of i / (N - 1).
    The widths `expected` before any was seen are added as if they were `PRIOR_CELLS` more, so that
    few cells change little: those of a fit to a small table, for the cells of all columns; those of
    all columns, for the cells of one.
    """
    both = np.concatenate([widths, expected])
    weights = np.concatenate([weight, np.full(len(expected), PRIOR_CELLS / len(expected))])
    order = np.argsort(both, kind="stable")  # as np.quantile, which takes thrice as long
    share = np.cumsum(weights[order])
    # What is reached but for rounding is reached: copies of a cell add up like its weight.
    reached = share / share[-1] + ROUNDING
    place = np.searchsorted(reached, np.linspace(0.0, 1.0, N_QUANTILES))
    quantiles: np.ndarray = both[order[np.minimum(place, len(both) - 1)]]
    return quantiles


def recalibrate(
    calibration: np.ndarray, before: np.ndarray, after: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return what to ask of a model whose intervals are changed after they were calibrated.

    Cells of these weights needed the widths `before` and need those `after`. Intervals are widened
    by as many deviations, of a Gaussian's: with both the same, nothing changes.
    """
    was, now = (calibrate_intervals(each, weight, calibration) for each in (before, after))
    reach, old, new = (_to_reach(each) for each in (calibration, was, now))
    widths: np.ndarray = 2.0 * ndtr(np.maximum(reach + new - old, 0.0)) - 1.0
    return np.maximum.accumulate(np.where(new == old, calibration, widths))


def _to_reach(widths: np.ndarray) -> np.ndarray:
    """Return the deviations that central intervals of a Gaussian reach to on either side."""
    reach: np.ndarray = ndtri(0.5 + 0.5 * np.minimum(widths, LARGEST_COVERAGE))
    return reach


def expect_widths(n_rows: float, d: float) -> np.ndarray:
    """Return the widths that intervals of evenly spaced coverages need, (PRIOR_CELLS,).

    A cell told from d - 1 others by a regression on n rows is off by a t-distributed error with
    n - d degrees of freedom, sqrt((n + d) / (n - d)) times as large as the fit itself says: some
    rows were spent on its coefficients, and these are uncertain. With many rows, widths are even.
    """
    coverage = (np.arange(PRIOR_CELLS) + 0.5) / PRIOR_CELLS
    free = max(n_rows - d, 1.0)
    reach = stdtrit(free, 0.5 * (1.0 + coverage)) * np.sqrt((n_rows + d) / free)
    widths: np.ndarray = 2.0 * ndtr(reach) - 1.0
    return widths


def nominal_coverage(coverage: float, calibration: np.ndarray | None) -> np.ndarray:
    """Return the coverage to ask of the model so that intervals hold what was asked for.

    One for each column (D,), or one for all (), as in files of earlier versions.
    """
    if calibration is None:
        return np.asarray(coverage)
    grid = np.linspace(0.0, 1.0, calibration.shape[-1])
    found = np.array([np.interp(coverage, grid, each) for each in np.atleast_2d(calibration)])
    return np.clip(found.reshape(calibration.shape[:-1]), 0.0, LARGEST_COVERAGE)
