"""Tables larger than memory on the command line: the fit, the file written, and what is refused."""

import json
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks import outofcore
from distributed import Client

from gapmix import GaussianMixture, load
from gapmix.cli import main as cli
from gapmix.cli import streaming
from gapmix.cli.requests import Reading, Streaming
from gapmix.engines import dask as dask_engine
from gapmix.engines.dask import open_local_cluster
from gapmix.engines.sources import open_source
from gapmix.estimators.pieces import impute_source

FIT = ("--components", "2", "--max-iter", "8")


def make_rows(n=3000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) + 4.0 * rng.integers(0, 2, size=(n, 1))
    x[rng.random(x.shape) < 0.15] = np.nan
    return x


def columns_of(x):
    return {f"v{j}": pa.array(x[:, j], from_pandas=True) for j in range(x.shape[1])}


@pytest.fixture
def folder(tmp_path):
    """Two files with a text, a date, whole numbers with and without gaps, and a float32."""
    x = make_rows()
    n = len(x)
    whole = pa.array([None if i % 7 == 0 else i % 5 for i in range(n)], pa.int32())
    table = pa.table(
        {
            "name": [f"=row {i}" if i % 2 else None for i in range(n)],
            **columns_of(x),
            "key": pa.array(np.arange(n) + 2**60),
            "count": whole,
            "when": pa.array(np.arange(n), pa.timestamp("s")),
            "small": pa.array(x[:, 0].astype(np.float32), from_pandas=True),
            "empty": pa.nulls(n, pa.float64()),
        }
    )
    (tmp_path / "set").mkdir()
    for i, low in enumerate((0, 1300)):
        part = table.slice(low, 1300 if i == 0 else None)
        pq.write_table(part, tmp_path / "set" / f"{i}.parquet", row_group_size=400)
    return tmp_path, table


def same_where_observed(before, after):
    for name in before.column_names:
        old, new = before.column(name).to_pylist(), after.column(name).to_pylist()
        for a, b in zip(old, new, strict=True):
            assert a == b or a is None, name


def test_a_folder_is_filled_in_row_order_and_other_columns_come_along(gapmix, folder):
    path, table = folder
    options = (*FIT, "--memory", "1MB", "--leave-out", "key", "--bounds", "v0=0:1")
    ran = gapmix(path, "impute", "set", "-o", "out.parquet", "--save-model", "m", *options)
    assert ran.code == 0, ran.err
    assert (
        "'name' (an id: 1,500 different texts in 1,500 cells; 1,500 gaps left), "
        "'when' (dates; no gaps)." in ran.err
    )
    assert "'empty' has no values to learn from" in ran.err
    out = pq.read_table(path / "out.parquet")
    assert out.column_names == table.column_names
    same_where_observed(table, out)
    types = {"count": pa.int32(), "small": pa.float32(), "key": pa.int64()}
    assert {name: out.schema.field(name).type for name in types} == types
    filled = [f"v{j}" for j in range(4)] + ["count", "small"]
    assert {out.column(name).null_count for name in filled} == {0}
    assert out.column("empty").null_count == len(table)
    gaps = table.column("v0").is_null().to_numpy()
    v0 = out.column("v0").to_numpy()[gaps]
    assert ((v0 >= 0) & (v0 <= 1)).all()
    assert not list(path.glob(".*tmp"))
    # The model fills the same bits, also of a single file, and means as they are if asked.
    more = ("-m", "m", "--memory", "1MB", "--checkpoint", "state", "--raw-means")
    ran = gapmix(path, "impute", "set/1.parquet", "-o", "one.parquet", *more)
    assert ran.code == 0, ran.err
    one = pq.read_table(path / "one.parquet")
    np.testing.assert_allclose(
        one.column("v1").to_numpy(), out.column("v1").to_numpy()[1300:], rtol=1e-12
    )
    assert one.schema.field("count").type == pa.float64()
    assert one.column("count").null_count == 0


def test_categories_are_filled_in_pieces_as_python_fills_them(gapmix, tmp_path):
    rng = np.random.default_rng(0)
    n = 3000
    group = rng.integers(0, 2, n)
    x = make_rows(n, 2) + 4.0 * group[:, None]

    def gappy(values):
        return [None if gap else v for v, gap in zip(values, rng.random(n) < 0.1, strict=True)]

    city = gappy(np.where(group ^ (rng.random(n) < 0.1), "Ulm", "=Bonn").tolist())
    table = pa.table(
        {
            "who": [f"p{i}" for i in range(n)],
            **columns_of(x),
            "city": city,
            "ok": pa.array(gappy((group == 1).tolist())),
            "grade": pa.array(gappy(np.where(group, "hi", "lo").tolist())).dictionary_encode(),
            "code": pa.array(gappy((group + 7).tolist()), pa.int8()),
            "same": gappy(["always"] * n),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=400)
    options = (*FIT, "--memory", "1MB", "--checkpoint", "state", "--categories", "code", "--json")
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "o.parquet", "--save-model", "m", *options)
    assert ran.code == 0, ran.err
    assert "'who' (an id: 3,000 different texts in 3,000 cells; no gaps)" in ran.err
    out, told = pq.read_table(tmp_path / "o.parquet"), json.loads(ran.out)
    assert out.schema.types == table.schema.types
    same_where_observed(table, out)
    assert [column.null_count for column in out.columns] == [0] * table.num_columns
    assert told["by_column"]["city"] == city.count(None)
    assert told["sure"]["explained"] > 0.3
    assert told["sure"]["probability"] > 0.8
    used, levels = table.column_names[1:], ["city", "ok", "grade", "code", "same"]
    source = open_source(tmp_path / "t.parquet", memory="1MB", columns=used)
    assert len(source.pieces) > 2
    mixture = GaussianMixture(
        2,
        max_iter=8,
        random_state=0,
        shrinkage="auto",
        mean_shrinkage="auto",
        categorical_features=levels,
    ).fit(source)
    impute_source(mixture, source, tmp_path / "python.parquet")
    python = pq.read_table(tmp_path / "python.parquet")
    for name in levels:
        assert python.column(name).to_pylist() == out.column(name).to_pylist()
    right = np.array(out.column("ok").to_pylist()) == (group == 1)
    assert right[table.column("ok").is_null().to_numpy()].mean() > 0.9
    # The model fills other tables in pieces and whole, the same; what it does not know is kept.
    other = table.slice(0, 500).set_column(3, "city", [["Rome", None] * 250])
    pq.write_table(other, tmp_path / "u.parquet")
    ran = gapmix(tmp_path, "impute", "u.parquet", "-o", "p.parquet", "-m", "m", "--checkpoint", "s")
    assert ran.code == 0, ran.err
    assert "250 cells of 'city' hold a level that the model does not know" in ran.err
    assert gapmix(tmp_path, "impute", "u.parquet", "-o", "w.parquet", "-m", "m").code == 0
    pieces, whole = pq.read_table(tmp_path / "p.parquet"), pq.read_table(tmp_path / "w.parquet")
    assert pieces.column("city").to_pylist()[::2] == ["Rome"] * 250
    for name in levels:
        assert pieces.column(name).to_pylist() == whole.column(name).to_pylist()


def test_sizes_are_found_on_a_sample_of_a_mixed_table(gapmix, tmp_path):
    x = make_rows(400, 2)
    word = [None if i % 9 == 0 else "ab"[int(x[i, 0] > 2)] for i in range(400)]
    pq.write_table(pa.table({"word": word, **columns_of(x)}), tmp_path / "t.parquet")
    options = ("--checkpoint", "state", "--tol", "0.1", "--json")
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "o.csv", *options)
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert len(told["fit"]["selection"]) > 1
    assert told["by_column"]["word"] == word.count(None)
    assert pl.read_csv(tmp_path / "o.csv")["word"].null_count() == 0


def test_the_fit_is_that_of_the_library_and_a_checkpoint_goes_on(gapmix, tmp_path):
    x = make_rows()
    pq.write_table(pa.table(columns_of(x)), tmp_path / "t.parquet", row_group_size=500)
    options = (*FIT, "--memory", "1MB", "--checkpoint", "state", "--json", "--threads", "1")
    assert gapmix(tmp_path, "fit", "t.parquet", "-o", "a", *options).code == 0
    ran = gapmix(tmp_path, "fit", "t.parquet", "-o", "b", *options)
    assert (ran.code, "goes on after iteration" in ran.err) == (0, True), ran.err
    source = open_source(tmp_path / "t.parquet", memory="1MB")
    assert len(source.pieces) > 2
    model = GaussianMixture(
        2, max_iter=8, random_state=0, shrinkage="auto", mean_shrinkage="auto"
    ).fit(source)
    for name in ("a", "b"):
        found = load(tmp_path / name).mixture_
        for array in ("weights_", "means_", "covariances_"):
            assert getattr(found, array).tobytes() == getattr(model, array).tobytes()
        assert found.checkpoint is None


def test_a_binary_matrix_is_filled_to_csv(gapmix, tmp_path):
    x = make_rows(600)
    np.save(tmp_path / "x.npy", x)
    ran = gapmix(tmp_path, "impute", "x.npy", "-o", "out.csv", *FIT)
    assert ran.code == 0, ran.err
    out = pl.read_csv(tmp_path / "out.csv")
    assert out.columns == [f"column_{j}" for j in range(1, 5)]
    observed = ~np.isnan(x)
    np.testing.assert_array_equal(out.to_numpy()[observed], x[observed])
    assert not out.null_count().sum_horizontal().item()


def test_the_number_of_components_is_found_on_a_sample(gapmix, tmp_path):
    x = make_rows(1500)
    pq.write_table(pa.table(columns_of(x)), tmp_path / "t.parquet", row_group_size=300)
    more = ("--memory", "1MB", "--checkpoint", "state", "--json")
    ran = gapmix(tmp_path, "fit", "t.parquet", "-o", "m", *more)
    assert ran.code == 0, ran.err
    n_found = len(load(tmp_path / "m").mixture_.weights_)
    assert f'"n_components": {n_found}' in ran.out
    assert n_found >= 2


def test_large_tables_are_read_in_pieces_by_themselves(tmp_path):
    pq.write_table(pa.table(columns_of(make_rows(10_000))), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert not streaming.is_needed(tmp_path / "t.parquet", Reading(), Streaming())
    assert streaming.is_needed(tmp_path / "t.parquet", Reading(memory="1MB"), Streaming())
    assert not streaming.is_needed(tmp_path / "t.parquet", Reading(memory="2MB"), Streaming())
    assert streaming.is_needed(tmp_path, Reading(), Streaming())
    assert not streaming.is_needed(tmp_path / "t.csv", Reading(memory="1MB"), Streaming())
    assert streaming.is_needed(tmp_path / "t.csv", Reading(), Streaming(scheduler="tcp://h:1"))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("t.csv",), 2, "cannot be read in pieces"),
        (("none.parquet",), 2, "no file or folder"),
        (("t.parquet", "--memory", "lots"), 2, "--memory='lots' is not an amount"),
        (("t.parquet", "--memory", "10KB"), 2, "too little"),
        (("t.parquet", "--memory", "1MB", "--components", "900"), 1, "sums and a few rows take"),
        (("t.parquet", "--numbers", "name"), 2, "--numbers needs the whole"),
        (("t.parquet", "--draws", "2"), 2, "--draws needs the whole"),
        (("t.parquet", "--std"), 2, "--std needs the whole"),
        (("t.parquet", "--missing-values", "7"), 2, "--missing-values needs the whole"),
        (("t.parquet", "--columns", "name"), 1, "holds numbers or categories"),
        (("t.parquet", "--columns", "nome"), 2, "Did you mean 'name'"),
        (("t.parquet", "--scheduler", "host"), 2, "must be an address"),
        (("t.parquet", "--checkpoint", "no/where"), 2, "no folder 'no'"),
        (("bad.parquet",), 1, "not a whole Parquet file"),
        (("inf.parquet", "--components", "1"), 1, "Row 7, column 'v1' holds inf"),
        (("t.parquet", "--components", "101"), 1, "Lower --components."),
        (("empty",), 2, "a folder without any file"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_written(
    gapmix, tmp_path, arguments, code, said
):
    x = make_rows(100)
    table = {"name": [f"n{i}" for i in range(100)], **columns_of(x)}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    x[7, 1] = np.inf
    pq.write_table(pa.table(columns_of(x)), tmp_path / "inf.parquet")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "empty").mkdir()
    pieces = () if "--checkpoint" in arguments else ("--checkpoint", "state")
    ran = gapmix(tmp_path, "impute", *arguments, "-o", "out.parquet", *pieces)
    assert ran.code == code, ran.err
    assert said in ran.err.replace("\n", " ")
    assert not (tmp_path / "out.parquet").exists()


def test_an_output_that_pieces_cannot_go_to_is_refused(gapmix, tmp_path):
    pq.write_table(pa.table(columns_of(make_rows(50))), tmp_path / "t.parquet")
    for output, said in (
        ((), "needs --output"),
        (("-o", "out.dat"), "needs --output"),
        (("-o", "out.npy"), "files that end in .npy are not written"),
    ):
        ran = gapmix(tmp_path, "impute", "t.parquet", "--checkpoint", "state", *output)
        assert (ran.code, said in ran.err) == (2, True), ran.err


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_gives_the_bits_of_threads(gapmix, tmp_path):
    x = make_rows()
    pq.write_table(pa.table(columns_of(x)), tmp_path / "t.parquet", row_group_size=200)
    arguments = ("impute", "t.parquet", *FIT, "--memory", "1MB")
    more = ("-o", "threads.parquet", "--checkpoint", "state")
    assert gapmix(tmp_path, *arguments, *more).code == 0
    with open_local_cluster(2) as cluster, Client(cluster, set_as_default=False) as client:
        address = client.scheduler.address
        command = [sys.executable, "-m", "gapmix", *arguments, "-o", "dask.parquet"]
        ran = subprocess.run(
            [*command, "--scheduler", address], cwd=tmp_path, capture_output=True, text=True
        )
    assert ran.returncode == 0, ran.stderr
    one, other = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("threads", "dask"))
    assert one.equals(other)


def test_an_absent_cluster_is_told_in_time(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dask_engine, "CONNECT", 1)
    path, out = tmp_path / "t.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table(columns_of(make_rows(100))), path)
    out.write_text("old")
    began = time.monotonic()
    more = ("--scheduler", "tcp://127.0.0.1:9", "--components", "1")
    assert cli.main(["impute", str(path), "-o", str(out), *more]) == 1
    assert time.monotonic() - began < 30
    assert "no Dask scheduler answered within 1 s" in capsys.readouterr().err.replace("\n", " ")
    assert out.read_text() == "old"


def test_a_set_is_fitted_and_filled_under_a_budget_and_checked_by_cell(tmp_path):
    # Compiling takes memory too, and how much depends on the machine: it is done ahead, and what a
    # small set takes (imports and compiled code) is the base of the comparison.
    outofcore.run(["warm-up"], tmp_path / "warm-up.log")
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    base = outofcore.study(small, 0.002, "20MB", [])
    found = outofcore.study(large, 0.02, "20MB", [])
    assert found["observed cells"] + found["filled cells"] == found["rows"] * outofcore.N_COLUMNS
    for job in ("fit", "fill"):
        assert found[f"{job}, peak bytes"] - base[f"{job}, peak bytes"] < 200e6
