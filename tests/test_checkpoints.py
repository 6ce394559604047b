"""Fits that are interrupted go on to the same bits; files of another fit are refused."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gapmix import GaussianMixture
from gapmix.em import checkpoint
from gapmix.engines.sources import open_source
from gapmix.storage.recordfile import ModelFileError

FULL = "GAPMIX_FULL" in os.environ


def make_rows(n=900, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    x += rng.integers(0, 3, size=(n, 1)) * 1.5
    x[rng.random(x.shape) < 0.3] = np.nan
    return x


class InterruptError(Exception):
    pass


def same_bits(a, b):
    arrays = ("weights_", "means_", "covariances_", "precisions_")
    return (
        all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in arrays)
        and a.lower_bounds_ == b.lower_bounds_
        and a.stop_reason_ == b.stop_reason_
        and [r.events for r in a.history_] == [r.events for r in b.history_]
    )


CASES = {
    "full": {},
    "tied": {"covariance_type": "tied"},
    "diag": {"covariance_type": "diag", "n_init": 2},
    "spherical": {"covariance_type": "spherical"},
    "shrinkage": {"shrinkage": "auto", "mean_shrinkage": "auto"},
    "validation": {"validation_fraction": 0.2},
    "squarem": {"accelerate": "squarem"},
    "anderson": {"accelerate": "anderson"},
    "plain": {"accelerate": None, "n_init": 2},
    "kept": {"keep_components": 2},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("case", "in_pieces"),
    [(case, False) for case in CASES]
    + [(case, True) for case in CASES if case in ("full", "shrinkage", "plain") or FULL],
)
def test_a_fit_interrupted_at_any_save_goes_on_to_the_same_bits(
    case, in_pieces, tmp_path, monkeypatch
):
    options = {"n_components": 3, "tol": 1e-5, "max_iter": 40, "random_state": 0, "n_jobs": 1}
    options |= CASES[case]
    x = make_rows(900 if FULL else 300)
    fit_options = {}
    if in_pieces and options.pop("validation_fraction", None):
        fit_options["X_val"] = make_rows(100, seed=5)  # pieces take no fraction
    table = open_source(x, rows_per_piece=70) if in_pieces else x
    whole = GaussianMixture(**options).fit(table, **fit_options)
    monkeypatch.setattr(checkpoint, "EVERY_ITERATIONS", 1)
    really_write = checkpoint.write
    for stop_after in (1, 4, 11) if FULL else (7,):
        path = tmp_path / f"{stop_after}.checkpoint"
        n_written = 0

        def write(path, saved, stop_after=stop_after):
            nonlocal n_written
            really_write(path, saved)
            n_written += 1
            if n_written == stop_after:
                raise InterruptError

        monkeypatch.setattr(checkpoint, "write", write)
        model = GaussianMixture(**options, checkpoint=path)
        while True:
            try:
                model.fit(table, **fit_options)
                break
            except InterruptError:
                pass
        assert same_bits(model, whole)
        assert same_bits(model.fit(table, **fit_options), whole)  # a finished one answers at once


def test_a_checkpoint_keeps_the_seed_that_nobody_gave(tmp_path, monkeypatch):
    path = tmp_path / "c"
    x = make_rows(300)
    first = GaussianMixture(3, max_iter=5000, checkpoint=str(path)).fit(x)
    assert same_bits(GaussianMixture(3, max_iter=5000, checkpoint=path).fit(x), first)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"n_components": 4}, "n_components"),
        ({"reg_covar": 1e-3}, "reg_covar"),
        ({}, "data"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused_by_name(change, what, tmp_path):
    path = tmp_path / "c"
    x = make_rows(200)
    GaussianMixture(3, checkpoint=path, random_state=0).fit(x)
    if what == "data":
        x = x * 1.01
    options = {"n_components": 3, "random_state": 0, **change}
    with pytest.raises(ValueError, match=f"another fit: its {what} is"):
        GaussianMixture(**options, checkpoint=path).fit(x)


def two_tables_of_the_same_moments():
    first = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (128, 1))
    second = first.copy()
    np.random.default_rng(0).shuffle(second[:, 1])
    return first, second


MEANS = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
OTHERS = {  # what is asked for first, what then, and what the message names
    "random_state": ({"random_state": 0}, {"random_state": 1}, "random_state"),
    "means_init": ({"means_init": MEANS}, {"means_init": MEANS + 1}, "means_init"),
    "no means_init": ({"means_init": MEANS}, {}, "means_init"),
    "weights_init": (
        {"weights_init": [0.2, 0.3, 0.5]},
        {"weights_init": [0.3, 0.2, 0.5]},
        "weights_init",
    ),
    "precisions_init": (
        {"precisions_init": np.tile(np.eye(4), (3, 1, 1))},
        {"precisions_init": np.tile(2 * np.eye(4), (3, 1, 1))},
        "precisions_init",
    ),
    "X_val": ({"X_val": make_rows(50, seed=1)}, {"X_val": make_rows(50, seed=2)}, "X_val"),
    "no X_val": ({}, {"X_val": make_rows(50, seed=2)}, "X_val"),
    "sample_weight": (
        {"sample_weight": np.r_[1.0, 2.0, np.ones(198)]},
        {"sample_weight": np.r_[2.0, 1.0, np.ones(198)]},
        "sample_weight",
    ),
    "order of rows": ({"x": make_rows(200)}, {"x": make_rows(200)[::-1]}, "data"),
    "shuffled column": (
        {"x": two_tables_of_the_same_moments()[0]},
        {"x": two_tables_of_the_same_moments()[1]},
        "data",
    ),
}


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("case", OTHERS)
def test_whatever_changes_the_result_is_compared(case, in_pieces, tmp_path):
    *pair, what = OTHERS[case]

    def fit(options):
        options = {"n_components": 3, "random_state": 0, "max_iter": 10, "tol": 0.0} | options
        x = options.pop("x", make_rows(200))
        given = {name: options.pop(name) for name in ("X_val", "sample_weight") if name in options}
        model = GaussianMixture(**options, checkpoint=tmp_path / "c")
        return model.fit(open_source(x, rows_per_piece=70) if in_pieces else x, **given)

    first = fit(pair[0])
    with pytest.raises(ValueError, match=f"another fit: its {what} is"):
        fit(pair[1])
    assert same_bits(fit(pair[0]), first)


def test_a_last_solution_to_continue_from_is_compared(tmp_path):
    x, options = make_rows(200), {"n_components": 2, "random_state": 0, "tol": 1e-2}
    model = GaussianMixture(**options, warm_start=True).fit(x)
    model.set_params(checkpoint=tmp_path / "c", tol=1e-5).fit(x)
    with pytest.raises(ValueError, match="another fit: its last solution is"):
        GaussianMixture(**options, checkpoint=tmp_path / "c").fit(x)


@pytest.mark.parametrize("scalar", [np.float64, np.float32])
def test_a_number_of_another_type_is_the_same_setting(scalar, tmp_path):
    x, path = make_rows(200), tmp_path / "c"
    first = GaussianMixture(2, checkpoint=path, reg_covar=2**-10, random_state=0).fit(x)
    options = {"n_components": np.int64(2), "reg_covar": scalar(2**-10), "random_state": 0}
    assert same_bits(GaussianMixture(**options, checkpoint=path).fit(x), first)


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"n_init": 3}, {"accelerate": None}, {"max_iter": 7}, {"max_iter": 7, "n_init": 2}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_asked_for_more_a_fit_goes_on_as_if_it_had_been_asked_at_first(
    options, in_pieces, tmp_path
):
    table = make_rows(300)
    table = open_source(table, rows_per_piece=70) if in_pieces else table
    common = {"n_components": 3, "random_state": 0, "n_jobs": 1}
    asked = (
        common | {"tol": 1e-6, "max_iter": 300} | {k: options[k] for k in options if k[0] != "m"}
    )
    whole = GaussianMixture(**asked).fit(table)
    path = tmp_path / "c"
    short = GaussianMixture(**common | {"tol": 1e-2} | options, checkpoint=path).fit(table)
    longer = GaussianMixture(**asked, checkpoint=path).fit(table)
    assert same_bits(longer, whole)
    assert longer.n_iter_ > short.n_iter_
    assert same_bits(GaussianMixture(**asked, checkpoint=path).fit(table), whole)


def test_a_checkpoint_that_cannot_be_written_costs_no_fit(tmp_path, monkeypatch):
    def refuse(path, chunks):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    x, path = make_rows(200), tmp_path / "c"
    whole = GaussianMixture(3, tol=1e-6, random_state=0, max_iter=500).fit(x)
    monkeypatch.setattr(checkpoint, "replace_file", refuse)
    model = GaussianMixture(3, tol=1e-6, random_state=0, max_iter=500, checkpoint=path)
    with pytest.warns(RuntimeWarning) as told:
        model.fit(x)
    assert len(told) == 1
    assert f"The checkpoint {path} cannot be written" in str(told[0].message)
    assert "No space left on device" in str(told[0].message)
    assert same_bits(model, whole)


def test_a_checkpoint_without_a_folder_is_refused_before_work_begins(tmp_path):
    model = GaussianMixture(3, checkpoint=tmp_path / "nowhere" / "c")
    with pytest.raises(FileNotFoundError, match="folder to save in does not exist"):
        model.fit(make_rows(200))
    assert not hasattr(model, "means_")


def test_damage_to_a_checkpoint_is_told(tmp_path):
    path = tmp_path / "c"
    x = make_rows(200)
    GaussianMixture(2, checkpoint=path, random_state=0).fit(x)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="checksum"):
        GaussianMixture(2, checkpoint=path).fit(x)


SCRIPT = """
import sys, warnings
import numpy as np
from gapmix import GaussianMixture, save
from gapmix.em import checkpoint
from gapmix.engines.sources import open_source
warnings.simplefilter("ignore")
checkpoint.EVERY_ITERATIONS = 1
folder, in_pieces = sys.argv[1], sys.argv[2] == "1"
path = folder + "/x.npy"
table = open_source(path, rows_per_piece=300) if in_pieces else np.load(path)
print("begin", flush=True)
model = GaussianMixture(3, tol=0, max_iter=60, random_state=1, n_jobs=2, checkpoint=sys.argv[3])
model.fit(table)
np.savez(sys.argv[3] + ".npz", means=model.means_, covariances=model.covariances_,
         bounds=model.lower_bounds_)
"""


@pytest.mark.parametrize("in_pieces", ["0", "1"])
def test_a_killed_driver_is_resumed_to_the_same_bits(in_pieces, tmp_path):
    np.save(tmp_path / "x.npy", make_rows(2000))

    def start(name):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), in_pieces, str(tmp_path / name)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with process.stdout as stream:
            assert stream.readline() == "begin\n"
        return process

    began = time.monotonic()
    assert start("whole").wait() == 0
    length = time.monotonic() - began
    whole = np.load(tmp_path / "whole.npz")
    rng = np.random.default_rng(int(in_pieces))
    n_killed, killer = 0, start("killed")
    for _ in range(10 if FULL else 2):
        path = tmp_path / "killed"
        deadline = time.monotonic() + 60
        while not path.exists() and killer.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.15 * length))
        n_killed += killer.poll() is None
        killer.send_signal(signal.SIGKILL)
        killer.wait()
        killer = start("killed")
    assert killer.wait() == 0
    found = np.load(tmp_path / "killed.npz")
    assert n_killed > 0
    assert all(found[name].tobytes() == whole[name].tobytes() for name in whole.files)
