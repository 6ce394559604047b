"""A save is whole or nothing, wherever it goes and whenever it is killed; other files are told."""

from __future__ import annotations

import errno
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
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture as Theirs
from tests.conftest import size
from tests.test_modelfile import assert_same_bits, fit, make_rows

import gapmix
from gapmix import GaussianMixture
from gapmix.modelfile.files import ModelFileError
from gapmix.storage import atomicfile


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
    mixtures = [fit(random_state=seed, max_iter=8, tol=10.0) for seed in range(3)]

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
    save_file({"weights": x}, path, {"gapmix": "3"})
    refuse("has format 3 and this version of gapmix reads up to 2. Install a newer one")
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
import gapmix.storage.atomicfile
from gapmix.modelfile.files import CODECS
from gapmix.storage.recordfile import Record, pack

rng = np.random.default_rng(0)
x = rng.normal(size=(400, 40))
x[rng.random(x.shape) < 0.1] = np.nan
models = [gapmix.GaussianMixture(3, random_state=s, max_iter=1, tol=1e9).fit(x) for s in (0, 1)]
codec = CODECS["GaussianMixture"]
pieces = [b"".join(pack(Record("GaussianMixture", *codec.to_record(m)))) for m in models]
whole = {model.covariances_.tobytes() for model in models}
folder, path = sys.argv[1], os.path.join(sys.argv[1], "model")
random.seed(1)


def save(number, way):
    if way == "in place":
        with open(path, "wb") as stream:
            stream.write(pieces[number])
    else:
        gapmix.save(models[number], path)


def kill_once(way, duration):
    child = os.fork()
    if child == 0:
        while True:
            save(1, way)
            save(0, way)
    time.sleep(random.uniform(0.0, 6 * duration + 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def read(name):
    try:
        found = gapmix.load(os.path.join(folder, name)).covariances_.tobytes()
    except ValueError:
        return None
    assert found in whole
    return found


for way, n_rounds in zip(sys.argv[2::2], map(int, sys.argv[3::2])):
    if way != "nameless":
        gapmix.storage.atomicfile.NAMELESS = 0
    gapmix.save(models[0], path)
    began = time.perf_counter()
    for _ in range(3):
        save(0, way)
    duration = (time.perf_counter() - began) / 3
    broken = halves = leftovers = changed = 0
    previous = read("model")
    for _ in range(n_rounds):
        kill_once(way, duration)
        found = read("model")
        broken += found is None
        changed += found != previous
        previous = found
        for name in set(os.listdir(folder)) - {"model"}:
            leftovers += 1
            halves += read(name) is None
            os.unlink(os.path.join(folder, name))
    print(broken, halves, leftovers, changed)
"""


class Killed(NamedTuple):
    """What was found after kills, one after the other."""

    broken: int  # the file could not be loaded
    halves: int  # other files, which could not be loaded either
    leftovers: int  # other files
    changed: int  # the file was not the one found before


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> dict[str, Killed]:
    """Return what is left when a process that saves again and again is killed at random times."""
    folder = tmp_path_factory.mktemp("killed")
    rounds = {"nameless": size(15, 200), "named": size(10, 200), "in place": size(10, 50)}
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            KILLED,
            folder,
            *(str(word) for pair in rounds.items() for word in pair),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [Killed(*map(int, line.split())) for line in run.stdout.splitlines()]
    return dict(zip(rounds, lines, strict=True))


def has_nameless_files(folder) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


def test_a_killed_save_leaves_the_old_or_the_new_file_and_nothing_else(killed, tmp_path):
    found = killed["nameless"]
    assert found.broken == 0
    assert found.changed > 0
    if has_nameless_files(tmp_path):
        assert found.halves == 0
        assert found.leftovers <= size(1, 10)  # whole, killed before it took its place


def test_a_killed_save_on_systems_without_nameless_files_leaves_the_old_or_the_new(killed):
    assert killed["named"].broken == 0
    assert killed["named"].changed > 0


def test_killing_finds_half_files_where_they_are_written_in_place(killed):
    assert killed["in place"].broken > 0
