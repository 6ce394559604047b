"""Who fills hidden cells by default: the same four, with the same settings, everywhere."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  unlocks the next import
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.validation import to_matrix

OURS = "mixture"


def default_imputers(random_state: Any = None, *, mixed: Any = False) -> dict[str, Any]:
    """Return the usual contenders: column means, near rows, regressions in turn, the mixture.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Seed of those that draw.
    mixed : bool, or `categorical_features` of an imputer, default=False
        For tables with categories, True if their types tell which these are. All but the mixture
        know numbers only: they fill numbers from numbers, categories by the most frequent level.

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
        "k-NN": _Scaled(KNNImputer(keep_empty_features=True)),
        "iterative": IterativeImputer(keep_empty_features=True, random_state=random_state),
    }
    if mixed is False:
        return {**rivals, OURS: GaussianMixtureImputer(random_state=random_state)}
    categories = "from_dtype" if mixed is True else mixed
    ours = GaussianMixtureImputer(categorical_features=categories, random_state=random_state)
    return {name: _WithMode(each, categories) for name, each in rivals.items()} | {OURS: ours}


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
        )
        filled: np.ndarray = one.fit_transform(X)
        numbers = np.flatnonzero(~one.is_categorical_)
        if numbers.size:
            filled[:, numbers] = clone(self.imputer).fit_transform(one._read(X)[:, numbers])
        return filled


class _Scaled(TransformerMixin, BaseEstimator):
    """An imputer at work in columns scaled to variance 1, back in the columns' units after."""

    def __init__(self, imputer: Any) -> None:
        self.imputer = imputer

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Return X filled."""
        x = np.asarray(to_matrix(X), dtype=float)
        scaler = StandardScaler().fit(x)
        filled = clone(self.imputer).fit_transform(scaler.transform(x))
        return np.where(np.isnan(x), scaler.inverse_transform(filled), x)
