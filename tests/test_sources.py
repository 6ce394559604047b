"""Tables in pieces: the same rows from every kind of source, the same fit, little memory."""

import os
import subprocess
import sys

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import ConvergenceWarning

from gapmix import GaussianMixture
from gapmix import units as scaling
from gapmix.engines import pieces as in_pieces
from gapmix.engines import sources
from gapmix.engines.budget import read_memory
from gapmix.engines.sources import SourceError, open_source, read
from gapmix.estimators.pieces import impute_source
from gapmix.fitting.progress import listening

FULL = "GAPMIX_FULL" in os.environ


def make_rows(n=700, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    x += rng.integers(0, 2, size=(n, 1)) * 6.0
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


def write_parquet(path, x, group=100, **options):
    frame = pa.table({f"c{j}": pa.array(x[:, j], from_pandas=True) for j in range(x.shape[1])})
    pq.write_table(frame, path, row_group_size=group, **options)


def name_columns(x, model):
    names = getattr(model, "feature_names_in_", None)
    return x if names is None else pd.DataFrame(x, columns=names)


@pytest.fixture
def make_source(tmp_path):
    def make(kind, x):
        if kind == "array":
            return open_source(x, rows_per_piece=130)
        if kind == "npy":
            np.save(tmp_path / "x.npy", x)
            return open_source(tmp_path / "x.npy", rows_per_piece=130)
        if kind == "fortran":
            np.save(tmp_path / "f.npy", np.asfortranarray(x))
            return open_source(tmp_path / "f.npy", rows_per_piece=130)
        if kind == "memmap":
            whole = np.memmap(tmp_path / "x.bin", float, "w+", 16, x.shape)
            whole[:] = x
            whole.flush()
            return open_source(whole, rows_per_piece=130)
        if kind == "view":
            whole = np.memmap(tmp_path / "x.bin", float, "w+", 0, (len(x) + 3, x.shape[1]))
            whole[3:] = x
            return open_source(whole[3:], rows_per_piece=130)
        if kind == "parquet":
            write_parquet(tmp_path / "x.parquet", x, 60)
            return open_source(tmp_path / "x.parquet", rows_per_piece=130)
        if kind == "large groups":
            write_parquet(tmp_path / "x.parquet", x, 400)
            return open_source(tmp_path / "x.parquet", rows_per_piece=130)
        if kind == "folder":
            (tmp_path / "set").mkdir()
            for i, low in enumerate(range(0, len(x), 300)):
                write_parquet(tmp_path / "set" / f"part-{i}.parquet", x[low : low + 300])
            return open_source(tmp_path / "set", rows_per_piece=130)
        if kind == "dask array":
            return open_source(dask.array.from_array(x, chunks=(130, 2)))
        frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
        return open_source(dask.dataframe.from_pandas(frame, npartitions=5))

    return make


KINDS = ["array", "npy", "fortran", "memmap", "view", "parquet", "large groups", "folder"]
KINDS += ["dask array", "dask frame"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_its_rows_once_and_in_order(kind, make_source):
    x = make_rows()
    source = make_source(kind, x)
    assert (source.n_rows, source.d) == x.shape
    assert len(source.pieces) > 2
    parts = [read(piece) for piece in source.pieces]
    assert [len(part) for part in parts] == [piece.n_rows for piece in source.pieces]
    np.testing.assert_array_equal(np.concatenate(parts), x)


@pytest.mark.parametrize("kind", ["npy", "folder", "dask array", "dask frame"])
def test_a_fit_in_pieces_is_the_fit_in_memory(kind, make_source):
    x = make_rows()
    options = {"n_components": 2, "tol": 1e-8, "random_state": 0, "n_jobs": 2}
    whole = GaussianMixture(**options).fit(x)
    pieces = GaussianMixture(**options).fit(make_source(kind, x))
    order = np.argsort(pieces.means_[:, 0])
    expected = np.argsort(whole.means_[:, 0])
    assert pieces.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(pieces.means_[order], whole.means_[expected], rtol=1e-4)
    np.testing.assert_allclose(
        pieces.score_samples(name_columns(x, pieces)).mean(),
        whole.score_samples(x).mean(),
        rtol=1e-8,
    )


def test_weights_and_empty_rows_count_as_in_memory():
    x = make_rows()
    x[::7] = np.nan
    weight = np.random.default_rng(2).integers(0, 3, size=len(x)).astype(float)
    whole = GaussianMixture(1, random_state=0, tol=1e-9).fit(x, sample_weight=weight)
    pieces = GaussianMixture(1, random_state=0, tol=1e-9).fit(
        open_source(x, rows_per_piece=90), sample_weight=weight
    )
    np.testing.assert_allclose(pieces.means_, whole.means_, rtol=1e-7)
    np.testing.assert_allclose(pieces.covariances_, whole.covariances_, rtol=1e-6)


def test_what_the_sample_never_shows_is_learned_from_all_rows(monkeypatch):
    """Starting values come from a sample; units and every pass of EM from all rows."""
    x = make_rows(3000)
    seen = np.flatnonzero(~np.isnan(x[:, 3]))[::60]
    rare = np.full(len(x), np.nan)
    rare[seen] = x[seen, 3]
    x[:, 3] = rare  # some 40 values in 3,000 rows
    monkeypatch.setattr(in_pieces, "MAX_SAMPLE", 100)
    monkeypatch.setattr(in_pieces, "SAMPLE_PER_NUMBER", 1)
    options = {"n_components": 1, "tol": 1e-9, "max_iter": 500, "random_state": 0}
    pieces = GaussianMixture(**options).fit(open_source(x, rows_per_piece=500))
    whole = GaussianMixture(**options).fit(x)
    assert pieces.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-8)
    np.testing.assert_allclose(pieces.means_, whole.means_, rtol=1e-3)


def test_merged_summaries_are_the_summary_of_all_rows():
    x = make_rows() * [1e-8, 1.0, 1e12, 1.0] + [0.0, 1e6, 0.0, 0.0]
    x[:, 3] = np.nan
    weight = np.random.default_rng(1).random(len(x))
    parts = [scaling.summarize(x[i : i + 90], weight[i : i + 90]) for i in range(0, len(x), 90)]
    merged = parts[0]
    for part in parts[1:]:
        merged = scaling.merge(merged, part)
    for found, wanted in zip(scaling.from_summary(merged), scaling.measure(x, weight), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_filling_in_pieces_writes_the_rows_in_order(suffix, tmp_path, make_source):
    x = make_rows()
    source = make_source("folder", x)
    model = GaussianMixture(2, random_state=0).fit(source)
    told = []
    out = tmp_path / f"out.{suffix}"
    with listening(None, pieces=lambda *args: told.append(args)):
        impute_source(model, source, out)
    frame = pd.read_parquet(out) if suffix == "parquet" else pd.read_csv(out)
    assert list(frame.columns) == list(source.names)
    np.testing.assert_allclose(
        frame.to_numpy(), model.impute(pd.DataFrame(x, columns=source.names)), rtol=1e-12
    )
    assert told[-1] == ("fill", len(source.pieces), len(source.pieces))
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


def test_progress_is_told_piece_by_piece(make_source):
    told = []
    source = make_source("array", make_rows())
    with listening(None, pieces=lambda *args: told.append(args)):
        GaussianMixture(2).fit(source)
    n = len(source.pieces)
    assert told[:n] == [("survey", i + 1, n) for i in range(n)]
    assert told[n : 2 * n] == [("pass", i + 1, n) for i in range(n)]


@pytest.mark.parametrize(
    ("text", "n_bytes"), [("4GB", 4 * 10**9), ("1.5 MiB", 3 * 2**19), ("2000000", 2_000_000)]
)
def test_amounts_of_memory_are_read(text, n_bytes):
    assert read_memory(text) == n_bytes


@pytest.mark.parametrize("text", ["", "lots", "4XB", "1.2.3GB", "10B"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="memory="):
        read_memory(text)


def test_what_cannot_be_read_is_told_by_file_and_column(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        open_source(tmp_path / "none.parquet")
    (tmp_path / "x.txt").write_text("1")
    with pytest.raises(SourceError, match=r"\.npy, \.parquet"):
        open_source(tmp_path / "x.txt")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match=r"bad\.parquet: not a whole Parquet file"):
        open_source(tmp_path / "bad.parquet")
    pq.write_table(pa.table({"a": [1.0], "b": [b"x"]}), tmp_path / "bytes.parquet")
    with pytest.raises(SourceError, match="column 'b' has type binary"):
        open_source(tmp_path / "bytes.parquet")
    assert open_source(tmp_path / "bytes.parquet", columns=["a"]).d == 1
    x = make_rows()
    x[555, 2] = np.inf
    with pytest.raises(SourceError, match="Row 555, column 2 holds inf"):
        GaussianMixture(2).fit(open_source(x, rows_per_piece=100))


def test_a_missing_optional_package_is_named():
    with pytest.raises(ImportError, match=r"pip install 'gapmix\[cli\]'"):
        sources.need("no_such_module_here", "cli")


def test_the_plan_of_a_table_in_pieces_says_that_it_saw_a_sample(monkeypatch):
    x = make_rows(3000)
    monkeypatch.setattr(in_pieces, "MAX_SAMPLE", 1000)
    monkeypatch.setattr(in_pieces, "SAMPLE_PER_NUMBER", 1)
    model = GaussianMixture(2, max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(open_source(x, rows_per_piece=500))
    first = model.plan_.explain().splitlines()[0]
    assert first.startswith("A table of 3,000 rows; in a sample: ")
    assert "sample" in model._repr_mimebundle_()["text/html"]
    with pytest.warns(ConvergenceWarning):
        model.fit(x)
    assert model.plan_.explain().startswith("2,997 rows x ")  # three are empty


MEMORY_SCRIPT = """
import resource, sys, warnings
from gapmix import GaussianMixture
from gapmix.estimators.pieces import impute_source
from gapmix.engines.sources import open_source
warnings.simplefilter("ignore")
small = open_source(sys.argv[2])
GaussianMixture(3, max_iter=2, n_jobs=2).fit(small)  # compiles what is used
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
source = open_source(sys.argv[1], memory=sys.argv[3])
model = GaussianMixture(3, max_iter=int(sys.argv[5]), random_state=0, n_jobs=2).fit(source)
impute_source(model, source, sys.argv[4])
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as Linux does")
def test_memory_stays_near_the_budget(tmp_path):
    n_files, n, budget = (40, 100_000, 150) if FULL else (4, 40_000, 48)
    rng = np.random.default_rng(0)
    for i in range(n_files):
        x = rng.normal(size=(n, 30)) + rng.integers(0, 3, size=(n, 1))
        x[rng.random(x.shape) < 0.1] = np.nan
        (tmp_path / "set").mkdir(exist_ok=True)
        write_parquet(tmp_path / "set" / f"{i:03}.parquet", x, 50_000)
    write_parquet(tmp_path / "small.parquet", x[:500])
    command = [sys.executable, "-c", MEMORY_SCRIPT, tmp_path / "set", tmp_path / "small.parquet"]
    command += [f"{budget}MB", tmp_path / "out.parquet", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = (int(text) / 1000 for text in done.stdout.split())
    print(f"{8 * 30 * n * n_files / 1e6:.0f} MB of cells, budget {budget} MB: {before} -> {after}")
    assert after - before < 2 * budget
    out = pq.ParquetFile(tmp_path / "out.parquet")
    assert out.metadata.num_rows == n * n_files
    last = pq.read_table(tmp_path / "out.parquet").to_pandas().to_numpy()[-n:]
    assert not np.isnan(last).any()
    np.testing.assert_array_equal(last[~np.isnan(x)], x[~np.isnan(x)])


def test_a_name_used_twice_is_told(tmp_path):
    values = pa.array(np.arange(9.0))
    pq.write_table(
        pa.table([values, values, values], names=["a", "b", "a"]), tmp_path / "t.parquet"
    )
    with pytest.raises(SourceError, match="the name 'a' is used by 2 columns"):
        open_source(tmp_path / "t.parquet")


def test_whole_numbers_beyond_float64_are_read(tmp_path):
    table = pa.table({"n": [2**60 + 1, None, 3], "u": pa.array([2**64 - 1, 0, None], pa.uint64())})
    pq.write_table(table, tmp_path / "t.parquet")
    x = read(open_source(tmp_path / "t.parquet").pieces[0])
    np.testing.assert_array_equal(x, [[2.0**60, 2.0**64], [np.nan, 0.0], [3.0, np.nan]])


@pytest.mark.parametrize("n_bytes", [0, 5, 60, 400])
def test_a_npy_file_that_is_not_whole_is_refused_by_name(tmp_path, n_bytes):
    path = tmp_path / "t.npy"
    np.save(path, np.ones((50, 3)))
    path.write_bytes(path.read_bytes()[:n_bytes])
    wanted = f"t.npy: not a whole .npy file of numbers; it has {n_bytes} bytes"
    for use in (open_source, GaussianMixture(1).fit):
        with pytest.raises(SourceError, match=wanted):
            use(path)


def test_a_npy_file_with_a_damaged_header_is_refused_by_name(tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.ones((50, 3)))
    raw = path.read_bytes()
    for damaged in (raw.replace(b"(50, 3)", b"(50, 3q"), b"x" * 200):
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match=r"t\.npy: not a whole .* numpy\.save"):
            open_source(path)
