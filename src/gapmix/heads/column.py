"""The head of one column: its learners, their shares, and a weight, all found by cross-fitting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gapmix.heads.bins import see_only, take_bins
from gapmix.heads.forest import Planting
from gapmix.heads.learners import (
    Constant,
    Grown,
    Learner,
    Learners,
    Lines,
    Recipe,
    learn,
    mix_in,
    predict,
    predict_levels,
)
from gapmix.heads.weighing import Judged, Known, weigh

SHARES = (0.25, 0.5, 0.75, 1.0)  # of a forest, or of what indicators tell, that is mixed in
N_FOLDS = 3
UNTAUGHT = (None,) * N_FOLDS
PROBING_TREES = 12
MANY_CELLS = 2_000  # known ones of a column
MOST_SLOPES = 800  # of the levels of a category together


class Tried(NamedTuple):
    """A learner, what it says of rows it has not seen, and the head that this makes."""

    learner: Any  # not fitted
    told: np.ndarray  # (m,) or (m, L)
    models: tuple[Learner | None, ...]  # fitted without each fold, None where that cannot be
    judged: Judged
    share: float = 0.0  # of a forest in what is told
    planting: Planting | None = None  # of this forest
    echo: float = 0.0  # share of the Gaussian of indicators in what is told


def fit_head(known: Known, column: int, recipe: Recipe) -> tuple[Judged, Recipe]:
    """Return the head of a column, the best of its recipe, and what of the recipe it is made of.

    Trees on top of lines take longest to grow. With many cells, a forest would have found what
    they could, and they are tried only where it or lines help.
    """
    first = min((_try(known, each, column) for each in recipe.tried), key=_loss)
    forests = _tell_forests(known, recipe)
    best = _mix(known, first, forests, column)
    promising = len(known.target) < MANY_CELLS or best.judged.head.weight > 0
    if recipe.growth is not None and promising:
        grown = _try(known, Grown(first.learner, recipe.growth), column, first.models)
        best = min(best, _mix(known, grown, forests, column), key=_loss)
    best = _mix_echo(known, best, column)
    used = Recipe(
        (first.learner,),
        recipe.growth if isinstance(best.learner, Grown) else None,
        recipe.plantings[:1] if best.planting is None else (best.planting,),
    )
    if best.judged.head.weight == 0.0:
        return best.judged, used
    everything = np.ones(len(known.target), dtype=bool)
    learner = _teach(best.learner, known, everything)
    if best.planting is not None:
        more = _teach(best.planting, known, everything)
        learner = learner._replace(forest=more.forest, share=best.share)
    if best.echo > 0.0:
        learner = mix_in(learner, _slope_of_echo(known), best.echo)
    return best.judged._replace(head=best.judged.head._replace(learner=learner)), used


def promise_gain(known: Known, column: int, learners: Learners) -> float:
    """Return what share of its error a head of numbers saves, of lines and a small forest alone."""
    recipe = learners.of_numbers
    small = tuple(each._replace(n_trees=PROBING_TREES) for each in recipe.plantings)
    lines = _try(known, recipe.tried[len(recipe.tried) // 2], column)
    forests = _tell_forests(known, recipe._replace(plantings=small))
    head = _mix(known, lines, forests, column).judged.head
    return 1.0 - head.after / head.before if head.before > 0 else 0.0


def find_recipe(known: Known, learners: Learners) -> Recipe:
    """Return what the head of a column is made of: at most a forest, if slopes would be too many.

    The time of logistic regressions goes with the third power of the number of slopes.
    """
    if not is_named(known):
        return learners.of_numbers
    recipe = learners.of_levels
    n_slopes = known.shares.shape[1] * known.features.shape[1]
    if n_slopes <= MOST_SLOPES or recipe.insists:
        return recipe
    return recipe._replace(tried=(Constant(),), growth=None)


def is_named(known: Known) -> bool:
    """Tell whether the column is a category."""
    return known.shares.shape[1] > 0


def _loss(tried: Tried) -> float:
    return tried.judged.loss


def _try(
    known: Known, learner: Any, column: int, first: Sequence[Learner | None] = UNTAUGHT
) -> Tried:
    told, models = tell_others(known, learner, first)
    return Tried(learner, told, models, weigh(known, told, column))


def _tell_forests(known: Known, recipe: Recipe) -> list[tuple[Planting, np.ndarray]]:
    """Return the forests of a recipe, not grown, with what each says of rows it has not seen."""
    return [(each, tell_others(known, each)[0]) for each in recipe.plantings]


def _blend(known: Known, tried: Tried, other: np.ndarray, share: float, column: int) -> Tried:
    """Return a learner with a share of what another one says of rows it has not seen."""
    told = tried.told + share * (other - tried.told)
    return tried._replace(told=told, judged=weigh(known, told, column))


def _mix(
    known: Known, tried: Tried, forests: Sequence[tuple[Planting, np.ndarray]], column: int
) -> Tried:
    """Return a learner with the best share of one of the forests, which may be none."""
    mixed = [tried]
    for (planting, forest), share in product(forests, SHARES):
        both = _blend(known, tried, forest, share, column)
        mixed.append(both._replace(share=share, planting=planting))
    return min(mixed, key=_loss)


def _mix_echo(known: Known, tried: Tried, column: int) -> Tried:
    """Return a learner with the best share, which may be none, of what indicators tell."""
    if known.places.echo is None or not isinstance(tried.learner, Lines | Grown):
        return tried
    echo = known.features @ _slope_of_echo(known)
    mixed = [_blend(known, tried, echo, share, column)._replace(echo=share) for share in SHARES]
    return min((tried, *mixed), key=_loss)


def _slope_of_echo(known: Known) -> np.ndarray:
    """Return what makes of features how far indicators are from the mixture's mean, (p,)."""
    slope = np.zeros(known.features.shape[1])
    if known.places.echo is not None:
        slope[known.places.own], slope[known.places.echo] = -1.0, 1.0
    return slope


def tell_others(
    known: Known, learner: Any, first: Sequence[Learner | None] = UNTAUGHT
) -> tuple[np.ndarray, tuple[Learner | None, ...]]:
    """Return what a learner says of each fold's rows, (m,) or (m, L), learned from the others.

    Also what it learned, for each fold; `first` is what the one below it did.
    """
    named = is_named(known)
    told = np.zeros(known.shares.shape if named else known.target.shape)
    models: list[Learner | None] = []
    for each, before in enumerate(first):
        out = known.fold == each
        if not _can_learn(known, ~out) or not out.any():
            models.append(None)
            continue
        model = _teach(learner, known, ~out, before)
        models.append(model)
        if named:
            told[out] = predict_levels(model, known.features[out], known.shares.shape[1])
        else:
            told[out] = predict(model, known.features[out])
    return told, tuple(models)


def _can_learn(known: Known, rows: np.ndarray) -> bool:
    """Tell whether rows have something to tell apart."""
    named = is_named(known)
    return bool(rows.any()) and (not named or len(np.unique(known.target[rows])) > 1)


def _teach(learner: Any, known: Known, rows: np.ndarray, first: Learner | None = None) -> Learner:
    """Return a learner fitted to some rows; `first` is one below it that is fitted to them."""
    binned, places = take_bins(known.binned, rows), known.places
    if isinstance(learner, Planting):
        binned = see_only(binned, places.others if learner.alone else places.columns)
    shown = known.features[rows], known.target[rows], known.weight[rows], binned
    return learn(learner, *shown, named=is_named(known), own=places.own, first=first)
