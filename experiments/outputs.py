"""What is published: numbers as CSV, figures as PNG and SVG, each with its configuration beside."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"
CACHE = RESULTS / "cache"

# The same drawing gives the same file.
matplotlib.rcParams["svg.hashsalt"] = "gapmix"


def write_csv(rows: list[dict[str, Any]], path: Path, configuration: dict[str, Any]) -> None:
    """Write records, one line each, six digits, and how they were made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in row.items()} for row in rows)
    _write_beside(path, configuration)


def write_figure(figure: Figure, path: Path, configuration: dict[str, Any]) -> None:
    """Write a figure as PNG and SVG, and how it was made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=110, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    _write_beside(path, configuration)


def write_json(record: dict[str, Any], path: Path) -> None:
    """Write a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def _write_beside(path: Path, configuration: dict[str, Any]) -> None:
    write_json(configuration, path.with_suffix(".json"))


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def tell_made(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return which commits made results, and the processor time they took."""
    commits = sorted({result["made"]["commit"] for result in results})
    seconds = sum(result["made"]["processor_seconds"] for result in results)
    return {"commits": commits, "cells": len(results), "processor_seconds": seconds}


def keep_earlier(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the parts of an earlier run that this one may not have done, and what made them."""
    if not path.exists():
        return {}
    earlier = json.loads(path.read_text())
    return {name: earlier[name] for name in (*names, "made") if name in earlier}
