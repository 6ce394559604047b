"""Columns of which rows tell less than the column itself are filled nearer to their mean."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import gapmix
from gapmix import GaussianMixture, GaussianMixtureImputer, density
from gapmix.estimators.glance import list_doubted
from gapmix.selection.judging import TRUSTING_CELLS, Hidden, Told, find_trust

TRUST = np.array([1.0, 0.4])


@pytest.fixture(scope="module")
def pair():
    """Return the density of two columns under one Gaussian, and a row that lacks the second."""
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal([3.0, -1.0], [[4.0, 1.5], [1.5, 1.0]], size=300)
    mixture = GaussianMixture(tol=1e-8).fit(x)
    return mixture._density(), mixture, np.array([[6.0, np.nan]])


def test_a_gap_is_a_pool_of_its_row_and_of_the_column(pair):
    model, mixture, row = pair
    mu, sigma = mixture.means_[0], mixture.covariances_[0]
    slope = sigma[0, 1] / sigma[0, 0]
    told = stats.norm(mu[1] + slope * (6.0 - mu[0]), np.sqrt(sigma[1, 1] - slope * sigma[0, 1]))
    alone = stats.norm(mu[1], np.sqrt(sigma[1, 1]))
    pooled = model._replace(trust=TRUST)
    filled = density.fill(pooled, row, spread=True)
    mean = 0.4 * told.mean() + 0.6 * alone.mean()
    square = 0.4 * (told.var() + told.mean() ** 2) + 0.6 * (alone.var() + alone.mean() ** 2)
    np.testing.assert_allclose(filled.mean, [[6.0, mean]])
    np.testing.assert_allclose(filled.std, [[0.0, np.sqrt(square - mean**2)]])
    ends = density.quantiles(pooled, row, np.array([0.05, 0.95]))[:, 0, 1]
    np.testing.assert_allclose(0.4 * told.cdf(ends) + 0.6 * alone.cdf(ends), [0.05, 0.95])
    below = density.distribution(pooled, np.repeat(row, 2, axis=0), np.column_stack([ends, ends]))
    np.testing.assert_allclose(below[:, 1], [0.05, 0.95])
    draws = density.draw(pooled, row, 20_000, np.random.default_rng(1))[:, 0, 1]
    assert stats.kstest(draws, lambda v: 0.4 * told.cdf(v) + 0.6 * alone.cdf(v)).pvalue > 0.01


def test_full_trust_changes_no_bit(pair):
    model, _, row = pair
    full = model._replace(trust=np.ones(2))
    for ask in (
        lambda m: density.fill(m, row, spread=True).mean,
        lambda m: density.fill(m, row, spread=True).std,
        lambda m: density.quantiles(m, row, np.array([0.1, 0.9])),
        lambda m: density.draw(m, row, 5, np.random.default_rng(0)),
        lambda m: density.distribution(m, row, np.zeros_like(row)),
    ):
        np.testing.assert_array_equal(ask(full), ask(model))


def test_levels_are_pooled_by_their_probabilities():
    rng = np.random.default_rng(0)
    z = rng.normal(size=200)
    x = np.column_stack([z, z + rng.normal(size=200) > 0.8]).astype(object)
    imputer = GaussianMixtureImputer(2, categorical_features=[1], random_state=0).fit(x)
    rows = np.array([[-2.0, None], [3.0, None]], dtype=object)
    full, alone = imputer.probabilities(rows)[1], imputer.probabilities([[None, None]])[1]
    imputer.trust_ = np.array([1.0, 0.25])
    np.testing.assert_allclose(imputer.probabilities(rows)[1], 0.25 * full + 0.75 * alone)
    filled, doubt = imputer.impute_with_std(rows)
    assert filled[:, 1].tolist() == [False, False]
    np.testing.assert_allclose(doubt[:, 1], 1 - imputer.probabilities(rows)[1][:, 0])


def ask_hidden(truth, told, levels=None):
    """Return what was hidden and told of one column, or of one category, in rows of weight 1."""
    n = len(truth)
    x = np.column_stack([np.asarray(truth, dtype=float), np.zeros(n)])
    hidden = np.zeros((n, 2), dtype=bool)
    hidden[:, 0] = True
    shown = np.where(hidden, np.nan, x)
    shown = np.vstack([shown, [[-100.0, 0.0], [100.0, 0.0]]])  # the column's range
    rest = np.zeros((2, 2))
    n_levels = None if levels is None else np.array([2, 0])
    cells = Hidden(
        np.vstack([x, rest]),
        shown,
        np.vstack([hidden, rest > 0]),
        np.ones(n + 2),
        np.array([0.0 if levels is not None else 1.0, 0.0]),
        n_levels,
    )
    mean = np.zeros((n + 2, 2))
    mean[:n, 0] = told
    share = () if levels is None else (np.vstack([levels, np.full((2, 2), 0.5)]),)
    return cells, Told(np.zeros(n + 2), mean, share, np.nan)


def test_trust_is_the_share_of_least_squares_where_the_mean_is_better():
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=(2, 400))
    nothing = Told(np.zeros(1), np.zeros((1, 2)), (), np.nan)
    for told, worse in ((0.8 * truth, False), (0.3 * truth + noise, True), (noise, True)):
        cells, answer = ask_hidden(truth, told)
        best = np.polyfit(np.append(told, -told), np.append(truth, -truth), 1)[0]
        wanted = (400 * best + TRUSTING_CELLS) / (400 + TRUSTING_CELLS) if worse else 1.0
        assert (((truth - told) ** 2).sum() > (truth**2).sum()) == worse
        np.testing.assert_allclose(find_trust(cells, answer, nothing), [np.clip(wanted, 0, 1), 1])


def test_levels_are_trusted_less_where_shares_have_a_higher_log_score():
    rng = np.random.default_rng(0)
    truth = (rng.random(300) < 0.3).astype(int)
    sure = np.where(rng.random(300)[:, None] < 0.5, [0.99, 0.01], [0.01, 0.99])  # at random
    alone = Told(np.zeros(1), np.zeros((1, 2)), (np.array([[0.7, 0.3]]),), np.nan)
    cells, answer = ask_hidden(truth, truth, sure)
    assert find_trust(cells, answer, alone)[0] < 0.2
    right = np.where(truth[:, None] == 1, [0.2, 0.8], [0.8, 0.2])
    cells, answer = ask_hidden(truth, truth, right)
    assert find_trust(cells, answer, alone)[0] == 1.0


def test_a_category_of_one_level_is_not_called_hard_to_fill():
    model = SimpleNamespace(
        column_kinds_={"x": "number", "y": "category", "z": "category"},
        categories_=[np.array(["a"]), np.array(["a", "b"])],
        is_categorical_=np.array([False, True, True]),
        trust_=np.full(3, 0.5),
    )
    assert list_doubted(model) == ("x", "z")


@pytest.fixture(scope="module")
def counts():
    """Return rare skewed counts that tell little of each other, half of them missing."""
    rng = np.random.default_rng(3)
    x = rng.poisson(np.exp(rng.uniform(-3, 0, 8) + rng.normal(size=(250, 8)))).astype(float)
    return np.where(rng.random(x.shape) < 0.5, np.nan, x)


def test_a_fit_draws_hopeless_columns_to_the_mean_and_says_so(counts, tmp_path):
    imputer = GaussianMixtureImputer(max_components=3, random_state=0, refine=False).fit(counts)
    doubted = imputer.trust_ < 1
    assert doubted.any()
    assert (imputer.trust_ >= 0).all()
    assert "Hard to fill" in imputer._repr_html_inner()
    # What is told of hidden cells is told of what is filled, not of what one size would fill.
    assert 0.9 < imputer.hidden_error_ < min(each.error for each in imputer.selection_)
    gapmix.save(imputer, tmp_path / "model")
    again = gapmix.load(tmp_path / "model")
    np.testing.assert_array_equal(again.trust_, imputer.trust_)
    assert again.hidden_error_ == imputer.hidden_error_
    rows = counts[~np.isnan(counts).all(axis=1)][:40]
    np.testing.assert_array_equal(again.transform(rows), imputer.transform(rows))
    drawn = imputer.transform(rows)
    imputer.set_params(limits=None).trust_ = np.ones(8)
    raw, empty = imputer.transform(rows), imputer.transform(np.full((1, 8), np.nan))
    nearer = np.clip(again.trust_ * raw + (1 - again.trust_) * empty, 0, np.nanmax(counts, axis=0))
    np.testing.assert_allclose(drawn, np.where(np.isnan(rows), nearer, rows), atol=1e-12)
    imputer.trust_ = np.full(8, 2.0)
    with pytest.raises(gapmix.storage.recordfile.ModelFileError, match="trust_"):
        gapmix.save(imputer, tmp_path / "wrong")
