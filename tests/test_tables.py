"""Tables in and out: dialects, cells, chunks, frames, and files that were damaged on the way."""

from __future__ import annotations

import csv
import io
import resource
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
from gapmix.tables.coding import Output, decode, encode, match_columns, most_probable, output_names
from gapmix.tables.dialect import Given, TableError, find_dialect
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
)
from gapmix.tables.sink import output_dialect, writing
from gapmix.tables.source import open_table


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
    ],
)
def test_the_dialect_is_found(text, delimiter, decimal, header):
    found = dialect_of(text)
    assert (found.delimiter, found.decimal, found.header) == (delimiter, decimal, header)


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
    guarded, n_guarded = guard_formulas(texts, ",")
    changed = [new for old, new in zip(texts, guarded, strict=True) if old != new]
    assert changed == ["'=1", "'+a", "'-", "'@", "'\tx", "'\rx", "'+"]
    assert n_guarded == 7


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
    roles = ["use", "use", "use", "one-hot"]
    whole = scan(open_table(tmp_path / "in.csv"), roles)
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 333)
    cut = scan(open_table(tmp_path / "in.csv"), roles)
    assert cut.schema == whole.schema
    np.testing.assert_array_equal(cut.matrix, whole.matrix)
    np.testing.assert_array_equal(whole.matrix[:, :3], x)
    np.testing.assert_array_equal(whole.matrix[:, 3], frame["level"].to_numpy() == "y")
    np.testing.assert_array_equal(whole.matrix[:, 4], frame["level"].to_numpy() == "z")


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
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
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
    roles = Roles(columns=("a", "b"), one_hot=("c",))
    assert assign_roles(names, roles) == ["use", "use", "one-hot", "pass"]
    assert assign_roles(names, Roles(columns=("a, b", "d"))) == ["use", "use", "pass", "use"]
    assert assign_roles(["a,b", "c"], Roles(columns=("a,b",))) == ["use", "pass"]
    assert assign_roles(names, Roles(leave_out=("a",), id="d")) == ["pass", "use", "use", "pass"]
    with pytest.raises(CallError, match="is named by --one-hot and by --leave-out"):
        assign_roles(names, Roles(one_hot=("a",), leave_out=("a",)))
    with pytest.raises(CallError, match="2 columns have that name"):
        assign_roles(["a", "a"], Roles(id="a"))


def test_the_coding_of_categories_has_full_rank():
    schema = Schema(
        (
            Column("g", "category", levels=("p", "q", "r")),
            Column("x", "number"),
            Column("t", "text"),
        )
    )
    assert feature_names(schema) == ["g=q", "g=r", "x"]
    frame = pl.DataFrame({"g": ["p", "q", "r", None, "new"], "x": range(5), "t": ["-"] * 5})
    seen = read_frame(frame, one_hot=["g"])
    coded = seen.matrix[~np.isnan(seen.matrix).any(axis=1)]
    n_levels = len(seen.schema.columns[0].levels)
    design = np.column_stack([np.ones(len(coded)), coded[:, : n_levels - 1]])
    assert np.linalg.matrix_rank(design) == n_levels
    assert most_probable(np.array([[0.1, 0.2], [0.5, 0.1], [0.2, 0.6]])).tolist() == [0, 1, 2]


def test_a_level_the_model_does_not_know_is_kept():
    schema = Schema((Column("g", "category", levels=("p", "q")), Column("x", "number")))
    match = match_columns(schema, ("x", "extra", "g"))
    assert [column.kind for column in match.schema.columns] == ["number", "unused", "category"]
    assert match.places.tolist() == [1, 0]
    assert [f.column for f in features(match.schema)] == [0, 2]


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
    assert [c.kind for c in seen.schema.columns] == ["text", "number", "number", "number", "text"]
    np.testing.assert_array_equal(seen.matrix, [[1, 4, 0.5], [2, np.nan, 1.5], [3, 6, np.nan]])
    filled = np.where(np.isnan(seen.matrix), 9.25, seen.matrix)
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
    assert out["text"].is_null().to_list() == [False, True, False]
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
