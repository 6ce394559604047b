"""Models of version 0.1, with columns of 0 and 1 for a category, at work on places of levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.kinds import ANY, Possible


class OneHotModel:
    """Fills a matrix of numbers and places of levels by a model of numbers alone.

    A category of L levels is L - 1 columns of the model: level 0 is where all of them are 0.
    """

    def __init__(self, model: GaussianMixtureImputer, n_levels: Sequence[int]) -> None:
        self._model = model
        self._n_levels = n_levels  # of each column of the matrix, 0 for numbers

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Return rows filled, categories by their most probable level."""
        return self._collapse(np.asarray(self._model.transform(self._expand(x))))

    def impute_with_std(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows filled and the deviations of numbers; those of categories are not known."""
        filled, std = self._model.impute_with_std(self._expand(x))
        is_level = np.array(self._n_levels) > 0
        return self._collapse(filled), np.where(is_level, np.nan, std[:, self._find_first()])

    def possible(self, *, drawn: bool = False) -> Possible:
        """Return which values are filled into each column; levels are possible as they are."""
        found, first = self._model.possible(drawn=drawn), self._find_first()
        free = np.array(self._n_levels) > 0
        return Possible(
            np.where(free, -np.inf, found.low[first]),
            np.where(free, np.inf, found.high[first]),
            np.where(free, ANY, found.decimals[first]),
            np.where(free[:, None], np.nan, found.codes[first]),
        )

    def sample(self, x: np.ndarray, n_draws: int, random_state: Any) -> np.ndarray:
        """Return draws, (n_draws, n, D)."""
        drawn = self._model.sample(self._expand(x), n_draws, random_state)
        return np.stack([self._collapse(each) for each in drawn])

    def score_samples(self, x: np.ndarray) -> np.ndarray:
        """Return the log density of each row."""
        return self._model.score_samples(self._expand(x))

    def _find_first(self) -> np.ndarray:
        """Return the first column of the model for each column of the matrix, (D,)."""
        return np.cumsum([0, *(max(1, n - 1) for n in self._n_levels)])[:-1]

    def _expand(self, x: np.ndarray) -> np.ndarray:
        columns = []
        for values, n_levels in zip(x.T, self._n_levels, strict=True):
            if not n_levels:
                columns.append(values[:, None])
                continue
            hit = (values[:, None] == np.arange(1, n_levels)).astype(float)
            columns.append(np.where(np.isnan(values)[:, None], np.nan, hit))
        return np.concatenate(columns, axis=1)

    def _collapse(self, values: np.ndarray) -> np.ndarray:
        columns, place = [], 0
        for n_levels in self._n_levels:
            width = max(1, n_levels - 1)
            own = values[:, place : place + width]
            place += width
            if n_levels:
                first = 1.0 - own.sum(axis=1, keepdims=True)
                own = np.concatenate([first, own], axis=1).argmax(axis=1)[:, None].astype(float)
            columns.append(own)
        return np.concatenate(columns, axis=1)
