"""Gaps that hide in plain sight: codes, marks, empty rows; what is taken for a gap is said."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import polars as pl
import pytest
from tests.smalltables import cells, write_rows

from gapmix import GaussianMixtureImputer
from gapmix.tables.marking import read_missing, write_missing
from gapmix.tables.schema import CallError

QUICK = ("--components", "1", "--threads", "1", "--max-iter", "5")
N = 60


def hidden_gaps(path):
    """Write a table whose gaps are marked in ways of their own."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=N)
    known = np.column_stack([np.round(z, 2), np.round(5 + z, 2)])
    flow = ["-200" if i % 9 == 4 else f"{5 + v:.1f}" for i, v in enumerate(z)]
    temp = ["-200" if i % 10 == 5 else f"{20 + v:.1f}" for i, v in enumerate(z)]
    mass = ["-999" if i % 10 == 2 else f"{70 + 9 * v:.0f}" for i, v in enumerate(z)]
    count = ["?" if i % 12 == 7 else str(i % 4) for i in range(N)]
    word = ["?" if i % 20 == 3 else "none" if i % 3 else "some" for i in range(N)]
    write_rows(path, known, ["a", "b"], flow=flow, temp=temp, mass=mass, count=count, word=word)
    lines = path.read_text().splitlines()
    lines[31] = lines[32] = ",,,,,,"
    path.write_text("\n".join([*lines[:40], "", *lines[40:], ""]) + "\n")


MARKS = "flow,temp=-200;mass=-999"
SAID = {
    "describe": ("describe", "t.csv"),
    "impute": ("impute", "t.csv", "-o", "o.csv", *QUICK),
    "report": ("report", "t.csv", "-o", "r.html", *QUICK),
    "fit": ("fit", "t.csv", "-o", "m", *QUICK),
}


@pytest.mark.parametrize("command", SAID)
def test_what_may_be_or_was_taken_as_a_gap_is_said_with_the_option_to_type(
    gapmix, tmp_path, command
):
    hidden_gaps(tmp_path / "t.csv")
    ran = gapmix(tmp_path, *SAID[command])
    assert ran.code == 0, ran.err
    for fact in (
        "Column 'flow': the value -200 occurs 6 times, far from all others",
        "Column 'mass': the value -999 occurs 6 times, far from all others",
        f"--missing-values '{MARKS}'",
        "'?' in 'count' (4), 'word' (3)",
        "2 rows have no value in any column used (the first is row 31)",
        "2 empty lines were skipped",
    ):
        assert ran.err.count(fact) == 1, (fact, ran.err)
    if command == "report":
        page = (tmp_path / "r.html").read_text()
        assert "the value -999 occurs 6 times" in page
        assert "flow,temp=-200;mass=-999" in page
    # Once they are named they are gaps, and nothing is left to say of them.
    again = gapmix(tmp_path, *SAID[command], "--missing-values", MARKS)
    assert again.code == 0, again.err
    assert "far from all others" not in again.err
    assert "'-200' in 'flow' (6), 'temp' (6)" in again.err


def test_marks_of_single_columns_are_gaps_there_and_in_no_other(gapmix, tmp_path):
    hidden_gaps(tmp_path / "t.csv")
    options = ("--missing-values", "count=0;word=none;flow,temp=-200", "--missing-values", "-999")
    ran = gapmix(
        tmp_path, "impute", "t.csv", "-o", "o.csv", "--json", "--save-model", "m", *options, *QUICK
    )
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)["by_column"]
    before = pl.read_csv(tmp_path / "t.csv", infer_schema=False).filter(
        ~pl.all_horizontal(pl.all().is_null())
    )
    expected = {
        "flow": 2 + before["flow"].eq("-200").sum(),
        "temp": 2 + before["temp"].eq("-200").sum(),
        "mass": 2 + before["mass"].eq("-999").sum(),
        "count": 2 + before["count"].is_in(["0", "?"]).sum(),
        "word": 2 + before["word"].is_in(["none", "?"]).sum(),
    }
    assert {name: told[name] for name in expected} == expected
    filled = cells(tmp_path / "o.csv")
    column = {name: [row[j] for row in filled[1:]] for j, name in enumerate(filled[0])}
    assert "0" not in column["count"]
    assert set(column["word"]) == {"some"}
    # A model remembers them, for the command line.
    again = gapmix(tmp_path, "impute", "t.csv", "-o", "again.csv", "-m", "m")
    assert again.code == 0, again.err
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "o.csv").read_bytes()
    assert "2 rows have no value" in again.err


def test_a_mark_that_wipes_out_what_may_be_values_is_warned_of(gapmix, tmp_path):
    hidden_gaps(tmp_path / "t.csv")
    ran = gapmix(tmp_path, "describe", "t.csv", "--missing-values", "0,none,-999,-998")
    assert "Warning: Column 'count': '0' is taken as a gap in 15 cells" in ran.err
    assert "Warning: Column 'word': 'none' is taken as a gap in " in ran.err
    assert "--missing-values 'A,B=0'" in ran.err
    assert "Warning: --missing-values: no cell holds '-998'" in ran.err
    assert "Column 'mass': '-999' is taken" not in ran.err  # a code, evidently
    named = gapmix(tmp_path, "describe", "t.csv", "--missing-values", "count=0")
    assert "Warning: Column 'count'" not in named.err  # as asked


def test_levels_that_may_stand_for_gaps_are_named_with_the_option_to_type(gapmix, tmp_path):
    rng = np.random.default_rng(1)
    words = [["Unknown", "yes", "no"][i % 3] for i in range(N)]
    dashes = [["-", "a", "none"][i % 3] for i in range(N)]
    numbers = ["-" if i % 7 == 1 else str(i * 7 % 23) for i in range(N)]
    cells_ = np.round(rng.normal(size=(N, 1)), 2)
    write_rows(tmp_path / "t.csv", cells_, ["x"], words=words, dashes=dashes, numbers=numbers)
    said = gapmix(tmp_path, "describe", "t.csv").err
    option = "words=Unknown;dashes=-"
    assert (
        "levels like any other: 'Unknown' in 'words', '-' in 'dashes'. If they stand for gaps"
        in said
    )
    assert f"--missing-values '{option}'" in said
    again = gapmix(tmp_path, "describe", "t.csv", "--missing-values", option)
    assert "levels like any other" not in again.err
    filled = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", "--missing-values", option, *QUICK)
    assert "levels like any other" not in filled.err
    assert "Unknown" not in (tmp_path / "o.csv").read_text()


def test_marks_are_read_as_they_are_written():
    names = ["a", "b c", "d=e", "f,g", "h"]
    read = read_missing(("NA, ?", "a,b c=0, -1;d=e=x;f,g=7", "h*=9", " ; "), names)
    own = {0: ("0", "-1"), 1: ("0", "-1"), 2: ("x",), 3: ("7",), 4: ("9",)}
    assert read == (("NA", "?"), own)
    assert read_missing((write_missing([("a", -9.0), ("h", -9.0), ("b c", 0.5)]),), names) == (
        (),
        {0: ("-9",), 4: ("-9",), 1: ("0.5",)},
    )
    with pytest.raises(CallError, match="has no column 'A'"):
        read_missing(("A=0",), names)
    with pytest.raises(CallError, match="is not understood"):
        read_missing(("a=",), names)


def test_a_column_that_counts_rows_is_pointed_at(gapmix, tmp_path):
    x = np.random.default_rng(0).normal(size=(N, 2))
    write_rows(tmp_path / "t.csv", x, id=[str(1000 + i + i // 9) for i in range(N)])
    ran = gapmix(tmp_path, "describe", "t.csv")
    assert "Column 'id' counts up by about one from row to row" in ran.err
    assert "--leave-out 'id'" in ran.err
    assert "rises" not in gapmix(tmp_path, "describe", "t.csv", "--leave-out", "id").err


def test_numbers_that_a_column_does_not_have_are_refused(gapmix, tmp_path):
    x = np.random.default_rng(0).normal(size=(N, 2))
    write_rows(tmp_path / "t.csv", x, note=["1.2.24" if i == 3 else "" for i in range(N)])
    ran = gapmix(tmp_path, "impute", "t.csv", "--numbers", "note")
    assert (ran.code, "row 4 has '1.2.24'" in ran.err) == (1, True), ran.err


def test_codes_with_zeros_in_front_are_filled_with_codes(gapmix, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2)).round(2)
    codes = ["" if i % 6 == 5 else ("02139", "10001", "90210")[i % 3] for i in range(N)]
    mixed = ["" if i % 7 == 5 else "05" if i == 3 else str(1 + i % 40) for i in range(N)]
    write_rows(tmp_path / "t.csv", x, ["a", "b"], zip=codes, month=mixed)
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", *QUICK)
    assert ran.code == 0, ran.err
    assert "Column 'zip' has numbers with leading zeros, as in '02139'" in ran.err
    filled = cells(tmp_path / "o.csv")[1:]
    assert {row[2] for row in filled} == {"02139", "10001", "90210"}
    assert all(row[3].isdecimal() for row in filled)  # one zero in front does not make codes
    frame = pl.read_csv(tmp_path / "t.csv", schema_overrides={"zip": pl.String}).with_columns(
        pl.col("zip").replace("", None)
    )
    imputer = GaussianMixtureImputer(1, max_iter=5, random_state=0).fit(frame)
    assert imputer.column_kinds_["zip"] == "category"
    assert imputer.impute_frame(frame)["zip"].to_list() == [row[2] for row in filled]
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", "--numbers", "zip", *QUICK)
    assert ran.code == 0, ran.err
    assert "zeros" not in ran.err


def test_numbers_with_separators_or_signs_are_pointed_at_and_never_lost(gapmix, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2)).round(2)
    income = [f"{v:,.2f}" if i % 9 else "" for i, v in enumerate(rng.uniform(-2e3, 9e4, N))]
    share = [f"{10 * (i % 5)}%" if i % 8 else "" for i in range(N)]
    quoted = [f'"{text}"' for text in income]
    write_rows(tmp_path / "t.csv", x, ["a", "b"], income=quoted, share=share)
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", *QUICK)
    assert ran.code == 0, ran.err
    said = ran.err.replace("\n", " ")
    assert "Column 'income' has numbers with separators, signs or units, as in '" in said
    assert "It is passed through unfilled with 7 gaps." in said
    assert "as in '10%'. It is used as a category." in said
    filled = [*csv.reader((tmp_path / "o.csv").read_text().splitlines())][1:]
    assert [row[2] for row in filled] == income
    assert {row[3] for row in filled} == set(share) - {""}
    fill = ("impute", "t.csv", "-o", "o.csv", "--numbers", "income,share", "--save-model", "m")
    ran = gapmix(tmp_path, *fill, *QUICK)
    assert ran.code == 0, ran.err
    assert "separators" not in ran.err
    filled = [*csv.reader((tmp_path / "o.csv").read_text().splitlines())][1:]
    known = [float(text.replace(",", "")) for text in income if text]
    for row, was, part in zip(filled, income, share, strict=True):
        assert row[2] == was or (not was and re.fullmatch(r"-?\d{1,3}(,\d{3})*\.\d\d", row[2]))
        assert min(known) <= float(row[2].replace(",", "")) <= max(known)
        assert row[3] == part or (not part and re.fullmatch(r"\d+%", row[3]))
    # The model reads the same table in the same way, and plain numbers of a table with types.
    again = gapmix(tmp_path, "impute", "t.csv", "-o", "again.csv", "-m", "m")
    assert again.code == 0, again.err
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "o.csv").read_text()
    plain = pl.read_csv(tmp_path / "t.csv").with_columns(
        pl.col("income").str.replace(",", "").cast(pl.Float64, strict=False),
        pl.col("share").str.strip_suffix("%").cast(pl.Float64, strict=False),
    )
    plain.write_parquet(tmp_path / "t.parquet")
    assert gapmix(tmp_path, "impute", "t.parquet", "-o", "o.parquet", "-m", "m").code == 0
    numbers = pl.read_parquet(tmp_path / "o.parquet")["income"].to_list()
    written = [float(row[2].replace(",", "")) for row in filled]
    np.testing.assert_allclose(numbers, written, atol=0.005001)


def test_columns_of_one_name_are_named_by_their_numbers(gapmix, tmp_path):
    rng = np.random.default_rng(0)
    rows = enumerate(rng.normal(size=(N, 2)).round(2).tolist())
    lines = [f"{a},{b},{a if i % 5 else ''}" for i, (a, b) in rows]
    (tmp_path / "t.csv").write_text("a,b,a\n" + "\n".join(lines) + "\n")
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", "--keep", "a (3)", *QUICK)
    assert ran.code == 0, ran.err
    assert "In options, write 'a (1)', 'a (3)'" in ran.err.replace("\n", " ")
    assert (tmp_path / "o.csv").read_text() == (tmp_path / "t.csv").read_text()
