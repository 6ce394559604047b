"""Who fills hidden cells best, by how much, and whether that is sure.

All imputers fill the same cells, so they are compared cell by cell. The rows are what is drawn by
chance: a row counts as one, with all its cells in all repeats.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapmix.wording import listed

SURE = 2.0  # standard errors by which a difference must exceed zero


class RowErrors(NamedTuple):
    """What one imputer missed in each row, once; NaN where a column could not be judged."""

    imputer: str
    repeat: int
    squares: np.ndarray  # (n,) sum of squared errors of numbers, in standard deviations
    n_numbers: np.ndarray  # (n,) hidden cells of columns of numbers that vary
    n_wrong: np.ndarray  # (n,) hidden cells of categories that got another level
    n_levels: np.ndarray  # (n,) hidden cells of categories


class Ranked(NamedTuple):
    """How far one imputer is behind the best, with standard errors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.impute import KNNImputer, SimpleImputer
    >>> from gapmix.evaluate import hide_and_score
    >>> rivals = {"mean": SimpleImputer(), "k-NN": KNNImputer()}
    >>> result = hide_and_score(load_iris().data, rivals, random_state=0)
    >>> [(each.imputer, each.sure) for each in result.ranking()]
    [('k-NN', False), ('mean', True)]
    """

    imputer: str
    value: float  # error, or share of wrong levels
    standard_error: float
    behind: float  # value less that of the best
    behind_error: float  # standard error of the difference, paired over rows
    sure: bool  # the difference is over two standard errors


def rank(rows: Sequence[RowErrors], *, levels: bool = False) -> tuple[Ranked, ...]:
    """Return the imputers without failures, the smallest error (or share of wrong levels) first."""
    parts = {
        name: [r for r in rows if r.imputer == name]
        for name in dict.fromkeys(r.imputer for r in rows)
    }
    measured = {}
    for name, each in parts.items():
        found = _measure_levels(each) if levels else _measure_numbers(each)
        if found is not None and np.isfinite(found[0]):
            measured[name] = found
    order = sorted(measured, key=lambda name: measured[name][0])
    ranked = []
    for name in order:
        (value, pull), (best, best_pull) = measured[name], measured[order[0]]
        error = _deviation(pull - best_pull)
        sure = bool(value - best > SURE * error)
        ranked.append(Ranked(name, value, _deviation(pull), value - best, error, sure))
    return tuple(ranked)


def _measure_numbers(rows: Sequence[RowErrors]) -> tuple[float, np.ndarray] | None:
    """Return the mean over repeats of root mean squares, and how each row pulls at it, (n,).

    A row with squares s in c of N cells changes the root r of a mean by (s - c r^2) / (2 r N).
    """
    values, pulls = [], []
    for each in rows:
        total = each.n_numbers.sum()
        if not total:
            continue
        root = float(np.sqrt(each.squares.sum() / total))
        values.append(root)
        pulls.append((each.squares - each.n_numbers * root**2) / (2 * total * root or 1.0))
    return (float(np.mean(values)), np.mean(pulls, axis=0)) if values else None


def _measure_levels(rows: Sequence[RowErrors]) -> tuple[float, np.ndarray] | None:
    """Return the share of wrong levels in all repeats, and how each row pulls at it, (n,)."""
    wrong = np.sum([each.n_wrong for each in rows], axis=0)
    n_levels = np.sum([each.n_levels for each in rows], axis=0)
    total = n_levels.sum()
    if not total:
        return None
    share = float(wrong.sum() / total)
    return share, (wrong - n_levels * share) / total


def _deviation(pull: np.ndarray) -> float:
    """Return the standard error of a figure from what each row adds to it."""
    n = np.count_nonzero(pull)
    return float(np.sqrt((pull**2).sum() * n / (n - 1))) if n > 1 else 0.0 if not n else np.inf


def tell(ranked: Sequence[Ranked], what: str, ours: str, *, levels: bool = False) -> str:
    """Return sentences: who fills `what` best, by how much, whether that is sure; where we are."""
    if not ranked:
        return ""
    first = ranked[0]
    figure = _plus_minus(first.value, first.standard_error, levels)
    measure = f"{figure} % wrong levels" if levels else f"an error of {figure}"
    if len(ranked) == 1:
        return f"{first.imputer} fills {what} with {measure}."
    best = [each.imputer for each in ranked if each.behind == 0]
    tied = " (a tie)" * (len(best) > 1)
    text = f"Best for {what}: {listed(best)}{tied}, with {measure}."
    worse = [each for each in ranked if each.behind > 0]
    follow = [each.imputer for each in worse if each.behind == worse[0].behind]
    if worse:
        text += f" That is {_behind(worse[0], levels)} less than {listed(follow)}, the next best; "
        text += _sureness(worse[0])
    if ours in [each.imputer for each in worse] and ours not in follow:
        each = next(each for each in worse if each.imputer == ours)
        text += f" {ours} has {_behind(each, levels)} more than the best; {_sureness(each)}"
    return text


def _behind(each: Ranked, levels: bool) -> str:
    return _plus_minus(each.behind, each.behind_error, levels) + (" points" if levels else "")


def _sureness(each: Ranked) -> str:
    """Return how sure a difference is, to end a sentence with."""
    if each.sure:
        return "the difference is clear (over two standard errors)."
    return "the difference may be chance (under two standard errors)."


def _plus_minus(value: float, error: float, levels: bool) -> str:
    return f"{100 * value:.1f} ± {100 * error:.1f}" if levels else f"{value:.3f} ± {error:.3f}"
