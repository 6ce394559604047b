"""How well a mixture tells what was hidden from it, alone and united with others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from gapmix import density
from gapmix.categories import TINY
from gapmix.density import Density
from gapmix.selection.sizes import measure_spread

EVEN_CELLS = 5.0  # hidden cells that speak for equal shares
STEPS = 10  # from no share to all
TRUSTING_CELLS = 30.0  # hidden cells that speak for what rows tell of a column


class Hidden(NamedTuple):
    """Rows of which something was hidden, and what it was."""

    x: np.ndarray  # (m, D) as they are
    shown: np.ndarray  # (m, D) NaN where something was hidden, or is missing
    hidden: np.ndarray  # (m, D) bool
    weight: np.ndarray  # (m,)
    spread: np.ndarray  # (D,) standard deviations of the columns; 0 for categories
    n_levels: np.ndarray | None  # (D,) levels of the columns, 0 for numbers


class Told(NamedTuple):
    """What a mixture tells of the hidden cells from what is shown of their rows."""

    log_prob: np.ndarray  # (m,) log p(what is shown)
    mean: np.ndarray  # (m, D) filled
    levels: tuple[np.ndarray, ...]  # (m, L) of each category
    log_score: float  # mean log density of a hidden cell given what is shown of its row


def hide_from(
    x: np.ndarray, weight: np.ndarray, hidden: np.ndarray, n_levels: np.ndarray | None
) -> Hidden:
    """Return the rows of a table that have hidden cells."""
    spread = measure_spread(x, weight)
    if n_levels is not None:
        spread = np.where(n_levels > 0, 0.0, spread)
    rows = np.flatnonzero(hidden.any(axis=1))
    x, hidden = x[rows], hidden[rows]
    return Hidden(x, np.where(hidden, np.nan, x), hidden, weight[rows], spread, n_levels)


def ask(model: Density, cells: Hidden, *, limited: bool) -> Told:
    """Return what a mixture tells of hidden cells, `limited` to the range shown as imputers do.

    log p(hidden | shown) = log p(all of the row) - log p(what is shown of it).
    """
    if not len(cells.x):
        return Told(np.empty(0), cells.x, (), 0.0)
    filled = density.fill(model, cells.shown)
    gain = density.score(model, cells.x).log_prob - filled.log_prob
    total = float(cells.weight @ cells.hidden.sum(axis=1))
    levels: tuple[np.ndarray, ...] = ()
    if cells.n_levels is not None and (cells.n_levels > 0).any():
        levels = tuple(density.level_probabilities(model, cells.shown))
    mean = limit(cells, filled.mean) if limited else filled.mean
    return Told(filled.log_prob, mean, levels, float(cells.weight @ gain) / total)


def unite_told(told: Sequence[Told], shares: np.ndarray) -> Told:
    """Return what the union of mixtures with these shares tells, but for its log score.

    Within a row, mixtures that explain what is shown of it better count more.
    """
    log_prob, part = _weigh(told, shares)
    mean = sum(w[:, None] * each.mean for w, each in zip(part, told, strict=True))
    return Told(log_prob, np.asarray(mean), _unite_levels(told, part), np.nan)


def _weigh(told: Sequence[Told], shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log p(what is shown) under a union (m,), and its parts' shares of rows (S, m)."""
    with np.errstate(divide="ignore"):
        joint = np.log(shares)[:, None] + np.stack([each.log_prob for each in told])
    # `logsumexp` by hand: SciPy's takes five times as long, and there are 66 ways to share.
    largest = joint.max(axis=0)
    part = np.exp(joint - largest)
    total = part.sum(axis=0)
    return largest + np.log(total), part / total


def _unite_levels(told: Sequence[Told], part: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(
        np.asarray(sum(w[:, None] * table for w, table in zip(part, tables, strict=True)))
        for tables in zip(*(each.levels for each in told), strict=True)
    )


def _judged(cells: Hidden) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the hidden numbers whose columns vary."""
    row, column = np.nonzero(cells.hidden & (cells.spread > 0))
    return row, column


def measure_error(cells: Hidden, mean: np.ndarray) -> float:
    """Return the root mean square error of hidden numbers in standard deviations of their columns.

    Columns that do not vary are left out; with nothing to judge by, all sizes are equally good.
    """
    at = _judged(cells)
    return _measure_error(cells, at, mean[at])


def _measure_error(cells: Hidden, at: tuple[np.ndarray, np.ndarray], mean: np.ndarray) -> float:
    """Return the error of what is told (c,) of the numbers `at` these places."""
    if not len(mean):
        return 0.0
    error = (mean - cells.x[at]) / cells.spread[at[1]]
    return float(np.sqrt(np.average(error**2, weights=cells.weight[at[0]])))


def measure_loss(cells: Hidden, told: Told) -> float:
    """Return what sizes are compared by, a mean over hidden cells.

    A number counts by half its squared error, in standard deviations, a level by minus the log of
    its probability.
    The log score of numbers would have many components on values that repeat, such as zeros, and
    these fill the other gaps badly.
    """
    at = _judged(cells)
    return _measure_loss(cells, at, told.mean[at], told.levels)


def _measure_loss(
    cells: Hidden,
    at: tuple[np.ndarray, np.ndarray],
    mean: np.ndarray,
    levels: tuple[np.ndarray, ...],
) -> float:
    numbers = float(cells.weight @ (cells.hidden & (cells.spread > 0)).sum(axis=1))
    loss, total = 0.5 * numbers * _measure_error(cells, at, mean) ** 2, numbers
    named = np.flatnonzero(cells.n_levels) if levels and cells.n_levels is not None else ()
    for column, share in zip(named, levels, strict=True):
        rows = np.flatnonzero(cells.hidden[:, column])
        own = share[rows, cells.x[rows, column].astype(int)]
        loss -= float(cells.weight[rows] @ np.log(np.maximum(own, TINY)))
        total += float(cells.weight[rows].sum())
    return loss / max(total, TINY)


def find_shares(cells: Hidden, told: Sequence[Told]) -> np.ndarray:
    """Return the shares (S,), in tenths, with which a union of mixtures tells hidden cells best.

    A few hidden cells say little about that: then shares are nearly equal. All ways to share are
    tried: what a search finds would depend on rounding, and so on units and the order of columns.
    """
    n = len(told)
    if n == 1 or not len(cells.x):
        return np.full(n, 1.0 / n)
    at = _judged(cells)
    means = [each.mean[at] for each in told]  # of hidden cells alone: a table may be wide

    def measure(shares: np.ndarray) -> float:
        part = _weigh(told, shares)[1]
        mean = sum(w[at[0]] * each for w, each in zip(part, means, strict=True))
        return _measure_loss(cells, at, np.asarray(mean), _unite_levels(told, part))

    equal = measure(np.full(n, 1.0 / n))
    toll = EVEN_CELLS / float(cells.weight @ cells.hidden.sum(axis=1)) * equal

    def loss(shares: np.ndarray) -> float:
        uneven = n * float(shares @ shares) - 1.0  # 0 for equal shares
        return measure(shares) + toll * uneven

    ways = (each for each in product(range(STEPS + 1), repeat=n) if sum(each) == STEPS)
    return min((np.array(way) / STEPS for way in ways), key=loss)


def limit(cells: Hidden, mean: np.ndarray) -> np.ndarray:
    """Return what is filled in, within what is shown of each column, as imputers do.

    A column of which these rows show nothing has no limits.
    """
    with np.errstate(all="ignore"):  # columns without any value
        low, high = np.fmin.reduce(cells.shown, axis=0), np.fmax.reduce(cells.shown, axis=0)
    return np.fmax(low, np.fmin(high, mean))


def find_trust(cells: Hidden, told: Told, alone: Told) -> np.ndarray:
    """Return how far to trust what rows tell of each column, from 0 to 1, (D,); mostly 1.

    Only a column whose hidden cells are told worse than by its mean, or by the shares of its
    levels, is trusted less. `alone` is told of one empty row. The share of what rows tell in a
    pool of both is the best one for the hidden cells: that of least squares for numbers, of the
    highest log score for levels. A few hidden cells prove little, so that others speak beside them.
    """
    trust = np.ones(cells.x.shape[1])
    for j in np.flatnonzero((cells.spread > 0) & cells.hidden.any(axis=0)):
        rows = np.flatnonzero(cells.hidden[:, j])
        told_off, off = (each[rows, j] - alone.mean[0, j] for each in (told.mean, cells.x))
        power = float(cells.weight[rows] @ told_off**2)
        if power > 0:
            best = float(cells.weight[rows] @ (told_off * off)) / power
            trust[j] = _trust(best, best < 0.5, cells.weight[rows])
    named = np.flatnonzero(cells.n_levels) if told.levels and cells.n_levels is not None else ()
    ways = np.linspace(0.0, 1.0, 10 * STEPS + 1)
    for j, share, shares in zip(named, told.levels, alone.levels, strict=True):
        rows = np.flatnonzero(cells.hidden[:, j])
        level = cells.x[rows, j].astype(int)
        pooled = np.multiply.outer(ways, share[rows, level])
        pooled += np.multiply.outer(1.0 - ways, shares[0, level])
        scores = np.log(np.maximum(pooled, TINY)) @ cells.weight[rows]  # from 0 to all
        if rows.size:
            best = float(ways[scores.argmax()])
            trust[j] = _trust(best, scores[-1] < scores[0], cells.weight[rows])
    return trust


def _trust(best: float, is_worse: bool, weight: np.ndarray) -> float:
    """Return the trust in a column, given the best one for hidden cells of these weights."""
    n = float(weight.sum())
    return float(
        np.clip((best * n + TRUSTING_CELLS) / (n + TRUSTING_CELLS), 0.0, 1.0) if is_worse else 1.0
    )
