"""gapmix without categories: 0/1 columns inside the Gaussian, of which the largest is the level."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.fillers.contract import Fitted, find_scaling, from_numbers, to_numbers
from gapmix import GaussianMixtureImputer

COMPILED = True


def fit(x: np.ndarray, n_levels: np.ndarray, seed: int, threads: int, **settings: Any) -> Fitted:
    """Fit the mixture to numbers and indicators of all levels."""
    scaling = find_scaling(x, n_levels)
    imputer = GaussianMixtureImputer(random_state=seed, n_jobs=threads, **settings)
    seen = imputer.fit_transform(to_numbers(x, n_levels, scaling))

    def fill(x: np.ndarray) -> np.ndarray:
        z = imputer.transform(to_numbers(x, n_levels, scaling))
        return from_numbers(z, n_levels, scaling)

    return Fitted(from_numbers(seen, n_levels, scaling), fill)
