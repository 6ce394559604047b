"""Whether what is filled can be: `python -m benchmarks.possible`.

Of every table of the comparison, a share of the cells is hidden. `gapmix impute` fills the table
from CSV to CSV, with all defaults, and `impute_frame` in Python. Counted is what must not be; a
judge that shares no code with gapmix looks at texts. Intervals are judged by column.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets

from benchmarks.data import load_abalone
from benchmarks.filling.tables import BUNDLED, find_files
from gapmix import GaussianMixtureImputer

GAPS = ("", "NA", "?")
ABALONE = ("sex", "length", "diameter", "height", "whole", "shucked", "viscera", "shell", "rings")
FEWEST = 200  # hidden cells of a column whose intervals are judged
HELD = (0.85, 0.95)  # share of them that 90 % intervals may hold
# A column has shown all its values if they are at most so many, each seen so often on average.
CODES, SEEN = 20, 5  # whole numbers,
STEPS, SEEN_STEPS = 10, 20  # and fractions
ROUNDED = 12  # digits behind the point, at most, of columns that were rounded

Rows = list[list[str]]


class Text(NamedTuple):
    """A table as text."""

    header: list[str]
    rows: Rows


class Counts(NamedTuple):
    """What must be 0."""

    outside: int = 0  # the range seen in the column
    fraction: int = 0  # where the column has whole numbers
    digits: int = 0  # more behind the point than any value of the column has
    unknown: int = 0  # not a value of a category, of two values or of a few
    unnamed: int = 0  # gaps left that the command does not name
    changed: int = 0  # cells that were not gaps
    differ: int = 0  # cells that Python fills otherwise

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


class Held(NamedTuple):
    """How many hidden cells of a column of numbers are in their 90 % intervals."""

    table: str
    column: str
    kind: str
    n_values: int  # different ones among known cells
    commonest: float  # share of the most frequent value
    n: int
    share: float
    below: float  # share of cells below their interval
    above: float
    all_held: float  # share of cells whose interval holds all values the column shows


def list_names() -> list[str]:
    """Return the names of the tables."""
    return [*(path.stem for path in find_files()), "abalone", *BUNDLED]


def load(name: str) -> Text:
    """Return a table as its file, or its shortest numbers, have it."""
    if name == "abalone":
        x = load_abalone().values
        rows = [["MFI"[int(row[0])], *map(repr, row[1:-1].tolist())] for row in x]
        return Text(
            list(ABALONE),
            [[*row, f"{rings:.0f}"] for row, rings in zip(rows, x[:, -1], strict=True)],
        )
    if name in BUNDLED:
        bunch = getattr(datasets, f"load_{name}")(as_frame=True)
        columns = [
            [str(int(v)) for v in values] if (values == values.round()).all() else map(str, values)
            for values in (bunch.data[column] for column in bunch.data)
        ]
        return Text(list(bunch.data), [list(row) for row in zip(*columns, strict=True)])
    path = next(path for path in find_files() if path.stem == name)
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return Text(header, rows)


def punch(table: Text, rate: float, seed: int) -> Text:
    """Return the table with a share of its cells hidden; no row loses all."""
    rng = np.random.default_rng(seed)
    hidden = rng.random((len(table.rows), len(table.header))) < rate
    hidden[hidden.all(axis=1), 0] = False
    rows = [
        ["" if gone else cell for cell, gone in zip(row, each, strict=True)]
        for row, each in zip(table.rows, hidden.tolist(), strict=True)
    ]
    return Text(table.header, rows)


def _number(cell: str) -> Decimal | None:
    try:
        return Decimal(cell)
    except InvalidOperation:
        return None


def _digits(number: Decimal) -> int:
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def judge_column(shown: Sequence[str], filled: Sequence[str]) -> Counts:
    """Count what is wrong with the cells of a column; both are (n,)."""
    known = [cell for cell in shown if cell not in GAPS]
    new = [
        after for before, after in zip(shown, filled, strict=True) if before in GAPS and after != ""
    ]
    changed = sum(
        before != after
        for before, after in zip(shown, filled, strict=True)
        if before not in GAPS or (before and after in GAPS)
    )
    numbers = [_number(cell) for cell in known]
    if not known or None in numbers:
        return Counts(unknown=sum(cell not in set(known) for cell in new), changed=changed)
    values = [number for number in numbers if number is not None]
    got = [_number(cell) for cell in new]
    told = [number for number in got if number is not None and number.is_finite()]
    low, high, most = min(values), max(values), max(map(_digits, values))
    different = set(values)
    codes, seen = (CODES, SEEN) if most == 0 or len(different) == 2 else (STEPS, SEEN_STEPS)
    coded = len(different) <= codes and len(values) >= seen * len(different)
    return Counts(
        outside=sum(not low <= number <= high for number in told) + len(got) - len(told),
        fraction=sum(number % 1 != 0 for number in told) if most == 0 else 0,
        digits=sum(_digits(number) > most for number in told) if most <= ROUNDED else 0,
        unknown=sum(number not in different for number in told) if coded else 0,
        changed=changed,
    )


def judge(shown: Text, filled: Text, named: dict[str, int]) -> Counts:
    """Count what is wrong with a filled table; `named` are gaps that were said to be left."""
    if filled.header != shown.header or len(filled.rows) != len(shown.rows):
        raise ValueError("The filled table has other rows or columns.")
    total = Counts()
    for j, name in enumerate(shown.header):
        before, after = ([row[j] for row in table.rows] for table in (shown, filled))
        left = sum(cell in GAPS for cell in after)
        total += judge_column(before, after)
        total += Counts(unnamed=abs(left - named.get(name, 0)))
    return total


def compare(filled: Text, frame: pd.DataFrame) -> int:
    """Count the cells of a file that are others in a frame."""
    differ = 0
    for j, name in enumerate(filled.header):
        cells = pd.Series([row[j] for row in filled.rows])
        if pd.api.types.is_numeric_dtype(frame[name]):
            ours, theirs = pd.to_numeric(cells.replace("", "nan")), frame[name]
            same = (ours.to_numpy() == theirs.to_numpy()) | (ours.isna() & theirs.isna()).to_numpy()
        else:
            same = cells.to_numpy() == frame[name].fillna("").astype(str).to_numpy()
        differ += int((~same).sum())
    return differ


def hold(
    name: str, truth: Text, frame: pd.DataFrame, imputer: GaussianMixtureImputer
) -> list[Held]:
    """Return how many hidden numbers are in their 90 % intervals, by column."""
    found = []
    used = [column for column in frame if column not in imputer.passed_]
    ends = imputer.intervals(frame, 0.9)
    for j, column in enumerate(used):
        kind = imputer.column_kinds_[column]
        if kind in ("category", "constant", "empty"):
            continue
        shown = frame[column].to_numpy(dtype=float)
        place = truth.header.index(column)
        real = pd.to_numeric(pd.Series([row[place] for row in truth.rows]), errors="coerce")
        x = real.to_numpy(dtype=float)
        hidden = np.isnan(shown) & ~np.isnan(x)
        if hidden.sum() <= FEWEST:
            continue
        low, high = (np.asarray(end[:, j], dtype=float)[hidden] for end in ends)
        values, counts = np.unique(shown[~np.isnan(shown)], return_counts=True)
        below, above = x[hidden] < low, x[hidden] > high
        whole = (low <= values[0]) & (high >= values[-1])
        found.append(
            Held(
                name,
                str(column),
                kind,
                len(values),
                float(counts.max() / counts.sum()),
                int(hidden.sum()),
                float(1 - below.mean() - above.mean()),
                float(below.mean()),
                float(above.mean()),
                float(whole.mean()),
            )
        )
    return found


def read(path: Path) -> Text:
    """Return a file of text as it is."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return Text(header, rows)


def check(name: str, rate: float, seed: int, folder: Path) -> tuple[Counts, list[Held], int, float]:
    """Hide cells of a table, fill it both ways, and judge; also how many gaps it has, and time."""
    truth = load(name)
    shown = punch(truth, rate, seed)
    before, after = folder / f"{name}.csv", folder / f"{name}.filled.csv"
    with before.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([shown.header, *shown.rows])
    began = time.perf_counter()
    command = [sys.executable, "-m", "gapmix", "impute", str(before), "-o", str(after), "--json"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    took = time.perf_counter() - began
    left = {each["column"]: each["n_gaps"] for each in json.loads(ran.stdout)["unfilled"]}
    filled = read(after)
    counts = judge(shown, filled, left)
    frame = pd.read_csv(before, na_values=["?"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        imputer = GaussianMixtureImputer(random_state=0).fit(frame)
        counts += Counts(differ=compare(filled, imputer.impute_frame(frame)))
        held = hold(name, truth, frame, imputer)
    n_gaps = sum(cell in GAPS for row in shown.rows for cell in row)
    return counts, held, n_gaps, took


def main(arguments: list[str] | None = None) -> None:
    """Check tables and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", help="names, separated by commas; all by default")
    parser.add_argument("--rate", type=float, default=0.2, help="share of cells to hide")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    names = given.tables.split(",") if given.tables else list_names()
    wide = max(map(len, names))
    print(f"{'table':<{wide}}    gaps  {'  '.join(Counts._fields)}  seconds")
    total, held = Counts(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            counts, more, n_gaps, took = check(name, given.rate, given.seed, Path(folder))
            total, held = total + counts, held + more
            _show(name.ljust(wide), n_gaps, counts, f"{took:>7.1f}")
    _show("all".ljust(wide), "", total, "")
    few = [each for each in held if each.n_values <= CODES]
    for which, columns in (
        ("more than", [each for each in held if each not in few]),
        ("at most", few),
    ):
        inside = sum(HELD[0] <= each.share <= HELD[1] for each in columns)
        print(
            f"\n90 % intervals of columns with over {FEWEST} hidden cells and {which} {CODES} "
            f"values: {inside} of {len(columns)} hold {HELD[0]:.0%} to {HELD[1]:.0%}, "
            f"{sum(each.share < HELD[0] for each in columns)} less."
        )
    print()
    outside = (each for each in held if not HELD[0] <= each.share <= HELD[1])
    for each in sorted(outside, key=lambda each: each.share):
        print(
            f"{each.table:<{wide}}  {each.column[:24]:<24}  {each.share:.3f} of {each.n:<4} (below "
            f"{each.below:.3f}, above {each.above:.3f})  {each.kind}, {each.n_values} values, "
            f"{each.commonest:.0%} one; {each.all_held:.0%} hold the whole range"
        )


def _show(name: str, n_gaps: int | str, counts: Counts, end: str) -> None:
    cells = (f"{n:>{len(field)}}" for field, n in zip(Counts._fields, counts, strict=True))
    print(f"{name}  {n_gaps:>6}  {'  '.join(cells)}  {end}", flush=True)


if __name__ == "__main__":
    main()
