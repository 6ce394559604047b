"""Experiment 1 of the paper: one mixture per digit, images with a square missing.

Parts: `grid` fits mixtures, one per digit being chosen; `patterns` measures trees and updates;
`timing` retrains with each solver; `digits` puts the chosen mixtures to work on test images;
`varied` changes what the paper leaves open. Mixtures are chosen from the fits of the full grid that
are in the tree; the quick profile repeats some of these and says how far they are off.
Run as `python -m experiments.mnist [--tiny | --full] [--only PART [--again]]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import machine

from experiments import mnist_data, mnist_figures, page, profiles, speed_tables
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
from experiments.outputs import keep_earlier, tell_made, write_csv, write_figure, write_json
from experiments.pattern_work import pattern_cells
from experiments.statistics import compare, half_width
from experiments.store import Cell, Result, load, name_of, run, run_for

LASTING = ("filled", "classifier", "n_test", "classified", "varied")
PARTS = ("grid", "patterns", "timing", "digits", "varied")
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

    def finished(part: str, cells: list[Cell]) -> tuple[list[Cell], list[Result]]:
        """Return what there is of a part that may be half done, after doing it if asked for."""
        do(part, cells)
        pairs = [(cell, load(cell, cache)) for cell in cells]
        done = [(cell, result) for cell, result in pairs if result is not None]
        return [cell for cell, _ in done], [result for _, result in done]

    cells, fits = fit_grid(order)
    stored = read_grid(grid_cells(profiles.FULL.mnist), order.stored)
    full = profile.n_train == profiles.FULL.mnist.n_train  # else fits are not comparable
    chosen = choose(cells, fits) | (choose(*stored) if full else {})
    chosen = {digit: chosen[digit] for digit in profile.digits if digit in chosen}
    varied, classify = varied_cells(profile), classify_cells(profile)
    timed_cells = timing_cells(profile, chosen)
    widths, seeds = profile.pattern_widths, range(profile.pattern_seeds)
    patterns = pattern_cells(profile.pattern_rows, widths, seeds)
    several = [cell for group in varied.values() for cell in group]
    timed_cells, timed = speed_tables.whole_digits(*finished("timing", timed_cells))
    found = {
        "timing": timed or None,
        "patterns": do("patterns", patterns),
        "digits": do("digits", digit_cells(profile, chosen)),
        "varied": do("varied", [*several, *classify]),
    }

    summary: dict[str, Any] = {"chosen": chosen, "data": mnist_data.source()}
    write_grid(order, cells, fits)
    if full and stored[0]:
        summary["grid"] = summarise_grid(*stored)
        summary["repeated"] = repeat_stored(cells, fits, stored)
    if (digits := found["digits"]) is not None:
        summary |= write_digits(order, chosen, digits)
    if timed:
        summary["timing"] = speed_tables.write_timing(order, timed_cells, timed)
    if (measured := found["patterns"]) is not None:
        summary["patterns"] = speed_tables.write_patterns(order, patterns, measured)
    if (changed := found["varied"]) is not None:
        results = dict(zip(varied, in_groups(changed, len(profile.varied_seeds)), strict=False))
        summary["varied"] = write_varied(order, results)
        summary["classified"] = write_classified(order, classify, changed[len(several) :])
    parts = {name: part for name, part in {"grid": fits, **found}.items() if part is not None}
    summary["made"] = {name: tell_made(part) for name, part in parts.items()}
    summary["stored_made"] = tell_made(stored[1]) if full else {}
    path = order.output / "mnist-summary.json"
    write_json({**configuration(order), **keep_earlier(path, LASTING), **summary}, path)
    page.write(order.profile, order.output)


def in_groups(results: list[Result], size: int) -> list[list[Result]]:
    """Return the results of consecutive cells, so many at a time."""
    return [results[i : i + size] for i in range(0, len(results), size)]


def summarise_grid(cells: list[Cell], fits: list[Result]) -> dict[str, Any]:
    """Return for each digit what was tried and what was best, with the best of every size."""
    summary = {}
    for digit, config in sorted(choose(cells, fits).items()):
        own = [
            (c.config, r["nll_validation"])
            for c, r in zip(cells, fits, strict=True)
            if c.config["digit"] == digit
        ]
        same = [(c, nll) for c, nll in own if c["kept"] == config["kept"]]
        sizes = sorted({c["n_components"] for c, _ in same})
        at_size = [nll for c, nll in same if c["n_components"] == config["n_components"]]
        summary[str(digit)] = {
            "n_components": config["n_components"],
            "kept": config["kept"],
            "seed": config["seed"],
            "nll": min(nll for _, nll in own),
            "fits": len(own),
            "sizes": sizes,
            "shares": sorted({c["kept"] for c, _ in own}),
            "n_seeds": len(at_size),
            "spread_of_starts": max(at_size) - min(at_size),
            "interior": sizes[0] < config["n_components"] < sizes[-1],
            "by_size": {
                str(size): min(nll for c, nll in same if c["n_components"] == size)
                for size in sizes
            },
        }
    return summary


def repeat_stored(
    cells: list[Cell], fits: list[Result], stored: tuple[list[Cell], list[Result]]
) -> dict[str, Any]:
    """Return how far fits of today's code are from the same ones in the tree."""
    known = {name_of(cell): result["nll_validation"] for cell, result in zip(*stored, strict=True)}
    apart = [
        abs(result["nll_validation"] - known[name_of(cell)])
        for cell, result in zip(cells, fits, strict=True)
        if name_of(cell) in known
    ]
    return {"n": len(apart), "largest": max(apart, default=0.0)}


def fit_grid(order: Order) -> tuple[list[Cell], list[Result]]:
    """Return the fits of the grid, which all parts need, and their cells.

    The full grid takes hours: it is done in the order of what it tells, as far as time allows,
    and what is finished is in the tree.
    """
    cells = grid_cells(order.profile.mnist)
    if order.profile is profiles.QUICK:  # it chooses from what is stored
        stored = read_grid(grid_cells(profiles.FULL.mnist), order.stored)[0]
        known = {cell.config["digit"] for cell in stored} - set(order.profile.mnist.grids)
        cells = [cell for cell in cells if cell.config["digit"] not in known]
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


def write_varied(order: Order, results: dict[str, list[Result]]) -> list[dict[str, Any]]:
    """Write what changes with the decisions the paper leaves open; intervals count starts."""
    base = np.array([result["error"] for result in next(iter(results.values()))])
    rows = []
    for name, group in results.items():
        errors = np.array([result["error"] for result in group])
        difference = compare(errors, base)
        nll = [result["nll_validation"] for result in group]
        rows.append(
            {
                "decision": name,
                "nll_validation": float(np.mean(nll)),
                "nll_spread": float(np.ptp(nll)),
                "n_iter": float(np.mean([result["n_iter"] for result in group])),
                "rmse_filled": root_mean(errors),
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
