"""What scikit-learn's users rely on: its own checks, its names, its tools."""

from __future__ import annotations

import inspect
import logging
import pickle
import pkgutil

import joblib
import numpy as np
import pandas as pd
import pytest
from every_estimator import NEW
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_clusterer, is_regressor
from sklearn.mixture import GaussianMixture as Reference
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gapmix
from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
)

COVARIANCE_TYPES = ["full", "tied", "diag", "spherical"]
OWN_PARAMETERS = {
    "n_factors",
    "categorical_features",
    "weights",
    "solver",
    "init_covariance",
    "keep_components",
    "keep_components_of",
    "fill",
    "diagonal_loading",
    "shrinkage",
    "mean_shrinkage",
    "validation_fraction",
    "patience",
    "accelerate",
    "engine",
    "n_jobs",
    "checkpoint",
}


def make_rows(n: int = 90, *, gaps: float = 0.15) -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3))
    x += np.repeat([[0.0], [12.0], [-12.0]], n // 3, axis=0)
    x[rng.random(x.shape) < gaps] = np.nan
    return x


@parametrize_with_checks(
    [
        GaussianMixture(),
        GaussianMixture(n_components=2),
        *(GaussianMixture(covariance_type=kind) for kind in COVARIANCE_TYPES[1:]),
        *(GaussianMixture(n_components=2, covariance_type=kind) for kind in COVARIANCE_TYPES[1:]),
        GaussianMixture(solver="naive"),
        GaussianMixture(n_components=2, shrinkage="auto", weights="equal"),
        GaussianMixtureImputer(),
        GaussianMixtureImputer(n_components=2, add_indicator=True, covariance_type="diag"),
        GaussianMixtureImputer(n_components=1, use_target=True),
        GaussianMixtureRegressor(),
        GaussianMixtureRegressor(n_components=2),
        GaussianMixtureClassifier(),
        GaussianMixtureClassifier(n_components=1, calibrate=False, covariance_type="tied"),
        GaussianMixtureClassifier(use_unlabelled=True, class_weight="balanced"),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# ------------------------------------------------------------------ the same names


def test_parameters_have_scikit_learns_names_order_and_defaults():
    ours = inspect.signature(GaussianMixture).parameters
    theirs = inspect.signature(Reference).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default, name
        assert ours[name].kind == parameter.kind, name
    assert set(ours) - set(theirs) == OWN_PARAMETERS


def test_every_public_method_is_there_and_takes_the_same_arguments():
    for name in dir(Reference):
        method = getattr(Reference, name)
        if name.startswith("_") or not callable(method):
            continue
        ours = inspect.signature(getattr(GaussianMixture, name)).parameters
        theirs = inspect.signature(method).parameters
        assert list(ours)[: len(theirs)] == list(theirs), name
        for argument, parameter in theirs.items():
            assert ours[argument].default == parameter.default, (name, argument)
        extra = list(ours.values())[len(theirs) :]
        assert all(argument.default is not inspect.Parameter.empty for argument in extra), name


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_fitted_attributes_have_scikit_learns_names_and_shapes(kind):
    x = make_rows(gaps=0.0)
    frame = pd.DataFrame(x, columns=list("abc"))
    ours = GaussianMixture(3, covariance_type=kind, random_state=0).fit(frame)
    theirs = Reference(3, covariance_type=kind, random_state=0).fit(frame)
    for name, value in vars(theirs).items():
        if name.endswith("_") and not name.startswith("_"):
            found = getattr(ours, name)
            assert isinstance(found, float if isinstance(value, float) else type(value)), name
            if isinstance(value, np.ndarray):
                assert found.shape == value.shape, name


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_every_parameter_and_fitted_attribute_is_documented(kind):
    doc = inspect.getdoc(GaussianMixture)
    fitted = GaussianMixture(2, covariance_type=kind).fit(make_rows())
    public = [name for name in vars(fitted) if not name.startswith("_")]
    missing = [name for name in public if f"{name} " not in doc and f"{name}," not in doc]
    assert missing == []


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
def test_every_estimator_documents_its_parameters_and_attributes(kind):
    x = pd.DataFrame(make_rows(), columns=list("abc"))
    fitted = kind.cls(2, random_state=0).fit(x, kind.target(90))
    doc = inspect.getdoc(kind.cls)
    public = [name for name in vars(fitted) if not name.startswith("_")]
    assert {"n_components", "n_features_in_", "selection_", "n_iter_"} <= set(public)
    missing = [
        name for name in public if not any(f"{name}{end}" in doc for end in (" :", ",", "\n"))
    ]
    assert missing == []
    for name in dir(kind.cls):
        method = getattr(kind.cls, name)
        if callable(method) and not name.startswith("_") and "gapmix" in method.__module__:
            assert inspect.getdoc(method), name


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
def test_every_estimator_fits_in_joblib_processes_and_threads(kind):
    x = make_rows()
    model = kind.cls(1, random_state=0, n_jobs=1)
    expected = clone(model).fit(x, kind.target(90))
    with joblib.parallel_config("threading"):
        fits = joblib.Parallel(n_jobs=2)(
            joblib.delayed(clone(model).fit)(x, kind.target(90)) for _ in range(2)
        )
    method = kind.answers[0]
    for fitted in fits:
        np.testing.assert_array_equal(getattr(fitted, method)(x), getattr(expected, method)(x))
    again = joblib.Parallel(n_jobs=2)(
        joblib.delayed(getattr(expected, method))(part) for part in (x[:45], x[45:])
    )
    np.testing.assert_allclose(
        np.concatenate(again) if again[0].dtype.kind == "f" else np.hstack(again),
        getattr(expected, method)(x),
        rtol=1e-12,
    )


def test_every_estimator_is_known_for_what_it_is():
    assert is_regressor(GaussianMixtureRegressor())
    assert is_classifier(GaussianMixtureClassifier())
    assert repr(GaussianMixtureImputer()) == "GaussianMixtureImputer()"
    assert repr(GaussianMixtureRegressor(3)) == "GaussianMixtureRegressor(n_components=3)"
    assert not hasattr(clone(GaussianMixtureImputer(1).fit(make_rows())), "mixture_")


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_on_complete_rows_the_fit_is_scikit_learns(kind):
    x = make_rows(gaps=0.0)
    means = x[[5, 40, 80]]
    settings = {
        "n_components": 3,
        "covariance_type": kind,
        "reg_covar": 0.0,
        "tol": 1e-10,
        "max_iter": 500,
        "means_init": means,
        "weights_init": np.full(3, 1 / 3),
        "precisions_init": {
            "full": np.tile(np.eye(3), (3, 1, 1)),
            "tied": np.eye(3),
            "diag": np.ones((3, 3)),
            "spherical": np.ones(3),
        }[kind],
    }
    ours, theirs = GaussianMixture(**settings).fit(x), Reference(**settings).fit(x)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-6, err_msg=name
        )
    np.testing.assert_allclose(ours.score_samples(x), theirs.score_samples(x), rtol=1e-4)
    np.testing.assert_allclose(ours.bic(x), theirs.bic(x), rtol=1e-6)
    np.testing.assert_allclose(ours.aic(x), theirs.aic(x), rtol=1e-6)
    np.testing.assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-6)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
    assert ours._n_parameters() == theirs._n_parameters()


def test_results_have_scikit_learns_shapes_and_types():
    x = make_rows()
    fitted = GaussianMixture(2, random_state=0).fit(x)
    assert fitted.predict(x).shape == (90,)
    assert fitted.predict(x).dtype.kind == "i"
    assert fitted.predict_proba(x).shape == (90, 2)
    assert fitted.score_samples(x).shape == (90,)
    assert type(fitted.score(x)) is float
    rows, labels = fitted.sample(7)
    assert rows.shape == (7, 3)
    assert labels.shape == (7,)
    assert fitted.impute(x).shape == x.shape
    assert fitted.sample_missing(x, n_draws=4).shape == (4, 90, 3)
    assert is_clusterer(fitted) == is_clusterer(Reference())


# ------------------------------------------------------------------ the same habits


def test_fit_returns_the_estimator():
    mixture = GaussianMixture()
    assert mixture.fit(make_rows()) is mixture


def test_fit_predict_is_fit_then_predict():
    x = make_rows()
    labels = GaussianMixture(3, random_state=0).fit_predict(x)
    np.testing.assert_array_equal(labels, GaussianMixture(3, random_state=0).fit(x).predict(x))


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(GaussianMixture()) == "GaussianMixture()"
    mixture = GaussianMixture(3, solver="naive", shrinkage="auto")
    assert repr(mixture) == "GaussianMixture(n_components=3, shrinkage='auto', solver='naive')"


def test_set_params_changes_the_next_fit_and_refuses_unknown_names():
    mixture = GaussianMixture().set_params(n_components=3, covariance_type="diag")
    assert mixture.fit(make_rows()).covariances_.shape == (3, 3)
    with pytest.raises(ValueError, match="Invalid parameter 'n_clusters' for estimator"):
        mixture.set_params(n_clusters=2)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_clones_pickles_and_joblib_copies_answer_alike(kind, tmp_path):
    x = make_rows()
    fitted = GaussianMixture(3, covariance_type=kind, random_state=0).fit(x)
    joblib.dump(fitted, tmp_path / "mixture.joblib")
    for copy in (
        pickle.loads(pickle.dumps(fitted)),
        joblib.load(tmp_path / "mixture.joblib"),
        clone(fitted).fit(x),
    ):
        np.testing.assert_array_equal(copy.score_samples(x), fitted.score_samples(x))
        np.testing.assert_array_equal(copy.impute(x), fitted.impute(x))
        assert copy.plan_.explain() == fitted.plan_.explain()


def test_a_clone_is_not_fitted():
    assert not hasattr(clone(GaussianMixture().fit(make_rows())), "means_")


def test_the_same_seed_gives_the_same_bits_and_a_seedless_fit_works():
    x = make_rows()
    first, second = (GaussianMixture(3, random_state=5, n_init=2).fit(x) for _ in range(2))
    np.testing.assert_array_equal(first.means_, second.means_)
    state = np.random.RandomState(5)
    third = GaussianMixture(3, random_state=state, n_init=2).fit(x)
    np.testing.assert_array_equal(first.means_, third.means_)
    assert np.isfinite(GaussianMixture(3).fit(x).score(x))


def test_warm_start_goes_on_from_the_last_solution():
    x = make_rows()
    mixture = GaussianMixture(3, random_state=0, max_iter=50, tol=1e-9, warm_start=True).fit(x)
    before = mixture.lower_bound_
    assert mixture.fit(x).lower_bounds_[0] >= before - 1e-9


def test_verbose_logs_and_prints_nothing_to_stdout(capsys, caplog):
    with caplog.at_level(logging.INFO, logger="gapmix"):
        GaussianMixture(2, verbose=2, verbose_interval=1, random_state=0).fit(make_rows())
    assert "Start 1 of 1" in caplog.text
    assert "iteration 1: objective" in caplog.text
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------ the same tools


def test_pipeline_with_a_scaler():
    x = make_rows()
    pipeline = make_pipeline(StandardScaler(), GaussianMixture(3, random_state=0)).fit(x)
    assert np.isfinite(pipeline.score(x))
    alone = GaussianMixture(3, random_state=0).fit(x)
    pairs = set(zip(pipeline.predict(x).tolist(), alone.predict(x).tolist(), strict=True))
    assert len(pairs) == 3  # the same clusters, perhaps under other numbers


def test_grid_search_finds_the_number_of_components_by_score():
    search = GridSearchCV(
        GaussianMixture(random_state=0, covariance_type="diag"),
        {"n_components": [1, 3]},
        cv=KFold(3, shuffle=True, random_state=0),
    )
    search.fit(make_rows())
    assert search.best_params_ == {"n_components": 3}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cross_val_score_is_the_held_out_likelihood(n_jobs):
    x = make_rows()
    folds = KFold(3, shuffle=True, random_state=0)
    mixture = GaussianMixture(2, random_state=0, n_jobs=1)
    with joblib.parallel_config("threading"):
        scores = cross_val_score(mixture, x, cv=folds, n_jobs=n_jobs)
    expected = [clone(mixture).fit(x[a]).score(x[b]) for a, b in folds.split(x)]
    np.testing.assert_array_equal(scores, expected)


def test_joblib_processes_can_fit():
    x = make_rows()
    mixture = GaussianMixture(2, random_state=0)
    fits = joblib.Parallel(n_jobs=2)(joblib.delayed(clone(mixture).fit)(x) for _ in range(2))
    np.testing.assert_array_equal(fits[0].means_, mixture.fit(x).means_)


def test_sample_weight_is_routed_through_pipeline_and_search():
    x = make_rows()
    weight = np.random.default_rng(0).integers(1, 4, len(x)).astype(float)
    with config_context(enable_metadata_routing=True):
        mixture = GaussianMixture(1).set_fit_request(sample_weight=True)
        pipeline = Pipeline([("mixture", mixture)]).fit(x, sample_weight=weight)
        expected = GaussianMixture(1).fit(x, sample_weight=weight)
        np.testing.assert_array_equal(pipeline["mixture"].means_, expected.means_)
        search = GridSearchCV(mixture, {"n_components": [1]}, cv=3).fit(x, sample_weight=weight)
        np.testing.assert_array_equal(search.best_estimator_.means_, expected.means_)
    assert not np.allclose(expected.means_, GaussianMixture(1).fit(x).means_)


@pytest.mark.parametrize("init_params", ["kmeans", "k-means++"])
def test_a_weight_of_two_is_the_row_twice_with_several_components_too(init_params):
    x = make_rows()
    weight = np.random.default_rng(1).integers(0, 3, len(x))
    settings = {"n_components": 3, "random_state": 0, "init_params": init_params}
    weighted = GaussianMixture(**settings).fit(x, sample_weight=weight)
    repeated = GaussianMixture(**settings).fit(np.repeat(x, weight, axis=0))
    order, other = (np.argsort(fitted.means_[:, 0]) for fitted in (weighted, repeated))
    np.testing.assert_allclose(weighted.means_[order], repeated.means_[other], rtol=1e-6)


# ------------------------------------------------------------------ names of columns


def test_column_names_are_checked_when_predicting():
    frame = pd.DataFrame(make_rows(), columns=list("abc"))
    fitted = GaussianMixture(2, random_state=0).fit(frame)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="yet now missing:\n- c\n"):
        fitted.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        fitted.predict(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- d\n"):
        fitted.predict(frame.assign(d="text"))
    with pytest.warns(UserWarning, match="X does not have valid feature names, but"):
        fitted.predict(frame.to_numpy())
    unnamed = GaussianMixture(2, random_state=0).fit(frame.to_numpy())
    with pytest.warns(UserWarning, match="X has feature names, but GaussianMixture was fitted"):
        unnamed.predict(frame)


def test_refitting_without_names_forgets_them():
    frame = pd.DataFrame(make_rows(), columns=list("abc"))
    mixture = GaussianMixture().fit(frame).fit(frame.to_numpy())
    assert not hasattr(mixture, "feature_names_in_")


# ------------------------------------------------------------------ the package


def test_the_package_exposes_what_it_promises_and_its_modules():
    public = {name for name in dir(gapmix) if not name.startswith("_")}
    modules = {module.name for module in pkgutil.iter_modules(gapmix.__path__)}
    assert set(gapmix.__all__) <= public <= set(gapmix.__all__) | modules
    assert all(hasattr(gapmix, name) for name in gapmix.__all__)
    assert gapmix.__version__.count(".") == 2
