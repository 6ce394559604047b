"""GaussianMixtureClassifier: Bayes' rule on the densities of the classes, with gaps anywhere.

Compared with quadratic discriminant analysis where that is the answer, and otherwise with scipy's
densities on the public parameters.
"""

from __future__ import annotations

import pickle

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal
from sklearn import config_context
from sklearn.base import clone
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gapmix
from gapmix import GaussianMixtureClassifier

PLAIN = {"shrinkage": 0.0, "mean_shrinkage": 0.0, "calibrate": False}


def make_rows(n: int = 120, *, gaps: float = 0.2, d: int = 3, seed: int = 0):
    """Return rows of three classes that overlap, and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(["ash", "birch", "cedar"], [n // 2, n // 4, n - n // 2 - n // 4]))
    roots = np.random.default_rng(8).normal(size=(3, d, d))
    code = np.searchsorted(["ash", "birch", "cedar"], y)
    x = np.einsum("nij,nj->ni", roots[code], rng.normal(size=(n, d))) + 1.5 * code[:, None]
    x[rng.random(x.shape) < gaps] = np.nan
    return x, y


def class_densities(model, x):
    """Return log p(x_o | class) (n, n_classes) from scipy and the public parameters."""
    result = np.zeros((len(x), len(model.classes_)))
    for c, mixture in enumerate(model.mixtures_):
        for i, row in enumerate(x):
            o = np.flatnonzero(~np.isnan(row))
            if o.size:
                result[i, c] = logsumexp(
                    [
                        np.log(w) + multivariate_normal(mu[o], s[np.ix_(o, o)]).logpdf(row[o])
                        for w, mu, s in zip(
                            mixture.weights_, mixture.means_, mixture.covariances_, strict=True
                        )
                    ]
                )
    return result


# ------------------------------------------------------------------ against others


def test_one_component_on_complete_rows_is_quadratic_discriminant_analysis():
    x, y = make_rows(gaps=0.0)
    model = GaussianMixtureClassifier(1, reg_covar=0.0, **PLAIN).fit(x, y)
    reference = QuadraticDiscriminantAnalysis(store_covariance=True).fit(x, y)
    assert model.classes_.tolist() == reference.classes_.tolist()
    np.testing.assert_allclose(model.priors_, reference.priors_, rtol=1e-12)
    for label, mixture, mean, covariance in zip(
        model.classes_, model.mixtures_, reference.means_, reference.covariance_, strict=True
    ):
        n = (y == label).sum()
        np.testing.assert_allclose(mixture.means_[0], mean, rtol=1e-9, atol=1e-12)
        # scikit-learn divided by n - 1 before it divided by n
        factor = covariance[0, 0] / mixture.covariances_[0, 0, 0]
        assert min(abs(factor - 1.0), abs(factor - n / (n - 1))) < 1e-9
        np.testing.assert_allclose(mixture.covariances_[0] * factor, covariance, rtol=1e-9)
    log_prob = np.array(
        [
            multivariate_normal(x[y == c].mean(axis=0), np.cov(x[y == c].T, bias=True)).logpdf(x)
            for c in model.classes_
        ]
    ).T
    expected = softmax(log_prob + np.log(reference.priors_), axis=1)
    np.testing.assert_allclose(model.predict_proba(x), expected, rtol=1e-7, atol=1e-10)
    assert (model.predict(x) == reference.predict(x)).mean() > 0.97


def test_probabilities_are_bayes_rule_on_scipys_densities():
    x, y = make_rows()
    x[0] = np.nan
    for settings in ({"calibrate": False}, {"calibrate": True}, {"priors": [1, 1, 6]}):
        model = GaussianMixtureClassifier(2, random_state=0, **settings).fit(x, y)
        log_prob = class_densities(model, x)
        joint = model.exponent_ * log_prob + np.log(model.priors_)
        np.testing.assert_allclose(model.predict_proba(x), softmax(joint, axis=1), atol=1e-8)
        np.testing.assert_allclose(
            model.score_samples(x), logsumexp(log_prob + np.log(model.priors_), axis=1), atol=1e-8
        )
        np.testing.assert_array_equal(model.predict(x), model.classes_[joint.argmax(axis=1)])
        np.testing.assert_allclose(
            np.exp(model.predict_log_proba(x)), model.predict_proba(x), rtol=1e-12
        )
        np.testing.assert_allclose(model.predict_proba(x)[0], model.priors_, rtol=1e-9)
    np.testing.assert_allclose(model.priors_, [1 / 8, 1 / 8, 6 / 8])


def test_priors_are_the_shares_of_the_weighted_rows():
    x, y = make_rows()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(x))
    share = np.array([weight[y == c].sum() for c in ("ash", "birch", "cedar")]) / weight.sum()
    model = GaussianMixtureClassifier(1).fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(model.priors_, share, rtol=1e-12)
    balanced = GaussianMixtureClassifier(1, class_weight="balanced").fit(x, y)
    np.testing.assert_allclose(balanced.priors_, 1 / 3, rtol=1e-12)
    settings = {"n_components": 1, "random_state": 0}
    given = GaussianMixtureClassifier(class_weight={"ash": 2.0}, **settings).fit(x, y)
    weight = np.where(y == "ash", 2.0, 1.0)
    doubled = GaussianMixtureClassifier(**settings).fit(x, y, sample_weight=weight)
    np.testing.assert_array_equal(given.priors_, doubled.priors_)
    np.testing.assert_allclose(given.predict_proba(x), doubled.predict_proba(x), rtol=1e-12)


def test_shrinkage_pulls_the_classes_to_their_common_covariance():
    x, y = make_rows(gaps=0.0)
    pooled = sum(
        (y == c).mean() * np.cov(x[y == c].T, bias=True) for c in ("ash", "birch", "cedar")
    )
    settings = {**PLAIN, "shrinkage": 1e9, "reg_covar": 0.0}
    model = GaussianMixtureClassifier(1, **settings).fit(x, y)
    for mixture in model.mixtures_:
        np.testing.assert_allclose(mixture.covariances_[0], pooled, rtol=1e-5, atol=1e-7)


# ------------------------------------------------------------------ calibration


def test_calibration_makes_held_out_rows_more_probable_where_densities_are_too_sure():
    # Sixteen copies of three columns with little noise: as if everything were said many times.
    rng = np.random.default_rng(0)
    x, y = make_rows(600, gaps=0.0)
    wide = np.hstack([x + 1.5 * rng.standard_t(2, size=x.shape) for _ in range(8)])
    settings = {"n_components": 1, "random_state": 0}
    train, test = slice(0, 300), slice(300, None)
    loss = {}
    for calibrate in (False, True):
        model = GaussianMixtureClassifier(calibrate=calibrate, **settings)
        model.fit(wide[train], y[train])
        loss[calibrate] = log_loss(y[test], model.predict_proba(wide[test]))
    assert model.exponent_ < 0.9
    assert loss[True] < loss[False]
    assert GaussianMixtureClassifier(**settings, calibrate=False).fit(x, y).exponent_ == 1.0


def test_on_rows_from_the_model_nothing_needs_calibrating_and_probabilities_are_frequencies():
    rng = np.random.default_rng(2)
    mixture = oracles.random_parameters(rng, 3, 2)
    means = np.array([[0.0, 0.0, 0.0], [1.0, -0.5, 0.5]])
    rows, code = oracles.draw_rows(rng, 8000, mixture[0], means, mixture[2])
    x = oracles.punch(rng, rows, 0.3)
    model = GaussianMixtureClassifier(1, random_state=0).fit(x[:4000], code[:4000])
    assert 0.85 < model.exponent_ < 1.2
    found = model.predict_proba(x[4000:])[:, 1]
    edges = np.quantile(found, np.linspace(0, 1, 9))
    place = np.clip(np.searchsorted(edges, found) - 1, 0, 7)
    for group in range(8):
        inside = place == group
        wanted, seen = found[inside].mean(), code[4000:][inside].mean()
        assert seen == pytest.approx(wanted, abs=0.06)


# ------------------------------------------------------------------ labels that are missing


def likelihood(model, x, y):
    """Return the mean log-likelihood of labelled and unlabelled rows together, from scipy."""
    joint = class_densities(model, x) + np.log(model.priors_)
    known = np.array([label is not None for label in y])
    code = np.array([np.searchsorted(model.classes_, label) if label else -1 for label in y])
    return float(
        (joint[known, code[known]].sum() + logsumexp(joint[~known], axis=1).sum()) / len(x)
    )


def test_unlabelled_rows_are_passed_over_unless_asked_for():
    x, y = make_rows()
    labels = y.astype(object)
    labels[::3] = None
    known = np.array([label is not None for label in labels])
    settings = {"tol": 1e-10, "max_iter": 5000, **PLAIN}
    with_gaps = GaussianMixtureClassifier(1, **settings).fit(x, labels)
    without = GaussianMixtureClassifier(1, **settings).fit(x[known], y[known])
    np.testing.assert_allclose(with_gaps.predict_proba(x), without.predict_proba(x), atol=1e-4)
    assert with_gaps.classes_.tolist() == ["ash", "birch", "cedar"]


@pytest.mark.parametrize("n_components", [1, 2])
def test_unlabelled_rows_raise_the_likelihood_of_all(n_components):
    x, y = make_rows(240)
    labels = y.astype(object)
    labels[np.random.default_rng(1).random(240) < 0.7] = None
    settings = {"n_components": n_components, "random_state": 0, "tol": 1e-6, "max_iter": 1000}
    alone = GaussianMixtureClassifier(**settings, **PLAIN).fit(x, labels)
    together = GaussianMixtureClassifier(use_unlabelled=True, **settings, **PLAIN).fit(x, labels)
    assert likelihood(together, x, labels) > likelihood(alone, x, labels) + 0.01
    assert together.priors_.sum() == pytest.approx(1.0)


def test_unlabelled_rows_make_better_classes_of_few_labels():
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 300)
    x = rng.normal(size=(600, 3)) + 2.5 * y[:, None]
    labels = np.full(600, np.nan)
    for c in (0, 1):
        labels[np.flatnonzero(y == c)[:4]] = c
    settings = {"n_components": 1, "random_state": 0, "calibrate": False}
    alone = GaussianMixtureClassifier(**settings).fit(x, labels)
    together = GaussianMixtureClassifier(use_unlabelled=True, **settings).fit(x, labels)
    truth = np.array([[0.0] * 3, [2.5] * 3])
    error = {
        name: np.abs([m.means_[0] for m in model.mixtures_] - truth).max()
        for name, model in (("alone", alone), ("together", together))
    }
    assert error["together"] < 0.5 * error["alone"]
    assert together.score(x, y) >= alone.score(x, y)


def test_given_priors_stay_as_they_are_with_unlabelled_rows():
    x, y = make_rows()
    labels = y.astype(object)
    labels[::2] = None
    priors = [0.2, 0.2, 0.6]
    model = GaussianMixtureClassifier(1, use_unlabelled=True, priors=priors).fit(x, labels)
    np.testing.assert_allclose(model.priors_, priors)


@pytest.mark.parametrize(
    "make",
    [
        lambda y: y.astype(object).tolist(),
        lambda y: pd.Series(y, dtype=object),
        lambda y: pd.Series(y).astype("category"),
        lambda y: pd.Series(y).astype("string"),
        lambda y: pl.Series(y.tolist()),
        lambda y: pl.Series(y.tolist()).cast(pl.Categorical),
        lambda y: pa.array(y.tolist()),
        lambda y: pa.chunked_array([y.tolist()]),
    ],
    ids=["list", "object", "category", "string", "polars", "polars category", "pyarrow", "chunks"],
)
def test_labels_in_any_container(make):
    x, y = make_rows()
    y = y.astype(object)
    expected = GaussianMixtureClassifier(1, random_state=0).fit(x, y).predict_proba(x)
    model = GaussianMixtureClassifier(1, random_state=0).fit(x, make(y))
    assert model.classes_.tolist() == ["ash", "birch", "cedar"]
    np.testing.assert_array_equal(model.predict_proba(x), expected)
    assert set(model.predict(x)) <= {"ash", "birch", "cedar"}
    y[::5] = None
    assert GaussianMixtureClassifier(1).fit(x, make(y)).classes_.tolist() == [
        *("ash", "birch", "cedar")
    ]


@pytest.mark.parametrize(
    "labels", [[3, 7], [True, False], [1.0, 2.0], ["b", "a"]], ids=["int", "bool", "float", "str"]
)
def test_predictions_have_the_type_of_the_labels(labels):
    x, _ = make_rows()
    y = np.array(labels)[np.arange(120) % 2]
    model = GaussianMixtureClassifier(1).fit(x, y)
    assert model.classes_.dtype == y.dtype
    assert model.predict(x).dtype == y.dtype


def test_nullable_labels_with_gaps():
    x, _ = make_rows()
    y = pd.Series(np.arange(120) % 2).astype("Int64")
    y[::7] = pd.NA
    model = GaussianMixtureClassifier(1).fit(x, y)
    assert model.classes_.tolist() == [0, 1]
    assert model.classes_.dtype.kind == "i"


def test_labels_that_cannot_be_used_are_refused():
    x, y = make_rows()
    for bad, message in (
        (None, "requires y to be passed, but the target y is None"),
        (np.full(120, np.nan), "y has no label in 120 rows: at least one class is needed"),
        (["a"] * 120, r"The labels hold one class, 'a'\. A classifier needs at least two\."),
        (y[:5], "y has 5 labels; X has 120 rows"),
        (np.where(np.arange(120) % 2, np.inf, 1.0), "y contains infinity"),
        (np.linspace(0, 1, 120), "Unknown label type: continuous"),
        (np.zeros((120, 2)), "y should be a 1d array"),
        ([1, "a"] * 60, "y holds labels that are text and labels that are not"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            GaussianMixtureClassifier(1).fit(x, bad)


def test_classes_too_small_for_their_mixture_are_named():
    x, _ = make_rows()
    y = np.where(np.arange(120) < 2, "rare", "usual")
    x[:2] = [[1.0, 2.0, np.nan], [2.0, 1.0, 0.0]]
    message = (
        "Class 'rare' has 2 of 2 rows with an observed value, and a mixture of 3 components needs "
        "at least 3"
    )
    with pytest.raises(ValueError, match=message):
        GaussianMixtureClassifier(3).fit(x, y)
    model = GaussianMixtureClassifier(random_state=0).fit(x, y)  # one component will do
    assert np.isfinite(model.predict_log_proba(x)).all()
    x[:2] = np.nan
    with pytest.raises(ValueError, match="Class 'rare' has 0 of 2 rows with an observed value"):
        GaussianMixtureClassifier().fit(x, y)


# ------------------------------------------------------------------ rows, copies, tools


def test_a_row_alone_is_the_row_in_a_batch():
    x, y = make_rows()
    model = GaussianMixtureClassifier(2, random_state=0).fit(x, y)
    batch = x[np.arange(480) % 120]
    proba, density = model.predict_proba(batch), model.score_samples(batch)
    for i in range(0, 120, 11):
        np.testing.assert_allclose(model.predict_proba(x[i : i + 1])[0], proba[i], atol=1e-12)
        np.testing.assert_allclose(model.score_samples(x[i : i + 1])[0], density[i], rtol=1e-12)


@pytest.mark.parametrize("settings", [{"n_components": 2}, {"max_components": 3}], ids=str)
def test_copies_predict_with_the_same_bits(settings, tmp_path):
    x, y = make_rows()
    for labels in (y, np.searchsorted(np.unique(y), y), y == "ash"):
        model = GaussianMixtureClassifier(random_state=0, **settings).fit(x, labels)
        gapmix.save(model, tmp_path / "model")
        for again in (
            pickle.loads(pickle.dumps(model)),
            gapmix.load(tmp_path / "model"),
            clone(model).fit(x, labels),
        ):
            assert again.predict_proba(x).tobytes() == model.predict_proba(x).tobytes()
            assert again.predict(x).dtype == model.predict(x).dtype
            np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_pipelines_searches_and_routing():
    x, y = make_rows()
    weight = np.random.default_rng(0).integers(1, 5, 120).astype(float)
    pipeline = make_pipeline(StandardScaler(), GaussianMixtureClassifier(1, random_state=0))
    assert pipeline.fit(x, y).score(x, y) > 0.5
    search = GridSearchCV(
        GaussianMixtureClassifier(random_state=0),
        {"n_components": [1, 2], "class_weight": [None, "balanced"]},
        cv=2,
        scoring="neg_log_loss",
    ).fit(x, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    settings = {"n_components": 1, "random_state": 0}
    expected = GaussianMixtureClassifier(**settings).fit(x, y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        model = GaussianMixtureClassifier(**settings).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        routed = make_pipeline(model).fit(x, y, sample_weight=weight)
        np.testing.assert_array_equal(routed.predict_proba(x), expected.predict_proba(x))
        scores = cross_val_score(model, x, y, cv=3, params={"sample_weight": weight})
    assert np.isfinite(scores).all()
