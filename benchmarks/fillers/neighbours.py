"""k-NN: scikit-learn's, columns scaled to variance 1, categories as indicators of all levels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.impute import KNNImputer

from benchmarks.fillers.contract import Fitted, find_scaling, from_numbers, to_numbers


def fit(x: np.ndarray, n_levels: np.ndarray, seed: int, threads: int, **settings: Any) -> Fitted:
    """Keep the rows."""
    scaling = find_scaling(x, n_levels)
    imputer = KNNImputer(keep_empty_features=True, **settings)
    imputer.fit(to_numbers(x, n_levels, scaling))

    def fill(x: np.ndarray) -> np.ndarray:
        filled = from_numbers(
            imputer.transform(to_numbers(x, n_levels, scaling)), n_levels, scaling
        )
        return np.where(np.isnan(x), filled, x)

    return Fitted(fill(x), fill)
