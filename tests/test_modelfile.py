"""What is loaded answers with the same bits as what was saved; a save is whole or nothing."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture as Theirs
from tests.conftest import size

import gapmix
from gapmix import GaussianMixture, atomicfile
from gapmix.modelfile import ModelFileError, composed
from gapmix.modelvalues import decode, encode
from gapmix.plan import TreeOptions
from gapmix.plots import plot_plan
from gapmix.recordfile import Record, pack, read

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
    loaded = copy_through(tmp_path / "m", mixture)
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
        "warm_start": np.bool_(True),
        "solver": TreeOptions("tree", cost="seconds", recompute_every=3),
        "random_state": np.random.RandomState(0),
        "reg_covar": np.inf,
        "shrinkage": np.nan,
    }
    mixture = fit().set_params(**settings)
    loaded = copy_through(tmp_path / "m", mixture)
    assert_same_bits(loaded.means_init, means)
    assert_same_bits(loaded.precisions_init, settings["precisions_init"])
    assert loaded.weights_init == (0.25, 0.75)
    assert (loaded.tol, loaded.max_iter, loaded.warm_start) == (0.1 / 3, 7, True)
    assert [type(v) for v in (loaded.tol, loaded.max_iter, loaded.warm_start)] == [float, int, bool]
    assert loaded.solver == settings["solver"]
    assert type(loaded.solver) is TreeOptions
    assert loaded.random_state is None
    assert loaded.reg_covar == np.inf
    assert np.isnan(loaded.shrinkage)


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
        ({"n_jobs": object()}, "n_jobs is a object"),
        ({"fill": Pair(1)}, "fill is a Pair"),
        ({"n_jobs": b"x"}, "n_jobs is a bytes"),
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


# ---------------------------------------------------------------- what cannot be saved or loaded


def test_only_fitted_estimators_of_gapmix_are_saved(tmp_path):
    with pytest.raises(NotFittedError):
        gapmix.save(GaussianMixture(), tmp_path / "m")
    with pytest.raises(TypeError, match=r"save takes a fitted GaussianMixture.* from sklearn"):
        gapmix.save(Theirs().fit(np.eye(4)), tmp_path / "m")

    class Mine(GaussianMixture):
        pass

    with pytest.raises(TypeError, match="got a Mine from"):
        gapmix.save(Mine().fit(make_rows()), tmp_path / "m")
    with pytest.raises(TypeError, match="PathLike"):
        gapmix.save(fit(), 3)
    assert os.listdir(tmp_path) == []


def test_where_nothing_can_be_saved_the_error_says_why(tmp_path):
    mixture = fit()
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    for path, error, message in (
        (tmp_path / "no" / "m", FileNotFoundError, "folder to save in does not exist; make it"),
        (tmp_path, IsADirectoryError, "This is a folder"),
        (tmp_path / "file" / "m", NotADirectoryError, "Not a directory"),
        (tmp_path / "pipe", OSError, "device or a pipe"),
        ("/dev/null", OSError, "device or a pipe"),
    ):
        with pytest.raises(error, match=message):
            gapmix.save(mixture, path)
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


@contextmanager
def as_nobody():
    """Work without root's right to write anywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_read_only_folder_or_file_is_respected():
    mixture = fit()
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        closed, opened = Path(top) / "closed", Path(top) / "open"
        closed.mkdir(mode=0o555)
        opened.mkdir()
        opened.chmod(0o777)
        (opened / "m").write_text("kept")
        (opened / "m").chmod(0o444)
        with as_nobody():
            with pytest.raises(
                PermissionError, match=r"No file can be made in this folder.*closed"
            ):
                gapmix.save(mixture, closed / "m")
            with pytest.raises(PermissionError, match="read-only"):
                gapmix.save(mixture, opened / "m")
            gapmix.save(mixture, opened / "n")
        assert (opened / "m").read_text() == "kept"
        assert sorted(os.listdir(opened)) == ["m", "n"]
        assert os.listdir(closed) == []
        closed.chmod(0o755)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, without_nameless):
    path = tmp_path / "m"
    gapmix.save(fit(), path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        with pytest.raises(OSError) as caught:
            gapmix.save(fit(random_state=1), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


@pytest.fixture(params=[False, True], ids=["nameless", "named"])
def without_nameless(request, monkeypatch):
    """Both ways of writing: with and without files that have no name."""
    if request.param:
        monkeypatch.setattr(atomicfile, "NAMELESS", 0)
    return request.param


def test_permissions_follow_the_umask_or_the_file_replaced(tmp_path, without_nameless):
    mixture, path = fit(), tmp_path / "m"
    old = os.umask(0o027)
    try:
        gapmix.save(mixture, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        gapmix.save(mixture, str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(old)
    assert os.listdir(tmp_path) == ["m"]


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path, without_nameless):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "m", tmp_path / "link"
    link.symlink_to(real)
    x = make_rows()
    for seed in (0, 1):  # the first time it points to nothing
        mixture = fit(x, random_state=seed)
        gapmix.save(mixture, link)
        assert link.is_symlink()
        assert_same_bits(gapmix.load(real).means_, mixture.means_)
        assert_same_bits(gapmix.load(link).means_, mixture.means_)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        gapmix.save(mixture, tmp_path / "loop")


def test_saves_at_the_same_time_leave_one_whole_file(tmp_path, without_nameless):
    mixtures = [fit(random_state=seed, max_iter=2, tol=10.0) for seed in range(3)]

    def work(mixture):
        for _ in range(5):
            gapmix.save(mixture, tmp_path / "m")

    threads = [threading.Thread(target=work, args=(mixture,)) for mixture in mixtures]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = gapmix.load(tmp_path / "m").means_.tobytes()
    assert found in {mixture.means_.tobytes() for mixture in mixtures}
    assert os.listdir(tmp_path) == ["m"]


def test_other_files_are_refused_with_a_guess_at_what_they_are(tmp_path):
    x = make_rows()
    path = tmp_path / "other"

    def refuse(message):
        with pytest.raises(ModelFileError, match=message) as caught:
            gapmix.load(path)
        assert str(caught.value).startswith(f"{path}: ")

    for protocol in (2, 4, 5):
        path.write_bytes(pickle.dumps(fit(), protocol))
        refuse("not a gapmix model but a pickle, which could run code")
    pd.DataFrame(x).to_csv(path)
    refuse("not a gapmix model but a text, perhaps a table")
    np.savez(tmp_path / "other.npz", x)
    path.write_bytes((tmp_path / "other.npz").read_bytes())
    refuse("zip archive")
    pd.DataFrame(x, columns=list("abcd")).to_parquet(path)
    refuse("Parquet")
    path.write_bytes(b"")
    refuse("is empty")
    path.write_bytes(b"12345")
    refuse("has only 5 bytes")
    path.write_bytes(bytes(100))
    refuse("not a gapmix model: its first eight bytes would mean a header of 0 bytes")
    save_file({"weights": x}, path)
    refuse("safetensors file of another program")
    save_file({"weights": x}, path, {"gapmix": "2"})
    refuse("has format 2 and this version of gapmix reads up to 1. Install a newer one")
    path.unlink()
    os.mkfifo(path)
    refuse("a folder, a device or a pipe")
    path.unlink()
    path.mkdir()
    refuse("a folder, a device or a pipe")
    path.rmdir()
    with pytest.raises(FileNotFoundError, match="other"):
        gapmix.load(path)
    with pytest.raises(ModelFileError, match="device"):
        gapmix.load("/dev/zero")


# ---------------------------------------------------------------- killed while saving

KILLED = """
import os, random, signal, sys, time
import numpy as np
import gapmix.atomicfile
from gapmix.modelfile import CODECS, pack
from gapmix.recordfile import Record

folder, n_rounds, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if way != "nameless":
    gapmix.atomicfile.NAMELESS = 0
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 40))
x[rng.random(x.shape) < 0.1] = np.nan
models = [gapmix.GaussianMixture(3, random_state=s, max_iter=1, tol=1e9).fit(x) for s in (0, 1)]
whole = {model.covariances_.tobytes() for model in models}
path = os.path.join(folder, "model")
pieces = [b"".join(pack(Record("GaussianMixture", *CODECS["GaussianMixture"].to_record(model))))
          for model in models]

def write_in_place(model):
    with open(path, "wb") as stream:
        stream.write(pieces[models.index(model)])

save = write_in_place if way == "in place" else lambda model: gapmix.save(model, path)
gapmix.save(models[0], path)
began = time.perf_counter()
for _ in range(3):
    save(models[0])
duration = (time.perf_counter() - began) / 3
random.seed(1)
broken = halves = leftovers = changed = 0
previous = None
for _ in range(n_rounds):
    child = os.fork()
    if child == 0:
        while True:
            for model in models[::-1]:
                save(model)
    time.sleep(random.uniform(0.0, 4 * duration + 0.005))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        found = gapmix.load(path).covariances_.tobytes()
        assert found in whole
        changed += found != previous
        previous = found
    except ValueError:
        broken += 1
    for name in os.listdir(folder):
        if name != "model":
            leftovers += 1
            try:
                gapmix.load(os.path.join(folder, name))
            except ValueError:
                halves += 1
            os.unlink(os.path.join(folder, name))
print(broken, halves, leftovers, changed)
"""


def has_nameless_files(folder) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


def kill_while_saving(folder, n_rounds: int, way: str) -> list[int]:
    """Return how often the file was broken, and half files, files left over, and changes seen."""
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(n_rounds), way],
        check=True,
        capture_output=True,
        text=True,
    )
    return [int(number) for number in run.stdout.split()]


def test_a_killed_save_leaves_the_old_or_the_new_file_and_nothing_else(tmp_path):
    broken, halves, leftovers, changed = kill_while_saving(tmp_path, size(15, 200), "nameless")
    assert broken == 0
    if has_nameless_files(tmp_path):
        assert halves == 0
        assert leftovers <= size(
            1, 10
        )  # whole, but killed between being named and taking its place
    assert changed > 1


def test_a_killed_save_on_systems_without_nameless_files_leaves_the_old_or_the_new(tmp_path):
    broken, _, _, changed = kill_while_saving(tmp_path, size(10, 200), "named")
    assert broken == 0
    assert changed > 1


def test_killing_finds_half_files_where_they_are_written_in_place(tmp_path):
    assert kill_while_saving(tmp_path, size(20, 50), "in place")[0] > 0
