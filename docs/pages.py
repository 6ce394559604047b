"""Pages made from result files: tables of costs and stability, and the benchmarks.

Whatever files are there are shown; where there are none, the page says how to make them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import report

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks" / "results"


def write_all(folder: Path) -> None:
    """Write every generated page into a folder; those that did not change keep their date."""
    folder.mkdir(exist_ok=True)
    made = {"benchmarks.md": benchmarks_page(BENCHMARKS)}
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def benchmarks_page(folder: Path) -> str:
    """Return the newest full run in a folder of results, as Markdown."""
    documents = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    runs = [each for each in documents if isinstance(each, dict) and "results" in each]
    if not runs:
        return (
            "No full run is stored with this version. `make bench` makes one, which this page then "
            "shows.\n"
        )
    newest = max(runs, key=lambda each: each["date"])
    return report.markdown(newest).removeprefix("# Benchmarks\n\n")


def table(header: list[str], rows: list[list[Any]]) -> str:
    """Return a Markdown table."""
    return report.table(header, [[str(cell) for cell in row] for row in rows])
