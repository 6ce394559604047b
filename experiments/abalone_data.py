"""Abalone as the study needs it: split, gaps inserted, coded and normalised.

Sets are in the official order: 2000 rows train, the other 1133 of the official training part
validate, 1044 test. Gaps are inserted in input variables of all three, never in the target.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from benchmarks.data import SEXES, load_abalone
from scipy.stats import rankdata

SPLIT = (2000, 1133, 1044)  # training, validation, test
THIN = 20  # a small table has one row in so many of each part, for tests
SMALL_SPLIT = tuple(-(-n // THIN) for n in SPLIT)
N_INPUTS = 8  # variables; sex becomes one to three columns
CODINGS = ("two", "three", "one")  # columns for sex


class Table(NamedTuple):
    """One draw of gaps; columns have mean 0 and deviation 1 on the observed training cells."""

    x: np.ndarray  # (n, d), NaN where a gap was inserted
    complete: np.ndarray  # (n, d), the same before
    y: np.ndarray  # (n,)


class Parts(NamedTuple):
    """Three consecutive parts of something with a row per abalone."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split(rows: np.ndarray) -> Parts:
    """Return training, validation and test rows of the table or of the small one."""
    n_train, n_val, _ = {sum(sizes): sizes for sizes in (SPLIT, SMALL_SPLIT)}[len(rows)]
    return Parts(rows[:n_train], rows[n_train : n_train + n_val], rows[n_train + n_val :])


@cache
def _values() -> np.ndarray:
    return load_abalone().values


def code_sex(sex: np.ndarray, coding: str) -> np.ndarray:
    """Return sex as columns.

    "two": female, infant (males have neither); "three": one column each, which are collinear;
    "one": infant -1, female 0, male 1.
    """
    one_hot = np.arange(len(SEXES)) == sex[:, None]  # M, F, I
    if coding == "three":
        return one_hot.astype(float)
    if coding == "two":
        return one_hot[:, 1:].astype(float)
    if coding == "one":
        return one_hot @ np.array([[1.0], [0.0], [-1.0]])
    raise ValueError(f"There is no coding {coding!r} of sex: use one of {', '.join(CODINGS)}.")


def make_table(
    proportion: float,
    repeat: int,
    coding: str = "two",
    *,
    small: bool = False,
    gaps: str = "random",
) -> Table:
    """Hide a share of the input cells, the gaps of a smaller share being among those of a larger.

    The repeat is the seed. A row may lose all its inputs. Gaps are at random, or "by value": the
    chance of a cell grows with its own rank in its column, from 0 for the lowest to twice the share
    for the highest, which is not missing at random.
    """
    values = _values()
    if small:
        values = np.concatenate([part[::THIN] for part in split(values)])
    sex = code_sex(values[:, 0].astype(int), coding)
    lot = np.random.default_rng([1, repeat]).random((len(values), N_INPUTS))
    chance = np.full(lot.shape, proportion)
    if gaps == "by value":
        chance *= 2.0 * (rankdata(values[:, :N_INPUTS], axis=0) - 0.5) / len(values)
    hidden = lot < chance
    hidden = np.hstack([np.repeat(hidden[:, :1], sex.shape[1], axis=1), hidden[:, 1:]])
    complete = np.hstack([sex, values[:, 1:-1]])
    x = np.where(hidden, np.nan, complete)
    train = split(x).train
    center, scale = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    y = values[:, -1]
    y_train = split(y).train
    return Table(
        (x - center) / scale, (complete - center) / scale, (y - y_train.mean()) / y_train.std()
    )
