"""Categories: a mixture of products, against a double loop and 60 digits that share no code."""

from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import log_gaussian

from gapmix import GaussianMixture, categories, density
from gapmix.categories import Coding, LevelPrior
from gapmix.em.records import Settings
from gapmix.em.run import run
from gapmix.em.steps import e_step, evaluate, m_step, take_moments
from gapmix.fitting.fitted import density_of
from gapmix.fitting.matrix import as_table, make_matrix
from gapmix.fitting.spec import Running, Spec
from gapmix.fitting.whole import fit
from gapmix.kernels import levels, twins
from gapmix.parameters import Parameters
from gapmix.plan.rows import lay_out_rows, prepare_rows
from gapmix.solvers import SOLVERS
from gapmix.structures.regularizer import Regularizer
from gapmix.threads import open_engine

ENTROPY = [1, 2, 3, 4]


def make_table(rng, n=80, d=2, n_levels=(2, 4, 3), share=0.3, n_groups=3):
    """Rows of a few groups, columns of numbers and categories by turns, as floats and NaN."""
    group = rng.integers(0, n_groups, n)
    x = rng.normal(size=(n, d)) + 2.0 * group[:, None]
    columns, kinds = list(x.T), [0] * d
    for j, size in enumerate(n_levels):
        chances = rng.dirichlet(np.full(size, 0.5), n_groups)
        codes = [rng.choice(size, p=chances[k]) for k in group]
        columns.insert(2 * j + 1, np.array(codes, dtype=float))
        kinds.insert(2 * j + 1, size)
    table = np.column_stack(columns)
    table[rng.random(table.shape) < share] = np.nan
    return table, np.array(kinds)


def draw_parameters(rng, n_components, d, n_levels, sharpness=1.0):
    a = rng.normal(size=(n_components, d, 2 * d))
    return Parameters(
        rng.dirichlet(np.ones(n_components)),
        rng.normal(size=(n_components, d)),
        a @ np.swapaxes(a, 1, 2) / d,
        "full",
        tuple(rng.dirichlet(np.full(n, sharpness), n_components) for n in n_levels),
    )


def loop_e_step(x, codes, parameters):
    """Log densities and responsibilities, cell by cell."""
    n, n_components = len(x), len(parameters.weights)
    joint = np.empty((n, n_components))
    for i in range(n):
        for k in range(n_components):
            joint[i, k] = np.log(parameters.weights[k])
            joint[i, k] += log_gaussian(x[i], parameters.means[k], parameters.covariances[k])
            for j, table in enumerate(parameters.categories):
                if codes[i, j] >= 0:
                    joint[i, k] += np.log(table[k][codes[i, j]])
    top = joint.max(axis=1, keepdims=True)
    log_prob = top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))
    return log_prob, np.exp(joint - log_prob[:, None])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 4), st.sampled_from([0, 0.4, 0.9]))
def test_e_and_m_step_agree_with_a_double_loop(seed, n_components, d, share):
    rng = np.random.default_rng(seed)
    n_levels = tuple(int(n) for n in rng.integers(1, 5, size=int(rng.integers(1, 4))))
    table, kinds = make_table(rng, 30, d, n_levels, share)
    x, codes = categories.split_table(table, kinds)
    weight = rng.uniform(0.5, 2.0, len(x))
    before = draw_parameters(rng, n_components, x.shape[1], n_levels)
    shares = categories.measure_shares(codes, weight, n_levels)
    asked = Settings(Regularizer(np.full(d, 1e-6), levels=LevelPrior(shares)))
    log_prob, resp = loop_e_step(x, codes, before)
    for name in ("dual", "naive"):
        solver = SOLVERS[name]
        rows = prepare_rows(x, weight, n_components, codes=codes)
        prepared = solver.prepare(before)
        with open_engine(1) as engine:
            found = e_step(solver, prepared, before, rows, engine)
        np.testing.assert_allclose(found.log_likelihood, weight @ log_prob, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.resp + found.dual_resp, weight @ resp, rtol=1e-9)
        after = m_step(take_moments(solver, prepared, found), before, asked)
        value, objective = evaluate(solver, prepared, before, found, weight.sum(), asked)
        prior = 0.0
        for j, size in enumerate(n_levels):
            seen = codes[:, j] >= 0
            share_j = [
                (weight[codes[:, j] == c].sum() + 1 / size) / (weight[seen].sum() + 1)
                for c in range(size)
            ]
            for k in range(n_components):
                total = (weight * resp[:, k])[seen].sum()
                for c in range(size):
                    has = (weight * resp[:, k])[codes[:, j] == c].sum()
                    wanted = (has + size * share_j[c]) / (total + size)
                    assert after.categories[j][k, c] == pytest.approx(wanted, rel=1e-10)
                    old = before.categories[j][k, c]
                    prior += size * share_j[c] * np.log(old / share_j[c])
        ridge = -0.5e-6 * np.trace(np.linalg.inv(before.covariances), axis1=1, axis2=2).sum()
        assert (objective - value) * weight.sum() == pytest.approx(prior + ridge, rel=1e-8)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 40), st.integers(1, 9), st.sampled_from([0, 0.3, 1]))
def test_kernels_agree_with_their_twins_and_with_loops(seed, n, n_components, share):
    rng = np.random.default_rng(seed)
    n_levels = [int(size) for size in rng.integers(1, 6, int(rng.integers(1, 5)))]
    codes = np.column_stack([rng.integers(0, size, n) for size in n_levels]).astype(np.int32)
    codes[rng.random(codes.shape) < share] = -1
    first = categories.find_starts(n_levels)
    log_theta = np.log(rng.random((sum(n_levels), n_components)))
    resp, before = rng.random((n_components, n)), rng.normal(size=(n_components, n))
    added, counted = before.copy(), np.ones((n_components, sum(n_levels)))
    for i in range(n):
        for j, code in enumerate(codes[i]):
            if code >= 0:
                for k in range(n_components):
                    added[k, i] += log_theta[sum(n_levels[:j]) + code, k]
                    counted[k, sum(n_levels[:j]) + code] += resp[k, i]
    for each in (levels, twins):
        total, counts = before.copy(), np.ones((n_components, sum(n_levels)))
        each.add_log_levels(codes, first, log_theta, total)
        each.count_levels(codes, first, resp, counts)
        np.testing.assert_allclose(total, added, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(counts, counted, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_scores_hold_in_the_tails_against_60_digits(seed):
    rng = np.random.default_rng(seed)
    n_levels = (3, 2, 4)
    parameters = draw_parameters(rng, 3, 1, n_levels, sharpness=0.01)
    parameters = parameters._replace(
        categories=tuple(np.maximum(table, 1e-250) for table in parameters.categories)
    )
    x = rng.normal(scale=30.0, size=(12, 1))
    codes = np.column_stack([rng.integers(-1, n, 12) for n in n_levels]).astype(np.int32)
    rows = lay_out_rows(x, 3, codes=codes)
    solver = SOLVERS["dual"]
    with open_engine(1) as engine:
        ready = density.conditional.ReadyDensity(solver, solver.prepare(parameters), parameters)
        found = density.conditional.score(ready, rows, engine)
    with mpmath.workdps(60):
        for i in range(12):
            joint = []
            for k in range(3):
                variance = mpmath.mpf(float(parameters.covariances[k, 0, 0]))
                away = mpmath.mpf(float(x[i, 0])) - mpmath.mpf(float(parameters.means[k, 0]))
                value = mpmath.log(mpmath.mpf(float(parameters.weights[k])))
                value -= (mpmath.log(2 * mpmath.pi * variance) + away**2 / variance) / 2
                for j, table in enumerate(parameters.categories):
                    if codes[i, j] >= 0:
                        value += mpmath.log(mpmath.mpf(float(table[k, codes[i, j]])))
                joint.append(value)
            total = mpmath.log(mpmath.fsum(mpmath.exp(value) for value in joint))
            assert found.log_prob[i] == pytest.approx(float(total), rel=1e-12)
            for k in range(3):
                wanted = float(mpmath.exp(joint[k] - total))
                assert found.resp[i, k] == pytest.approx(wanted, rel=1e-9, abs=1e-290)


def fit_table(table, kinds, n_components=3, *, weight=None, n_jobs=1, **options):
    weight = np.ones(len(table)) if weight is None else weight
    asked = {"init_params": "kmeans", "tol": 1e-6, "max_iter": 60, **options}
    asked = GaussianMixture(n_components, **asked).get_params()
    spec = Spec(**{name: asked[name] for name in Spec._fields})
    names = [str(j) for j in range(table.shape[1])]
    matrix = make_matrix(table, weight, names, spec.covariance_type, n_levels=kinds)
    return fit(spec, matrix, ENTROPY, Running(n_jobs))


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("accelerate", ["auto", "squarem", None])
@pytest.mark.parametrize("seed", range(3))
def test_objective_never_falls(covariance_type, accelerate, seed):
    rng = np.random.default_rng(seed)
    table, kinds = make_table(rng, 120, 3, (2, 5, 3), share=0.4)
    shrinkage = "auto" if seed == 1 else 0.0
    found = fit_table(
        table,
        kinds,
        4,
        covariance_type=covariance_type,
        accelerate=accelerate,
        shrinkage=shrinkage,
        mean_shrinkage=shrinkage,
        init_params="auto" if seed == 2 else "kmeans",
    )
    after = [r.objective for r in found.history if not any("repair" in e for e in r.events)]
    repaired = any("repair" in e for r in found.history for e in r.events)
    assert repaired or np.diff(after).min() > -1e-9 * max(1.0, abs(after[-1]))


def test_no_numbers_at_all_is_latent_class_analysis():
    rng = np.random.default_rng(0)
    table, kinds = make_table(rng, 400, 1, (2, 3, 4, 2), share=0.2)
    table, kinds = table[:, kinds > 0], kinds[kinds > 0]
    found = fit_table(table, kinds, 2, max_iter=500)
    assert found.converged
    model = density_of(found, 1)
    filled = density.fill(model, table, spread=True)
    assert filled.mean.shape == filled.std.shape == table.shape
    np.testing.assert_array_equal(filled.mean[~np.isnan(table)], table[~np.isnan(table)])
    drawn, component = density.sample_rows(model, 50_000, rng)
    for j, probabilities in enumerate(found.parameters.categories):
        shares = np.array(
            [[(drawn[component == k, j] == c).mean() for c in range(kinds[j])] for k in range(2)]
        )
        np.testing.assert_allclose(shares, probabilities, atol=0.02)


@pytest.mark.parametrize("numbers", [True, False])
def test_names_and_order_of_levels_columns_and_rows_do_not_matter(numbers):
    rng = np.random.default_rng(3)
    table, kinds = make_table(rng, 150, 2, (3, 2, 4))
    if not numbers:
        table, kinds = table[:, kinds > 0], kinds[kinds > 0]
    found = fit_table(table, kinds, shrinkage="auto", init_params="auto")
    other = table.copy()
    for j in np.flatnonzero(kinds):
        new = rng.permutation(kinds[j]).astype(float)
        seen = ~np.isnan(table[:, j])
        other[seen, j] = new[table[seen, j].astype(int)]
    columns = rng.permutation(len(kinds))
    again = fit_table(
        np.ascontiguousarray(other[:, columns]),
        kinds[columns],
        shrinkage="auto",
        init_params="auto",
    )
    first, second = density_of(found, 1), density_of(again, 1)
    np.testing.assert_allclose(
        density.score(first, table).log_prob,
        density.score(second, other[:, columns]).log_prob,
        rtol=1e-9,
    )


def test_weights_are_the_same_as_copies_of_rows():
    rng = np.random.default_rng(4)
    table, kinds = make_table(rng, 90, 2)
    times = rng.integers(1, 4, 90)
    weighted = fit_table(table, kinds, weight=times.astype(float))
    copied = fit_table(np.repeat(table, times, axis=0), kinds)
    a, b = (density.score(density_of(each, 1), table).log_prob for each in (weighted, copied))
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


def test_threads_change_no_bit():
    rng = np.random.default_rng(5)
    table, kinds = make_table(rng, 3000, 4, (2, 5, 3, 6))
    one, *others = [fit_table(table, kinds, 5, n_jobs=n, max_iter=8) for n in (1, 2, 4)]
    for other in others:
        for a, b in zip(one.parameters.categories, other.parameters.categories, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(one.parameters.means, other.parameters.means)


def test_rows_that_show_only_categories_count():
    rng = np.random.default_rng(6)
    table, kinds = make_table(rng, 60, 2, share=0.0)
    table[:30, kinds == 0] = np.nan
    found = fit_table(table, kinds, 1)
    for j, probabilities in zip(np.flatnonzero(kinds), found.parameters.categories, strict=True):
        shares = np.bincount(table[:, j].astype(int), minlength=kinds[j]) / 60
        np.testing.assert_allclose(probabilities[0], shares, atol=0.02)


def test_a_fill_has_the_probabilities_of_its_components():
    rng = np.random.default_rng(7)
    table, kinds = make_table(rng, 60, 2)
    model = density_of(fit_table(table, kinds), 1)
    numbers, codes = categories.split_table(table, kinds)
    resp = loop_e_step(numbers, codes, model.parameters)[1]
    filled = density.fill(model, table, spread=True)
    for j, (column, found) in enumerate(
        zip(np.flatnonzero(kinds), density.level_probabilities(model, table), strict=True)
    ):
        gaps = np.isnan(table[:, column])
        np.testing.assert_allclose(
            found[gaps], (resp @ model.parameters.categories[j])[gaps], rtol=1e-8
        )
        np.testing.assert_array_equal(filled.mean[gaps, column], found[gaps].argmax(axis=1))
        np.testing.assert_allclose(filled.std[gaps, column], 1 - found[gaps].max(axis=1))
        assert (filled.std[~gaps, column] == 0).all()
    draws = density.draw(model, table[:1], 20_000, rng)
    shares = density.level_probabilities(model, table[:1])
    for column, share in zip(np.flatnonzero(kinds), shares, strict=True):
        drawn = np.bincount(draws[:, 0, column].astype(int), minlength=kinds[column]) / 20_000
        np.testing.assert_allclose(drawn, share[0], atol=0.015)


def test_codings_lead_back():
    rng = np.random.default_rng(8)
    coding = Coding(np.array([2, 0, 1]), tuple(rng.permutation(n) for n in (4, 2, 3)))
    codes = np.column_stack([rng.integers(-1, n, 50) for n in (2, 3, 4)])
    back = categories.recode(categories.recode(codes, coding), categories.invert(coding))
    np.testing.assert_array_equal(back, codes)
    table, kinds = make_table(rng)
    table = table[~np.isnan(table).all(axis=1)]
    matrix = make_matrix(table, np.ones(len(table)), list("abcde"), "full", n_levels=kinds)
    np.testing.assert_array_equal(as_table(matrix), table)


def test_a_plain_fit_agrees_with_another_implementation():
    stored = np.load(Path(__file__).parent / "reference" / "lca_stepmix.npz")
    codes = stored["codes"].astype(np.int32)
    n_levels = tuple(int(n) for n in stored["n_levels"])
    start = Parameters(
        stored["start_weights"],
        np.zeros((3, 1)),
        np.ones((3, 1, 1)),
        "full",
        categories.split(stored["start"], n_levels),
    )
    even = tuple(np.full(n, 1 / n) for n in n_levels)
    held = Regularizer(np.zeros(1), levels=LevelPrior(even, rows=0.0))
    rows = prepare_rows(np.full((len(codes), 1), np.nan), np.ones(len(codes)), 3, codes=codes)
    with open_engine(1) as engine:
        found = run(SOLVERS["dual"], rows, start, Settings(held, tol=1e-13, max_iter=5000), engine)
    value = found.history[-1].log_likelihood
    assert value == pytest.approx(float(stored["log_likelihood"]), rel=1e-9)
    order = np.argsort(found.parameters.weights)
    np.testing.assert_allclose(found.parameters.weights[order], stored["weights"], atol=2e-4)
    np.testing.assert_allclose(
        categories.join(found.parameters.categories)[order], stored["probabilities"], atol=2e-4
    )
