"""Families B and H: EM climbs, agrees with scikit-learn without gaps, and never ends in NaN."""

import warnings

import numpy as np
import oracles
import pytest
from conftest import size
from oracles import relative
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as ScikitMixture
from threadpoolctl import threadpool_limits

from gapmix import GaussianMixture
from gapmix.plan import planner as plan
from gapmix.plan.forests import TreeOptions

TYPES = ["full", "tied", "diag", "spherical"]
SOLVERS = ["auto", *plan.SOLVERS]


def table(seed, n=80, d=4, K=3, missing=0.25):
    rng = np.random.default_rng(seed)
    X = oracles.draw_rows(rng, n, *oracles.random_parameters(rng, d, K))[0]
    X = oracles.punch(rng, X, missing)
    X[: d + 1] = rng.standard_normal((d + 1, d))
    return X


def fit(X, n_components, *, sample_weight=None, X_val=None, **options):
    """Fit without minding whether it converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianMixture(n_components, **options)
        return model.fit(X, sample_weight=sample_weight, X_val=X_val)


def fit_or_fail(X, n_components, **options):
    """Return the fit and None, or None and what the error says."""
    try:
        return fit(X, n_components, **options), None
    except ValueError as error:
        return None, str(error)


def given_start(mixture, covariance_type):
    """Return the starting options that both libraries understand."""
    weights, means, sigmas = mixture
    precisions = {
        "full": np.linalg.inv(sigmas),
        "tied": np.linalg.inv(sigmas[0]),
        "diag": 1 / np.einsum("kii->ki", sigmas),
        "spherical": 1 / np.einsum("kii->k", sigmas),
    }[covariance_type]
    return {"weights_init": weights, "means_init": means, "precisions_init": precisions}


def as_matrices(model):
    covariances = model.covariances_
    K, d = model.means_.shape
    return {
        "full": lambda: covariances,
        "tied": lambda: np.repeat(covariances[None], K, axis=0),
        "diag": lambda: covariances[:, :, None] * np.eye(d),
        "spherical": lambda: covariances[:, None, None] * np.eye(d),
    }[model.covariance_type]()


def same_bits(a, b):
    names = ("weights_", "means_", "covariances_", "precisions_cholesky_", "lower_bounds_")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def is_finite(model):
    names = ("weights_", "means_", "covariances_", "precisions_", "lower_bounds_")
    return all(np.isfinite(getattr(model, name)).all() for name in names)


def repairs(model):
    return [event for it in model.history_ for event in it.events if event.startswith("repair")]


def is_rejected(record):
    """Tell whether a pass was spent on a proposal that proved lower."""
    return any(event.startswith("rejected") for event in record.events)


# ------------------------------------------------------------------ the objective never falls

VARIANTS = [
    {},
    {"shrinkage": 3.0},
    {"shrinkage": "auto"},
    {"mean_shrinkage": 4.0},
    {"shrinkage": "auto", "mean_shrinkage": "auto"},
    {"weights": "equal"},
    {"reg_covar": 1e-2},
    {"reg_covar": 0.0},
    {"init_params": "random"},
    {"init_params": "random_from_data", "init_covariance": "filled"},
    {"keep_components": 2, "fill": "mean"},
    {"keep_components": 0.5, "fill": "mean", "reg_covar": 1e-2},
    {"keep_components": 2, "keep_components_of": "covariance"},
]


def falls(model):
    """Return the largest fall of the objective in bars, repairs apart."""
    objective = np.array([it.objective for it in model.history_])
    repaired = [any(event.startswith("repair") for event in it.events) for it in model.history_]
    fall = -np.diff(objective) / np.maximum(1.0, np.abs(objective[1:]))
    return float(np.max(fall[~np.array(repaired, dtype=bool)[:-1]], initial=0.0))


WITH_VARIANT = [
    (covariance_type, variant)
    for variant, options in enumerate(VARIANTS)
    for covariance_type in (TYPES if "keep_components" not in options else ("full", "tied"))
]


@pytest.mark.parametrize(("covariance_type", "variant"), WITH_VARIANT)
def test_log_likelihood_never_decreases(covariance_type, variant):
    options = VARIANTS[variant]
    for number in range(size(2, 13)):
        seed = 100 * variant + number
        rng = np.random.default_rng(seed)
        X = table(seed, d=int(rng.integers(2, 7)), missing=rng.uniform(0, 0.6))
        weight = rng.uniform(0.2, 3.0, len(X)) if number % 2 else None
        model, error = fit_or_fail(
            X,
            int(rng.integers(1, 5)),
            covariance_type=covariance_type,
            sample_weight=weight,
            max_iter=size(60, 200),
            tol=0,
            random_state=number,
            **options,
        )
        if model is None:
            assert options.get("reg_covar") == 0.0, "only without a ridge may a component collapse"
            assert error.startswith("Component ")
            continue
        assert falls(model) <= 1e-9, f"seed {seed}"
        assert is_finite(model)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_stored_parameters_are_at_least_as_good_as_the_last_record(covariance_type):
    X = table(0)
    model = fit(X, 2, covariance_type=covariance_type, reg_covar=0, random_state=0, max_iter=10)
    assert model.score(X) >= model.lower_bound_ - 1e-9
    assert model.lower_bound_ == model.history_[-1].objective == model.lower_bounds_[-1]
    assert model.history_[-1].log_likelihood == pytest.approx(model.lower_bound_, abs=1e-12)


def test_the_objective_is_the_likelihood_less_a_penalty():
    for options in ({"reg_covar": 1e-2}, {"shrinkage": 5.0}, {"mean_shrinkage": 5.0}):
        model = fit(table(1), 3, random_state=0, **options)
        assert all(it.objective <= it.log_likelihood for it in model.history_)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("reg_covar", [0.0, 1e-6, 1e-1])
def test_one_step_of_the_estimator_is_the_textbook_step_with_ridge(covariance_type, reg_covar):
    for seed in range(size(10, 100)):
        X, weight, mixture = oracles.random_problem(seed, n=20, d=4, K=2, empty=False)
        if covariance_type != "full":
            mixture = (*mixture[:2], np.repeat(mixture[2][:1], 2, axis=0))
        if covariance_type in ("diag", "spherical"):
            mixture = (*mixture[:2], mixture[2] * np.eye(4))
        if covariance_type == "spherical":
            mixture = (*mixture[:2], 1.7 * np.array([np.eye(4)] * 2))
        start = given_start(mixture, covariance_type)
        if covariance_type == "spherical":
            start["precisions_init"] = np.full(2, 1 / 1.7)
        options = {"covariance_type": covariance_type, "reg_covar": reg_covar, **start}
        wanted = oracles.em_step(
            X, *mixture, sample_weight=weight, covariance_type=covariance_type, reg_covar=reg_covar
        )
        model = fit(X, 2, sample_weight=weight, max_iter=1, tol=0, **options)
        if repairs(model):
            continue
        found = model.history_[0].log_likelihood * weight.sum()
        assert found == pytest.approx(wanted[0], rel=1e-10)
        assert relative(model.weights_, wanted[2][0]) < 1e-10
        assert relative(model.means_, wanted[2][1]) < 1e-10
        assert relative(as_matrices(model), wanted[2][2]) < 1e-9


# ------------------------------------------------------------------ complete data: scikit-learn


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("seed", range(size(3, 20)))
def test_without_gaps_and_ridge_everything_equals_scikit_learn(covariance_type, seed):
    X = table(seed, n=150, missing=0.0)
    rows = np.random.default_rng(seed).choice(len(X), 3, replace=False)
    mixture = (np.full(3, 1 / 3), X[rows], np.repeat(np.cov(X.T)[None], 3, axis=0))
    options = {
        "covariance_type": covariance_type,
        "reg_covar": 0.0,
        "tol": 1e-5,
        "max_iter": 300,
        **given_start(mixture, covariance_type),
    }
    ours, theirs = fit(X, 3, accelerate=None, **options), ScikitMixture(3, **options)
    assert repairs(ours) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert relative(getattr(ours, name), getattr(theirs, name)) < 1e-8, name
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.converged_ == theirs.converged_
    for name in ("lower_bound_", "aic", "bic", "score"):
        found, wanted = getattr(ours, name), getattr(theirs, name)
        if callable(found):
            found, wanted = found(X), wanted(X)
        assert found == pytest.approx(wanted, rel=1e-8), name
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    assert np.array_equal(ours.predict(X), theirs.predict(X))


# ------------------------------------------------------------------ degenerate components


@pytest.mark.parametrize("covariance_type", TYPES)
def test_an_emptied_component_is_repaired_and_the_repair_recorded(covariance_type):
    X = table(3)
    sigmas = np.array([np.eye(4)] * 2)
    start = given_start((np.full(2, 0.5), np.array([[0.0] * 4, [1e4] * 4]), sigmas), "full")
    start["precisions_init"] = {
        "full": sigmas,
        "tied": np.eye(4),
        "diag": np.ones((2, 4)),
        "spherical": np.ones(2),
    }[covariance_type]
    model = fit(X, 2, covariance_type=covariance_type, **start)
    assert is_finite(model)
    assert "component 1" in repairs(model)[0]
    assert (model.weights_ > 0).all()
    assert falls(model) <= 1e-9


@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_component_a_prior_leaves_empty_stays_so_and_the_fit_converges(covariance_type):
    # A target of three values and as many clear groups: eight components are too many.
    rng = np.random.default_rng(0)
    group = np.repeat([0.0, 1.0, 2.0], 40)
    X = np.column_stack([rng.standard_normal((120, 2)) + 6 * group[:, None], group])
    options = {"covariance_type": covariance_type, "shrinkage": "auto", "mean_shrinkage": "auto"}
    for seed in range(3):
        model = GaussianMixture(8, random_state=seed, **options).fit(X)  # a warning is an error
        assert repairs(model) == []
        assert falls(model) <= 1e-9
        assert is_finite(model)


def test_a_shared_covariance_is_divided_by_the_rows_there_are():
    X = np.random.default_rng(0).standard_normal((30, 2)) * [1.0, 5.0]
    model = fit(
        X,
        2,
        covariance_type="tied",
        shrinkage=1.0,  # so that the component without rows is left alone
        reg_covar=0.0,
        weights_init=[1.0, 0.0],
        means_init=[[0.0, 0.0], [1e9, 1e9]],
        precisions_init=np.eye(2),
    )
    assert model.weights_.tolist() == [1.0, 0.0]
    np.testing.assert_allclose(model.covariances_, np.cov(X.T, bias=True), rtol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_collapse_is_repaired_or_named_and_never_nan(covariance_type, solver):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((30, 2)), np.full((5, 2), 9.5)])
    X[:4, 0] = np.nan
    options = {"covariance_type": covariance_type, "reg_covar": 0.0, "solver": solver}
    for seed in range(size(5, 50)):
        model, error = fit_or_fail(X, 3, random_state=seed, max_iter=200, **options)
        if model is None:
            assert error.startswith("Component ")
            assert "Increase reg_covar" in error
        else:
            assert is_finite(model)
            assert np.isfinite(model.score_samples(X)).all()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_no_variance_is_left_that_is_rounding_error(covariance_type):
    for seed in range(size(10, 100)):
        rng = np.random.default_rng(seed)
        repeated = np.repeat(5 * rng.standard_normal((4, 2)), 3, axis=0)
        X = oracles.punch(rng, np.vstack([rng.standard_normal((20, 2)), repeated]), 0.1)
        options = {"covariance_type": covariance_type, "reg_covar": 0.0, "random_state": seed}
        model, _ = fit_or_fail(X, 4, max_iter=300, **options)
        if model is not None:
            variances = np.einsum("kii->ki", as_matrices(model))
            assert (variances / np.nanvar(X, axis=0)).min() > 1e-28, f"seed {seed}"


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_default_ridge_survives_ties_and_constant_columns(covariance_type, solver):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((30, 3)), np.full((5, 3), 9.5)])
    X[:, 2] = 4.0
    X[::4, 0] = np.nan
    model = fit(X, 3, covariance_type=covariance_type, solver=solver, random_state=0)
    assert is_finite(model)
    assert falls(model) <= 1e-9


# ------------------------------------------------------------------ stopping


def test_validation_stops_with_patience_and_keeps_the_best():
    X, other = table(4, n=60, d=6), table(4, n=120, d=6)[60:]
    model = fit(X, 6, X_val=other, patience=4, random_state=0, max_iter=500, tol=0)
    validation = [it.validation for it in model.history_]
    best = int(np.argmax(validation))
    assert model.converged_
    assert "has not risen for 4 iterations" in model.stop_reason_
    assert f"iteration {best + 1} " in model.stop_reason_
    after = model.history_[best + 1 :]
    assert sum(not is_rejected(it) for it in after) == 4
    assert not is_rejected(after[-1])
    seen = ~np.isnan(other).all(axis=1)
    assert model.score(other[seen]) == pytest.approx(max(validation), rel=1e-10)


def test_validation_fraction_sets_rows_aside_and_keeps_the_best():
    X = table(5, n=100, d=6)
    model = fit(X, 6, validation_fraction=0.3, patience=2, random_state=0, max_iter=300, tol=0)
    validation = [it.validation for it in model.history_]
    assert None not in validation
    after = model.history_[int(np.argmax(validation)) + 1 :]
    assert sum(not is_rejected(it) for it in after) == 2
    again = fit(X, 6, validation_fraction=0.3, patience=2, random_state=0, max_iter=300, tol=0)
    assert same_bits(model, again)


@pytest.mark.parametrize("solver", SOLVERS)
def test_validation_has_the_same_likelihood_under_every_solver(solver):
    X, other = table(5, n=60), table(5, n=100)[60:]
    options = {"random_state": 0, "max_iter": 5, "tol": 0, "patience": 9}
    wanted = fit(X, 2, X_val=other, solver="naive-row", **options)
    found = fit(X, 2, X_val=other, solver=solver, **options)
    np.testing.assert_allclose(
        [it.validation for it in found.history_],
        [it.validation for it in wanted.history_],
        rtol=1e-10,
    )


def test_validation_rows_without_any_value_are_refused_by_name():
    with pytest.raises(ValueError, match="X_val"):
        GaussianMixture(2).fit(table(5), X_val=np.full((3, 4), np.nan))


def test_validation_that_always_rises_keeps_the_last_parameters():
    X = table(6, missing=0.0)
    model = fit(X, 1, X_val=X, reg_covar=0, random_state=0)
    assert model.score(X) >= max(it.validation for it in model.history_) - 1e-12


def test_max_iter_stops_and_warns():
    model = GaussianMixture(3, max_iter=2, tol=1e-12, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 iterations were reached"):
        model.fit(table(7))
    assert model.n_iter_ == len(model.history_) == 2
    assert not model.converged_
    assert model.stop_reason_ == "max_iter=2 iterations were reached"


def test_tol_stops_plain_steps_at_the_first_small_gain():
    model = fit(table(7), 3, tol=1e-2, max_iter=500, random_state=0, accelerate=None)
    gains = np.diff(model.lower_bounds_)
    assert model.converged_
    assert gains[-1] < 1e-2
    assert (gains[:-1] >= 1e-2).all()
    assert "below tol=0.01" in model.stop_reason_


def test_a_smaller_tol_takes_longer_and_ends_higher():
    loose = fit(table(8), 3, tol=1e-2, max_iter=2000, random_state=0)
    tight = fit(table(8), 3, tol=1e-7, max_iter=2000, random_state=0)
    assert tight.n_iter_ > loose.n_iter_
    assert tight.lower_bound_ > loose.lower_bound_


def test_the_best_start_is_kept():
    X = table(9)
    options = {"init_params": "random_from_data", "random_state": 3, "max_iter": 300}
    many = fit(X, 4, n_init=8, **options)
    assert many.lower_bound_ >= fit(X, 4, n_init=1, **options).lower_bound_
    more = fit(X, 4, n_init=16, **options)
    assert more.lower_bound_ >= many.lower_bound_


def test_warm_start_continues_where_it_stopped():
    X = table(10)
    options = {"tol": 0, "random_state": 0, "accelerate": None}  # which remembers earlier steps
    once = fit(X, 3, max_iter=20, **options)
    twice = GaussianMixture(3, max_iter=10, warm_start=True, **options).fit(X).fit(X)
    assert relative(twice.means_, once.means_) < 1e-10
    np.testing.assert_allclose(twice.lower_bounds_, once.lower_bounds_[10:], rtol=1e-12)


@pytest.mark.parametrize("prior", [{"shrinkage": 2.0}, {"mean_shrinkage": 3.0}])
def test_warm_start_continues_with_shrinkage_too(prior):
    X = table(10)
    model = GaussianMixture(3, max_iter=30, warm_start=True, tol=0, random_state=0, **prior)
    before = model.fit(X).lower_bound_
    assert model.fit(X).lower_bounds_[0] >= before - 1e-9


def test_a_component_of_one_odd_row_fills_its_gap_from_the_rest_of_the_table():
    """Nothing observed says where its mean lies in the missing column, so the prior must."""
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=400)
    X[0] = [40.0, np.nan]
    options = {"means_init": [[0, 0], [40, -70]], "weights_init": [0.99, 0.01]}
    options |= {"precisions_init": [np.eye(2)] * 2, "max_iter": 500, "tol": 1e-9}
    free = fit(X, 2, shrinkage=5.0, **options).impute(X)[0, 1]
    pulled = fit(X, 2, shrinkage=5.0, mean_shrinkage=5.0, **options).impute(X)[0, 1]
    assert free < -10
    assert 0 < pulled < 40  # between the mean of the others and their regression carried on


def test_equal_weights_stay_equal():
    assert fit(table(11), 4, weights="equal", random_state=0).weights_.tolist() == [0.25] * 4


# ------------------------------------------------------------------ seeds and threads


@pytest.mark.parametrize("covariance_type", TYPES)
def test_every_seed_ends_finite(covariance_type):
    X = table(12, missing=0.5)
    for seed in range(size(4, 100)):
        for init_params in ("kmeans", "k-means++", "random", "random_from_data"):
            options = {"covariance_type": covariance_type, "init_params": init_params}
            model = fit(X, 4, random_state=seed, max_iter=30, **options)
            assert is_finite(model), (seed, init_params)
            assert falls(model) <= 1e-9, (seed, init_params)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_same_seed_gives_the_same_bits_and_another_does_not(covariance_type):
    X = table(13, n=300)
    options = {"covariance_type": covariance_type, "n_init": 2, "init_params": "random"}
    first = fit(X, 3, random_state=5, **options)
    assert same_bits(first, fit(X, 3, random_state=5, **options))
    assert not same_bits(first, fit(X, 3, random_state=6, **options))


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_number_of_threads_changes_no_bit(covariance_type):
    X = table(14, n=9000, d=5)  # several blocks, so that queues really run side by side
    options = {"covariance_type": covariance_type, "random_state": 0, "max_iter": 4, "tol": 0}
    one, *others = (fit(X, 3, n_jobs=n_jobs, **options) for n_jobs in (1, 2, 4))
    for other in others:
        assert same_bits(one, other)
        assert np.array_equal(one.score_samples(X), other.score_samples(X))
        assert np.array_equal(one.impute(X), other.impute(X))


def test_the_number_of_threads_that_blas_has_changes_no_bit():
    X = table(16, n=9000, d=40)
    fits = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            fits.append(fit(X, 3, random_state=0, max_iter=2, tol=0))
    assert same_bits(*fits)
    assert all(
        np.array_equal(a, b) for a, b in zip(fits[0]._scaling, fits[1]._scaling, strict=True)
    )


def test_solvers_give_the_same_fit():
    X = table(15)
    fits = [fit(X, 3, solver=s, random_state=0, max_iter=30, tol=0) for s in SOLVERS]
    for other in fits[1:]:
        assert relative(other.means_, fits[0].means_) < 1e-9
        np.testing.assert_allclose(other.lower_bounds_, fits[0].lower_bounds_, rtol=1e-10)


def test_bad_tree_options_are_named():
    X = np.random.default_rng(0).standard_normal((20, 3))
    for options, message in (
        (TreeOptions("dual"), "only 'paper' and 'tree' walk along trees"),
        (TreeOptions(cost="foo"), r"TreeOptions\(cost='foo'\) is not known"),
        (TreeOptions(recompute_every=0), "'recompute_every': 0"),
        (TreeOptions(max_cluster=0), "'max_cluster': 0"),
    ):
        with pytest.raises(ValueError, match=message):
            GaussianMixture(solver=options).fit(X)
