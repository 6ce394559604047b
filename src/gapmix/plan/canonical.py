"""An order of rows and columns that units, places and copies do not change.

Whatever is drawn by chance is drawn in this order, so that the same seed draws the same cells and
rows whether a column is in inches or in centimetres, stands first or last, and whether a row is
there twice or has weight 2. Keys are sums that rounding moves by 1e-15 and that differ by far more
between any two columns or rows that are not alike. Names of levels do not matter either: levels
are ordered by how often they are there and by the rows that have them.
"""

from typing import NamedTuple

import numpy as np

from gapmix.categories import Coding, as_floats, join_table, recode, split_table

SALT = 20061114  # of numbers that no table is in league with
ROUNDS = 3  # of telling levels by rows and rows by levels
DIGITS = 9  # of the keys of levels: fewer than the order of sums can change
MANY_CELLS = 2**23  # looked at in one go
MOSTLY_DISTINCT = 0.9  # share of distinct rows from which on copies are taken for one row


class Canonical(NamedTuple):
    """The distinct rows of a table and the order of its columns."""

    rows: np.ndarray  # (m,) one row number for each distinct row, in canonical order
    which: np.ndarray  # (n,) for each row of the table, its place in `rows`
    weight: np.ndarray  # (m,) of all its copies together
    columns: np.ndarray  # (d,) column numbers in canonical order


def put_in_order(x: np.ndarray, weight: np.ndarray) -> Canonical:
    """Return the canonical order of a table (n, d), NaN where missing, under row weights (n,)."""
    first, which, total = _merge_copies(x, weight)
    z = standardize(x[first], total)
    columns = np.argsort(_column_keys(z, total), kind="stable")
    rows = np.argsort(_row_keys(z[:, columns]), kind="stable")
    place = np.empty_like(rows)
    place[rows] = np.arange(len(rows))
    return Canonical(first[rows], place[which], total[rows], columns)


def draw_uniform(
    x: np.ndarray,
    weight: np.ndarray,
    rng: np.random.Generator,
    n_levels: np.ndarray | None = None,
) -> np.ndarray:
    """Return a number between 0 and 1 for each cell (n, d), drawn in canonical order.

    Copies of a row get the same. `n_levels` (d,) tells which columns are codes of categories; where
    these leave few distinct rows, copies are as good as other rows, and each gets its own.
    """
    n, d = x.shape
    order = put_in_order(name_levels(x, weight, n_levels), weight)
    place = order.which
    if n_levels is not None and n_levels.any() and len(order.rows) < MOSTLY_DISTINCT * n:
        place = np.argsort(np.argsort(order.which, kind="stable"))
    drawn = np.empty((d, place.max(initial=-1) + 1))
    drawn[order.columns] = rng.random(drawn.shape)  # column by column: empty ones are last
    return drawn.T[place]


def name_levels(x: np.ndarray, weight: np.ndarray, n_levels: np.ndarray | None) -> np.ndarray:
    """Return the table with levels under codes that do not depend on their names."""
    if n_levels is None or not n_levels.any():
        return x
    numbers, codes = split_table(x, n_levels)
    coding = order_levels(numbers, codes, weight, n_levels[n_levels > 0])
    back = np.argsort(coding.columns)
    as_given = coding._replace(
        columns=coding.columns[back], levels=tuple(coding.levels[place] for place in back)
    )
    return join_table(numbers, as_floats(recode(codes, as_given)), n_levels)


def order_levels(
    numbers: np.ndarray, codes: np.ndarray, weight: np.ndarray, n_levels: np.ndarray
) -> Coding:
    """Return the canonical order of categories (n, C) and of their levels.

    Levels are told apart by their rows, and rows by their levels, in a few rounds.
    """
    rows = _row_keys(standardize(numbers, weight)[:, order_columns(numbers, weight)])
    total = weight.sum()
    seen = weight @ (codes >= 0) / total
    counts = [
        np.bincount(column[column >= 0], weight[column >= 0], n)
        for column, n in zip(codes.T, n_levels, strict=True)
    ]
    levels = [count / total for count in counts]
    columns = seen
    for _ in range(ROUNDS):
        columns = np.array([(level**2).sum() + np.sin(level).sum() for level in levels]) + seen
        keys = rows.copy()
        for j, level in enumerate(levels):
            keys += np.sin(12.9898 * np.append(level, -1.0)[codes[:, j]] + 7.8233 * columns[j])
        value = weight * np.sin(keys)
        for j, count in enumerate(counts):
            shown = codes[:, j] >= 0
            mean = np.bincount(codes[shown, j], value[shown], len(count)) / np.maximum(count, 1e-9)
            levels[j] = count / total + np.where(count > 0, mean, 0.0)
    return Coding(
        np.argsort(np.round(columns, DIGITS), kind="stable"),
        tuple(
            np.argsort(np.round(levels[j], DIGITS), kind="stable")
            for j in np.argsort(np.round(columns, DIGITS), kind="stable")
        ),
    )


def standardize(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the columns with mean 0 and variance 1 under row weights, NaN where missing."""
    observed = ~np.isnan(x)
    total = np.maximum(weight @ observed, np.finfo(float).tiny)
    largest = np.max(np.abs(x), axis=0, initial=0.0, where=observed)
    unit = x / np.where(largest > 0, largest, 1.0)  # whose squares are in range
    mean = weight @ np.where(observed, unit, 0.0) / total
    away = unit - mean
    variance = weight @ np.where(observed, away, 0.0) ** 2 / total
    varies = variance > (8 * np.finfo(float).eps) ** 2
    z: np.ndarray = np.where(varies, away / np.sqrt(np.where(varies, variance, 1.0)), 0.0 * away)
    return z


def _merge_copies(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first of each set of equal rows, the set of every row, and their weights."""
    values = np.ascontiguousarray(x + 0.0)  # turns -0.0 into 0.0
    values[np.isnan(values)] = np.nan  # one of the many there are
    keys = values.view(np.dtype((np.void, values.strides[0]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    which = which.ravel()
    return first, which, np.bincount(which, weight, len(first))


def order_columns(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the columns in the order of how much they show and of the shape of their values.

    Columns without any value come last, so that they change nothing for the others.
    """
    n_parts = max(1, x.size // MANY_CELLS)  # of a large table, a few columns at a time
    parts = np.array_split(np.arange(x.shape[1]), n_parts)
    each = (x[:, part[0] : part[-1] + 1] if part.size else x for part in parts)
    keys = [_column_keys(standardize(part, weight), weight) for part in each]
    return np.argsort(np.concatenate(keys), kind="stable")


def _column_keys(z: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return one number for each column of mean 0 and variance 1, infinity for an empty one."""
    observed = ~np.isnan(z)
    with np.errstate(invalid="ignore"):
        shape = np.where(observed, np.sin(z) + np.cos(0.618 * z), 0.0)
    keys = weight @ (shape + 1.414 * observed) / weight.sum()
    return np.where(observed.any(axis=0), keys, np.inf)


def _row_keys(z: np.ndarray) -> np.ndarray:
    """Return one number for each row, columns being in canonical order; empty ones add nothing."""
    of_value, of_gap = np.random.default_rng(SALT).uniform(0.5, 1.5, (z.shape[1], 2)).T
    observed = ~np.isnan(z)
    bounded = np.where(observed, z / (1.0 + np.abs(z)), 0.0)
    gaps = ~observed & observed.any(axis=0)
    keys: np.ndarray = (bounded * of_value + gaps * of_gap).sum(axis=1)
    return keys
