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
HOLES = 3.0  # times the largest hole among the others that an integer is away from them,
DEEP = 0.3  # and the share of the way to their median that is empty,
FEWEST_LONELY = 5  # cells that have it,
MOST_LONELY = 0.5  # and the largest share of all,
NEAR = 0.1  # or the share of their range, if it is a code in another column

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
        f"{name_columns(unknown)} {has} no observed values, so nothing can be learned about {it}. "
        f"{it_is} kept, with mean 0 and variance 1, and {its} gaps in arrays are filled with 0."
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
                f"cells, {percent(marked[:, j].sum() / n_shown[j])} of the column."
            )
            advice = "If it is a value there, name only the columns where it marks a gap: "
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
    """Return where one extreme integer, apart from all other values, repeats.

    It is far out, or all nines, or nothing lies between it and the others where these lie close
    together. A code that one column has is looked for in all.
    """
    suspects = [each for j in range(x.shape[1]) for each in _find_ends(x[:, j], j)]
    sure = [each for each in suspects if _is_apart(each)]
    known = {each.code.value for each in sure} - {0.0}  # which is a value nearly everywhere
    found = [each for each in suspects if each in sure or _is_known(each, known)]
    return [each.code for each in found]


class _End(NamedTuple):
    """An end of a column that may be a code."""

    code: Code
    hole: float  # the largest distance between neighbours, from the end of the rest to its median
    median: float  # of the rest


def _find_ends(column: np.ndarray, j: int) -> list[_End]:
    """Return the ends of a column (n,) that are integers and repeat."""
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    n, found = int(counts.sum()), []
    if n < 20 or len(values) < 3:
        return []
    for place, rest, amount in ((0, values[1:], counts[1:]), (-1, values[:-1], counts[:-1])):
        code, n_code = float(values[place]), int(counts[place])
        if code != np.round(code) or n_code < max(2, CODE_SHARE * n):
            continue
        middle = int(np.searchsorted(np.cumsum(amount), 0.5 * amount.sum()))
        near = rest[: middle + 1] if place == 0 else rest[middle:]
        hole = float(np.diff(near).max(initial=0.0))
        if n_code > MOST_LONELY * n:  # as zeros of counts and pixels do, by nature
            hole = np.inf
        end = _End(
            Code(j, code, n_code, float(rest[0]), float(rest[-1])), hole, float(rest[middle])
        )
        if len(values) >= 6 or _is_usual(end.code):  # among few values, any may lie far out
            found.append(end)
    return found


def _is_usual(code: Code) -> bool:
    """Tell whether a value is all nines and negative, as -99, among values that are not."""
    return code.low >= 0 and set(f"{code.value:.0f}") == {"-", "9"}


def _distance(code: Code) -> float:
    return min(abs(code.low - code.value), abs(code.high - code.value))


def _is_apart(end: _End) -> bool:
    """Tell whether a value is hardly one of the others."""
    code = end.code
    if _is_usual(code) or is_far(code.value, code.low, code.high):
        return True
    away = _distance(code)
    lonely = 0.0 < HOLES * end.hole <= away and away >= DEEP * abs(end.median - code.value)
    return lonely and code.n_cells >= FEWEST_LONELY


def _is_known(end: _End, known: set[float]) -> bool:
    """Tell whether a value is a code in another column, and outside the others in this one."""
    code = end.code
    away = _distance(code)
    return code.value in known and away > max(end.hole, NEAR * (code.high - code.low))


def say_code(code: Code, name: str) -> str:
    """Return what was found in a column."""
    away = "far from" if is_far(code.value, code.low, code.high) else "apart from"
    return (
        f"Column {name}: the value {code.value:g} occurs {code.n_cells} times, {away} all others "
        f"({code.low:g} to {code.high:g}). It is used as a number."
    )


def warn_codes(x: np.ndarray, weight: np.ndarray, names: list[str]) -> None:
    """Warn about values that may stand for gaps; rows of weight 0 are not looked at."""
    advice = "If it stands for a gap, replace it by NaN first."
    for code in find_codes(x if weight.all() else x[weight > 0]):
        warn_user(Advised(say_code(code, names[code.column]), "missing_values", advice))
