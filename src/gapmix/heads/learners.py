"""Learners of heads: what is fitted, and what it says of rows of features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.validation import has_fit_parameter

from gapmix.heads.boosting import Growth, boost
from gapmix.heads.trees import Trees, add_up, tell_levels, to_trees
from gapmix.selection.effort import LINEAR

PENALTIES = (3.0, 30.0, 300.0)  # of slopes, in deviations of the columns
BOOSTING: dict[str, Any] = {"min_samples_leaf": 10, "max_leaf_nodes": 15, "early_stopping": False}


class Learners(NamedTuple):
    """Which learners heads are made of, not fitted: for each column, the best of some."""

    of_numbers: tuple[Any, ...]
    of_levels: tuple[Any, ...]
    max_rows: int  # fitted to at most so many rows, drawn at random
    growth: Growth | None = None  # of trees that are also tried, on top of the best one


class Grown(NamedTuple):
    """A learner with trees on top, not fitted."""

    first: Any  # one with slopes
    growth: Growth


class Learner(NamedTuple):
    """A learner that is fitted."""

    model: Any  # `Trees`, or an estimator of another kind
    levels: np.ndarray  # (k,) codes of the levels that it tells of; (0,) of numbers


def choose_learners(asked: Any, seed: int) -> Learners:
    """Return the learners asked for: LINEAR, 'auto', or an estimator for numbers or levels."""
    lines = Learners(
        tuple(Ridge(alpha=each) for each in PENALTIES),
        tuple(LogisticRegression(C=1.0 / each, solver="newton-cholesky") for each in PENALTIES),
        max_rows=5_000,
        growth=Growth(),
    )
    if isinstance(asked, str) and asked == LINEAR:
        return lines
    numbers = HistGradientBoostingRegressor(random_state=seed, **BOOSTING)
    levels = HistGradientBoostingClassifier(random_state=seed, **BOOSTING)
    found = Learners((numbers,), (levels,), max_rows=20_000)
    if isinstance(asked, str):
        return found
    asked = clone(asked)
    if asked.get_params().get("random_state", seed) is None:
        asked.set_params(random_state=seed)
    if is_classifier(asked):
        return found._replace(of_levels=(asked,))
    return found._replace(of_numbers=(asked,))


def can_learn(asked: Any) -> bool:
    """Tell whether what was asked for is an estimator that can be a learner."""
    fits = hasattr(asked, "fit") and hasattr(asked, "get_params") and not isinstance(asked, type)
    proper = fits and (is_regressor(asked) or is_classifier(asked))
    return proper and (is_regressor(asked) or hasattr(asked, "predict_proba"))


def learn(
    learner: Any, features: np.ndarray, target: np.ndarray, weight: np.ndarray, *, named: bool
) -> Learner:
    """Return a copy of a learner fitted to features (n, p) and targets (n,), codes if `named`."""
    if isinstance(learner, Grown):
        lines = learn(learner.first, features, target, weight, named=named)
        places = np.searchsorted(lines.levels, target) if named else target
        grown = boost(lines.model, features, places, weight, len(lines.levels), learner.growth)
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


def predict(learner: Learner, features: np.ndarray) -> np.ndarray:
    """Return what a learner of numbers says of rows, (n,)."""
    if isinstance(learner.model, Trees):
        return add_up(learner.model, features)[:, 0]
    return np.asarray(learner.model.predict(features), dtype=float).reshape(len(features))


def predict_levels(learner: Learner, features: np.ndarray, n_levels: int) -> np.ndarray:
    """Return the probabilities of levels, (n, n_levels), that a learner of categories tells."""
    told = np.zeros((len(features), n_levels))
    if isinstance(learner.model, Trees):
        told[:, learner.levels] = tell_levels(learner.model, features)
    else:
        told[:, learner.levels] = learner.model.predict_proba(features)
    return told
