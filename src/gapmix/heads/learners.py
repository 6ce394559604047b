"""Learners of heads: what is fitted, and what it says of rows of features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from gapmix.heads.bins import Binned
from gapmix.heads.boosting import Growth, boost
from gapmix.heads.forest import Planting, plant
from gapmix.heads.trees import Trees, add_up, tell_levels, to_trees, without_trees
from gapmix.selection.effort import FEW_TREES, LINES

PENALTIES = (3.0, 30.0, 300.0)  # of slopes, in deviations of the columns


class Recipe(NamedTuple):
    """What heads of numbers, or of levels, are made of, not fitted."""

    tried: tuple[Any, ...]  # for each column, the best one
    growth: Growth | None = None  # of trees that are also tried, on top of it
    plantings: tuple[Planting, ...] = ()  # of forests, of which the best is mixed in
    insists: bool = False  # whether slopes may be so many that they take minutes


class Learners(NamedTuple):
    """Which learners heads are made of."""

    of_numbers: Recipe
    of_levels: Recipe
    max_rows: int = 20_000  # fitted to at most so many rows, drawn at random
    n_rounds: int = 1  # of heads; those of the second see what those of the first fill
    probe: bool = False  # whether large tables have heads only where these promise a gain


class Lines(NamedTuple):
    """A slope for each feature, as ridge regression has them."""

    penalty: float  # of squared slopes, in rows


class Constant(NamedTuple):
    """Tells the same of every row: the shares of the levels."""


class Grown(NamedTuple):
    """A learner with trees on top, not fitted."""

    first: Any  # one with slopes
    growth: Growth


class Learner(NamedTuple):
    """A learner that is fitted, a forest, or both."""

    model: Any  # `Trees`, an estimator of another kind, or None
    levels: np.ndarray  # (k,) codes of the levels that it tells of; (0,) of numbers
    forest: Trees | None = None
    share: float = 0.0  # of the forest in what is told


def choose_learners(asked: Any, seed: int) -> Learners:
    """Return the learners asked for: LINES, FEW_TREES, 'auto', or an estimator of one kind."""
    lines = tuple(Lines(each) for each in PENALTIES)
    odds = tuple(LogisticRegression(C=1 / each, solver="newton-cholesky") for each in PENALTIES)
    if isinstance(asked, str) and asked == LINES:
        middle = len(PENALTIES) // 2
        return Learners(Recipe((lines[middle],)), Recipe((odds[middle],)), max_rows=2_000)
    few = isinstance(asked, str) and asked == FEW_TREES
    if few:
        growth, planting = Growth(60, 0.15, seed), Planting(30, seed)
    else:
        growth, planting = Growth(200, 0.06, seed), Planting(60, seed)
    smooth = planting._replace(least=5, alone=False)
    ours = Learners(
        Recipe(lines, growth, (planting,)),
        Recipe(odds, growth, (planting, smooth)),
    )
    if isinstance(asked, str):
        ours = ours._replace(n_rounds=2)
        return ours._replace(max_rows=5_000, probe=True) if few else ours
    asked = clone(asked)
    if asked.get_params().get("random_state", seed) is None:
        asked.set_params(random_state=seed)
    if is_classifier(asked):
        return ours._replace(of_levels=Recipe((asked,), insists=True))
    return ours._replace(of_numbers=Recipe((asked,), insists=True))


def can_learn(asked: Any) -> bool:
    """Tell whether what was asked for is an estimator that can be a learner."""
    fits = hasattr(asked, "fit") and hasattr(asked, "get_params") and not isinstance(asked, type)
    proper = fits and (is_regressor(asked) or is_classifier(asked))
    return proper and (is_regressor(asked) or hasattr(asked, "predict_proba"))


def learn(
    learner: Any,
    features: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    binned: Binned,
    *,
    named: bool,
    own: int = 0,
    first: Learner | None = None,
) -> Learner:
    """Return a copy of a learner fitted to features (n, p) and targets (n,), codes if `named`.

    Trees are grown on the features `binned`, on top of `first` if that is fitted already. The
    feature `own` says what the mixture fills in: see `_learn_forest`.
    """
    if isinstance(learner, Planting):
        return _learn_forest(features, target, weight, binned, learner, named=named, own=own)
    if isinstance(learner, Lines):
        return _learn_lines(features, target, weight, learner.penalty)
    if isinstance(learner, Constant):
        return _learn_shares(target, weight)
    if isinstance(learner, Grown):
        lines = first
        if lines is None:
            lines = learn(learner.first, features, target, weight, binned, named=named)
        numbers = np.searchsorted(lines.levels, target) if named else target
        n_levels = len(lines.levels)
        grown = boost(lines.model, features, binned, numbers, weight, n_levels, learner.growth)
        return lines._replace(model=grown)
    model, even = clone(learner), bool((weight == weight[0]).all())
    if has_fit_parameter(model, "sample_weight"):
        model.fit(features, target, sample_weight=None if even else weight)
    elif even:
        model.fit(features, target)
    else:
        raise ValueError(
            f"refine={learner!r}: its fit takes no sample_weight, and the rows have different "
            "weights. Use a learner that takes them, or refine='auto'."
        )
    levels = np.asarray(model.classes_) if named else np.empty(0)
    return Learner(to_trees(model) or model, levels.astype(np.int64))


def mix_in(learner: Learner, slope: np.ndarray, share: float) -> Learner:
    """Return a learner of numbers with slopes (p,) that are not learned, in a share of all."""
    forest = learner.share * (1.0 - share)
    model = without_trees(np.zeros(1)) if learner.share == 1.0 else learner.model
    kept = (1.0 - learner.share) * (1.0 - share) / (1.0 - forest)
    before = model.slope if model.slope.size else 0.0
    mixed = model._replace(
        baseline=kept * model.baseline,
        value=kept * model.value,
        slope=kept * before + share / (1.0 - forest) * slope[None],
    )
    return learner._replace(model=mixed, share=forest, forest=learner.forest if forest else None)


def _learn_lines(
    features: np.ndarray, target: np.ndarray, weight: np.ndarray, penalty: float
) -> Learner:
    """Return slopes that fit numbers best, small ones preferred.

    scikit-learn's `Ridge` gives the same, and takes ten times as long on tables of a few hundred
    rows: there are hundreds of such fits for a table.
    """
    share = weight / weight.sum()
    center, middle = share @ features, float(share @ target)
    # Weights that are all alike count as ones.
    rows = weight if (weight != weight[0]).any() else np.ones_like(weight)
    away = features - center
    weighted = away * rows[:, None]
    square = away.T @ weighted
    square[np.diag_indices_from(square)] += penalty
    slope = solve(square, weighted.T @ (target - middle), assume_a="pos", check_finite=False)
    told = without_trees(np.array([middle - float(center @ slope)]))
    return Learner(told._replace(slope=slope[None]), np.empty(0, dtype=np.int64))


def _learn_shares(target: np.ndarray, weight: np.ndarray) -> Learner:
    levels, places = np.unique(target, return_inverse=True)
    odds = np.log(np.bincount(places, weight))
    baseline = odds - odds.mean() if len(levels) > 2 else odds[1:] - odds[0]
    return Learner(without_trees(baseline), levels.astype(np.int64))


def _learn_forest(
    features: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    binned: Binned,
    planting: Planting,
    *,
    named: bool,
    own: int,
) -> Learner:
    """Return a forest fitted to the levels of a category, or to a column of numbers itself.

    A forest of numbers tells how far they are from what the mixture fills in, the feature `own`:
    what a slope of -1 takes away is added to the target before.
    """
    if named:
        levels, places = np.unique(target.astype(np.int64), return_inverse=True)
        return Learner(None, levels, plant(binned, places, weight, len(levels), planting), 1.0)
    forest = plant(binned, target + features[:, own], weight, 0, planting)
    slope = np.zeros((1, features.shape[1]))
    slope[0, own] = -1.0
    return Learner(None, np.empty(0, dtype=np.int64), forest._replace(slope=slope), 1.0)


def predict(learner: Learner, features: np.ndarray) -> np.ndarray:
    """Return what a learner of numbers says of rows, (n,)."""
    told = np.zeros(len(features))
    if learner.forest is not None:
        told += learner.share * add_up(learner.forest, features)[:, 0]
    if isinstance(learner.model, Trees):
        told += (1.0 - learner.share) * add_up(learner.model, features)[:, 0]
    elif learner.model is not None:
        theirs = np.asarray(learner.model.predict(features), dtype=float)
        told += (1.0 - learner.share) * theirs.reshape(len(features))
    return told


def predict_levels(learner: Learner, features: np.ndarray, n_levels: int) -> np.ndarray:
    """Return the probabilities of levels, (n, n_levels), that a learner of categories tells."""
    told = np.zeros((len(features), n_levels))
    if learner.forest is not None:
        told[:, learner.levels] += learner.share * add_up(learner.forest, features)
    if isinstance(learner.model, Trees):
        told[:, learner.levels] += (1.0 - learner.share) * tell_levels(learner.model, features)
    elif learner.model is not None:
        theirs = learner.model.predict_proba(features)
        told[:, learner.levels] += (1.0 - learner.share) * theirs
    return told
