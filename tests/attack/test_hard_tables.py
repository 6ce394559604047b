"""Tables on the brink of singular: every estimator ends with finite numbers."""

import os
import warnings

import numpy as np
import pytest

from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
)

FULL = bool(os.environ.get("GAPMIX_FULL"))
N_CASES = 2000 if FULL else 105
TYPES = ("full", "tied", "diag", "spherical")


def low_rank(rng, n, d):
    rank, noise = rng.integers(1, 4), rng.choice([0.0, 1e-9, 1e-6, 1e-3])
    x = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    return x + noise * rng.normal(size=(n, d))


def totals(rng, n, d):
    x = rng.gamma(2.0, size=(n, d)).round(int(rng.integers(0, 4)))
    x[:, -1] = x[:, :-1].sum(axis=1)
    return x


def copies(rng, n, d):
    x = rng.normal(size=(n, d))
    x[:, 1::2] = x[:, : 2 * (d // 2) : 2] * rng.choice([1.0, -2.54, 1e8, 1e-8])
    return x


def switches(rng, n, d):
    level = rng.integers(0, d, n)
    return (level[:, None] == np.arange(d)).astype(float)  # one-hot: sums to 1


def constants(rng, n, d):
    x = rng.normal(size=(n, d)) * (rng.random(d) < 0.5) + rng.choice([0.0, 1e6, -3.0])
    x[:, 0] = np.arange(n)
    return x


def few_values(rng, n, d):
    return rng.choice([0.0, 1.0, 5.0], size=(n, d), p=[0.9, 0.08, 0.02])


def outliers(rng, n, d):
    x = rng.normal(size=(n, d))
    x[rng.integers(0, n, 3), rng.integers(0, d, 3)] = rng.choice([1e3, 1e9, -1e12])
    return x


FAMILIES = (low_rank, totals, copies, switches, constants, few_values, outliers)


def make_case(seed):
    rng = np.random.default_rng([seed, 2006])
    family = FAMILIES[seed % len(FAMILIES)]
    n, d = int(rng.choice([8, 20, 60, 200])), int(rng.integers(2, 13))
    x = family(rng, n, d)
    gaps = rng.random(x.shape) < rng.choice([0.0, 0.1, 0.3, 0.6])
    gaps[np.arange(n), rng.integers(0, d, n)] = False  # every row says something
    x[gaps] = np.nan
    options = {
        "covariance_type": str(rng.choice(TYPES)),
        "reg_covar": float(rng.choice([1e-6, 1e-2])),
        "max_iter": int(rng.choice([20, 100])),
    }
    return x, rng, options


@pytest.mark.parametrize("seed", range(N_CASES))
def test_no_fit_ends_in_an_exception_or_in_nan(seed):
    x, rng, options = make_case(seed)
    n = len(x)
    k = int(rng.integers(1, min(6, n)))
    which = seed // len(FAMILIES) % 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if which == 0:
            mixture = GaussianMixture(k, random_state=0, **options).fit(x)
            answers = [mixture.impute(x, return_std=True), mixture.score_samples(x)]
            answers += [mixture.predict_proba(x), mixture.sample_missing(x, 2, 0)]
        elif which == 1:
            imputer = GaussianMixtureImputer(k, random_state=0, **options).fit(x)
            answers = [imputer.transform(x), imputer.impute_with_std(x), *imputer.intervals(x)]
        elif which == 2:
            imputer = GaussianMixtureImputer(max_components=3, random_state=0, **options).fit(x)
            answers = [imputer.transform(x), imputer.sample(x, 2), *imputer.intervals(x)]
        elif which == 3:
            y = np.nan_to_num(x[:, -1])
            model = GaussianMixtureRegressor(k, random_state=0, **options).fit(x[:, :-1], y)
            answers = [*model.predict(x[:, :-1], return_std=True)]
        else:
            label = np.arange(n) % 2
            few = min(k, max(1, n // 4))
            model = GaussianMixtureClassifier(few, random_state=0, **options).fit(x, label)
            answers = [model.predict_proba(x), model.score_samples(x)]
    assert all(np.isfinite(np.asarray(answer)).all() for answer in answers)


@pytest.mark.parametrize("seed", range(40))
def test_without_a_ridge_a_collapse_is_named_with_its_remedy(seed):
    x, rng, options = make_case(seed)
    options |= {"reg_covar": 0.0, "max_iter": 20}
    k = int(rng.integers(1, min(6, len(x))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            filled = GaussianMixture(k, random_state=0, **options).fit(x).impute(x)
        except ValueError as error:
            filled, message = None, str(error)
    if filled is None:
        assert "reg_covar (now 0)" in message
    else:
        assert np.isfinite(filled).all()
