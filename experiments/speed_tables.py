"""Times in tables: every solver on every digit; trees, updates and the paper's motivating case."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks import machine

from experiments.command import Order
from experiments.mnist_work import EVERY_ROW, ONE, RETRAIN
from experiments.mnist_work import SOLVERS as TIMED
from experiments.outputs import write_csv
from experiments.statistics import mean_and_half
from experiments.store import Cell, Result


def beside(order: Order) -> dict[str, Any]:
    """Return what belongs beside tables of times."""
    return {"study": "mnist", "profile": order.profile.name, "commit": machine.commit()} | {
        "seeds": "see columns"
    }


def whole_digits(
    cells: list[Cell], results: list[Result | None]
) -> tuple[list[Cell], list[Result]]:
    """Return the results of work on a digit that all its solvers have finished."""
    groups: dict[tuple[str, int], list[tuple[Cell, Result | None]]] = {}
    for cell, result in zip(cells, results, strict=True):
        groups.setdefault((cell.kind, cell.config["digit"]), []).append((cell, result))
    whole = [group for group in groups.values() if all(result is not None for _, result in group)]
    kept = [(cell, result) for group in whole for cell, result in group if result is not None]
    return [cell for cell, _ in kept], [result for _, result in kept]


def write_timing(order: Order, cells: list[Cell], results: list[Result]) -> dict[str, Any]:
    """Write seconds per iteration of every digit, and the models retrained to the end."""
    found = {
        (cell.kind, cell.config["digit"], cell.config["solver"]): result
        for cell, result in zip(cells, results, strict=True)
    }
    digits = sorted({digit for kind, digit, _ in found if kind == ONE})
    rows = [row for digit in digits for row in _digit_rows(digit, found)]
    write_csv(rows, order.output / "mnist-timing.csv", beside(order))
    again = {cell.config["digit"]: cell.config for cell in cells if cell.kind == RETRAIN}
    retrained = [_retrained(config, s, found) for config in again.values() for s in TIMED[1:]]
    if retrained:
        write_csv(retrained, order.output / "mnist-retrained.csv", beside(order))
    others = [r["others_cpu"] for r in results if r["others_cpu"] is not None]
    return {
        "rows": rows,
        "retrained": retrained,
        "ratios": {base: _ratios(rows, f"over {base}") for base in ("naive-row", "naive")},
        "retrained_ratios": _ratios(retrained, "over naive"),
        "machine": results[0]["machine"],
        "others_cpu": max(others, default=None),
    }


def _ratios(rows: list[dict[str, Any]], name: str) -> dict[str, dict[str, float]]:
    """Return the mean ratio of each solver over the digits that have one, with its interval."""
    ratios = {}
    for solver in TIMED:
        values = [r[name] for r in rows if r["solver"] == solver and r[name] is not None]
        if values:
            ratios[solver] = {**mean_and_half(values), "n": len(values)}
    return ratios


def _digit_rows(digit: int, found: dict[tuple[str, int, str], Result]) -> list[dict[str, Any]]:
    """Return a row per solver of one digit: seconds of an iteration on all rows."""
    own = {solver: found[ONE, digit, solver] for solver in TIMED[1:]}
    same = dict.fromkeys(own, own["dual"])
    if (EVERY_ROW, digit, "naive-row") in found:
        own = {"naive-row": found[EVERY_ROW, digit, "naive-row"], **own}
        same["naive-row"] = found[EVERY_ROW, digit, "dual"]
    # The mean: clocks of single iterations depend on who else is running.
    seconds = {solver: float(np.mean(result["seconds"])) for solver, result in own.items()}
    per_row = seconds.get("naive-row")
    return [
        {
            "digit": digit,
            "solver": solver,
            "seconds_per_iteration": seconds[solver],
            "over naive-row": per_row / seconds[solver] if per_row is not None else None,
            "over naive": seconds["naive"] / seconds[solver],
            "plan_seconds": result["plan_seconds"],
            "n_patterns": result["n_patterns"],
            **_apart(result, same[solver]),
            "trees": " ".join(result["trees"]),
            "others_cpu": result["others_cpu"] or 0.0,
        }
        for solver, result in own.items()
    ]


def _apart(result: Result, same: Result) -> dict[str, float]:
    """Return how far two solvers are apart."""
    pairs = zip(result["log_likelihoods"], same["log_likelihoods"], strict=True)
    return {
        "difference_log_likelihood": max(abs(a - b) for a, b in pairs),
        "difference_scores": float(
            np.abs(result["score_validation"] - same["score_validation"]).max()
        ),
        "difference_filled": float(np.abs(result["filled"] - same["filled"]).max()),
    }


def _retrained(
    config: dict[str, Any], solver: str, found: dict[tuple[str, int, str], Result]
) -> dict[str, Any]:
    """Return the row of a solver that retrained a chosen model; its seconds include the plan."""
    own = {s: found[RETRAIN, config["digit"], s] for s in TIMED[1:]}
    seconds = {s: sum(result["seconds"]) + result["plan_seconds"] for s, result in own.items()}
    return {
        "digit": config["digit"],
        "n_components": config["n_components"],
        "kept": config["kept"],
        "solver": solver,
        "iterations": len(own[solver]["seconds"]),
        "seconds": seconds[solver],
        "over naive": seconds["naive"] / seconds[solver],
        "plan_seconds": own[solver]["plan_seconds"],
        **_apart(own[solver], own["dual"]),
    }


def _growth(groups: dict[str, list[Result]]) -> list[dict[str, Any]]:
    """Return the power of the number of rows that times grow with, from fewest to most rows."""
    n_rows = {int(key.split("|")[0]): group for key, group in groups.items()}
    few, many = min(n_rows), max(n_rows)
    pairs = list(zip(n_rows[few], n_rows[many], strict=True))
    what = {
        solver: [(a["seconds"][solver], b["seconds"][solver]) for a, b in pairs]
        for solver in TIMED[1:]
    }
    what["making the tree"] = [(a["build"], b["build"]) for a, b in pairs]
    return [
        {"what": name, "few": few, "many": many, "seconds": float(np.mean([b for _, b in times]))}
        | mean_and_half([float(np.log(b / a) / np.log(many / few)) for a, b in times])
        for name, times in what.items()
    ]


def write_patterns(order: Order, cells: list[Cell], results: list[Result]) -> dict[str, Any]:
    """Write depths, the motivating case, ways to make trees, and updates; means over seeds."""
    pairs = list(zip(cells, results, strict=True))

    def of(kind: str) -> dict[str, list[Result]]:
        groups: dict[str, list[Result]] = {}
        for cell, result in pairs:
            if cell.kind == kind:
                key = "|".join(str(v) for name, v in cell.config.items() if name != "seed")
                groups.setdefault(key, []).append(result)
        return groups

    depth = []
    for key, group in of("pattern-depth").items():
        family, n = key.split("|")
        patterns = float(np.mean([r["n_patterns"] for r in group]))
        deep = float(np.mean([r["depth"] for r in group]))
        depth.append({"family": family, "n": int(n), "n_patterns": patterns, "depth": deep})
        depth[-1] |= {"log2_n": float(np.log2(int(n))), "log2_patterns": float(np.log2(patterns))}
    half = []
    for key, group in of("pattern-half").items():
        base = [r["seconds"]["naive"] for r in group]
        for solver in group[0]["seconds"]:
            ratio = [b / r["seconds"][solver] for b, r in zip(base, group, strict=True)]
            half.append({"d": int(key.split("|")[0]), "solver": solver, **mean_and_half(ratio)})
    trees = []
    for key, group in of("pattern-tree").items():
        first = next(iter(group[0]["seconds"]))
        for name in group[0]["seconds"]:
            ratio = [r["seconds"][name] / r["seconds"][first] for r in group]
            fewer = [r["changes"][name] / r["changes"][first] for r in group]
            build = float(np.mean([r["build"][name] for r in group]))
            row = {"family": key.split("|")[0], "tree": name, **mean_and_half(ratio)}
            trees.append({**row, "changes": float(np.mean(fewer)), "build_seconds": build})
    updates = []
    for key, group in of("pattern-update").items():
        for i, record in enumerate(group[0]["moved"]):
            row = {"size": int(key), "n_d": record["n_d"]}
            for what in ("factor", "covariance"):
                row[what] = float(np.mean([r["moved"][i][what] / r[what] for r in group]))
            updates.append(row)
    growth = _growth(of("pattern-rows"))
    tables = {"growth": growth, "depth": depth, "half": half, "trees": trees, "updates": updates}
    for name, rows in tables.items():
        write_csv(rows, order.output / f"patterns-{name}.csv", beside(order))
    return tables
