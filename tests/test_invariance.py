"""Family D: units, shifts, order and repetition of rows change nothing else."""

import numpy as np
import oracles
import pytest
from conftest import size

from gapmix import GaussianMixture

TYPES = ["full", "tied", "diag", "spherical"]
N_PROBLEMS = size(5, 60)
N_STEPS = 15
NEAR = 1e-7  # what the steps may make of rounding: at most 1.3e-8 in 60 problems of each kind


def problem(seed):
    """Rows without an empty one, and a start: weights, means, variances of the columns."""
    X, weight, mixture = oracles.random_problem(seed, n=60, d=4, K=2, missing=0.3, empty=False)
    return X, weight, mixture[:2]


def fit(X, start, covariance_type, *, columns=None, sample_weight=None, **options):
    """Fit from given means and weights; `columns` are the unit of each column (d,)."""
    weights, means = start
    columns = np.ones(X.shape[1]) if columns is None else columns
    K = len(means)
    diagonal = 1 / (2 * columns**2)
    precisions = {
        "full": np.repeat(np.diag(diagonal)[None], K, axis=0),
        "tied": np.diag(diagonal),
        "diag": np.repeat(diagonal[None], K, axis=0),
        "spherical": np.full(K, diagonal[0]),
    }[covariance_type]
    return GaussianMixture(
        K,
        covariance_type=covariance_type,
        weights_init=weights,
        means_init=means,
        precisions_init=precisions,
        max_iter=N_STEPS,
        tol=0,
        **options,
    ).fit(X, sample_weight=sample_weight)


def differ(a, b):
    return float(np.abs(a - b).max())


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
@pytest.mark.parametrize("factor", [1e8, 1e-8])
def test_the_unit_of_a_column_does_not_matter(covariance_type, factor):
    for seed in range(N_PROBLEMS):
        X, _, (weights, means) = problem(seed)
        units = np.array([1.0, factor, 1.0, 1 / factor])
        plain = fit(X, (weights, means), covariance_type)
        scaled = fit(X * units, (weights, means * units), covariance_type, columns=units)
        assert differ(plain.predict_proba(X), scaled.predict_proba(X * units)) < NEAR
        np.testing.assert_allclose(scaled.means_, plain.means_ * units, rtol=NEAR)
        np.testing.assert_allclose(scaled.impute(X * units), plain.impute(X) * units, rtol=1e-7)
        density = plain.score_samples(X) - (~np.isnan(X)) @ np.log(units)
        np.testing.assert_allclose(scaled.score_samples(X * units), density, rtol=NEAR)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
def test_units_do_not_matter_to_the_start_either(covariance_type):
    for seed in range(N_PROBLEMS):
        X = problem(seed)[0]
        units = 2.0 ** np.array([27, -27, 0, 13])
        options = {"covariance_type": covariance_type, "random_state": seed, "max_iter": 20}
        plain = GaussianMixture(3, tol=0, **options).fit(X)
        scaled = GaussianMixture(3, tol=0, **options).fit(X * units)
        assert np.array_equal(plain.predict_proba(X), scaled.predict_proba(X * units))
        assert np.array_equal(plain.means_ * units, scaled.means_)


@pytest.mark.parametrize("factor", [1e8, 1e-8])
def test_a_common_unit_does_not_matter_to_spheres(factor):
    X, _, (weights, means) = problem(0)
    plain = fit(X, (weights, means), "spherical")
    units = np.full(4, factor)
    scaled = fit(X * factor, (weights, means * factor), "spherical", columns=units)
    assert differ(plain.predict_proba(X), scaled.predict_proba(X * factor)) < NEAR


@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_shift_by_a_million_standard_deviations_does_not_matter(covariance_type):
    for seed in range(N_PROBLEMS):
        X, _, (weights, means) = problem(seed)
        shift = 1e6 * np.nanstd(X, axis=0) * np.array([1, -1, 1, 0])
        plain = fit(X, (weights, means), covariance_type)
        moved = fit(X + shift, (weights, means + shift), covariance_type)
        assert differ(plain.predict_proba(X), moved.predict_proba(X + shift)) < 1e-6
        assert differ(plain.impute(X), moved.impute(X + shift) - shift) < 1e-5
        assert differ(plain.covariances_, moved.covariances_) < 1e-5


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_order_of_columns_does_not_matter(covariance_type):
    for seed in range(N_PROBLEMS):
        X, _, (weights, means) = problem(seed)
        order = np.random.default_rng(seed).permutation(4)
        # a Cholesky factor, in which proposals are made, knows an order; plain steps do not
        options = {"accelerate": None}
        plain = fit(X, (weights, means), covariance_type, **options)
        other = fit(X[:, order], (weights, means[:, order]), covariance_type, **options)
        assert differ(plain.predict_proba(X), other.predict_proba(X[:, order])) < NEAR
        assert differ(plain.impute(X)[:, order], other.impute(X[:, order])) < NEAR


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_order_of_rows_does_not_matter(covariance_type):
    for seed in range(N_PROBLEMS):
        X, _, start = problem(seed)
        order = np.random.default_rng(seed).permutation(len(X))
        plain, other = (fit(rows, start, covariance_type) for rows in (X, X[order]))
        assert differ(plain.predict_proba(X)[order], other.predict_proba(X[order])) < NEAR
        assert differ(plain.means_, other.means_) < NEAR


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_order_of_components_does_not_matter(covariance_type):
    X, _, (weights, means) = problem(1)
    plain = fit(X, (weights, means), covariance_type)
    other = fit(X, (weights[::-1], means[::-1]), covariance_type)
    assert differ(plain.predict_proba(X), other.predict_proba(X)[:, ::-1]) < NEAR


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("shrinkage", [0.0, 3.0])
def test_weight_two_is_the_row_given_twice(covariance_type, shrinkage):
    for seed in range(N_PROBLEMS):
        X, _, start = problem(seed)
        weight = np.random.default_rng(seed).integers(0, 4, len(X))
        weight[:10] = 1
        repeated = np.repeat(X, weight, axis=0)
        options = {"shrinkage": shrinkage, "reg_covar": 1e-3}
        a = fit(X, start, covariance_type, sample_weight=weight, **options)
        b = fit(repeated, start, covariance_type, **options)
        assert differ(a.predict_proba(X), b.predict_proba(X)) < NEAR
        np.testing.assert_allclose(a.covariances_, b.covariances_, rtol=NEAR, atol=1e-9)
        np.testing.assert_allclose(a.lower_bounds_, b.lower_bounds_, rtol=1e-9)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("validation_fraction", [None, 0.2])
def test_an_empty_row_or_one_of_weight_zero_is_no_row(covariance_type, validation_fraction):
    X = problem(2)[0]
    options = {
        "covariance_type": covariance_type,
        "validation_fraction": validation_fraction,
        "random_state": 0,
        "max_iter": 20,
        "tol": 0,
    }
    plain = GaussianMixture(2, **options).fit(X)
    empty = np.insert(X, [0, 7, len(X)], np.nan, axis=0)
    ignored = np.insert(X, [0, 7, len(X)], 1e3, axis=0)
    weight = np.where((ignored == 1e3).all(axis=1), 0.0, 1.0)
    for other in (
        GaussianMixture(2, **options).fit(empty),
        GaussianMixture(2, **options).fit(ignored, sample_weight=weight),
    ):
        assert np.array_equal(plain.means_, other.means_)
        assert np.array_equal(plain.covariances_, other.covariances_)
        assert plain.lower_bounds_ == other.lower_bounds_


def test_weights_scale_out():
    X, weight, start = problem(3)
    a, b = (fit(X, start, "full", sample_weight=c * weight) for c in (1.0, 1e6))
    assert differ(a.predict_proba(X), b.predict_proba(X)) < NEAR


def test_float32_is_read_as_the_same_numbers():
    X, _, start = problem(4)
    X = X.astype(np.float32)
    a, b = fit(X, start, "full"), fit(X.astype(np.float64), start, "full")
    assert np.array_equal(a.means_, b.means_)
