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


def default_imputers(random_state: Any = None, *, mixed: bool = False) -> dict[str, Any]:
    """Return the usual contenders: column means, near rows, regressions in turn, the mixture.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Seed of those that draw.
    mixed : bool, default=False
        For tables with categories: column means and most frequent levels, and the mixture; the
        others know numbers only.

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
    if mixed:
        return {"mean": _MeanMode(), OURS: GaussianMixtureImputer(random_state=random_state)}
    return {
        "mean": SimpleImputer(keep_empty_features=True),
        "k-NN": _Scaled(KNNImputer(keep_empty_features=True)),
        "iterative": IterativeImputer(keep_empty_features=True, random_state=random_state),
        OURS: GaussianMixtureImputer(random_state=random_state),
    }


class _MeanMode(TransformerMixin, BaseEstimator):
    """Column means, and of categories the most frequent level."""

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Return X filled, as objects."""
        # One component without priors knows columns by themselves, but for correlations.
        one = GaussianMixtureImputer(1, covariance_type="diag", mean_shrinkage=0.0, shrinkage=0.0)
        filled: np.ndarray = one.fit_transform(X)
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
