"""Who fills hidden cells by default: the same four, with the same settings, everywhere."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  unlocks the next import
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import BayesianRidge
from sklearn.preprocessing import StandardScaler

from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.refined import read_refine
from gapmix.estimators.validation import to_matrix
from gapmix.evaluate.scores import ALONE, OURS
from gapmix.fitting.progress import counter
from gapmix.selection.effort import EFFORTS, FEW_TREES, LINES
from gapmix.structures import WIDEST

IN_TURN = "iterative"
ROWS_AT_ONCE = 500  # filled by k-NN


def default_imputers(random_state: Any = None, *, mixed: Any = False) -> dict[str, Any]:
    """Return the default imputers: column means, nearest rows, chained regressions, the mixture.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Seed of those that draw.
    mixed : bool, or `categorical_features` of an imputer, default=False
        For tables with categories; True if the types of columns say which these are. All but the
        mixture handle numbers only, and fill categories with the most frequent level.

    Returns
    -------
    dict
        Name to transformer, for `hide_and_score`; add your own to it.

    Notes
    -----
    scikit-learn's have its default settings; k-NN works on columns scaled to variance 1.

    Examples
    --------
    >>> from gapmix.evaluate import default_imputers
    >>> list(default_imputers())
    ['mean', 'k-NN', 'iterative', 'mixture']
    """
    rivals = {
        "mean": SimpleImputer(keep_empty_features=True),
        "k-NN": _NearRows(KNNImputer(keep_empty_features=True)),
        IN_TURN: _InTurn(IterativeImputer(keep_empty_features=True, random_state=random_state)),
    }
    if mixed is False:
        return {**rivals, OURS: GaussianMixtureImputer(random_state=random_state)}
    categories = "from_dtype" if mixed is True else mixed
    ours = GaussianMixtureImputer(categorical_features=categories, random_state=random_state)
    return {name: _WithMode(each, categories) for name, each in rivals.items()} | {OURS: ours}


def beside_itself(imputers: dict[str, Any]) -> dict[str, Any]:
    """Return contenders with the mixture alone before ours, if ours is refined on request."""
    ours = imputers[OURS]
    asked = read_refine(ours.refine, EFFORTS[ours.effort], ours.n_components, mixed=True)
    if asked in (None, LINES, FEW_TREES):
        return imputers
    rivals = {name: each for name, each in imputers.items() if name != OURS}
    return {**rivals, ALONE: clone(ours).set_params(refine=False), OURS: ours}


def leave_slow(names: Iterable[str], n_columns: int) -> tuple[str, ...]:
    """Return the contenders that end in reasonable time on a table of so many columns.

    Regressions in turn take 10 for each column, on all the others: on 200 x 3,000 more than a day.
    """
    return tuple(name for name in names if name != IN_TURN or n_columns <= WIDEST)


class _WithMode(TransformerMixin, BaseEstimator):
    """An imputer of numbers at work on the numbers, the most frequent level in categories."""

    def __init__(self, imputer: Any, categorical_features: Any = "from_dtype") -> None:
        self.imputer, self.categorical_features = imputer, categorical_features

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Return X filled, as objects if there are categories."""
        # One component without priors knows columns by themselves, but for correlations.
        one = GaussianMixtureImputer(
            1,
            categorical_features=self.categorical_features,
            covariance_type="diag",
            mean_shrinkage=0.0,
            shrinkage=0.0,
            refine=False,
        )
        filled: np.ndarray = one.fit_transform(X)
        numbers = np.flatnonzero(~one.is_categorical_)
        if numbers.size:
            filled[:, numbers] = clone(self.imputer).fit_transform(one._read(X)[:, numbers])
        return filled


class _NearRows(TransformerMixin, BaseEstimator):
    """k-NN in columns scaled to variance 1, back in the columns' units after; tells how far it is.

    Rows are filled some at a time, from all of them: the same as all at once.
    """

    def __init__(self, imputer: Any) -> None:
        self.imputer = imputer

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Return X filled."""
        x = np.asarray(to_matrix(X), dtype=float)
        scaler = StandardScaler().fit(x)
        scaled = scaler.transform(x)
        imputer = clone(self.imputer).fit(scaled)
        parts = [scaled[first : first + ROWS_AT_ONCE] for first in range(0, len(x), ROWS_AT_ONCE)]
        tick, filled = counter("part", len(parts)), []
        for part in parts:
            filled.append(imputer.transform(part))
            if tick is not None:
                tick()
        return np.where(np.isnan(x), scaler.inverse_transform(np.concatenate(filled)), x)


class _InTurn(TransformerMixin, BaseEstimator):
    """scikit-learn's iterative imputer, which tells how far its regressions have come."""

    def __init__(self, imputer: Any) -> None:
        self.imputer = imputer

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Return X filled."""
        x = np.asarray(to_matrix(X), dtype=float)
        n_gappy = int(np.isnan(x).any(axis=0).sum())
        tick = counter("regression", max(1, self.imputer.max_iter * n_gappy))
        filled: np.ndarray = clone(self.imputer).set_params(estimator=_Told(tick)).fit_transform(x)
        return filled


class _Told(BayesianRidge):
    """scikit-learn's default regression; calls `tick` after each fit."""

    def __init__(self, tick: Any = None) -> None:
        super().__init__()
        self.tick = tick

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit, and tell of it."""
        super().fit(X, y, sample_weight)
        if self.tick is not None:
            self.tick()
        return self
