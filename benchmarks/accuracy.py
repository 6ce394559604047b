"""How well tables are filled, by gapmix and by others: `python -m benchmarks.accuracy`.

Each filling is stored as soon as it is there, so a run goes on where the last one ended; a part
of the work is chosen by names or by minutes. Results go to benchmarks/results/accuracy.*, which
docs/accuracy.md shows.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.fillers import CONTESTANTS
from benchmarks.filling import cells, environments, page, records, summary
from benchmarks.filling.cells import Cell
from benchmarks.filling.tables import MECHANISMS, list_tables
from benchmarks.filling.workers import Workers
from gapmix.wording import count

RESULTS = Path(__file__).parent / "results"
SEEDS = (0, 1, 2)
LIMIT = 300.0  # seconds for a filling


def say(text: str) -> None:
    """Report progress."""
    print(text, file=sys.stderr, flush=True)


def choose(wanted: str | None, there: Sequence[str], what: str) -> list[str]:
    """Return those named; "k-NN" names "k-NN 5", "k-NN 10" and "k-NN 20"."""
    if wanted is None:
        return list(there)
    found: list[str] = []
    for name in wanted.split(","):
        alike = [name] if name in there else [each for each in there if each.startswith(f"{name} ")]
        if not alike:
            raise SystemExit(f"There is no {what} {name!r}. Use some of: {', '.join(there)}.")
        found += alike
    return found


def run(
    todo: list[Cell],
    workers: Workers,
    pythons: dict[str, str],
    stored: dict[str, dict[str, Any]],
    given: argparse.Namespace,
) -> None:
    """Run cells, cheapest first, and store each; what the minutes do not suffice for is left."""
    end = time.monotonic() + 60 * given.minutes
    done = list(stored.values())
    todo = sorted(todo, key=lambda cell: cells.guess_seconds(cell, done))
    for number, cell in enumerate(todo, 1):
        began = time.monotonic()
        limit = min(given.limit, end - began)
        record = None
        if limit > 0:
            record = cells.run_cell(cell, workers, pythons[cell.contestant], limit)
        if record is None or (record["note"].startswith("stopped") and limit < given.limit):
            # by the end of the minutes, not for being slow
            left = count(len(todo) - number + 1, "filling")
            say(f"{given.minutes:g} minutes are over; left: {left}")
            return
        records.append(record, given.cache)
        stored[cell.key] = record
        outcome = record["note"] or f"error {record['seen']['rmse'] or 0:.3f}"
        say(
            f"{number} of {len(todo)}: {cell.table}, {cell.mechanism} {100 * cell.rate:.0f} %, "
            f"seed {cell.seed}, {cell.contestant}: {outcome}, {time.monotonic() - began:.1f} s"
        )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--tables", help="comma-separated names (all)")
    parser.add_argument("--contestants", help="comma-separated names (all)")
    parser.add_argument("--mechanisms", help="some of mcar,mar,mnar (all)")
    parser.add_argument("--settings", action="store_true", help="show each table and kind of gaps")
    parser.add_argument("--rows", type=int, help="draw so many from longer tables (all)")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), help="some of 0,1,2 (all)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds each ({LIMIT:g})")
    parser.add_argument("--threads", type=int, default=1, help="of every contestant (1)")
    parser.add_argument("--again", action="store_true", help="run those again that failed")
    parser.add_argument("--install", action="store_true", help="install other contestants first")
    parser.add_argument("--environments", type=Path, default=environments.FOLDER)
    parser.add_argument("--cache", type=Path, default=RESULTS / "cache", help="of finished work")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of results")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run what is asked for, then write the results of all that is stored."""
    given = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and so end what was started
    tables = choose(given.tables, list_tables(), "table")
    contestants = choose(given.contestants, list(CONTESTANTS), "contestant")
    kinds = choose(given.mechanisms, list(dict.fromkeys(kind for kind, _ in MECHANISMS)), "kind")
    if given.install:
        environments.install(given.environments, contestants)
    seeds = [int(seed) for seed in choose(given.seeds, [str(seed) for seed in SEEDS], "seed")]
    absent = {
        name: why
        for name in CONTESTANTS
        if (why := environments.why_absent(name, given.environments))
    }
    pythons = {
        name: environments.python_of(name, given.environments)
        for name in CONTESTANTS
        if name not in absent
    }
    every = cells.list_cells(list_tables(), MECHANISMS, SEEDS, pythons, given.threads, given.rows)
    stored = records.read(given.cache)
    todo = [
        cell
        for cell in every
        if cell.table in tables and cell.seed in seeds and cell.contestant in contestants
        if cell.mechanism in kinds
        if cells.is_new(stored.get(cell.key), given.limit, again=given.again)
    ]
    n_stored = sum(cell.key in stored for cell in every)
    say(f"{len(every)} fillings, {n_stored} stored, {len(todo)} to run now")
    with Workers(given.threads) as workers:
        run(todo, workers, pythons, stored, given)
    found = [stored[cell.key] for cell in every if cell.key in stored]
    rows = summary.to_rows(found)
    tenths = {name: told for name in CONTESTANTS if (told := summary.pool_tenths(found, name))}
    document = {
        "date": date.today().isoformat(),
        "machine": machine.describe(given.threads),
        "limit": given.limit,
        "absent": absent,
        "tenths": tenths,
        "not_run": dict(Counter(cell.contestant for cell in every if cell.key not in stored)),
    }
    page.write(document, rows, given.output)
    say(f"wrote {given.output / 'accuracy.csv'}")
    print(page.overview(summary.summarise(rows)))
    print(page.missing(document))
    if given.settings:
        print(page.each_setting(rows), page.calibration(tenths), sep="\n\n")


if __name__ == "__main__":
    main()
