"""miceforest: LightGBM in a chain with mean matching; numbers are the mean of its data sets."""

from __future__ import annotations

from typing import Any

import miceforest
import numpy as np
import pandas as pd

from benchmarks.fillers.contract import Fitted


def fit(
    x: np.ndarray,
    n_levels: np.ndarray,
    seed: int,
    threads: int,
    data_sets: int = 5,
    rounds: int = 5,
    **settings: Any,
) -> Fitted:
    """Fit the chain once for each data set."""
    categories = np.flatnonzero(n_levels)
    levels = {j: np.unique(x[~np.isnan(x[:, j]), j]) for j in categories}  # those it can fill in

    def encode(x: np.ndarray) -> pd.DataFrame:
        frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
        for j in categories:
            frame[f"c{j}"] = pd.Categorical(frame[f"c{j}"], levels[j])
        return frame

    kernel = miceforest.ImputationKernel(
        encode(x), num_datasets=data_sets, random_state=seed, **settings
    )
    kernel.mice(rounds, num_threads=threads, verbose=False)
    made: dict[bytes, np.ndarray] = {}  # draws of tables that were filled before

    def collect(filled: Any) -> np.ndarray:
        # the last round by its number: of new rows, version 6.0.5 takes the first guess for it
        tables = [filled.complete_data(number, iteration=rounds) for number in range(data_sets)]
        return np.stack([np.asarray(table.astype(float)) for table in tables])

    def draw(x: np.ndarray, m: int) -> np.ndarray:
        key = x.tobytes()
        if key not in made:
            made[key] = collect(kernel.impute_new_data(encode(x)))
        return made[key]

    def fill(x: np.ndarray) -> np.ndarray:
        return _combine(draw(x, data_sets), n_levels)

    made[x.tobytes()] = collect(kernel)
    return Fitted(fill(x), fill, draw)


def _combine(draws: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """Return means of numbers and the levels drawn most often."""
    filled = draws.mean(axis=0)
    for j in np.flatnonzero(n_levels):
        votes = (draws[:, :, j, None] == np.arange(n_levels[j])).sum(axis=0)
        filled[:, j] = votes.argmax(axis=1)
    return filled
