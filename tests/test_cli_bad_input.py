"""Bad tables and bad calls through the command line: the right answer, or what to do instead."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from tests.smalltables import FIT, N, cells, make_rows, write_rows

from gapmix.cli.evaluating import Evaluated, MethodScore
from gapmix.cli.results import render


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
    "no numbers": (
        table(a=[f"x{i}" for i in range(20)], b=[f"2020-01-{i + 1:02d}" for i in range(20)]),
        1,
        "None of the 2 columns holds numbers or categories",
    ),
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
    "damaged Parquet": (
        text(b"PAR1" + b"\x07" * 80 + b"PAR1"),
        1,
        "damaged, or not a Parquet file",
    ),
    "cut Parquet": (text(b"PAR1"), 1, "damaged, or not a Parquet file"),
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
    "a folder": (("impute", "."), 2, "a folder without any file"),
    "an address": (("impute", "https://example.org/a.csv"), 2, "does not use the network"),
    "a spreadsheet": (("impute", "book.xlsx"), 2, "pandas.read_excel('book.xlsx')"),
    "no such column": (("impute", "in.csv", "--columns", "v9"), 2, "has no column 'v9'"),
    "misspelt column": (("score", "in.csv", "--id", "V0"), 2, "Did you mean 'v0'?"),
    "components": (("impute", "in.csv", "--components", "0"), 2, "must be at least 1"),
    "components text": (("impute", "in.csv", "--components", "many"), 2, "--components"),
    "no folder": (("impute", "in.csv", "-o", "no/out.csv"), 2, "There is no folder"),
    "bounds": (("impute", "in.csv", "--bounds", "v0"), 2, "COLUMN=LOW:HIGH"),
    "bounds turned": (("impute", "in.csv", "--bounds", "v0=3:1"), 2, "LOW below HIGH"),
    "bounds of nothing": (("impute", "in.csv", "--bounds", "v9=0:1"), 2, "no column 'v9'"),
    "delimiter": (("impute", "in.csv", "--delimiter", "ab"), 2, "one ASCII character"),
    "same signs": (("impute", "in.csv", "--delimiter", ",", "--decimal", ","), 2, "are both"),
    "encoding": (("impute", "in.csv", "--encoding", "klingon"), 1, "is not known"),
    "base64": (("impute", "in.csv", "--encoding", "base64"), 1, "is not known"),
    "punycode": (("impute", "in.csv", "--encoding", "punycode"), 1, "is not valid punycode"),
    "endless tolerance": (("impute", "in.csv", "--tol", "inf"), 2, "--tol must be a number"),
    "negative tolerance": (("impute", "in.csv", "--tol", "-1"), 2, "--tol must be a number"),
    "no tolerance": (("impute", "in.csv", "--tol", "nan"), 2, "--tol must be a number"),
    "TLS": (("fit", "in.csv", "-o", "m", "--scheduler", "tls://a:1"), 2, "engine=client"),
    "empty matrix": (("fit", "empty.npy", "-o", "m"), 1, "not a whole .npy file"),
    "cut matrix": (("fit", "cut.npy", "-o", "m"), 1, "not a whole .npy file"),
    "one number": (("impute", "number.npy", "-o", "o.csv"), 1, "0 dimensions"),
    "described matrix": (("describe", "number.npy"), 2, "which `impute` and `fit` read"),
    "draws": (("impute", "in.csv", "-o", "o.csv", "--draws", "0"), 2, "at least 1"),
    "draws and std": (("impute", "in.csv", "--draws", "1", "--std"), 2, "--std belongs"),
    "no model": (("impute", "in.csv", "-m", "nothing"), 2, "There is no model file"),
    "bad model": (("impute", "in.csv", "-m", "in.csv"), 1, "cannot be used"),
    "no model to show": (("info", "nothing"), 2, "There is no model file"),
    "json and table": (("impute", "in.csv", "--json"), 2, "--output"),
    "fit without a name": (("fit", "in.csv"), 2, "--output"),
    "seed": (("impute", "in.csv", "--seed", "-1"), 2, "--seed"),
    "memory": (("impute", "in.csv", "--memory", "lots"), 2, "--memory='lots' is not an amount"),
    "little memory": (("impute", "in.csv", "--memory", "10KB"), 2, "too little"),
    "columns of a model": (("impute", "in.csv", "-m", "m", "--columns", "v0"), 2, "--columns has"),
    "a model left out": (
        *(("impute", "in.csv", "-m", "m", "--leave-out", "v0", "--tol", "1"), 2),
        "--leave-out and --tol have no effect with --model",
    ),
    "a model refitted": (
        ("score", "in.csv", "-m", "m", "--components", "3"),
        2,
        "--components has",
    ),
    "a strict model": (("impute", "in.csv", "-m", "m", "--strict"), 2, "--strict has no effect"),
    "a model drawn": (("impute", "in.csv", "-m", "m", "--plots", "p"), 2, "--plots has no effect"),
    "a model's seed": (("impute", "in.csv", "-m", "m", "--seed", "3"), 2, "--seed has no effect"),
    "draws of a model": (
        *(("impute", "in.csv", "-m", "m", "-o", "o.csv", "--draws", "2", "--seed", "3"), 2),
        "There is no model file",
    ),
    "bounds on scores": (("score", "in.csv", "--bounds", "v0=0:1"), 2, "no effect on densities"),
    "a model that keeps": (("fit", "in.csv", "-o", "m", "--keep", "v0"), 2, "give it to `impute`"),
    "a drawing of drawn rows": (("sample", "m", "--plots", "p"), 2, "Unknown option: --plots"),
    "a drawing of a model": (("info", "m", "--plots", "p"), 2, "Unknown option: --plots"),
    "bounds on comparisons": (("evaluate", "in.csv", "--bounds", "v0=0:1"), 2, "on comparisons"),
    "sample nothing": (("sample", "in.csv", "-n", "0"), 2, "at least 1"),
}


@pytest.mark.parametrize(("arguments", "code", "message"), CALLS.values(), ids=CALLS)
def test_bad_calls_end_with_a_message(gapmix, tmp_path, arguments, code, message):
    write_rows(tmp_path / "in.csv", make_rows())
    (tmp_path / "book.xlsx").write_bytes(b"PK\x03\x04")
    np.save(tmp_path / "number.npy", 3.0)
    np.save(tmp_path / "whole.npy", make_rows())
    (tmp_path / "empty.npy").touch()
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:300])
    ran = gapmix(tmp_path, *arguments)
    assert ran.code == code, ran.err
    assert message in ran.err.replace("\n", " ")
    assert "Traceback" not in ran.err


def test_a_text_table_that_needs_more_memory_than_allowed_is_refused(gapmix, tmp_path):
    lines = ["a,b,c", *(f"{i},{i % 7}," for i in range(20_000)), "1,2,3"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    ran = gapmix(tmp_path, "impute", "in.csv", "-o", "o.csv", "--memory", "1MB", *FIT)
    assert ran.code == 1
    assert "0.00093 GB may be used" in ran.err.replace("\n", " ")
    assert not (tmp_path / "o.csv").exists()
    assert gapmix(tmp_path, "describe", "in.csv", "--memory", "1GB").code == 0


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
    assert "If it stands for a gap, give --missing-values 'coded=-999'" in ran.err
    again = gapmix(
        tmp_path, "impute", "in.csv", "-o", "p.csv", "--missing-values", "NA,?,-999", *FIT
    )
    assert "-999" not in (tmp_path / "p.csv").read_text()
    assert "Also taken as gaps, like empty cells and NA: '-999' in 'coded' (10)." in again.err
    assert "Warning" not in again.err


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


def test_a_column_the_model_needs_that_is_there_twice_is_said_to_be(gapmix, tmp_path):
    x = make_rows()
    write_rows(tmp_path / "in.csv", x)
    gapmix(tmp_path, "fit", "in.csv", "-o", "m", *FIT)
    text = (tmp_path / "in.csv").read_text().splitlines()
    lines = [f"{text[0]},v1", *(f"{line},1" for line in text[1:])]
    (tmp_path / "twice.csv").write_text("\n".join(lines) + "\n")
    ran = gapmix(tmp_path, "impute", "twice.csv", "-o", "o.csv", "-m", "m")
    assert ran.code == 1
    assert "column 'v1', and 2 columns of this table have that name" in ran.err.replace("\n", " ")


def test_a_way_of_filling_that_fails_is_shown_with_its_reason():
    good = MethodScore("mean", 0.5, (0.5,), (), 0.1, "")
    bad = MethodScore("k-NN", math.nan, (math.nan,), (), 0.0, "It ran out of memory.")
    result = Evaluated("t.csv", 9, 3, 1, 0.1, ("a",), (0.5, 0.9), (bad, good))
    console = Console(width=120, file=io.StringIO())
    console.print(render("evaluated", result))
    shown = console.file.getvalue()
    assert "nan" not in shown
    assert "k-NN: It ran out of memory." in shown


def test_of_very_many_columns_a_few_are_listed():
    names = tuple(f"v{j}" for j in range(3000))
    score = MethodScore("mean", 0.5, (0.5,) * 3000, (), 0.1, "")
    result = Evaluated("t.csv", 9, 3, 1, 0.1, names, (0.5, 0.9), (score,))
    console = Console(width=120, file=io.StringIO())
    console.print(render("evaluated", result))
    lines = console.file.getvalue().splitlines()
    assert len(lines) < 40
    assert "and 2,980 more columns; --json lists all" in lines


def test_without_its_extras_the_command_says_what_to_install(tmp_path):
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(name='rich')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run(
        [sys.executable, "-m", "gapmix", "--help"], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert ran.stderr == (
        'The command line needs rich, which is not installed. Run: pip install "gapmix[cli]"\n'
    )
