"""gcimpute: a Gaussian copula. Categories are codes, which it takes as ordered.

Where it cannot tell by itself what columns are (it fails on decimal fractions of which one is
frequent), those with more than a few distinct values are said to be continuous.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gcimpute.gaussian_copula import GaussianCopula

from benchmarks.fillers.contract import Fitted, nearest_codes

FEW = 20  # distinct values that may be those of an ordered category


def fit(x: np.ndarray, n_levels: np.ndarray, seed: int, threads: int, **settings: Any) -> Fitted:
    """Fit the copula."""
    model = GaussianCopula(random_state=seed, n_jobs=threads, **settings)
    try:
        seen = np.asarray(model.fit_transform(X=x.copy()))
    except ValueError:
        distinct = np.array([len(np.unique(column[~np.isnan(column)])) for column in x.T])
        many = distinct > FEW
        model = GaussianCopula(random_state=seed, n_jobs=threads, **settings)
        kinds = {"continuous": np.flatnonzero(many), "ordinal": np.flatnonzero(~many)}
        seen = np.asarray(model.fit_transform(X=x.copy(), **kinds))

    def fill(x: np.ndarray) -> np.ndarray:
        return nearest_codes(np.asarray(model.transform(X=x.copy())), n_levels)

    def draw(x: np.ndarray, m: int) -> np.ndarray:
        made = np.moveaxis(np.asarray(model.sample_imputation(X=x.copy(), num=m)), 2, 0)
        return nearest_codes(made, n_levels)

    def intervals(x: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
        ends = model.get_confidence_interval(X=x.copy(), alpha=share)
        return np.asarray(ends["lower"]), np.asarray(ends["upper"])

    return Fitted(nearest_codes(seen, n_levels), fill, draw, intervals)
