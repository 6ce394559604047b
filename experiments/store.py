"""Finished work on disk: one record per cell, named by its configuration and by the code.

A cell is the smallest piece of work that is worth not repeating. What it gave is kept with the
code and the commit that made it, and is whole or absent: a run that was stopped goes on where it
was, and gives the same numbers. Results with arrays have a file each; a kind whose results are a
few numbers has a line for each in one file, which is what is kept in the tree when a study takes
hours.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks import machine
from threadpoolctl import threadpool_limits

from experiments import fingerprint

Result = dict[str, Any]  # numbers, words, and arrays; "made" tells by what
Compute = Callable[[dict[str, Any]], Result]


class Cell(NamedTuple):
    """A piece of work: its kind, everything its result depends on, and what does it."""

    kind: str
    config: dict[str, Any]  # JSON only
    compute: Compute  # a function of a module, so that other processes find it
    is_line: bool = False  # a few numbers: a line of the file of its kind


def name_of(cell: Cell) -> str:
    """Return a name that another configuration does not have."""
    text = json.dumps([cell.kind, cell.config], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def code_of(cell: Cell) -> str:
    """Return the digest of the code that does a cell now, and the cells it needs."""
    given = getattr(cell.compute, "keywords", {}).values()
    needed = [each.compute for each in given if isinstance(each, Cell)]
    functions = [getattr(each, "func", each) for each in (cell.compute, *needed)]
    return "-".join([fingerprint.of_package(), *(fingerprint.of_work(each) for each in functions)])


commit = cache(machine.commit)  # as it was when this process read its modules


def path_of(cell: Cell, folder: Path) -> Path:
    """Return the file that holds the result of a cell."""
    if cell.is_line:
        return folder / f"{cell.kind}.jsonl"
    return folder / cell.kind / f"{name_of(cell)}-{code_of(cell)}.npz"


def read_lines(path: Path) -> dict[str, dict[str, Any]]:
    """Return the last whole line of each cell in a file, by the cell's name."""
    return _read_lines(path, path.stat().st_size) if path.exists() else {}


@lru_cache(2)
def _read_lines(path: Path, size: int) -> dict[str, dict[str, Any]]:
    """Return the lines of a file; it only grows, so its size tells whether it has changed."""
    lines = {}
    for line in path.read_text().splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:  # the process was stopped while it wrote
            continue
        lines[record["name"]] = record
    return lines


def load(cell: Cell, folder: Path, *, any_code: bool = False) -> Result | None:
    """Return the stored result of a cell, or None; `any_code` takes a line of other code too."""
    path = path_of(cell, folder)
    if cell.is_line:
        record = read_lines(path).get(name_of(cell))
        if record is None or not (any_code or record["made"]["code"] == code_of(cell)):
            return None
        arrays = {}
    elif not path.exists():
        return None
    else:
        with np.load(path, allow_pickle=False) as file:
            record = json.loads(str(file["record"]))
            arrays = {name: file[name] for name in file.files if name != "record"}
    if record["config"] != cell.config:
        raise ValueError(f"{path} holds the result of another configuration; delete it.")
    return {**record["result"], **arrays, "made": record["made"]}


def save(cell: Cell, result: Result, folder: Path, seconds: float) -> None:
    """Store the result of a cell, whole or not at all."""
    path = path_of(cell, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: value for name, value in result.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in result.items() if name not in arrays}
    made = {"commit": commit(), "code": code_of(cell), "processor_seconds": round(seconds, 2)}
    record = {"kind": cell.kind, "config": cell.config, "result": numbers, "made": made}
    if cell.is_line:
        assert not arrays, "a line has no room for arrays"
        with path.open("a") as file:
            file.write(json.dumps({"name": name_of(cell), **record}) + "\n")
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        np.savez_compressed(file, record=np.array(json.dumps(record)), **arrays)
    os.replace(file.name, path)


def work(cell: Cell, folder: Path, *, again: bool = False) -> Result:
    """Return the result of a cell, from disk or by doing it."""
    found = None if again else load(cell, folder)
    if found is None:
        began = time.process_time()
        save(cell, cell.compute(cell.config), folder, time.process_time() - began)
        found = load(cell, folder)
    assert found is not None
    return found


def run(
    cells: Sequence[Cell], folder: Path, *, title: str, jobs: int = 1, again: bool = False
) -> list[Result]:
    """Return the results of all cells, showing how far it is; `again` does them anew.

    With several jobs every process has one thread, which is the better use of cores for much
    small work.
    """
    todo = [cell for cell in cells if again or load(cell, folder) is None]
    progress = Progress(title, len(cells), len(cells) - len(todo))
    if jobs > 1 and len(todo) > 1:
        with ProcessPoolExecutor(
            jobs, mp_context=get_context("spawn"), initializer=use_one_thread
        ) as pool:
            futures = [pool.submit(work, cell, folder, again=again) for cell in todo]
            for done in as_completed(futures):
                done.result()
                progress.step()
    else:
        for cell in todo:
            work(cell, folder, again=again)
            progress.step()
    progress.end()
    return [work(cell, folder) for cell in cells]


def run_for(
    following: Callable[[], Cell | None], folder: Path, minutes: float, *, title: str
) -> None:
    """Do the cell that follows from what is stored, and so on, until none does or time is up."""
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until and (cell := following()) is not None:
        print(f"{title}: {json.dumps(cell.config)}", file=sys.stderr)
        work(cell, folder)


def use_one_thread() -> None:
    """Hold BLAS to one thread for the life of this process."""
    threadpool_limits(1)


class Progress:
    """A line on the standard error: what, how far, how long still."""

    def __init__(self, title: str, total: int, done: int) -> None:
        self.title, self.total, self.done = title, total, done
        self.began, self.first = time.perf_counter(), done
        self.live = sys.stderr.isatty()
        self.said = 0.0
        self._show()

    def step(self) -> None:
        """Count one more."""
        self.done += 1
        self._show()

    def end(self) -> None:
        """Close the line."""
        if self.live:
            print(file=sys.stderr)

    def _show(self) -> None:
        now = time.perf_counter()
        last = self.done == self.total
        if not self.live and self.done != self.first and not last and now - self.said < 15:
            return
        self.said = now
        used = now - self.began
        n = self.done - self.first
        rest = (
            f", about {used / n * (self.total - self.done):.0f} s to go" if n and not last else ""
        )
        line = f"{self.title}: {self.done} of {self.total} after {used:.0f} s{rest}"
        print(
            f"\r{line:<90}" if self.live else line, end="" if self.live else "\n", file=sys.stderr
        )


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells without repeats, in order."""
    seen: dict[str, Cell] = {}
    for cell in cells:
        seen.setdefault(name_of(cell), cell)
    return list(seen.values())
