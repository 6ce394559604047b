"""What a component says of categories: one table of probabilities for each, independent given it.

A table of the user has D columns, of numbers and of categories; in a matrix of floats a category
is the number of its level, NaN where missing, and `n_levels` (D,) tells which columns are
categories: 0 for numbers. Inside, numbers and codes are apart:

    log p(row | k) = log N(x_o; mu_k, S_k) + sum over observed j of log theta_kj[c_j]

The M step has a Dirichlet prior of `rows` rows for each level, shared out by the overall shares pi:
theta_kj = (counts_kj + a pi_j) / (seen_kj + a) with a = L_j `rows`, and -a KL(pi_j || theta_kj)
is its log-prior.

Where a category has many levels, a component cannot tell of each of the rare ones: they have one
probability together in every component, shared out as pi is, and count as one level in a. Such
tables are a family of their own, in which the M step is as simple: pool what rare levels have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Tables = tuple[np.ndarray, ...]  # one (K, L_j) for each category, rows adding up to 1

TINY = 1e-300  # a probability whose logarithm is still finite
MANY_LEVELS = 20  # of a category: with more, those that fewer than
RARE_ROWS = 5.0  # rows show are rare
TILT = 0.5  # how much the halves of a component differ in what they say of categories


class Coding(NamedTuple):
    """Another order of categories and of the levels of each."""

    columns: np.ndarray  # (C,) which category comes where
    levels: tuple[np.ndarray, ...]  # in this order: which level gets which code


NO_CODING = Coding(np.zeros(0, dtype=int), ())


class LevelPrior(NamedTuple):
    """What is assumed of the levels of each category before a component has rows."""

    shares: Tables = ()  # (L_j,) of the levels in all rows
    rare: Tables = ()  # (L_j,) True for levels that are told apart only in all rows; () for none
    rows: float = 1.0  # weight of the shares, in rows for each level


NO_PRIOR = LevelPrior()


# ---------------------------------------------------------------------- columns of a table


def is_mixed(n_levels: np.ndarray | None) -> bool:
    """Tell whether a table has categories."""
    return n_levels is not None and bool(n_levels.any())


def sizes(n_levels: np.ndarray | None) -> tuple[int, ...]:
    """Return the number of levels of each category, given those of all columns."""
    return () if n_levels is None else tuple(int(n) for n in n_levels if n)


def split_table(x: np.ndarray, n_levels: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of numbers (n, d) and the codes of categories (n, C), -1 where missing.

    A table without numbers gets one that no row shows, so that there is a Gaussian to work with.
    """
    if n_levels is None or not n_levels.any():
        return x, np.empty((len(x), 0), dtype=np.int32)
    codes = x[:, n_levels > 0]
    codes = np.where(np.isnan(codes), -1, codes).astype(np.int32)
    if n_levels.all():
        return np.full((len(x), 1), np.nan), codes
    return np.ascontiguousarray(x[:, n_levels == 0]), codes


def join_table(numbers: np.ndarray, other: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """Return columns of numbers (..., d) and of categories (..., C) at their places (..., D)."""
    x = np.empty((*other.shape[:-1], len(n_levels)))
    x[..., n_levels > 0] = other
    if not n_levels.all():
        x[..., n_levels == 0] = numbers
    return x


def as_floats(codes: np.ndarray) -> np.ndarray:
    """Return codes as floats, NaN where missing."""
    return np.where(codes < 0, np.nan, codes)


def add_codes(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return numbers (n, d) with codes (n, C) as further columns, NaN where missing."""
    return np.hstack([x, as_floats(codes)]) if codes.shape[1] else x


def recode(codes: np.ndarray, coding: Coding) -> np.ndarray:
    """Return codes (n, C) under another order of categories and levels."""
    result = np.empty_like(codes)
    for to, (column, levels) in enumerate(zip(coding.columns, coding.levels, strict=True)):
        place = np.append(np.argsort(levels), -1)  # the last one serves what is missing
        result[:, to] = place[codes[:, column]]
    return result


def reorder(tables: Tables, coding: Coding) -> Tables:
    """Return probabilities, or any (..., L_j), under another order of categories and levels."""
    return tuple(
        tables[column][..., levels]
        for column, levels in zip(coding.columns, coding.levels, strict=True)
    )


def invert(coding: Coding) -> Coding:
    """Return the coding that leads back."""
    back = np.argsort(coding.columns)
    return Coding(back, tuple(np.argsort(coding.levels[place]) for place in back))


# ---------------------------------------------------------------------- EM


def join(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Return the tables side by side, (..., sum of L_j)."""
    return np.concatenate(tables, axis=-1)


def split(joined: np.ndarray, n_levels: Sequence[int]) -> Tables:
    """Return what `join` was given."""
    return tuple(np.split(joined, np.cumsum(n_levels)[:-1], axis=-1))


def count_levels(tables: Tables) -> tuple[int, ...]:
    """Return the number of levels of each category."""
    return tuple(table.shape[-1] for table in tables)


def one_hot(codes: np.ndarray, n_levels: Sequence[int]) -> np.ndarray:
    """Return 1 where a row shows a level, (n, sum of L_j)."""
    hot = np.zeros((len(codes), sum(n_levels)))
    row, column = np.nonzero(codes >= 0)
    hot[row, find_starts(n_levels)[column] + codes[row, column]] = 1.0
    return hot


def find_starts(n_levels: Sequence[int]) -> np.ndarray:
    """Return where the levels of each category begin among all of them, (C,)."""
    return np.cumsum([0, *n_levels[:-1]])


def take_logs(tables: Tables) -> np.ndarray:
    """Return the log probabilities of all levels, (sum of L_j, K)."""
    return np.log(np.maximum(join(tables), TINY)).T


def measure_shares(codes: np.ndarray, weight: np.ndarray, n_levels: Sequence[int]) -> Tables:
    """Return the shares of the levels of each category among all rows, (L_j,), none of them 0."""
    return to_shares(count_codes(codes, weight, n_levels))


def count_codes(codes: np.ndarray, weight: np.ndarray, n_levels: Sequence[int]) -> Tables:
    """Return the weight of the rows that show each level of each category, (L_j,)."""
    seen = codes >= 0
    return tuple(
        np.bincount(codes[seen[:, j], j], weight[seen[:, j]], n) for j, n in enumerate(n_levels)
    )


def to_shares(counts: Tables) -> Tables:
    """Return counts of levels as shares, none of them 0.

    One row that is evenly all levels is counted too: a level may be there that no row shows.
    """
    more = [count + 1.0 / len(count) for count in counts]
    return tuple(count / count.sum() for count in more)


def make_prior(counts: Tables) -> LevelPrior:
    """Return the prior of a table whose rows show levels so often, (L_j,) for each category."""
    rare = tuple(_find_rare(count) for count in counts)
    return LevelPrior(to_shares(counts), rare if any(each.any() for each in rare) else ())


def _find_rare(count: np.ndarray) -> np.ndarray:
    """Return True for the rare levels of a category that has many, (L,)."""
    rare: np.ndarray = count < RARE_ROWS
    return rare if len(count) > MANY_LEVELS and rare.sum() > 1 else np.zeros(len(count), dtype=bool)


def pool_rare(tables: Tables, prior: LevelPrior) -> Tables:
    """Return the tables with what rare levels have together shared out as in all rows."""
    if not prior.rare:
        return tables
    result = []
    for table, share, rare in zip(tables, prior.shares, prior.rare, strict=True):
        new = table.copy()
        if rare.any():
            within = share[rare] / share[rare].sum()
            new[:, rare] = table[:, rare].sum(axis=1, keepdims=True) * within
        result.append(new)
    return tuple(result)


def _prior_rows(prior: LevelPrior) -> list[float]:
    """Return the weight of the prior of each category, in rows; rare levels count as one."""
    if not prior.rare:
        return [prior.rows * len(share) for share in prior.shares]
    return [prior.rows * (int((~rare).sum()) + bool(rare.any())) for rare in prior.rare]


def maximize(counts: np.ndarray, before: Tables, prior: LevelPrior) -> Tables:
    """Return the probabilities that maximise the expected objective, given counts (K, sum L_j).

    A component that no row says anything about, and that has no prior, keeps what it had.
    """
    if not before:
        return ()
    result = []
    each = split(counts, count_levels(before))
    weights = _prior_rows(prior)
    for count, old, share, rows in zip(each, before, prior.shares, weights, strict=True):
        total = count.sum(axis=1, keepdims=True) + rows
        new = (count + rows * share) / np.where(total > 0, total, 1.0)
        result.append(np.where(total > 0, new, old))
    return pool_rare(tuple(result), prior)


def log_prior(tables: Tables, prior: LevelPrior) -> float:
    """Return the log-prior: zero where a component says what all rows together say."""
    if prior.rows == 0.0 or not tables:
        return 0.0
    return -sum(
        rows * float((share * np.log(share / np.maximum(table, TINY))).sum())
        for table, share, rows in zip(tables, prior.shares, _prior_rows(prior), strict=True)
    )


# ---------------------------------------------------------------------- components


def take(tables: Tables, members: Sequence[int]) -> Tables:
    """Return the probabilities of some components."""
    return tuple(table[list(members)] for table in tables)


def merge(tables: Tables, weights: np.ndarray) -> Tables:
    """Return the probabilities of one component that stands for all."""
    return tuple((weights @ table)[None] for table in tables)


def tilt(tables: Tables, donor: int, dead: int) -> Tables:
    """Return tables where two halves of a component differ: without numbers nothing else would.

    Levels get more in the one half and less in the other by turns.
    """
    result = tuple(table.copy() for table in tables)
    for table, old in zip(result, tables, strict=True):
        by = TILT * np.where(np.arange(old.shape[1]) % 2, 1.0, -1.0)
        for k, factor in ((dead, 1.0 - by), (donor, 1.0 + by)):
            table[k] = old[donor] * factor / (old[donor] @ factor)
    return result


def sum_entropy(tables: Tables) -> np.ndarray:
    """Return sum over categories of theta log theta, (K,)."""
    return sum(
        ((table * np.log(np.maximum(table, TINY))).sum(axis=1) for table in tables), np.zeros(1)
    )
