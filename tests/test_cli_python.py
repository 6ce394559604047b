"""The command line does what Python does: the same defaults, the same cells, the same models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from gapmix import GaussianMixtureImputer, load, save
from gapmix.cli.fitting import make_imputer
from gapmix.cli.requests import Fitting
from gapmix.storage.tablefiles import writing_table

DATA = Path(__file__).parent / "data"
NUMBERS = ["a", "b", "whole", "same"]
BOUNDS = {"a": (0.5, None)}


def make_frame(n=120):
    """Return a table with a text, two numbers, whole numbers with gaps and a constant with gaps."""
    rng = np.random.default_rng(8)
    a = rng.normal(size=n) + 3 * (rng.random(n) < 0.4)
    b = 0.7 * a + 0.4 * rng.normal(size=n)
    whole = np.round(10 + 4 * b).astype(int)
    gaps = rng.random((n, 4)) < [0.2, 0.25, 0.2, 0.1]
    columns = {"a": a.tolist(), "b": b.tolist(), "whole": whole.tolist(), "same": [0.1] * n}
    shown = {
        name: [None if gap else value for gap, value in zip(gaps[:, j], values, strict=True)]
        for j, (name, values) in enumerate(columns.items())
    }
    return pl.DataFrame({"name": [f"row {i}" for i in range(n)], **shown})


def write(frame, path):
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)


def read(path):
    return pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("bounds", [None, BOUNDS])
def test_a_filled_file_is_the_filled_frame_cell_by_cell(gapmix, tmp_path, suffix, bounds):
    frame = make_frame()
    write(frame, tmp_path / f"t.{suffix}")
    options = () if bounds is None else ("--bounds", "a=0.5:")
    save_too = ("--save-model", "model")
    ran = gapmix(tmp_path, "impute", f"t.{suffix}", "-o", f"out.{suffix}", *save_too, *options)
    assert ran.code == 0, ran.err
    numbers = frame.select(NUMBERS)
    imputer = GaussianMixtureImputer(random_state=0, bounds=bounds).fit(numbers)
    expected = imputer.impute_frame(numbers)
    found = read(tmp_path / f"out.{suffix}")
    assert found.columns == frame.columns
    assert found["name"].equals(frame["name"])
    assert found.select(NUMBERS).equals(expected)
    assert set(found["same"]) == {0.1}
    # The file holds the same imputer: it gives the same bits here, there, and to new rows.
    again = gapmix(tmp_path, "impute", f"t.{suffix}", "-o", f"again.{suffix}", "-m", "model")
    assert again.code == 0, again.err
    assert read(tmp_path / f"again.{suffix}").equals(found)
    loaded = load(tmp_path / "model")
    assert isinstance(loaded, GaussianMixtureImputer)
    assert loaded.impute_frame(numbers).equals(expected)
    np.testing.assert_array_equal(loaded.intervals(numbers)[1], imputer.intervals(numbers)[1])
    np.testing.assert_array_equal(loaded.calibration_, imputer.calibration_)
    assert loaded.selection_[0]._replace(seconds=0) == imputer.selection_[0]._replace(seconds=0)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_deviations_and_scores_are_those_of_the_imputer(gapmix, tmp_path, suffix):
    frame = make_frame()
    write(frame, tmp_path / f"t.{suffix}")
    ran = gapmix(tmp_path, "impute", f"t.{suffix}", "-o", f"out.{suffix}", "--std", "--raw-means")
    assert ran.code == 0, ran.err
    numbers = frame.select(NUMBERS)
    imputer = GaussianMixtureImputer(random_state=0).fit(numbers)
    filled, std = imputer.impute_with_std(numbers)
    out = read(tmp_path / f"out.{suffix}")
    for j, name in enumerate(NUMBERS):
        np.testing.assert_array_equal(out[name].to_numpy(), filled[:, j])
        gaps = numbers[name].is_null()
        assert out[f"{name}_std"].is_null().to_list() == (~gaps).to_list()
        np.testing.assert_array_equal(out[f"{name}_std"].filter(gaps).to_numpy(), std[gaps, j])
    save(imputer, tmp_path / "model")
    assert gapmix(tmp_path, "score", f"t.{suffix}", "-m", "model", "-o", "s.csv").code == 0
    scores = pl.read_csv(tmp_path / "s.csv")["log_density"].to_numpy()
    np.testing.assert_array_equal(scores, imputer.score_samples(numbers))


def test_defaults_agree():
    default = GaussianMixtureImputer(random_state=0).get_params()
    assert make_imputer(Fitting()).get_params() == default
    assert Fitting().seed == 0


def test_marks_of_single_columns_of_a_model_from_python_hold_on_the_command_line(gapmix, tmp_path):
    frame = make_frame().select(NUMBERS)
    group = pl.Series("group", ["x", "y", "-9"] * len(frame)).head(len(frame))
    coded = frame.with_columns(pl.col("a").fill_null(-9.0), group)
    write(coded, tmp_path / "t.csv")
    marks = {"a": -9, "group": ["-9"]}
    imputer = GaussianMixtureImputer(1, missing_values=marks, random_state=0).fit(coded)
    save(imputer, tmp_path / "model")
    assert gapmix(tmp_path, "impute", "t.csv", "-o", "out.csv", "-m", "model").code == 0
    assert imputer.impute_frame(coded).equals(read(tmp_path / "out.csv"))
    save(imputer.set_params(missing_values={"gone": 0}), tmp_path / "model")
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "out.csv", "-m", "model")
    assert (ran.code, "missing_values name the column 'gone'" in ran.err) == (1, True)


def test_marks_and_bounds_of_a_model_hold_in_python_too(gapmix, tmp_path):
    frame = make_frame().with_columns(pl.col("a").fill_null(-9.0))
    write(frame, tmp_path / "t.csv")
    more = ("--missing-values=-9", "--bounds", "a=0.5:", "--components", "2")
    assert gapmix(tmp_path, "fit", "t.csv", "-o", "model", *more).code == 0
    assert gapmix(tmp_path, "impute", "t.csv", "-o", "out.csv", "-m", "model").code == 0
    loaded = load(tmp_path / "model")
    expected = loaded.impute_frame(frame.select(NUMBERS))
    assert expected["a"].min() >= 0.5 or expected["a"].min() in frame["a"]
    assert pl.read_csv(tmp_path / "out.csv").select(NUMBERS).equals(expected)


def test_bounds_given_with_a_model_hold(gapmix, tmp_path):
    frame = make_frame()
    write(frame, tmp_path / "t.csv")
    assert gapmix(tmp_path, "fit", "t.csv", "-o", "m", "--components", "1").code == 0
    ran = gapmix(tmp_path, "impute", "t.csv", "-m", "m", "-o", "o.csv", "--bounds", "a=0.1:0.2")
    assert ran.code == 0, ran.err
    filled = pl.read_csv(tmp_path / "o.csv")["a"].filter(frame["a"].is_null())
    assert 0.1 <= filled.min() <= filled.max() <= 0.2


def test_a_table_in_pieces_gets_constants_and_calibration_too(gapmix, tmp_path):
    frame = make_frame(1500).drop("name")
    table = frame.to_arrow()
    for number, low in enumerate((0, 700)):
        (tmp_path / "set").mkdir(exist_ok=True)
        part = table.slice(low, 700 if number == 0 else None)
        pq.write_table(part, tmp_path / "set" / f"{number}.parquet", row_group_size=300)
    more = ("--save-model", "m", "--memory", "1MB", "--raw-means")
    ran = gapmix(tmp_path, "impute", "set", "-o", "out.parquet", *more)
    assert ran.code == 0, ran.err
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert set(found["same"]) == {0.1}
    model = load(tmp_path / "m")
    np.testing.assert_array_equal(model.constant_, [np.nan, np.nan, np.nan, 0.1])
    assert model.calibration_ is not None
    assert [column["name"] for column in model.columns_] == NUMBERS
    np.testing.assert_allclose(model.transform(frame), found.to_numpy(), rtol=1e-9)


def test_a_model_of_an_earlier_version_fills_the_same_cells(gapmix, tmp_path):
    names = ("table-v1.csv", "table-v1.safetensors")
    for name in names:
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    ran = gapmix(
        tmp_path, "impute", names[0], "-m", names[1], "-o", "out.csv", "--std", "--raw-means"
    )
    assert ran.code == 0, ran.err
    found, expected = (pl.read_csv(f) for f in (tmp_path / "out.csv", DATA / "table-v1.filled.csv"))
    deviations = [name for name in expected.columns if name.endswith("_std")]
    assert deviations
    assert_frame_equal(found.drop(deviations), expected.drop(deviations), rel_tol=1e-13)
    for name in deviations:  # to rounding: they are computed from other factors now
        assert found[name].null_count() == expected[name].null_count()
        np.testing.assert_allclose(
            found[name].drop_nulls(), expected[name].drop_nulls(), rtol=1e-12, atol=0
        )
    plain = gapmix(tmp_path, "impute", names[0], "-m", names[1], "-o", "plain.csv")
    assert plain.code == 0, plain.err
    levels = {line.rsplit(",", 1)[1] for line in (tmp_path / "plain.csv").read_text().splitlines()}
    assert levels == {"level", "low", "high"}
    ran = gapmix(tmp_path, "sample", names[1], "-n", "3")
    assert all(line.split(",")[2].isdecimal() for line in ran.out.splitlines()[1:]), ran.out
    loaded = load(tmp_path / names[1])
    assert isinstance(loaded, GaussianMixtureImputer)
    assert loaded.feature_names_in_.tolist() == ["first", "second", "count", "level=low"]
    save(loaded, tmp_path / "new")
    assert (
        gapmix(
            tmp_path, "impute", names[0], "-m", "new", "-o", "b.csv", "--std", "--raw-means"
        ).code
        == 0
    )
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["impute", "--help"], ["impute", "x", "--seed", "-1"]]
)
def test_nothing_heavy_is_imported_to_answer_at_once(arguments):
    heavy = ("numpy", "scipy", "sklearn", "polars", "pyarrow", "numba", "narwhals", "pandas")
    program = (
        "import sys\n"
        "from gapmix.cli.main import main\n"
        f"main({arguments!r})\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.endswith("[]\n"), ran.stdout + ran.stderr


# ------------------------------------------------------------------ one writer for each kind


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["frame", "table", "array"])
def test_frames_tables_and_arrays_are_written_alike(tmp_path, suffix, kind):
    x = np.random.default_rng(0).normal(size=(50, 2)) * 1e-7
    names = ["with, comma", "b"]
    path = tmp_path / f"t.{suffix}"
    with writing_table(path, names) as add:
        for part in (x[:20], x[20:]):
            frame = pl.DataFrame(part, schema=["x", "y"])
            add({"frame": frame, "table": frame.to_arrow(), "array": part}[kind])
        assert not path.exists()
    found = read(path)
    assert found.columns == names
    np.testing.assert_array_equal(found.to_numpy(), x)


def test_a_table_that_is_broken_off_leaves_what_was_there(tmp_path):
    for name in ("t.csv", "t.parquet"):
        (tmp_path / name).write_text("old")
        with pytest.raises(ZeroDivisionError), writing_table(tmp_path / name, ["a"]) as add:
            add(np.zeros((3, 1))) or 1 / 0
        assert (tmp_path / name).read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_types_of_a_parquet_table_stay(tmp_path, gapmix):
    frame = make_frame(40).with_columns(
        kind=pl.Series(["u", "v"] * 20, dtype=pl.Categorical),
        grade=pl.Series(["lo", "hi"] * 20, dtype=pl.Enum(["lo", "hi"])),
        long=pl.Series([[1, 2]] * 40),
        span=pl.Series(range(40)).cast(pl.Duration("ms")),
        cost=pl.Series(range(40)).cast(pl.Decimal(10, 2)),
    )
    frame.write_parquet(tmp_path / "t.parquet")
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "o.parquet", "--components", "1")
    assert ran.code == 0, ran.err
    found = pl.read_parquet(tmp_path / "o.parquet")
    assert found.schema == frame.schema
    for name in ("kind", "grade", "long", "span", "cost"):
        assert found[name].equals(frame[name])
