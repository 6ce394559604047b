"""All four estimators behind one door, for tests that ask the same of each of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
)


class Kind(NamedTuple):
    """An estimator, the target it needs, and the methods that answer about new rows."""

    cls: Any
    target: Callable[[int], np.ndarray | None]  # number of rows -> y
    answers: tuple[str, ...]

    def fit(self, X: object, /, *, sample_weight: object = None, **settings: object) -> Any:
        """Fit one component unless told otherwise, whether or not EM converges."""
        estimator = self.cls(**{"n_components": 1, "random_state": 0, **settings})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return estimator.fit(X, self.target(count_rows(X)), sample_weight=sample_weight)


def count_rows(X: Any) -> int:
    """Return the number of rows, 0 for what has none."""
    shape = getattr(X, "shape", None)
    if shape:
        return int(shape[0])
    return len(X) if hasattr(X, "__len__") else 0


def no_target(n: int) -> None:
    return None


def numbers(n: int) -> np.ndarray:
    return np.random.default_rng(9).normal(size=n)


def labels(n: int) -> np.ndarray:
    return np.arange(n) % 2


KINDS = {
    "mixture": Kind(
        GaussianMixture, no_target, ("predict", "score_samples", "impute", "sample_missing")
    ),
    "imputer": Kind(
        GaussianMixtureImputer,
        no_target,
        ("transform", "score_samples", "impute_with_std", "sample", "intervals"),
    ),
    "regressor": Kind(
        GaussianMixtureRegressor, numbers, ("predict", "predict_quantiles", "sample_y")
    ),
    "classifier": Kind(
        GaussianMixtureClassifier, labels, ("predict", "predict_proba", "score_samples")
    ),
}
NEW = {name: kind for name, kind in KINDS.items() if name != "mixture"}


def answer(estimator: Any, kind: Kind, X: object) -> list[np.ndarray]:
    """Return everything the estimator says about rows."""
    results: list[np.ndarray] = []
    for method in kind.answers:
        result = getattr(estimator, method)(X)
        results += result if isinstance(result, tuple) else [result]
    return results
