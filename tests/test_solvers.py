"""Families A and C: every solver against the textbook double loop, and against 60 digits."""

import inspect
from functools import cache

import numpy as np
import oracles
import pytest
from conftest import size
from examples import sweep_solver
from oracles import relative

from gapmix import GaussianMixture
from gapmix.em.records import Settings
from gapmix.em.run import run
from gapmix.em.steps import e_step, look, m_step
from gapmix.parameters import Parameters
from gapmix.plan import rows as rows_module
from gapmix.plan.layout import BLAS_ROWS, BLAS_SIZE
from gapmix.plan.patterns import find_patterns
from gapmix.plan.planner import make_plan
from gapmix.plan.rows import prepare_rows
from gapmix.solvers import SOLVERS, Solver, naive
from gapmix.statistics import zero_statistics
from gapmix.structures.regularizer import Regularizer

# Factors have no matrix to solve with: tests/test_factors.py.
DENSE = [name for name, each in SOLVERS.items() if not each.SUMS_DIAGONAL and name != "factors"]
# The paper's lemma squares the condition number: it is here for its cost, not its accuracy.
STABLE = [name for name in DENSE if name != "paper"]
N_PROBLEMS = size(150, 2000)
BAR = 1e-10


@pytest.mark.parametrize("solver", [*SOLVERS.values(), sweep_solver], ids=lambda s: s.__name__)
def test_solvers_and_the_example_of_one_have_the_functions_of_the_contract(solver):
    assert isinstance(solver.SUMS_DIAGONAL, bool)
    for name, wanted in inspect.getmembers(Solver, inspect.isfunction):
        if name.startswith("_"):
            continue
        _, *asked = inspect.signature(wanted).parameters.values()  # without self
        given = list(inspect.signature(getattr(solver, name)).parameters.values())
        named = {each.name for each in asked if each.kind is each.KEYWORD_ONLY}
        assert {each.name for each in given if each.kind is each.KEYWORD_ONLY} == named, name
        by_place = [each for each in given if each.kind is not each.KEYWORD_ONLY]
        needed = [each for each in by_place if each.default is each.empty]
        assert len(needed) == len(asked) - len(named), name


@pytest.mark.parametrize("seed", range(20))
def test_the_example_of_a_solver_fills_as_the_textbook_does(seed):
    X, weight, mixture = oracles.random_problem(seed)
    parameters = sweep_solver.prepare(as_parameters(mixture, "full"))
    for block in prepare_rows(X, weight, len(mixture[0])).blocks:
        found, wanted = (one.complete(parameters, block) for one in (sweep_solver, naive))
        for one, other in zip(found, wanted, strict=True):
            assert relative(one, other) <= 1e-9


class Serial:
    """An engine without threads."""

    def map(self, function, items):
        return [function(item) for item in items]


def as_parameters(mixture, covariance_type):
    weights, means, sigmas = mixture
    diagonal = covariance_type in ("diag", "spherical")
    covariances = np.einsum("kii->ki", sigmas) if diagonal else sigmas
    return Parameters(weights, means, covariances, covariance_type)


def arrange(name, X, weight, n_components):
    """Return the rows as the solver wants them: in blocks, along its tree if it walks one."""
    patterns = find_patterns(~np.isnan(X))
    diagonal = SOLVERS[name].SUMS_DIAGONAL
    plan = make_plan(patterns, n_components, solver="auto" if diagonal else name, diagonal=diagonal)
    assert plan.solver == name
    return prepare_rows(X, weight, n_components, patterns=patterns, forest=plan.forest)


def as_matrices(parameters):
    covariances = parameters.covariances
    if covariances.ndim == 2:
        covariances = covariances[:, :, None] * np.eye(covariances.shape[1])
    return np.broadcast_to(covariances, (len(parameters.weights), *covariances.shape[1:]))


def one_step(name, X, weight, mixture, covariance_type="full", ridge=0.0):
    """Return log-likelihood, responsibilities and new parameters by a solver of the package."""
    solver = SOLVERS[name]
    parameters = as_parameters(mixture, covariance_type)
    rows = arrange(name, X, weight, len(mixture[0]))
    prepared = solver.prepare(parameters)
    statistics = e_step(solver, prepared, parameters, rows, Serial())
    told = [(block, solver.visit(prepared, block).log_density) for block in rows.blocks]
    resp = np.concatenate([look(parameters, *each)[1] for each in told])
    settings = Settings(Regularizer(np.full(X.shape[1], ridge)))
    updated = m_step(solver.moments(prepared, statistics), parameters, settings)
    new = (updated.weights, updated.means, as_matrices(updated))
    return float(statistics.log_likelihood), resp[np.argsort(rows.patterns.order)], new


def complete(name, X, mixture):
    """Return log densities (n, K), conditional means and variances (K, n, d) by a solver."""
    solver = SOLVERS[name]
    parameters = as_parameters(mixture, "diag" if solver.SUMS_DIAGONAL else "full")
    rows = arrange(name, X, np.ones(len(X)), len(mixture[0]))
    prepared = solver.prepare(parameters)
    parts = [(block, solver.complete(prepared, block)) for block in rows.blocks]
    log_density = np.concatenate([part.log_density for _, part in parts])
    deviation = np.concatenate([part.deviation for _, part in parts], axis=1)
    variance = np.concatenate(
        [np.repeat(part.variance, np.diff(block.start), axis=1) for block, part in parts], axis=1
    )
    means = parameters.means[:, None]
    back = [
        each[np.argsort(rows.patterns.order)]
        for each in (log_density, *map(_rows_first, (deviation, variance)))
    ]
    return (
        back[0],
        _rows_first(back[1]) + means,
        _rows_first(back[2]),
        solver.notes(prepared, _no_rows(parameters)),
    )


def _no_rows(parameters):
    return zero_statistics(*parameters.means.shape, diagonal=parameters.covariances.ndim == 2)


def _rows_first(array):
    return np.ascontiguousarray(array.swapaxes(0, 1))


def errors(found, wanted, old_sigmas):
    """Relative errors of log-likelihood, responsibilities, weights, means and covariances.

    A component left with one row has a covariance of almost 0; sums about the old means know it
    to the precision of the old covariance.
    """
    n_rows = len(wanted[1])
    return {
        "log-likelihood": abs(found[0] - wanted[0]) / max(abs(wanted[0]), n_rows),
        "responsibilities": np.abs(found[1] - wanted[1]).max(),
        "weights": relative(found[2][0], wanted[2][0]),
        "means": relative(found[2][1], wanted[2][1]),
        "covariances": max(
            np.abs(a - b).max() / max(b.max(), old.max())
            for a, b, old in zip(found[2][2], wanted[2][2], old_sigmas, strict=True)
        ),
    }


def assert_below(found, bar, what):
    worst = max(found, key=found.get)
    assert found[worst] <= bar, f"{what}: {worst} is off by {found[worst]:.1e}"


@cache
def textbook_step(seed, diagonal):
    X, weight, mixture = oracles.random_problem(seed, diagonal=diagonal)
    kind = "diag" if diagonal else "full"
    step = oracles.em_step(X, *mixture, sample_weight=weight, covariance_type=kind)
    return X, weight, mixture, step


@pytest.mark.parametrize("name", [*DENSE, "diagonal"])
def test_one_step_agrees_with_the_textbook_double_loop(name):
    diagonal = SOLVERS[name].SUMS_DIAGONAL
    for seed in range(N_PROBLEMS):
        X, weight, mixture, wanted = textbook_step(seed, diagonal)
        found = one_step(name, X, weight, mixture, "diag" if diagonal else "full")
        assert_below(errors(found, wanted, mixture[2]), BAR, f"problem {seed}")


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("covariance_type", ["tied", "diag", "spherical"])
def test_dense_solvers_serve_every_covariance_type(name, covariance_type):
    for seed in range(size(20, 200)):
        X, weight, mixture = oracles.random_problem(seed, diagonal=covariance_type != "tied")
        wanted = oracles.em_step(X, *mixture, sample_weight=weight, covariance_type=covariance_type)
        found = one_step(name, X, weight, mixture, covariance_type)
        assert_below(errors(found, wanted, mixture[2]), BAR, f"problem {seed}")


@pytest.mark.parametrize("name", [*DENSE, "diagonal"])
def test_patterns_that_span_blocks_change_nothing(name, monkeypatch):
    monkeypatch.setattr(rows_module, "MIN_BLOCK_ROWS", 1)
    monkeypatch.setattr(rows_module, "MAX_BLOCK_ROWS", 3)
    diagonal = SOLVERS[name].SUMS_DIAGONAL
    for seed in range(size(20, 200)):
        X, weight, mixture = oracles.random_problem(seed, n=20, missing=0.2, diagonal=diagonal)
        kind = "diag" if diagonal else "full"
        wanted = oracles.em_step(X, *mixture, sample_weight=weight, covariance_type=kind)
        found = one_step(name, X, weight, mixture, kind)
        assert_below(errors(found, wanted, mixture[2]), BAR, f"problem {seed}")


@pytest.mark.parametrize("name", [*DENSE, "diagonal"])
def test_patterns_shared_by_many_rows_change_nothing(name):
    diagonal = SOLVERS[name].SUMS_DIAGONAL
    kind = "diag" if diagonal else "full"
    for seed in range(size(3, 20)):
        X, weight, mixture = oracles.random_problem(seed, n=60, d=6, K=2, diagonal=diagonal)
        complete_rows = oracles.draw_rows(np.random.default_rng(seed), 60, *mixture)[0]
        X = np.where(np.isnan(X[np.arange(60) % 3]), np.nan, complete_rows)  # three patterns
        wanted = oracles.em_step(X, *mixture, sample_weight=weight, covariance_type=kind)
        found = one_step(name, X, weight, mixture, kind)
        assert_below(errors(found, wanted, mixture[2]), BAR, f"problem {seed}")


@pytest.mark.parametrize("name", [*DENSE, "diagonal"])
def test_hundreds_of_patterns_change_nothing(name):
    diagonal = SOLVERS[name].SUMS_DIAGONAL
    kind = "diag" if diagonal else "full"
    for seed, missing in enumerate((0.15, 0.5, 0.9)):
        X, weight, mixture = oracles.random_problem(
            seed, n=400, d=12, K=2, missing=missing, diagonal=diagonal
        )
        wanted = oracles.em_step(X, *mixture, sample_weight=weight, covariance_type=kind)
        found = one_step(name, X, weight, mixture, kind)
        assert_below(errors(found, wanted, mixture[2]), BAR, f"problem {seed}")


@pytest.mark.parametrize("name", [*DENSE, "diagonal"])
def test_the_path_to_convergence_is_the_textbook_path(name):
    solver = SOLVERS[name]
    kind = "diag" if solver.SUMS_DIAGONAL else "full"
    for seed in range(size(4, 50)):
        n_steps = 40
        X, _, mixture = oracles.random_problem(
            seed, n=40, d=3, K=2, missing=0.3, diagonal=solver.SUMS_DIAGONAL, empty=False
        )
        reg_covar, variances = 1e-2, np.ones(3)
        regularizer = Regularizer(reg_covar * len(X) / 2 * variances)
        settings = Settings(regularizer, tol=0.0, max_iter=n_steps)
        start = as_parameters(mixture, kind)
        rows = arrange(name, X, np.ones(len(X)), 2)
        fit = run(solver, rows, start, settings, Serial())
        trace = []
        for _ in range(n_steps):
            total, _, mixture = oracles.em_step(
                X, *mixture, covariance_type=kind, reg_covar=reg_covar, variances=variances
            )
            trace.append(total / len(X))
        found = [record.log_likelihood for record in fit.history]
        assert relative(found, trace) <= BAR, f"problem {seed}"
        assert relative(fit.parameters.weights, mixture[0]) <= 1e-9
        assert relative(fit.parameters.means, mixture[1]) <= 1e-9
        assert relative(as_matrices(fit.parameters), mixture[2]) <= 1e-9


@pytest.mark.parametrize("name", [*DENSE, "diagonal"])
def test_filled_rows_and_variances_agree_with_the_textbook(name):
    for seed in range(size(40, 400)):
        X, _, mixture = oracles.random_problem(seed, diagonal=SOLVERS[name].SUMS_DIAGONAL)
        _, filled, variance, _ = complete(name, X, mixture)
        for k, (mean, sigma) in enumerate(zip(mixture[1], mixture[2], strict=True)):
            wanted = [oracles.condition(x, mean, sigma) for x in X]
            assert relative(filled[k], [each for each, _ in wanted]) <= BAR
            spread = np.array([np.diag(each) for _, each in wanted])
            assert np.abs(variance[k] - spread).max() <= BAR * np.diag(sigma).max()


def test_variances_of_large_index_sets_agree_with_the_textbook():
    rng = np.random.default_rng(0)
    d, n = 30, BLAS_ROWS  # of each pattern: enough for LAPACK, on both sides
    X = rng.standard_normal((2 * n, d))
    X[:n, : BLAS_SIZE + 1] = X[n:, BLAS_SIZE + 1 :] = np.nan
    sigma = oracles.random_covariance(rng, d)
    _, _, variance, _ = complete("dual", X, (np.ones(1), np.zeros((1, d)), sigma[None]))
    for row in (0, n):
        spread = np.diag(oracles.condition(X[row], np.zeros(d), sigma)[1])
        assert np.abs(variance[0, row] - spread).max() <= BAR * np.diag(sigma).max()


@cache
def exact_step(seed):
    X, _, mixture = oracles.random_problem(seed, n=8, d=1 + seed % 6, K=1 + seed % 3)
    return X, mixture, oracles.mp_em_step(X, *mixture)


@pytest.mark.parametrize("name", DENSE)
def test_one_step_agrees_with_sixty_digits(name):
    for seed in range(size(20, 200)):
        X, mixture, wanted = exact_step(seed)
        found = one_step(name, X, np.ones(len(X)), mixture)
        assert_below(errors(found, wanted, mixture[2]), BAR, f"problem {seed}")


# ------------------------------------------------------------------ family C: ill-conditioned

CONDITIONS = [1e2, 1e4, 1e6, 3e7, 1e8, 1e10, 1e12]
SIZES = [2, 8, 32, 64][: size(3, 4)]
# relative error of the log-likelihood
DENSITY_BAR = {1e2: 1e-13, 1e4: 1e-12, 1e6: 1e-10, 3e7: 1e-10, 1e8: 1e-10, 1e10: 1e-9, 1e12: 1e-8}
# a plain Cholesky factor of the given doubles allows no more than this
TEXTBOOK_BAR = {**DENSITY_BAR, 1e8: 1e-9, 1e10: 5e-7, 1e12: 5e-6}
MEAN_BAR = 1e-8  # of conditional means, in standard deviations of their column, at any condition


@cache
def hard_problem(d, cond, spectrum, number):
    """Rows from an ill-conditioned Gaussian, both sides of every solver, and the exact answers."""
    rng = np.random.default_rng([d, int(np.log10(cond)), number])
    sigma = oracles.hard_covariance(rng, d, cond, spectrum)
    mean = rng.standard_normal(d)
    n = 24 if d < 32 else 12
    X = mean + rng.standard_normal((n, d)) @ np.linalg.cholesky(sigma).T
    for i, row in enumerate(X):
        share = (0.0, 0.2, 0.4, 0.8)[i % 4]
        row[rng.permutation(d)[: min(d - 1, int(np.ceil(share * d)))]] = np.nan
    exact = [oracles.mp_row(x, mean, sigma) for x in X]
    log_density = np.array([float(each[0]) for each in exact])
    filled = np.array([[float(v) for v in each[1]] for each in exact])
    variance = np.array([[float(each[2][j][j]) for j in range(d)] for each in exact])
    return X, (np.ones(1), mean[None], sigma[None]), log_density, filled, variance


def hard_errors(found, problem):
    """Return the relative error of the log-likelihood, and of means in standard deviations."""
    _, mixture, log_density, filled, _ = problem
    spread = np.sqrt(np.diag(mixture[2][0]))
    return (
        abs(found[0].sum() - log_density.sum()) / np.abs(log_density).sum(),
        np.abs((found[1] - filled) / spread).max(),
    )


def n_matrices(d):
    return size(3 if d < 32 else 1, 20 if d < 64 else 5)


@pytest.mark.parametrize("cond", CONDITIONS)
@pytest.mark.parametrize("d", SIZES)
def test_densities_and_fillings_survive_bad_conditioning(d, cond):
    for name in STABLE:
        for spectrum in ("one", "log"):
            for number in range(n_matrices(d)):
                problem = hard_problem(d, cond, spectrum, number)
                log_density, filled, variance, notes = complete(name, problem[0], problem[1])
                density_error, mean_error = hard_errors((log_density[:, 0], filled[0]), problem)
                bar = TEXTBOOK_BAR if name.startswith("naive") else DENSITY_BAR
                assert density_error <= bar[cond], (name, spectrum, number)
                assert mean_error <= MEAN_BAR, (name, spectrum, number)
                assert np.abs(variance[0] - problem[4]).max() <= MEAN_BAR
                if name == "dual" and cond >= 1e8 and spectrum == "one" and d > 2:
                    assert "square-root form" in notes[0]


@pytest.mark.parametrize("cond", [1e2, 1e8, 1e12])
@pytest.mark.parametrize("d", SIZES)
def test_the_estimator_survives_bad_conditioning(d, cond):
    for number in range(n_matrices(d)):
        problem = hard_problem(d, cond, "one", number)
        X, (weights, means, sigmas), *_ = problem
        rows = means[0] + np.random.default_rng(number).standard_normal((50, d))
        model = GaussianMixture(1, max_iter=1, tol=0).fit(rows)
        model.weights_, model.means_, model.covariances_ = weights, means, sigmas
        density_error, mean_error = hard_errors((model.score_samples(X), model.impute(X)), problem)
        assert density_error <= DENSITY_BAR[cond]
        assert mean_error <= MEAN_BAR


def test_both_sides_of_the_square_root_form_are_used_and_noted():
    X, mixture, *_ = hard_problem(8, 1e10, "one", 0)
    rows = arrange("dual", X, np.ones(len(X)), 1)
    sides = {group.missing_side for block in rows.blocks for group in block.groups}
    assert sides == {True, False}
    notes = complete("dual", X, mixture)[3]
    assert len(notes) == 1
    assert notes[0].startswith("component 0: square-root form (condition ")
    assert complete("dual", *hard_problem(8, 1e2, "one", 0)[:2])[3] == ()


@pytest.mark.parametrize("name", STABLE)
@pytest.mark.parametrize("cond", [1e6, 1e8, 1e10])
def test_one_covariance_update_survives_bad_conditioning(name, cond):
    for number in range(size(2, 10)):
        rng = np.random.default_rng(number)
        sigma = oracles.hard_covariance(rng, 6, cond, "one")
        X = rng.standard_normal((30, 6)) @ np.linalg.cholesky(sigma).T
        X[rng.random(X.shape) < 0.4] = np.nan
        mixture = (np.ones(1), np.zeros((1, 6)), sigma[None])
        wanted = oracles.mp_em_step(X, *mixture)
        found = one_step(name, X, np.ones(30), mixture)
        assert_below(errors(found, wanted, mixture[2]), MEAN_BAR, f"matrix {number}")


def test_the_square_root_note_reaches_the_history():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    X[:, 2] = X[:, 0] + X[:, 1] + 1e-5 * rng.standard_normal(100)
    X[rng.random(X.shape) < 0.3] = np.nan
    model = GaussianMixture(1, reg_covar=0, max_iter=50, tol=0, solver="dual").fit(X)
    assert any("square-root form" in event for it in model.history_ for event in it.events)
