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
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from tests.smalltables import FIT, N, cells, make_rows, write_rows

from gapmix import GaussianMixture, GaussianMixtureImputer, evaluate, load, save
from gapmix.cli import results
from gapmix.fitting.progress import listening

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
    model = load(tmp_path / "model")
    filled, std = model.mixture_.impute(x, return_std=True)
    out = pl.read_csv(tmp_path / "out.csv", infer_schema_length=None)
    found = out.select("v0", "v1", "v2").to_numpy()
    np.testing.assert_array_equal(found, filled)
    deviations = out.select("v0_std", "v1_std", "v2_std").fill_null(0.0).to_numpy()
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
    assert "Column 'extra' is not used by the model" in ran.err
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
        "'name' (an id: 60 different texts in 60 cells; no gaps), 'day' (dates; no gaps).",
        "Column 'empty' has no values to learn from. It stays empty.",
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


def test_whole_columns_get_whole_numbers_and_raw_means_on_request(gapmix, tmp_path):
    x = make_rows()
    whole = ["" if i % 5 == 0 else str(i % 9) for i in range(N)]
    write_rows(tmp_path / "in.csv", x, count=whole)
    assert gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", *FIT).code == 0
    out = pl.read_csv(tmp_path / "out.csv")
    assert out.schema["count"] == pl.Int64
    assert set(out["count"]) <= set(range(9))
    assert gapmix(tmp_path, "impute", "in.csv", "-o", "raw.csv", "--raw-means", *FIT).code == 0
    assert pl.read_csv(tmp_path / "raw.csv").schema["count"] == pl.Float64
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
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--components", "3")
    assert ran.code == 0, ran.err
    assert pl.read_csv(tmp_path / "out.csv")["level"].to_list() == names
    assert gapmix(tmp_path, "fit", "in.csv", "-o", "m", "--components", "3").code == 0
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
    assert out.dtypes == frame.dtypes
    assert out.null_count().sum_horizontal().item() == 0
    assert out["count"].equals(frame["count"])
    raw = gapmix(tmp_path, "impute", "in.parquet", "-o", "r.parquet", "--raw-means", *FIT)
    assert raw.code == 0
    assert pl.read_parquet(tmp_path / "r.parquet").schema["holes"] == pl.Float64


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
    assert "3 cells that a spreadsheet would run as a formula" in ran.err
    column = [row[3] for row in cells(tmp_path / "out.csv")[1:]]
    assert column == ["'=1+1", "'+cmd", "'@x", "plain"]
    assert float(cells(tmp_path / "out.csv")[1][0]) == 0
    gapmix(tmp_path, "impute", "in.csv", "-o", "raw.csv", "--raw", *one)
    assert [row[3] for row in cells(tmp_path / "raw.csv")[1:]] == texts


# ------------------------------------------------------------------ the other commands


def test_score_writes_log_densities_beside_the_id(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x, key=[f"r{i}" for i in range(N)])
    assert gapmix(tmp_path, "fit", "in.csv", "-o", "m", "--leave-out", "key", *FIT).code == 0
    ran = gapmix(tmp_path, "score", "in.csv", "-m", "m", "--id", "key", "-o", "s.csv")
    assert ran.code == 0, ran.err
    found = pl.read_csv(tmp_path / "s.csv")
    assert found.columns == ["key", "log_density", "n_observed"]
    expected = load(tmp_path / "m").mixture_.score_samples(x)
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
    write_rows(tmp_path / "in.csv", x, text=["", *(f"a{i}" for i in range(1, N))])
    ran = gapmix(tmp_path, "describe", "in.csv", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert (found["n_rows"], found["n_columns"], found["n_used"]) == (N, 4, 3)
    gaps = np.isnan(x)
    assert [c["n_missing"] for c in found["columns"]] == [*gaps.sum(axis=0).tolist(), 1]
    assert found["n_missing"] == gaps.sum() + 1
    assert found["columns"][3]["kind"] == "id"
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
    write_rows(tmp_path / "in.csv", x, text=[f"t{i}" for i in range(400)])
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
    # It is what Python gives, cell by cell.
    imputers = evaluate.default_imputers(0) | {"mixture": GaussianMixtureImputer(1, random_state=0)}
    columns = [f"v{j}" for j in range(4)]
    same = evaluate.hide_and_score(
        x, imputers, share=0.1, n_repeats=2, feature_names=columns, random_state=0
    )
    assert found["columns"] == columns
    for each, them in zip(
        same.overall(), zip(*same.by_column().values(), strict=True), strict=True
    ):
        score = scores[each.imputer]
        assert score["error"] == pytest.approx(each.error, rel=1e-12)
        assert score["by_column"] == pytest.approx([one.error for one in them], rel=1e-12)
        assert score["problem"] == ""
    assert found["verdict"] == same.verdict()
    for told, each in zip(found["ranking"], same.ranking(), strict=True):
        assert (told["imputer"], told["sure"]) == (each.imputer, each.sure)
        assert told["behind_error"] == pytest.approx(each.behind_error, rel=1e-9)
    shown = gapmix(tmp_path, "evaluate", "in.csv", *options)
    assert "Methods (error" in shown.out
    assert " ".join(same.verdict().split()) in " ".join(shown.out.split())
    few = gapmix(tmp_path, "evaluate", "in.csv", "--methods", "mean, mixture", "--json", *options)
    left = json.loads(few.out)
    assert [score["method"] for score in left["scores"]] == ["mean", "mixture"]
    assert left["scores"][1]["error"] == pytest.approx(scores["mixture"]["error"], rel=1e-12)
    assert "not one of mean" in gapmix(tmp_path, "evaluate", "in.csv", "--methods", "x").err
    assert gapmix(tmp_path, "evaluate", "in.csv", "--share", "1").code == 2


def test_evaluate_ends_on_very_many_columns_and_fits_a_screen(gapmix, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 1)) + 0.3 * rng.normal(size=(30, 501))
    x[rng.random(x.shape) < 0.1] = np.nan
    write_rows(tmp_path / "in.csv", x)
    options = ("--components", "1", "--n-factors", "1", "--threads", "1", "--repeats", "1")
    ran = gapmix(tmp_path, "evaluate", "in.csv", *options)
    assert ran.code == 0, ran.err
    assert "iterative is left out: its regressions would take hours on 501 columns" in ran.err
    assert "--methods mean,k-NN,iterative,mixture compares all" in ran.err
    assert "mixture" in ran.out
    assert len(ran.out.splitlines()) < 45


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
    imputer = GaussianMixtureImputer(2, random_state=0, bounds={"v1": (None, 0.5)}).fit(frame)
    save(imputer, tmp_path / "imputer")
    assert gapmix(tmp_path, "impute", "in.csv", "-o", "i.csv", "-m", "imputer").code == 0
    found = pl.read_csv(tmp_path / "i.csv").to_numpy()
    np.testing.assert_array_equal(found, imputer.transform(frame))
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


def test_a_summary_tells_what_was_filled_and_how_sure_and_details_only_if_asked(gapmix, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2)) + 5.0 * rng.integers(0, 2, size=(120, 1))
    word = np.where(x[:, 0] > 2.5, "high", "low").astype(object)
    x[::7, 1] = np.nan
    word[3::10] = ""
    write_rows(tmp_path / "in.csv", x, word=word, day=["2020-01-01", ""] * 60)
    fill = ("impute", "in.csv", "-o", "o.csv", "--threads", "1", "--save-model", "m")
    said = " ".join(gapmix(tmp_path, *fill).err.split())
    assert "Filled 30 of 90 gaps (v1 18, word 12)" in said
    assert "Not filled 60 gaps: day 60 (dates)" in said
    sure = re.search(
        r"an error of 0\.(\d\d) standard .* have an average probability of (?:over )?([\d.]+) %",
        said,
    )
    assert int(sure[1]) < 60  # the group is told by the other number and the word
    assert 80 < float(sure[2]) <= 100
    told = json.loads(gapmix(tmp_path, *fill, "--components", "2", "--json").out)["sure"]
    assert 0.7 < told["explained"] < 1
    assert 0.8 < told["probability"] < 1
    jargon = ("Log-likelihood", "Stopped because", "component", "averaged", "mixture")
    assert not any(word in said for word in jargon)
    said = gapmix(tmp_path, *fill, "--verbose").err
    assert all(word in said for word in jargon)
    assert "Plan of a fit" not in gapmix(tmp_path, "describe", "in.csv").out
    assert "Plan of a fit" in gapmix(tmp_path, "describe", "in.csv", "--verbose").out
    # Several sizes are averaged; the groups of one of them are shown, and their shares add up.
    facts = json.loads(gapmix(tmp_path, "info", "m", "--json").out)
    assert len(facts["shown"]) in facts["united"]
    shown = gapmix(tmp_path, "info", "m").out
    shares = next(line for line in shown.splitlines() if line.startswith("share of rows"))
    assert sum(float(share) for share in re.findall(r"[\d.]+", shares)) == pytest.approx(100, abs=1)
    assert len(facts["weights"]) == sum(facts["united"])


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
        tmp_path, ["impute", "in.csv", "-o", "out.csv", *FIT, "--starts", "2", "--verbose"], columns
    )
    assert code == 0, shown
    lines = visible(shown)
    assert max(len(line) for line in lines) <= columns
    assert any("Fitting 2 components, start" in line for line in lines)
    assert any("log-likelihood" in line for line in lines)
    assert any("Writing out.csv" in line and " s" in line for line in lines)
    assert any("Written" in line for line in lines)


def test_ctrl_c_ends_a_fit_with_what_it_has(tmp_path):
    write_rows(tmp_path / "in.csv", make_rows(500))
    options = ["--components", "3", "--tol", "0", "--max-iter", "1000000"]
    code, shown = run_in_terminal(
        tmp_path, ["impute", "in.csv", "-o", "out.csv", *options], 120, interrupt_at=b"iteration 2"
    )
    assert code == 0, shown
    assert "Ending the fit after this iteration" in shown
    assert "interrupted; the best parameters so far are used" in shown
    assert len(cells(tmp_path / "out.csv")) == 501
    assert all(all(row) for row in cells(tmp_path / "out.csv"))


def test_an_interrupted_library_fit_says_so():
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


def test_a_table_without_gaps_is_written_and_nothing_fitted(gapmix, tmp_path):
    x = np.nan_to_num(make_rows())
    write_rows(tmp_path / "in.csv", x, word=["a"] * N)
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--std")
    assert ran.code == 0, ran.err
    assert "There are no gaps to fill, so nothing was fitted." in ran.err
    assert "Model" not in ran.err
    assert cells(tmp_path / "out.csv") == cells(tmp_path / "in.csv")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", "--save-model", "m", *FIT)
    assert (ran.code, (tmp_path / "m").is_file()) == (0, True), ran.err


def test_describe_tells_kinds_and_codes(gapmix, tmp_path):
    x = make_rows()
    ages = ["-999" if i % 9 == 0 else str(20 + i % 50) for i in range(N)]
    write_rows(tmp_path / "in.csv", x, age=ages, flag=[str(i % 2) for i in range(N)])
    ran = gapmix(tmp_path, "describe", "in.csv")
    assert ran.code == 0, ran.err
    kinds = dict(line.split()[:2] for line in ran.out.splitlines() if line[:4] in ("age ", "flag"))
    assert kinds == {"age": "whole", "flag": "two-valued"}
    assert "the value -999 occurs" in ran.err
    assert "--missing-values" in ran.err


def test_a_single_gap_is_called_the_only_one(gapmix, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,\n2,3\n4,5\n")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "out.csv", *FIT)
    assert ran.code == 0, ran.err
    assert "the only gap (b 1)" in ran.err


def test_only_columns_with_gaps_are_called_hard_to_fill():
    fit = SimpleNamespace(
        factors="", selection=(), interrupted=False, converged=True, doubted=("id", "income")
    )
    (row,) = results._fit_rows(fit, False, {"income": 3})
    assert row[0] == "Hard to fill"
    assert "say little about 'income'; its gaps are filled" in row[1]
    (row,) = results._fit_rows(fit, False)
    assert "say little about 'id', 'income'; their gaps are filled" in row[1]
