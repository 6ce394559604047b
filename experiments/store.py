"""Finished work on disk: one file per cell, named by a hash of its configuration.

A cell is the smallest piece of work that is worth not repeating. Its file is written beside its
place and then moved there, so it is whole or absent: a run that was killed goes on where it was,
and gives the same numbers. The file holds the configuration, seeds included, and the result.
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
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

Result = dict[str, Any]  # numbers, words, and arrays
Compute = Callable[[dict[str, Any]], Result]


class Cell(NamedTuple):
    """A piece of work: its kind, everything its result depends on, and what does it."""

    kind: str
    config: dict[str, Any]  # JSON only
    compute: Compute  # a function of a module, so that other processes find it


def path_of(cell: Cell, folder: Path) -> Path:
    """Return where the result of a cell belongs."""
    text = json.dumps([cell.kind, cell.config], sort_keys=True)
    return folder / cell.kind / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.npz"


def load(cell: Cell, folder: Path) -> Result | None:
    """Return the stored result of a cell, or None."""
    path = path_of(cell, folder)
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as file:
        record = json.loads(str(file["record"]))
        arrays = {name: file[name] for name in file.files if name != "record"}
    if record["config"] != cell.config:
        raise ValueError(f"{path} holds the result of another configuration; delete it.")
    return {**record["result"], **arrays}


def save(cell: Cell, result: Result, folder: Path) -> None:
    """Store the result of a cell, whole or not at all."""
    path = path_of(cell, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: value for name, value in result.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in result.items() if name not in arrays}
    record = json.dumps({"kind": cell.kind, "config": cell.config, "result": numbers})
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        np.savez_compressed(file, record=np.array(record), **arrays)
    os.replace(file.name, path)


def work(cell: Cell, folder: Path) -> Result:
    """Return the result of a cell, from disk or by doing it."""
    found = load(cell, folder)
    if found is None:
        save(cell, cell.compute(cell.config), folder)
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
    if again:
        for cell in cells:
            path_of(cell, folder).unlink(missing_ok=True)
    todo = [cell for cell in cells if not path_of(cell, folder).exists()]
    progress = Progress(title, len(cells), len(cells) - len(todo))
    if jobs > 1 and len(todo) > 1:
        with ProcessPoolExecutor(
            jobs, mp_context=get_context("spawn"), initializer=use_one_thread
        ) as pool:
            for done in as_completed([pool.submit(work, cell, folder) for cell in todo]):
                done.result()
                progress.step()
    else:
        for cell in todo:
            work(cell, folder)
            progress.step()
    progress.end()
    return [work(cell, folder) for cell in cells]


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
        seen.setdefault(json.dumps([cell.kind, cell.config], sort_keys=True), cell)
    return list(seen.values())
