"""The command line as a user meets it: real processes, real files, messages and exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

import numpy as np
import polars as pl
import pytest
from tests.commandline import CommandLine

from gapmix import GaussianMixture, save

RNG = np.random.default_rng(0)
N = 60


@pytest.fixture(scope="module")
def gapmix():
    line = CommandLine()
    yield line.run
    line.close()


def make_rows(n=N, d=3, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, d)) + np.arange(d)
    x[rng.random((n, d)) < share] = np.nan
    x[0] = np.arange(d)
    return x


def write_rows(path, x, names=None, **changes):
    """Write a matrix, with further columns of text."""
    names = names or [f"v{j}" for j in range(x.shape[1])]
    columns = {
        name: ["" if np.isnan(v) else repr(float(v)) for v in x[:, j]]
        for j, name in enumerate(names)
    }
    columns.update(changes)
    lines = [",".join(columns)] + [",".join(row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def cells(path, delimiter=","):
    return [line.split(delimiter) for line in path.read_text().splitlines()]


FIT = ("--components", "2", "--threads", "1")


# ------------------------------------------------------------------ filling


def test_observed_cells_come_back_as_they_were_and_gaps_are_filled(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x)
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", *FIT)
    assert (ran.code, ran.out) == (0, ""), ran.err
    before, after = cells(tmp_path / "in.csv"), cells(tmp_path / "out.csv")
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        for a, b in zip(old, new, strict=True):
            assert a == b if a else np.isfinite(float(b))


def test_the_filled_cells_are_the_conditional_means_to_the_last_bit(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x)
    assert gapmix(tmp_path, "fit", "in.csv", "-o", "model", *FIT).code == 0
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--std", "-m", "model")
    assert ran.code == 0, ran.err
    import gapmix as library

    model = library.load(tmp_path / "model")
    gaps = np.isnan(x).any(axis=1)
    filled, std = model.mixture_.impute(x[gaps], return_std=True)
    out = pl.read_csv(tmp_path / "out.csv", infer_schema_length=None)
    found = out.select("v0", "v1", "v2").to_numpy()[gaps]
    np.testing.assert_array_equal(found, filled)
    deviations = out.select("v0_std", "v1_std", "v2_std").fill_null(0.0).to_numpy()[gaps]
    np.testing.assert_array_equal(deviations, std)


def test_a_model_fills_a_batch_to_the_same_bits_and_a_row_to_rounding(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x)
    first = gapmix(
        tmp_path, "impute", "in.csv", "-o", "a.csv", "--std", "--save-model", "model", *FIT
    )
    second = gapmix(tmp_path, "impute", "in.csv", "-o", "b.csv", "--std", "-m", "model")
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    batch = pl.read_csv(tmp_path / "a.csv", infer_schema_length=None)
    row = int(np.flatnonzero(np.isnan(x).sum(axis=1) == 1)[0])
    column = int(np.flatnonzero(np.isnan(x[row]))[0])
    write_rows(tmp_path / "one.csv", x[row : row + 1])
    assert gapmix(tmp_path, "impute", "one.csv", "-o", "c.csv", "-m", "model").code == 0
    alone = float(cells(tmp_path / "c.csv")[1][column])
    spread = batch[f"v{column}_std"][row]
    assert abs(alone - batch[f"v{column}"][row]) < 1e-12 * spread


def test_columns_are_found_by_name_in_any_order(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x)
    write_rows(tmp_path / "turned.csv", x[:, [2, 0, 1]], ["v2", "v0", "v1"], extra=["t"] * N)
    assert gapmix(tmp_path, "fit", "in.csv", "-o", "model", *FIT).code == 0
    assert gapmix(tmp_path, "impute", "in.csv", "-o", "a.csv", "-m", "model").code == 0
    ran = gapmix(tmp_path, "impute", "turned.csv", "-o", "b.csv", "-m", "model")
    assert ran.code == 0, ran.err
    assert "Column 'extra': not known to the model" in ran.err
    a, b = pl.read_csv(tmp_path / "a.csv"), pl.read_csv(tmp_path / "b.csv")
    assert b.columns == ["v2", "v0", "v1", "extra"]
    assert a.equals(b.select("v0", "v1", "v2"))


def test_a_new_users_table_with_everything_in_it(gapmix, tmp_path):
    x = make_rows()
    lines = ["name;day;constant;empty;v;v;marked;whole"]
    for i, row in enumerate(x):
        numbers = ["" if np.isnan(v) else f"{v:.6f}".replace(".", ",") for v in row]
        mark = "?" if i % 4 == 0 else numbers[2] or "1,5"
        whole = "" if i % 7 == 3 else str(i)
        lines.append(f"n{i};2020-01-{i % 28 + 1:02d};7;;{numbers[0]};{numbers[1]};{mark};{whole}")
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", *FIT)
    assert ran.code == 0, ran.err
    for part in (
        "decimal comma",
        "Columns 'name', 'day' hold no numbers",
        "Column 'empty' has no value in any row: left empty",
        "The name 'v' is used by more than one column",
    ):
        assert part in ran.err
    before, after = cells(tmp_path / "in.csv", ";"), cells(tmp_path / "out.csv", ";")
    assert after[0] == before[0]
    for old, new in zip(before[1:], after[1:], strict=True):
        assert len(old) == len(new) == 8
        assert new[:4] == old[:4]
        for a, b in zip(old[4:], new[4:], strict=True):
            assert b == a if a not in ("", "?") else re.fullmatch(r"-?\d+(,\d+)?(e-?\d+)?", b)


def test_round_fills_whole_columns_with_whole_numbers(gapmix, tmp_path):
    x = make_rows()
    whole = ["" if i % 5 == 0 else str(i % 9) for i in range(N)]
    write_rows(tmp_path / "in.csv", x, count=whole)
    assert gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--round", *FIT).code == 0
    out = pl.read_csv(tmp_path / "out.csv")
    assert out.schema["count"] == pl.Int64
    assert out.schema["v0"] == pl.Float64


def test_draws_differ_and_are_repeatable(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows())
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--draws", "2", *FIT)
    assert ran.code == 0, ran.err
    one, two = ((tmp_path / f"out.{i}.csv").read_bytes() for i in (1, 2))
    assert one != two
    stacked = gapmix(
        tmp_path, "impute", "in.csv", "-o", "all.csv", "--draws", "2", "--draw-column", *FIT
    )
    assert stacked.code == 0, stacked.err
    table = pl.read_csv(tmp_path / "all.csv")
    assert table["draw"].to_list() == [1] * N + [2] * N
    first = table.filter(pl.col("draw") == 1).drop("draw")
    assert first.equals(pl.read_csv(tmp_path / "out.1.csv"))


def test_bounds_hold_for_filled_cells(gapmix, tmp_path):
    x = make_rows(share=0.4)
    write_rows(tmp_path / "in.csv", x)
    bounds = ("--bounds", "v0=0.25:0.5", "--bounds", "v1=:1")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", *bounds, *FIT)
    assert ran.code == 0, ran.err
    out = pl.read_csv(tmp_path / "out.csv").to_numpy()
    gaps = np.isnan(x)
    assert ((out[gaps[:, 0], 0] >= 0.25) & (out[gaps[:, 0], 0] <= 0.5)).all()
    assert (out[gaps[:, 1], 1] <= 1).all()
    assert (out[gaps[:, 2], 2] > 1).any()


def test_a_category_is_filled_by_its_most_probable_level(gapmix, tmp_path):
    rng = np.random.default_rng(3)
    group = rng.integers(3, size=200)
    x = rng.normal(size=(200, 2)) * 0.1 + 3 * group[:, None]
    names = np.array(["low", "mid", "high"])[group].tolist()
    shown = ["" if i % 10 == 0 else name for i, name in enumerate(names)]
    write_rows(tmp_path / "in.csv", x, level=shown)
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--one-hot", "level", *FIT)
    assert ran.code == 0, ran.err
    assert pl.read_csv(tmp_path / "out.csv")["level"].to_list() == names
    assert gapmix(tmp_path, "fit", "in.csv", "-o", "m", "--one-hot", "level", *FIT).code == 0
    again = gapmix(tmp_path, "impute", "in.csv", "-o", "again.csv", "-m", "m")
    assert again.code == 0, again.err
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_parquet_goes_in_and_out_with_its_types(gapmix, tmp_path):
    x = make_rows()
    frame = pl.DataFrame(
        {
            "v0": pl.Series([None if np.isnan(v) else v for v in x[:, 0]]),
            "v1": pl.Series(x[:, 1], dtype=pl.Float32),
            "count": pl.Series(range(N), dtype=pl.Int32),
            "holes": pl.Series([None if i % 4 == 0 else i for i in range(N)], dtype=pl.Int64),
            "day": pl.Series(["2020-01-01"] * N).str.to_date(),
        }
    )
    frame.write_parquet(tmp_path / "in.parquet")
    ran = gapmix(tmp_path, "impute", "in.parquet", "-o", "out.parquet", *FIT)
    assert ran.code == 0, ran.err
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert out.columns == frame.columns
    assert out.dtypes == [pl.Float64, pl.Float32, pl.Int32, pl.Float64, pl.Date]
    assert out.null_count().sum_horizontal().item() == 0
    assert out["count"].equals(frame["count"])
    rounded = gapmix(tmp_path, "impute", "in.parquet", "-o", "r.parquet", "--round", *FIT)
    assert rounded.code == 0
    assert pl.read_parquet(tmp_path / "r.parquet").schema["holes"] == pl.Int64


@pytest.mark.parametrize(
    ("encoding", "newline", "mark"),
    [("cp1252", "\n", b""), ("utf-16-le", "\r\n", b"\xff\xfe"), ("utf-8", "\r", b"\xef\xbb\xbf")],
)
def test_encoding_and_line_ends_come_back(gapmix, tmp_path, encoding, newline, mark):
    rows = ["Straße\tv\tw"] + [f"é{i}\t{'' if i % 5 == 0 else i * 0.5}\t{i % 7}" for i in range(30)]
    raw = mark + (newline.join(rows) + newline).encode(encoding)
    (tmp_path / "in.txt").write_bytes(raw)
    ran = gapmix(tmp_path, "impute", "in.txt", "-o", "out.txt", *FIT)
    assert ran.code == 0, ran.err
    out = (tmp_path / "out.txt").read_bytes()
    assert out.startswith(mark)
    text = out[len(mark) :].decode(encoding)
    lines = text.split(newline)
    assert len(lines) == 32
    assert lines[0] == rows[0]
    assert [line.split("\t")[0] for line in lines[1:31]] == [f"é{i}" for i in range(30)]
    assert lines[2] == rows[2]


def test_formulas_are_disarmed_unless_raw(gapmix, tmp_path):
    x = make_rows(4)
    texts = ["=1+1", "+cmd", "@x", "plain"]
    write_rows(tmp_path / "in.csv", x, text=texts)
    one = ("--components", "1")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", *one)
    assert ran.code == 0, ran.err
    assert "3 texts that a spreadsheet would run as formulas" in ran.err
    column = [row[3] for row in cells(tmp_path / "out.csv")[1:]]
    assert column == ["'=1+1", "'+cmd", "'@x", "plain"]
    assert float(cells(tmp_path / "out.csv")[1][0]) == 0
    gapmix(tmp_path, "impute", "in.csv", "-o", "raw.csv", "--raw", *one)
    assert [row[3] for row in cells(tmp_path / "raw.csv")[1:]] == texts


# ------------------------------------------------------------------ the other commands


def test_score_writes_log_densities_beside_the_id(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x, key=[f"r{i}" for i in range(N)])
    assert gapmix(tmp_path, "fit", "in.csv", "-o", "m", "--id", "key", *FIT).code == 0
    ran = gapmix(tmp_path, "score", "in.csv", "-m", "m", "--id", "key", "-o", "s.csv")
    assert ran.code == 0, ran.err
    import gapmix as library

    found = pl.read_csv(tmp_path / "s.csv")
    assert found.columns == ["key", "log_density", "n_observed"]
    expected = library.load(tmp_path / "m").mixture_.score_samples(x)
    np.testing.assert_array_equal(found["log_density"].to_numpy(), expected)
    np.testing.assert_array_equal(found["n_observed"].to_numpy(), (~np.isnan(x)).sum(axis=1))


def test_sample_draws_rows_like_those_fitted(gapmix, tmp_path):
    x = make_rows(2000, seed=5)
    write_rows(tmp_path / "in.csv", x)
    assert gapmix(tmp_path, "fit", "in.csv", "-o", "m", "--components", "1").code == 0
    ran = gapmix(tmp_path, "sample", "m", "-n", "4000", "-o", "s.csv")
    assert ran.code == 0, ran.err
    drawn = pl.read_csv(tmp_path / "s.csv").to_numpy()
    assert drawn.shape == (4000, 3)
    np.testing.assert_allclose(drawn.mean(axis=0), np.nanmean(x, axis=0), atol=0.15)
    np.testing.assert_allclose(drawn.std(axis=0), np.nanstd(x, axis=0), rtol=0.1)


def test_describe_counts_gaps_and_patterns(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x, text=["a"] * N)
    ran = gapmix(tmp_path, "describe", "in.csv", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert (found["n_rows"], found["n_columns"], found["n_used"]) == (N, 4, 3)
    gaps = np.isnan(x)
    assert [c["n_missing"] for c in found["columns"]] == [*gaps.sum(axis=0).tolist(), 0]
    assert found["n_patterns"] == len(np.unique(gaps, axis=0))
    assert found["n_complete"] == int((~gaps.any(axis=1)).sum())
    listed = {tuple(p["missing"]): p["n_rows"] for p in found["patterns"]}
    for pattern, count in listed.items():
        chosen = np.array([f"v{j}" in pattern for j in range(3)])
        assert (gaps == chosen).all(axis=1).sum() == count
    assert "Solver:" in found["plan"]
    assert "Most frequent patterns" in gapmix(tmp_path, "describe", "in.csv").out


def test_evaluate_compares_ways_to_fill_hidden_cells(gapmix, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 1)) + 0.3 * rng.normal(size=(400, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    write_rows(tmp_path / "in.csv", x, text=["t"] * 400)
    options = ("--components", "1", "--threads", "1", "--repeats", "2")
    ran = gapmix(tmp_path, "evaluate", "in.csv", "--json", *options)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    scores = {score["method"]: score for score in found["scores"]}
    assert list(scores) == ["mean", "k-NN", "iterative", "mixture"]
    assert abs(scores["mean"]["error"] - 1) < 0.1
    # The data are Gaussian: the best possible error is known, and intervals hold what they say.
    given_three = np.sqrt(1 + 0.09 - 3 / (3 + 0.09)) / np.sqrt(1.09)
    assert given_three < scores["mixture"]["error"] < 1.25 * given_three
    for wanted, held in zip(found["coverages"], scores["mixture"]["coverage"], strict=True):
        assert abs(held - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / found["n_hidden"])
    assert found["n_hidden"] > 200
    shown = gapmix(tmp_path, "evaluate", "in.csv", *options)
    assert "Ways to fill" in shown.out
    assert gapmix(tmp_path, "evaluate", "in.csv", "--share", "1").code == 2


def test_plots_are_drawn_into_a_folder(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows(), ["a$b", "[/x]", "c"])
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", "--plots", "pictures/new", *FIT)
    assert ran.code == 0, ran.err
    drawn = sorted(path.name for path in (tmp_path / "pictures" / "new").iterdir())
    assert drawn == ["convergence.png", "filled.png", "missing.png", "patterns.png"]
    assert gapmix(tmp_path, "describe", "in.csv", "--plots", "seen", "--quiet").code == 0
    assert len(list((tmp_path / "seen").iterdir())) == 2
    (tmp_path / "file").write_text("")
    assert gapmix(tmp_path, "describe", "in.csv", "--plots", "file").code == 2


def test_the_number_of_components_is_found(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows(100))
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", "--json", "--threads", "1")
    assert ran.code == 0, ran.err
    fit = json.loads(ran.out)["fit"]
    assert len(fit["selection"]) >= 2
    assert fit["n_components"] == sum(
        size["n_components"] for size in fit["selection"] if size["share"] > 0
    )


def test_info_tells_what_a_model_holds(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows())
    gapmix(tmp_path, "fit", "in.csv", "-o", "m", *FIT)
    ran = gapmix(tmp_path, "info", "m", "--json")
    found = json.loads(ran.out)
    assert (found["n_components"], found["feature_names"]) == (2, ["v0", "v1", "v2"])
    assert abs(sum(found["weights"]) - 1) < 1e-12
    assert "2 components" in gapmix(tmp_path, "info", "m").out


def test_a_mixture_saved_in_python_can_be_applied(gapmix, tmp_path):
    x = make_rows()
    frame = pl.DataFrame(x, schema=["v0", "v1", "v2"])
    save(GaussianMixture(2, random_state=0).fit(frame), tmp_path / "named")
    save(GaussianMixture(2, random_state=0).fit(x), tmp_path / "nameless")
    write_rows(tmp_path / "in.csv", x)
    assert gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", "-m", "named").code == 0
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "p.csv", "-m", "nameless")
    assert ran.code == 1
    assert "without column names" in ran.err


def test_results_as_json(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows())
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", "--json", "--quiet", *FIT)
    found = json.loads(ran.out)
    assert ran.err == ""
    assert found["n_filled"] == int(np.isnan(make_rows()).sum())
    assert found["fit"]["n_components"] == 2
    assert set(found["seconds"]) == {"reading", "fitting", "filling", "writing"}


def test_standard_output_holds_the_table_and_nothing_else(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows())
    ran = gapmix(tmp_path, "impute", "in.csv", *FIT)
    assert gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", *FIT).code == 0
    assert ran.out == (tmp_path / "o.csv").read_text()


def test_the_number_of_threads_changes_no_byte(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows(300))
    for threads in ("1", "2"):
        ran = gapmix(
            tmp_path,
            "impute",
            "in.csv",
            "-o",
            f"o{threads}.csv",
            "--components",
            "2",
            "--threads",
            threads,
        )
        assert ran.code == 0
    assert (tmp_path / "o1.csv").read_bytes() == (tmp_path / "o2.csv").read_bytes()


# ------------------------------------------------------------------ bad input


def table(**columns):
    def write(path):
        lines = [",".join(columns)]
        lines += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        path.write_text("\n".join(lines) + "\n")

    return write


def text(content):
    def write(path):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


NUMBERS = list(range(20))
HOLES = ["" if i % 4 == 0 else i * 0.5 for i in NUMBERS]
BAD = {
    "empty file": (text(""), 1, "is empty"),
    "header only": (text("a,b\n"), 1, "a header but no rows"),
    "only new lines": (text("\n\n\n"), 1, "has no header and no rows"),
    "no numbers": (table(a=["x"] * 5, b=["y"] * 5), 1, "None of the 2 columns holds numbers"),
    "all gaps": (table(a=[""] * 5, b=["NA"] * 5), 1, "None of the 2 columns holds numbers"),
    "one row": (table(a=[1.5], b=[2]), 1, "The table has 1 row"),
    "infinity": (table(a=[*NUMBERS, "inf"], b=[*NUMBERS, 1]), 1, "Row 21, column 'a': inf"),
    "too large": (table(a=[*NUMBERS, "1e301"], b=[*NUMBERS, 1]), 1, "Row 21, column 'a': 1e+301"),
    "overflow": (table(a=[*NUMBERS, "-1e999"], b=[*NUMBERS, 1]), 1, "Row 21, column 'a': -inf"),
    "short row": (text("a,b\n1,2\n3\n4,5\n"), 1, "Line 3 has 1 fields, the first line has 2"),
    "long row": (text("a,b\n1,2\n3,4,5\n"), 1, "Line 3 has 3 fields, the first line has 2"),
    "open quote": (text('a,b\n1,2\n"3,4\n5,6\n'), 1, "line 3 opens a quotation mark"),
    "quote inside": (text('a,b\n1,x"y"z\n3,"q"r\n'), 1, "--quote none"),
    "zero bytes": (text(b"a,b\n1,\x002\n"), 1, "zero bytes"),
    "pictures": (text(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), 1, "zero bytes"),
    "not UTF-16": (text(b"\xff\xfea,b\n1,2\n"), 1, ""),
    "too many components": (table(a=NUMBERS[:3], b=HOLES[:3]), 1, "Lower --components"),
    "damaged Parquet": (text(b"PAR1" + b"\x07" * 80 + b"PAR1"), 1, "damaged or no Parquet file"),
    "cut Parquet": (text(b"PAR1"), 1, "damaged or no Parquet file"),
    "wide field": (text("a,b\n1," + "x" * 2**21 + "\n"), 1, "bytes long"),
    "many columns": (text(",".join(f"c{i}" for i in range(10_001)) + "\n"), 1, "10,001 fields"),
}


@pytest.mark.parametrize(("write", "code", "message"), BAD.values(), ids=BAD)
def test_bad_tables_end_with_a_message(gapmix, tmp_path, write, code, message):
    write(tmp_path / "in.csv")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--components", "5")
    assert ran.code == code, ran.err
    assert message in ran.err.replace("\n", " ")
    assert ran.err.startswith("Error: ") or "\nError: " in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "out.csv").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".err", ".out", "in.csv"]


ODD = {
    "all-empty row": table(a=[*HOLES, ""], b=[*NUMBERS, ""]),
    "constant column": table(a=HOLES, b=[7] * 20),
    "constant with gaps": table(a=NUMBERS, b=["" if i == 3 else 7 for i in NUMBERS]),
    "duplicate columns": table(a=HOLES, b=HOLES),
    "scaled duplicate": table(a=NUMBERS, b=["" if i == 3 else 1e6 * i + 5 for i in NUMBERS]),
    "one column": text("a\n" + "\n".join("" if i % 5 == 2 else str(i) for i in NUMBERS) + "\n"),
    "one column of decimal commas": text("a\n1,5\n2,5\nNA\n3,5\n4,5\n"),
    "fewer rows than columns": table(**{f"c{j}": [j, 1.5 * j, "", 7] for j in range(8)}),
    "tiny numbers": table(a=[f"{i + 1}e-140" for i in NUMBERS], b=HOLES),
    "subnormal number": table(a=[*NUMBERS, "5e-324"], b=[*NUMBERS, ""]),
    "spaces around": table(a=[f" {i} " for i in NUMBERS], b=[f" {v}" for v in HOLES]),
    "plus signs": table(a=[f"+{i}" for i in NUMBERS], b=HOLES),
    "blank lines": text("a,b\n\n1,2\n\n3,\n5,6\n\n\n"),
    "no new line at the end": text("a,b\n1,2\n3,\n5,6"),
    "no header": text("1.5,2\n3.5,\n5.5,6\n"),
    "names that are years": text("2019,2020\n1,2\n3,\n5,7\n"),
    "quoted cells": text('"a","b,c"\n"1","2"\n"3",""\n"5","7"\n'),
    "quoted new lines": text('a,b,t\n1,2,"x\ny"\n3,,z\n5,7,w\n'),
    "empty names": text(",b,\n1,2,3\n4,,6\n7,8,8\n"),
    "names with markup": table(**{"[/x]": NUMBERS, "[red]y": HOLES}),
    "control characters": table(**{"a\x1b[31m": NUMBERS, "b\x07": HOLES}),
    "right-to-left names": table(**{"a\u202e": NUMBERS, "ש": HOLES}),
    "one observed value": table(a=NUMBERS, b=[5, *[""] * 19]),
    "huge whole numbers": table(a=[2**60 + i for i in NUMBERS], b=HOLES),
}


@pytest.mark.parametrize("write", ODD.values(), ids=ODD)
def test_odd_tables_are_filled_in_their_shape(gapmix, tmp_path, write):
    write(tmp_path / "in.csv")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--components", "1")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.err
    before = (tmp_path / "in.csv").read_text()
    after = (tmp_path / "out.csv").read_text()
    lines = before.splitlines()
    one_column = lines[0] == "a"  # there an empty line is a gap
    n_before = len([line for line in lines if line or one_column])
    assert len(after.splitlines()) == n_before
    assert after.splitlines()[0].replace('"', "") == before.splitlines()[0].replace('"', "")
    frame = pl.read_csv(tmp_path / "out.csv", has_header=False, skip_rows=1)
    assert frame.null_count().sum_horizontal().item() == 0


CALLS = {
    "no command": ((), 0, ""),
    "unknown command": (("imptue", "in.csv"), 2, 'Did you mean "impute"'),
    "unknown option": (("impute", "in.csv", "--colums", "a"), 2, "--columns"),
    "no file": (("impute", "nothing.csv"), 2, "There is no file 'nothing.csv'"),
    "a folder": (("impute", "."), 2, "is not a file"),
    "an address": (("impute", "https://example.org/a.csv"), 2, "nothing is fetched"),
    "a spreadsheet": (("impute", "book.xlsx"), 2, "save it as CSV first"),
    "no such column": (("impute", "in.csv", "--columns", "v9"), 2, "has no column 'v9'"),
    "misspelt column": (("impute", "in.csv", "--id", "V0"), 2, "Did you mean 'v0'?"),
    "components": (("impute", "in.csv", "--components", "0"), 2, "must be at least 1"),
    "components text": (("impute", "in.csv", "--components", "many"), 2, "--components"),
    "no folder": (("impute", "in.csv", "-o", "no/out.csv"), 2, "There is no folder"),
    "bounds": (("impute", "in.csv", "--bounds", "v0"), 2, "COLUMN=LOW:HIGH"),
    "bounds turned": (("impute", "in.csv", "--bounds", "v0=3:1"), 2, "LOW below HIGH"),
    "bounds of nothing": (("impute", "in.csv", "--bounds", "v9=0:1"), 2, "no column 'v9'"),
    "delimiter": (("impute", "in.csv", "--delimiter", "ab"), 2, "one ASCII character"),
    "same signs": (("impute", "in.csv", "--delimiter", ",", "--decimal", ","), 2, "are both"),
    "encoding": (("impute", "in.csv", "--encoding", "klingon"), 1, "is not known"),
    "draws": (("impute", "in.csv", "-o", "o.csv", "--draws", "0"), 2, "at least 1"),
    "draws and std": (("impute", "in.csv", "--draws", "1", "--std"), 2, "--std belongs"),
    "no model": (("impute", "in.csv", "-m", "nothing"), 2, "There is no model file"),
    "bad model": (("impute", "in.csv", "-m", "in.csv"), 1, "cannot be used"),
    "no model to show": (("info", "nothing"), 2, "There is no model file"),
    "json and table": (("impute", "in.csv", "--json"), 2, "--output"),
    "fit without a name": (("fit", "in.csv"), 2, "--output"),
    "seed": (("impute", "in.csv", "--seed", "-1"), 2, "--seed"),
    "memory": (("impute", "in.csv", "--max-memory", "1e-6"), 1, "gapmix fit --engine"),
    "sample nothing": (("sample", "in.csv", "-n", "0"), 2, "at least 1"),
}


@pytest.mark.parametrize(("arguments", "code", "message"), CALLS.values(), ids=CALLS)
def test_bad_calls_end_with_a_message(gapmix, tmp_path, arguments, code, message):
    write_rows(tmp_path / "in.csv", make_rows())
    (tmp_path / "book.xlsx").write_bytes(b"PK\x03\x04")
    ran = gapmix(tmp_path, *arguments)
    assert ran.code == code, ran.err
    assert message in ran.err.replace("\n", " ")
    assert "Traceback" not in ran.err


def test_marks_in_a_column_of_numbers_are_pointed_at(gapmix, tmp_path):
    marked = ["unknown" if i % 6 == 0 else v for i, v in enumerate(map(str, range(N)))]
    write_rows(tmp_path / "in.csv", make_rows(), coded=marked)
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", "--quiet", *FIT)
    assert ran.code == 0
    assert "Column 'coded' looks like numbers, but row 1 has 'unknown'" in ran.err
    assert "--missing-values 'unknown'" in ran.err
    assert [row[3] for row in cells(tmp_path / "o.csv")[1:]] == marked
    again = gapmix(tmp_path, "impute", "in.csv", "-o", "p.csv", "--missing-values", "unknown", *FIT)
    assert again.code == 0
    assert all(row[3] != "unknown" for row in cells(tmp_path / "p.csv"))


def test_a_repeated_extreme_number_is_pointed_at_and_can_be_named(gapmix, tmp_path):
    x = make_rows()
    coded = ["-999" if i % 6 == 0 else repr(i * 0.1) for i in range(N)]
    write_rows(tmp_path / "in.csv", x, coded=coded)
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", *FIT)
    assert ran.code == 0
    assert "Column 'coded': the value -999 occurs 10 times" in ran.err
    assert "name it in --missing-values" in ran.err
    again = gapmix(
        tmp_path, "impute", "in.csv", "-o", "p.csv", "--missing-values", "NA,?,-999", *FIT
    )
    assert "-999" not in (tmp_path / "p.csv").read_text() + again.err


def test_strict_tells_a_fit_that_did_not_converge(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows())
    options = ("--components", "2", "--max-iter", "2", "--tol", "0")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", *options)
    assert ran.code == 0
    assert gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", "--strict", *options).code == 3


def test_a_column_the_model_needs_is_missed_by_name(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x)
    gapmix(tmp_path, "fit", "in.csv", "-o", "m", *FIT)
    write_rows(tmp_path / "less.csv", x[:, :2])
    ran = gapmix(tmp_path, "impute", "less.csv", "-o", "o.csv", "-m", "m")
    assert ran.code == 1
    assert "fitted with the column 'v2'" in ran.err
    write_rows(tmp_path / "text.csv", x[:, :2], v2=["word"] * N)
    ran = gapmix(tmp_path, "impute", "text.csv", "-o", "o.csv", "-m", "m")
    assert ran.code == 1
    assert "Row 1, column 'v2': 'word' is not a number" in ran.err.replace("\n", " ")
    assert not (tmp_path / "o.csv").exists()


def test_without_its_extras_the_command_says_what_to_install(tmp_path):
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(name='rich')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run(
        [sys.executable, "-m", "gapmix", "--help"], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert ran.stderr == (
        'The command line needs rich, which is not installed: pip install "gapmix[cli]"\n'
    )


# ------------------------------------------------------------------ terminals


def run_in_terminal(folder, arguments, columns, *, interrupt_at=None):
    """Run a command in a terminal of so many columns; return exit code and what it showed."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    environment["TERM"] = "xterm"
    process = subprocess.Popen(
        [sys.executable, "-m", "gapmix", *arguments],
        cwd=folder,
        stdout=slave,
        stderr=slave,
        env=environment,
    )
    os.close(slave)
    shown, until = b"", time.monotonic() + 120
    while time.monotonic() < until:
        if select.select([master], [], [], 0.1)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:
                break
        if interrupt_at is not None and interrupt_at in shown:
            process.send_signal(signal.SIGINT)
            interrupt_at = None
        if process.poll() is not None and not select.select([master], [], [], 0)[0]:
            break
    os.close(master)
    return process.wait(30), shown.decode()


def visible(shown):
    """Return the lines without escape sequences."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    return re.split(r"[\r\n]+", plain)


@pytest.mark.parametrize("columns", [80, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path, columns):
    long_name = "a rather long name of a column that goes on and on and on " * 2
    x = make_rows(200)
    write_rows(tmp_path / "in.csv", x, ["v0", "v1", long_name], text=["t"] * 200)
    code, shown = run_in_terminal(
        tmp_path, ["impute", "in.csv", "-o", "out.csv", *FIT, "--starts", "2"], columns
    )
    assert code == 0, shown
    lines = visible(shown)
    assert max(len(line) for line in lines) <= columns
    assert any("Fitting 2 components, start" in line for line in lines)
    assert any("log-likelihood" in line for line in lines)
    assert any("Written" in line for line in lines)


def test_ctrl_c_ends_a_fit_with_what_it_has(tmp_path):
    write_rows(tmp_path / "in.csv", make_rows(500))
    options = ["--components", "3", "--tol", "0", "--max-iter", "1000000"]
    code, shown = run_in_terminal(
        tmp_path, ["impute", "in.csv", "-o", "out.csv", *options], 120, interrupt_at=b"iteration 2"
    )
    assert code == 0, shown
    assert "Ending the fit after this iteration" in shown
    assert "interrupted, best so far kept" in shown
    assert len(cells(tmp_path / "out.csv")) == 501
    assert all(all(row) for row in cells(tmp_path / "out.csv"))


def test_an_interrupted_library_fit_says_so():
    from gapmix.estimators.progress import listening

    x = make_rows(200)
    seen = []
    with (
        listening(lambda event: seen.append(event) or len(seen) == 3),
        pytest.warns(match="interrupted"),
    ):
        mixture = GaussianMixture(2, tol=0.0 + 1e-12, random_state=0).fit(x)
    assert mixture.n_iter_ == 3
    assert not mixture.converged_
    assert "interrupted" in mixture.stop_reason_
    assert [e.iteration for e in seen] == [1, 2, 3]
    np.testing.assert_allclose(
        seen[-1].record.log_likelihood, mixture.history_[-1].log_likelihood, rtol=1e-12
    )
