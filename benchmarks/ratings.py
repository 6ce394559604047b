"""Ratings of films: mean absolute error of hidden ones, with everything automatic.

python -m benchmarks.ratings FILE [--seeds 101 102 103]

FILE is `gcimpute/data/movielens1m_top501.csv` of the source distribution of gcimpute, a package on
PyPI. As in its tutorial, the 400 films with the most ratings are kept, then users with 150 ratings
or more; a tenth of the ratings is hidden. Cells are drawn as there; a copy of the
tutorial has seed 101.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import polars as pl

from gapmix import GaussianMixtureImputer

N_FILMS, LEAST_RATINGS, SHARE = 400, 150, 0.1


def load(path: Path) -> np.ndarray:
    """Return ratings of 1 to 5 (users, films), NaN where there is none."""
    x = pl.read_csv(path).drop("user").cast(pl.Float64).to_numpy()
    share = np.isnan(x).mean(axis=0)
    x = x[:, share <= np.sort(share)[N_FILMS - 1]]
    return x[(~np.isnan(x)).sum(axis=1) >= LEAST_RATINGS]


def hide(x: np.ndarray, seed: int) -> np.ndarray:
    """Return True (users, films) for the ratings that are hidden."""
    known = np.argwhere(~np.isnan(x))
    rng = np.random.default_rng(seed)
    chosen = known[rng.choice(len(known), size=int(SHARE * len(known)), replace=False)]
    hidden = np.zeros(x.shape, dtype=bool)
    hidden[chosen[:, 0], chosen[:, 1]] = True
    return hidden


def main() -> None:
    """Fill hidden ratings and print errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103])
    asked = parser.parse_args()
    x = load(asked.file)
    known = ~np.isnan(x)
    print(f"{x.shape[0]:,} users, {x.shape[1]:,} films, {100 * known.mean():.1f} % rated")
    print(" seed    mean filled rounded    rmse factors components seconds")
    for seed in asked.seeds:
        hidden = hide(x, seed)
        seen, truth = np.where(hidden, np.nan, x), x[hidden]
        begin = time.process_time()
        imputer = GaussianMixtureImputer(random_state=0, n_jobs=1).fit(seen)
        filled = imputer.transform(seen)[hidden]
        spent = time.process_time() - begin
        means = np.broadcast_to(np.nanmean(seen, axis=0), x.shape)[hidden]
        whole = np.clip(np.round(filled), 1, 5)
        errors = [float(np.abs(each - truth).mean()) for each in (means, filled, whole)]
        rmse = float(np.sqrt(np.mean((filled - truth) ** 2)))
        mixture = imputer.mixture_
        print(
            f"{seed:>5} {errors[0]:>7.4f} {errors[1]:>6.4f} {errors[2]:>7.4f} {rmse:>7.4f} "
            f"{mixture.n_factors:>7} {len(mixture.weights_):>10} {spent:>7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
