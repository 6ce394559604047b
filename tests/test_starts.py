"""Better starts: several tries on a sample, and moves that raise the objective for certain."""

import warnings

import numpy as np
import oracles
import pytest
from benchmarks.starts import draw_mixture
from sklearn.exceptions import ConvergenceWarning

from gapmix import GaussianMixture
from gapmix.em.records import Settings
from gapmix.em.run import run
from gapmix.parameters import Parameters
from gapmix.plan.rows import lay_out_rows, prepare_rows
from gapmix.solvers import SOLVERS
from gapmix.starts import regroup
from gapmix.structures.regularizer import Regularizer
from gapmix.threads import open_engine

TYPES = ["full", "tied", "diag", "spherical"]


def make_table(x, weight):
    return regroup.Table(x, weight, np.empty((len(x), 0), dtype=np.int32))


def fit(X, n_components, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(n_components, **{"init_params": "auto", **options}).fit(X)


def clusters(seed=0, n=600, missing=0.2, centers=((0, 0), (12, 0), (0, 12), (3, 3))):
    """Return rows of well separated clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(centers), n)
    X = np.array(centers, dtype=float)[labels] + rng.normal(size=(n, 2))
    X = oracles.punch(rng, X, missing)
    return X[~np.isnan(X).all(axis=1)]


def settings(ridge=1e-3, *, equal=False):
    return Settings(Regularizer(np.full(2, ridge)), equal_weights=equal)


def badly_placed(covariance_type):
    """Two components on one cluster, one on two far apart, one on the fourth."""
    means = np.array([[-0.3, 0.0], [0.3, 0.0], [6.0, 6.0], [3.0, 3.0]])
    sigmas = np.array([np.eye(2), np.eye(2), [[37.0, -36.0], [-36.0, 37.0]], np.eye(2)])
    if covariance_type != "full":
        sigmas = np.einsum("kii->ki", sigmas)
    return Parameters(np.full(4, 0.25), means, sigmas, covariance_type)


def objective_of(table, parameters, asked, engine):
    solver = SOLVERS["dual" if parameters.covariances.ndim == 3 else "diagonal"]
    rows = prepare_rows(table.x, table.weight, len(parameters.weights))
    once = asked._replace(max_iter=1)
    return run(solver, rows, parameters, once, engine, keep_start=True).history[0].objective


# ------------------------------------------------------------------ moves


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
@pytest.mark.parametrize("equal", [False, True])
def test_a_move_raises_the_objective_by_at_least_what_it_promises(covariance_type, equal):
    X = clusters()
    table = make_table(X, np.random.default_rng(1).uniform(0.5, 2.0, len(X)))
    before, asked = badly_placed(covariance_type), settings(equal=equal)
    solver = SOLVERS["dual" if covariance_type == "full" else "diagonal"]
    with open_engine(1) as engine:
        moved = regroup.regroup(solver, table, before, asked, engine)
        gain = objective_of(table, moved.parameters, asked, engine) - objective_of(
            table, before, asked, engine
        )
    assert moved.moves == ("merged components 0 and 1, split component 2",)
    assert moved.gain > 0.1
    assert gain >= moved.gain
    assert moved.parameters.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_every_move_tried_is_a_lower_bound_even_where_components_overlap(seed):
    rng = np.random.default_rng(seed)
    X = oracles.punch(rng, rng.normal(size=(300, 2)) * [1.0, 2.0], 0.3)
    table = make_table(X[~np.isnan(X).all(axis=1)], np.ones(int((~np.isnan(X).all(1)).sum())))
    before = Parameters(
        rng.dirichlet(np.ones(4)), rng.normal(size=(4, 2)), np.tile(np.eye(2), (4, 1, 1)), "full"
    )
    asked, solver = settings(), SOLVERS["dual"]
    with open_engine(1) as engine:
        rows = lay_out_rows(table.x, 4)
        prepared = regroup.ReadyDensity(solver, solver.prepare(before), before)
        resp = regroup.score(prepared, rows, engine).resp
        local = regroup.Local(solver, table, asked, engine)
        was = objective_of(table, before, asked, engine)
        for k, pair in ((0, (1, 2)), (3, (0, 1)), (2, (0, 3))):
            split, _ = regroup._try_split(local, before, resp, k)
            merge, _ = regroup._try_merge(local, before, resp, pair)
            if split is None or merge is None:
                continue
            after = regroup._replace(before, split, merge, equal=False)
            promised = (split.gain + merge.gain) / len(table.x)
            assert objective_of(table, after, asked, engine) - was >= promised - 1e-12


def test_components_that_sit_well_are_left_alone():
    X = clusters()
    means = np.array([[0, 0], [12, 0], [0, 12], [3, 3]], dtype=float)
    before = Parameters(np.full(4, 0.25), means, np.tile(np.eye(2), (4, 1, 1)), "full")
    with open_engine(1) as engine:
        moved = regroup.regroup(
            SOLVERS["dual"], make_table(X, np.ones(len(X))), before, settings(), engine
        )
    assert moved.moves == ()
    assert moved.parameters is before


def test_a_move_never_makes_a_component_of_a_few_rows():
    X = np.concatenate([clusters(), [[30.0, 30.0]] * 3])
    table = make_table(X, np.ones(len(X)))
    with open_engine(1) as engine:
        moved = regroup.regroup(
            SOLVERS["dual"], table, badly_placed("full"), settings(), engine
        ).parameters
    assert moved.weights.min() * len(X) >= regroup.LEAST_ROWS * 2


# ------------------------------------------------------------------ starts


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("weights", ["learned", "equal"])
def test_a_fit_from_a_better_start_climbs(covariance_type, weights):
    X = clusters(missing=0.4)
    model = fit(X, 4, covariance_type=covariance_type, weights=weights, random_state=0, tol=1e-5)
    assert np.diff(model.lower_bounds_).min() >= -1e-12
    assert model.history_[0].events[0].startswith("start: the best of 4")
    assert model.converged_


def test_better_starts_find_what_k_means_misses():
    X = draw_mixture(3, 2000, 5, 8, spread=3.0, condition=30, share=0.2, ratio=0.6)
    X = X[~np.isnan(X).all(axis=1)]
    ends = {
        start: min(fit(X, 8, init_params=start, random_state=s).lower_bound_ for s in range(4))
        for start in ("kmeans", "auto")
    }
    assert ends["auto"] > ends["kmeans"] + 0.01


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads():
    X = clusters(n=3000)
    one, two, four = (fit(X, 5, random_state=3, n_jobs=n) for n in (1, 2, 4))
    assert one.lower_bounds_ == two.lower_bounds_ == four.lower_bounds_
    assert np.array_equal(one.covariances_, four.covariances_)
    assert one.history_[0].events == four.history_[0].events


@pytest.mark.parametrize("n", [2, 3, 5, 12])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_tiny_tables_give_finite_fits(n, covariance_type):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    X[0, 1] = np.nan
    for K in range(2, min(n, 5) + 1):
        model = fit(X, K, covariance_type=covariance_type, random_state=0)
        assert np.isfinite(model.lower_bounds_).all()
        assert np.isfinite(model.means_).all()


def test_more_components_than_rows_are_refused_as_with_any_start():
    with pytest.raises(ValueError, match="Expected n_samples >= n_components"):
        fit(np.eye(3), 4)


@pytest.mark.parametrize(
    "options",
    [
        {"shrinkage": "auto", "mean_shrinkage": "auto"},
        {"diagonal_loading": 0.1},
        {"keep_components": 1},
        {"n_init": 2},
        {"solver": "tree"},
        {"accelerate": None},
    ],
)
def test_better_starts_go_with_every_option(options):
    model = fit(clusters(), 4, random_state=0, **options)
    assert np.isfinite(model.lower_bounds_).all()
    assert any(event.startswith("start:") for event in model.history_[0].events)


def test_sample_weights_count():
    X = clusters()
    weight = np.random.default_rng(0).uniform(0, 2, len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianMixture(4, init_params="auto", random_state=0).fit(X, sample_weight=weight)
    assert np.diff(model.lower_bounds_).min() >= -1e-12


def test_nothing_is_searched_where_a_start_is_given_or_rows_to_stop_on_are():
    X = clusters()
    for options in (
        {"means_init": np.arange(8.0).reshape(4, 2)},
        {"validation_fraction": 0.2},
    ):
        found, wanted = (
            fit(X, 4, random_state=0, init_params=start, **options) for start in ("auto", "kmeans")
        )
        assert found.lower_bounds_ == wanted.lower_bounds_
    model = fit(X, 4, random_state=0, warm_start=True, tol=1e-6, max_iter=5)
    before = model.lower_bound_
    assert not any("start:" in event for event in fit_again(model, X).history_[0].events)
    assert model.lower_bound_ >= before


def fit_again(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


def test_a_fit_that_goes_on_does_not_search_again(tmp_path):
    X = clusters(missing=0.5)
    options = {"random_state": 0, "tol": 1e-9}
    whole = fit(X, 4, max_iter=60, **options)
    path = tmp_path / "fit.gapmix"
    fit(X, 4, max_iter=5, checkpoint=path, **options)
    resumed = fit(X, 4, max_iter=60, checkpoint=path, **options)
    assert resumed.lower_bounds_ == whole.lower_bounds_
    assert resumed.history_[0].events == whole.history_[0].events


def test_a_table_in_pieces_starts_from_its_sample(tmp_path):
    X = clusters(n=2000)
    np.save(tmp_path / "table.npy", X)
    model = fit(tmp_path / "table.npy", 4, random_state=0)
    assert np.diff(model.lower_bounds_).min() >= -1e-12
    assert any(event.startswith("start:") for event in model.history_[0].events)
