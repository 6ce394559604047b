"""Warnings that point at the user's line, however deep inside they arise."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn

from gapmix.estimators.marks import WIPED
from gapmix.wording import Advised, name_columns, percent

CODE_SHARE = 0.005  # an extreme integer is suspected if at least this share of the values equals it

# scikit-learn wraps methods and calls them in searches and pipelines: not the user's line either.
INSIDE = tuple(
    str(folder) + os.sep for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent)
)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning on behalf of the first caller outside the library."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_of_unknown(known: np.ndarray, names: list[str]) -> None:
    """Warn about columns that are not `known` (d,)."""
    unknown = [name for name, seen in zip(names, known, strict=True) if not seen]
    if not unknown or not known.any():
        return
    has, it_is, it, its = (
        ("has", "It is", "it", "its")
        if len(unknown) == 1
        else ("have", "They are", "them", "their")
    )
    warn_user(
        f"{name_columns(unknown)} {has} no observed value. {it_is} kept, with mean 0 and variance "
        f"1: nothing can be learned about {it}, and {its} gaps are filled with 0."
    )


def warn_of_wiped(x: np.ndarray, marks: Sequence[float], names: list[str]) -> None:
    """Warn about marks of gaps in all columns that take much of one, unless they are far out."""
    for mark in marks:
        marked = x == mark
        n_shown = (~np.isnan(x)).sum(axis=0)
        for j in np.flatnonzero(marked.sum(axis=0) > WIPED * n_shown).tolist():
            rest = x[~marked[:, j] & ~np.isnan(x[:, j]), j]
            if rest.size and rest.min() < rest.max() and is_far(mark, rest.min(), rest.max()):
                continue
            fact = (
                f"Column {names[j]}: {mark:g} is taken as a gap in {int(marked[:, j].sum())} "
                f"cells, {percent(marked[:, j].sum() / n_shown[j])} of all it has."
            )
            advice = "If it is a value there, name the columns where it marks a gap: "
            warn_user(
                Advised(fact, "missing_values", f"{advice}missing_values={{column: {mark:g}}}.")
            )


class Code(NamedTuple):
    """A value that may stand for a gap."""

    column: int
    value: float
    n_cells: int
    low: float  # of all other values
    high: float


def is_far(code: float, low: float, high: float) -> bool:
    """Tell whether a value lies so far from all others that it is hardly one of them."""
    return min(abs(low - code), abs(high - code)) > 2.0 * (high - low)


def find_codes(x: np.ndarray) -> list[Code]:
    """Return where one extreme integer, far from all other values or all nines, repeats."""
    found = []
    for j in range(x.shape[1]):
        column = x[:, j]
        column = column[~np.isnan(column)]
        if column.size < 20:
            continue
        for code, beyond in (
            (column.min(), column > column.min()),
            (column.max(), column < column.max()),
        ):
            n_code = column.size - int(beyond.sum())
            if (
                code != np.round(code)
                or n_code < max(2, CODE_SHARE * column.size)
                or not beyond.any()
            ):
                continue
            rest = column[beyond]
            low, high = float(rest.min()), float(rest.max())
            usual = low >= 0 and set(f"{code:.0f}") == {"-", "9"}  # the only negative value is -99
            if (usual or is_far(code, low, high)) and np.unique(rest).size >= 5:
                found.append(Code(j, float(code), n_code, low, high))
    return found


def say_code(code: Code, name: str) -> str:
    """Return what was found in a column."""
    return (
        f"Column {name}: the value {code.value:g} occurs {code.n_cells} times, far from all others "
        f"({code.low:g} to {code.high:g}). It is used as a number."
    )


def warn_codes(x: np.ndarray, weight: np.ndarray, names: list[str]) -> None:
    """Warn about values that may stand for gaps; rows of weight 0 are not looked at."""
    advice = "If it stands for a gap, replace it by NaN first."
    for code in find_codes(x if weight.all() else x[weight > 0]):
        warn_user(Advised(say_code(code, names[code.column]), "missing_values", advice))
