"""Times in tables: every solver on every digit; trees, updates and the paper's motivating case."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks import machine

from experiments.command import Order
from experiments.mnist_work import TIMED_ITERATIONS
from experiments.outputs import write_csv
from experiments.statistics import mean_and_half
from experiments.store import Cell, Result

TIMED = ("naive-row", "naive", "paper", "tree", "dual")


def beside(order: Order) -> dict[str, Any]:
    """Return what belongs beside tables of times."""
    return {"study": "mnist", "profile": order.profile.name, "commit": machine.commit()} | {
        "seeds": "see columns"
    }


def whole_digits(cells: list[Cell], results: list[Result]) -> tuple[list[Cell], list[Result]]:
    """Return the results of digits that every solver has finished."""
    groups: dict[tuple[int, bool], list[tuple[Cell, Result]]] = {}
    for cell, result in zip(cells, results, strict=True):
        key = cell.config["digit"], cell.config["iterations"] == TIMED_ITERATIONS
        groups.setdefault(key, []).append((cell, result))
    # Timed: two further ones on some rows. Retrained: on all rows and on some, without naive-row.
    needed = {True: len(TIMED) + 2, False: 2 * (len(TIMED) - 1)}
    kept = [
        pair
        for (_, is_timed), group in groups.items()
        if len(group) == needed[is_timed]
        for pair in group
    ]
    return [cell for cell, _ in kept], [result for _, result in kept]


def write_timing(order: Order, cells: list[Cell], results: list[Result]) -> dict[str, Any]:
    """Write seconds per iteration of every digit, and the model retrained to the end."""
    pairs = [(cell.config, result) for cell, result in zip(cells, results, strict=True)]
    timed = [(c, r) for c, r in pairs if c["iterations"] == TIMED_ITERATIONS]
    whole = [(c, r) for c, r in pairs if c["iterations"] != TIMED_ITERATIONS]
    digits = sorted({config["digit"] for config, _ in timed})
    rows = [row for digit in digits for row in _digit_rows(digit, timed)]
    write_csv(rows, order.output / "mnist-timing.csv", beside(order))
    retrained = _retrained(whole) if whole else []
    if retrained:
        write_csv(retrained, order.output / "mnist-retrained.csv", beside(order))
    others = [r["others_cpu"] for r in results if r["others_cpu"] is not None]
    ratios = {
        base: {
            solver: mean_and_half([row[f"over {base}"] for row in rows if row["solver"] == solver])
            for solver in TIMED
        }
        for base in ("naive-row", "naive")
    }
    return {
        "rows": rows,
        "retrained": retrained,
        "ratios": ratios,
        "machine": results[0]["machine"],
        "others_cpu": max(others, default=None),
    }


def _digit_rows(digit: int, timed: list[tuple[dict[str, Any], Result]]) -> list[dict[str, Any]]:
    """Return a row per solver of one digit: seconds of an iteration on all rows."""
    own = {(c["solver"], c["rows"]): r for c, r in timed if c["digit"] == digit}
    least = {key: min(result["seconds"]) for key, result in own.items()}
    few, more = sorted(rows for solver, rows in own if solver == "naive-row")
    n_all = own["dual", None]["n_rows"]
    a_row = (least["naive-row", more] - least["naive-row", few]) / (more - few)
    fixed = least["naive-row", few] - a_row * few
    seconds = {s: least[s, None] for s in TIMED[1:]}
    seconds["naive-row"] = max(fixed, 0.0) + a_row * n_all
    rows = []
    for solver in TIMED:
        result = own[solver, more if solver == "naive-row" else None]
        same = own["dual", more if solver == "naive-row" else None]
        rows.append(
            {
                "digit": digit,
                "solver": solver,
                "seconds_per_iteration": seconds[solver],
                "over naive-row": seconds["naive-row"] / seconds[solver],
                "over naive": seconds["naive"] / seconds[solver],
                "plan_seconds": result["plan_seconds"],
                "n_patterns": result["n_patterns"],
                "rows_timed": result["n_rows"],
                **_apart(result, same),
                "trees": " ".join(result["trees"]),
                "others_cpu": result["others_cpu"] or 0.0,
            }
        )
    return rows


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


def _retrained(whole: list[tuple[dict[str, Any], Result]]) -> list[dict[str, Any]]:
    """Return a row per solver of the chosen model retrained, on all rows and on some."""
    best = {c["rows"]: result for c, result in whole if c["solver"] == "dual"}
    return [
        {
            "digit": config["digit"],
            "n_components": config["n_components"],
            "kept": config["kept"],
            "solver": config["solver"],
            "iterations": len(result["seconds"]),
            "seconds": sum(result["seconds"]),
            "plan_seconds": result["plan_seconds"],
            "rows": result["n_rows"],
            "stopped": "converged" if config["iterations"] is None else "after these",
            **_apart(result, best[config["rows"]]),
        }
        for config, result in whole
    ]


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
