"""Experiment 1 of the paper: one mixture per digit, images with a square missing.

Parts: `grid` fits mixtures, one per digit being chosen (`--full`: by the search of `search.py`);
`patterns` measures trees and updates; `timing` retrains with each solver; `digits` puts the chosen
mixtures to work on test images; `varied` changes what the paper leaves open. Mixtures are chosen
from the fits of the search that are in the tree; the quick profile repeats some of these and says
how far they are off.
Run as `python -m experiments.mnist [--tiny | --full] [--only PART [--again]]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks import machine

from experiments import (
    libraries,
    mnist_data,
    mnist_figures,
    page,
    profiles,
    search,
    speed_tables,
)
from experiments.command import Order, read_order
from experiments.mnist_work import (
    NEIGHBOURS,
    OPEN,
    choose,
    classify_cells,
    digit_cells,
    fit_cell,
    grid_cells,
    stored_fits,
    timing_cells,
    varied_cells,
)
from experiments.outputs import keep_earlier, tell_made, write_csv, write_figure, write_json
from experiments.pattern_work import pattern_cells
from experiments.search import Setting
from experiments.statistics import compare, half_width
from experiments.store import Cell, Result, load, name_of, run, run_for

LASTING = ("filled", "classifier", "n_test", "classified", "varied", "timing", "patterns")
PARTS = ("grid", "patterns", "timing", "digits", "varied")
UNTIMED = ("digits", "varied")  # parts that several processes may share
Stored = dict[int, dict[Setting, Result]]  # fits in the tree, by digit
FILLERS = ("mixture", "mean", *(f"{k} nearest" for k in NEIGHBOURS))


def main(arguments: list[str] | None = None) -> None:
    """Do what is asked for, then write whatever is finished."""
    order = read_order("mnist", PARTS, (__doc__ or "").splitlines()[0], arguments)
    profile, cache = order.profile.mnist, order.cache

    def do(part: str, cells: list[Cell]) -> list[Result] | None:
        """Return results of a part if it is asked for or was finished before."""
        if part in order.parts:
            jobs = order.jobs if part in UNTIMED else 1
            return run(cells, cache, title=f"mnist, {part}", jobs=jobs, again=order.again)
        found = [load(cell, cache) for cell in cells]
        return None if any(result is None for result in found) else found  # type: ignore[return-value]

    def finished(part: str, cells: list[Cell]) -> tuple[list[Cell], list[Result]]:
        """Return what there is of a part that may be half done, after doing it if asked for."""
        do(part, cells)
        pairs = [(cell, load(cell, cache)) for cell in cells]
        done = [(cell, result) for cell, result in pairs if result is not None]
        return [cell for cell, _ in done], [result for _, result in done]

    cells, fits = fit_grid(order)
    stored = stored_fits(profiles.FULL.mnist, order.stored)
    full = profile.n_train == profiles.FULL.mnist.n_train  # else fits are not comparable
    chosen = choose(cells, fits) | (choose(*as_cells(stored)) if full else {})
    chosen = {digit: chosen[digit] for digit in profile.digits if digit in chosen}
    varied, classify = varied_cells(profile), classify_cells(profile)
    timed_cells = timing_cells(profile, chosen)
    widths, seeds = profile.pattern_widths, range(profile.pattern_seeds)
    patterns = pattern_cells(profile.pattern_rows, widths, seeds)
    several = [cell for group in varied.values() for cell in group] + classify
    do("timing", timed_cells)
    timed_cells, timed = speed_tables.whole_digits(
        timed_cells, [load(cell, cache) for cell in timed_cells]
    )
    found = {
        "timing": timed or None,
        "patterns": do("patterns", patterns),
        "digits": do("digits", digit_cells(profile, chosen)),
        "varied": finished("varied", several)[1] or None,
    }

    summary: dict[str, Any] = {"chosen": chosen, "data": mnist_data.source()}
    write_grid(order, cells, fits)
    if full and any(stored.values()):
        summary["search"] = summarise_search(stored)
        summary["repeated"] = repeat_stored(cells, fits, stored)
    if full and (measured := libraries.summarise(order.stored)):
        summary["libraries"] = measured
    if (digits := found["digits"]) is not None:
        summary |= write_digits(order, chosen, digits)
    if timed:
        summary["timing"] = speed_tables.write_timing(order, timed_cells, timed)
    if (trees := found["patterns"]) is not None:
        summary["patterns"] = speed_tables.write_patterns(order, patterns, trees)
    groups = {name: [load(cell, cache) for cell in cells] for name, cells in varied.items()}
    if None not in next(iter(groups.values())):  # what others are compared with
        whole = {name: group for name, group in groups.items() if None not in group}
        summary["varied"] = write_varied(order, whole)  # type: ignore[arg-type]
    if None not in (classified := [load(cell, cache) for cell in classify]):
        summary["classified"] = write_classified(order, classify, classified)  # type: ignore[arg-type]
    parts = {name: part for name, part in {"grid": fits, **found}.items() if part is not None}
    summary["made"] = {name: tell_made(part) for name, part in parts.items()}
    path = order.output / "mnist-summary.json"
    earlier = keep_earlier(path, LASTING)
    made = earlier.pop("made", {})
    summary["made"] = made | summary["made"]
    write_json({**configuration(order), **earlier, **summary}, path)
    page.write(order.profile, order.output)


def values_of(fits: dict[Setting, Result]) -> search.Known:
    """Return what the search goes by."""
    return {setting: fit["nll_validation"] for setting, fit in fits.items()}


def summarise_search(stored: Stored) -> dict[str, Any]:
    """Return for each digit what was tried, what was best, and the best of its neighbours."""
    summary = {}
    for digit, fits in stored.items():
        if not fits:
            continue
        known = values_of(fits)
        best = search.best_of(known)
        lowest: dict[Setting, float] = {}
        for setting, value in known.items():
            key = setting._replace(seed=0)
            lowest[key] = min(value, lowest.get(key, value))
        starts = search.starts_of(known, best)
        further = search.next_setting(known)
        summary[str(digit)] = {
            "chosen": best._asdict(),
            "nll": known[best],
            "fits": len(known),
            "inside": further is None or further.seed > 0,  # by one start of every neighbour
            "finished": further is None,
            "n_starts": len(starts),
            "spread_of_starts": max(starts) - min(starts),
            "by_size": {str(s.size): v for s, v in lowest.items() if s.share == best.share},
            "by_share": {f"{s.share:g}": v for s, v in lowest.items() if s.size == best.size},
        }
    return summary


def repeat_stored(cells: list[Cell], fits: list[Result], stored: Stored) -> dict[str, Any]:
    """Return how far fits of today's code are from the same ones in the tree."""
    known = {
        name_of(fit_cell(profiles.FULL.mnist, digit, setting)): fit["nll_validation"]
        for digit, own in stored.items()
        for setting, fit in own.items()
    }
    apart = [
        abs(result["nll_validation"] - known[name_of(cell)])
        for cell, result in zip(cells, fits, strict=True)
        if name_of(cell) in known
    ]
    return {"n": len(apart), "largest": max(apart, default=0.0)}


def fit_grid(order: Order) -> tuple[list[Cell], list[Result]]:
    """Return the fits that this run chooses from or repeats, and their cells.

    The full profile searches, which takes hours: first starts of every digit before further ones of
    what is chosen, and these before further ones of its neighbours. What is finished is in the
    tree, and the quick profile chooses from it.
    """
    full = profiles.FULL.mnist
    if order.profile is not profiles.FULL:
        cells = grid_cells(order.profile.mnist)
        if order.profile is profiles.QUICK:
            known = {d for d, fits in stored_fits(full, order.stored).items() if fits}
            known -= set(order.profile.mnist.grids)
            cells = [cell for cell in cells if cell.config["digit"] not in known]
        again = order.again and "grid" in order.parts
        return cells, run(cells, order.cache, title="mnist, grid", again=again)

    def following() -> Cell | None:
        """Return the next fit of the digit whose search is least far."""
        first, n_shares = order.share
        nexts = []
        for digit, fits in list(stored_fits(full, order.stored).items())[first::n_shares]:
            known = values_of(fits)
            if (setting := search.next_setting(known)) is not None:
                stage = search.stage_of(setting, known)
                nexts.append((stage, len(fits), digit, setting))
        return fit_cell(full, *min(nexts)[2:]) if nexts else None

    if "grid" in order.parts:
        minutes = float("inf") if order.minutes is None else order.minutes
        run_for(following, order.stored, minutes, title="mnist, search")
    return as_cells(stored_fits(full, order.stored))


def as_cells(stored: Stored) -> tuple[list[Cell], list[Result]]:
    """Return stored fits as cells and results."""
    pairs = [(digit, *pair) for digit, fits in stored.items() for pair in fits.items()]
    cells = [fit_cell(profiles.FULL.mnist, digit, setting) for digit, setting, _ in pairs]
    return cells, [fit for _, _, fit in pairs]


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
