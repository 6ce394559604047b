"""Records to figures: means over seeds, ratios to the best simple filling, ranks, winners."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

Row = dict[str, Any]  # means over the seeds of a setting and contestant; see FIELDS
SIMPLE = ("mean", "k-NN", "iterative")
SEVERAL = ("k-NN", "iterative")  # with several settings, of which the best counts
OURS = "gapmix"
PARTS = ("seen", "new")
SCORES = ("rmse", "mae", "wrong", "crps", "coverage", "energy")
YARDSTICK = {"crps": "mae"}  # of a filling without spread, both are the same
SETTING = ("table", "mechanism", "rate")
FIELDS = (
    *("table", "n", "d", "mechanism", "rate", "contestant", "seeds", "processor", "seconds"),
    *(f"{part} {score}" for part in PARTS for score in SCORES),
    *("stopped", "failed", "note"),
)


class Line(NamedTuple):
    """A contestant over all settings that it has; ratios are geometric means."""

    contestant: str
    ratios: dict[str, float | None]  # "seen rmse" and so on, to the best of SIMPLE
    to_ours: float | None  # its rmse / that of gapmix, where both have one
    rank: float | None  # mean, by rmse of seen rows; last if stopped
    coverage: dict[str, float | None]  # by part
    processor: float | None  # median seconds
    longest: float | None
    settings: int
    stopped: int  # cells
    failed: int


def to_rows(records: Iterable[dict[str, Any]]) -> list[Row]:
    """Return a row for each setting and contestant; of several settings, the least error."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        key = (*(record[name] for name in SETTING), record["contestant"])
        groups.setdefault(key, []).append(record)
    rows: dict[tuple[Any, ...], Row] = {}
    for (*setting, contestant), found in groups.items():
        row = _average(found)
        family, _, settings = contestant.partition(" ")
        if family in SEVERAL:
            row["contestant"] = family
            row["note"] = row["note"] or settings
        key = (*setting, row["contestant"])
        if key not in rows or _error(row) < _error(rows[key]):
            rows[key] = row
    return [rows[key] for key in sorted(rows, key=lambda key: key[:3])]


def _average(found: list[dict[str, Any]]) -> Row:
    done = [record for record in found if record["seen"] is not None]
    first = found[0]
    row = {name: first[name] for name in (*SETTING, "contestant")}
    row |= {"n": first["shape"][0], "d": first["shape"][1], "seeds": len(done)}
    for name in ("processor", "seconds"):
        row[name] = _mean([record[name] for record in done])
    for part in PARTS:
        for score in SCORES:
            values = [record[part][score] for record in done if record[part] is not None]
            row[f"{part} {score}"] = _mean([value for value in values if value is not None])
    notes = [record["note"] for record in found if record["note"]]
    row["stopped"] = sum(note.startswith("stopped") for note in notes)
    row["failed"] = len(notes) - row["stopped"]
    row["note"] = notes[0] if notes else ""
    return row


def pool_tenths(records: Iterable[dict[str, Any]], contestant: str) -> list[list[float]]:
    """Return of each tenth of probabilities how many levels were filled with one, and two means.

    These are the probability, and the share of the levels that were right. Seen and new rows of
    all records count together; tenths without a level are left out.
    """
    told = [
        record[part]["tenths"]
        for record in records
        if record["contestant"] == contestant
        for part in PARTS
        if record[part] is not None and record[part].get("tenths") is not None
    ]
    sums = [[sum(each) for each in zip(*tenth, strict=True)] for tenth in zip(*told, strict=True)]
    return [[n, sure / n, right / n] for n, sure, right in sums if n]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _error(row: Row) -> float:
    """Return what the best of several is chosen by: errors of numbers, then wrong levels."""
    found = [row["seen rmse"], row["new rmse"]]
    found = found if found[0] is not None else [row["seen wrong"], row["new wrong"]]
    return sum(value for value in found if value is not None) if row["seeds"] else math.inf


def write_rows(rows: list[Row], path: Path) -> None:
    """Write rows with four digits."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()})


def read_rows(path: Path) -> list[Row]:
    """Return rows as they were written."""
    with path.open(newline="") as file:
        return [
            {name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(file)
        ]


def _value(name: str, text: str) -> Any:
    if name in ("table", "mechanism", "contestant", "note"):
        return text
    if name in ("n", "d", "seeds", "stopped", "failed"):
        return int(text)
    return float(text) if text else None


def take_ratios(rows: list[Row]) -> list[Row]:
    """Return rows with ratios "seen rmse" and so on to the best of the simple ones, if all ran."""
    best: dict[tuple[Any, ...], Row] = {}
    for setting, group in by_setting(rows).items():
        simple = [row for row in group if row["contestant"] in SIMPLE and row["seeds"]]
        if len(simple) == len(SIMPLE):
            best[setting] = {
                name: min((row[name] for row in simple if row[name] is not None), default=None)
                for name in _names()
            }
    found = []
    for row in rows:
        beside = best.get(tuple(row[name] for name in SETTING))
        if beside is not None and row["seeds"]:
            ratios = {name: _ratio(row[name], beside[_yardstick(name)]) for name in _names()}
            found.append({**row, "ratios": ratios})
    return found


def _names() -> list[str]:
    return [f"{part} {score}" for part in PARTS for score in SCORES if score != "coverage"]


def _yardstick(name: str) -> str:
    part, score = name.split()
    return f"{part} {YARDSTICK.get(score, score)}"


def _ratio(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None


def by_setting(rows: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows of each table, mechanism and rate."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in SETTING), []).append(row)
    return found


def summarise(rows: list[Row]) -> list[Line]:
    """Return a line for each contestant, the least error first."""
    scaled, ranks = take_ratios(rows), _ranks(rows)
    ours = {tuple(r[name] for name in SETTING): r for r in rows if r["contestant"] == OURS}
    lines = []
    for contestant in dict.fromkeys(row["contestant"] for row in rows):
        own = [row for row in rows if row["contestant"] == contestant]
        ratios = [row["ratios"] for row in scaled if row["contestant"] == contestant]
        done = [row for row in own if row["seeds"]]
        seconds = [row["processor"] for row in done]
        beside = [
            _ratio(row[name], other[name])
            for row in done
            for other in [ours.get(tuple(row[name] for name in SETTING))]
            if other is not None
            for name in ("seen rmse", "new rmse")
        ]
        lines.append(
            Line(
                contestant,
                {name: middle(each[name] for each in ratios) for name in _names()},
                middle(beside),
                _mean(ranks.get(contestant, [])),
                {
                    part: _mean([r[name] for r in done if r[name] is not None])
                    for part in PARTS
                    for name in [f"{part} coverage"]
                },
                median(seconds) if seconds else None,
                max(seconds, default=None),
                len(done),
                sum(row["stopped"] for row in own),
                sum(row["failed"] for row in own),
            )
        )
    return sorted(lines, key=lambda line: line.ratios["seen rmse"] or math.inf)


def middle(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean of those that are there and not 0."""
    found = [value for value in values if value]
    return geometric_mean(found) if found else None


def _ranks(rows: list[Row]) -> dict[str, list[float]]:
    """Return the ranks of contestants by error of seen numbers; without a result, the last."""
    found: dict[str, list[float]] = {}
    for group in by_setting(rows).values():
        errors = {
            r["contestant"]: _error({**r, "new rmse": None, "new wrong": None}) for r in group
        }
        for contestant, error in errors.items():
            better = sum(other < error for other in errors.values())
            ties = sum(other == error for other in errors.values())
            found.setdefault(contestant, []).append(better + (ties + 1) / 2)
    return found


def by_table(rows: list[Row], score: str) -> dict[str, dict[str, float]]:
    """Return ratios of each table and contestant, over mechanisms, seen and new rows."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for row in take_ratios(rows):
        values = [row["ratios"][f"{part} {score}"] for part in PARTS]
        found.setdefault(row["table"], {}).setdefault(row["contestant"], []).extend(values)
    return {
        table: {name: value for name, each in them.items() if (value := middle(each)) is not None}
        for table, them in found.items()
        if any(value is not None for each in them.values() for value in each)
    }


def find_winners(rows: list[Row], score: str) -> list[tuple[str, str, float]]:
    """Return table, rival and ratio of its error to ours, where a rival's is the least of all.

    Both are taken over the settings that both have.
    """
    found = []
    for table in dict.fromkeys(row["table"] for row in rows):
        mine = {k: _of(g, OURS) for k, g in by_setting(rows).items() if k[0] == table}
        beaten: dict[str, list[float | None]] = {}
        for setting, group in by_setting(rows).items():
            us = mine.get(setting)
            for row in group if us else ():
                if not row["contestant"].startswith(OURS) and row["seeds"]:
                    beaten.setdefault(row["contestant"], []).extend(
                        _ratio(row[f"{part} {score}"], us[f"{part} {score}"]) for part in PARTS
                    )
        ratios = {name: value for name, each in beaten.items() if (value := middle(each))}
        if ratios and (least := min(ratios.items(), key=lambda pair: pair[1]))[1] < 1:
            found.append((table, *least))
    return found


def _of(group: list[Row], contestant: str) -> Row | None:
    return next((r for r in group if r["contestant"] == contestant and r["seeds"]), None)
