"""A fitted mixture together with the table it was fitted to: what `gapmix fit` writes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gapmix.estimators.mixture import GaussianMixture


class TableModel(BaseEstimator):
    """A mixture that knows the columns, levels, marks and bounds of its table.

    Attributes
    ----------
    mixture_ : GaussianMixture
        Fitted to the matrix of the table.
    columns_ : list of dict
        The table's columns, as plain data: name, kind, whole, levels.
    marks_ : list of str
        What stands for a gap, besides the usual marks.
    bounds_ : list of list
        Lowest and highest value of each column of the matrix.
    n_features_in_ : int
        Columns of the matrix.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names.
    """

    def fit(
        self,
        mixture: GaussianMixture,
        *,
        names: list[str],
        columns: list[dict[str, Any]],
        marks: list[str],
        bounds: list[list[float]],
    ) -> TableModel:
        """Put a fitted mixture and what is known of its table together."""
        self.mixture_ = mixture
        self.columns_ = columns
        self.marks_ = marks
        self.bounds_ = bounds
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def fill(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows with their gaps filled, and the standard deviation of every filled cell."""
        check_is_fitted(self)
        gaps = np.isnan(x)
        rows = np.flatnonzero(gaps.any(axis=1))  # complete rows need nothing
        filled, std = x.copy(), np.zeros_like(x)
        if rows.size:
            mean, std[rows] = self.mixture_.impute(x[rows], return_std=True)
            filled[rows] = np.where(gaps[rows], self._bound(mean), x[rows])
        return filled, std

    def draw(self, x: np.ndarray, seed: np.random.SeedSequence) -> np.ndarray:
        """Return rows with their gaps filled by one draw."""
        check_is_fitted(self)
        gaps = np.isnan(x)
        rows = np.flatnonzero(gaps.any(axis=1))
        filled = x.copy()
        if rows.size:
            random = np.random.RandomState(np.random.MT19937(seed))
            drawn = self.mixture_.sample_missing(x[rows], 1, random_state=random)[0]
            filled[rows] = np.where(gaps[rows], self._bound(drawn), x[rows])
        return filled

    def score(self, x: np.ndarray) -> np.ndarray:
        """Return the log density of what each row shows, (n,)."""
        check_is_fitted(self)
        scores: np.ndarray = self.mixture_.score_samples(x)
        return scores

    def sample(self, n_rows: int, seed: np.random.SeedSequence) -> np.ndarray:
        """Return new rows, (n_rows, n_features_in_)."""
        return self.draw(np.full((n_rows, self.n_features_in_), np.nan), seed)

    def _bound(self, x: np.ndarray) -> np.ndarray:
        low, high = np.array(self.bounds_).T
        return np.clip(x, low, high)
