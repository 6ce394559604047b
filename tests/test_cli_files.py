"""Files that a command reads and writes: no input is lost, and what cannot be written is said."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.smalltables import FIT, N, cells, make_rows, write_rows

from gapmix.cli.screen import Screen
from gapmix.storage.atomicfile import replace_file


def digest(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".out", ".err")
    }


OVERWRITING = {
    "in place": ("impute", "t.csv", "-o", "t.csv"),
    "a draw": ("impute", "t.1.csv", "-o", "t.csv", "--draws", "3"),
    "the model over the table": ("impute", "t.csv", "-o", "o.csv", "--save-model", "t.csv"),
    "the model over the output": ("impute", "t.csv", "-o", "x", "--save-model", "x"),
    "the model over a draw": (
        *("impute", "t.csv", "-o", "o.csv", "--draws", "2", "--save-model", "o.2.csv"),
    ),
    "the model it applies": ("impute", "t.csv", "-m", "model", "-o", "model"),
    "a fitted model": ("fit", "t.csv", "-o", "t.csv"),
    "a report": ("report", "t.csv", "-o", "t.csv"),
    "scores": ("score", "t.csv", "-o", "t.csv"),
    "scores over the model": ("score", "t.csv", "-m", "model", "-o", "model"),
    "rows over their model": ("sample", "model", "-o", "model"),
    "a checkpoint over the table": ("fit", "t.npy", "-o", "m", "--checkpoint", "t.npy"),
    "a checkpoint over the output": ("impute", "t.npy", "-o", "o.csv", "--checkpoint", "o.csv"),
    "a picture": ("impute", "missing.png", "-o", "o.csv", "--plots", "."),
    "a picture over the output": ("impute", "t.csv", "-o", "filled.png", "--plots", "."),
    "a symbolic link": ("impute", "link.csv", "-o", "t.csv"),
    "to a symbolic link": ("impute", "t.csv", "-o", "link.csv"),
    "a hard link": ("impute", "t.csv", "-o", "hard.csv"),
    "another way to write it": ("impute", "t.csv", "-o", "./set/../t.csv"),
    "a file of a folder": ("impute", "set", "-o", "set/a.parquet"),
    "one more file of a folder": ("impute", "set", "-o", "set/b.parquet"),
    "a link to a file of a folder": ("impute", "set", "-o", "of-set.parquet"),
}


@pytest.mark.parametrize("arguments", OVERWRITING.values(), ids=OVERWRITING)
def test_no_file_is_written_over_one_that_is_read_or_written(gapmix, tmp_path, arguments):
    x = make_rows()
    for name in ("t.csv", "t.1.csv", "missing.png"):
        write_rows(tmp_path / name, x)
    np.save(tmp_path / "t.npy", x)
    assert gapmix(tmp_path, "fit", "t.csv", "-o", "model", *FIT).code == 0
    (tmp_path / "set").mkdir()
    pl.DataFrame(x).write_parquet(tmp_path / "set" / "a.parquet")
    (tmp_path / "link.csv").symlink_to("t.csv")
    os.link(tmp_path / "t.csv", tmp_path / "hard.csv")
    os.link(tmp_path / "set" / "a.parquet", tmp_path / "of-set.parquet")
    before = digest(tmp_path)
    fit = () if arguments[0] == "sample" else FIT
    ran = gapmix(tmp_path, *arguments, *fit)
    assert ran.code == 2, ran.err
    assert "would overwrite" in ran.err or "would become a part" in ran.err
    assert digest(tmp_path) == before


def test_what_cannot_be_written_is_said_before_the_work(gapmix, tmp_path):
    write_rows(tmp_path / "t.csv", make_rows())
    (tmp_path / "folder").mkdir()
    for arguments in (("impute", "t.csv"), ("fit", "t.csv"), ("score", "t.csv"), ("sample", "t")):
        for name, told in (("folder", "This is a folder"), ("no/o.csv", "There is no folder")):
            ran = gapmix(tmp_path, *arguments, "-o", name)
            assert (ran.code, told in ran.err) == (2, True), ran.err


# ------------------------------------------------------------------ streams, signals, full disks


def start(folder, *arguments, shell="", **more):
    command = [sys.executable, "-m", "gapmix", *arguments]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("shell", [">&-", "> /dev/full"])
def test_a_standard_output_that_takes_nothing_is_said(tmp_path, shell):
    write_rows(tmp_path / "t.csv", make_rows())
    for arguments in (("describe", "t.csv"), ("impute", "t.csv", *FIT)):
        with start(tmp_path, *arguments, shell=shell) as process:
            told = process.communicate()[1]
        assert process.returncode == 74, told
        assert ("No space left" if "full" in shell else "Standard output is closed") in told
        assert "Traceback" not in told


def test_ctrl_c_at_any_time_of_the_start_prints_no_traceback(tmp_path):
    write_rows(tmp_path / "t.csv", make_rows())
    for delay in (0.3, 0.9):
        with start(tmp_path, "impute", "t.csv", "-o", "o.csv", *FIT) as process:
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            told = process.communicate()[1]
        if "gapmix" in told or process.returncode >= 0:  # later than Python's own start
            assert "Traceback" not in told
            assert process.returncode in (0, 130), told


def test_ctrl_c_between_draws_tells_what_was_written(tmp_path):
    x = make_rows(2000)
    write_rows(tmp_path / "t.csv", x)
    arguments = ("impute", "t.csv", "-o", "o.csv", "--draws", "2000", "--save-model", "m", *FIT)
    with start(tmp_path, *arguments) as process:
        while not (tmp_path / "o.3.csv").exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        told = process.communicate()[1].replace("\n", " ")
    assert process.returncode == 130
    assert "Stopped. Only m, o.1.csv, o.2.csv, o.3.csv" in told
    names = {path.name for path in tmp_path.iterdir()}
    listed = told.split("Stopped. Only ")[1].split(" had been written")[0].split(", ")
    assert names == {"t.csv", *listed}
    assert all(len(cells(tmp_path / name)) == 2001 for name in names - {"m"})


def test_ctrl_c_right_after_a_file_is_in_its_place_does_not_forget_it(tmp_path):
    old, new, untouched = (tmp_path / name for name in ("old.csv", "new.csv", "untouched.csv"))
    old.write_text("a\n")
    untouched.write_text("a\n")

    def write_and_stop():
        with Screen(quiet=True) as screen:
            for path in (untouched, old, new):
                screen.writes(path)
            for path in (old, new):
                replace_file(path, [b"b\n"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        write_and_stop()
    assert stopped.value.__notes__ == [f"Only {old}, {new} had been written before."]


@pytest.mark.parametrize(
    "arguments",
    [
        ("impute", "t.csv", "-o", "o.csv"),
        ("impute", "t.csv", "-o", "o.parquet"),
        ("impute", "t.parquet", "-o", "o.parquet", "--checkpoint", "o.check"),
        ("fit", "t.csv", "-o", "o.model"),
        ("describe", "t.csv", "--plots", "."),
        ("report", "t.csv", "-o", "o.html"),
    ],
)
def test_a_full_disk_has_one_exit_code_and_leaves_nothing(gapmix, tmp_path, arguments):
    write_rows(tmp_path / "t.csv", make_rows())
    pl.DataFrame(make_rows()).write_parquet(tmp_path / "t.parquet")
    before = digest(tmp_path)
    fit = () if arguments[0] == "describe" else ("--components", "1")
    ran = gapmix(tmp_path, *arguments, *fit, LARGEST_FILE="2000")
    assert ran.code == 74, ran.err
    assert "File too large" in ran.err
    assert digest(tmp_path) == before


# ------------------------------------------------------------------ cells that are passed through


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_numbers_that_are_passed_through_get_no_quote(gapmix, tmp_path, suffix):
    rng = np.random.default_rng(0)
    lat, lon = ([f"{v:.3f}" for v in rng.normal(size=N)] for _ in range(2))
    formulas = ["=1+1" if i % 2 else "-x" for i in range(N)]
    write_rows(tmp_path / "t.csv", make_rows(), lat=lat, lon=lon, f=formulas, g=formulas)
    out = tmp_path / f"o.{suffix}"
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", out.name, "--leave-out", "lat,lon", *FIT)
    assert ran.code == 0, ran.err
    rows = cells(out, "\t" if suffix == "tsv" else ",")
    assert [row[3:5] for row in rows[1:]] == [list(pair) for pair in zip(lat, lon, strict=True)]
    assert [row[5] for row in rows[1:]] == [f"'{text}" for text in formulas]
    assert [row[6] for row in rows[1:]] == [f"'{text}" for text in formulas]


UNWRITABLE = {
    "list": pa.array([[1, 2]] * N),
    "array": pa.array([[1, 2]] * N, pa.list_(pa.int64(), 2)),
    "struct": pa.array([{"q": 1}] * N),
    "map": pa.array([[("k", 1)]] * N, pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"\xff"] * N),
    "duration": pa.array([1] * N, pa.duration("s")),
}


@pytest.mark.parametrize("name", UNWRITABLE)
@pytest.mark.parametrize("pieces", [(), ("--checkpoint", "state")], ids=["whole", "pieces"])
def test_types_that_text_cannot_hold_are_refused_before_the_fit(gapmix, tmp_path, name, pieces):
    x = make_rows()
    columns = {f"v{j}": pa.array(x[:, j], from_pandas=True) for j in range(3)}
    before = pa.table({"odd": UNWRITABLE[name], **columns})
    pq.write_table(before, tmp_path / "t.parquet")
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "o.csv", *pieces, *FIT)
    assert ran.code == 2, ran.err
    assert "The column 'odd' has type" in ran.err
    assert "Fitting" not in ran.err
    assert {path.name for path in tmp_path.iterdir()} == {".err", ".out", "t.parquet"}
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "o.parquet", *pieces, *FIT)
    assert ran.code == 0, ran.err
    after = pq.read_table(tmp_path / "o.parquet").column("odd")
    assert after.to_pylist() == before.column("odd").to_pylist()


LARGE = [None if i % 7 == 3 else 2**60 + 3 * i + 1 for i in range(N)]
EXACT = {
    "int64": pa.array(LARGE, pa.int64()),
    "uint64": pa.array([None if v is None else v + 2**63 for v in LARGE], pa.uint64()),
    "small and large": pa.array([*LARGE[:-2], 1, -5], pa.int64()),
    "decimal": pa.array(
        [None if v is None else Decimal(v * 101) / 100 for v in LARGE], pa.decimal128(30, 2)
    ),
    "int8": pa.array([None if i % 7 == 3 else 120 + i % 8 for i in range(N)], pa.int8()),
    "uint8": pa.array([None if i % 7 == 3 else i % 3 for i in range(N)], pa.uint8()),
    "float32": pa.array([None if i % 7 == 3 else 0.1 * i for i in range(N)], pa.float32()),
    "narrow decimal": pa.array(
        [None if i % 7 == 3 else Decimal(i % 100) / 10 for i in range(N)], pa.decimal128(2, 1)
    ),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("output", ["o.parquet", "o.csv"])
@pytest.mark.parametrize(
    "options",
    [(), ("--raw-means",), ("--checkpoint", "state"), ("--checkpoint", "state", "--raw-means")],
)
def test_observed_cells_of_every_type_come_back_exactly(gapmix, tmp_path, name, output, options):
    x = make_rows()
    columns = {f"v{j}": pa.array(x[:, j], from_pandas=True) for j in range(3)}
    before = EXACT[name].to_pylist()
    pq.write_table(pa.table({"n": EXACT[name], **columns}), tmp_path / "t.parquet")
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", output, *options, "--components", "1")
    assert ran.code == 0, ran.err
    if output.endswith("csv"):
        read = {"float32": np.float32, "decimal": Decimal, "narrow decimal": Decimal}
        after = [read.get(name, Decimal)(row[0]) for row in cells(tmp_path / output)[1:]]
        before = [None if v is None else read.get(name, Decimal)(v) for v in before]
    else:
        after = pq.read_table(tmp_path / output).column("n").to_pylist()
    assert all(new is not None for new in after)
    assert [b for a, b in zip(before, after, strict=True) if a is not None] == [
        a for a in before if a is not None
    ]


def test_large_integers_in_text_come_back_exactly_as_parquet(gapmix, tmp_path):
    texts = ["" if v is None else str(v) for v in LARGE]
    write_rows(tmp_path / "t.csv", make_rows(), n=texts, id=[str(2**60 + i) for i in range(N)])
    for options in ((), ("--raw-means",)):
        ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.parquet", *options, *FIT)
        assert ran.code == 0, ran.err
        after = pl.read_parquet(tmp_path / "o.parquet")
        assert after["n"].dtype == pl.Int64
        assert all(b == a for a, b in zip(LARGE, after["n"], strict=True) if a is not None)
        assert after["id"].to_list() == [2**60 + i for i in range(N)]


@pytest.mark.parametrize("others", [[], ["0.5"]])
def test_whole_numbers_that_no_type_holds_stay_text_as_parquet(gapmix, tmp_path, others):
    base = 2**60 if others else 10**22  # beside fractions, 64 bits are of no help either
    texts = ["" if v is None else str(base + v % 100) for v in LARGE]
    texts[: len(others)] = others
    write_rows(tmp_path / "t.csv", make_rows(), n=texts)
    assert gapmix(tmp_path, "fit", "t.csv", "-o", "model", *FIT).code == 0
    for options in (FIT, ("--model", "model")):
        ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.parquet", *options)
        assert ran.code == 0, ran.err
        after = pl.read_parquet(tmp_path / "o.parquet")["n"]
        assert after.dtype == pl.String
        assert all(b == a if a else float(b) for a, b in zip(texts, after, strict=True))


# ------------------------------------------------------------------ compressed files and streams


QUICK = ("--components", "1", "--threads", "1", "--max-iter", "5")
UNPACK = {
    ".gz": gzip.decompress,
    ".zst": lambda raw: pa.CompressedInputStream(pa.BufferReader(raw), "zstd").read(),
}


def pack(raw, suffix):
    if suffix == ".gz":
        return gzip.compress(raw)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_text_is_read_and_written_by_its_ending(gapmix, tmp_path, suffix):
    raw = write_rows(tmp_path / "t.csv", make_rows()).read_bytes()
    (tmp_path / f"t.csv{suffix}").write_bytes(pack(raw, suffix))
    assert gapmix(tmp_path, "impute", "t.csv", "-o", "plain.csv", *QUICK).code == 0
    plain = (tmp_path / "plain.csv").read_bytes()
    packed = []
    for name in ("o", "other"):  # the same bytes each time: no clock and no name are in the file
        ran = gapmix(tmp_path, "impute", f"t.csv{suffix}", "-o", f"{name}.csv{suffix}", *QUICK)
        assert ran.code == 0, ran.err
        packed.append((tmp_path / f"{name}.csv{suffix}").read_bytes())
    assert UNPACK[suffix](packed[0]) == plain
    assert packed[0] == packed[1]
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", f"d.tsv{suffix}", "--draws", "2", *QUICK)
    assert ran.code == 0, ran.err
    assert b"v0\tv1" in UNPACK[suffix]((tmp_path / f"d.2.tsv{suffix}").read_bytes())


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_damaged_compressed_file_is_refused_and_nothing_is_written(gapmix, tmp_path, suffix):
    raw = write_rows(tmp_path / "t.csv", make_rows()).read_bytes()
    whole = pack(raw, suffix)
    damaged = {"cut": whole[:-9], "empty": pack(b"", suffix)}
    if suffix == ".gz":  # pyarrow's zstd has no checksum
        damaged["flipped"] = whole[:99] + bytes([whole[99] ^ 255]) + whole[100:]
    for what, content in damaged.items():
        (tmp_path / f"t.csv{suffix}").write_bytes(content)
        ran = gapmix(tmp_path, "impute", f"t.csv{suffix}", "-o", f"o.csv{suffix}", *QUICK)
        assert ran.code == 1, (what, ran.err)
        assert ("is empty" if what == "empty" else "damaged or cut short") in ran.err
        assert not (tmp_path / f"o.csv{suffix}").exists()
    (tmp_path / f"t.csv{suffix}").write_bytes(whole)
    before = digest(tmp_path)
    arguments = ("impute", f"t.csv{suffix}", "-o", f"t.csv{suffix}", "--force", *QUICK)
    ran = gapmix(tmp_path, *arguments, LARGEST_FILE="200")  # a full disk keeps the old file whole
    assert (ran.code, digest(tmp_path)) == (74, before), ran.err


REFUSED = {
    "t.xlsx": "pandas.read_excel('t.xlsx').to_csv('t.csv', index=False)",
    "t.ods": "pip install pandas odfpy",
    "t.csv.zip": "unpack it first",
    "t.json": "JSON",
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_formats_are_refused_with_the_way_out(gapmix, tmp_path, name):
    write_rows(tmp_path / "t.csv", make_rows())
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    ran = gapmix(tmp_path, "describe", name)
    assert (ran.code, REFUSED[name] in ran.err) == (2, True), ran.err
    (tmp_path / name).unlink()
    for output in (name, "t.parquet.gz"):
        ran = gapmix(tmp_path, "impute", "t.csv", "-o", output, *QUICK)
        assert (ran.code, "not written" in ran.err) == (2, True), ran.err
        assert not (tmp_path / output).exists()
    if name == "t.xlsx":
        assert "written" in gapmix(tmp_path, "impute", "t.csv", "-o", name).err


def test_a_table_goes_from_standard_input_to_standard_output(gapmix, tmp_path):
    raw = write_rows(tmp_path / "t.csv", make_rows()).read_bytes()
    pl.read_csv(raw).write_parquet(tmp_path / "t.parquet")
    assert gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", *QUICK).code == 0
    expected = (tmp_path / "o.csv").read_bytes()
    for given in (raw, gzip.compress(raw)):
        ran = subprocess.run(
            [sys.executable, "-m", "gapmix", "impute", "-", "-o", "-", *QUICK],
            input=given,
            capture_output=True,
            cwd=tmp_path,
        )
        assert (ran.returncode, ran.stdout) == (0, expected), ran.stderr
        assert b"standard output" in ran.stderr
    with (tmp_path / "t.parquet").open("rb") as file:
        command = [sys.executable, "-m", "gapmix", "report", "-", "-o", "r.html", *QUICK]
        ran = subprocess.run(command, stdin=file, capture_output=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "standard input" in (tmp_path / "r.html").read_text()
    assert "Name a file" in gapmix(tmp_path, "fit", "t.csv", "-o", "-").err
    assert "cannot be read in pieces" in gapmix(tmp_path, "fit", "-", "-o", "m", *PIECES).err


PIECES = ("--checkpoint", "state")


def test_force_lets_the_output_replace_the_table_and_nothing_else(gapmix, tmp_path):
    write_rows(tmp_path / "t.csv", make_rows())
    os.symlink("t.csv", tmp_path / "link.csv")
    assert gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", *QUICK).code == 0
    refused = gapmix(tmp_path, "impute", "t.csv", "-o", "link.csv", *QUICK)
    assert (refused.code, "or give --force" in refused.err) == (2, True)
    before = digest(tmp_path)
    for wrong in (
        ("-o", "o.csv", "--save-model", "t.csv"),
        ("-o", "t.csv", "--save-model", "t.csv"),
    ):
        ran = gapmix(tmp_path, "impute", "t.csv", *wrong, "--force", *QUICK)
        assert (ran.code, "would overwrite" in ran.err, "--force" in ran.err) == (2, True, False)
    ran = gapmix(tmp_path, "impute", "o.csv", "-o", "o.csv", "--draws", "2", "--force", *QUICK)
    assert ran.code == 0, ran.err  # o.1.csv and o.2.csv are new
    os.rename(tmp_path / "o.1.csv", tmp_path / "d.1.csv")
    ran = gapmix(tmp_path, "impute", "d.1.csv", "-o", "d.csv", "--draws", "2", "--force", *QUICK)
    assert (ran.code, "would overwrite" in ran.err) == (2, True)  # the second draw would read it
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "link.csv", "--force", *QUICK)
    assert ran.code == 0, ran.err
    after = digest(tmp_path)
    assert after["t.csv"] == after["o.csv"] == before["o.csv"]
    assert (tmp_path / "link.csv").is_symlink()


def test_cells_cut_at_blanks_come_back_and_names_keep_their_quotes(gapmix, tmp_path):
    (tmp_path / "t.data").write_text(
        '  a   b  c\n 1.5  20   "x y"\n2   NA "tab\there" \n\n3.5\t60  z\n4 80 z\n'
    )
    ran = gapmix(tmp_path, "impute", "t.data", "-o", "o.data", "--std", *QUICK)
    assert ran.code == 0, ran.err
    assert "Cells are separated at blanks" in ran.err
    again = gapmix(tmp_path, "impute", "o.data", "-o", "o.parquet", "--leave-out", "b_std", *QUICK)
    assert again.code == 0, again.err
    found = pl.read_parquet(tmp_path / "o.parquet")
    assert found.columns == ["a", "b", "b_std", "c"]
    assert found["c"].to_list() == ["x y", "tab\there", "z", "z"]
    assert found["b_std"].to_list()[0] == "NA"
    assert found["b"].null_count() == 0
    given = gapmix(tmp_path, "impute", "t.data", "-o", "p.csv", "--delimiter", "blanks", *QUICK)
    assert given.code == 0, given.err
    assert cells(tmp_path / "p.csv")[0] == ["a", "b", "c"]
    (tmp_path / "q.csv").write_text('"a","b ""q"""\n1,2\n3,\n4,5\n6,7\n')
    assert gapmix(tmp_path, "impute", "q.csv", "-o", "r.csv", "--std", *QUICK).code == 0
    first = (tmp_path / "r.csv").read_text().splitlines()[0]
    assert first == '"a","b ""q""","b ""q""_std"'
