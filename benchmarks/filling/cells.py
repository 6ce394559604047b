"""Cells of the comparison: which there are, what they will take, and one being run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.fillers import CONTESTANTS
from benchmarks.filling import records
from benchmarks.filling.scores import Answer, count_tenths, score
from benchmarks.filling.tables import (
    Part,
    Problem,
    digest,
    load_table,
    make_problem,
)
from benchmarks.filling.workers import Workers


class Cell(NamedTuple):
    """A table with holes and who fills it."""

    table: str
    mechanism: str
    rate: float
    seed: int
    contestant: str
    shape: tuple[int, int]  # of the table
    key: str


def list_cells(
    tables: Iterable[str],
    mechanisms: Iterable[tuple[str, float]],
    seeds: Iterable[int],
    pythons: dict[str, str],
    threads: int,
    rows: int | None = None,
) -> list[Cell]:
    """Return the cells of some tables, seeds and contestants, given with their interpreters.

    Of tables with more `rows`, so many are drawn.
    """
    codes = {name: records.name_contestant(name, python) for name, python in pythons.items()}
    found = []
    for name in tables:
        table = load_table(name, rows)
        mixed = bool(table.n_levels.any())
        for mechanism, rate in mechanisms:
            for seed in seeds:
                problem = digest(make_problem(table, mechanism, rate, seed))
                for contestant, code in codes.items():
                    if CONTESTANTS[contestant].mixed and not mixed:
                        continue
                    key = records.name_cell(problem, code, seed, threads)
                    shape = table.x.shape
                    found.append(Cell(name, mechanism, rate, seed, contestant, shape, key))
    return found


def guess_seconds(cell: Cell, done: Iterable[dict[str, Any]]) -> float:
    """Return what a cell will take: what others like it took, else what its contestant says."""
    alike = [
        record["seconds"] or record["limit"]
        for record in done
        if (record["table"], record["contestant"]) == (cell.table, cell.contestant)
    ]
    if alike:
        return float(np.median(alike))
    return CONTESTANTS[cell.contestant].guess(*cell.shape)


def run_cell(cell: Cell, workers: Workers, python: str, limit: float) -> dict[str, Any]:
    """Return the record of a cell, filled by a process that has `limit` seconds for it."""
    table = load_table(cell.table, cell.shape[0])
    problem = make_problem(table, cell.mechanism, cell.rate, cell.seed)
    record: dict[str, Any] = {
        **cell._asdict(),
        "threads": workers.threads,
        "limit": limit,
        "note": "",
        "seconds": None,  # by the clock
        "processor": None,
        "seen": None,
        "new": None,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shown = {"seen": problem.seen.shown, "new": problem.new.shown}
        np.savez(folder / "task.npz", n_levels=problem.n_levels, **shown)
        answer = workers.fill(python, cell.contestant, folder, seed=cell.seed, limit=limit)
        if isinstance(answer, str):
            return {**record, "note": answer}
        try:
            scores = {
                part: _judge(folder / f"{part}.npz", getattr(problem, part), problem)
                for part in ("seen", "new")
            }
        except (ValueError, IndexError) as error:
            return {**record, "note": f"failed: {error}"}
    return {**record, **answer, **scores}


def _judge(path: Path, part: Part, problem: Problem) -> dict[str, Any] | None:
    if not path.exists():
        return None
    with np.load(path) as file:
        others = (file.get(name) for name in ("draws", "low", "high", "sure"))
        answer = Answer(file["filled"], *others)
    scores = score(part, answer, problem.n_levels, problem.spread)
    return {**scores, "tenths": count_tenths(part, answer, problem.n_levels)}


def is_new(record: dict[str, Any] | None, limit: float, *, again: bool) -> bool:
    """Tell whether a cell is to be run: if never, if it may now take longer, or if it failed."""
    if record is None:
        return True
    if record["note"].startswith("stopped"):
        return limit > record["limit"]
    return again and record["note"].startswith("failed")
