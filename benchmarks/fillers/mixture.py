"""gapmix: GaussianMixtureImputer with its defaults, or with another effort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fillers.contract import Fitted
from gapmix import GaussianMixtureImputer

COMPILED = True  # code is loaded before the clock starts


def fit(x: np.ndarray, n_levels: np.ndarray, seed: int, threads: int, **settings: Any) -> Fitted:
    """Fit the mixture."""
    imputer = GaussianMixtureImputer(random_state=seed, n_jobs=threads, **settings)
    categories = np.flatnonzero(n_levels)

    def encode(x: np.ndarray) -> Any:
        if not categories.size:
            return x
        frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
        for j in categories:
            texts = [None if np.isnan(code) else f"level{code:.0f}" for code in x[:, j]]
            frame[f"c{j}"] = pd.Series(texts, dtype=object)
        return frame

    def decode(values: np.ndarray) -> np.ndarray:
        if not categories.size:
            return np.asarray(values, dtype=float)
        values = np.array(values, dtype=object)
        for j in categories:
            column = values[..., j]
            values[..., j] = np.vectorize(_to_code, otypes=[float])(column)
        return values.astype(float)

    def tell(x: np.ndarray) -> np.ndarray:
        sure = np.full(x.shape, np.nan)
        for j, told in imputer.probabilities(encode(x)).items() if categories.size else ():
            sure[:, int(j[1:])] = told.to_numpy().max(axis=1)
        return sure

    seen = decode(imputer.fit_transform(encode(x)))
    return Fitted(
        seen,
        lambda x: decode(imputer.transform(encode(x))),
        lambda x, m: decode(imputer.sample(encode(x), m, random_state=seed)),
        lambda x, share: tuple(decode(end) for end in imputer.intervals(encode(x), share)),
        tell,
    )


def _to_code(text: Any) -> float:
    return float(text[5:]) if isinstance(text, str) else np.nan
