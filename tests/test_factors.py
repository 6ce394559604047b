"""Factors and noise: exact, monotone, and never a matrix of columns by columns."""

import dataclasses

import numpy as np
import oracles
import pytest
from scipy import sparse
from scipy.special import logsumexp

from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
    load,
    save,
)
from gapmix.em.steps import e_step, evaluate, m_step, take_moments
from gapmix.estimators.glance import tell_factors
from gapmix.fitting.spec import make_settings
from gapmix.parameters import Parameters
from gapmix.plan.rows import prepare_rows
from gapmix.solvers import SOLVERS
from gapmix.structures import STRUCTURES, suit
from gapmix.structures.factor import measure_factors
from gapmix.structures.mixtures import as_full, unite, without_idle
from gapmix.threads import open_engine
from gapmix.units import measure

KINDS = ["factor", "ppca"]
pytestmark = pytest.mark.filterwarnings("ignore:The fit did not converge")


def draw_problem(seed, n=40, d=9, q=2, n_components=2, missing=0.3, kind="factor"):
    """Return a table with gaps, row weights, and a mixture with factors in internal units."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(n_components, d, q))
    noise = rng.uniform(0.1, 1.0, (n_components, d if kind == "factor" else 1, 1))
    covariances = np.concatenate([loadings, np.broadcast_to(noise, (n_components, d, 1))], axis=2)
    means = 2.0 * rng.normal(size=(n_components, d))
    weights = rng.dirichlet(np.full(n_components, 5.0))
    label = rng.choice(n_components, n, p=weights)
    factors = rng.normal(size=(n, q))
    x = means[label] + np.einsum("ndq,nq->nd", loadings[label], factors)
    x += rng.normal(size=(n, d)) * np.sqrt(covariances[label, :, -1])
    x[rng.random((n, d)) < missing] = np.nan
    x[np.isnan(x).all(axis=1), 0] = 0.5
    truth = Parameters(weights, means, covariances, f"{kind}({q})")
    return x, rng.uniform(0.5, 2.0, n), truth


def one_pass(x, weight, parameters, n_jobs=1):
    solver = SOLVERS["factors"]
    structure = STRUCTURES[parameters.structure]
    rows = prepare_rows(x, weight, len(parameters.weights), n_factors=structure.n_factors)
    prepared = solver.prepare(parameters)
    with open_engine(n_jobs) as engine:
        return solver, prepared, e_step(solver, prepared, parameters, rows, engine)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_full_matrices(seed, kind):
    x, _, truth = draw_problem(seed, kind=kind)
    sigmas = STRUCTURES[truth.structure].dense(truth.covariances)
    log_prob, resp = oracles.scores(x, truth.weights, truth.means, sigmas)
    mean, std = oracles.impute(x, truth.weights, truth.means, sigmas)
    model = GaussianMixture(2, covariance_type=kind, n_factors=2, max_iter=1, tol=1e9).fit(x)
    fitted = model._fitted()._replace(parameters=truth)
    model._store(fitted)
    np.testing.assert_allclose(model.score_samples(x), log_prob, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.predict_proba(x), resp, atol=1e-10)
    found, spread = model.impute(x, return_std=True)
    np.testing.assert_allclose(found, mean, atol=1e-10)
    np.testing.assert_allclose(spread, std, atol=1e-10)
    prec = model.precisions_
    inverse = prec[:, :, -1:] * np.eye(x.shape[1]) - prec[:, :, :-1] @ prec[:, :, :-1].swapaxes(
        1, 2
    )
    np.testing.assert_allclose(inverse @ sigmas, [np.eye(x.shape[1])] * 2, atol=1e-10)


@pytest.mark.parametrize("solver", ["dual", "naive"])
def test_full_solvers_say_the_same_of_the_same_mixture(solver):
    x, weight, truth = draw_problem(7, n=30, d=12, q=3)
    found = one_pass(x, weight, truth)[2]
    full = as_full(truth)
    rows = prepare_rows(x, weight, 2)
    with open_engine(1) as engine:
        other = e_step(SOLVERS[solver], SOLVERS[solver].prepare(full), full, rows, engine)
    np.testing.assert_allclose(found.log_likelihood, other.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(found.resp, other.resp + other.dual_resp, rtol=1e-10)


def double_loop(x, weight, truth, rows_of_ridge, unit, shrinkage):
    """Return log-likelihood and one step of EM, a row and a column at a time."""
    q = truth.covariances.shape[2] - 1
    n_components, d = truth.means.shape
    joint = np.empty((len(x), n_components))
    known = {}
    for i, row in enumerate(x):
        o = ~np.isnan(row)
        for k in range(n_components):
            low, psi = truth.covariances[k, o, :q], truth.covariances[k, o, q]
            away = row[o] - truth.means[k, o]
            sigma = low @ low.T + np.diag(psi)
            joint[i, k] = np.log(truth.weights[k]) - 0.5 * (
                o.sum() * np.log(2 * np.pi)
                + np.linalg.slogdet(sigma)[1]
                + away @ np.linalg.solve(sigma, away)
            )
            gain = np.linalg.solve(sigma, low).T  # E[f | x] = L' S^-1 (x - mean)
            known[i, k] = gain @ away, np.eye(q) - gain @ low
    log_prob = logsumexp(joint, axis=1)
    resp = np.exp(joint - log_prob[:, None]) * weight[:, None]
    means, covariances = truth.means.copy(), truth.covariances.copy()
    left, count = np.zeros((n_components, d)), np.zeros((n_components, d))
    for k in range(n_components):
        scale = np.eye(q) / max(shrinkage, 1e-300)  # of loadings, learned from all columns
        for j in range(d):
            low, psi = truth.covariances[k, j, :q], truth.covariances[k, j, q]
            scale += np.outer(low, low) / psi / d
        for j in range(d):
            a, b, square = np.zeros((q + 1, q + 1)), np.zeros(q + 1), 0.0
            a[:q, :q] += rows_of_ridge * np.eye(q) + np.linalg.inv(scale)
            for i in np.flatnonzero(~np.isnan(x[:, j])):
                f, spread = known[i, k]
                v = np.append(f, 1.0)
                outer = np.outer(v, v)
                outer[:q, :q] += spread
                a += resp[i, k] * outer
                b += resp[i, k] * x[i, j] * v
                square += resp[i, k] * x[i, j] ** 2
                count[k, j] += resp[i, k]
            solution = np.linalg.solve(a, b)
            covariances[k, j, :q], means[k, j] = solution[:q], solution[q]
            left[k, j] = square - b @ solution + rows_of_ridge * unit[j]
    covariances[:, :, q] = left / (count + rows_of_ridge)
    if truth.structure.startswith("ppca"):
        ratio = left.sum(axis=1) / (count + rows_of_ridge).sum(axis=1)
        covariances[:, :, q] = ratio[:, None]
    total = resp.sum(axis=0)
    return weight @ log_prob, total / total.sum(), means, covariances


def settings_for(x, weight, structure, n_components, **changes):
    spec = GaussianMixture(n_components, covariance_type=structure, **changes)._spec()
    spec = spec._replace(covariance_type=structure)
    units = measure(x, weight, common=STRUCTURES[structure].COMMON_UNITS)
    units = units._replace(scale=np.ones_like(units.scale), center=np.zeros_like(units.scale))
    return make_settings(spec, units, float(weight.sum()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_components", "shrinkage"), [(1, 4.0), (3, 0.0), (3, 20.0)])
def test_a_step_is_that_of_a_double_loop(kind, n_components, shrinkage):
    x, weight, truth = draw_problem(3, n=25, d=6, n_components=n_components, kind=kind)
    changes = {"reg_covar": 1e-3, "shrinkage": shrinkage}
    settings = settings_for(x, weight, truth.structure, n_components, **changes)
    solver, prepared, sums = one_pass(x, weight, truth)
    found = m_step(take_moments(solver, prepared, sums), truth, settings)
    held = settings.regularizer
    rows = float((held.ridge / held.unit)[0])
    value, weights, means, covariances = double_loop(x, weight, truth, rows, held.unit, shrinkage)
    np.testing.assert_allclose(sums.log_likelihood, value, rtol=1e-11)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-10)
    np.testing.assert_allclose(found.means, means, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.covariances, covariances, rtol=1e-8, atol=1e-10)


def climbs(seed):
    """Tell whether a fit of a random kind to a random table never goes down."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % 2]
    n, d = int(rng.integers(6, 40)), int(rng.integers(2, 14))
    q, n_components = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    x = draw_problem(seed, n, d, q, n_components, rng.uniform(0, 0.8), kind)[0]
    x[0, np.isnan(x).all(axis=0)] = 1.0
    model = GaussianMixture(
        n_components,
        covariance_type=kind,
        n_factors=int(rng.integers(1, 5)),
        shrinkage=[0.0, "auto", 3.0][seed % 3],
        mean_shrinkage=[0.0, 2.0][seed % 2],
        reg_covar=[1e-6, 1e-2, 0.0][seed % 3],
        accelerate=[None, "auto"][seed // 2 % 2],
        max_iter=12,
        tol=0.0,
        random_state=seed,
    ).fit(x)
    trace = np.array([each.objective for each in model.history_])
    falls = np.diff(trace) < -1e-9 * np.abs(trace[1:])
    repaired = [any("repair" in event for event in each.events) for each in model.history_]
    return bool((~falls | np.array(repaired[:-1])).all()) and np.isfinite(trace).all()


def test_the_objective_never_falls():
    assert [seed for seed in range(20) if not climbs(seed)] == []


@pytest.mark.full
def test_the_objective_never_falls_on_many_problems():
    assert [seed for seed in range(200) if not climbs(seed)] == []


def test_an_objective_counts_the_priors_that_its_steps_climb():
    x, weight, truth = draw_problem(5, n_components=2)
    settings = settings_for(x, weight, truth.structure, 2, reg_covar=0.1, shrinkage=5.0)
    held = settings.regularizer._replace(shrinkage=5.0, center=truth.means[1], mean_shrinkage=3.0)
    settings = settings._replace(regularizer=held)
    total = float(weight.sum())

    def objective(parameters):
        solver, prepared, sums = one_pass(x, weight, parameters)
        return evaluate(solver, prepared, parameters, sums, total, settings)[1]

    at = truth
    for _ in range(60):
        solver, prepared, sums = one_pass(x, weight, at)
        at = m_step(take_moments(solver, prepared, sums), at, settings)
    best, rng = objective(at), np.random.default_rng(0)
    for _ in range(30):  # what steps lead to is a maximum of what is called the objective
        moved = at._replace(
            means=at.means + 0.05 * rng.normal(size=at.means.shape),
            covariances=at.covariances * np.exp(0.05 * rng.normal(size=at.covariances.shape)),
        )
        assert objective(moved) < best


def test_threads_change_no_bit():
    x, weight, _ = draw_problem(1, n=300, d=700, n_components=2)
    fits = [
        GaussianMixture(
            2, covariance_type="factor", n_factors=3, max_iter=3, tol=0.0, random_state=0, n_jobs=n
        ).fit(x, sample_weight=weight)
        for n in (1, 3)
    ]
    for name in ("means_", "covariances_", "weights_", "lower_bound_"):
        np.testing.assert_array_equal(getattr(fits[0], name), getattr(fits[1], name))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_copies_and_units_and_order_do_not_matter(kind):
    x = draw_problem(2, n=40, kind=kind)[0]
    weight = np.random.default_rng(0).integers(1, 4, len(x))
    options = {"covariance_type": kind, "n_factors": 2, "max_iter": 15, "random_state": 0}
    one = GaussianMixture(2, **options).fit(x, sample_weight=weight.astype(float))
    copies = GaussianMixture(2, **options).fit(np.repeat(x, weight, axis=0))
    np.testing.assert_allclose(one.score_samples(x), copies.score_samples(x), atol=1e-6)
    order = np.random.default_rng(1).permutation(x.shape[1])
    factor = np.exp(np.random.default_rng(2).normal(size=len(order)) * (kind == "factor"))
    moved = GaussianMixture(2, **options).fit(
        (x * factor + 5.0)[:, order], sample_weight=weight.astype(float)
    )
    back = (moved.impute((x * factor + 5.0)[:, order])[:, np.argsort(order)] - 5.0) / factor
    np.testing.assert_allclose(back, one.impute(x), atol=1e-6)


def test_a_drawn_model_is_found_again():
    x, _, truth = draw_problem(0, n=4000, d=12, q=2, n_components=1, missing=0.2)
    model = GaussianMixture(covariance_type="factor", n_factors=2, tol=1e-6).fit(x)
    structure = STRUCTURES[truth.structure]
    found, true = (structure.dense(each)[0] for each in (model.covariances_, truth.covariances))
    assert np.abs(found - true).max() < 0.08 * np.abs(true).max()
    free = 12 * 2 - 1 + 12 + 12  # loadings less one turn, noise, means
    assert model._n_parameters() == free
    assert model.bic(x) == pytest.approx(-2 * model.score_samples(x).sum() + free * np.log(4000))


def test_draws_and_new_rows_have_the_covariance():
    x, _, truth = draw_problem(4, n=50, d=5, q=2, n_components=1)
    model = GaussianMixture(covariance_type="factor", n_factors=2, random_state=0).fit(x)
    sigma = STRUCTURES[truth.structure].dense(model.covariances_)[0]
    rows = model.sample(40_000)[0]
    np.testing.assert_allclose(np.cov(rows.T), sigma, atol=0.1 * np.abs(sigma).max())
    gap = np.array([[0.3, np.nan, np.nan, 0.1, np.nan]])
    draws = model.sample_missing(gap, 40_000, random_state=0)[:, 0]
    mean, spread = oracles.condition(gap[0], model.means_[0], sigma)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), spread, atol=0.1 * spread.max())


@pytest.mark.parametrize("kind", KINDS)
def test_noise_alone_leaves_no_factor_and_plain_factors_keep_their_length(kind):
    rng = np.random.default_rng(0)
    loadings, options = rng.normal(size=(200, 2)), {"n_factors": 4, "shrinkage": "auto"}
    for scale, least, most in ((0.0, 0.0, 1e-5), (1.0, 0.6, 1.0)):
        x = scale * rng.normal(size=(100, 2)) @ loadings.T + rng.normal(size=(100, 200))
        x[rng.random(x.shape) < 0.1] = np.nan
        fit = GaussianMixture(1, covariance_type=kind, max_iter=200, tol=1e-6, **options).fit(x)
        found = np.linalg.eigvalsh(measure_factors(fit.covariances_)[0])[::-1]
        assert (found[2:] < 1e-5).all()  # of lengths of hundreds; they fade, step by step
        true = np.linalg.eigvalsh(loadings.T @ loadings)[::-1]
        assert ((least * true / 3 <= found[:2]) & (found[:2] <= most * true + 1e-5)).all()


def test_factors_without_loadings_are_dropped_and_nothing_else_changes():
    truth = draw_problem(0, q=2)[2]
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    structure = STRUCTURES["factor(4)"]
    wide = STRUCTURES["factor(2)"].widen(truth.covariances, 4)
    wide[:, :, :4] = wide[:, :, :4] @ turn
    left = without_idle(truth._replace(covariances=wide, structure="factor(4)"))
    assert left.structure == "factor(2)"
    dense = STRUCTURES["factor(2)"].dense(left.covariances)
    np.testing.assert_allclose(dense, structure.dense(wide), atol=1e-12)
    assert without_idle(truth) is truth
    none = truth._replace(covariances=truth.covariances * [0.0, 0.0, 1.0])
    assert without_idle(none).structure == "factor(1)"


def test_mixtures_with_other_numbers_of_factors_are_united():
    parts = [draw_problem(seed, q=q)[2] for seed, q in ((0, 1), (1, 3))]
    both = unite(parts, np.array([0.25, 0.75]))
    assert both.structure == "factor(3)"
    each = [STRUCTURES[part.structure].dense(part.covariances) for part in parts]
    dense = STRUCTURES[both.structure].dense(both.covariances)
    np.testing.assert_allclose(dense, np.concatenate(each))


def test_a_model_comes_back_from_its_file_and_goes_on(tmp_path):
    x = draw_problem(0)[0]
    model = GaussianMixture(
        2, covariance_type="factor", n_factors=3, max_iter=4, tol=0.0, shrinkage=2.0
    )
    model.fit(x)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.covariance_type, again.n_factors) == ("factor", 3)
    np.testing.assert_array_equal(again.score_samples(x), model.score_samples(x))
    again.set_params(warm_start=True).fit(x)
    assert again.lower_bound_ >= model.lower_bound_ - 1e-12


def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path):
    x = draw_problem(0)[0]
    whole = GaussianMixture(2, covariance_type="ppca", n_factors=2, random_state=0, tol=1e-9)
    part = GaussianMixture(**whole.get_params())
    part.set_params(max_iter=5, checkpoint=tmp_path / "state", tol=0.0)
    whole.set_params(tol=0.0, max_iter=12).fit(x)
    part.fit(x)
    part.set_params(max_iter=12).fit(x)
    np.testing.assert_array_equal(part.covariances_, whole.covariances_)


def test_pieces_give_what_memory_gives(tmp_path):
    x = draw_problem(0, n=200)[0]
    np.save(tmp_path / "x.npy", x)
    options = {"covariance_type": "factor", "n_factors": 2, "random_state": 0, "max_iter": 8}
    here = GaussianMixture(2, **options).fit(x)
    there = GaussianMixture(2, **options).fit(tmp_path / "x.npy")
    np.testing.assert_allclose(there.score_samples(x), here.score_samples(x), atol=1e-6)


def test_streams_learn_factors():
    x = draw_problem(0, n=900, n_components=1, missing=0.2)[0]
    stream = GaussianMixture(covariance_type="factor", n_factors=2, random_state=0)
    for batch in np.split(x, 9):
        stream.partial_fit(batch)
    whole = GaussianMixture(covariance_type="factor", n_factors=2, random_state=0).fit(x)
    assert stream.score(x) > whole.score(x) - 0.1


def test_categories_stand_beside_factors():
    x = draw_problem(0, n=120)[0]
    labels = np.where(x[:, 0] > 0, "high", "low").astype(object)
    labels[np.isnan(x[:, 0])] = None
    table = np.column_stack([x.astype(object), labels])
    model = GaussianMixture(
        2, covariance_type="factor", n_factors=2, random_state=0, categorical_features=[9]
    ).fit(table)
    filled = model.impute(table)
    assert set(filled[:, 9]) == {"high", "low"}
    assert np.isfinite(filled[:, :9].astype(float)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_factors": 0}, "n_factors"),
        ({"n_factors": 2.5}, "n_factors"),
        ({"solver": "dual"}, "has none, and one solver. Use 'auto'."),
        ({"keep_components": 2}, "has no principal components"),
        ({"covariance_type": "factor(0)"}, "is not known"),
    ],
)
def test_what_does_not_fit_is_told(changes, message):
    model = GaussianMixture(**{"covariance_type": "factor", **changes})
    with pytest.raises(ValueError, match=r"n_factors|solver|principal|known") as error:
        model.fit(np.zeros((4, 3)))
    assert message in str(error.value)


def test_columns_without_a_value_and_constant_ones_are_kept():
    x = draw_problem(0)[0]
    x[:, 3], x[:, 5] = np.nan, 7.0
    with pytest.warns(UserWarning, match="no observed value"):
        model = GaussianMixture(2, covariance_type="factor", n_factors=2).fit(x)
    filled = model.impute(x)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[:, 5], 7.0)


def test_the_spec_of_a_mixture_names_its_factors():
    model = GaussianMixture(covariance_type="ppca", n_factors=4)
    assert model._spec().covariance_type == "ppca(4)"
    assert "n_factors" in {field.name for field in dataclasses.fields(model)}


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((50, 100), "full"), ((400, 101), "factor"), ((505, 101), "full"), ((10**6, 501), "factor")],
)
def test_factors_suit_tables_of_very_many_columns(shape, kind):
    assert suit(*shape) == kind


def test_an_imputer_finds_factors_of_a_wide_table(tmp_path):
    x, _, truth = draw_problem(0, n=60, d=120, q=2, n_components=1, missing=0.0)
    hidden = np.random.default_rng(0).random(x.shape) < 0.1
    shown = np.where(hidden, np.nan, x)
    imputer = GaussianMixtureImputer(random_state=0, max_components=1)
    filled = imputer.fit_transform(shown)
    assert imputer.mixture_.covariance_type == "factor"
    assert [each.n_factors for each in imputer.selection_] == [2]  # of five, three are idle
    assert imputer.mixture_.n_factors == 2
    said = "2 factors instead of full covariances, as rows are few for 120 columns"
    assert tell_factors(imputer) == said
    assert said in imputer._html_repr()
    spread = np.nanstd(shown, axis=0)
    sigma = STRUCTURES[truth.structure].dense(truth.covariances)[0]
    best = np.array([oracles.condition(row, truth.means[0], sigma)[0] for row in shown])
    error, least = (np.sqrt(np.mean(((each - x) / spread)[hidden] ** 2)) for each in (filled, best))
    assert error < 1.1 * least
    mean, std = imputer.impute_with_std(shown)
    low, high = imputer.intervals(shown, coverage=0.9)
    held = (low <= x) & (x <= high)
    assert 0.8 < held[hidden].mean() < 0.98
    assert (std[hidden] > 0).all()
    np.testing.assert_allclose(mean, filled)
    assert imputer.sample(shown, 2, random_state=0).shape == (2, *x.shape)
    save(imputer, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").transform(shown), filled)


def test_few_rows_of_many_columns_tell_targets_and_classes():
    x, _, truth = draw_problem(1, n=80, d=150, q=2, n_components=1, missing=0.1)
    y = np.nan_to_num(x - truth.means[0]) @ truth.covariances[0, :, 0]
    model = GaussianMixtureRegressor(1, n_factors=2, random_state=0).fit(x[:60], y[:60])
    assert model.mixture_.covariance_type == "factor"
    assert np.corrcoef(model.predict(x[60:]), y[60:])[0, 1] > 0.7
    two = np.concatenate([x, x + np.where(np.arange(150) < 30, 2.0, 0.0)])
    label = np.repeat([0, 1], len(x))
    model = GaussianMixtureClassifier(1, n_factors=2, random_state=0).fit(two[::2], label[::2])
    assert (model.predict(two[1::2]) == label[1::2]).mean() > 0.9


def make_ratings(seed=0, n=150, d=60):
    """Return a table with a fifth of its cells, as a matrix with NaN and as a sparse one."""
    x = draw_problem(seed, n, d, 2, 1, missing=0.8)[0].round(1)
    x[0, np.isnan(x).all(axis=0)] = 1.0
    place = np.nonzero(~np.isnan(x))
    return x, sparse.coo_array((x[place], place), shape=x.shape)


def test_a_mixture_finds_its_number_of_factors():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 30)) + 0.5 * rng.normal(size=(200, 30))
    x[rng.random(x.shape) < 0.1] = np.nan
    options = {"covariance_type": "factor", "random_state": 0, "shrinkage": "auto"}
    found = GaussianMixture(1, n_factors="auto", **options).fit(x)
    assert found.covariances_.shape == (1, 30, 4 + 1)
    same = GaussianMixture(1, n_factors=4, **options).fit(x)
    np.testing.assert_array_equal(found.covariances_, same.covariances_)
    with pytest.raises(ValueError, match="n_factors='auto' needs the table in memory"):
        GaussianMixture(1, n_factors="auto", **options).partial_fit(x)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_tables_are_fitted_as_dense_ones(kind):
    x, cells = make_ratings()
    assert (cells.data == 0).any()  # a stored zero is a value
    options = {"covariance_type": kind, "n_factors": 2, "tol": 1e-7, "random_state": 0}
    options["shrinkage"] = 20.0
    imputer = GaussianMixtureImputer(1, limits=None, **options).fit(cells.tocsr())
    dense = GaussianMixture(1, **options).fit(x)
    assert imputer.mixture_.lower_bound_ == pytest.approx(dense.lower_bound_, abs=1e-5)
    row, column = np.nonzero(np.isnan(x))
    told = imputer.predict_cells(row, column)
    np.testing.assert_allclose(told, imputer.transform(x)[row, column], atol=1e-9)
    np.testing.assert_allclose(told, imputer.predict_cells(row, column, x), atol=1e-9)
    assert np.abs(told - dense.impute(x)[row, column]).max() < 0.02
    np.testing.assert_array_equal(imputer.predict_cells(cells.row, cells.col), cells.data)


def test_long_tables_find_their_factors(tmp_path):
    _, cells = make_ratings()
    imputer = GaussianMixtureImputer(random_state=0)
    imputer.fit_cells((cells.row, cells.col, cells.data), sample_weight=np.linspace(0.9, 1.1, 150))
    assert [each.n_factors for each in imputer.selection_] == [2]
    assert imputer.mixture_.plan_.explain().startswith("150 rows x 60 columns, ")
    save(imputer, tmp_path / "model")
    again = load(tmp_path / "model").predict_cells([0, 3], [5, 7], cells)
    np.testing.assert_array_equal(again, imputer.predict_cells([0, 3], [5, 7]))
    imputer.fit(cells.toarray())
    with pytest.raises(ValueError, match="needs the table X"):
        imputer.predict_cells([0], [0])


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (([0, 0, 1], [1, 1, 0], [1.0, 2.0, 3.0]), {}, "1 cells are given more than once"),
        (([0, 1], [1, 0], [1.0, np.nan]), {}, "not finite"),
        (([0, 1], [1, 0], [1.0, 2.0]), {"n_components": 3}, "one component"),
        (([0, 1], [1, 0], [1.0, 2.0]), {"covariance_type": "full"}, "fitted with factors"),
        (np.zeros((3, 2)), {}, "must be a sparse table"),
    ],
)
def test_cells_that_make_no_table_are_told(cells, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        GaussianMixtureImputer(**options).fit_cells(cells)


def test_cells_that_are_not_there_are_told():
    imputer = GaussianMixtureImputer(n_factors=1).fit_cells(make_ratings()[1])
    with pytest.raises(ValueError, match="columns must be whole numbers from 0 to 59"):
        imputer.predict_cells([0], [60])
