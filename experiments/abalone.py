"""Experiment 2 of the paper: regression on Abalone with more and more inputs missing.

Parts: `fill` fills every draw of gaps in every way; `learn` trains the two learners on each;
`varied` changes what the paper leaves open; `whole` tries all of the paper's settings on some.
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
    AXES,
    CLASSIFIER,
    DISCARD,
    FILLINGS,
    LEARNERS,
    MEAN,
    MIXTURE,
    MIXTURE_ALL,
    MIXTURE_SEEING,
    NEIGHBOURS,
    NEIGHBOURS_FAIR,
    NEIGHBOURS_WHOLE,
    OPEN,
    VARIED,
    draw_config,
    draw_table,
    fill_cell,
    filled_inputs,
    learn_cell,
    mixture_cell,
)
from experiments.command import Order, read_order
from experiments.outputs import keep_earlier, tell_made, write_csv, write_figure, write_json
from experiments.profiles import Abalone
from experiments.statistics import (
    Difference,
    compare,
    holm,
    mean_and_half,
    repeats_half_width,
)
from experiments.store import Cell, Result, load, run, unique, work

PARTS = ("fill", "learn", "varied", "whole")
ALONE = "mixture alone"
BY_VALUE = "by value"  # gaps that are not at random
JUDGED_BY_VALUE = (MIXTURE, MEAN, NEIGHBOURS_FAIR)
JUDGED_BY_CLASS = (MIXTURE, MEAN, NEIGHBOURS, NEIGHBOURS_WHOLE, NEIGHBOURS_FAIR)
Errors = dict[tuple[str, str, float], np.ndarray]  # learner, imputer, share -> (repeats, rows)


def main(arguments: list[str] | None = None) -> None:
    """Do what is asked for, then write whatever is finished."""
    order = read_order("abalone", PARTS, (__doc__ or "").splitlines()[0], arguments)
    profile = order.profile.abalone
    fills, learns = plan_cells(order)
    varied = {
        name: [
            mixture_cell(profile, profile.varied_proportion, r, **changes)
            for r in range(profile.varied_repeats)
        ]
        for name, changes in VARIED.items()
    }
    whole = {learner: cells_of_whole(order, learner) for learner in LEARNERS}
    changed = [cell for cells in varied.values() for cell in cells]
    every = [cell for pairs in whole.values() for pair in pairs for cell in pair]
    kinds = {"fill": fills, "learn": learns, "varied": changed, "whole": every}
    parts = {part: unique(cells) for part, cells in kinds.items() if cells}
    finished = {}
    for part, cells in parts.items():
        if part in order.parts:
            again = order.again
            run(cells, order.cache, title=f"abalone, {part}", jobs=order.jobs, again=again)
        finished[part] = all(load(cell, order.cache) is not None for cell in cells)

    summary: dict[str, Any] = {"data": load_abalone().source}
    if finished["fill"] and finished["learn"]:
        errors = collect(order)
        summary |= write_learned(order, errors)
        summary["filled"] = write_filled(order)
        summary["chosen"] = write_chosen(order)
        summary["no_donor"] = {
            f"{100 * p:.0f}": float(
                np.mean(
                    [
                        work(fill_cell(profile, "whole-1", p, r), order.cache)["no_donor"]
                        for r in range(profile.repeats)
                    ]
                )
            )
            for p in profile.proportions
            if p > 0
        }
    if finished["varied"]:
        found = {name: [work(c, order.cache) for c in cells] for name, cells in varied.items()}
        summary["varied"] = write_varied(order, found)
    done = {
        learner: pairs
        for learner, pairs in whole.items()
        if pairs and all(load(cell, order.cache) for pair in pairs for cell in pair)
    }
    used = {part: cells for part, cells in parts.items() if finished[part]}
    if done:
        summary["whole"] = write_whole(order, done)
        used["whole"] = [cell for pairs in done.values() for pair in pairs for cell in pair]
    summary["made"] = {
        part: tell_made([work(cell, order.cache) for cell in cells]) for part, cells in used.items()
    }
    path = order.output / "abalone-summary.json"
    earlier = keep_earlier(path, ("varied", "whole"))
    made = earlier.pop("made", {})
    made = {part: made[part] for part in ("varied", "whole") if part in made}
    summary["made"] = made | summary["made"]
    write_json({**configuration(order), **earlier, **summary}, path)
    page.write(order.profile, order.output)


def cells_of_whole(order: Order, learner: str) -> list[tuple[Cell, Cell]]:
    """Return for some repeats a learner gone through step by step, and with all settings tried."""
    profile = order.profile.abalone
    place = (learner, MIXTURE, profile.varied_proportion)
    return [
        (
            learn_cell(profile, *place, r, order.cache),
            learn_cell(profile, *place, r, order.cache, whole=True),
        )
        for r in range(profile.whole_repeats)
    ]


def is_judged(name: str, p: float, profile: Abalone) -> bool:
    """Tell whether an imputer, or its filling, has a place at a share; our own have but one."""
    ours = (MIXTURE_ALL, *FILLINGS[MIXTURE_ALL], MIXTURE_SEEING, *FILLINGS[MIXTURE_SEEING])
    return name not in ours or p == profile.varied_proportion


def plan_cells(order: Order) -> tuple[list[Cell], list[Cell]]:
    """Return what is filled, and what is learned from it."""
    profile = order.profile.abalone
    repeats = range(profile.repeats)
    fillings = [f for options in FILLINGS.values() for f in options]
    fills = [fill_cell(profile, f, 0.0, r) for r in repeats for f in ("none", MIXTURE)]
    learns = []
    for r in repeats:
        for p in profile.proportions:
            for f in fillings:
                if not is_judged(f, p, profile):
                    continue
                fills += [fill_cell(profile, f, p, r)] if p > 0 else []
                learns += [learn_cell(profile, each, f, p, r, order.cache) for each in LEARNERS]
    for p, r, f, learner, gaps in further_draws(profile):
        fills.append(fill_cell(profile, f, p, r, gaps))
        learns.append(learn_cell(profile, learner, f, p, r, order.cache, gaps))
    return fills, learns


def further_draws(profile: Abalone) -> list[tuple[float, int, str, str, str]]:
    """Return (share, repeat, filling, learner, gaps) of gaps not at random, and of classes."""
    draws = []
    for r in range(profile.repeats):
        for imputer in JUDGED_BY_VALUE:
            for f in FILLINGS[imputer]:
                draws += [(profile.varied_proportion, r, f, each, BY_VALUE) for each in LEARNERS]
        for imputer in JUDGED_BY_CLASS:
            for p in profile.proportions:
                draws += [(p, r, f, CLASSIFIER, "random") for f in FILLINGS[imputer] if p > 0]
    return draws


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

    def best(learner: str, imputer: str, p: float, gaps: str = "random") -> np.ndarray:
        """Return errors (repeats, rows) of the filling that validation rows prefer."""
        rows = []
        for r in range(profile.repeats):
            tried = [
                work(learn_cell(profile, learner, f, p, r, cache, gaps), cache)
                for f in FILLINGS[imputer]
            ]
            chosen = min(tried, key=lambda result: result["validation_mse"])
            rows += [chosen["test_errors"]] if "test_errors" in chosen else []
        return np.array(rows)

    for p in profile.proportions:
        for learner in LEARNERS:
            for imputer in FILLINGS:
                if is_judged(imputer, p, profile):
                    errors[learner, imputer, p] = best(learner, imputer, p)
        alone = [
            work(mixture_cell(profile, p, r), cache)["test_errors"] for r in range(profile.repeats)
        ]
        errors[ALONE, ALONE, p] = np.array(alone)
        for imputer in JUDGED_BY_CLASS if p > 0 else ():
            errors[CLASSIFIER, imputer, p] = best(CLASSIFIER, imputer, p)
    p = profile.varied_proportion
    for learner in LEARNERS:
        for imputer in JUDGED_BY_VALUE:
            errors[f"{learner}, {BY_VALUE}", imputer, p] = best(learner, imputer, p, BY_VALUE)
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
        learner: {
            imputer: curve(errors, learner, imputer, shares)
            for imputer in FILLINGS
            if imputer not in (DISCARD, MIXTURE_ALL, MIXTURE_SEEING)
        }
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
    claims, means = compare_all(errors, order.profile.abalone)
    flat = [{"claim": name, **record} for name, records in claims.items() for record in records]
    write_csv(flat, out / "abalone-differences.csv", beside)
    rows = [{"claim": name, **record} for name, record in means.items()]
    write_csv(rows, out / "abalone-means.csv", beside)
    return {"claims": claims, "means": means}


def compare_all(
    errors: Errors, profile: Abalone
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, dict[str, Any]]]:
    """Return the differences behind every claim, by place and in the mean over its places.

    P-values are corrected for the number of all places, and of all means.
    """
    some = [p for p in profile.proportions if p > 0]
    full = [p for p in some if len(errors[LEARNERS[0], DISCARD, p]) == profile.repeats]
    pairs: list[tuple[str, tuple[str, str], tuple[str, str], list[float]]] = []
    for learner in LEARNERS:
        for other in FILLINGS:
            if other not in (MIXTURE, DISCARD):
                name = f"mixture against {other}"
                where = [p for p in some if is_judged(other, p, profile)]
                pairs.append((name, (learner, MIXTURE), (learner, other), where))
        for other in (NEIGHBOURS, NEIGHBOURS_WHOLE, NEIGHBOURS_FAIR):
            name = f"{other} against mean"
            pairs.append((name, (learner, other), (learner, MEAN), some))
        for imputer, name in ((MIXTURE, ""), (MIXTURE_SEEING, ", target seen")):
            name = f"discriminant{name} against mixture alone"
            where = [p for p in profile.proportions if is_judged(imputer, p, profile)]
            pairs.append((name, (learner, imputer), (ALONE, ALONE), where))
        pairs.append((f"mixture against {DISCARD}", (learner, MIXTURE), (learner, DISCARD), full))
        own = f"{learner}, {BY_VALUE}"
        for other in JUDGED_BY_VALUE[1:]:
            name = f"gaps not at random: mixture against {other}"
            pairs.append((name, (own, MIXTURE), (own, other), [profile.varied_proportion]))
    for other in JUDGED_BY_CLASS[1:]:
        name = f"classes: mixture against {other}"
        pairs.append((name, (CLASSIFIER, MIXTURE), (CLASSIFIER, other), some))
    claims: dict[str, list[dict[str, Any]]] = {}
    differences: dict[str, list[np.ndarray]] = {}
    for name, a, b, where in pairs:
        claims.setdefault(name, []).extend(as_record(a, b, p, errors) for p in where)
        differences.setdefault(name, []).extend(errors[*a, p] - errors[*b, p] for p in where)
    correct([record for records in claims.values() for record in records])
    means = {name: mean_record(each) for name, each in differences.items() if each}
    correct(list(means.values()))
    return claims, means


def mean_record(differences: list[np.ndarray]) -> dict[str, Any]:
    """Return the mean of differences in several places, each (repeats, rows)."""
    mean = np.mean(differences, axis=0)
    found = compare(mean, np.zeros_like(mean))
    return {"difference": found.mean, "half_width": found.half, "p_value": found.p_value}


def correct(records: list[dict[str, Any]]) -> None:
    """Add p-values that are corrected for the number of records."""
    for record, p in zip(records, holm([r["p_value"] for r in records]), strict=True):
        record["p_corrected"] = p


def as_record(a: tuple[str, str], b: tuple[str, str], p: float, errors: Errors) -> dict[str, Any]:
    """Return a difference with what it is between."""
    difference: Difference = compare(errors[*a, p], errors[*b, p])
    level = float(errors[*b, p].mean())
    return {
        "learner": a[0],
        "first": a[1],
        "second": b[1],
        "proportion": p,
        "difference": difference.mean,
        "half_width": difference.half,
        "second_error": level,
        "p_value": difference.p_value,
    }


def write_filled(order: Order) -> list[dict[str, Any]]:
    """Write the error of filled cells of the test rows, in standard deviations."""
    profile, cache = order.profile.abalone, order.cache
    rows = []
    for p in profile.proportions:
        names = [f for name, options in FILLINGS.items() if name != DISCARD for f in options]
        for filling in [f for f in names if p > 0 and is_judged(f, p, profile)]:
            means = []
            for r in range(profile.repeats):
                table = draw_table(draw_config(profile, p, r))
                source = fill_cell(profile, filling, p, r)
                filled = split(filled_inputs(source, filling, cache)).test
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


def write_chosen(order: Order) -> dict[str, Any]:
    """Write every setting that validation rows chose; return how many are at the end of a list."""
    profile, cache = order.profile.abalone, order.cache
    rows = []
    learned: dict[str, list[Result]] = {learner: [] for learner in LEARNERS}
    for p in profile.proportions:
        for r in range(profile.repeats):
            tried = work(mixture_cell(profile, p, r), cache)["table"]
            best = min(tried, key=lambda record: record["validation_mse"])
            setting = [best["n_components"], best["diagonal_loading"]]
            rows.append({"learner": ALONE, "filling": "none", "proportion": p, "repeat": r})
            rows[-1] |= {"chosen": " ".join(f"{v:g}" for v in setting), "test": best["test_mse"]}
            for learner in LEARNERS:
                for f in [f for fs in FILLINGS.values() for f in fs]:
                    if not is_judged(f, p, profile):
                        continue
                    result = work(learn_cell(profile, learner, f, p, r, cache), cache)
                    if "chosen" not in result:
                        continue
                    learned[learner].append(result)
                    rows.append({"learner": learner, "filling": f, "proportion": p, "repeat": r})
                    rows[-1]["chosen"] = " ".join(str(value) for value in result["chosen"])
                    rows[-1]["test"] = float(result["test_errors"].mean())
    write_csv(rows, order.output / "abalone-chosen.csv", configuration(order))
    alone = [row["chosen"].split() for row in rows if row["learner"] == ALONE]
    sizes, loads = [int(size) for size, _ in alone], [load for _, load in alone]
    return {
        "n": len(alone),
        "sizes": {str(size): sizes.count(size) for size in profile.sizes},
        "loadings": {f"{v:g}": loads.count(f"{v:g}") for v in profile.loadings},
        "learners": {learner: count_ends(results) for learner, results in learned.items()},
    }


def count_ends(results: list[Result]) -> dict[str, Any]:
    """Return how often each value was chosen that is at an end of the paper's list of it."""
    at_ends: dict[str, int] = {}
    for result in results:
        name, *rest = result["chosen"]
        axes = AXES.get(name, AXES["network"])
        values = rest if name in AXES else result["chosen"]
        for axis in result["ends"]:
            key = f"{name + ', ' if name in AXES else ''}{axes[axis]} {values[axis]:g}"
            at_ends[key] = at_ends.get(key, 0) + 1
    tried = float(np.mean([result["n_tried"] for result in results]))
    return {"n": len(results), "tried": tried, "at_ends": at_ends}


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
    errors = [record["test_mse"] for record in chosen]
    difference = mean_and_half([a - b for a, b in zip(errors, base.mean(axis=1), strict=True)])
    return {
        "decision": "size by validation likelihood",
        "mse_alone": float(np.mean(errors)),
        "difference": difference["mean"],
        "half_width": difference["half"],
        "components": " ".join(str(record["n_components"]) for record in chosen),
    }


def write_whole(order: Order, whole: dict[str, list[tuple[Cell, Cell]]]) -> list[dict[str, Any]]:
    """Write what trying the paper's whole lists changes."""
    rows = []
    for learner, pairs in whole.items():
        found = [[work(cell, order.cache) for cell in pair] for pair in pairs]
        steps, every = (np.array([pair[i]["test_errors"] for pair in found]) for i in (0, 1))
        difference = compare(every, steps)
        tried = [float(np.mean([pair[i]["n_tried"] for pair in found])) for i in (0, 1)]
        row = {"learner": learner, "tried_by_steps": tried[0], "tried_in_all": tried[1]}
        row |= {"difference": difference.mean, "half_width": difference.half}
        row["same"] = sum(pair[0]["chosen"] == pair[1]["chosen"] for pair in found)
        row["repeats"] = len(found)
        lower = [pair[1]["validation_mse"] / pair[0]["validation_mse"] - 1 for pair in found]
        row["validation_change"] = float(np.mean(lower))
        for i, name in enumerate(("by_steps", "in_all")):
            row[name] = "; ".join(" ".join(map(str, pair[i]["chosen"])) for pair in found)
        rows.append(row)
    write_csv(rows, order.output / "abalone-whole.csv", configuration(order))
    return rows


if __name__ == "__main__":
    main()
