"""Experiment 2 of the paper: regression on Abalone with more and more inputs missing.

Parts: `fill` fills every draw of gaps in every way; `learn` trains the two learners on each;
`varied` changes what the paper leaves open.
Run as `python -m experiments.abalone [--tiny | --full] [--only PART [--again]]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks import machine
from benchmarks.data import load_abalone

from experiments import abalone_figures, page
from experiments.abalone_data import split
from experiments.abalone_work import (
    FILLINGS,
    LEARNERS,
    MEAN,
    MIXTURE,
    MIXTURE_SEEING,
    NEIGHBOURS,
    NEIGHBOURS_FAIR,
    OPEN,
    VARIED,
    draw_config,
    draw_table,
    fill_cell,
    learn_cell,
    mixture_cell,
)
from experiments.command import Order, read_order
from experiments.outputs import write_csv, write_figure, write_json
from experiments.statistics import Difference, compare, repeats_half_width
from experiments.store import load, run, unique, work

PARTS = ("fill", "learn", "varied")
ALONE = "mixture alone"
Errors = dict[tuple[str, str, float], np.ndarray]  # learner, imputer, share -> (repeats, rows)


def main(arguments: list[str] | None = None) -> None:
    """Do what is asked for, then write whatever is finished."""
    order = read_order("abalone", PARTS, (__doc__ or "").splitlines()[0], arguments)
    profile = order.profile.abalone
    draws = [(p, r) for p in profile.proportions for r in range(profile.repeats)]
    fillings = [filling for options in FILLINGS.values() for filling in options]
    fills = [fill_cell(profile, f, p, r) for p, r in draws for f in fillings if p > 0]
    fills += [
        fill_cell(profile, f, 0.0, r) for r in range(profile.repeats) for f in ("none", MIXTURE)
    ]
    learns = [
        learn_cell(profile, learner, f, p, r, order.cache)
        for learner in LEARNERS
        for p, r in draws
        for f in fillings
    ]
    varied = {
        name: [
            mixture_cell(profile, profile.varied_proportion, r, **changes)
            for r in range(profile.repeats)
        ]
        for name, changes in VARIED.items()
    }
    parts = {
        "fill": unique(fills),
        "learn": unique(learns),
        "varied": unique(cell for cells in varied.values() for cell in cells),
    }
    finished = {}
    for part, cells in parts.items():
        if part in order.parts:
            again = order.again
            run(cells, order.cache, title=f"abalone, {part}", jobs=order.jobs, again=again)
        finished[part] = all(load(cell, order.cache) is not None for cell in cells)

    summary: dict[str, Any] = {"data": load_abalone().source}
    if finished["fill"] and finished["learn"]:
        errors = collect(order)
        summary["claims"] = write_learned(order, errors)
        summary["filled"] = write_filled(order)
    if finished["varied"]:
        found = {name: [work(c, order.cache) for c in cells] for name, cells in varied.items()}
        summary["varied"] = write_varied(order, found)
    write_json({**configuration(order), **summary}, order.output / "abalone-summary.json")
    page.write(order.profile, order.output)


def configuration(order: Order) -> dict[str, Any]:
    """Return what belongs beside every output."""
    return {
        "study": "abalone",
        "profile": order.profile.name,
        "settings": order.profile.abalone._asdict(),
        "open": OPEN,
        "seeds": {"gaps": "[1, repeat]", "network": "repeat", "starts": "see settings"},
        "commit": machine.commit(),
    }


def collect(order: Order) -> Errors:
    """Return the squared errors on test rows of every curve at every share."""
    profile, cache = order.profile.abalone, order.cache
    errors: Errors = {}
    for p in profile.proportions:
        for learner in LEARNERS:
            for imputer, options in FILLINGS.items():
                best = []
                for r in range(profile.repeats):
                    tried = [
                        work(learn_cell(profile, learner, f, p, r, cache), cache) for f in options
                    ]
                    best.append(min(tried, key=lambda result: result["validation_mse"]))
                errors[learner, imputer, p] = np.array([result["test_errors"] for result in best])
        alone = [
            work(mixture_cell(profile, p, r), cache)["test_errors"] for r in range(profile.repeats)
        ]
        errors[ALONE, ALONE, p] = np.array(alone)
    return errors


def curve(errors: Errors, learner: str, imputer: str, shares: tuple[float, ...]) -> list[Any]:
    """Return the points of a curve: mean over repeats and the band over repeats."""
    return [
        {
            "proportion": p,
            "mse": float(errors[learner, imputer, p].mean()),
            "band": repeats_half_width(errors[learner, imputer, p]),
        }
        for p in shares
    ]


def write_learned(order: Order, errors: Errors) -> dict[str, Any]:
    """Write figures 2 and 3 and their numbers; return the differences that decide claims."""
    shares, out, beside = order.profile.abalone.proportions, order.output, configuration(order)
    figure2 = {
        learner: {imputer: curve(errors, learner, imputer, shares) for imputer in FILLINGS}
        for learner in LEARNERS
    }
    figure3 = {ALONE: curve(errors, ALONE, ALONE, shares)}
    figure3 |= {learner: figure2[learner][MIXTURE] for learner in LEARNERS}
    write_figure(abalone_figures.draw_imputers(figure2), out / "figure2", beside)
    write_figure(abalone_figures.draw_discriminant(figure3), out / "figure3", beside)
    rows = [
        {"learner": learner, "imputer": imputer, **point}
        for learner, curves in figure2.items()
        for imputer, points in curves.items()
        for point in points
    ]
    rows += [{"learner": "none", "imputer": ALONE, **point} for point in figure3[ALONE]]
    write_csv(rows, out / "abalone-curves.csv", beside)

    some = [p for p in shares if p > 0]

    def against(a: tuple[str, str], b: tuple[str, str], where: list[float]) -> list[Any]:
        return [as_record(a, b, p, compare(errors[*a, p], errors[*b, p])) for p in where]

    claims: dict[str, Any] = {
        f"mixture against {other}": [
            record
            for learner in LEARNERS
            for record in against((learner, MIXTURE), (learner, other), some)
        ]
        for other in FILLINGS
        if other != MIXTURE
    }
    claims["neighbours against mean"] = [
        record
        for learner in LEARNERS
        for record in against((learner, NEIGHBOURS), (learner, MEAN), some)
    ]
    claims["fair neighbours against mean"] = [
        record
        for learner in LEARNERS
        for record in against((learner, NEIGHBOURS_FAIR), (learner, MEAN), some)
    ]
    for imputer, name in ((MIXTURE, "discriminant"), (MIXTURE_SEEING, "discriminant, target seen")):
        claims[f"{name} against mixture alone"] = [
            record
            for learner in LEARNERS
            for record in against((learner, imputer), (ALONE, ALONE), list(shares))
        ]
    flat = [{"claim": name, **record} for name, records in claims.items() for record in records]
    write_csv(flat, out / "abalone-differences.csv", beside)
    return claims


def as_record(
    a: tuple[str, str], b: tuple[str, str], p: float, difference: Difference
) -> dict[str, Any]:
    """Return a difference with what it is between."""
    return {
        "learner": a[0],
        "first": a[1],
        "second": b[1],
        "proportion": p,
        "difference": difference.mean,
        "half_width": difference.half,
    }


def write_filled(order: Order) -> list[dict[str, Any]]:
    """Write the error of filled cells of the test rows, in standard deviations."""
    profile, cache = order.profile.abalone, order.cache
    rows = []
    for p in profile.proportions:
        for filling in [f for options in FILLINGS.values() for f in options] if p > 0 else []:
            means = []
            for r in range(profile.repeats):
                table = draw_table(draw_config(profile, p, r))
                filled = split(work(fill_cell(profile, filling, p, r), cache)[filling]).test
                hidden = np.isnan(split(table.x).test)
                means.append(((filled - split(table.complete).test)[hidden] ** 2).mean())
            spread = np.std(means, ddof=1) if len(means) > 1 else 0.0
            rows.append(
                {
                    "proportion": p,
                    "filling": filling,
                    "rmse": float(np.sqrt(np.mean(means))),
                    "mse_standard_deviation": float(spread),
                }
            )
    write_csv(rows, order.output / "abalone-filled.csv", configuration(order))
    return rows


def write_varied(order: Order, found: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Write what changes with the decisions the paper leaves open."""
    base = np.array([result["test_errors"] for result in found["as decided"]])
    rows = []
    for name, results in found.items():
        errors = np.array([result["test_errors"] for result in results])
        difference = compare(errors, base)
        sizes = [min(r["table"], key=lambda record: record["validation_mse"]) for r in results]
        rows.append(
            {
                "decision": name,
                "mse_alone": float(errors.mean()),
                "difference": difference.mean,
                "half_width": difference.half,
                "components": " ".join(str(record["n_components"]) for record in sizes),
            }
        )
    rows.append(chosen_by_likelihood(found["as decided"], base))
    write_csv(rows, order.output / "abalone-varied.csv", configuration(order))
    return rows


def chosen_by_likelihood(results: list[Any], base: np.ndarray) -> dict[str, Any]:
    """Return the row of the rule used for images: choose by validation likelihood."""
    chosen = [min(r["table"], key=lambda record: record["validation_nll"]) for r in results]
    mean = float(np.mean([record["test_mse"] for record in chosen]))
    return {
        "decision": "size by validation likelihood",
        "mse_alone": mean,
        "difference": mean - float(base.mean()),
        "half_width": float("nan"),
        "components": " ".join(str(record["n_components"]) for record in chosen),
    }


if __name__ == "__main__":
    main()
