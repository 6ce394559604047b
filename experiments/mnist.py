"""Experiment 1 of the paper: one mixture per digit, images with a square missing.

Parts: `grid` fits all mixtures and chooses one per digit; `digits` puts the chosen ones to work on
test images; `timing` retrains with each solver; `varied` changes what the paper leaves open.
Run as `python -m experiments.mnist [--tiny | --full] [--only PART [--again]]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import machine

from experiments import mnist_data, mnist_figures, page, profiles
from experiments.command import Order, read_order
from experiments.mnist_work import (
    NEIGHBOURS,
    OPEN,
    choose,
    classify_cells,
    digit_cells,
    grid_cells,
    most_telling_first,
    timing_cells,
    varied_cells,
)
from experiments.outputs import write_csv, write_figure, write_json
from experiments.statistics import compare, half_width
from experiments.store import Cell, Result, load, run, run_for

PARTS = ("grid", "digits", "timing", "varied")
FILLERS = ("mixture", "mean", *(f"{k} nearest" for k in NEIGHBOURS))


def main(arguments: list[str] | None = None) -> None:
    """Do what is asked for, then write whatever is finished."""
    order = read_order("mnist", PARTS, (__doc__ or "").splitlines()[0], arguments)
    profile, cache = order.profile.mnist, order.cache

    def do(part: str, cells: list[Cell]) -> list[Result] | None:
        """Return results of a part if it is asked for or was finished before."""
        if part in order.parts:
            return run(cells, cache, title=f"mnist, {part}", again=order.again)
        found = [load(cell, cache) for cell in cells]
        return None if any(result is None for result in found) else found  # type: ignore[return-value]

    cells, fits = fit_grid(order)
    chosen = choose(cells, fits)
    varied = varied_cells(profile, chosen)
    digits = do("digits", digit_cells(profile, chosen))
    classify = classify_cells(profile)
    changed = do("varied", [*varied.values(), *classify])
    timed_cells = timing_cells(profile, chosen)
    timed = do("timing", timed_cells)

    summary: dict[str, Any] = {"chosen": chosen, "data": mnist_data.source()}
    write_grid(order, cells, fits)
    if digits is not None:
        summary |= write_digits(order, chosen, digits)
    if timed is not None:
        by_config = {str(c.config): r["n_iter"] for c, r in zip(cells, fits, strict=True)}
        iterations = {digit: by_config[str(config)] for digit, config in chosen.items()}
        summary["timing"] = write_timing(order, timed_cells, timed, iterations)
    if changed is not None:
        summary["varied"] = write_varied(order, dict(zip(varied, changed, strict=False)))
        summary["classified"] = write_classified(order, classify, changed[len(varied) :])
    write_json({**configuration(order), **summary}, order.output / "mnist-summary.json")
    page.write(order.profile, order.output)


def fit_grid(order: Order) -> tuple[list[Cell], list[Result]]:
    """Return the fits of the grid, which all parts need, and their cells.

    The full grid takes hours: it is done in the order of what it tells, as far as time allows,
    and what is finished is in the tree.
    """
    cells = grid_cells(order.profile.mnist)
    if order.profile is not profiles.FULL:
        again = order.again and "grid" in order.parts
        return cells, run(cells, order.cache, title="mnist, grid", again=again)
    if "grid" in order.parts:
        first, n_shares = order.share
        own = most_telling_first(cells)[first::n_shares]
        minutes = float("inf") if order.minutes is None else order.minutes
        run_for(own, order.stored, minutes, title="mnist, full grid")
    return read_grid(cells, order.stored)


def read_grid(cells: list[Cell], stored: Path) -> tuple[list[Cell], list[Result]]:
    """Return those cells of a grid that are in the tree, whatever code made them."""
    found = [(cell, load(cell, stored, any_code=True)) for cell in cells]
    done = [(cell, result) for cell, result in found if result is not None]
    return [cell for cell, _ in done], [result for _, result in done]


def configuration(order: Order) -> dict[str, Any]:
    """Return what belongs beside every output."""
    profile = order.profile.mnist._asdict()
    profile["grid"] = profile["grid"]._asdict()
    profile["grids"] = {str(digit): grid._asdict() for digit, grid in profile["grids"].items()}
    return {
        "study": "mnist",
        "profile": order.profile.name,
        "settings": profile,
        "open": OPEN,
        "seeds": {"squares": "[2, digit], test images [2, 10]", "starts": "see grid"},
        "commit": machine.commit(),
    }


def write_grid(order: Order, cells: list[Cell], fits: list[Result]) -> None:
    """Write every fit of the grid."""
    names = ("digit", "n_components", "kept", "seed")
    rows = [
        {**{name: cell.config[name] for name in names}, **numbers, "commit": made["commit"]}
        for cell, (numbers, made) in zip(cells, map(split_made, fits), strict=True)
    ]
    write_csv(rows, order.output / "mnist-grid.csv", configuration(order))


def split_made(result: Result) -> tuple[Result, dict[str, Any]]:
    """Return the numbers of a result, and what made them."""
    return {name: value for name, value in result.items() if name != "made"}, result["made"]


def write_digits(
    order: Order, chosen: dict[int, dict[str, Any]], results: list[Result]
) -> dict[str, Any]:
    """Write figures 1 and the grid, filling errors and the classifier; return their summary."""
    beside, out, profile = configuration(order), order.output, order.profile.mnist
    rows = []
    for digit, result in zip(chosen, results, strict=True):
        row: dict[str, Any] = {"digit": digit, "n_components": chosen[digit]["n_components"]}
        row |= {"kept": chosen[digit]["kept"], "n_images": len(result["error mixture"])}
        row |= {f"rmse {name}": root_mean(result[f"error {name}"]) for name in FILLERS}
        rows.append(row)
    write_csv(rows, out / "mnist-filled.csv", beside)
    by_digit = dict(zip(chosen, results, strict=True))
    write_figure(mnist_figures.draw_examples(by_digit), out / "figure1", beside)
    write_figure(mnist_figures.draw_digits(by_digit), out / "figure1-digits", beside)

    errors = {name: np.concatenate([r[f"error {name}"] for r in results]) for name in FILLERS}
    filled = {
        name: {
            "rmse": root_mean(values),
            "difference": compare(errors["mixture"][None], values[None])._asdict(),
        }
        for name, values in errors.items()
    }
    wrong = {
        what: misclassified(profile, [result[f"score_{what}"] for result in results])
        for what in ("incomplete", "complete")
    }
    classifier = [{"images": what, **values} for what, values in wrong.items()]
    write_csv(classifier, out / "mnist-classifier.csv", beside)
    n_test = len(results[0]["score_complete"])
    return {"filled": filled, "classifier": wrong, "n_test": n_test}


def misclassified(profile: profiles.Mnist, scores: list[np.ndarray]) -> dict[str, float]:
    """Return the share of test images whose likeliest digit is wrong, digits equally likely."""
    labels = mnist_data.test(profile.digits, profile.n_test).labels
    likeliest = np.array(profile.digits)[np.column_stack(scores).argmax(axis=1)]
    miss = (likeliest != labels).astype(float)
    return {"error": float(miss.mean()), "half": half_width(miss[None])}


def root_mean(errors: np.ndarray) -> float:
    """Return the root of the mean of squared errors."""
    return float(np.sqrt(errors.mean()))


def write_timing(
    order: Order, cells: list[Cell], results: list[Result], chosen_iterations: dict[int, int]
) -> dict[str, Any]:
    """Write seconds per iteration, speed-ups and differences; return them per digit."""
    rows = []
    for digit in order.profile.mnist.timed_digits:
        own = [
            (cell.config, result)
            for cell, result in zip(cells, results, strict=True)
            if cell.config["digit"] == digit
        ]
        rows += timing_rows(digit, own)
    write_csv(rows, order.output / "mnist-timing.csv", configuration(order))
    described = results[0]["machine"]
    n_iter = {row["digit"]: row["iterations"] for row in rows if row["solver"] == "dual"}
    others = [r["others_cpu"] for r in results if r["others_cpu"] is not None]
    return {
        "rows": rows,
        "machine": described,
        "others_cpu": max(others, default=None),
        "n_iter": n_iter,
        "retraced": order.profile.mnist.timed_iterations is None
        and all(n_iter[digit] == chosen_iterations[digit] for digit in n_iter),
    }


def timing_rows(digit: int, own: list[tuple[dict[str, Any], Result]]) -> list[dict[str, Any]]:
    """Return a row per solver: mean processor seconds per iteration, scaled up to all rows."""
    n_all = max(result["n_rows"] for _, result in own)
    groups: dict[tuple[str, int], list[Result]] = {}
    for config, result in own:
        groups.setdefault((config["solver"], config["one_row_in"]), []).append(result)
    rounds = {
        s: [float(np.mean(r["seconds"])) * n_all / r["n_rows"] for r in groups[s, part]]
        for s, part in groups
        if part == 1 or s == "naive-row"
    }
    rows = []
    for (solver, part), group in groups.items():
        if part > 1 and solver == "dual":
            continue  # only there to compare results with
        first, same = group[0], groups["dual", part][0]
        rows.append(
            {
                "digit": digit,
                "n_components": own[0][0]["n_components"],
                "solver": solver,
                "seconds_per_iteration": min(rounds[solver]),
                "seconds_by_clock": min(float(np.mean(r["seconds_by_clock"])) for r in group)
                * (n_all / first["n_rows"]),
                "others_cpu": max((r["others_cpu"] or 0.0) for r in group),
                "iterations": len(first["seconds"]),
                "rows_used": first["n_rows"],
                "n_patterns": first["n_patterns"],
                **speed_up("naive_row", rounds["naive-row"], rounds[solver]),
                **speed_up("naive", rounds["naive"], rounds[solver]),
                "log_likelihood": first["log_likelihoods"][-1],
                "difference_log_likelihood": max(
                    abs(a - b)
                    for a, b in zip(first["log_likelihoods"], same["log_likelihoods"], strict=True)
                ),
                "difference_scores": largest(first, same, "score_validation"),
                "difference_filled": largest(first, same, "filled"),
                "trees": " ".join(first["trees"]),
                "threads": own[0][0]["threads"],
                "blas": first["machine"]["blas"],
            }
        )
    return rows


def speed_up(name: str, slow: list[float], fast: list[float]) -> dict[str, float]:
    """Return how many times faster the best round is, and the range of ratios within rounds."""
    ratios = [a / b for a, b in zip(slow, fast, strict=True)]
    return {
        f"times_faster_than_{name}": min(slow) / min(fast),
        f"times_faster_than_{name}_low": min(ratios),
        f"times_faster_than_{name}_high": max(ratios),
    }


def largest(first: Result, second: Result, name: str) -> float:
    """Return the largest absolute difference between two arrays."""
    return float(np.abs(first[name] - second[name]).max())


def write_varied(order: Order, results: dict[str, Result]) -> list[dict[str, Any]]:
    """Write what changes with the decisions the paper leaves open."""
    base = results["as decided"]["error"][None]
    rows = []
    for name, result in results.items():
        difference = compare(result["error"][None], base)
        rows.append(
            {
                "decision": name,
                "nll_validation": result["nll_validation"],
                "n_iter": result["n_iter"],
                "rmse_filled": root_mean(result["error"]),
                "mse_difference": difference.mean,
                "half_width": difference.half,
            }
        )
    write_csv(rows, order.output / "mnist-varied.csv", configuration(order))
    return rows


def write_classified(
    order: Order, cells: list[Cell], results: list[Result]
) -> list[dict[str, float]]:
    """Write how one-component mixtures classify, by the value added to the diagonal."""
    rows = []
    for loading in order.profile.mnist.loadings:
        scores = [
            result["score_incomplete"]
            for cell, result in zip(cells, results, strict=True)
            if cell.config["diagonal_loading"] == loading
        ]
        rows.append({"diagonal_loading": loading, **misclassified(order.profile.mnist, scores)})
    write_csv(rows, order.output / "mnist-classified.csv", configuration(order))
    return rows


if __name__ == "__main__":
    main()
