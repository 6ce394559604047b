"""What the paper says in words: its regularisers, starts, equal weights, updates and trees.

Each is one step of EM, or one update, computed again the long way in the units of the table.
"""

import warnings

import numpy as np
import oracles
import pytest
from oracles import relative
from sklearn.exceptions import ConvergenceWarning

from gapmix import GaussianMixture
from gapmix.plan import TreeOptions
from gapmix.solvers import paper
from gapmix.solvers.moving import MovingFactor

UNITS = np.array([1.0, 1000.0, 0.03, 7.0, 1.0])  # none is a power of two but the first and last
MIX = np.array([[1.0, 0.5, 0.2], [0.0, 1.0, -0.4], [0.0, 0.0, 1.0]])


def make_problem(seed, K=2, missing=0.25):
    """Rows in very different units, and a start for them."""
    rng = np.random.default_rng(seed)
    weights, means, sigmas = oracles.random_parameters(rng, len(UNITS), K)
    X = oracles.punch(rng, oracles.draw_rows(rng, 60, weights, means, sigmas)[0], missing)
    X[np.isnan(X).all(axis=1), 0] = 0.5  # a row that shows nothing would be passed over
    start = (weights, means * UNITS, sigmas * np.outer(UNITS, UNITS))
    return X * UNITS, start


def step_once(X, start, **options):
    """Return the mixture after one pass from a given start, without a ridge."""
    weights, means, sigmas = start
    model = GaussianMixture(len(means), max_iter=1, tol=0, reg_covar=0.0, **options)
    model.set_params(means_init=means, precisions_init=np.linalg.inv(sigmas))
    model.set_params(weights_init=weights)
    return fit(model, X)


def fit(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


def truncate(sigma, n_kept, fill, spread):
    """Sum the outer products of the leading axes, then those of the others times a constant."""
    values, axes = np.linalg.eigh(sigma / np.outer(spread, spread))
    values, axes = values[::-1], axes[:, ::-1]
    rest = values[n_kept:]
    constant = {"mean": rest.mean(), "next": rest.max()}.get(fill, fill)
    result = np.zeros_like(sigma)
    for i, axis in enumerate(axes.T):
        result += (values[i] if i < n_kept else constant) * np.outer(axis, axis)
    return result * np.outer(spread, spread)


@pytest.mark.parametrize("fill", ["mean", "next", 0.3])
@pytest.mark.parametrize("of", ["correlation", "covariance"])
def test_principal_components_kept_are_those_asked_for(of, fill):
    X, start = make_problem(1)
    n, d = X.shape
    spread = np.ones(d)
    if of == "correlation":
        spread = np.sqrt(oracles.column_variances(X, np.ones(n)))
    options = {"keep_components": 3, "keep_components_of": of, "fill": fill}
    model = step_once(X, start, **options)
    allowed = np.array([truncate(sigma, 3, fill, spread) for sigma in start[2]])
    wanted = oracles.em_step(X, start[0], start[1], allowed)[2]
    assert relative(model.means_, wanted[1]) < 1e-9
    for found, free in zip(model.covariances_, wanted[2], strict=True):
        target = truncate(free, 3, fill, spread)
        scale = np.sqrt(np.outer(np.diag(target), np.diag(target)))
        assert relative(found / scale, target / scale) < 1e-8  # units alone: condition 1e9
        # in the units of the components, all but three eigenvalues are one constant
        values = np.linalg.eigvalsh(found / np.outer(spread, spread))
        assert np.ptp(values[: d - 3]) < 1e-9 * values[-1]
        free_values = np.linalg.eigvalsh(free / np.outer(spread, spread))
        assert values[-3:] == pytest.approx(free_values[-3:], rel=1e-8)


def test_the_two_kinds_of_components_differ_where_units_do():
    X, start = make_problem(2)
    found = [
        step_once(X, start, keep_components=2, keep_components_of=of).covariances_
        for of in ("correlation", "covariance")
    ]
    kept = [np.linalg.eigvalsh(each[0])[-2:] for each in found]
    assert abs(kept[0][0] / kept[1][0] - 1) > 0.1


@pytest.mark.parametrize("of", ["correlation", "covariance"])
def test_units_change_only_what_the_papers_components_are(of):
    X, start = make_problem(3)
    plain = (start[0], start[1] / UNITS, start[2] / np.outer(UNITS, UNITS))
    options = {"keep_components": 2, "keep_components_of": of}
    here = step_once(X, start, **options).covariances_
    there = step_once(X / UNITS, plain, **options).covariances_ * np.outer(UNITS, UNITS)
    scale = np.sqrt(np.outer(np.diag(here[0]), np.diag(here[0])))
    assert (relative(there[0] / scale, here[0] / scale) < 1e-9) == (of == "correlation")


@pytest.mark.parametrize("value", [1e-3, 2.5])
def test_the_value_added_to_the_diagonal_is_in_squared_units_of_the_table(value):
    X, start = make_problem(4)
    wanted = oracles.em_step(X, *start)[2]
    model = step_once(X, start, diagonal_loading=value)
    assert relative(model.means_, wanted[1]) < 1e-9
    for found, free in zip(model.covariances_, wanted[2], strict=True):
        assert np.diag(found) - np.diag(free) == pytest.approx(
            np.full(len(UNITS), value), abs=1e-9 * np.diag(free).max()
        )
        off = ~np.eye(len(UNITS), dtype=bool)
        assert found[off] == pytest.approx(free[off], rel=1e-9, abs=1e-9)


def test_both_regularisers_together_truncate_first():
    X, start = make_problem(5)
    model = step_once(X, start, keep_components=2, keep_components_of="covariance", fill="next")
    loaded = step_once(
        X,
        start,
        keep_components=2,
        keep_components_of="covariance",
        fill="next",
        diagonal_loading=0.7,
    )
    added = loaded.covariances_ - model.covariances_
    assert added == pytest.approx(np.array([0.7 * np.eye(len(UNITS))] * 2), abs=1e-6)


def start_from(rows, kind):
    """Return mean and covariance of the rows of a cluster, gaps ignored or put at the mean."""
    d = rows.shape[1]
    mean = np.nanmean(rows, axis=0)
    if kind == "filled":
        z = np.where(np.isnan(rows), mean, rows) - mean
        return mean, z.T @ z / len(rows)
    sigma = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            both = ~np.isnan(rows[:, i]) & ~np.isnan(rows[:, j])
            sigma[i, j] = np.mean((rows[both, i] - mean[i]) * (rows[both, j] - mean[j]))
    assert np.linalg.eigvalsh(sigma).min() > 0  # nothing to repair here
    return mean, sigma


@pytest.mark.parametrize("weights", ["learned", "equal"])
@pytest.mark.parametrize("kind", ["available", "filled"])
@pytest.mark.parametrize("K", [1, 3])
def test_starting_covariances_are_those_of_the_clusters(kind, K, weights):
    rng = np.random.default_rng(6)
    sizes = [60, 40, 25][:K]
    clusters = [
        oracles.punch(rng, 100.0 * k + rng.normal(size=(n, 3)) @ MIX, 0.2)
        for k, n in enumerate(sizes)
    ]
    for rows in clusters:  # k-means must not meet a row that shows nothing
        rows[np.isnan(rows).all(axis=1)] = rows[0]
    X = np.concatenate(clusters)
    starts = [start_from(rows, kind) for rows in clusters]
    shares = np.array(sizes) / sum(sizes) if weights == "learned" else np.full(K, 1 / K)
    found = fit(
        GaussianMixture(
            K,
            weights=weights,
            init_covariance=kind,
            max_iter=1,
            tol=0,
            reg_covar=0.0,
            random_state=0,
        ),
        X,
    )
    value, _, wanted = oracles.em_step(
        X,
        shares,
        np.array([mean for mean, _ in starts]),
        np.array([sigma for _, sigma in starts]),
        equal_weights=weights == "equal",
    )
    order = np.argsort(found.means_[:, 0])
    assert found.history_[0].log_likelihood * len(X) == pytest.approx(value, rel=1e-9)
    assert relative(found.weights_[order], wanted[0]) < 1e-9
    assert relative(found.means_[order], wanted[1]) < 1e-9
    assert relative(found.covariances_[order], wanted[2]) < 1e-8


def test_equal_weights_are_equal_in_every_step():
    X, start = make_problem(7, K=3)
    shares = np.full(3, 1 / 3)
    first = oracles.em_step(X, shares, *start[1:], equal_weights=True)
    second = oracles.em_step(X, *first[2], equal_weights=True)
    model = GaussianMixture(3, weights="equal", max_iter=2, tol=0, reg_covar=0.0, accelerate=None)
    model.set_params(means_init=start[1], precisions_init=np.linalg.inv(start[2]))
    model = fit(model, X)
    found = [record.log_likelihood * len(X) for record in model.history_]
    assert found == pytest.approx([first[0], second[0]], rel=1e-9)
    assert relative(model.means_, second[2][1]) < 1e-8


# ------------------------------------------------------------------------ updates and trees

MOVES = {  # variables that leave and enter a set of seven, numbers 0 to 6 of twelve
    "added": ([], [8, 11]),
    "removed": ([0, 3, 6], []),
    "both": ([6, 1], [7, 9, 10]),
    "all but one": ([1, 2, 3, 4, 5, 6], []),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_factor_and_a_covariance_that_move_are_those_made_afresh(move):
    rng = np.random.default_rng(8)
    root = rng.normal(size=(12, 20))
    matrix = root @ root.T
    start = np.arange(7)
    leaving, entering = (np.array(v, dtype=int) for v in MOVES[move])
    end = np.concatenate([np.setdiff1d(start, leaving), entering])

    moved = MovingFactor(12)
    moved.start(matrix, start)
    moved.delete(leaving)
    assert moved.append(matrix, entering)
    assert moved.variables.tolist() == end.tolist()  # what enters comes last
    z = rng.normal(size=len(end))
    half = z[None].copy()
    moved.solve(half, transposed=True)
    fresh = matrix[np.ix_(end, end)]
    assert (half**2).sum() == pytest.approx(z @ np.linalg.solve(fresh, z), rel=1e-11)
    assert moved.log_det() == pytest.approx(np.linalg.slogdet(fresh)[1], rel=1e-11)

    before = np.linalg.inv(matrix[np.ix_(start, start)])
    variables, covariance = paper._move_covariance(start, before, matrix, entering, leaving)
    assert variables.tolist() == end.tolist()
    assert relative(covariance, np.linalg.inv(fresh)) < 1e-10


OPTIONS = {
    "one tree": TreeOptions(max_cluster=None),
    "small clusters": TreeOptions(max_cluster=4),
    "anew at every second level": TreeOptions(recompute_every=2),
    "virtual patterns": TreeOptions(virtual_patterns=True),
    "a cost of one's own": TreeOptions(cost=lambda common, added, removed: 3 * added + removed),
    "measured seconds": TreeOptions(cost="seconds"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_way_to_make_the_tree_gives_the_textbook_step(option):
    X, start = make_problem(9, missing=0.4)
    wanted = oracles.em_step(X, *start)
    found = step_once(X, start, solver=OPTIONS[option])
    assert found.plan_.solver == "paper"
    assert found.history_[0].log_likelihood * len(X) == pytest.approx(wanted[0], rel=1e-10)
    assert relative(found.means_, wanted[2][1]) < 1e-9
    assert (
        relative(found.covariances_ / np.outer(UNITS, UNITS), wanted[2][2] / np.outer(UNITS, UNITS))
        < 1e-8
    )
