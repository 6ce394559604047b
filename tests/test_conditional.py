"""Filling, spread and draws; family F: stated uncertainty is the real one."""

import numpy as np
import oracles
import pytest
from conftest import size
from scipy.optimize import brentq
from scipy.stats import chisquare, norm

from gapmix import GaussianMixture, density
from gapmix.density.conditional import mixture_quantile
from gapmix.plan import planner as plan

TYPES = ["full", "tied", "diag", "spherical"]
SOLVERS = ["auto", *plan.SOLVERS]


def known(mixture, covariance_type="full", solver="auto", seed=0):
    """Return an estimator that holds the given mixture, as if it had been fitted."""
    weights, means, sigmas = mixture
    K, d = means.shape
    rows = means[0] + 3 * np.random.default_rng(seed).standard_normal((10 * K, d))
    model = GaussianMixture(
        K, covariance_type=covariance_type, solver=solver, max_iter=1, tol=0, random_state=0
    ).fit(rows)
    model.weights_, model.means_ = weights, means
    model.covariances_ = {
        "full": sigmas,
        "tied": sigmas[0],
        "diag": np.einsum("kii->ki", sigmas),
        "spherical": sigmas[:, 0, 0],
    }[covariance_type]
    return model


def shaped(mixture, covariance_type):
    """Return the mixture with covariances of the type."""
    weights, means, sigmas = mixture
    d = means.shape[1]
    if covariance_type == "tied":
        sigmas = np.repeat(sigmas[:1], len(weights), axis=0)
    if covariance_type == "diag":
        sigmas = sigmas * np.eye(d)
    if covariance_type == "spherical":
        sigmas = sigmas[:, :1, :1] * np.eye(d)
    return weights, means, sigmas


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_mean_spread_density_and_shares_agree_with_the_textbook(covariance_type, solver):
    for seed in range(size(15, 150)):
        X, _, mixture = oracles.random_problem(seed)
        mixture = shaped(mixture, covariance_type)
        model = known(mixture, covariance_type, solver)
        filled, std = model.impute(X, return_std=True)
        assert model.impute(X).tobytes() == filled.tobytes()
        wanted, wanted_std = oracles.impute(X, *mixture)
        np.testing.assert_allclose(filled, wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(std, wanted_std, rtol=1e-8, atol=1e-9)
        log_prob, resp = oracles.scores(X, *mixture)
        np.testing.assert_allclose(model.score_samples(X), log_prob, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(model.predict_proba(X), resp, atol=1e-10)


def test_observed_cells_come_back_bit_for_bit():
    X, _, _ = oracles.random_problem(3, n=40, d=5, K=2, missing=0.4)
    X = X * 1e7 + 0.1
    model = GaussianMixture(2, random_state=0, max_iter=5, tol=0).fit(X)
    seen = ~np.isnan(X)
    filled, std = model.impute(X, return_std=True)
    draws = model.sample_missing(X, 7, random_state=0)
    assert np.array_equal(filled[seen], X[seen])
    assert (std[seen] == 0).all()
    assert (std[~seen] > 0).all()
    assert draws.shape == (7, *X.shape)
    assert all(np.array_equal(draw[seen], X[seen]) for draw in draws)
    assert np.isfinite(draws).all()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_draws_have_the_conditional_mean_and_covariance(covariance_type):
    _, _, mixture = oracles.random_problem(5, d=4, K=2)
    mixture = shaped(mixture, covariance_type)
    mixture[1][1] = mixture[1][0] + 0.5  # both components matter
    row = mixture[1][0] + 0.3
    row[[1, 3]] = np.nan
    n_draws = 20_000
    model = known(mixture, covariance_type)
    for x in (row, np.full(4, np.nan)):
        draws = model.sample_missing(x[None], n_draws, random_state=1)[:, 0]
        mean, resp = (
            oracles.impute(x[None], *mixture)[0][0],
            oracles.scores(x[None], *mixture)[1][0],
        )
        cov = np.zeros((4, 4))
        for k in range(2):
            filled, spread = oracles.condition(x, mixture[1][k], mixture[2][k])
            cov += resp[k] * (spread + np.outer(filled - mean, filled - mean))
        gaps = np.isnan(x)
        std = np.sqrt(np.diag(cov)[gaps])
        assert (np.abs(draws.mean(axis=0) - mean)[gaps] < 4.5 * std / np.sqrt(n_draws)).all()
        found = np.cov(draws.T)[np.ix_(gaps, gaps)] / np.outer(std, std)
        wanted = cov[np.ix_(gaps, gaps)] / np.outer(std, std)
        assert np.abs(found - wanted).max() < 0.06


def test_draws_repeat_with_the_seed_and_only_then():
    X, _, mixture = oracles.random_problem(6, n=20, d=4, K=2, missing=0.5)
    model = known(mixture)
    first = model.sample_missing(X, 3, random_state=1)
    assert np.array_equal(first, model.sample_missing(X, 3, random_state=1))
    assert not np.array_equal(first, model.sample_missing(X, 3, random_state=2))
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_empty_row_has_density_one_and_the_weights(covariance_type, solver):
    _, _, mixture = oracles.random_problem(7, d=3, K=3)
    mixture = shaped(mixture, covariance_type)
    model = known(mixture, covariance_type, solver)
    X = np.vstack([np.full(3, np.nan), mixture[1][0], np.full(3, np.nan)])
    for rows in (X, X[:1]):
        assert abs(model.score_samples(rows)[0]) < 1e-15
        np.testing.assert_allclose(model.predict_proba(rows)[0], mixture[0], rtol=1e-14)
    np.testing.assert_allclose(model.impute(X)[0], mixture[0] @ mixture[1], rtol=1e-12)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_row_alone_is_the_row_in_a_batch(covariance_type):
    X, _, mixture = oracles.random_problem(8, n=30, d=7, K=3, missing=0.4)
    X = X[np.arange(600) % 30]  # patterns shared by many rows take another path
    model = known(shaped(mixture, covariance_type), covariance_type)
    filled, std = model.impute(X, return_std=True)
    density, resp = model.score_samples(X), model.predict_proba(X)
    for i in range(0, 600, 41):
        alone, alone_std = model.impute(X[i : i + 1], return_std=True)
        np.testing.assert_allclose(alone[0], filled[i], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(alone_std[0], std[i], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(model.score_samples(X[i : i + 1])[0], density[i], rtol=1e-12)
        np.testing.assert_allclose(model.predict_proba(X[i : i + 1])[0], resp[i], atol=1e-12)


def test_a_row_beyond_all_densities_gives_finite_shares():
    model = known(oracles.random_problem(9, d=3, K=2)[2])
    X = np.array([[1e90, np.nan, 0.0], [1e9, 1e9, np.nan]])
    assert np.isfinite(model.score_samples(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.isfinite(model.impute(X)).all()


@pytest.mark.parametrize("level", [0.001, 0.05, 0.5, 0.95])
def test_quantiles_of_mixtures_are_where_the_distribution_function_says(level):
    rng = np.random.default_rng(0)
    weight = rng.dirichlet(np.ones(3), 50).T
    mean, std = 10 * rng.standard_normal((3, 50)), np.exp(rng.standard_normal((3, 50)))
    for cell, found in enumerate(mixture_quantile(level, weight, mean, std)):

        def excess(x, c=cell):
            return weight[:, c] @ norm.cdf(x, mean[:, c], std[:, c]) - level

        assert found == pytest.approx(brentq(excess, -100, 100, xtol=1e-13), abs=1e-10)


@pytest.mark.parametrize("far", [1e12, 1e30, 1e100])
@pytest.mark.parametrize("share", [0.0, 1e-14])
def test_a_component_far_away_without_weight_does_not_blur_quantiles(far, share):
    weight = np.array([[1.0 - share], [share]])
    found = mixture_quantile(0.95, weight, np.array([[0.3], [far]]), np.ones((2, 1)))
    assert found[0] == pytest.approx(0.3 + norm.ppf(0.95), abs=1e-10)


# ------------------------------------------------------------------ family F


def hidden_problem(n, K, seed):
    rng = np.random.default_rng(seed)
    mixture = oracles.random_parameters(rng, 5, K)
    complete = oracles.draw_rows(rng, n, *mixture)[0]
    return rng, mixture, complete, oracles.punch(rng, complete, 0.4)


def test_ninety_percent_intervals_of_one_gaussian_hold_ninety_percent():
    _, _, complete, X = hidden_problem(10_000, 1, 0)
    model = GaussianMixture(1, random_state=0, tol=1e-6).fit(X)
    filled, std = model.impute(X, return_std=True)
    gaps = np.isnan(X)
    inside = np.abs(complete - filled)[gaps] <= 1.6448536 * std[gaps]
    assert inside.size > 19_000
    assert inside.mean() == pytest.approx(0.90, abs=0.01)


def test_ninety_percent_intervals_of_draws_hold_ninety_percent():
    _, mixture, complete, X = hidden_problem(10_000, 3, 1)
    model = GaussianMixture(3, random_state=0, tol=1e-5, max_iter=1000, means_init=mixture[1])
    draws = model.fit(X).sample_missing(X, 99, random_state=0)
    gaps = np.isnan(X)
    rank = (draws[:, gaps] < complete[gaps]).sum(axis=0)  # uniform on 0 ... 99
    assert np.mean((rank >= 5) & (rank < 95)) == pytest.approx(0.90, abs=0.01)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_ranks_among_draws_are_uniform(covariance_type):
    rng = np.random.default_rng(2)
    mixture = shaped(oracles.random_parameters(rng, 4, 3), covariance_type)
    n = size(500, 5000)
    complete = oracles.draw_rows(rng, n, *mixture)[0]
    cell = (np.arange(n), rng.integers(4, size=n))  # one cell a row: ranks are independent
    X = oracles.punch(rng, complete, 0.3)
    X[cell] = np.nan
    draws = known(mixture, covariance_type).sample_missing(X, 99, random_state=3)
    rank = (draws[:, *cell] < complete[cell]).sum(axis=0)
    assert chisquare(np.bincount(rank // 5, minlength=20)).pvalue > 0.01


@pytest.mark.parametrize("covariance_type", TYPES)
def test_sampled_rows_are_a_count_for_each_component_and_noise_through_its_factor(covariance_type):
    _, _, mixture = oracles.random_problem(11, d=3, K=2)
    weights, means, sigmas = shaped(mixture, covariance_type)
    fitted = known(mixture, covariance_type)._density()
    rows, labels = density.sample_rows(fitted, 500, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(labels, np.repeat([0, 1], rng.multinomial(500, weights)))
    noise = rng.standard_normal((500, 3))
    for k in range(2):
        here = labels == k
        wanted = means[k] + noise[here] @ np.linalg.cholesky(sigmas[k]).T
        np.testing.assert_allclose(rows[here], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_means_are_the_same_bits_with_and_without_their_deviations(solver):
    X, _, mixture = oracles.random_problem(12, d=4, K=2)
    fitted = known(mixture, solver=solver)._density()
    whole, means = density.fill(fitted, X, spread=True), density.fill(fitted, X)
    np.testing.assert_array_equal(means.mean, whole.mean)
    assert means.std.shape == (len(X), 0)
    assert ((whole.std > 0) == np.isnan(X)).all()


def test_samples_have_the_moments_of_the_mixture():
    _, _, mixture = oracles.random_problem(10, d=3, K=2)
    X, labels = known(mixture).sample(40_000)
    assert np.abs(np.bincount(labels) / 40_000 - mixture[0]).max() < 0.02
    for k in range(2):
        spread = np.sqrt(np.diag(mixture[2][k]))
        rows = X[labels == k]
        assert (np.abs(rows.mean(axis=0) - mixture[1][k]) < 5 * spread / np.sqrt(len(rows))).all()
        assert np.abs((np.cov(rows.T) - mixture[2][k]) / np.outer(spread, spread)).max() < 0.06
