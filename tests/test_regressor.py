"""GaussianMixtureRegressor: E[y | x_o] and its distribution, whatever part of a row is shown.

Compared with least squares where that is the answer, and otherwise with block formulas on the
public parameters.
"""

from __future__ import annotations

import pickle

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import size
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gapmix
from gapmix import GaussianMixtureRegressor

PLAIN = {"shrinkage": 0.0, "mean_shrinkage": 0.0}


def make_rows(n: int = 90, *, gaps: float = 0.2, n_targets: int = 1, seed: int = 0):
    """Return inputs with gaps and targets, flat if there is one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) @ np.random.default_rng(5).normal(size=(3, 3))
    y = x @ np.random.default_rng(6).normal(size=(3, n_targets)) + 0.5 * rng.normal(
        size=(n, n_targets)
    )
    x[: n // 2] += 4.0
    x[rng.random(x.shape) < gaps] = np.nan
    return x, y[:, 0] if n_targets == 1 else y


def condition(row, mixture, n_targets):
    """Return p(component | x_o) (K,), mean (K, t) and covariance (K, t, t) of y given x_o."""
    d = len(row)
    o, t = np.flatnonzero(~np.isnan(row)), np.arange(d, d + n_targets)
    share, means, spreads = [], [], []
    for weight, mu, sigma in zip(
        mixture.weights_, mixture.means_, mixture.covariances_, strict=True
    ):
        gain = sigma[np.ix_(t, o)] @ np.linalg.inv(sigma[np.ix_(o, o)])
        share.append(np.log(weight) + oracles.log_gaussian(row, mu[:d], sigma[:d, :d]))
        means.append(mu[t] + gain @ (row[o] - mu[o]))
        spreads.append(sigma[np.ix_(t, t)] - gain @ sigma[np.ix_(o, t)])
    share = np.exp(np.array(share) - np.max(share))
    return share / share.sum(), np.array(means), np.array(spreads)


# ------------------------------------------------------------------ against others


@pytest.mark.parametrize("n_targets", [1, 2])
def test_one_component_on_complete_rows_is_least_squares(n_targets):
    x, y = make_rows(gaps=0.0, n_targets=n_targets)
    model = GaussianMixtureRegressor(1, reg_covar=0.0, **PLAIN).fit(x, y)
    reference = LinearRegression().fit(x, y)
    new = make_rows(20, gaps=0.0, seed=1)[0]
    found, std = model.predict(new, return_std=True)
    np.testing.assert_allclose(found, reference.predict(new), rtol=1e-9, atol=1e-9)
    residual = np.sqrt(np.mean((y - reference.predict(x)) ** 2, axis=0))
    np.testing.assert_allclose(std, np.broadcast_to(residual, std.shape), rtol=1e-9)
    assert model.score(x, y) == pytest.approx(reference.score(x, y), rel=1e-9)


def test_weighted_rows_are_weighted_least_squares():
    x, y = make_rows(gaps=0.0)
    weight = np.random.default_rng(0).uniform(0.1, 5.0, len(x))
    model = GaussianMixtureRegressor(1, reg_covar=0.0, **PLAIN).fit(x, y, sample_weight=weight)
    reference = LinearRegression().fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(x), reference.predict(x), rtol=1e-9, atol=1e-9)


def test_one_input_alone_is_least_squares_on_that_input():
    x, y = make_rows(gaps=0.0)
    model = GaussianMixtureRegressor(1, reg_covar=0.0, **PLAIN).fit(x, y)
    reference = LinearRegression().fit(x[:, [1]], y)
    alone = np.where(np.arange(3) == 1, x, np.nan)
    np.testing.assert_allclose(model.predict(alone), reference.predict(x[:, [1]]), atol=1e-9)


# ------------------------------------------------------------------ the conditional distribution


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("n_components", [1, 3])
def test_predictions_are_those_of_the_conditional_mixture(n_targets, n_components):
    x, y = make_rows(n_targets=n_targets)
    x[0] = np.nan
    model = GaussianMixtureRegressor(n_components, random_state=0).fit(x, y)
    mean, std = model.predict(x, return_std=True)
    levels = (0.1, 0.5, 0.9)
    quantiles = model.predict_quantiles(x, levels)
    shape = (90,) if n_targets == 1 else (90, n_targets)
    assert mean.shape == std.shape == shape
    assert quantiles.shape == (3, *shape)
    mean, std = mean.reshape(90, -1), std.reshape(90, -1)
    quantiles = quantiles.reshape(3, 90, -1)
    for i, row in enumerate(x):
        share, each, spread = condition(row, model.mixture_, n_targets)
        within = np.diagonal(spread, axis1=1, axis2=2)
        np.testing.assert_allclose(mean[i], share @ each, rtol=1e-8, atol=1e-8)
        total = share @ (within + (each - share @ each) ** 2)
        np.testing.assert_allclose(std[i], np.sqrt(total), rtol=1e-8)
        for level, found in zip(levels, quantiles[:, i], strict=True):
            below = share @ norm.cdf(found, each, np.sqrt(within))
            np.testing.assert_allclose(below, level, atol=1e-8)
    np.testing.assert_array_equal(model.predict(x).reshape(90, -1), mean)


def test_draws_follow_the_conditional_mixture_and_its_seed():
    x, y = make_rows(n_targets=2)
    model = GaussianMixtureRegressor(2, random_state=0).fit(x, y)
    row = x[np.isnan(x).any(axis=1)][:1]
    share, each, spread = condition(row[0], model.mixture_, 2)
    mean = share @ each
    away = each - mean
    sigma = np.tensordot(share, spread + away[:, :, None] * away[:, None, :], axes=1)
    draws = model.sample_y(row, 20_000, random_state=1)
    assert draws.shape == (1, 2, 20_000)
    unit = np.sqrt(np.diag(sigma))
    assert (np.abs(draws[0].mean(axis=1) - mean) < 4.5 * unit / np.sqrt(20_000)).all()
    np.testing.assert_allclose(
        np.cov(draws[0]) / np.outer(unit, unit), sigma / np.outer(unit, unit), atol=0.06
    )
    np.testing.assert_array_equal(draws, model.sample_y(row, 20_000, random_state=1))
    assert not np.array_equal(draws[..., :5], model.sample_y(row, 5, random_state=2))
    flat = GaussianMixtureRegressor(1).fit(*make_rows())
    assert flat.sample_y(x[:4], 6).shape == (4, 6)


def test_ninety_percent_of_targets_are_inside_their_interval():
    rng = np.random.default_rng(1)
    n = size(10_000, 20_000)
    rows = oracles.draw_rows(rng, 2 * n, *oracles.random_parameters(rng, 4, 3))[0]
    x = oracles.punch(rng, rows[:, :3], 0.3)
    model = GaussianMixtureRegressor(3, random_state=0, tol=1e-5, max_iter=500, **PLAIN)
    low, high = model.fit(x[:n], rows[:n, 3]).predict_quantiles(x[n:], [0.05, 0.95])
    inside = (low <= rows[n:, 3]) & (rows[n:, 3] <= high)
    assert inside.mean() == pytest.approx(0.9, abs=0.01)


# ------------------------------------------------------------------ gaps in the targets


def test_rows_without_a_target_are_used_and_rows_without_inputs_too():
    x, y = make_rows(gaps=0.0)
    y = y.copy()
    y[::2] = np.nan
    settings = {"reg_covar": 0.0, "tol": 1e-10, "max_iter": 3000, **PLAIN}
    model = GaussianMixtureRegressor(1, **settings).fit(x, y)
    # With complete inputs, the regression is that of the labelled rows, but the inputs' mean
    # and covariance are those of all rows.
    known = ~np.isnan(y)
    reference = LinearRegression().fit(x[known], y[known])
    np.testing.assert_allclose(model.predict(x), reference.predict(x), atol=1e-4)
    np.testing.assert_allclose(model.mixture_.means_[0, :3], x.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        model.mixture_.covariances_[0, :3, :3], np.cov(x.T, bias=True), rtol=1e-9
    )
    x[known] = np.nan
    alone = GaussianMixtureRegressor(1, reg_covar=0.0, **PLAIN).fit(x, y)
    empty = np.full((1, 3), np.nan)
    assert alone.predict(empty)[0] == pytest.approx(y[known].mean())


def test_several_targets_with_gaps_help_each_other():
    x, y = make_rows(400, n_targets=2)
    y[:, 1] = y[:, 0] + 0.1 * np.random.default_rng(0).normal(size=400)
    truth = y[:, 0].copy()
    y[30:, 0] = np.nan  # where it is known from the second only
    settings = {"tol": 1e-6, "max_iter": 5000}
    both = GaussianMixtureRegressor(1, **settings).fit(x, y).predict(x)[30:, 0]
    alone = GaussianMixtureRegressor(1, **settings).fit(x[:30], y[:30, 0]).predict(x)[30:]
    assert np.mean((both - truth[30:]) ** 2) < np.mean((alone - truth[30:]) ** 2)


def test_targets_that_cannot_be_used_are_refused():
    x, y = make_rows()
    for bad, message in (
        (None, "requires y to be passed, but the target y is None"),
        (np.full(90, np.nan), "y has no observed value in 90 rows: nothing can be learned"),
        (np.where(np.arange(90) == 7, np.inf, y), "y contains infinity, first in row 7"),
        (y[:5], r"y has shape \(5, 1\); X has 90 rows, and so must y"),
        (["a"] * 90, "is text, not a number"),
        (np.zeros((90, 1, 1)), "y|dimension|array"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            GaussianMixtureRegressor(1).fit(x, bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda y: y.tolist(),
        pd.Series,
        pl.Series,
        lambda y: np.ma.masked_invalid(y),
        lambda y: pd.Series(y).astype("Float64"),
        lambda y: pa.chunked_array([y]),
    ],
    ids=["list", "pandas", "polars", "masked", "nullable", "pyarrow"],
)
def test_targets_in_any_container(make):
    x, y = make_rows()
    y[::7] = np.nan
    expected = GaussianMixtureRegressor(1).fit(x, y).predict(x)
    found = GaussianMixtureRegressor(1).fit(x, make(y)).predict(x)
    assert found.shape == (90,)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("make", [pd.DataFrame, lambda y: pl.DataFrame(y), np.asfortranarray])
def test_tables_of_targets_come_back_as_tables(make):
    x, y = make_rows(n_targets=2)
    expected = GaussianMixtureRegressor(1).fit(x, y).predict(x)
    np.testing.assert_array_equal(GaussianMixtureRegressor(1).fit(x, make(y)).predict(x), expected)
    column = GaussianMixtureRegressor(1).fit(x, y[:, :1])
    assert column.predict(x).shape == (90, 1)
    assert column.sample_y(x, 2).shape == (90, 1, 2)


# ------------------------------------------------------------------ rows, copies, tools


def test_a_row_alone_is_the_row_in_a_batch():
    x, y = make_rows()
    model = GaussianMixtureRegressor(3, random_state=0).fit(x, y)
    batch = x[np.arange(540) % 90]
    mean, std = model.predict(batch, return_std=True)
    quantiles = model.predict_quantiles(batch)
    for i in range(0, 90, 7):
        one, spread = model.predict(x[i : i + 1], return_std=True)
        scale = 1e-12 * y.std()
        assert abs(one[0] - mean[i]) <= scale
        assert abs(spread[0] - std[i]) <= scale
        assert np.abs(model.predict_quantiles(x[i : i + 1])[:, 0] - quantiles[:, i]).max() <= scale


@pytest.mark.parametrize("settings", [{"n_components": 2}, {"max_components": 3}], ids=str)
def test_copies_predict_with_the_same_bits(settings, tmp_path):
    x, y = make_rows()
    for target in (y, y[:, None]):
        model = GaussianMixtureRegressor(random_state=0, **settings).fit(x, target)
        gapmix.save(model, tmp_path / "model")
        for again in (
            pickle.loads(pickle.dumps(model)),
            gapmix.load(tmp_path / "model"),
            clone(model).fit(x, target),
        ):
            for method in ("predict", "predict_quantiles", "sample_y"):
                found, wanted = getattr(again, method)(x), getattr(model, method)(x)
                assert found.shape == wanted.shape
                assert found.tobytes() == wanted.tobytes()
        assert gapmix.load(tmp_path / "model").n_targets_ == 1


def test_pipelines_searches_and_routing():
    x, y = make_rows(120)
    weight = np.random.default_rng(0).integers(1, 5, 120).astype(float)
    pipeline = make_pipeline(StandardScaler(), GaussianMixtureRegressor(1))
    alone = GaussianMixtureRegressor(1, tol=1e-3).fit(x, y)
    np.testing.assert_allclose(pipeline.fit(x, y).predict(x), alone.predict(x), atol=1e-2)
    search = GridSearchCV(
        GaussianMixtureRegressor(random_state=0), {"n_components": [1, "auto"]}, cv=2
    ).fit(x, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    expected = GaussianMixtureRegressor(1).fit(x, y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        model = GaussianMixtureRegressor(1).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        routed = make_pipeline(model).fit(x, y, sample_weight=weight)
        np.testing.assert_array_equal(routed.predict(x), expected.predict(x))
        scores = cross_val_score(model, x, y, cv=3, params={"sample_weight": weight})
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("value", [1e6, 0.0, -3.25])
def test_a_constant_target_is_predicted_without_deviation(value, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    y = np.column_stack([np.full(100, value), y])
    y[::7] = np.nan
    model = GaussianMixtureRegressor(random_state=0, max_components=2).fit(x, y)
    gapmix.save(model, tmp_path / "m")
    for each in (model, gapmix.load(tmp_path / "m")):
        mean, std = each.predict(x, return_std=True)
        assert (mean[:, 0] == value).all()
        assert (std[:, 0] == 0.0).all()
        assert (std[:, 1] > 0.1).all()
        assert (each.predict_quantiles(x)[..., 0] == value).all()
        assert (each.sample_y(x, 3)[:, 0] == value).all()
