"""HyperImpute: a chain that searches a model for each column. Each table needs a fit of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hyperimpute.plugins.imputers import Imputers

from benchmarks.fillers.contract import Fitted, nearest_codes


def fit(x: np.ndarray, n_levels: np.ndarray, seed: int, threads: int, **settings: Any) -> Fitted:
    """Fill the table."""
    imputer = Imputers().get("hyperimpute", random_state=seed, **settings)
    frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
    return Fitted(nearest_codes(np.asarray(imputer.fit_transform(frame), dtype=float), n_levels))
