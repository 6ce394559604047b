"""After missForest: a random forest for each column in turn, until rounds stop agreeing better.

Other columns enter as they are, categories as indicators; a category has a forest that votes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.fillers import mean
from benchmarks.fillers.contract import AS_IS, Fitted, to_numbers


def fit(
    x: np.ndarray,
    n_levels: np.ndarray,
    seed: int,
    threads: int,
    trees: int = 100,
    max_rounds: int = 10,
    **settings: Any,
) -> Fitted:
    """Fill the table, and keep the forests of every round for new rows."""
    begin = mean.fit(x, n_levels, seed, threads)
    gaps = np.isnan(x)
    order = np.argsort(gaps.sum(axis=0), kind="stable")
    order = order[~gaps.all(axis=0)[order]]
    filled, rounds = begin.seen, []
    last = (np.inf, np.inf)
    for _ in range(max_rounds):
        before, filled, forests = filled, filled.copy(), []
        for j in order:
            kind = RandomForestClassifier if n_levels[j] else RandomForestRegressor
            size = 2 if n_levels[j] else 6  # as R's forests stop
            forest = kind(
                trees,
                n_jobs=threads,
                random_state=seed,
                max_features="sqrt",
                min_samples_split=size,
            )
            others = _others(filled, n_levels, j)
            known = ~gaps[:, j]
            forest.fit(others[known], x[known, j])
            forests.append((j, forest))
            if not known.all():
                filled[~known, j] = forest.predict(others[~known])
        change = _change(before, filled, gaps, n_levels)
        if change[0] >= last[0] and change[1] >= last[1]:
            filled = before
            break
        last = change
        rounds.append(forests)

    def fill(x: np.ndarray) -> np.ndarray:
        gaps, filled = np.isnan(x), begin.fill(x)
        for forests in rounds:
            for j, forest in forests:
                if gaps[:, j].any():
                    others = _others(filled[gaps[:, j]], n_levels, j)
                    filled[gaps[:, j], j] = forest.predict(others)
        return filled

    return Fitted(filled, fill)


def _others(filled: np.ndarray, n_levels: np.ndarray, j: int) -> np.ndarray:
    keep = np.arange(len(n_levels)) != j
    return to_numbers(filled[:, keep], n_levels[keep], AS_IS)


def _change(
    before: np.ndarray, after: np.ndarray, gaps: np.ndarray, n_levels: np.ndarray
) -> tuple[float, float]:
    """Return how much a round changed numbers and levels; missForest stops when both grow."""
    numbers, levels = gaps & (n_levels == 0), gaps & (n_levels > 0)
    moved = float(((after - before)[numbers] ** 2).sum())
    size = float((after[numbers] ** 2).sum())
    other = float((after != before)[levels].mean()) if levels.any() else np.inf
    return (moved / size if size else np.inf), other
