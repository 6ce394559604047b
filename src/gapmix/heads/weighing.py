"""How much of a correction to use: weights found on known cells that its learner has not seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.categories import TINY
from gapmix.heads.bins import Binned
from gapmix.heads.features import Places
from gapmix.heads.using import Head, heed

HALVES = (0.0, 0.3, 1.0, 3.0)  # deviations tried for `Head.half`, in those of a typical cell
STEPS = 100  # from no weight to all, for probabilities


class Known(NamedTuple):
    """The rows that show a column, as the head of the column sees them."""

    rows: np.ndarray  # (m,) their numbers
    mean: np.ndarray  # (m,) what the mixture fills in
    features: np.ndarray  # (m, p)
    binned: Binned  # the features, if trees are to see them
    places: Places  # which features say what the mixture fills in
    target: np.ndarray  # (m,) distance from the mixture's mean in standard deviations, or a code
    shares: np.ndarray  # (m, L) what the mixture says of the levels of a category; (m, 0)
    std: np.ndarray  # (m,) the mixture's deviation of the cell, in the same unit; of numbers
    weight: np.ndarray  # (m,)
    fold: np.ndarray  # (m,)


class Judged(NamedTuple):
    """A head without its learner, and what it leaves."""

    head: Head
    left: np.ndarray  # (m,) distance from the refined mean, of numbers; (0,)
    loss: float  # what learners are compared by


def weigh(known: Known, told: np.ndarray, column: int) -> Judged:
    """Return the head of a column whose learner says this of known cells, (m,) or (m, L)."""
    named = known.shares.shape[1] > 0
    return (_weigh_levels if named else _weigh_numbers)(known, told, column)


def _weigh_numbers(known: Known, correction: np.ndarray, column: int) -> Judged:
    """Return the head of a column of numbers; its weight by least squares."""
    weight, away = known.weight, known.target
    typical = float(np.sqrt(np.average(known.std**2, weights=weight)))
    halves = [step * typical for step in HALVES]
    tried = [_fit_weight(away, heed(known.std, half) * correction, weight) for half in halves]
    best = int(np.argmin([float(weight @ left**2) for left, _ in tried]))
    (left, share), half = tried[best], halves[best]
    before, after = (float(np.sqrt(np.average(each**2, weights=weight))) for each in (away, left))
    spread = 1.0
    if share > 0:
        # Where only what is far out is told better, most cells stay as unsure as they were.
        heeding = weight * heed(known.std, half)
        square = float(heeding @ left**2) / float(heeding @ away**2)
        typical = float(heeding @ np.abs(left)) / float(heeding @ np.abs(away))
        spread = max(square**0.5, min(typical, 1.0))
    head = Head(column, share, spread, before, after, None, half if share > 0 else 0.0)
    return Judged(head, left if spread > 0 else left[:0], after)


def _fit_weight(
    away: np.ndarray, correction: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return what a correction leaves of errors, and the weight it has: the best one, believed."""
    power = float(weight @ correction**2)
    share = float(np.clip(weight @ (away * correction) / power, 0.0, 1.0)) if power > 0 else 0.0
    share *= believe(away**2 - (away - share * correction) ** 2, weight)
    return away - share * correction, share


def _weigh_levels(known: Known, told: np.ndarray, column: int) -> Judged:
    """Return the head of a category; its weight by the log score."""
    own = np.arange(len(told)), known.target.astype(int)
    mixture, learned, weight = known.shares[own], told[own], known.weight
    grid = np.arange(STEPS + 1)[:, None] / STEPS
    scores = np.log(np.maximum((1.0 - grid) * mixture + grid * learned, TINY))
    best = int((scores @ weight).argmax())
    share = best / STEPS * believe(scores[best] - scores[0], weight)
    shrunk = np.log(np.maximum((1.0 - share) * mixture + share * learned, TINY))
    before, after = (float(np.average(each, weights=weight)) for each in (scores[0], shrunk))
    return Judged(Head(column, share, 1.0, before, after, None), np.empty(0), -after)


def believe(gains: np.ndarray, weight: np.ndarray) -> float:
    """Return what share of a correction to keep, given its gains on known cells (m,).

    A mean gain of t standard errors keeps 1 - 1 / t^2 of it, as James and Stein shrink: nothing
    within one standard error, three quarters at two.
    """
    mean = float(np.average(gains, weights=weight))
    error = float(np.average((gains - mean) ** 2, weights=weight)) / len(gains)
    return 1.0 - error / mean**2 if mean > 0 and mean**2 > error else 0.0
