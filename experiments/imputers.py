"""Ways to fill the gaps of Abalone. All learn from the training rows alone."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from experiments.abalone_data import Table, split
from experiments.descent import Place, descend, values_at
from experiments.neighbours import fill_from_whole, fill_nearest, measure
from gapmix import GaussianMixture


class Choice(NamedTuple):
    """A mixture of inputs and target, chosen by its error as a regressor on validation rows."""

    mixture: GaussianMixture
    prediction: np.ndarray  # (4177,) E[y | observed inputs]
    table: list[dict[str, Any]]  # one record for each setting tried


def fill_mean(table: Table) -> np.ndarray:
    """Return the inputs filled with the mean of the training cells, which is zero."""
    return np.where(np.isnan(table.x), np.nanmean(split(table.x).train, axis=0), table.x)


def fill_neighbours(table: Table, k: int, *, see_gaps: bool) -> np.ndarray:
    """Return the inputs filled with the mean of the k nearest training rows that have the value.

    The paper measures distance on all inputs as they were before gaps were inserted, the hidden
    value itself among them. With `see_gaps` distance is what can be known: over the inputs that
    both rows show, scaled up to all of them.
    """
    seen = table.x if see_gaps else table.complete
    return fill_nearest(table.x, split(table.x).train, measure(seen, split(seen).train), k)


def fill_from_whole_rows(table: Table, k: int) -> tuple[np.ndarray, float]:
    """Return the inputs filled from training rows that have all a row lacks; how often none has.

    Distances are the paper's, over all inputs as they were.
    """
    donors = split(table.x).train
    distance = measure(table.complete, split(table.complete).train)
    return fill_from_whole(table.x, donors, distance, k)


def keep_complete(table: Table) -> np.ndarray:
    """Discard: incomplete training rows are all NaN, others have the mean of those left."""
    kept = ~np.isnan(split(table.x).train).any(axis=1)
    filled = table.x.copy()
    filled[: len(kept)][~kept] = np.nan
    center = filled[: len(kept)][kept].mean(axis=0) if kept.any() else np.zeros(filled.shape[1])
    rest = filled[len(kept) :]
    filled[len(kept) :] = np.where(np.isnan(rest), center, rest)
    return filled


def choose_mixture(
    table: Table,
    sizes: list[int],
    loadings: list[float],
    seeds: list[int],
    start: list[float],
    *,
    all_rows: bool = False,
    **options: Any,
) -> Choice:
    """Fit mixtures to inputs and target, and return the best regressor on the validation rows.

    Sizes and loadings are gone through step by step from the start, several seeds each. With
    `all_rows` the inputs of validation and test rows are in the fit too, without their target.
    """
    y_val = split(table.y).validation
    joint = np.column_stack([table.x, table.y])
    blind = np.column_stack([table.x, np.full(len(table.y), np.nan)])
    n_train = len(split(joint).train)
    shown = np.concatenate([joint[:n_train], blind[n_train:]]) if all_rows else joint[:n_train]
    fits: list[tuple[GaussianMixture, np.ndarray]] = []
    records: list[dict[str, Any]] = []

    def try_one(size: int, loading: float, seed: int) -> float:
        """Fit one mixture, note it, and return its validation error."""
        mixture = GaussianMixture(
            size, diagonal_loading=loading, random_state=seed, n_jobs=1, **options
        )
        # The number of threads must not depend on the machine: the start may depend on it.
        with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(shown)
        prediction = mixture.impute(blind)[:, -1]
        error = float(((split(prediction).validation - y_val) ** 2).mean())
        fits.append((mixture, prediction))
        records.append(
            {
                "n_components": size,
                "diagonal_loading": loading,
                "seed": seed,
                "validation_mse": error,
                "validation_nll": -mixture.score(split(joint).validation),
                "test_mse": float(((split(prediction).test - split(table.y).test) ** 2).mean()),
                "n_iter": mixture.n_iter_,
            }
        )
        return error

    def value(place: Place) -> float:
        return min(try_one(*values_at((sizes, loadings), place), seed) for seed in seeds)

    descend((sizes, loadings), start, value)
    best = int(np.argmin([record["validation_mse"] for record in records]))
    return Choice(*fits[best], records)


def fill_mixture(table: Table, mixture: GaussianMixture, *, sees_target: bool) -> np.ndarray:
    """Return the inputs filled with their conditional mean.

    Validation and test rows never show their target; training rows do if `sees_target`.
    """
    y = np.full(len(table.y), np.nan)
    if sees_target:
        n_train = len(split(y).train)
        y[:n_train] = table.y[:n_train]
    return mixture.impute(np.column_stack([table.x, y]))[:, :-1]
