"""Damaged files, odd options, signals and full disks: a message and whole files, never a crash."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from conftest import size
from tests.smalltables import make_rows

from gapmix import load

N_CASES, N_CASES_FULL = 60, 2000
N_SIGNALS, N_SIGNALS_FULL = 4, 76
BATCH = 20  # cases that one test runs
SECONDS = float(os.environ.get("GAPMIX_ATTACK_SECONDS", "inf"))  # of the cases, all together
BEGAN = time.monotonic()
CODES = {0, 1, 2, 3, 74}
ROWS = make_rows(40, 4)
NOISE = [
    b"\n",
    b'"',
    b",",
    b";",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"nan",
    b"1e999",
    b"-",
    b"=",
    b"\r",
]


def make_tables(folder):
    """Write a valid table of every kind, and a model."""
    frame = pl.DataFrame(ROWS, schema=["a", "b", "c", "d"]).with_columns(pl.all().fill_nan(None))
    frame = frame.with_columns(
        pl.Series("name", [f"row {i}" if i % 3 else "=x" for i in range(len(ROWS))]),
        pl.Series("whole", [None if i % 5 == 0 else 2**60 + i for i in range(len(ROWS))]),
    )
    frame.write_csv(folder / "t.csv")
    frame.write_csv(folder / "t.tsv", separator="\t")
    frame.write_parquet(folder / "t.parquet", row_group_size=15)
    np.save(folder / "t.npy", ROWS)


def mutate(raw, rng):
    """Return bytes with a few things wrong."""
    raw = bytearray(raw)
    for _ in range(rng.choice([0, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(raw) + 1)
        near = rng.choice([at, rng.randrange(min(len(raw), 200) + 1), max(0, len(raw) - at % 200)])
        what = rng.randrange(6)
        if what == 0:
            raw[near : near + 1] = bytes([rng.randrange(256)])
        elif what == 1:
            raw[near:near] = rng.choice(NOISE)
        elif what == 2:
            del raw[near : near + rng.choice([1, 2, 7, 50])]
        elif what == 3:
            raw = raw[:near] or raw
        elif what == 4:
            raw[at:at] = raw[near : near + rng.randrange(100)]
        elif near < len(raw):
            raw[near] ^= 1 << rng.randrange(8)
        raw = raw or bytearray(b"\n")
    return bytes(raw)


def draw_arguments(rng, table, has_model):
    """Return a command with options that may or may not go together."""
    command = rng.choice(
        ["impute"] * 4 + ["fit", "score", "describe", "info", "sample", "evaluate"]
    )
    if command in ("info", "sample"):
        return [command, "model", *(["-o", "o.csv", "-n", "5"] if command == "sample" else [])]
    options = []
    if command in ("impute", "fit", "score"):
        name = rng.choice(["o.csv", "o.tsv", "o.parquet", "o", "o.csv", "t.csv", "no/o.csv"])
        options += ["-o", name] if command == "fit" or rng.random() < 0.9 else []
        options += ["--components", rng.choice(["1", "2"]), "--max-iter", "3", "--threads", "1"]
    if command in ("impute", "score") and has_model:
        options += ["-m", "model"]
    choices = [
        ["--columns", "a,b"],
        ["--leave-out", rng.choice(["a", "name", "zz"])],
        ["--categories", "name"],
        ["--missing-values", rng.choice(["-999", "row 1", "?,0", "1152921504606846977"])],
        ["--delimiter", rng.choice([",", ";", "tab", "|"])],
        ["--decimal", ","],
        ["--quote", rng.choice(["none", "'"])],
        ["--encoding", rng.choice(["utf-8", "cp1252", "utf-16", "base64", "utf-7", "ascii"])],
        ["--no-header"],
        ["--memory", rng.choice(["1MB", "1GB", "x"])],
        ["--quiet"],
        ["--json"],
    ]
    if command == "impute":
        choices += [
            ["--std"],
            ["--draws", "2"],
            ["--raw-means"],
            ["--raw"],
            ["--save-model", "o.model"],
        ]
        choices += [["--draws", "2", "--draw-column"], ["--bounds", "a=0:1"]]
    if command in ("impute", "fit"):
        choices += [["--checkpoint", "o.state"]]
    if command == "evaluate":
        options += ["--repeats", "1", "--components", "1", "--max-iter", "3"]
    for choice in rng.sample(choices, rng.choice([0, 1, 1, 2, 3])):
        options += choice
    return [command, table, *options]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_outputs(folder, command, ran):
    """Every output is whole: text that ends with a line, Parquet and models that can be read."""
    for path in folder.glob("o*"):
        raw = path.read_bytes()
        assert raw, path
        if command == "fit" or path.name == "o.model":
            assert path.name == "o.state" or load(path).n_features_in_
        elif path.suffix == ".parquet":
            pl.read_parquet(path)
        elif path.name in ("o.csv", "o.tsv"):
            assert raw[-1:] in b"\n\r\0", path
    left = {path.name for path in folder.iterdir()} - {".out", ".err", "model", "t.csv"}
    assert all(name.startswith(("o", "t.")) for name in left), (left, ran.err)


def run_case(gapmix, folder, seed, model):
    """Run a mutated table, or a mutated model, through a drawn command; return its exit code."""
    rng = random.Random(seed)
    make_tables(folder)
    (folder / "model").write_bytes(mutate(model, rng) if seed % 4 == 0 else model)
    table = rng.choice(["t.csv", "t.csv", "t.tsv", "t.parquet", "t.parquet", "t.npy"])
    if seed % 4 or rng.random() < 0.3:
        (folder / table).write_bytes(mutate((folder / table).read_bytes(), rng))
    arguments = draw_arguments(rng, table, has_model=seed % 4 == 0 or rng.random() < 0.3)
    inputs = {name: digest(folder / name) for name in (table, "model")}
    ran = gapmix(folder, *arguments)
    case = f"seed {seed}: gapmix {' '.join(arguments)}\n{ran.err}"
    assert ran.code in CODES, f"exit code {ran.code}, {case}"
    assert "Traceback" not in ran.err, case
    assert "panicked" not in ran.err, case
    assert {name: digest(folder / name) for name in inputs} == inputs, case
    check_outputs(folder, arguments[0], ran)
    return ran.code


@pytest.fixture(scope="module")
def model(gapmix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    make_tables(folder)
    fit = ("--leave-out", "whole", "--components", "2", "--max-iter", "5", "--threads", "1")
    assert gapmix(folder, "fit", "t.csv", "-o", "model", *fit).code == 0
    return (folder / "model").read_bytes()


def small_and_full(small, full):
    """Return the numbers of cases, those beyond the small size under the mark `full`."""
    return [*range(small), *(pytest.param(i, marks=pytest.mark.full) for i in range(small, full))]


@pytest.mark.parametrize("batch", small_and_full(N_CASES // BATCH, N_CASES_FULL // BATCH))
def test_damaged_files_and_odd_options_never_crash(gapmix, tmp_path, model, batch):
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        if time.monotonic() - BEGAN > SECONDS:
            pytest.skip(f"from case {seed} on: {SECONDS:g} s are over")
        folder = tmp_path / str(seed)
        folder.mkdir()
        run_case(gapmix, folder, seed, model)


@pytest.mark.parametrize("seed", small_and_full(N_SIGNALS, N_SIGNALS_FULL))
def test_a_signal_at_any_time_leaves_the_old_file_or_the_new(tmp_path, seed):
    rng = random.Random(seed)
    make_tables(tmp_path)
    name = rng.choice(["o.csv", "o.parquet"])
    old = (tmp_path / ("t.csv" if name == "o.csv" else "t.parquet")).read_bytes()
    (tmp_path / name).write_bytes(old)
    table = rng.choice(["t.csv", "t.parquet"])
    more = rng.choice([(), ("--draws", "1"), ("--raw-means",), ("--raw",)])
    command = [sys.executable, "-m", "gapmix", "impute", table, "-o", name, "--components", "1"]
    before = {path.name: digest(path) for path in tmp_path.iterdir()}
    kind = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    with subprocess.Popen([*command, *more], cwd=tmp_path, stderr=subprocess.PIPE) as process:
        time.sleep(rng.uniform(0.0, 6.0))
        process.send_signal(kind)
        told = process.communicate(timeout=120)[1].decode()
    too_early = kind == signal.SIGINT and "gapmix" not in told  # Python itself was starting
    assert process.returncode in (0, 130, -kind) or (too_early and process.returncode == 1), told
    after = {path.name: digest(path) for path in tmp_path.iterdir()}
    assert set(after) == set(before), told
    assert {k: v for k, v in after.items() if k != name} == {
        k: v for k, v in before.items() if k != name
    }
    if after[name] != before[name]:
        done = pl.read_parquet if name == "o.parquet" else pl.read_csv
        assert done(tmp_path / name).height == len(ROWS)


def test_a_full_disk_at_any_size_leaves_nothing(gapmix, tmp_path):
    for seed in range(size(6, 60)):
        rng = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        make_tables(folder)
        before = {path.name for path in folder.iterdir()} | {".out", ".err"}
        name = rng.choice(["o.csv", "o.parquet", "o.tsv"])
        table = rng.choice(["t.csv", "t.parquet"])
        limit = rng.randrange(1500, 4000)  # what is written to stderr takes less
        fit = ("--components", "1", "--quiet", "--leave-out", "name,whole")
        ran = gapmix(folder, "impute", table, "-o", name, *fit, LARGEST_FILE=str(limit))
        assert ran.code in (0, 74), ran.err
        after = {path.name for path in folder.iterdir()}
        assert after - before == ({name} if ran.code == 0 else set())
        assert not (folder / name).exists() or (folder / name).stat().st_size <= limit
