"""A Parquet set larger than memory, fitted and filled by the command line, and checked by cell.

    python -m benchmarks.outofcore FOLDER --gigabytes 8 --memory 1GB

makes the set in FOLDER (several files, 30 columns, 10 % holes), runs `gapmix fit` and
`gapmix impute` as processes of their own, samples their resident memory (children included), and
compares every observed cell and the order of the rows with the input. FOLDER must be new; it is
removed at the end unless --keep is given.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_COLUMNS, SHARE_MISSING, N_CLUSTERS = 30, 0.1, 3
ROW_BYTES = 224  # of a row in the files, as measured
GROUP_ROWS = 100_000
LOOK_EVERY = 0.1  # seconds between looks at memory


class Ran(NamedTuple):
    """What a command took."""

    seconds: float
    cpu: float  # seconds of all its threads
    peak: int  # bytes resident, children included


def make_rows(first: int, n: int) -> np.ndarray:
    """Return rows first, first + 1, ... of the set: three clusters whose columns are related."""
    rng = np.random.default_rng([7, first])
    mixing = np.random.default_rng(7).normal(size=(N_CLUSTERS, 4, N_COLUMNS))
    cluster = rng.integers(0, N_CLUSTERS, size=n)
    x = rng.normal(size=(n, N_COLUMNS))
    hidden = rng.normal(size=(n, 4))
    for k in range(N_CLUSTERS):
        rows = cluster == k
        x[rows] += hidden[rows] @ mixing[k] + 2.0 * mixing[k, 0]
    x[rng.random(x.shape) < SHARE_MISSING] = np.nan
    return x


def make_set(folder: Path, n_rows: int, n_files: int) -> None:
    """Write the set, row groups of GROUP_ROWS rows, and the number of each row in column `row`."""
    names = [f"x{j}" for j in range(N_COLUMNS)]
    schema = pa.schema([("row", pa.int64()), *((name, pa.float64()) for name in names)])
    bounds = np.linspace(0, n_rows, n_files + 1).astype(int)
    for number, (low, high) in enumerate(pairwise(bounds)):
        path = folder / f"part-{number:03}.parquet"
        with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
            for first in range(low, high, GROUP_ROWS):
                x = make_rows(first, min(GROUP_ROWS, high - first))
                cells = [pa.array(column, from_pandas=True) for column in x.T.copy()]
                rows = pa.array(np.arange(first, first + len(x)))
                writer.write_table(pa.table([rows, *cells], schema=schema))


def run(arguments: list[str], log: Path) -> Ran:
    """Run the command line and return its seconds and peak memory."""
    began, spent, peak = time.perf_counter(), _cpu_of_children(), 0
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "gapmix", *arguments], stderr=file)
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(LOOK_EVERY)
    if process.returncode != 0:
        raise RuntimeError(f"gapmix {arguments[0]} ended with {process.returncode}: see {log}")
    return Ran(time.perf_counter() - began, _cpu_of_children() - spent, peak)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def resident(pid: int) -> int:
    """Return the resident bytes of a process and all below it; 0 if it is gone."""
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        try:
            total += int(Path(f"/proc/{each}/statm").read_text().split()[1])
            for task in os.listdir(f"/proc/{each}/task"):
                children = Path(f"/proc/{each}/task/{task}/children").read_text()
                waiting += map(int, children.split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total * os.sysconf("SC_PAGE_SIZE")


def compare(folder: Path, filled: Path) -> tuple[int, int]:
    """Return observed and filled cells after checking all of them, chunk by chunk.

    Raises an error at the first row out of order, observed cell that changed, or cell left empty.
    """
    n_observed = n_filled = row = 0
    after = pq.ParquetFile(filled).iter_batches(GROUP_ROWS)
    pending = next(after)
    for path in sorted(folder.glob("*.parquet")):
        for before in pq.ParquetFile(path).iter_batches(GROUP_ROWS):
            while before.num_rows:
                if pending.num_rows == 0:
                    pending = next(after)
                n = min(before.num_rows, pending.num_rows)
                counts = _compare_rows(before.slice(0, n), pending.slice(0, n), row)
                n_observed, n_filled = n_observed + counts[0], n_filled + counts[1]
                before, pending, row = before.slice(n), pending.slice(n), row + n
    if pending.num_rows or next(after, None) is not None:
        raise AssertionError(f"{filled} has rows beyond the {row} of the input")
    return n_observed, n_filled


def _compare_rows(before: pa.RecordBatch, after: pa.RecordBatch, row: int) -> tuple[int, int]:
    if before.schema.names != after.schema.names:
        raise AssertionError("the columns differ")
    wanted = np.arange(row, row + len(before))
    if not np.array_equal(after.column("row").to_numpy(), wanted):
        raise AssertionError(f"rows are out of order near row {row}")
    n_observed = n_filled = 0
    for name in before.schema.names[1:]:
        old = before.column(name).to_numpy(zero_copy_only=False)
        new = after.column(name).to_numpy(zero_copy_only=False)
        seen = ~np.isnan(old)
        if old[seen].tobytes() != new[seen].tobytes():
            raise AssertionError(f"an observed cell of {name} changed near row {row}")
        if not np.isfinite(new).all():
            raise AssertionError(f"a cell of {name} was left empty near row {row}")
        n_observed += int(seen.sum())
        n_filled += len(seen) - int(seen.sum())
    return n_observed, n_filled


def study(folder: Path, gigabytes: float, memory: str, more: list[str]) -> dict[str, float]:
    """Make a set, fit, fill and check it; return seconds, peaks in bytes and counts of cells."""
    n_rows = int(gigabytes * 1e9 / ROW_BYTES)
    data, model, filled = folder / "set", folder / "model", folder / "filled.parquet"
    data.mkdir()
    began = time.perf_counter()
    make_set(data, n_rows, max(2, round(gigabytes)))
    found: dict[str, float] = {"rows": n_rows, "make, s": time.perf_counter() - began}
    found["set, bytes"] = sum(path.stat().st_size for path in data.iterdir())
    common = [str(data), "--memory", memory, *more]
    fit = run(
        ["fit", *common, "-o", str(model), "--components", "3", "--leave-out", "row"],
        folder / "fit.log",
    )
    found |= {"fit, s": fit.seconds, "fit, CPU s": fit.cpu, "fit, peak bytes": fit.peak}
    fill = run(["impute", *common, "-o", str(filled), "-m", str(model)], folder / "fill.log")
    found |= {"fill, s": fill.seconds, "fill, CPU s": fill.cpu, "fill, peak bytes": fill.peak}
    began = time.perf_counter()
    found["observed cells"], found["filled cells"] = compare(data, filled)
    found["check, s"] = time.perf_counter() - began
    return found


def main() -> None:
    """Run the study and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="new folder for the set and what is made of it")
    parser.add_argument("--gigabytes", type=float, default=8.0)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--scheduler", help="address of a Dask cluster; threads without it")
    parser.add_argument("--keep", action="store_true", help="do not remove the folder")
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    try:
        more = ["--scheduler", options.scheduler] if options.scheduler else []
        found = study(options.folder, options.gigabytes, options.memory, more)
        for name, value in found.items():
            print(f"{name}: {value:,.1f}" if name.endswith(" s") else f"{name}: {value:,.0f}")
        for name in ("fit", "fill"):
            print(f"--- gapmix {name} said:")
            print((options.folder / f"{name}.log").read_text())
    finally:
        if not options.keep:
            shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
