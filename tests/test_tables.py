"""Tables in and out: dialects, cells, chunks, frames, and files that were damaged on the way."""

from __future__ import annotations

import csv
import io
import re
import sys
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import size

from gapmix.estimators.validation import Marks
from gapmix.storage.tablefiles import Dialect
from gapmix.tables import textfile
from gapmix.tables.cells import guard_formulas, parse_numbers, read_marks, write_numbers
from gapmix.tables.coding import Output, decode, encode, match_columns, output_names
from gapmix.tables.dialect import Given, TableError, find_dialect, squeeze
from gapmix.tables.dressed import find_dress, read_dressed, write_dressed
from gapmix.tables.frames import fill_frame, read_frame
from gapmix.tables.scan import scan
from gapmix.tables.schema import (
    CallError,
    Column,
    Roles,
    Schema,
    assign_roles,
    feature_names,
    features,
    find_kept,
)
from gapmix.tables.sink import output_dialect, writing
from gapmix.tables.source import Chunk, open_table


def dialect_of(text, **given_options):
    return find_dialect(text.encode(), Given(**given_options), whole=True)


# ------------------------------------------------------------------ dialects


@pytest.mark.parametrize(
    ("text", "delimiter", "decimal", "header"),
    [
        ("a,b\n1,2\n", ",", ".", True),
        ("a;b\n1,5;2,5\n", ";", ",", True),
        ("a;b\n1.5;2\n", ";", ".", True),
        ("a\tb\n1,5\t2\n", "\t", ",", True),
        ("a|b\n1|2\n", "|", ".", True),
        ("a;b\n1.234,5;2\n", ";", ".", True),  # neither: such cells are text
        ('a,b\n"1,5",2\n', ",", ",", True),
        ('a,b\n"1,234",2\n', ",", ".", True),
        ("a\n1,5\n2,5\n", ";", ",", True),
        ("a\n1\n2\n", ",", ".", True),
        ("1.5,2\n3.5,4\n", ",", ".", False),
        ("M,0.455,15\nF,0.3,7\n", ",", ".", False),
        ("country,2019,2020\nx,1,2\n", ",", ".", True),
        ("0,1,2\n5,5,6\n", ",", ".", True),
        ("5,5\n6,7\n", ",", ".", False),
        ('x,"a;b;c"\n1,"d;e;f"\n', ",", ".", True),
        ("name,text\nx,1;2\ny,3\n", ",", ".", True),
        ("  a   b\n 1.5  2 \n\n10 \t NA\n", " ", ".", True),
        ("a b\n1,5 2,5\n", " ", ",", True),
        ("18.0 8 ?\n15 8 350\n", " ", ".", False),
        ('x y\n"a b" 2\n', " ", ".", True),
        ("city name\nNew York\nLos Angeles\n", ",", ".", True),  # one column of words
        ("full name\nAnn Lee\nBob von Thun\n", ",", ".", True),
        ("400,402.5,405,407.5\n1,2,3,4\n", ",", ".", True),
        ("5,5,5,5\n1,2,3,4\n", ",", ".", False),
        ('"3","1"\n1,2\n', ",", ".", True),
        ('"3","1"\n"1","2"\n', ",", ".", False),
    ],
)
def test_the_dialect_is_found(text, delimiter, decimal, header):
    found = dialect_of(text)
    assert (found.delimiter, found.decimal, found.header) == (delimiter, decimal, header)


@given(st.lists(st.lists(st.text("ab \t,", min_size=1), min_size=2, max_size=2), min_size=1))
@settings(max_examples=size(50, 1000), deadline=None)
def test_runs_of_blanks_cut_cells_and_quotes_keep_them(rows):
    # the slow twin: cells between quotes, padded, come back as they are
    lines = [f'  "{a}" \t "{b}"\t' for a, b in rows]
    text = squeeze("\r\n".join(lines).encode(), '"').decode()
    assert list(csv.reader(io.StringIO(text), delimiter=" ")) == rows
    plain = " \t a\t\tb  \n\nc d\n"
    assert squeeze(plain.encode(), None) == squeeze(plain.encode() + b'"x"', '"')[:-3]
    assert squeeze(plain.encode(), None) == b"a b\n\nc d\n"


def test_what_is_given_is_not_guessed():
    found = dialect_of(
        "1;2\n3;4\n", delimiter="|", decimal=",", header=True, quote="none", encoding="latin-1"
    )
    assert found == Dialect("iso8859-1", "|", ",", None, True)


@pytest.mark.parametrize(
    ("raw", "encoding", "newline", "bom"),
    [
        (b"a,b\r\n1,2\r\n", "utf-8", "\r\n", False),
        (b"\xef\xbb\xbfa,b\n1,2\n", "utf-8", "\n", True),
        ("a,b\n1,2\n".encode("utf-16"), "utf-16-le", "\n", True),
        (b"\xe9,b\r1,2\r", "cp1252", "\r", False),
    ],
)
def test_encoding_and_line_ends_are_found(raw, encoding, newline, bom):
    found = find_dialect(raw, Given(), whole=True)
    assert (found.encoding, found.newline, found.bom) == (encoding, newline, bom)


# ------------------------------------------------------------------ cells


def test_numbers_gaps_and_the_rest_are_told_apart():
    texts = pl.Series([" 1", "+2.5", "1e-3", "", None, "NA", "?", "nan", "12 kg", "-999", ".5"])
    parsed = parse_numbers(texts, read_marks(["-999.0"]), ".")
    expected = [1, 2.5, 1e-3, *[np.nan] * 7, 0.5]
    np.testing.assert_array_equal(parsed.values, expected)
    assert (parsed.n_other, parsed.first_other, parsed.others) == (1, 8, ("12 kg",))


def test_a_point_separates_thousands_where_a_comma_is_the_decimal_sign():
    parsed = parse_numbers(pl.Series(["1,5", "1.234", "1.234,5", "7"]), Marks(), ",")
    np.testing.assert_array_equal(parsed.values, [1.5, np.nan, np.nan, 7])
    assert parsed.others == ("1.234", "1.234,5") or parsed.n_other == 2


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30))
@settings(max_examples=size(50, 1000), deadline=None)
def test_written_numbers_read_back_as_the_same_doubles(values):
    array = np.array(values, dtype=np.float64)
    for decimal in ".,":
        texts = write_numbers(array, decimal)
        back = parse_numbers(texts, Marks(), decimal)
        assert back.values.tobytes() == array.tobytes()
        assert [float(text.replace(",", ".")) for text in texts] == values


def test_the_output_is_written_as_its_name_asks():
    tabs = Dialect(delimiter="\t", decimal=",", quote=None)
    assert output_dialect(Path("o.txt"), tabs) == tabs
    assert output_dialect(None, tabs) == tabs
    assert output_dialect(Path("o.csv"), tabs) == Dialect(delimiter=";", decimal=",")
    assert output_dialect(Path("o.tsv"), Dialect()) == Dialect(delimiter="\t")
    assert output_dialect(Path("o.csv"), None) == Dialect()


def test_only_texts_are_guarded():
    texts = pl.Series(["=1", "+a", "-5", "-5,5", "-", "@", "\tx", "\rx", "a=1", None, "1e5", "+"])
    texts.append(pl.Series(["--", "-1.234,5", "-5 %", "-2+3", "+A1", "-5%*A1", "-$5.20", "-7 kg"]))
    guarded, n_guarded = guard_formulas(texts, ",")
    changed = [new for old, new in zip(texts, guarded, strict=True) if old != new]
    assert changed == ["'=1", "'+a", "'@", "'\tx", "'\rx", "'-2+3", "'+A1", "'-5%*A1"]
    assert n_guarded == 8


# ------------------------------------------------------------------ files


CELL = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=6
)


@given(
    rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=12),
    delimiter=st.sampled_from(",;\t|"),
    block=st.sampled_from([8, 64, 2**23]),
)
@settings(max_examples=size(60, 1000), deadline=None)
def test_every_cell_of_a_text_table_is_read_as_it_was_written(
    tmp_path_factory, rows, delimiter, block
):
    path = tmp_path_factory.mktemp("cells") / "in.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(["a", "b", "c"])
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode())
    dialect = Dialect(delimiter=delimiter)
    usual, textfile.BLOCK_BYTES = textfile.BLOCK_BYTES, block
    try:
        names = textfile.read_header(path, dialect)
        blocks = list(textfile.read_blocks(path, dialect, 3))
    finally:
        textfile.BLOCK_BYTES = usual
    assert names == ["a", "b", "c"]
    found = [tuple(cell or "" for cell in row) for b in blocks for row in b.frame.rows()]
    assert found == rows
    assert [b.first_row for b in blocks] == np.cumsum(
        [1, *(b.frame.height for b in blocks[:-1])]
    ).tolist()[: len(blocks)]


def test_an_error_names_the_line_in_any_block(tmp_path, monkeypatch):
    lines = ["a,b"] + [f"{i},{i}" for i in range(1000)]
    lines[700] = '"x\ny",1,2'
    (tmp_path / "in.csv").write_text("\n".join(lines))
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 100)
    with pytest.raises(TableError, match=r"^Line 701 has 3 fields, the first line has 2\."):
        scan(open_table(tmp_path / "in.csv"))


def test_a_record_without_end_is_found_before_memory_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(textfile, "MAX_RECORD_BYTES", 10_000)
    (tmp_path / "in.csv").write_text('a,b\n1,2\n3,"4\n' + "5,6\n" * 10_000)
    with pytest.raises(TableError, match="begins in line 3 has no end"):
        scan(open_table(tmp_path / "in.csv"))


def test_rows_are_the_same_in_any_blocks(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    frame = pl.DataFrame(x, schema=["a", "b", "c"]).fill_nan(None)
    frame = frame.with_columns(level=pl.Series(rng.choice(["x", "y", "z"], 500)))
    frame.write_csv(tmp_path / "in.csv")
    whole = scan(open_table(tmp_path / "in.csv"))
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 333)
    cut = scan(open_table(tmp_path / "in.csv"))
    assert cut.schema == whole.schema
    np.testing.assert_array_equal(cut.matrix, whole.matrix)
    np.testing.assert_array_equal(whole.matrix[:, :3], x)
    assert whole.schema.columns[3].levels == ("x", "y", "z")
    codes = ["xyz".index(level) for level in frame["level"]]
    np.testing.assert_array_equal(whole.matrix[:, 3], codes)


def test_a_column_that_turns_out_to_be_text_late_is_text(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 200)
    lines = ["a,b"] + [f"{i},{i}" for i in range(300)] + ["oops,5"]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    seen = scan(open_table(tmp_path / "in.csv"))
    assert [column.kind for column in seen.schema.columns] == ["text", "number"]
    assert seen.matrix.shape == (301, 1)
    assert "row 301 has 'oops'" in seen.notes[-1].text


def test_a_table_beyond_memory_is_refused_early(tmp_path):
    pl.DataFrame(np.zeros((5000, 4)), schema=list("abcd")).write_parquet(tmp_path / "in.parquet")
    with pytest.raises(TableError, match="can be fitted in pieces"):
        scan(open_table(tmp_path / "in.parquet"), max_bytes=700_000)
    assert scan(open_table(tmp_path / "in.parquet"), max_bytes=800_000).schema.n_rows == 5000


def pass_through(path: Path, output: Path, roles=None) -> Schema:
    """Write a table as the commands do, with 0 in every gap, and return its schema."""
    source = open_table(path)
    seen = scan(source, roles)
    names = output_names(seen.schema, Output())
    with writing(output, names, source.dialect, raw=True) as sink:
        for chunk in source.chunks():
            encoded = encode(chunk, seen.schema, Marks(), source.dialect)
            filled = np.nan_to_num(encoded.x, nan=0.0)
            made = decode(chunk, seen.schema, encoded, filled, None, Output(), source.dialect)
            sink.write(nw.to_native(made))
    return seen.schema


BASE = (
    'name,"a, b",x,y,day\n'
    + "".join(
        f'"n{i}",{i * 0.37:.6f},{"" if i % 3 == 0 else i},{"NA" if i % 5 == 0 else -i / 7},'
        f"2020-01-{i % 28 + 1:02d}\n"
        for i in range(40)
    )
).encode()
SPLICES = [
    b'"',
    b"\n",
    b",",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b";",
    b"1e400",
    b"''",
    b"\t",
]


def mutate(raw: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with a few of them changed, cut out, doubled or put in."""
    data = bytearray(raw)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(data) + 1))
        kind = rng.integers(5)
        if kind == 0 and at < len(data):
            data[at] = int(rng.integers(256))
        elif kind == 1:
            del data[at : at + int(rng.integers(1, 60))]
        elif kind == 2:
            data[at:at] = SPLICES[int(rng.integers(len(SPLICES)))]
        elif kind == 3:
            data[at:at] = data[at : at + int(rng.integers(1, 60))]
        else:
            del data[at:]
    return bytes(data)


def test_damaged_text_tables_give_an_error_or_the_same_shape(tmp_path):
    rng = np.random.default_rng(7)
    path, output = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes(BASE)
    pass_through(path, output)
    resource = pytest.importorskip("resource", reason="Windows does not have it")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n_read = 0
    n_cases = size(300, 10_000)
    for _ in range(n_cases):
        path.write_bytes(mutate(BASE, rng))
        try:
            schema = pass_through(path, output)
        except (TableError, CallError):
            continue
        n_read += 1
        again = open_table(output) if output.stat().st_size else None
        assert again is not None
        rows = sum(len(chunk.frame) for chunk in again.chunks())
        assert (rows, len(again.names)) == (schema.n_rows, len(schema.columns))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    grown /= 2**20 if sys.platform == "darwin" else 2**10  # counted in bytes there, in kB here
    assert grown < 50 + 2 * len(BASE) / 2**20  # MB
    assert 0.1 * n_cases < n_read < 0.9 * n_cases  # both ways are walked


def test_damaged_parquet_files_give_an_error(tmp_path, capfd):
    rng = np.random.default_rng(8)
    path = tmp_path / "in.parquet"
    frame = pl.DataFrame({"a": np.arange(200.0), "b": [f"t{i}" for i in range(200)]})
    frame.write_parquet(path)
    raw = path.read_bytes()
    for _ in range(size(60, 2000)):
        path.write_bytes(mutate(raw, rng))
        try:
            if path.stat().st_size and path.read_bytes().startswith(b"PAR1"):
                scan(open_table(path), max_bytes=2**28)
        except (TableError, CallError):
            continue
    capfd.readouterr()  # a panic inside polars prints its own line


# ------------------------------------------------------------------ columns


def test_roles_are_given_by_name():
    names = ["a", "b", "c", "d"]
    roles = Roles(columns=("a", "b"), categories=("c",))
    assert assign_roles(names, roles) == ["use", "use", "category", "pass"]
    roles = Roles(columns=("a", "b"), numbers=("b",))
    assert assign_roles(names, roles) == ["use", "numbers", "pass", "pass"]
    assert assign_roles(names, Roles(columns=("a, b", "d"))) == ["use", "use", "pass", "use"]
    assert assign_roles(["a,b", "c"], Roles(columns=("a,b",))) == ["use", "pass"]
    assert assign_roles(names, Roles(leave_out=("a",), id="d")) == ["pass", "use", "use", "pass"]
    with pytest.raises(CallError, match="is named by --categories and --leave-out"):
        assign_roles(names, Roles(categories=("a",), leave_out=("a",)))
    with pytest.raises(CallError, match="is named by --categories and --numbers"):
        assign_roles(names, Roles(categories=("a",), numbers=("a",)))
    with pytest.raises(
        CallError, match=r"2 columns have that name. Use one of 'a \(1\)', 'a \(2\)'"
    ):
        assign_roles(["a", "a"], Roles(id="a"))
    assert assign_roles(["a", "a"], Roles(leave_out=("a (2)",))) == ["use", "pass"]


def test_patterns_name_columns_and_names_count_more():
    names = ["smoke_1", "smoke_2", "age", "a*"]
    roles = Roles(categories=("smoke*",), leave_out=("smoke_2",))
    assert assign_roles(names, roles) == ["category", "pass", "use", "use"]
    roles = Roles(categories=("smoke_2",), leave_out=("smoke*",))
    assert assign_roles(names, roles) == ["pass", "category", "use", "use"]
    assert assign_roles(names, Roles(leave_out=("a*",))) == ["use", "use", "use", "pass"]
    assert assign_roles(names, Roles(columns=("*e",))) == ["pass", "pass", "use", "pass"]
    assert assign_roles(names, Roles(columns=("smoke_?,age",))) == ["use", "use", "use", "pass"]
    assert find_kept(names, Roles(keep=("smoke*",)), ["use"] * 4) == {0, 1}
    with pytest.raises(CallError, match="--keep: no column matches 'x\\*'"):
        find_kept(names, Roles(keep=("x*",)), ["use"] * 4)
    with pytest.raises(CallError, match="the column 'age' is not used"):
        find_kept(names, Roles(keep=("age",)), ["pass"] * 4)


def test_a_category_is_one_column_of_places():
    schema = Schema(
        (
            Column("g", "category", levels=("p", "q", "r")),
            Column("x", "number"),
            Column("t", "text"),
        )
    )
    assert feature_names(schema) == ["g", "x"]
    frame = pl.DataFrame({"g": ["r", "q", "p", None, "new"], "x": range(5), "t": ["-"] * 5})
    encoded = encode(Chunk(nw.from_native(frame), 1), schema, Marks(), None)
    np.testing.assert_array_equal(encoded.x[:, 0], [2, 1, 0, np.nan, np.nan])
    assert encoded.gaps[0].tolist() == [False, False, False, True, False]
    assert encoded.unknown == {0: 1}


SPELLED = ["New York", " led", "Köln", "None", "-", "007", "=cmd", "a,b", 'q"q', "0.50"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_levels_come_back_as_they_are_spelled(tmp_path, suffix):
    rng = np.random.default_rng(0)
    cells = [None if rng.random() < 0.2 else str(rng.choice(SPELLED)) for _ in range(400)]
    frame = pl.DataFrame({"level": cells, "x": np.arange(400.0)})
    path = tmp_path / f"in.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    seen = scan(open_table(path))
    assert seen.schema.columns[0].kind == "category"
    assert seen.schema.columns[0].levels == tuple(sorted(SPELLED))
    out = tmp_path / f"out.{suffix}"
    source = open_table(path)
    with writing(out, ["level", "x"], source.dialect, raw=True) as sink:
        for chunk in source.chunks():
            encoded = encode(chunk, seen.schema, Marks(), source.dialect)
            filled = np.where(np.isnan(encoded.x), np.arange(400)[:, None] % 10, encoded.x)
            made = decode(chunk, seen.schema, encoded, filled, None, Output(), source.dialect)
            sink.write(nw.to_native(made))
    found = pl.read_csv(out, infer_schema=False) if suffix == "csv" else pl.read_parquet(out)
    levels = sorted(SPELLED)
    assert found["level"].to_list() == [
        levels[i % 10] if cell is None else cell for i, cell in enumerate(cells)
    ]


def test_texts_behind_numbers_are_levels_all_the_same(tmp_path, monkeypatch):
    words = ["5", "6"] * 100 + ["low", "high", "none"] * 40
    (tmp_path / "in.csv").write_text("a,b\n" + "".join(f"{w},{i}\n" for i, w in enumerate(words)))
    whole = scan(open_table(tmp_path / "in.csv"))
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 100)
    cut = scan(open_table(tmp_path / "in.csv"))
    assert cut.schema == whole.schema
    assert cut.schema.columns[0].levels == ("5", "6", "high", "low", "none")
    np.testing.assert_array_equal(cut.matrix, whole.matrix)


def test_kinds_of_columns_that_are_passed_through(tmp_path):
    n = 120
    rows = [
        f"p{i},{2000 + i % 20}-01-02,text {i % 80},{'' if i % 4 else 'x'},{i},{i % 2 == 0},,k\n"
        for i in range(n)
    ]
    (tmp_path / "in.csv").write_text("id,day,remark,rare,x,flag,empty,same\n" + "".join(rows))
    seen = scan(open_table(tmp_path / "in.csv"))
    kinds = {column.name: column.kind for column in seen.schema.columns}
    assert kinds == {
        "id": "id",
        "day": "date",
        "remark": "text",
        "rare": "category",
        "x": "number",
        "flag": "category",
        "empty": "empty",
        "same": "category",
    }
    assert [note.text for note in seen.notes] == [
        "Passed through, not filled: 'id' (an id: 120 different texts in 120 cells; no gaps), "
        "'day' (dates; no gaps), 'remark' (80 different texts in 120 cells, too many for a "
        "category; no gaps). To fill one as a category, give --categories COLUMN. To fill dates, "
        "give --numbers COLUMN.",
        "Column 'empty' has no values to learn from. It stays empty.",
    ]


def test_numbers_among_texts_are_numbers_if_asked(tmp_path):
    cells = ["1", "2.5", "*", "", "4", "unknown"] * 10
    (tmp_path / "in.csv").write_text("a,b\n" + "".join(f"{c},1\n" for c in cells))
    seen = scan(open_table(tmp_path / "in.csv"))
    assert seen.schema.columns[0].kind == "text"
    assert "--numbers 'a' to treat all that is not a number as a gap" in seen.notes[0].text
    assert "with 10 gaps" in seen.notes[0].text
    seen = scan(open_table(tmp_path / "in.csv"), ["numbers", "use"])
    column = seen.schema.columns[0]
    assert (column.kind, column.n_missing, column.loose) == ("number", 30, True)
    np.testing.assert_array_equal(seen.matrix[:5, 0], [1, 2.5, np.nan, np.nan, 4])
    assert "20 cells are not a number ('*', 'unknown') and count as gaps" in seen.notes[0].text


@pytest.mark.parametrize(
    ("decimal", "cells"),
    [
        (".", ["0", "1", "2", "3+", ""]),
        (".", ["none", "some", *map(str, range(11))]),
        (",", ["0,5", "1,5", "more", ""]),
    ],
)
def test_answers_beside_a_few_numbers_make_a_category(tmp_path, decimal, cells):
    cells = cells * 20
    split = ";" if decimal == "," else ","
    lines = "".join(f"{cell}{split}{i}\n" for i, cell in enumerate(cells))
    (tmp_path / "in.csv").write_text(f"a{split}b\n{lines}")
    seen = scan(open_table(tmp_path / "in.csv"))
    texts = [text for text in dict.fromkeys(cells) if text.isalpha() or "+" in text]
    assert seen.schema.columns[0].levels == tuple(sorted(set(cells) - {""}))
    note = seen.notes[-1]
    assert note.text == (
        f"Column 'a' has numbers and texts ({', '.join(map(repr, texts))}) and is used as a "
        "category. Give --numbers 'a' if it should be numbers, with gaps instead of texts."
    )
    assert not note.warning
    seen = scan(open_table(tmp_path / "in.csv"), ["numbers", "use"])
    assert seen.schema.columns[0].kind == "number"


def test_a_slip_among_many_numbers_makes_no_category(tmp_path):
    cells = [*map(str, range(40)), "4o"]
    (tmp_path / "in.csv").write_text("a,b\n" + "".join(f"{c},1\n" for c in cells * 3))
    seen = scan(open_table(tmp_path / "in.csv"))
    assert seen.schema.columns[0].kind == "text"
    assert "looks like numbers, but row 41 has '4o'" in seen.notes[0].text


def test_a_level_the_model_does_not_know_is_kept():
    schema = Schema((Column("g", "category", levels=("p", "q")), Column("x", "number")))
    match = match_columns(schema, ("x", "extra", "g"))
    assert [column.kind for column in match.schema.columns] == ["number", "unused", "category"]
    assert match.places.tolist() == [1, 0]
    assert features(match.schema) == (0, 2)


FRAMES = {
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "arrow": lambda data: pd.DataFrame(data).convert_dtypes(dtype_backend="pyarrow"),
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_frames_come_back_with_names_types_and_order(make):
    data = {
        "text": ["u", None, "w"],
        "count": [1, 2, 3],
        "holes": [4, None, 6],
        "x": [0.5, 1.5, None],
        "flag": [True, False, True],
    }
    frame = make(data)
    seen = read_frame(frame)
    kinds = ["category", "number", "number", "number", "category"]
    assert [c.kind for c in seen.schema.columns] == kinds
    nan = np.nan
    expected = [[0, 1, 4, 0.5, 1], [nan, 2, nan, 1.5, 0], [1, 3, 6, nan, 1]]
    np.testing.assert_array_equal(seen.matrix, expected)
    filled = np.where(np.isnan(seen.matrix), [1, 9.25, 9.25, 9.25, 0], seen.matrix)
    made = fill_frame(frame, seen.schema, filled, raw_means=True)
    assert type(made) is type(frame)
    out = nw.from_native(made)
    before = nw.from_native(frame)
    assert out.columns == before.columns
    for name in ("text", "count", "x", "flag"):
        assert out.schema[name] == before.schema[name], name
    assert out.schema["holes"] == nw.Float64
    assert out["holes"].to_list() == [4, 9.25, 6]
    assert out["x"].to_list() == [0.5, 1.5, 9.25]
    assert out["text"].to_list() == ["u", "w", "w"]
    assert out["flag"].to_list() == [True, False, True]
    rounded = nw.from_native(fill_frame(frame, seen.schema, filled))
    assert rounded["holes"].to_list() == [4, 9, 6]
    with_std = nw.from_native(fill_frame(frame, seen.schema, filled, 0.5 * filled))
    assert with_std.columns == ["text", "count", "holes", "holes_std", "x", "x_std", "flag"]
    assert with_std["x_std"].to_list()[2] == 4.625
    assert with_std["x_std"].is_null().to_list()[:2] == [True, True]


def test_the_rows_of_a_pandas_frame_keep_their_index():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0]}, index=["r", "s", "t"])
    seen = read_frame(frame)
    made = fill_frame(frame, seen.schema, np.array([[1.0], [2.0], [3.0]]))
    assert made.index.tolist() == ["r", "s", "t"]
    assert frame["x"].isna().tolist() == [False, True, False]


DRESSED = {
    "euros": (["8.123,50 EUR", "912,00 EUR", "-1.000,10 EUR"], ".", "#.##0,00 EUR"),
    "kilograms": (["70 kg", "81.5 kg", "-64.2 kg"], ".", "0.0 kg"),
    "dollars": (["$1,234.50", "-$99.00", "$7.25"], ".", "$#,##0.00"),
    "thousands": (["1,234.50", "99.00", "7.50"], ".", "#,##0.00"),
    "swiss": (["1'234", "9'876'543", "99"], ".", "#'##0"),
    "percent": (["25%", "3%", "100%"], ".", "0%"),
    "commas": (["7,5 %", "8,2 %", "9,0 %"], ",", "0,0 %"),
    "houses": (["12 B", "12 C", "14 B", "15 D"], ".", ""),
    "codes": (["A12", "A13", "B7"], ".", ""),
    "plain": (["7,5", "8,25", "9"], ",", ""),
    "words": (["no", "yes"], ".", ""),
}


@pytest.mark.parametrize("name", DRESSED)
def test_numbers_with_units_are_told_from_names_and_written_as_they_were(name):
    texts, decimal, spelling = DRESSED[name]
    assert find_dress(texts, decimal) == spelling
    if not spelling:
        return
    cells = nw.from_native(pl.Series([*texts, " ", "NA", None, "12 furlongs"]), series_only=True)
    parsed = read_dressed(cells, Marks(), spelling)
    plain = [re.sub(r"[^\d,.-]", "", text).replace("-", "") for text in texts]
    if "#.##" in spelling or decimal == ",":
        plain = [text.replace(".", "").replace(",", ".") for text in plain]
    wanted = [
        float(digits.replace(",", "")) * (-1 if "-" in text else 1)
        for digits, text in zip(plain, texts, strict=True)
    ]
    assert parsed.values[: len(texts)].tolist() == wanted
    assert np.isnan(parsed.values[len(texts) :]).all()
    assert (parsed.n_other, parsed.others) == (1, ("12 furlongs",))
    again = write_dressed(parsed.values[: len(texts)], spelling)
    back = read_dressed(nw.from_native(again, series_only=True), Marks(), spelling)
    assert back.values.tolist() == parsed.values[: len(texts)].tolist()
    if name != "kilograms":  # where 70 becomes 70.0
        assert again.to_list() == texts
