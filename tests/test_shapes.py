"""Transforms of columns: exact there and back, chosen where they pay, unseen where they do not."""

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import gapmix
from gapmix import GaussianMixture, GaussianMixtureImputer, density, kernels
from gapmix.density.shaped import NODES, SHARES, mean_and_variance
from gapmix.kernels import twins
from gapmix.multiple import impute_many
from gapmix.selection import shaping
from gapmix.selection.shaping import POWERS
from gapmix.shapes import (
    IDENTITY,
    LOG,
    LOGIT,
    NAMES,
    YEO_JOHNSON,
    Shape,
    can_be,
    forward,
    inverse,
    log_derivative,
)

SHAPES = [
    Shape(),
    Shape(LOG, -2.0, 3.0, least=1e-9),
    Shape(LOGIT, -1.0, 2.5, least=1e-9, most=1 - 1e-9),
    *(Shape(YEO_JOHNSON, 0.3, 1.7, power) for power in (*POWERS, 1.0, 1e-12, 2 - 1e-12)),
]
QUICK = {"n_components": 2, "max_iter": 5, "tol": 0.0, "random_state": 0}


def exact(shape, x):
    """Return g(x) by its definition, in many digits."""
    u = (mpmath.mpf(x) - mpmath.mpf(shape.origin)) / mpmath.mpf(shape.scale)
    if shape.name == IDENTITY:
        return u
    if shape.name == LOG:
        return mpmath.log(u)
    if shape.name == LOGIT:
        return mpmath.log(u / (1 - u))
    power = mpmath.mpf(shape.power)
    if u < 0:
        u, power, sign = -u, 2 - power, -1
    else:
        sign = 1
    return sign * (mpmath.log(1 + u) if power == 0 else ((1 + u) ** power - 1) / power)


def inside(shape):
    """Return values that a shape takes, near its ends and its origin too."""
    if shape.name == LOG:
        u = np.array([1e-6, 0.1, 1.0, 7.0, 1e6])
    elif shape.name == LOGIT:
        u = np.array([1e-6, 0.2, 0.5, 0.9, 1 - 1e-6])
    else:
        u = np.array([-1e4, -3.0, -1e-7, 0.0, 1e-7, 0.4, 2.0, 1e4])
    return shape.origin + shape.scale * u


@pytest.mark.parametrize("shape", SHAPES)
def test_transforms_and_slopes_are_those_of_their_definition(shape):
    x = inside(shape)
    with mpmath.workdps(60):
        wanted = np.array([float(exact(shape, value)) for value in x])
        slopes = [float(mpmath.log(mpmath.diff(lambda v: exact(shape, v), value))) for value in x]
    # (x - origin) has rounded: its relative error is that of the transform near the origin.
    rounding = 1e-15 * (np.abs(x) + abs(shape.origin)) * np.exp(slopes)
    assert (np.abs(forward(shape, x) - wanted) <= 1e-13 * np.abs(wanted) + 4 * rounding).all()
    np.testing.assert_allclose(log_derivative(shape, x), slopes, atol=1e-9)
    np.testing.assert_allclose(inverse(shape, forward(shape, x)), x, rtol=1e-9, atol=1e-12)
    assert (np.diff(forward(shape, x)) > 0).all()


@pytest.mark.parametrize("power", [*POWERS, 1.0, 0.3])
def test_yeo_johnson_is_that_of_scipy(power):
    x = np.linspace(-5, 8, 40)
    wanted = stats.yeojohnson(x, power)
    np.testing.assert_allclose(forward(Shape(YEO_JOHNSON, power=power), x), wanted, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_value_however_far_out_becomes_infinite(shape):
    far = np.array([-1e308, -1e200, -5.0, -2.0, -1.0, 0.0, 1.5, 1e200, 1e308])
    if shape.name != IDENTITY:
        assert np.abs(forward(shape, far)).max() < 1e100
        assert np.isfinite(inverse(shape, far)).all()
    assert np.isfinite(log_derivative(shape, far)).all()
    assert np.isnan(forward(shape, np.array([np.nan]))).all()
    assert (np.diff(forward(shape, far)) >= 0).all()
    assert (np.diff(inverse(shape, far)) >= 0).all()
    assert can_be(shape)


@pytest.mark.parametrize("shape", SHAPES[:5] + SHAPES[-2:])
@pytest.mark.parametrize("std", [0.1, 1.0])
def test_means_and_variances_are_those_of_integrals(shape, std):
    weight, mean = np.array([[0.3], [0.7]]), np.array([[-0.8], [0.5]])
    spread = np.full((2, 1), std)

    def moment(power, about):
        def integrand(y):
            each = stats.norm.pdf(y, mean[:, 0], std) @ weight[:, 0]
            return each * (inverse(shape, np.array(y)) - about) ** power

        ends = (-12 * std - 1, 12 * std + 1)
        return integrate.quad(integrand, *ends, points=[-0.8, 0.0, 0.5], limit=500)[0]

    first = moment(1, 0.0)
    found, variance = mean_and_variance(shape, weight, mean, spread)
    np.testing.assert_allclose(found, first, rtol=2e-4)
    np.testing.assert_allclose(variance, moment(2, first), rtol=2e-3)


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_moments_of_the_kernel_are_those_of_its_twin(shape):
    rng = np.random.default_rng(3)
    n_components, n = 7, 60
    weight = rng.dirichlet(np.full(n_components, 0.1), n).T.copy()
    mean = rng.normal(size=(n_components, n)) * rng.choice([0.1, 1.0, 30.0, 800.0], n)
    std = rng.choice([1e-6, 0.1, 1.0, 20.0], (n_components, n))
    near = inverse(shape._replace(origin=0.0, scale=1.0), (weight * mean).sum(axis=0))
    given = NAMES.index(shape.name), shape.power, NODES, SHARES, weight, mean, std, near
    found, expected = np.zeros((2, 2, n))
    kernels.load("shaped").add_moments(*given, *found)
    twins.add_moments(*given, *expected)
    # Digits of moments about `near` go with its size.
    size = np.maximum(1.0, np.abs(near))
    for i in range(n):
        assert abs(found[0][i] - expected[0][i]) <= 1e-11 * (abs(expected[0][i]) + size[i])
        bar = 1e-11 * expected[1][i] + 1e-14 * size[i] * (size[i] + np.sqrt(expected[1][i]))
        assert abs(found[1][i] - expected[1][i]) <= bar


def lognormal_table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal([0.0, 1.0], [[1.0, 0.6], [0.6, 0.8]], size=n)
    return np.exp(z), z


def test_one_gaussian_of_logs_answers_as_the_lognormal_distribution_does():
    x, z = lognormal_table()
    mixture = GaussianMixture(1, reg_covar=0.0, tol=1e-10).fit(z)
    shapes = (Shape(LOG, least=1e-9), Shape(LOG, least=1e-9))
    model = mixture._density()._replace(shapes=shapes)
    mean, sigma = mixture.means_[0], mixture.covariances_[0]
    joint = stats.multivariate_normal(mean, sigma)
    np.testing.assert_allclose(
        density.score(model, x).log_prob, joint.logpdf(z) - z.sum(axis=1), rtol=1e-9
    )
    shown = np.column_stack([x[:, 0], np.full(len(x), np.nan)])
    center = mean[1] + sigma[1, 0] / sigma[0, 0] * (z[:, 0] - mean[0])
    variance = sigma[1, 1] - sigma[1, 0] ** 2 / sigma[0, 0]
    filled = density.fill(model, shown, spread=True)
    wanted = np.exp(center + variance / 2)
    np.testing.assert_allclose(filled.mean[:, 1], wanted, rtol=1e-9)
    np.testing.assert_allclose(filled.std[:, 1], wanted * np.sqrt(np.expm1(variance)), rtol=1e-7)
    np.testing.assert_array_equal(filled.mean[:, 0], x[:, 0])
    quantile = density.quantiles(model, shown, np.array([0.2]))[0]
    away = stats.norm.ppf(0.2) * np.sqrt(variance)
    np.testing.assert_allclose(quantile[:, 1], np.exp(center + away), rtol=1e-9)
    np.testing.assert_allclose(density.distribution(model, shown, quantile)[:, 1], 0.2, rtol=1e-9)
    drawn = density.draw(model, shown, 400, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[..., 0], np.broadcast_to(x[:, 0], drawn.shape[:2]))
    ratio = np.log(drawn[..., 1]) - center
    assert abs(ratio.mean()) < 0.01
    assert abs(ratio.var() / variance - 1) < 0.02
    rows, _ = density.sample_rows(model, 4000, np.random.default_rng(0))
    np.testing.assert_allclose(np.log(rows).mean(axis=0), mean, atol=0.06)


def test_scores_of_cells_are_ratios_of_scores_of_rows():
    x, _ = lognormal_table()
    model = GaussianMixtureImputer(**QUICK, shapes={0: "log", 1: "yeo-johnson"}).fit(x)._density()
    for column in (0, 1):
        shown = x.copy()
        shown[:, column] = np.nan
        ratio = density.score(model, x).log_prob - density.score(model, shown).log_prob
        found = density.cell_scores(model, shown, x)
        np.testing.assert_allclose(found[:, column], ratio, rtol=1e-9)
        assert np.isnan(found[:, 1 - column]).all()


# ---------------------------------------------------------------- choosing


def skewed_table(n=800, seed=0):
    """Return columns that are lognormal, shares, left-skewed, normal, and a code."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 4)) @ np.linalg.cholesky(0.5 * np.eye(4) + 0.5).T
    x = np.column_stack(
        [np.exp(z[:, 0]), 1 / (1 + np.exp(2 * z[:, 1])), -np.exp(z[:, 2]), z[:, 3], z[:, 0] > 0]
    )
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


def names(imputer):
    return [shape.name for shape in imputer.column_shapes_.values()]


def test_skewed_and_bounded_columns_are_transformed_and_others_are_not():
    x = skewed_table()
    imputer = GaussianMixtureImputer(**QUICK).fit(x)
    chosen = names(imputer)
    assert chosen[0] in (LOG, YEO_JOHNSON)
    assert chosen[2] == YEO_JOHNSON
    assert chosen[4] == IDENTITY
    shares = GaussianMixtureImputer(**QUICK, column_kinds={0: "share"}).fit(x[:, [1, 3]])
    assert names(shares) == [LOGIT, IDENTITY]
    plain = GaussianMixtureImputer(**QUICK, shapes=None).fit(x)
    assert imputer.score_samples(x).mean() > plain.score_samples(x).mean() + 0.2


def test_units_and_places_of_columns_and_rows_without_weight_change_nothing():
    x = skewed_table()
    order = np.array([3, 0, 4, 2, 1])
    scale = np.array([3.0, 2.54, 1e-8, 1e8, 1.0])
    first = GaussianMixtureImputer(**QUICK).fit(x)
    more = np.vstack([x, [[-1.0, 5.0, 7.0, 1e6, 3.0]]])
    weight = np.append(np.ones(len(x)), 0.0)
    second = GaussianMixtureImputer(**QUICK).fit((more * scale)[:, order], sample_weight=weight)
    assert names(second) == [names(first)[j] for j in order]
    filled = second.transform((x * scale)[:, order]) / scale[order]
    np.testing.assert_allclose(filled, first.transform(x)[:, order], rtol=1e-6, atol=1e-9)


def test_without_a_transform_nothing_changes_by_a_bit():
    x = np.random.default_rng(0).standard_normal((400, 3)) @ np.diag([1.0, 2.0, 3.0]) + 5
    x[::7, 1] = np.nan
    by_itself, none = (
        GaussianMixtureImputer(max_components=2, random_state=0, tol=0.1, shapes=shapes).fit(x)
        for shapes in ("auto", None)
    )
    assert set(names(by_itself)) == {IDENTITY}
    np.testing.assert_array_equal(by_itself.transform(x), none.transform(x))
    np.testing.assert_array_equal(by_itself.intervals(x), none.intervals(x))
    np.testing.assert_array_equal(by_itself.sample(x), none.sample(x))


def test_new_values_beyond_the_ends_count_as_small_and_large_ones():
    x = skewed_table()
    imputer = GaussianMixtureImputer(**QUICK, shapes={0: "log", 1: "logit"}).fit(x)
    rows = [[v, u, np.nan, np.nan, 1.0] for v in (-5.0, 0.0, 1e300) for u in (-3.0, 0.0, 1.0, 9.0)]
    filled = imputer.transform(rows)
    assert np.isfinite(filled).all()
    assert np.isfinite(imputer.score_samples(rows)).all()
    np.testing.assert_array_equal(filled[:, :2], np.array(rows)[:, :2])
    assert np.isfinite(imputer.intervals(rows)).all()


def test_categories_targets_completions_and_files_go_with_transforms(tmp_path):
    x = skewed_table(300)
    frame = pd.DataFrame(x, columns=list("abcde"))
    frame["e"] = np.where(x[:, 4] > 0, "high", "low")
    frame.loc[::9, "e"] = None
    imputer = GaussianMixtureImputer(**QUICK, shapes={"a": "log", "b": "logit"}).fit(frame)
    model = imputer._density()
    assert len(model.shapes) == 5
    assert (imputer.impute_frame(frame)["a"] > 0).all()
    gapmix.save(imputer, tmp_path / "model")
    loaded = gapmix.load(tmp_path / "model")
    assert loaded.column_shapes_ == imputer.column_shapes_
    assert loaded.impute_frame(frame).equals(imputer.impute_frame(frame))
    one = GaussianMixtureImputer(1, shapes=imputer.shapes)
    tables = impute_many(frame, 2, imputer=one, bootstrap="bayesian", random_state=0)
    assert all((table["a"] > 0).all() and table["b"].between(0, 1).all() for table in tables)
    joint = GaussianMixtureImputer(**QUICK, shapes={0: "log"}, use_target=True)
    filled = joint.fit_transform(x[:, :2], x[:, 3])
    assert (filled[:, 0] > 0).all()
    assert joint.transform(x[:, :2]).shape == (300, 2)


def test_transforms_that_cannot_be_are_refused():
    x = np.column_stack([skewed_table(300), np.full(300, 2.0)])
    for shapes, message in (
        ("log", "shapes='log' is not known"),
        ({9: "log"}, "shapes name the column 9"),
        ({0: "sqrt"}, "shapes asks for 'sqrt' in column 0. Use one of"),
        ({2: "log"}, "shapes asks for 'log' in column 2, whose values go from "),
        ({3: "logit"}, "'logit' values between the bounds"),
        ({5: "log"}, "whose values go from 2 to 2"),
    ):
        with pytest.raises(ValueError, match=message.replace("(", r"\(")):
            GaussianMixtureImputer(**QUICK, shapes=shapes).fit(x)
    bounded = GaussianMixtureImputer(**QUICK, shapes={3: "logit"}, bounds={3: (-9.0, 9.0)}).fit(x)
    assert (np.abs(bounded.sample(x, 5)[..., 3]) < 9).all()


def test_powers_are_tried_only_on_columns_they_make_normal(monkeypatch):
    tried, really_try = [], shaping._try

    def spy(wanted, sample, exam, made, *size):
        tried.append(sorted(made))
        return really_try(wanted, sample, exam, made, *size)

    monkeypatch.setattr(shaping, "_try", spy)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((400, 3))
    table[rng.random(table.shape) < 0.1] = np.nan
    imputer = GaussianMixtureImputer(effort="quick", random_state=0)
    imputer.fit(table)
    assert tried == []
    imputer.fit(np.c_[table, np.exp(table[:, 0]) - 1.0])
    assert tried[:2] == [[], [3]]
