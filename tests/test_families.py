"""Every full-covariance solver on every family of gaps, and what their parts promise."""

import subprocess
import sys
from functools import cache

import mpmath
import numpy as np
import oracles
import pytest
from benchmarks.problems import (
    FAMILIES,
    half_images,
    make_problem,
    mcar,
    merged_tables,
    sensor_bursts,
    squares,
)
from conftest import FULL, size
from oracles import relative
from scipy.special import logsumexp, softmax

from gapmix import GaussianMixture
from gapmix.em.records import Settings
from gapmix.em.steps import e_step, m_step
from gapmix.kernels import completing, factors, lanes, sharing, single, twins
from gapmix.kernels.records import Components, Places, Solved, Sums
from gapmix.parameters import Parameters
from gapmix.plan import rows as rows_module
from gapmix.plan.forests import TreeOptions
from gapmix.plan.layout import LANES
from gapmix.plan.patterns import find_patterns
from gapmix.plan.planner import SOLVERS as NAMES
from gapmix.plan.planner import make_plan
from gapmix.plan.rows import prepare_rows
from gapmix.solvers import SOLVERS, dual
from gapmix.solvers.moving import MovingFactor
from gapmix.structures.regularizer import Regularizer

BAR = 1e-8
SMALLER = {
    "squares": squares(9, 3),
    "half images": half_images(9),
    "bursts": sensor_bursts(60),
    "large tables": merged_tables(120, noise=0.003),
}
VARIANTS = {
    "paper, virtual": TreeOptions("paper", virtual_patterns=True),
    "paper, again every 3": TreeOptions("paper", recompute_every=3),
    "paper, in seconds": TreeOptions("paper", cost="seconds"),
    "paper, in clusters": TreeOptions("paper", max_cluster=10),
    "tree, hamming": TreeOptions("tree"),
    "tree, virtual": TreeOptions("tree", virtual_patterns=True),
    "tree, again every 3": TreeOptions("tree", recompute_every=3),
    "tree, own cost": TreeOptions("tree", cost=lambda common, added, removed: added + 2 * removed),
    "tree, free": TreeOptions("tree", cost=lambda common, added, removed: 0.0 * common),
    "tree, in clusters": TreeOptions("tree", cost="seconds", max_cluster=10),
}


class Serial:
    """An engine without threads."""

    def map(self, function, items):
        return [function(item) for item in items]


# ------------------------------------------------------------------ families


@cache
def problem(family):
    observe = FAMILIES[family] if FULL else SMALLER.get(family, FAMILIES[family])
    rng = np.random.default_rng(1)
    observed = observe(rng, 2)
    n = size(60, 200 if observed.shape[1] < 200 else 80)
    return make_problem(family, observe(rng, n), 2).x


def fit(X, solver, **options):
    defaults = {"max_iter": 20, "tol": 0, "reg_covar": 1e-3, "random_state": 0, "n_jobs": 1}
    return GaussianMixture(2, solver=solver, **(defaults | options)).fit(X)


@cache
def by_naive(family):
    return fit(problem(family), "naive")


def assert_same_fit(found, wanted, bar):
    assert len(found.history_) == len(wanted.history_)
    for record, expected in zip(found.history_, wanted.history_, strict=True):
        assert record.log_likelihood == pytest.approx(expected.log_likelihood, rel=bar)
    assert relative(found.weights_, wanted.weights_) <= bar
    assert relative(found.means_, wanted.means_) <= bar
    assert relative(found.covariances_, wanted.covariances_) <= bar


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", [name for name in NAMES if name != "naive"])
def test_twenty_iterations_equal_those_of_naive(solver, family):
    found = fit(problem(family), solver)
    assert found.plan_.solver == solver
    assert found.n_iter_ == 20
    assert_same_fit(found, by_naive(family), BAR)


@pytest.mark.parametrize("family", ["mcar50", "noisy tables"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_trees_of_any_making_give_the_same_numbers(variant, family):
    assert_same_fit(fit(problem(family), VARIANTS[variant]), by_naive(family), BAR)


def test_variants_are_not_all_the_same_plan():
    patterns = find_patterns(~np.isnan(problem("mcar50")))
    plans = [make_plan(patterns, 2, solver=variant) for variant in VARIANTS.values()]
    lines = {plan.explain().splitlines()[3] for plan in plans}
    assert len(lines) >= 8


@pytest.mark.parametrize("solver", ["dual", "tree", "paper", TreeOptions("tree")])
def test_the_number_of_threads_changes_no_bit(solver, monkeypatch):
    monkeypatch.setattr(rows_module, "MAX_BLOCK_ROWS", 64)  # several blocks
    X = make_problem("mcar", mcar(10, 0.4)(np.random.default_rng(0), 450), 2).x
    one, two, four = (fit(X, solver, n_jobs=n_jobs, max_iter=5) for n_jobs in (1, 2, 4))
    if one.plan_.forest:
        assert len(one.plan_.forest) >= 4
    for other in (two, four):
        for name in ("weights_", "means_", "covariances_"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert other.lower_bounds_ == one.lower_bounds_


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import mpmath
import numpy as np
from gapmix import GaussianMixture
from gapmix.kernels import compiled
assert not compiled.HAS_NUMBA
X = np.load(sys.argv[1])
result = {}
for solver in ("dual", "tree", "paper"):
    model = GaussianMixture(
        2, solver=solver, max_iter=20, tol=0, reg_covar=1e-3, random_state=0, n_jobs=1
    ).fit(X)
    result[solver] = model.covariances_
    result[solver + " trace"] = model.lower_bounds_
    result[solver + " filled"] = model.impute(X)
np.savez(sys.argv[2], **result)
"""


def test_without_numba_the_fit_is_the_same(tmp_path):
    X = problem("noisy tables")[:, ::2]
    np.save(tmp_path / "table.npy", X)
    paths = [str(tmp_path / name) for name in ("table.npy", "result.npz")]
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA, *paths], check=True)
    with np.load(paths[1]) as result:
        for solver in ("dual", "tree", "paper"):
            wanted = fit(X, solver)
            assert relative(result[solver], wanted.covariances_) <= 1e-10
            assert relative(result[f"{solver} trace"], wanted.lower_bounds_) <= 1e-10
            assert relative(result[f"{solver} filled"], wanted.impute(X)) <= 1e-10


# ------------------------------------------------------------------ bad conditioning


def one_step(X, mixture, solver):
    """Return statistics, updated parameters and notes of one step without regularisation."""
    patterns = find_patterns(~np.isnan(X))
    plan = make_plan(patterns, len(mixture[0]), solver=solver)
    rows = prepare_rows(X, np.ones(len(X)), len(mixture[0]), patterns=patterns, forest=plan.forest)
    module, parameters = SOLVERS[plan.solver], Parameters(*mixture, "full")
    prepared = module.prepare(parameters)
    statistics = e_step(module, prepared, parameters, rows, Serial())
    moments = module.moments(prepared, statistics)
    settings = Settings(Regularizer(np.zeros(X.shape[1])))
    return statistics, m_step(moments, parameters, settings), module.notes(prepared, statistics)


@cache
def hard_step(seed):
    """Rows of condition 1e8, one small eigenvalue; between few and many gaps; the exact step."""
    rng = np.random.default_rng(seed)
    n, d = 40, 12
    sigma = oracles.hard_covariance(rng, d, 1e8, "one")
    X = rng.standard_normal((n, d)) @ np.linalg.cholesky(sigma).T
    X[rng.random(X.shape) < np.linspace(0.1, 0.9, n)[:, None]] = np.nan
    mixture = (np.ones(1), np.zeros((1, d)), sigma[None])
    return X, mixture, oracles.mp_em_step(X, *mixture)


def error_of(solver, seed):
    X, mixture, exact = hard_step(seed)
    return relative(one_step(X, mixture, solver)[1].covariances, exact[2][2])


@pytest.mark.parametrize("solver", ["tree", TreeOptions("tree"), VARIANTS["tree, virtual"]])
def test_a_moving_factor_is_as_accurate_as_one_made_afresh(solver, monkeypatch):
    monkeypatch.setattr(dual, "ROOT_CONDITION", np.inf)  # no retreat to the square-root form
    for seed in range(size(4, 20)):
        assert error_of(solver, seed) <= 10 * error_of("dual", seed)


def test_moving_is_what_that_test_was_about():
    X = hard_step(0)[0]
    plan = make_plan(find_patterns(~np.isnan(X)), 1, solver=TreeOptions("tree"))
    parents = np.concatenate([route.tree.parent for route in plan.forest[0].routes])
    assert (parents >= 0).sum() >= len(parents) - 2


def test_without_the_monkeypatch_tree_takes_the_square_root_form_and_says_so():
    X, mixture, _ = hard_step(0)
    notes = one_step(X, mixture, "tree")[2]
    assert "component 0: square-root form" in notes[0]
    assert error_of("tree", 0) <= 1e-11


def test_paper_notices_its_loss_and_computes_afresh():
    for seed in range(size(4, 20)):
        X, mixture, _ = hard_step(seed)
        statistics, _, notes = one_step(X, mixture, "paper")
        n = int(statistics.recomputed)
        assert n > 0
        assert notes == (f"{n} matrices lost their digits and were computed afresh",)
        assert error_of("paper", seed) <= BAR


def test_paper_has_nothing_to_note_when_conditioning_is_good():
    X = problem("mcar30")
    events = [event for record in fit(X, "paper", max_iter=5).history_ for event in record.events]
    assert events == []


def test_the_loss_of_paper_reaches_the_history_and_the_fit_is_still_right():
    X, (weights, means, sigmas), _ = hard_step(0)
    start = {"weights_init": weights, "means_init": means, "precisions_init": np.linalg.inv(sigmas)}
    found, wanted = (
        GaussianMixture(1, solver=solver, reg_covar=0, max_iter=3, tol=0, **start).fit(X)
        for solver in ("paper", "naive")
    )
    assert "lost their digits and were computed afresh" in found.history_[0].events[0]
    assert_same_fit(found, wanted, 1e-6)


# ------------------------------------------------------------------ the factor that moves


def assert_factors(factor, matrix):
    """The factor is the Cholesky factor of the part of the matrix that its variables name."""
    o, k = factor.variables, factor.variables.size
    part = matrix[np.ix_(o, o)]
    lower = np.linalg.cholesky(part)
    columns = np.eye(k)
    factor.solve(columns, transposed=True)  # U^-T = L^-1, here as rows
    assert relative(columns, np.linalg.inv(lower).T) <= 1e-10
    assert factor.log_det() == pytest.approx(np.linalg.slogdet(part)[1], abs=1e-10)
    assert relative(factor.inverse(), np.linalg.inv(part)) <= 1e-10


@pytest.mark.parametrize("seed", range(size(10, 100)))
def test_a_factor_stays_one_whatever_is_appended_and_deleted(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 2, 9, 30]))
    matrix = oracles.random_covariance(rng, d)
    factor = MovingFactor(d)
    inside = rng.random(d) < 0.5
    factor.start(matrix, np.flatnonzero(inside))
    for _ in range(30):
        change = rng.permutation(d)[: int(rng.integers(1, 4))]
        leaving, entering = change[inside[change]], change[~inside[change]]
        factor.delete(leaving)
        if entering.size:
            assert factor.append(matrix, entering)
        inside[change] ^= True
        assert sorted(factor.variables) == np.flatnonzero(inside).tolist()
        assert_factors(factor, matrix)
        some = rng.permutation(factor.variables.size)[:2]
        wanted = np.linalg.inv(matrix[np.ix_(factor.variables, factor.variables)])[some]
        assert relative(factor.inverse_columns(some), wanted) <= 1e-10
        assert factor.positions(factor.variables[some]).tolist() == some.tolist()


def test_a_copy_of_a_factor_goes_its_own_way():
    matrix = oracles.random_covariance(np.random.default_rng(0), 6)
    first, second = MovingFactor(6), MovingFactor(6)
    first.start(matrix, np.array([4, 1, 2]))
    second.copy_from(first)
    second.delete(np.array([1]))
    assert second.append(matrix, np.array([0, 5]))
    assert first.variables.tolist() == [4, 1, 2]
    assert_factors(first, matrix)
    assert_factors(second, matrix)


def test_a_variable_that_repeats_another_is_refused_and_the_factor_kept():
    root = np.random.default_rng(0).standard_normal((5, 4))
    matrix = root @ root.T  # of rank 4
    factor = MovingFactor(5)
    factor.start(matrix, np.arange(4))
    assert not factor.append(matrix, np.array([4]))
    assert factor.variables.tolist() == [0, 1, 2, 3]
    assert_factors(factor, matrix)


@pytest.mark.parametrize("k", [1, 2, 7, 8, 9, 60])
def test_both_ways_to_delete_columns_agree(k):
    rng = np.random.default_rng(k)
    upper = np.zeros((k + 3, k + 3))  # a part of a wider array
    upper[:k, :k] = np.linalg.cholesky(oracles.random_covariance(rng, k)).T
    for positions in ({0}, {k // 2}, {k - 1}, {0, k // 3, k // 2, k - 1}, set(range(0, k, 2))):
        gone = np.array(sorted(positions))
        left = k - gone.size
        moved, twin = upper.copy(), upper.copy()
        factors.delete_columns(moved, k, gone)
        factors.delete_columns_twin(twin, k, gone)
        wanted = np.delete(upper[:k, :k].T @ upper[:k, :k], gone, axis=0)
        wanted = np.delete(wanted, gone, axis=1)
        for result in (moved, twin):
            part = np.triu(result[:left, :left])
            assert relative(part.T @ part, wanted) <= 1e-12
        assert relative(np.triu(moved[:left, :left]), twin[:left, :left]) <= 1e-11


# ------------------------------------------------------------------ kernels and their twins

SIZES = (0, 1, 7, 8, 9, 60)


@cache
def block_of_all_sizes(seed):
    """Return a block with sets of every size on both sides, prec, sigma and centred rows."""
    rng = np.random.default_rng(seed)
    d = 130
    rows = []
    for k in SIZES:
        for number in range(1 if k == 0 else int(rng.choice([1, 8, 11]))):
            chosen = np.isin(np.arange(d), rng.permutation(d)[:k])
            for shown in (chosen, ~chosen):
                rows += [shown] * int(rng.integers(1, 4) if number else 3)
    observed = np.array(rows)
    X = np.where(observed, rng.standard_normal(observed.shape), np.nan)
    (block,) = prepare_rows(X, np.ones(len(X)), 1).blocks
    sigma = oracles.random_covariance(rng, d)
    z = np.empty_like(block.x)
    twins.center(block.x, block.observed, block.start, np.zeros(d), z)
    return block, np.linalg.inv(sigma), sigma, z


def places_of(block, find_places=twins.find_places):
    """Return where the rows of a block find their index sets and solutions."""
    of_row = np.full((len(block.x), 4), -1)
    find_places(block.batches, of_row)
    return Places(block.batches.variables, of_row, block.n_missing_side)


def components_of(sigma, prec=None, mean=None, log_det=0.0):
    """Return three components as kernels read them: this one, another, and this one again."""
    prec = np.linalg.inv(sigma) if prec is None else prec
    mean = np.zeros(len(sigma)) if mean is None else mean
    parts = (mean, sigma, np.tril(sigma), prec, np.float64(log_det))
    return Components(*(np.stack([part, 1.5 * part + 0.1, part]) for part in parts))


CHOSEN = np.array([2, 0])  # not all, and not in order


def empty_solved(block):
    """Return room for what solving a block leaves, under two components."""
    batches = block.batches
    packed = np.ones((2, batches.n_packed, LANES))
    return Solved(np.zeros((2, batches.n_solution)), packed, np.zeros((2, len(block.observed))))


def empty_sums(d, fill=0.0):
    """Return room for the sums of three components."""
    shapes = ((3,), (3, d), (3, d, d), (3, d), (3, d, d))
    return Sums(*(np.full(shape, fill) for shape in shapes))


def solved_by(kernels, seed):
    """Return solutions, packed factors and log determinants of a block."""
    block, prec, sigma, z = block_of_all_sizes(seed)
    solved = empty_solved(block)
    for solution in solved.solution:
        twins.gather(places_of(block), z @ prec, z, solution)
    answer = kernels.solve_block(block.batches, components_of(sigma, prec), CHOSEN, solved)
    assert answer == (-1, -1)
    return solved


def test_the_block_has_every_size_on_both_sides():
    block = block_of_all_sizes(0)[0]
    found = set(zip(block.batches.side.tolist(), block.batches.size.tolist(), strict=True))
    assert found == {(side, k) for side in (0, 1) for k in SIZES}
    assert block.batches.n_small == len(block.batches.size)


@pytest.mark.parametrize("seed", range(size(3, 20)))
def test_centring_gathering_measuring_and_filling_agree_with_their_twins(seed):
    block, prec, _, z = block_of_all_sizes(seed)
    places = places_of(block)
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal(z.shape[1])
    solution = rng.standard_normal(block.batches.n_solution)
    found, wanted = [], []
    for kernels, results in ((single, found), (twins, wanted)):
        centred, gathered, products = np.empty_like(z), solution.copy(), solution.copy()
        distance, filled = np.zeros(len(z)), z.copy()
        kernels.center(block.x, block.observed, block.start, mean, centred)
        kernels.gather(places, z @ prec, z, gathered)
        kernels.gather_products(places, prec, z, products)
        kernels.measure(places, z, solution, distance)
        kernels.fill(places, solution, filled)
        results += [centred, gathered, products, distance, filled]
    for one, other in zip(found, wanted, strict=True):
        assert relative(one, other) <= 1e-12


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200])
@pytest.mark.parametrize("n_components", [1, 2, 34])
def test_shares_of_rows_agree_with_their_twins_and_with_scipy(n, n_components):
    rng = np.random.default_rng([n, n_components])
    log_density = rng.normal(scale=rng.choice([1.0, 300.0], n), size=(n_components, n)) - 1e4
    log_density[:, 1::7] = -np.inf  # too far away from all components
    log_density[0, 2::7] = np.nan
    weights = rng.dirichlet(np.ones(n_components))
    if n_components > 1:
        weights = np.append(0.0, weights[1:] / weights[1:].sum())
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    lost = ~np.isfinite(log_density + log_weights[:, None]).any(axis=0)
    lost |= np.isnan(log_density).any(axis=0)
    with np.errstate(invalid="ignore"):
        wanted = softmax(log_density + log_weights[:, None], axis=0)
        height = logsumexp(log_density + log_weights[:, None], axis=0)
    wanted[:, lost], height[lost] = weights[:, None], -np.inf
    kept = np.where(wanted > 1e-20 * wanted.max(axis=1, initial=0)[:, None], wanted, 0.0)
    for kernels in (sharing, twins):
        resp, log_prob = log_density.copy(), np.empty(n)
        with np.errstate(invalid="ignore"):
            kernels.share_out(resp, weights, log_weights, log_prob)
        np.testing.assert_allclose(resp, wanted, rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(log_prob, height, rtol=1e-14)
        large = np.empty_like(resp)
        if n:
            kernels.drop_negligible(resp, 1e-20, large)
        np.testing.assert_allclose(large, kept, rtol=1e-12, atol=1e-300)


def test_shares_are_right_to_the_last_digits_however_small():
    # Beside a component of density 1, the share of another is its exponential over 1 and more.
    away = -np.concatenate([np.linspace(0.0, 707.9, 20_011), np.arange(1.0, 1022.0) * np.log(2.0)])
    joint = np.vstack([np.zeros_like(away), away])
    log_prob, weights = np.empty(len(away)), np.ones(2)
    sharing.share_out(joint, weights, np.zeros(2), log_prob)
    with mpmath.workdps(40):
        exact = [mpmath.exp(mpmath.mpf(float(each))) for each in away]
        wanted = np.array([float(each / (1 + each)) for each in exact])
    np.testing.assert_allclose(joint[1], wanted, rtol=1e-15)
    np.testing.assert_allclose(joint[0], 1.0 - wanted, rtol=1e-15)
    nothing = np.array([[0.0, 0.0, 0.0], [-750.0, -1e300, -np.inf]])
    sharing.share_out(nothing, weights, np.zeros(2), np.empty(3))
    assert (nothing == [[1.0], [0.0]]).all()


@pytest.mark.parametrize("d", [1, 3, 7, 8, 9, 20, 33, 65])
def test_completing_rows_and_adding_them_up_agree_with_their_twins(d):
    rng = np.random.default_rng(d)
    observed = rng.random((93, d)) < rng.choice([0.2, 0.8], size=(93, 1))
    X = np.where(observed, rng.standard_normal((93, d)), np.nan)
    (block,) = prepare_rows(X, np.ones(len(X)), 1).blocks
    m = block.n_missing_side
    sigma = oracles.random_covariance(rng, d)
    components = components_of(sigma, mean=rng.standard_normal(d), log_det=1.5)
    given = rng.standard_normal((2, block.batches.n_solution))
    log_det = rng.standard_normal((2, len(block.observed)))
    solved = Solved(given, np.empty((2, 0, LANES)), log_det)
    places = places_of(block)
    resp = np.where(rng.random((3, len(X))) < 0.3, 0.0, rng.random((3, len(X))))
    found, wanted = [], []
    for kernels, results in ((completing, found), (twins, wanted)):
        right, rows, log_density = given.copy(), np.empty((2, m, d)), np.zeros((3, len(X)))
        kernels.collect(places, block.x, components, CHOSEN, right)
        kernels.complete(places, block.x, components, CHOSEN, solved, rows, log_density)
        sums = empty_sums(d, fill=1.0)
        kernels.add_rows(rows, CHOSEN, resp, sums)
        results += [right, rows, log_density, sums.resp, sums.first, np.tril(sums.second)]
    for one, other in zip(found, wanted, strict=True):
        assert relative(one, other) <= 1e-12


@pytest.mark.parametrize("seed", range(size(3, 20)))
def test_rows_find_the_same_sets_and_solutions_by_kernel_and_twin(seed):
    block = block_of_all_sizes(seed)[0]
    found, wanted = places_of(block, lanes.find_places), places_of(block)
    np.testing.assert_array_equal(found.of_row, wanted.of_row)
    solution_start, sizes = found.of_row[:, 2], found.of_row[:, 0]
    order = np.lexsort((sizes, solution_start))  # an empty set takes no room
    ends = np.append(solution_start[order][1:], block.batches.n_solution)
    np.testing.assert_array_equal(solution_start[order] + sizes[order], ends)
    for row, (k, v, _, p) in enumerate(found.of_row):
        shown = block.observed[p]
        members = np.flatnonzero(~shown if row < found.n_missing_side else shown)
        np.testing.assert_array_equal(found.variables[v : v + k], members)


@pytest.mark.parametrize("seed", range(size(3, 20)))
def test_factors_and_solutions_agree_with_their_twins(seed):
    found, wanted = solved_by(lanes, seed), solved_by(twins, seed)
    # in the packed factors, lanes without a pattern are the kernel's own business
    assert relative(found.solution, wanted.solution) <= 1e-10
    assert relative(found.log_det, wanted.log_det) <= 1e-10


@pytest.mark.parametrize("seed", range(size(3, 20)))
def test_sums_of_inverses_agree_and_either_kernel_can_follow_the_other(seed):
    block = block_of_all_sizes(seed)[0]
    d = block.x.shape[1]
    resp = np.random.default_rng(seed).random((3, len(block.x)))
    resp[resp < 0.3] = 0.0  # some patterns get nothing at all
    results = []
    for first in (lanes, twins):
        solved = solved_by(first, seed)
        for second in (lanes, twins):
            sums = empty_sums(d)
            second.add_block(block.batches, CHOSEN, solved, resp, sums)
            assert not sums.second[1].any()
            results.append((np.tril(sums.second), np.tril(sums.dual_second), sums.dual_first))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            assert relative(two, one) <= 1e-10


@pytest.mark.parametrize("seed", range(size(3, 20)))
def test_conditional_variances_agree_with_their_twins(seed):
    block, prec, sigma, _ = block_of_all_sizes(seed)
    components, solved = components_of(sigma, prec), solved_by(lanes, seed)
    found, wanted = (np.zeros((3, *block.observed.shape)) for _ in range(2))
    for kernels, variance in ((lanes, found), (twins, wanted)):
        kernels.find_variances(block.batches, block.observed, components, CHOSEN, solved, variance)
    assert relative(found, wanted) <= 1e-10
    assert not found[:, block.observed].any()
    assert not found[1].any()


def test_blending_what_components_fill_agrees_with_its_twin():
    rng = np.random.default_rng(0)
    resp = np.where(rng.random((9, 4)) < 0.5, 0.0, rng.random((9, 4)))
    given = resp, rng.standard_normal((4, 5)), rng.standard_normal((4, 9, 5))
    found, wanted = np.ones((9, 5)), np.ones((9, 5))
    completing.blend(*given, found)
    twins.blend(*given, wanted)
    assert relative(found, wanted) <= 1e-12
    pattern, mean = np.sort(rng.integers(0, 3, 9)), rng.standard_normal((9, 5))
    given += rng.random((4, 3, 5)), pattern, mean
    for blend_spread, total in ((completing.blend_spread, found), (twins.blend_spread, wanted)):
        blend_spread(*given, total)
    assert relative(found, wanted) <= 1e-12


def test_a_matrix_without_a_factor_is_named_by_kernel_and_twin():
    block, prec, sigma, _ = block_of_all_sizes(0)
    batches = block.batches
    bad = prec.copy()
    culprit = int(batches.variables[batches.variable_start[batches.pattern[-1]]])
    bad[culprit, culprit] = -1.0
    answers = []
    for kernels in (lanes, twins):
        components = components_of(sigma, bad)
        answers.append(kernels.solve_block(batches, components, CHOSEN, empty_solved(block)))
    assert answers[0] == answers[1]
    component, pattern = answers[0]
    assert component == CHOSEN[0]
    assert not block.observed[pattern, culprit]


# ------------------------------------------------------------------ explanations


CHOICES = {
    "dual, small": (lambda: mcar(8, 0.3)(np.random.default_rng(0), 100), "auto", "dual", "small"),
    "dual, far": (
        lambda: mcar(400, 0.5)(np.random.default_rng(0), 200),
        "auto",
        "dual",
        "far from",
    ),
    "tree": (
        lambda: merged_tables(500, noise=0.002)(np.random.default_rng(0), 1500),
        "auto",
        "tree",
        "close to each other",
    ),
    "asked for": (
        lambda: mcar(8, 0.3)(np.random.default_rng(0), 100),
        "paper",
        "paper",
        "asked for",
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_plan_explains_patterns_sides_times_and_choice(name):
    make, solver, chosen, word = CHOICES[name]
    patterns = find_patterns(make())
    plan = make_plan(patterns, 2, solver=solver)
    lines = plan.explain().splitlines()
    assert plan.solver == chosen
    assert any(f"{len(patterns.observed):,} distinct patterns" in line for line in lines)
    assert any("Sides:" in line and "missing" in line and "observed" in line for line in lines)
    times = {line.split()[0]: line for line in lines if line.startswith("  ")}
    assert {"dual", "naive", "naive-row", chosen} <= set(times) == set(plan.seconds)
    for line in times.values():
        value, unit = line.split()[1:3]
        assert float(value) > 0
        assert unit in ("s", "ms", "us")
    assert [used for used, line in times.items() if "<- used" in line] == [chosen]
    assert lines[-1].startswith(f"Solver: {chosen}, because ")
    assert word in lines[-1]
    assert lines[-1].endswith(".")
    if plan.forest:
        trees = next(line for line in lines if line.startswith("Trees:"))
        for what in ("clusters", "from scratch", "changes", "depth", "matrices alive"):
            assert what in trees


def test_auto_takes_what_it_predicts_to_be_fastest():
    for make, solver, chosen, _ in CHOICES.values():
        if solver == "auto":
            plan = make_plan(find_patterns(make()), 2)
            known = [cost for name, cost in plan.seconds.items() if name not in plan.bounds]
            assert plan.seconds[chosen] == min(known)


def test_a_fit_keeps_its_plan():
    x = problem("mcar30")
    text = fit(x, "auto", max_iter=2).plan_.explain()
    assert f"{len(x)} rows x 50 columns" in text
    assert "Solver: dual, because patterns are small" in text
