"""The tables of the comparison, and which of their cells are hidden.

The generators are the usual ones: chances of "mar" and "mnar" are logistic in a random mix of some
columns. Under "mar" these columns are always shown; under "mnar" they have holes by chance.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from sklearn import datasets

from benchmarks.data import SEXES, load_abalone
from gapmix.selection.hiding import leave_some

BUNDLED = ("iris", "wine", "diabetes", "breast_cancer", "digits")  # scikit-learn's
MECHANISMS = (("mcar", 0.2), ("mcar", 0.5), ("mar", 0.3), ("mnar", 0.3))
DRIVERS = 0.3  # share of the columns that chances depend on
TRAINING = 0.7  # share of the rows


class Table(NamedTuple):
    """A table as numbers; categories are codes from 0."""

    x: np.ndarray  # (n, d), NaN where nobody knows
    n_levels: np.ndarray  # (d,), 0 for numbers


class Part(NamedTuple):
    """Some rows: all that is known, and what contestants see of it."""

    truth: np.ndarray  # (n, d)
    shown: np.ndarray  # (n, d), NaN where hidden or unknown
    hidden: np.ndarray  # (n, d), True for cells to judge


class Problem(NamedTuple):
    """Rows to learn from and to fill, and new rows to fill."""

    seen: Part
    new: Part
    n_levels: np.ndarray  # (d,)
    spread: np.ndarray  # (d,) standard deviations of the whole columns


def list_tables() -> list[str]:
    """Return the names of the tables that can be had here."""
    return [*(path.stem for path in find_files()), "abalone", *BUNDLED]


def load_table(name: str, rows: int | None = None) -> Table:
    """Return a table without its constant columns, and of more `rows` so many."""
    if name == "abalone":
        x = load_abalone().values
        n_levels = np.append(len(SEXES), np.zeros(x.shape[1] - 1, dtype=int))
    elif name in BUNDLED:
        x = getattr(datasets, f"load_{name}")().data
        n_levels = np.zeros(x.shape[1], dtype=int)
    else:
        x, n_levels = _read(next(path for path in find_files() if path.stem == name))
    if rows is not None and len(x) > rows:
        x = x[np.sort(np.random.default_rng(0).permutation(len(x))[:rows])]
    varies = np.nanmax(x, axis=0) > np.nanmin(x, axis=0)
    return Table(x[:, varies], n_levels[varies])


def find_files() -> list[Path]:
    """Return the files of tables in `GAPMIX_DATA`."""
    root = os.environ.get("GAPMIX_DATA")
    return sorted((Path(root) / "tables").glob("*.csv")) if root else []


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_csv(path, na_values=["", "?"])
    columns, n_levels = [], []
    for name in frame:
        if pd.api.types.is_numeric_dtype(frame[name]):
            columns.append(frame[name].to_numpy(dtype=float))
            n_levels.append(0)
        else:
            codes, levels = pd.factorize(frame[name], sort=True)
            columns.append(np.where(codes < 0, np.nan, codes))
            n_levels.append(len(levels))
    return np.column_stack(columns), np.array(n_levels)


def make_problem(table: Table, mechanism: str, rate: float, seed: int) -> Problem:
    """Return the table split and with holes: the same for all contestants.

    A level that no training row shows is a gap for everyone, and is not judged.
    """
    rng = np.random.default_rng([seed, MECHANISMS.index((mechanism, rate))])
    x, n_levels = table
    wanted = hide(x, mechanism, rate, rng)
    rows = rng.permutation(len(x))
    first = round(TRAINING * len(x))
    parts = []
    for chosen in (np.sort(rows[:first]), np.sort(rows[first:])):
        observed = ~np.isnan(x[chosen])
        drawn = rng.random(observed.shape)
        hidden = leave_some(observed, wanted[chosen] & observed, drawn)
        parts.append(Part(x[chosen], np.where(hidden, np.nan, x[chosen]), hidden))
    seen, new = parts
    known = ~_unknown_levels(new.truth, seen.shown, n_levels)
    new = Part(new.truth, np.where(known, new.shown, np.nan), new.hidden & known)
    return Problem(seen, new, n_levels, np.nanstd(x, axis=0))


def hide(x: np.ndarray, mechanism: str, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Return True for cells to hide, (n, d); `rate` of those that may be is hidden on average."""
    n, d = x.shape
    drawn = rng.random((n, d))
    if mechanism == "mcar":
        return drawn < rate
    drivers = rng.permutation(d)[: max(1, int(DRIVERS * d))]
    others = np.setdiff1d(np.arange(d), drivers)
    z = (x[:, drivers] - np.nanmean(x[:, drivers], axis=0)) / np.nanstd(x[:, drivers], axis=0)
    mix = np.nan_to_num(z) @ rng.normal(size=(len(drivers), len(others)))
    mix /= mix.std(axis=0)
    chances = np.full((n, d), rate if mechanism == "mnar" else 0.0)
    for column, each in zip(others, mix.T, strict=True):
        chances[:, column] = expit(each + _intercept(each, rate))
    return drawn < chances


def _intercept(mix: np.ndarray, rate: float) -> float:
    """Return what makes chances `rate` on average."""
    return float(brentq(lambda shift: expit(mix + shift).mean() - rate, -50.0, 50.0))


def _unknown_levels(x: np.ndarray, shown: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    unknown = np.zeros(x.shape, dtype=bool)
    for j in np.flatnonzero(n_levels):
        unknown[:, j] = ~np.isin(x[:, j], shown[:, j]) & ~np.isnan(x[:, j])
    return unknown


def digest(problem: Problem) -> str:
    """Return a name for what contestants see and are judged by."""
    arrays = (*problem.seen, *problem.new, problem.n_levels, problem.spread)
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]
