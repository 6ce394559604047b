"""The rows a fit sees: those that say something, their units, their patterns, their plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix import categories
from gapmix.categories import NO_CODING, Coding, LevelPrior
from gapmix.fitting.spec import Spec, count_factors, is_diagonal
from gapmix.plan.canonical import order_columns, order_levels
from gapmix.plan.forests import TreeOptions
from gapmix.plan.patterns import Patterns, find_patterns
from gapmix.plan.planner import Plan, make_plan
from gapmix.plan.rows import Rows, compress_rows, prepare_rows
from gapmix.solvers.calibrate import costs_for
from gapmix.structures import STRUCTURES
from gapmix.threads import one_blas_thread
from gapmix.units import Scaling, measure, select_columns
from gapmix.wording import Advised, name_columns

FARTHEST = 1e100  # standard deviations; with ill-conditioned covariances squares still fit float64
LARGEST = 1e150  # squares of larger spreads leave the range of float64


class Matrix(NamedTuple):
    """Rows in the user's units, without those that say nothing, columns in canonical order.

    A table without numbers has one that no row shows: see `categories.split_table`.
    """

    x: np.ndarray  # (n, d) columns of numbers, NaN where missing
    weight: np.ndarray  # (n,) positive
    columns: np.ndarray  # (d,) their places among the table's columns of numbers
    names: list[str]  # of the columns, for messages
    units: Scaling
    patterns: Patterns  # found once, whatever is fitted
    n_given: int  # rows of the table these are from
    codes: np.ndarray  # (n, C) categories and levels in canonical order, -1 where missing
    coding: Coding = NO_CODING  # which they are in the table
    n_levels: np.ndarray | None = None  # (D,) levels of the table's columns, 0 for numbers


def are_useful(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return True for the rows that say something: a value is observed, and the weight counts."""
    useful: np.ndarray = (weight > 0) & ~np.isnan(x).all(axis=1)
    return useful


def make_matrix(
    x: np.ndarray,
    weight: np.ndarray,
    names: list[str],
    covariance_type: str,
    units: Scaling | None = None,
    columns: np.ndarray | None = None,
    n_levels: np.ndarray | None = None,
) -> Matrix:
    """Return the useful rows of a table.

    `units` replace those measured on them, and `columns` (d,) is an order to put columns of
    numbers into, categories staying as they are; the canonical one by default.
    """
    useful = are_useful(x, weight)
    n_given = len(x)
    if not useful.any():
        raise ValueError(
            f"None of the {n_given} rows of X has an observed value and a positive weight: "
            "there is nothing to fit."
        )
    if not useful.all():
        x, weight = x[useful], weight[useful]
    x, codes = categories.split_table(x, n_levels)
    names = number_names(names, n_levels)
    if units is None:
        units = measure_units(x, weight, covariance_type, names)
    coding = NO_CODING
    if codes.shape[1]:
        assert n_levels is not None
        coding = _choose_coding(x, codes, weight, n_levels[n_levels > 0], canonical=columns is None)
        codes = categories.recode(codes, coding)
    if columns is None:
        columns = order_columns(x, weight)
    if not np.array_equal(columns, np.arange(len(columns))):
        x, units = np.ascontiguousarray(x[:, columns]), select_columns(units, columns)
        names = [names[j] for j in columns]
    patterns = find_patterns(~np.isnan(x))
    return Matrix(x, weight, columns, names, units, patterns, n_given, codes, coding, n_levels)


def number_names(names: list[str], n_levels: np.ndarray | None) -> list[str]:
    """Return the names of the columns of numbers."""
    if n_levels is None:
        return names
    return [name for name, n in zip(names, n_levels, strict=True) if n == 0] or ["(none)"]


def _choose_coding(
    x: np.ndarray, codes: np.ndarray, weight: np.ndarray, n_levels: np.ndarray, *, canonical: bool
) -> Coding:
    if canonical:
        return order_levels(x, codes, weight, n_levels)
    return Coding(np.arange(len(n_levels)), tuple(np.arange(n) for n in n_levels))


def prior_of(matrix: Matrix) -> LevelPrior:
    """Return what the rows tell of the levels of each category."""
    sizes = [len(levels) for levels in matrix.coding.levels]
    return categories.make_prior(categories.count_codes(matrix.codes, matrix.weight, sizes))


def take_rows(matrix: Matrix, chosen: np.ndarray) -> Matrix:
    """Return some of the rows, in the same units."""
    x = matrix.x[chosen]
    return matrix._replace(
        x=x,
        weight=matrix.weight[chosen],
        patterns=find_patterns(~np.isnan(x)),
        codes=matrix.codes[chosen],
    )


def refuse_too_few(matrix: Matrix, n_components: int) -> None:
    """Raise an error if there are more components than rows."""
    n = len(matrix.x)
    if n < n_components:
        fact = (
            f"Expected n_samples >= n_components, but {n_components} components are "
            f"asked for and X has {n} rows with an observed value (n_samples = "
            f"{matrix.n_given})."
        )
        raise ValueError(Advised(fact, "n_components", "Lower n_components."))


def plan_rows(spec: Spec, matrix: Matrix, solver: str | TreeOptions) -> tuple[Plan, Rows]:
    """Return the plan for a table and its rows laid out accordingly."""
    x, weight, patterns = matrix.x, matrix.weight, matrix.patterns
    made = make_plan(
        patterns,
        spec.n_components,
        solver=solver,
        diagonal=is_diagonal(spec),
        n_factors=count_factors(spec),
        costs=costs_for(patterns, spec.n_components),
    )
    if spec.n_components == 1 and not matrix.codes.shape[1]:
        x, weight, patterns = compress_rows(x, weight, patterns)
    rows = prepare_rows(
        x,
        weight,
        spec.n_components,
        patterns=patterns,
        forest=made.forest,
        units=matrix.units,
        codes=matrix.codes if matrix.codes.shape[1] else None,
        n_factors=count_factors(spec),
    )
    return made, rows


def set_aside(
    spec: Spec, matrix: Matrix, x_val: np.ndarray | None, seed: np.random.SeedSequence
) -> tuple[Matrix, Matrix | None]:
    """Return the rows to fit to, and the rows to stop on, if any."""
    if x_val is not None:
        return matrix, read_validation(matrix, x_val)
    fraction = spec.validation_fraction
    if fraction is None:
        return matrix, None
    held = choose_rows(len(matrix.x), fraction, seed)
    n_left = int((~held).sum())
    if n_left < spec.n_components:
        raise ValueError(
            f"{spec.n_components} components are asked for and {n_left} row"
            f"{'s are' if n_left > 1 else ' is'} left to fit them to: lower "
            f"validation_fraction (now {fraction:g}) or n_components."
        )
    return take_rows(matrix, ~held), take_rows(matrix, held)


def read_validation(matrix: Matrix, x_val: np.ndarray) -> Matrix:
    """Return the given rows to stop on, in the units of those to fit to."""
    empty = np.isnan(x_val).all(axis=1)
    if empty.all():
        raise ValueError(
            f"None of the {len(x_val)} rows of X_val has an observed value: there is nothing to "
            "stop on."
        )
    x, codes = categories.split_table(x_val[~empty], matrix.n_levels)
    x = x[:, matrix.columns]
    check_reach(x, matrix.units, matrix.names)
    return matrix._replace(
        x=x,
        weight=np.ones(len(x)),
        patterns=find_patterns(~np.isnan(x)),
        n_given=len(x_val),
        codes=categories.recode(codes, matrix.coding),
    )


def as_table(matrix: Matrix) -> np.ndarray:
    """Return the rows as columns of the table, (n, D)."""
    x = matrix.x[:, np.argsort(matrix.columns)]
    if matrix.n_levels is None or not matrix.codes.shape[1]:
        return x
    codes = categories.recode(matrix.codes, categories.invert(matrix.coding))
    return categories.join_table(x, categories.as_floats(codes), matrix.n_levels)


def choose_rows(n: int, fraction: float, seed: np.random.SeedSequence) -> np.ndarray:
    """Return True for the rows set aside for validation: at least one, at most n - 1."""
    n_held = int(np.clip(round(fraction * n), 1, n - 1))
    held = np.zeros(n, dtype=bool)
    held[np.random.default_rng(seed).choice(n, n_held, replace=False)] = True
    return held


def log_unit(rows: Rows, units: Scaling) -> float:
    """Return the mean over rows of the log scales of the observed values."""
    with one_blas_thread():  # as everything that a fit stores
        n_values = sum(  # by block: as numbers, all patterns at once would be a second table
            np.add.reduceat(block.weight, block.start[:-1]) @ block.observed
            for block in rows.blocks
        )
        return float(n_values @ np.log(units.scale) / rows.weight.sum())


def measure_units(
    x: np.ndarray, weight: np.ndarray, covariance_type: str, names: list[str]
) -> Scaling:
    """Return the units of a table, refused where variances would leave the range of float64.

    They are measured under one BLAS thread, so that the number of its threads changes no bit.
    """
    with one_blas_thread():
        units = measure(x, weight, common=STRUCTURES[covariance_type].COMMON_UNITS)
    check_magnitudes(units, names)
    return units


def check_magnitudes(units: Scaling, names: list[str]) -> None:
    """Raise an error where variances would leave the range of float64."""
    outside = (units.scale > LARGEST) | (units.scale < 1 / LARGEST)
    if outside.any():
        listed = [name for name, bad in zip(names, outside, strict=True) if bad]
        first = float(units.scale[outside][0])
        raise ValueError(
            f"{name_columns(listed)}: values vary on a scale of about {first:.1e}, whose "
            "square is outside the range of float64. Change the column's units first, for example "
            f"divide it by {first:.1e}."
        )


def check_reach(
    x: np.ndarray, units: Scaling, names: list[str], n_levels: np.ndarray | None = None
) -> None:
    """Raise an error about a cell so far from the fitted rows that its square overflows."""
    x, names = categories.split_table(x, n_levels)[0], number_names(names, n_levels)
    ends = np.stack([np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)])  # no table beside x
    if (_measure_reach(ends, units) > FARTHEST).any():
        outside = _measure_reach(x, units) > FARTHEST
        row, column = (int(i) for i in np.argwhere(outside)[0])
        raise ValueError(
            f"X is more than {FARTHEST:g} standard deviations away from the fitted rows in "
            f"{int(outside.sum())} cell{'s' if outside.sum() > 1 else ''}, first in row {row}, "
            f"column {names[column]} ({x[row, column]:g}): no density can be given for it. "
            "Correct it, or replace it by NaN if it stands for a gap."
        )


def _measure_reach(x: np.ndarray, units: Scaling) -> np.ndarray:
    """Return how far cells are from the centre of their column, in its units."""
    return np.abs(x / units.scale - units.center / units.scale)
