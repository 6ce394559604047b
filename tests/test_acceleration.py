"""Accelerated EM: fewer passes, the same optimum, and the objective never falls."""

import warnings

import numpy as np
import oracles
import pytest
from conftest import size
from sklearn.exceptions import ConvergenceWarning

from gapmix import GaussianMixture
from gapmix.em import accelerate, stopping
from gapmix.parameters import Parameters

TYPES = ["full", "tied", "diag", "spherical"]
METHODS = ["auto", "squarem", "anderson"]
REGULARISERS = [
    {},
    {"reg_covar": 1e-2},
    {"shrinkage": 3.0},
    {"weights": "equal"},
    {"keep_components": 2},
]


def table(seed, n=150, d=4, K=3, missing=0.4):
    rng = np.random.default_rng(seed)
    X = oracles.draw_rows(rng, n, *oracles.random_parameters(rng, d, K))[0]
    X = oracles.punch(rng, X, missing)
    X[: d + 1] = rng.standard_normal((d + 1, d))
    return X


def chain(n=400, d=6, missing=0.6, correlation=0.95):
    """One Gaussian with much missing, on which EM creeps."""
    rng = np.random.default_rng(0)
    sigma = correlation ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    X = rng.normal(size=(n, d)) @ np.linalg.cholesky(sigma).T
    X[rng.random(X.shape) < missing] = np.nan
    return X[~np.isnan(X).all(axis=1)]


def fit(X, n_components, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(n_components, **options).fit(X)


def events(model, kind):
    return [e for record in model.history_ for e in record.events if e.startswith(kind)]


def mixture(seed, covariance_type, K=3, d=4):
    rng = np.random.default_rng(seed)
    sigmas = np.array([oracles.random_parameters(rng, d, 1)[2][0] for _ in range(K)])
    covariances = {
        "full": sigmas,
        "tied": sigmas[:1],
        "diag": np.einsum("kii->ki", sigmas),
        "spherical": np.repeat(np.einsum("kii->k", sigmas)[:, None] / d, d, axis=1),
    }[covariance_type]
    return Parameters(
        rng.dirichlet(np.ones(K)), rng.normal(size=(K, d)), covariances, covariance_type
    )


# ------------------------------------------------------------------ the chart


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("equal_weights", [False, True])
def test_a_mixture_survives_the_trip_to_a_vector_and_back(covariance_type, equal_weights):
    for seed in range(10):
        centre, other = (mixture(seed + i, covariance_type) for i in (0, 100))
        if equal_weights:
            other = other._replace(weights=np.full(3, 1 / 3))
        chart = accelerate.draw_chart(centre, equal_weights=equal_weights)
        back = accelerate.to_parameters(accelerate.to_vector(other, chart), chart)
        for found, wanted in zip(back[:3], other[:3], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_every_vector_is_a_mixture(covariance_type):
    chart = accelerate.draw_chart(mixture(0, covariance_type), equal_weights=False)
    vector = accelerate.to_vector(mixture(1, covariance_type), chart)
    made = accelerate.to_parameters(3 * np.random.default_rng(0).normal(size=vector.size), chart)
    assert made.weights.sum() == pytest.approx(1.0)
    if made.covariances.ndim == 3:
        assert (np.linalg.eigvalsh(made.covariances) > 0).all()
    else:
        assert (made.covariances > 0).all()


def test_lengths_in_the_chart_are_twice_the_divergence_of_complete_rows():
    centre = mixture(0, "full", K=1)
    chart = accelerate.draw_chart(centre, equal_weights=False)
    base = accelerate.to_vector(centre, chart)
    rng = np.random.default_rng(1)
    for _ in range(5):
        step = 1e-4 * rng.normal(size=base.size)
        step[0] = 0.0  # the weight of a single component is 1
        near = accelerate.to_parameters(base + step, chart)
        sigma, moved = centre.covariances[0], near.covariances[0]
        shift = near.means[0] - centre.means[0]
        relative = np.linalg.solve(moved, sigma)
        divergence = 0.5 * (
            np.trace(relative)
            - 4
            - np.linalg.slogdet(relative)[1]
            + shift @ np.linalg.solve(moved, shift)
        )
        assert 2 * divergence == pytest.approx(step @ step, rel=1e-2)


# ------------------------------------------------------------------ it climbs, and ends no lower


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_objective_never_falls(method, covariance_type):
    for number, options in enumerate(REGULARISERS):
        if "keep_components" in options and covariance_type not in ("full", "tied"):
            continue
        for seed in range(size(1, 10)):
            X = table(10 * number + seed, n=100)
            settings = {"tol": 0, "max_iter": 30, "random_state": seed, **options}
            model = fit(X, 3, covariance_type=covariance_type, accelerate=method, **settings)
            if not events(model, "repair"):
                assert np.diff(model.lower_bounds_).min() >= -1e-12


@pytest.mark.parametrize("method", METHODS)
def test_one_gaussian_has_one_optimum_and_it_is_found_in_fewer_passes(method):
    X = chain()
    plain = fit(X, 1, accelerate=None, tol=1e-13, max_iter=5000)
    fast = fit(X, 1, accelerate=method, tol=0, max_iter=150)
    assert fast.lower_bound_ >= plain.lower_bound_ - 1e-8 * abs(plain.lower_bound_)
    target = plain.lower_bound_ - 1e-6
    passes = [int(np.argmax(np.array(m.lower_bounds_) >= target)) + 1 for m in (fast, plain)]
    assert 2 * passes[0] < passes[1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_optimum_is_a_fixed_point_of_plain_em(method, covariance_type):
    X = table(3, n=200, K=2)
    options = {"covariance_type": covariance_type, "reg_covar": 1e-3, "random_state": 0}
    model = fit(X, 2, accelerate=method, tol=1e-13, max_iter=400, **options)
    start = {
        "weights_init": model.weights_,
        "means_init": model.means_,
        "precisions_init": model.precisions_,
    }
    stepped = fit(X, 2, accelerate=None, tol=0, max_iter=1, **options, **start)
    np.testing.assert_allclose(stepped.means_, model.means_, atol=1e-5)
    np.testing.assert_allclose(stepped.covariances_, model.covariances_, atol=1e-5)


# ------------------------------------------------------------------ fallback


def test_a_rejected_pass_repeats_the_values_before_it():
    model = fit(chain(), 1, tol=0, max_iter=200)  # at the limit, rounding makes proposals fail
    rejected = [i for i, r in enumerate(model.history_) if any("rejected" in e for e in r.events)]
    assert rejected
    for i in rejected:
        assert model.history_[i].objective == model.history_[i - 1].objective
        assert model.history_[i].log_likelihood == model.history_[i - 1].log_likelihood


def test_a_misled_accelerator_is_overruled(monkeypatch):
    # The safeguard must hold whatever is proposed: here, steps that are far too long.
    monkeypatch.setattr(accelerate, "_newton_step", lambda residual, steps, changes: 3.9 * residual)
    model = fit(table(5), 3, tol=0, max_iter=80, random_state=0)
    assert np.diff(model.lower_bounds_).min() >= -1e-12
    assert events(model, "rejected")


def test_a_point_that_cannot_be_drawn_makes_the_accelerator_forget():
    centre = mixture(0, "full")
    state = accelerate.observe(
        accelerate.State("quasi-newton"), centre, mixture(1, "full"), equal_weights=False
    )
    assert state.chart is not None
    flat = centre._replace(covariances=np.zeros_like(centre.covariances))
    state = accelerate.observe(state, centre, flat, equal_weights=False)
    assert state.chart is None
    assert accelerate.propose(state)[1] is None


@pytest.mark.parametrize("options", [{"diagonal_loading": 0.1}, {"keep_components": 2}])
def test_where_proposals_would_leave_what_is_allowed_steps_are_plain(options):
    found, wanted = (
        fit(table(6), 2, accelerate=m, tol=0, max_iter=20, random_state=0, **options)
        for m in ("auto", None)
    )
    assert found.lower_bounds_ == wanted.lower_bounds_


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_threads_changes_no_bit(method):
    X = table(7, n=9000, d=5)
    one, two = (
        fit(X, 3, accelerate=method, n_jobs=n, tol=0, max_iter=12, random_state=0) for n in (1, 2)
    )
    assert one.lower_bounds_ == two.lower_bounds_
    assert np.array_equal(one.covariances_, two.covariances_)


def test_proposals_are_short_while_gains_may_still_choose_between_optima():
    centre = mixture(0, "full")
    chart = accelerate.draw_chart(centre, equal_weights=False)
    origin = accelerate.to_vector(centre, chart)
    rng = np.random.default_rng(0)
    residual, step = rng.normal(size=(2, origin.size)) * 1e-3
    state = accelerate.State(
        "quasi-newton", chart, origin, residual, steps=(step,), changes=(0.01 * step,)
    )
    lengths = []
    for longest in (1.5, 2.0, np.inf):
        after, proposal = accelerate.propose(state, longest)
        assert proposal is not None
        lengths.append(np.linalg.norm(after.ahead - origin) / np.linalg.norm(residual))
        assert after.was_cut == (longest == np.inf)  # only `reach` learns from being the limit
    np.testing.assert_allclose(lengths, [1.5, 2.0, accelerate.FIRST_REACH])


@pytest.mark.parametrize(
    ("gain", "several", "one"),
    [
        (0.1, 1.0, 1.0),
        (5e-3, 1.0, np.inf),
        (5e-4, stopping.BRISK_REACH, np.inf),
        (5e-5, np.inf, np.inf),
    ],
)
def test_proposals_grow_as_gains_shrink(gain, several, one):
    assert stopping.longest_step([0.0, gain], 3) == several
    assert stopping.longest_step([0.0, gain], 1) == one
    assert stopping.longest_step([0.0], 3) == 1.0


# ------------------------------------------------------------------ stopping


def test_what_is_left_of_geometric_gains_is_exact():
    objectives = [-(0.9**i) for i in range(stopping.N_LOOKED_AT)]
    assert stopping.to_limit(objectives) == pytest.approx(-objectives[-1])
    assert stopping.to_limit(objectives[:2]) == np.inf
    assert stopping.to_limit([-1.0, -1.0, -1.0]) == 0.0


def test_gains_below_a_fall_are_rounding_error():
    wavering = [-1e7, -1e7 + 1e-3, -1e7 + 5e-4, -1e7 + 1.2e-3, -1e7 + 6e-4]
    assert stopping.rounding_error(wavering) == pytest.approx(6e-4, rel=1e-2)
    assert stopping.to_limit(wavering) == 0.0
    assert stopping.rounding_error([-2.0, -1.0]) == stopping.NOISE * np.spacing(1.0)


def test_slow_creep_is_not_called_convergence():
    X = chain(missing=0.75)
    best = fit(X, 1, tol=0, max_iter=600).lower_bound_
    left = {m: best - fit(X, 1, accelerate=m, tol=1e-4, max_iter=600).lower_bound_ for m in
            ("auto", None)}  # fmt: skip
    assert left[None] > 1e-3  # plain steps with the rule of the last gain stop far away
    assert left["auto"] < 3e-4


def test_a_component_that_fades_does_not_keep_a_fit_going():
    """Its promised gain never comes: such fits used to end at max_iter for a quarter of seeds."""
    X = 3 * np.random.RandomState(0).uniform(size=(20, 3))
    options = {"covariance_type": "diag", "shrinkage": "auto", "mean_shrinkage": "auto"}
    for seed in range(15):
        assert GaussianMixture(2, random_state=seed, **options).fit(X).converged_, seed
