"""scikit-learn's IterativeImputer, with its own regression or with extra trees.

Regressions get columns as they are or scaled to variance 1, which changes when rounds end, and
categories as indicators of all levels but the first. Trees get categories as codes, and what they
say is rounded to the nearest one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from benchmarks.fillers.contract import (
    Fitted,
    Scaling,
    find_scaling,
    from_numbers,
    nearest_codes,
    to_numbers,
)


def fit(
    x: np.ndarray,
    n_levels: np.ndarray,
    seed: int,
    threads: int,
    trees: int = 0,
    scaled: bool = True,
    **settings: Any,
) -> Fitted:
    """Fit the chain."""
    model = ExtraTreesRegressor(trees, n_jobs=threads, random_state=seed) if trees else None
    imputer = IterativeImputer(model, random_state=seed, keep_empty_features=True, **settings)
    scaling = find_scaling(x, n_levels)
    if not scaled:
        scaling = Scaling(np.zeros_like(scaling.center), np.ones_like(scaling.spread))

    def encode(x: np.ndarray) -> np.ndarray:
        return x if trees else to_numbers(x, n_levels, scaling, first=False)

    def decode(z: np.ndarray, x: np.ndarray) -> np.ndarray:
        filled = (
            nearest_codes(z, n_levels) if trees else from_numbers(z, n_levels, scaling, first=False)
        )
        return np.where(np.isnan(x), filled, x)

    seen = decode(imputer.fit_transform(encode(x)), x)
    return Fitted(seen, lambda x: decode(imputer.transform(encode(x)), x))
