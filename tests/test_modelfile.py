"""What is loaded answers with the same bits as what was saved."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import gapmix
from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
)
from gapmix.modelfile.files import CODECS, ModelFileError, composed
from gapmix.modelfile.values import decode, encode
from gapmix.plan.forests import TreeOptions
from gapmix.plots import plot_plan
from gapmix.storage.recordfile import Record, pack, read

DATA = Path(__file__).parent / "data"
KINDS = ("full", "tied", "diag", "spherical")
FITTED = (
    *("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_", "converged_"),
    *("stop_reason_", "n_iter_", "lower_bound_", "lower_bounds_", "history_", "n_features_in_"),
    *("_covariance_type", "_scaling", "_target"),
)


def make_rows(n: int = 120, d: int = 4, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 50.0 * rng.normal(size=d)
    x *= np.logspace(-3, 3, d)
    x[: n // 2] += 4 * x.std(axis=0)
    x[rng.random(x.shape) < 0.3] = np.nan
    return x


def fit(x=None, /, **settings) -> GaussianMixture:
    settings = {"n_components": 2, "random_state": 0, "tol": 1e-2, **settings}
    return GaussianMixture(**settings).fit(make_rows() if x is None else x)


def copy_through(path, mixture):
    gapmix.save(mixture, path)
    return gapmix.load(path)


def answers(mixture, x) -> list[np.ndarray]:
    return [
        *mixture.impute(x, return_std=True),
        mixture.score_samples(x),
        mixture.predict_proba(x),
        mixture.sample_missing(x, 3, random_state=5),
        *mixture.sample(7),
        np.array([mixture.bic(x), mixture.aic(x)]),
    ]


def assert_same_bits(left, right):
    if isinstance(left, tuple | list):
        assert type(left) is type(right)
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same_bits(one, other)
    elif isinstance(left, np.ndarray):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()
    else:
        assert type(left) is type(right)
        assert left == right


VARIANTS = {
    **{kind: {"covariance_type": kind} for kind in KINDS},
    **{solver: {"solver": solver} for solver in ("naive-row", "naive", "paper", "tree", "dual")},
    "diagonal asked from dual": {"covariance_type": "diag", "solver": "dual"},
    "shrinkage": {"shrinkage": "auto", "n_components": 3},
    "diagonal shrinkage": {"shrinkage": 4.0, "covariance_type": "diag"},
    "validation": {"validation_fraction": 0.3},
    "one component": {"n_components": 1},
    "equal weights": {"weights": "equal"},
    "kept components": {"keep_components": 2, "fill": "next", "diagonal_loading": 1e-9},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_loaded_mixture_answers_with_the_same_bits(name, tmp_path):
    x = make_rows()
    mixture = fit(x, **VARIANTS[name])
    loaded = copy_through(tmp_path / "m.safetensors", mixture)
    assert type(loaded) is GaussianMixture
    assert loaded.get_params() == mixture.get_params()
    for attribute in FITTED:
        assert_same_bits(getattr(mixture, attribute), getattr(loaded, attribute))
    assert set(vars(loaded)) == set(vars(mixture))
    assert_same_bits(answers(mixture, x), answers(loaded, x))
    again = copy_through(tmp_path / "again.safetensors", loaded)
    assert_same_bits(answers(mixture, x), answers(again, x))
    assert again.plan_.explain() == mixture.plan_.explain()


def test_badly_conditioned_and_far_shifted_columns_keep_their_bits(tmp_path):
    rng = np.random.default_rng(0)
    base = rng.normal(size=(200, 1))
    x = np.hstack([base + 1e-5 * rng.normal(size=(200, 3)), 1e9 + base, 1e-100 * base, 0 * base])
    x[rng.random(x.shape) < 0.2] = np.nan
    mixture = fit(x, n_components=1)
    assert_same_bits(answers(mixture, x), answers(copy_through(tmp_path / "m", mixture), x))


def test_names_of_columns_are_kept_and_asked_for(tmp_path):
    names = ["height", 'we"ight \\ [/x]', "größe", "\x1b[31m"]
    table = pd.DataFrame(make_rows(), columns=names)
    loaded = copy_through(tmp_path / "m", fit(table))
    assert loaded.feature_names_in_.tolist() == names
    assert loaded.feature_names_in_.dtype == object
    assert np.isfinite(loaded.impute(table)).all()
    with pytest.raises(ValueError, match="feature names"):
        loaded.impute(table.rename(columns={"height": "length"}))


def test_another_process_gives_the_same_bits(tmp_path):
    x = make_rows()
    mixture = fit(x)
    gapmix.save(mixture, tmp_path / "m")
    np.save(tmp_path / "x.npy", x)
    script = (
        "import sys, hashlib, numpy as np, gapmix\n"
        "m, x = gapmix.load(sys.argv[1]), np.load(sys.argv[2])\n"
        "parts = [*m.impute(x, return_std=True), m.score_samples(x), m.predict_proba(x),\n"
        "         m.sample_missing(x, 3, random_state=5)]\n"
        "np.savez(sys.argv[3], *parts)\n"
    )
    paths = [str(tmp_path / name) for name in ("m", "x.npy", "out.npz")]
    subprocess.run([sys.executable, "-c", script, *paths], check=True)
    with np.load(tmp_path / "out.npz") as found:
        for i, expected in enumerate(answers(mixture, x)[:5]):
            assert_same_bits(expected, found[f"arr_{i}"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_start_goes_on_from_a_loaded_mixture(kind, tmp_path):
    x = make_rows()
    settings = {"covariance_type": kind, "shrinkage": 2.0, "max_iter": 4, "tol": 0.0}
    mixture = fit(x, warm_start=True, **settings)
    loaded = copy_through(tmp_path / "m", mixture).set_params(warm_start=True)
    assert_same_bits(mixture.fit(x).means_, loaded.fit(x).means_)
    assert_same_bits(answers(mixture, x), answers(loaded, x))


def test_a_loaded_mixture_can_be_fitted_cloned_and_pickled(tmp_path):
    x = make_rows()
    mixture = fit(x)
    loaded = copy_through(tmp_path / "m", mixture)
    assert not hasattr(clone(loaded), "means_")
    assert_same_bits(clone(loaded).fit(x).means_, mixture.means_)
    assert_same_bits(answers(pickle.loads(pickle.dumps(loaded)), x), answers(mixture, x))
    loaded.means_[0, 0] += 1.0  # arrays can be written to
    assert_same_bits(loaded.fit(x).means_, mixture.means_)


def test_a_plan_keeps_its_words_and_not_its_patterns(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 12))
    x[rng.random(x.shape) < 0.4] = np.nan
    mixture = GaussianMixture(1, solver="tree", tol=1.0).fit(x)
    assert len(mixture.plan_.patterns.observed) > 1000
    loaded = copy_through(tmp_path / "m", mixture)
    assert loaded.plan_.explain() == mixture.plan_.explain()
    assert "Trees:" in loaded.plan_.explain()
    assert (tmp_path / "m").stat().st_size < 20_000
    for name in ("solver", "requested", "n_components", "seconds", "bounds", "reason"):
        assert getattr(loaded.plan_, name) == getattr(mixture.plan_, name)
    with pytest.raises(ValueError, match="read from a model file"):
        plot_plan(loaded.plan_)
    assert "1,0" not in loaded.fit(x[:50]).plan_.explain().splitlines()[0]


def test_files_of_format_1_load():
    expected = json.loads((DATA / "mixture-v1.json").read_text())
    loaded = gapmix.load(DATA / "mixture-v1.safetensors")
    probe = pd.DataFrame(expected["probe"], columns=expected["names"], dtype=float)
    np.testing.assert_array_equal(loaded.means_, expected["means"])
    np.testing.assert_allclose(loaded.impute(probe), expected["impute"], rtol=1e-12)
    np.testing.assert_allclose(loaded.score_samples(probe), expected["score_samples"], rtol=1e-12)
    assert loaded.stop_reason_ == expected["stop_reason"]
    assert loaded.feature_names_in_.tolist() == expected["names"]
    assert loaded.weights_init == [0.5, 0.5]
    assert loaded.history_[0].events[0].startswith("shrinkage: pooled covariance")


def test_files_of_format_2_load_with_their_categories():
    expected = json.loads((DATA / "mixture-v2.json").read_text())
    loaded = gapmix.load(DATA / "mixture-v2.safetensors")
    probe = pd.DataFrame(expected["probe"], columns=expected["names"])
    probe["old"] = probe["old"].astype("boolean")
    assert [levels.tolist() for levels in loaded.categories_] == expected["levels"]
    for found, wanted in zip(
        loaded.category_probabilities_, expected["probabilities"], strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    filled, wanted = loaded.impute(probe), pd.DataFrame(expected["impute"])
    for j, name in enumerate(expected["names"]):
        if name in ("Art", "old"):
            assert filled[name].tolist() == wanted[j].tolist()
        else:
            np.testing.assert_allclose(filled[name].astype(float), wanted[j], rtol=1e-12)
    np.testing.assert_allclose(loaded.score_samples(probe), expected["score_samples"], rtol=1e-12)


NAMES = ["a", "b", "c", "d"]
LABELS = np.repeat(["no", "yes"], 60)
COMPOSED = {
    "imputer": (GaussianMixtureImputer(2, random_state=0), None),
    "imputer with everything": (
        GaussianMixtureImputer(
            "auto",
            max_components=3,
            missing_values=[-999, "?", None],
            add_indicator=True,
            bounds={"a": (0, None), 2: (None, 1.5)},
            random_state=0,
        ),
        None,
    ),
    "imputer with a target": (
        GaussianMixtureImputer(1, use_target=True, covariance_type="diag"),
        np.arange(120.0),
    ),
    "imputer of a constant column": (GaussianMixtureImputer(1), "constant"),
    "regressor": (GaussianMixtureRegressor(2, random_state=0), np.arange(120.0)),
    "regressor of any size": (
        GaussianMixtureRegressor(max_components=3, random_state=0, covariance_type="tied"),
        np.column_stack([np.arange(120.0), np.tile([1.0, np.nan], 60)]),
    ),
    "classifier": (GaussianMixtureClassifier(1, random_state=0), LABELS),
    "classifier of any size": (
        GaussianMixtureClassifier(
            max_components=3,
            random_state=0,
            class_weight={"no": 2.0, "yes": 1.0},
            priors=(0.3, 0.7),
            use_unlabelled=True,
        ),
        np.where(np.arange(120) % 5 > 0, LABELS, None),
    ),
    "classifier of truths": (GaussianMixtureClassifier(1, random_state=0), LABELS == "yes"),
}
METHODS = (
    *("transform", "impute_with_std", "intervals", "score_samples"),
    *("predict", "predict_proba", "predict_quantiles"),
)


def said_by(estimator, table):
    """Return everything an estimator made of mixtures has to say about a table."""
    found = [getattr(estimator, name)(table) for name in METHODS if hasattr(estimator, name)]
    if isinstance(estimator, GaussianMixtureImputer):
        found.append(estimator.get_feature_names_out().tolist())
        found.append(estimator.sample(table, 2, random_state=0))
    if isinstance(estimator, GaussianMixtureRegressor):
        found += [estimator.predict(table, return_std=True), estimator.sample_y(table, 2)]
    return found


@pytest.mark.parametrize("name", COMPOSED)
def test_a_loaded_imputer_regressor_or_classifier_answers_with_the_same_bits(name, tmp_path):
    estimator, y = COMPOSED[name]
    table = pd.DataFrame(make_rows(), columns=NAMES)
    if isinstance(y, str):
        table["b"], y = table["b"].where(table["b"].isna(), 0.1), None
    estimator = clone(estimator).fit(table, y)
    loaded = copy_through(tmp_path / "m", estimator)
    assert type(loaded) is type(estimator)
    np.testing.assert_equal(loaded.get_params(), estimator.get_params())
    assert set(vars(loaded)) == set(vars(estimator))
    for attribute, value in vars(estimator).items():
        if attribute not in ("mixture_", "mixtures_", *estimator.get_params()):
            np.testing.assert_equal(getattr(loaded, attribute), value)
            assert type(getattr(loaded, attribute)) is type(value), attribute
    assert_same_bits(said_by(estimator, table), said_by(loaded, table))
    again = copy_through(tmp_path / "again", loaded)
    assert_same_bits(said_by(estimator, table), said_by(again, table))
    with pytest.raises(ValueError, match="feature names"):
        getattr(loaded, "transform", getattr(loaded, "predict", None))(table[["b", "a", "c", "d"]])
    refitted = loaded.fit(table, y)
    if refitted.random_state is not None:
        assert_same_bits(said_by(estimator, table), said_by(refitted, table))


@pytest.mark.parametrize("name", ["imputer", "regressor", "classifier"])
def test_an_estimator_that_is_not_fitted_is_not_saved(name, tmp_path):
    with pytest.raises(NotFittedError):
        gapmix.save(clone(COMPOSED[name][0]), tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_the_safetensors_library_reads_the_file(tmp_path):
    mixture = fit()
    gapmix.save(mixture, tmp_path / "m")
    arrays = load_file(tmp_path / "m")
    assert_same_bits(arrays["covariances"], mixture.covariances_)
    assert_same_bits(arrays["scaling.scale"], mixture._scaling.scale)
    with safe_open(tmp_path / "m", "numpy") as opened:
        record = json.loads(opened.metadata()["record"])
    assert record["kind"] == "GaussianMixture"
    assert record["content"]["fit"]["stop_reason"] == mixture.stop_reason_
    assert record["content"]["written"]["version"] == gapmix.__version__


# ---------------------------------------------------------------- settings


def test_settings_come_back_as_they_were(tmp_path):
    means = np.arange(8.0).reshape(2, 4)
    settings = {
        "means_init": means,
        "weights_init": (0.25, 0.75),
        "precisions_init": np.ones((2, 4), dtype=np.float32),
        "tol": np.float64(0.1) / 3,
        "max_iter": np.int64(7),
        "solver": TreeOptions("tree", cost="seconds", recompute_every=3),
        "random_state": np.random.RandomState(0),
    }
    mixture = fit().set_params(**settings)
    loaded = copy_through(tmp_path / "m", mixture)
    assert_same_bits(loaded.means_init, means)
    assert_same_bits(loaded.precisions_init, settings["precisions_init"])
    assert loaded.weights_init == (0.25, 0.75)
    assert (loaded.tol, loaded.max_iter) == (0.1 / 3, 7)
    assert [type(v) for v in (loaded.tol, loaded.max_iter)] == [float, int]
    assert loaded.solver == settings["solver"]
    assert type(loaded.solver) is TreeOptions
    assert loaded.random_state is None


def test_nothing_of_the_run_is_in_a_file_or_taken_from_one(tmp_path):
    run = {
        "engine": "tcp://10.0.0.1:8786",
        "checkpoint": "/tmp/elsewhere",
        "n_jobs": 3,
        "verbose": 2,
        "verbose_interval": 7,
        "warm_start": True,
    }
    default = gapmix.GaussianMixture().get_params()
    mixture = fit().set_params(**run)
    path = tmp_path / "m"
    loaded = copy_through(path, mixture)
    assert {name: getattr(loaded, name) for name in run} == {name: default[name] for name in run}
    assert not any(name in path.read_bytes().decode("latin-1") for name in ("10.0.0.1", "elsewh"))
    record = read(path, {"GaussianMixture": CODECS["GaussianMixture"].names})
    record.content["settings"].update(run)  # as files used to have them
    loaded = CODECS["GaussianMixture"].from_record(record.content, record.arrays)
    assert {name: getattr(loaded, name) for name in run} == {name: default[name] for name in run}
    imputer = gapmix.GaussianMixtureImputer(1, n_jobs=2, verbose=1).fit(make_rows())
    loaded = copy_through(path, imputer)
    assert (loaded.n_jobs, loaded.verbose, loaded.mixture_.n_jobs) == (None, 0, None)


def test_a_setting_that_cannot_be_used_is_refused(tmp_path):
    for settings in ({"tol": -1.0}, {"reg_covar": np.inf}, {"shrinkage": np.nan}):
        with pytest.raises(
            ModelFileError, match=f"A setting cannot be used: .*{next(iter(settings))}"
        ):
            gapmix.save(fit().set_params(**settings), tmp_path / "m")


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_a_loaded_stream_goes_on_where_it_was(kind, tmp_path):
    batches = [make_rows(seed=seed) for seed in range(4)]
    one = gapmix.GaussianMixture(2, covariance_type=kind, random_state=0)
    for batch in batches[:2]:
        one.partial_fit(batch)
    other = copy_through(tmp_path / "m", one)
    for batch in batches[2:]:
        one.partial_fit(batch)
        other.partial_fit(batch)
    for name in ("weights_", "means_", "covariances_"):
        assert_same_bits(getattr(one, name), getattr(other, name))
    assert other.stop_reason_ == "partial_fit has seen 4 batches"


VALUES = {
    "none": None,
    "large": 10**30,
    "text": "a\x00\ud800\u2603",
    "nested": {"a": (0, None), 3: [1.5, -np.inf], (1, "b"): {}},
    "small array": [np.array([[1, 2]], dtype=np.int16), np.array([np.nan, 0.1], np.float32)],
    "bools": np.array([True, False]),
    "bytes wide": np.array([[250]], dtype=np.uint8),
    "texts": np.array(["a", "bcd"]),
    "objects": np.array(["a", 1, None, 2.5], dtype=object),
    "no rows": np.empty(0),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_as_they_were(name):
    for arrays in (None, {}):
        plain = json.loads(json.dumps(encode(VALUES[name], "x", arrays), allow_nan=False))
        found = decode(plain, arrays or {})
        np.testing.assert_equal(found, VALUES[name])
        assert type(found) is type(VALUES[name])
        if isinstance(found, np.ndarray):
            assert found.dtype == VALUES[name].dtype


class Pair(NamedTuple):
    a: int


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"solver": TreeOptions(cost=lambda c, a, r: a + r)},
            r"settings.solver.cost is a function",
        ),
        ({"init_params": len}, r"init_params is a function.*set_params before saving"),
        ({"means_init": np.ones(2, complex)}, "means_init is an array of dtype complex128"),
        ({"means_init": np.ones(2, np.longdouble)}, "longdouble|float128"),
        ({"means_init": np.array([2**63], np.uint64)}, "uint64"),
        ({"reg_covar": object()}, "reg_covar is a object"),
        ({"fill": Pair(1)}, "fill is a Pair"),
        ({"reg_covar": b"x"}, "reg_covar is a bytes"),
    ],
)
def test_settings_a_file_cannot_hold_are_refused_by_name(settings, message, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        gapmix.save(fit().set_params(**settings), tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    for attribute, value, message in (
        ("means_", np.nan, "means holds a number that is not finite"),
        ("weights_", 2.0, "sum to 1"),
        ("covariances_", 1.0, "not positive definite"),
    ):
        mixture = fit()
        getattr(mixture, attribute)[...] = value
        with pytest.raises(ModelFileError, match=message):
            gapmix.save(mixture, tmp_path / "m")
    table = pd.DataFrame(make_rows(d=3), columns=[letter * 400_000 for letter in "abc"])
    with pytest.raises(ModelFileError, match=r"take 1,2\d\d,\d\d\d bytes; at most 1,048,576"):
        gapmix.save(fit(table), tmp_path / "m")
    assert os.listdir(tmp_path) == []


class Ensemble(BaseEstimator):
    """An estimator made of mixtures, as classifiers and imputers are."""

    def __init__(self, bounds=None):
        self.bounds = bounds

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.mixtures_ = [fit(X[y == label]) for label in self.classes_]
        self.joint_ = fit(X)
        self.n_features_in_ = X.shape[1]
        self.table_ = [("a", 1.5), ("b", np.nan)]
        return self


def test_estimators_made_of_mixtures_need_one_line(tmp_path):
    codec = composed(
        Ensemble, parts=("mixtures_", "joint_"), state=("classes_", "table_", "absent_")
    )
    x, y = make_rows(), np.repeat(["yes", "no"], 60)
    for labels in (y, np.repeat([3, 5], 60), np.repeat([True, False], 60)):
        ensemble = Ensemble(bounds={"a": (0, None)}).fit(x, labels)
        content, arrays = codec.to_record(ensemble)
        path = tmp_path / "ensemble"
        path.write_bytes(b"".join(pack(Record("Ensemble", content, arrays))))
        record = read(path, {"Ensemble": codec.names})
        loaded = codec.from_record(record.content, record.arrays)
        assert loaded.bounds == {"a": (0, None)}
        assert_same_bits(loaded.classes_, ensemble.classes_)
        assert_same_bits(answers(loaded.joint_, x), answers(ensemble.joint_, x))
        assert len(loaded.mixtures_) == 2
        for one, other in zip(loaded.mixtures_, ensemble.mixtures_, strict=True):
            assert_same_bits(answers(one, x), answers(other, x))
    arrays["mixture.3.means"] = arrays["mixture.0.means"]
    with pytest.raises(ModelFileError, match="belongs to none of 3 mixtures"):
        codec.from_record(content, arrays)
