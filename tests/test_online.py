"""Online EM: near the exact fit after many batches, and honest about what it cannot do."""

import numpy as np
import pytest

from gapmix import GaussianMixture


def make_rows(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.7]])
    x += rng.choice([-3.0, 3.0], size=(n, 1), p=[0.3, 0.7])
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_a_stream_comes_near_the_fit_of_all_its_rows(covariance_type):
    batches = [make_rows(300, seed) for seed in range(40)]
    options = {"n_components": 2, "covariance_type": covariance_type, "random_state": 0}
    online = GaussianMixture(**options)
    for batch in batches:
        online.partial_fit(batch)
    exact = GaussianMixture(**options, tol=1e-7).fit(np.concatenate(batches))
    new = make_rows(5000, 99)
    assert online.n_iter_ == 40
    assert online.score(new) > exact.score(new) - 0.01
    first, second = np.argsort(online.means_[:, 0]), np.argsort(exact.means_[:, 0])
    np.testing.assert_allclose(online.means_[first], exact.means_[second], atol=0.1)
    np.testing.assert_allclose(online.weights_[first], exact.weights_[second], atol=0.03)


def test_one_batch_again_and_again_has_the_fixed_point_of_em():
    x = make_rows(500, 0)
    exact = GaussianMixture(2, random_state=0, tol=1e-10, max_iter=2000).fit(x)
    online = GaussianMixture(2, random_state=0)
    for _ in range(150):
        online.partial_fit(x)
    assert online.score(x) == pytest.approx(exact.score(x), abs=1e-4)


def test_solvers_that_factor_matrices_serve_streams_of_variances():
    one, other = (
        GaussianMixture(2, covariance_type="diag", solver=solver, random_state=0)
        for solver in ("auto", "dual")
    )
    for seed in range(3):
        one.partial_fit(make_rows(100, seed))
        other.partial_fit(make_rows(100, seed))
    np.testing.assert_allclose(one.covariances_, other.covariances_, rtol=1e-9)


def test_fit_begins_afresh_and_batches_keep_their_columns():
    model = GaussianMixture(2, random_state=0).partial_fit(make_rows(100, 0))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.zeros((5, 2)))
    assert not hasattr(model.fit(make_rows(100, 1)), "_stream")


@pytest.mark.parametrize("begun", ["fit", "partial_fit"])
def test_a_refused_batch_changes_nothing(begun):
    batches = {
        "columns": np.zeros((1, 7)),
        "infinite": np.full((50, 3), np.inf),
        "far": np.full((50, 3), 1e120),
        "a weight": (make_rows(50, 0), -np.ones(50)),
    }
    model = getattr(GaussianMixture(2, random_state=0), begun)(make_rows(100, 0))
    before, answer = dict(vars(model)), model.impute(make_rows(30, 3))
    for name, batch in batches.items():
        if name == "far" and begun == "fit":
            continue  # a first batch may be anywhere
        batch, weight = batch if isinstance(batch, tuple) else (batch, None)
        with pytest.raises(
            ValueError, match=r"features|far|weight|infinit|n_samples|standard deviations"
        ):
            model.partial_fit(batch, sample_weight=weight)
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is before[name] for name in before)
    np.testing.assert_array_equal(model.impute(make_rows(30, 3)), answer)


def test_what_needs_all_rows_is_refused():
    with pytest.raises(ValueError, match="partial_fit cannot be used with keep_components=1"):
        GaussianMixture(2, keep_components=1).partial_fit(make_rows(50, 0))
