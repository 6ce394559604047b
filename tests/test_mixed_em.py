"""Whole runs of EM with categories, under every prior, against loops over rows and cells."""

import numpy as np
import pytest
from test_categories import draw_parameters, loop_e_step, make_table

from gapmix import categories
from gapmix.categories import LevelPrior
from gapmix.em import accelerate
from gapmix.em.records import Settings
from gapmix.em.run import run
from gapmix.em.steps import m_step
from gapmix.parameters import Parameters
from gapmix.plan.rows import prepare_rows
from gapmix.solvers import SOLVERS
from gapmix.statistics import Moments
from gapmix.structures import STRUCTURES
from gapmix.structures.regularizer import Regularizer
from gapmix.threads import open_engine

TYPES = ["full", "tied", "diag", "spherical"]


# ------------------------------------------------------------------ the textbook, with loops


def fill_row(x, mean, sigma):
    """Return E[x | x_o] and its covariance."""
    o, m = np.flatnonzero(~np.isnan(x)), np.flatnonzero(np.isnan(x))
    filled, spread = np.where(np.isnan(x), mean, x), np.zeros((len(x), len(x)))
    if not len(m):
        return filled, spread
    gain = sigma[np.ix_(m, o)] @ np.linalg.inv(sigma[np.ix_(o, o)])
    filled[m] = mean[m] + gain @ (x[o] - mean[o])
    spread[np.ix_(m, m)] = sigma[np.ix_(m, m)] - gain @ sigma[np.ix_(o, m)]
    return filled, spread


def shape_covariance(kind, scatter, total, ridge, pull, target):
    """Return the covariances of all components under ridge and shrinkage."""
    d = len(ridge)
    if kind == "spherical":
        ridge = np.full(d, ridge.mean())
    sums = [each + np.diag(ridge) for each in scatter]
    if kind == "tied":
        return [sum(sums) / sum(total)] * len(sums)
    found = []
    for k, each in enumerate(sums):
        sigma = (each + pull * target) / (total[k] + pull)
        if kind == "diag":
            sigma = np.diag(np.diag(sigma))
        if kind == "spherical":
            sigma = np.eye(d) * np.diag(sigma).mean()
        found.append(sigma)
    return found


def loop_em(x, codes, weight, start, kind, held, n_steps):
    """Return log-likelihood and objective of each pass, and the parameters after the last."""
    weights, means, sigmas, tables = start
    n = len(x)
    values = []
    for _ in range(n_steps):
        log_prob, resp = loop_e_step(x, codes, Parameters(weights, means, sigmas, "full", tables))
        value = float(weight @ log_prob)
        objective = value + loop_prior(means, sigmas, tables, held)
        values.append((value / weight.sum(), objective / weight.sum()))
        totals, new_means, scatter = [], [], []
        for k in range(len(weights)):
            each = [fill_row(row, means[k], sigmas[k]) for row in x]
            r = [weight[i] * resp[i, k] for i in range(n)]
            first = held["mean_rows"] * held["center"] + sum(r[i] * each[i][0] for i in range(n))
            mean = first / (sum(r) + held["mean_rows"])
            away = held["center"] - mean
            spread = held["mean_rows"] * np.outer(away, away)
            for i in range(n):
                z = each[i][0] - mean
                spread = spread + r[i] * (np.outer(z, z) + each[i][1])
            totals.append(sum(r))
            new_means.append(mean)
            scatter.append(spread)
        new_tables = []
        for j, table in enumerate(tables):
            new = np.zeros_like(table)
            share, rare = held["shares"][j], held["rare"][j]
            n_told = sum(not each for each in rare) + any(rare)
            for k in range(len(weights)):
                seen = 0.0
                for i in range(n):
                    if codes[i, j] >= 0:
                        new[k, codes[i, j]] += weight[i] * resp[i, k]
                        seen += weight[i] * resp[i, k]
                for level in range(len(share)):
                    new[k, level] += held["rows"] * n_told * share[level]
                    new[k, level] /= seen + held["rows"] * n_told
                together = sum(new[k, level] for level in range(len(share)) if rare[level])
                among = sum(share[level] for level in range(len(share)) if rare[level])
                for level in range(len(share)):
                    if rare[level]:
                        new[k, level] = together * share[level] / among
            new_tables.append(new)
        weights = np.array(totals) / sum(totals)
        means, tables = np.array(new_means), tuple(new_tables)
        sigmas = np.array(
            shape_covariance(kind, scatter, totals, held["ridge"], held["pull"], held["target"])
        )
    return values, Parameters(weights, means, sigmas, kind, tables)


def loop_prior(means, sigmas, tables, held):
    """Return the log-prior, each part zero where a component says what all rows say."""
    total, d = 0.0, means.shape[1]
    distinct = sigmas[:1] if held["shared"] else sigmas
    for sigma in sigmas:
        total -= 0.5 * np.trace(np.diag(held["ridge"]) @ np.linalg.inv(sigma))
    for mean, sigma in zip(means, sigmas, strict=True):
        away = mean - held["center"]
        total -= 0.5 * held["mean_rows"] * away @ np.linalg.inv(sigma) @ away
    for sigma in distinct if held["pull"] else ():
        ratio = np.linalg.inv(sigma) @ held["target"]
        total -= 0.5 * held["pull"] * (np.trace(ratio) - d - np.log(np.linalg.det(ratio)))
    for table, share, rare in zip(tables, held["shares"], held["rare"], strict=True):
        n_told = sum(not each for each in rare) + any(rare)
        for row in table:
            for level, p in enumerate(row):
                total += held["rows"] * n_told * share[level] * np.log(p / share[level])
    return total


def to_structure(matrices, kind):
    """Return full matrices in the structure's own shape."""
    if kind == "full":
        return matrices
    if kind == "tied":
        return matrices[:1]
    return np.array([np.diag(each) for each in matrices])


@pytest.mark.parametrize("case", ["plain", "shrunk", "rare"])
@pytest.mark.parametrize("kind", TYPES)
def test_passes_agree_with_a_double_loop(kind, case):
    rng = np.random.default_rng(len(kind) + len(case))
    d, n_components = 3, 3
    n_levels = (2, 24) if case == "rare" else (2, 4, 3)
    table, kinds = make_table(rng, 70, d, n_levels, 0.35)
    x, codes = categories.split_table(table, kinds)
    weight = rng.uniform(0.2, 3.0, len(x))
    sigma = rng.normal(size=(d, 2 * d))
    sigma = sigma @ sigma.T / d
    if kind in ("diag", "spherical"):
        sigma = np.diag(np.diag(sigma))
    if kind == "spherical":
        sigma = np.eye(d) * np.diag(sigma).mean()
    start = draw_parameters(rng, n_components, d, n_levels)
    prior = categories.make_prior(categories.count_codes(codes, weight, n_levels))
    assert bool(prior.rare) == (case == "rare")
    tables = categories.pool_rare(start.categories, prior)
    start = (start.weights, start.means, np.array([sigma] * n_components), tables)
    shrinks = case != "plain"
    pull, mean_rows = (4.0 if kind != "tied" else 0.0, 2.5) if shrinks else (0.0, 0.0)
    target, center = 1.3 * sigma, np.full(d, 0.4)
    held = {
        "ridge": np.full(d, 0.02), "pull": pull, "target": target, "mean_rows": mean_rows,
        "center": center, "shares": prior.shares, "rows": prior.rows, "shared": kind == "tied",
        "rare": prior.rare or tuple(np.zeros(n, dtype=bool) for n in n_levels),
    }  # fmt: skip
    values, wanted = loop_em(x, codes, weight, start, kind, held, 6)
    regularizer = Regularizer(
        held["ridge"],
        shrinkage=pull,
        target=to_structure(target[None], kind)[0] if pull else None,
        mean_shrinkage=mean_rows,
        center=center if mean_rows else None,
        levels=prior,
    )
    settings = Settings(regularizer, tol=0.0, max_iter=6, accelerate=None)
    given = Parameters(start[0], start[1], to_structure(start[2], kind), kind, tables)
    rows = prepare_rows(x, weight, n_components, codes=codes)
    solvers = ["diagonal"] if kind in ("diag", "spherical") else ["dual", "naive"]
    for name in solvers:
        with open_engine(2) as engine:
            found = run(SOLVERS[name], rows, given, settings, engine, keep_start=True)
        for record, (value, objective) in zip(found.history, values, strict=True):
            assert record.log_likelihood == pytest.approx(value, rel=1e-9)
            assert record.objective == pytest.approx(objective, rel=1e-9)
        np.testing.assert_allclose(found.parameters.weights, wanted.weights, rtol=1e-8)
        np.testing.assert_allclose(found.parameters.means, wanted.means, rtol=1e-7, atol=1e-9)
        dense = STRUCTURES[kind].dense(found.parameters.covariances)
        np.testing.assert_allclose(
            np.broadcast_to(dense, wanted.covariances.shape),
            wanted.covariances,
            rtol=1e-6,
            atol=1e-9,
        )
        for one, two in zip(found.parameters.categories, wanted.categories, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-12)


# ------------------------------------------------------------------ rare levels


def test_levels_are_rare_where_a_category_has_many():
    few, many = np.array([90.0, 3.0, 1.0]), np.concatenate([np.full(19, 30.0), [4.9, 5.0, 0.0]])
    prior = categories.make_prior((few, many))
    assert [np.flatnonzero(each).tolist() for each in prior.rare] == [[], [19, 21]]
    assert categories.make_prior((few,)).rare == ()
    lone = np.concatenate([np.full(24, 30.0), [1.0]])  # nothing to pool it with
    assert categories.make_prior((lone,)).rare == ()


@pytest.mark.parametrize("seed", range(5))
def test_no_table_with_rare_levels_together_is_better_than_the_m_step(seed):
    rng = np.random.default_rng(seed)
    n_levels, n_components = 30, 2
    counts = rng.gamma(0.3, 20.0, (n_components, n_levels))
    prior = categories.make_prior((counts.sum(axis=0),))
    (rare,), (share,) = prior.rare, prior.shares
    before = Parameters(
        np.full(2, 0.5), np.zeros((2, 1)), np.ones((2, 1, 1)), "full",
        (np.full((2, n_levels), 1 / n_levels),),
    )  # fmt: skip
    moments = Moments(counts.sum(axis=1), np.zeros((2, 1)), np.ones((2, 1, 1)), counts)
    settings = Settings(Regularizer(np.full(1, 0.1), levels=prior))
    (table,) = m_step(moments, before, settings).categories

    def value(theta):
        rows = prior.rows * ((~rare).sum() + 1)
        return ((counts + rows * share) * np.log(theta)).sum()

    np.testing.assert_allclose(
        table[:, rare] / share[rare], (table[:, rare] / share[rare])[:, :1].repeat(rare.sum(), 1)
    )
    for _ in range(50):
        other = table * np.exp(0.05 * rng.normal(size=table.shape))
        other = categories.pool_rare((other / other.sum(axis=1, keepdims=True),), prior)[0]
        assert value(other) < value(table)


# ------------------------------------------------------------------ acceleration


@pytest.mark.parametrize("n_levels", [(2, 4, 3), (2, 30)])
@pytest.mark.parametrize("method", accelerate.METHODS)
def test_accelerated_runs_climb_to_the_same_top_in_fewer_passes(method, n_levels):
    rng = np.random.default_rng(1)
    table, kinds = make_table(rng, 400, 2, n_levels, 0.3)
    x, codes = categories.split_table(table, kinds)
    weight = rng.uniform(0.5, 2.0, len(x))
    prior = categories.make_prior(categories.count_codes(codes, weight, n_levels))
    rows = prepare_rows(x, weight, 3, codes=codes)
    start = draw_parameters(rng, 3, 2, n_levels)
    found = {}
    for name in (method, None):
        asked = Settings(
            Regularizer(np.full(2, 1e-2), levels=prior), tol=1e-9, max_iter=3000, accelerate=name
        )
        with open_engine(1) as engine:
            found[name] = run(SOLVERS["dual"], rows, start, asked, engine)
        values = [record.objective for record in found[name].history]
        assert np.diff(values).min() > -1e-10 * abs(values[-1])
    fast, slow = found[method], found[None]
    assert fast.history[-1].objective > slow.history[-1].objective - 1e-5
    assert len(fast.history) < len(slow.history)
    if prior.rare:  # a proposal does not leave the family
        for one, two in zip(
            fast.parameters.categories,
            categories.pool_rare(fast.parameters.categories, prior),
            strict=True,
        ):
            np.testing.assert_allclose(one, two, rtol=1e-9)


@pytest.mark.parametrize("equal_weights", [True, False])
def test_a_vector_stands_for_its_mixture(equal_weights):
    rng = np.random.default_rng(0)
    center, other = (draw_parameters(rng, 3, 2, (2, 4)) for _ in range(2))
    if equal_weights:
        other = other._replace(weights=np.full(3, 1 / 3))
    chart = accelerate.draw_chart(center, equal_weights=equal_weights)
    back = accelerate.to_parameters(accelerate.to_vector(other, chart), chart)
    for one, two in zip(
        (*back[:3], *back.categories), (*other[:3], *other.categories), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-9)


# ------------------------------------------------------------------ repair


@pytest.mark.parametrize("numbers", [True, False])
def test_an_emptied_component_is_restarted_and_finds_rows(numbers):
    rng = np.random.default_rng(2)
    group = rng.integers(0, 2, 300)
    codes = np.column_stack([(group + (rng.random(300) < 0.05)) % 2 for _ in range(6)])
    codes = codes.astype(np.int32)
    codes[rng.random(codes.shape) < 0.2] = -1
    x = rng.normal(size=(300, 2)) if numbers else np.full((300, 1), np.nan)
    d, n_levels = x.shape[1], (3,) * 6  # the last level is that of the empty component
    dead, alive = np.tile([1e-12, 1e-12, 1.0], (1, 1)), np.tile([0.5, 0.5, 1e-12], (1, 1))
    tables = tuple(np.concatenate([alive, dead]) for _ in n_levels)
    start = Parameters(
        np.full(2, 0.5), np.zeros((2, d)), np.repeat(np.eye(d)[None], 2, axis=0), "full", tables
    )
    prior = LevelPrior(categories.measure_shares(codes, np.ones(300), n_levels), rows=1e-3)
    asked = Settings(Regularizer(np.full(d, 1e-3), levels=prior), tol=1e-8, max_iter=500)
    rows = prepare_rows(x, np.ones(300), 2, codes=codes)
    with open_engine(1) as engine:
        found = run(SOLVERS["dual"], rows, start, asked, engine)
    events = [event for record in found.history for event in record.events]
    assert sum(event.startswith("repair: component 1 was empty") for event in events) == 1
    assert found.parameters.weights.min() > 0.3
    for table in found.parameters.categories:
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        assert abs(table[0, 0] - table[1, 0]) > 0.8  # the halves became the two groups
    values = [record.objective for record in found.history]
    repaired = [any("repair" in event for event in record.events) for record in found.history]
    falls = np.diff(values)[~np.array(repaired[:-1])]
    assert falls.min() > -1e-10
