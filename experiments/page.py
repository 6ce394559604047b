"""The page of results: what the paper claims, what we find, and a verdict, from the numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.report import table

from experiments.open_questions import DECISIONS
from experiments.outputs import ROOT
from experiments.profiles import FULL, Profile
from experiments.verdicts import abalone_claims, mnist_claims

HEADER = ["the paper's words", "read as", "ours", "verdict"]


def write(profile: Profile, output: Path) -> Path:
    """Write the page from the summaries in a folder, and return where it is.

    The quick profile's is `experiments/RESULTS.md`, if its results are in their usual place.
    """
    usual = output == ROOT / "results" / profile.name
    names = {"quick": "RESULTS.md", "full": "RESULTS-full.md"}
    path = ROOT / names[profile.name] if usual and profile.name in names else output / "RESULTS.md"
    prefix = f"results/{profile.name}/" if path.parent == ROOT else ""
    path.write_text(compose(profile, _read(output, "mnist"), _read(output, "abalone"), prefix))
    return path


def _read(output: Path, study: str) -> dict[str, Any]:
    path = output / f"{study}-summary.json"
    return json.loads(path.read_text()) if path.exists() else {}


def compose(profile: Profile, mnist: dict[str, Any], abalone: dict[str, Any], prefix: str) -> str:
    """Return the page."""
    parts = [
        "# The paper's experiments, rerun",
        "Written by `experiments/page.py` from the numbers beside it; do not edit. "
        f"Profile: **{profile.name}**. `make experiments` makes the quick profile, which is what "
        "half an hour of two cores allows, and shows beside it what is stored of the paper's full "
        "grid; `python -m experiments.mnist --full --minutes 60` goes on with that grid.",
        "## Claims and verdicts",
        "Intervals are 95 %. On Abalone they cover the draw of the gaps, the starts of mixtures "
        "and networks (all drawn anew in every repeat) and the choice of test rows; differences "
        "are paired, first less second, in test error (the target has variance 1). *Sure* means "
        "p < 0.05 after Holm's correction for all differences of the study at once.",
        table(HEADER, [*mnist_claims(mnist), *abalone_claims(abalone)]),
        "## Which code made which number",
        *made_part(mnist, abalone),
        "## What this profile leaves out",
        *left_out(profile, mnist, abalone),
        *mnist_part(mnist, prefix),
        *abalone_part(abalone, prefix),
        "## What the paper leaves open, and what was decided",
        table(["question", "decided", "why; does it matter?"], [list(row) for row in DECISIONS]),
    ]
    return "\n\n".join(parts) + "\n"


def made_part(mnist: dict[str, Any], abalone: dict[str, Any]) -> list[str]:
    """Return which commit made each part, and how long that took."""
    made = {f"MNIST, {name}": value for name, value in mnist.get("made", {}).items()}
    if mnist.get("stored_made"):
        made["MNIST, full grid (stored)"] = mnist["stored_made"]
    if "made" in abalone:
        made["Abalone"] = abalone["made"]
    rows = [
        [name, ", ".join(v["commits"]), str(v["cells"]), f"{v['processor_seconds'] / 60:.1f}"]
        for name, v in made.items()
    ]
    text = (
        "Results are stored by configuration and by a digest of the code that makes them, without "
        "comments (`experiments/fingerprint.py`); other code does them anew. A plus sign: the "
        "commit with changes that came right after it."
    )
    known = {"filled": "digits", "varied": "varied"}
    earlier = [
        key for key, part in known.items() if key in mnist and part not in mnist.get("made", {})
    ]
    if earlier and "earlier_commit" in mnist:
        text += (
            " Not run again: figure 1, errors of filled pixels, the classifier and the decisions "
            f"varied on images come from commit {mnist['earlier_commit']}, whose grid had "
            "mixtures of 1 and 4 components, one start, all components kept."
        )
    heads = ["part", "commits", "results", "processor minutes"]
    return [text, *([table(heads, rows)] if rows else [])]


def left_out(profile: Profile, mnist: dict[str, Any], abalone: dict[str, Any]) -> list[str]:
    """Return what separates a profile from the paper's grids, and what rests on too little."""
    a, fm, fa = profile.abalone, FULL.mnist, FULL.abalone
    n_all = len(fm.digits) * (len(fm.grid.sizes) - 1) * len(fm.grid.kept) * len(fm.grid.seeds)
    n_all += len(fm.digits) * len(fm.grid.kept)  # one component has one start
    timing = mnist.get("timing", {})
    n_timed = len({row["digit"] for row in timing.get("rows", [])})
    lines = []
    if "grid" in mnist:
        grid = mnist["grid"]
        done = sum(each["fits"] for each in grid.values())
        lines.append(
            f"MNIST: {done} of the {n_all} distinct fits of the paper's grid are stored (some 20 s "
            "of a processor each), most telling ones first; digits without any: "
            + (", ".join(str(d) for d in fm.digits if str(d) not in grid) or "none")
            + "; with fewer than three starts of the chosen size: "
            + (", ".join(d for d, each in grid.items() if each["n_seeds"] < 3) or "none")
            + "; chosen at an end of the sizes tried: "
            + (", ".join(d for d, each in grid.items() if not each["interior"]) or "none")
            + ". The share kept, 75 %, is the lowest of the paper's three."
        )
    lines += [
        f"Times: one component of {n_timed} digits, two iterations; the chosen mixture of digit "
        f"{profile.mnist.varied_digit} "
        + ("was" if timing.get("retrained") else "is to be, and was not yet,")
        + " retrained for "
        + (
            f"{profile.mnist.timed_iterations} iterations"
            if profile.mnist.timed_iterations
            else "as long as it took to converge"
        )
        + " with every solver. Per-row work is timed at two numbers of rows and carried on along "
        "their line; all other times are of all rows.",
        f"Abalone: {len(a.proportions)} shares instead of {len(fa.proportions)}, {a.repeats} "
        f"repeats instead of {fa.repeats}, {len(a.settings)} network settings instead of "
        f"{len(fa.settings)} (at most {a.epochs} epochs instead of {fa.epochs}), {len(a.kernels)} "
        f"kernels instead of {len(fa.kernels)} (each with all 5 weight decays), mixtures of "
        f"{a.sizes} components instead of {fa.sizes[0]} to {fa.sizes[-1]}. Lists of learners have "
        "so few values that a choice is always at an end of one; all are values of the paper's "
        "grid. Its full grid of learners has not been run: at about a minute of kernels and ten of "
        "networks for each of 1,000 filled tables it takes days.",
        "Linear growth with rows is measured in the benchmarks, not here; the depth rule "
        "(`recompute_every`) is tested, not studied, because nothing was lost without it.",
    ]
    if "chosen" in abalone:
        found = abalone["chosen"]
        sizes = ", ".join(f"{n} times {size}" for size, n in found["sizes"].items() if n)
        loads = ", ".join(f"{n} times {v}" for v, n in found["loadings"].items() if n)
        lines.append(
            f"Chosen mixtures of Abalone: components {sizes} ({found['at_ends']} of {found['n']} "
            f"at an end of the list); loading {loads}. All chosen settings: `abalone-chosen.csv`."
        )
    if "no_donor" in abalone:
        lines.append(
            "Of rows with gaps, no training row has all they lack in "
            + ", ".join(f"{100 * v:.0f} % ({p} % missing)" for p, v in abalone["no_donor"].items())
            + "."
        )
    return ["\n".join(f"- {line}" for line in lines)]


def mnist_part(summary: dict[str, Any], prefix: str) -> list[str]:
    """Return the sections on images."""
    parts = ["## MNIST"]
    if "filled" in summary:
        parts += [
            f"![Two images with a square missing, filled, and true]({prefix}figure1.png)",
            f"![One image of each digit, filled in three ways]({prefix}figure1-digits.png)",
            "Of the first twelve test images of a digit, the one with most ink in its square is "
            "shown. Error of filled pixels (root mean square, ink from 0 to 1), all test images, "
            "the digit being known:",
            table(
                ["filled by", "error", "squared error: mixture less this"],
                [
                    [
                        name,
                        f"{r['rmse']:.4f}",
                        signed(r["difference"]["mean"], r["difference"]["half"]),
                    ]
                    for name, r in summary["filled"].items()
                ],
            ),
        ]
    if "grid" in summary:
        parts += grid_part(summary)
    if "ratios" in summary.get("timing", {}):
        parts += timing_part(summary["timing"])
    if "patterns" in summary:
        parts += patterns_part(summary["patterns"])
    if "varied" in summary:
        parts += [
            "### Decisions varied (images)",
            "Mean over starts, in brackets how far these are apart."
            if "nll_spread" in summary["varied"][0]
            else f"One start each; commit {summary.get('earlier_commit')}.",
            table(
                [
                    "decision",
                    "validation nll",
                    "iterations",
                    "pixel error",
                    "squared error, change",
                ],
                [
                    [
                        row["decision"],
                        f"{row['nll_validation']:.1f}"
                        + (f" ({row['nll_spread']:.1f})" if "nll_spread" in row else ""),
                        f"{row['n_iter']:.0f}",
                        f"{row['rmse_filled']:.4f}",
                        signed(row["mse_difference"], row["half_width"]),
                    ]
                    for row in summary["varied"]
                ],
            ),
        ]
    if "classified" in summary:
        parts += [
            "Errors of ten one-component mixtures as a classifier of incomplete test images, by "
            "the value added to the diagonal: "
            + "; ".join(
                f"{row['diagonal_loading']:g}: {100 * row['error']:.2f} ± {100 * row['half']:.2f} %"
                for row in summary["classified"]
            )
            + ".",
        ]
    return parts


def grid_part(summary: dict[str, Any]) -> list[str]:
    """Return the stored grid: what was chosen, and how sizes compare."""
    grid, repeated = summary["grid"], summary["repeated"]
    sizes = sorted({int(size) for each in grid.values() for size in each["by_size"]})
    rows = [
        [
            digit,
            f"{each['n_components']}, {100 * each['kept']:.0f} %, seed {each['seed']}",
            str(each["fits"]),
            f"{each['n_seeds']} ({each['spread_of_starts']:.1f} apart)",
            *(f"{each['by_size'][str(s)]:.1f}" if str(s) in each["by_size"] else "" for s in sizes),
        ]
        for digit, each in grid.items()
    ]
    heads = ["digit", "chosen", "fits", "starts of that size", *(f"{s} components" for s in sizes)]
    return [
        "### The full grid, as far as it is stored",
        "Mean negative log-likelihood of validation images; the best of every size at the chosen "
        "share. Where there is but one start of a size, neighbouring sizes are not told apart. "
        f"{repeated['n']} of these fits were done again by this profile; the largest difference is "
        f"{repeated['largest']:.1e}.",
        table(heads, rows),
    ]


def timing_part(timing: dict[str, Any]) -> list[str]:
    """Return the section on times."""
    where, busy = timing["machine"], timing["others_cpu"]
    note = "" if busy is None else f" Others had up to {100 * busy:.0f} % of the cores meanwhile."
    solvers = list(timing["ratios"]["naive"])
    of = {s: [row for row in timing["rows"] if row["solver"] == s] for s in solvers}

    counts = [
        re.findall(r"(\d+) patterns from scratch, ([\d,]+) moved", r["trees"]) for r in of["tree"]
    ]
    moved = [sum(int(c[0][i].replace(",", "")) for c in counts if c) for i in (0, 1)]

    def mean(solver: str, name: str) -> float:
        return sum(row[name] for row in of[solver]) / len(of[solver])

    def ratio(solver: str, base: str) -> str:
        found = timing["ratios"][base][solver]
        return f"{found['mean']:.3g} ± {found['half']:.2g}"

    return [
        "### Time per iteration",
        f"{where['cpu']}, one thread, {where['blas']}; processor seconds of an iteration with one "
        "component, mean over digits, intervals over digits. `paper` has one tree over all "
        "patterns; making it takes the time in the last column, once in a fit. `tree` and `dual` "
        f"are ours. Of {sum(moved):,} patterns in all digits `tree` starts {moved[0]:,} from "
        f"scratch and moves {moved[1]:,}, so that its time is no evidence for a spanning tree, and "
        f"`dual` has none.{note} `python -m experiments.mnist --only timing --again` takes times "
        "anew, best on a quiet machine.",
        table(
            ["solver", "seconds", "times naive-row", "times naive", "seconds to plan"],
            [
                [
                    solver,
                    f"{mean(solver, 'seconds_per_iteration'):.3g}",
                    ratio(solver, "naive-row"),
                    ratio(solver, "naive"),
                    f"{mean(solver, 'plan_seconds'):.2g}",
                ]
                for solver in solvers
            ],
        ),
        *retrained_part(timing["retrained"]),
    ]


def retrained_part(rows: list[dict[str, Any]]) -> list[str]:
    """Return the times of the chosen mixture retrained, if it was."""
    if not rows:
        return []
    return [
        "The chosen mixture retrained:",
        table(
            ["digit", "components", "solver", "iterations", "seconds", "log-likelihood off by"],
            [
                [
                    str(row["digit"]),
                    str(row["n_components"]),
                    row["solver"],
                    str(row["iterations"]),
                    f"{row['seconds']:.3g}",
                    f"{row['difference_log_likelihood']:.1e}",
                ]
                for row in rows
            ],
        ),
    ]


def patterns_part(tables: dict[str, Any]) -> list[str]:
    """Return the sections on trees, updates and the motivating case."""
    solvers = list(dict.fromkeys(r["solver"] for r in tables["half"]))
    widths = list(dict.fromkeys(r["d"] for r in tables["half"]))
    half = {(r["d"], r["solver"]): f"{r['mean']:.2f} ± {r['half']:.2f}" for r in tables["half"]}
    sizes = list(dict.fromkeys(r["size"] for r in tables["updates"]))
    steps = sorted({r["n_d"] for r in tables["updates"]})
    moved = {
        (r["size"], r["n_d"]): f"{r['factor']:.2g} / {r['covariance']:.2g}"
        for r in tables["updates"]
    }
    return [
        "### Half as many patterns as rows, without structure",
        "Times faster than naive EM that does each pattern once; three draws.",
        table(
            ["d", *solvers], [[str(d), *(half[d, solver] for solver in solvers)] for d in widths]
        ),
        "### An update against a fresh factor, and against a fresh conditional covariance",
        "Time of moving it over that of making it anew, factor of S_oo / covariance (K_mm)^-1, by "
        "size (down) and variables that change, n_d (across).",
        table(
            ["n", *(f"n_d = {n_d}" for n_d in steps)],
            [[str(n), *(moved.get((n, n_d), "") for n_d in steps)] for n in sizes],
        ),
        "### Depth of one tree over all patterns, rooted at its centre",
        table(
            ["patterns of", "rows (log2)", "distinct (log2)", "depth"],
            [
                [
                    r["family"],
                    f"{r['n']} ({r['log2_n']:.1f})",
                    f"{r['n_patterns']:.0f} ({r['log2_patterns']:.1f})",
                    f"{r['depth']:.1f}",
                ]
                for r in tables["depth"]
            ],
        ),
        "### Ways to make the tree of the paper's algorithm",
        table(
            ["patterns of", "tree", "time of an iteration", "changes", "seconds to make"],
            [
                [
                    r["family"],
                    r["tree"],
                    f"{r['mean']:.2f} ± {r['half']:.2f}",
                    f"{r['changes']:.3f}",
                    f"{r['build_seconds']:.2g}",
                ]
                for r in tables["trees"]
            ],
        ),
    ]


def abalone_part(summary: dict[str, Any], prefix: str) -> list[str]:
    """Return the sections on regression."""
    parts = ["## Abalone"]
    if "claims" in summary:
        parts += [
            f"![Test error of every imputer under both learners]({prefix}figure2.png)",
            "Figure 2. Bands: 95 % over repeats.",
            f"![Mixture alone, network and kernel ridge]({prefix}figure3.png)",
            "Figure 3. Bands: 95 % over repeats.",
            "### Differences behind the verdicts",
            *(
                f"{name} (test error, first less second):\n\n" + differences(records)
                for name, records in summary["claims"].items()
            ),
        ]
    if "filled" in summary:
        parts += [
            "### Error of filled test cells, in standard deviations",
            filled(summary["filled"]),
        ]
    if "varied" in summary:
        parts += [
            "### Decisions varied (mixture alone as regressor)",
            *(
                [f"Of commit {summary['earlier_commit']}, with four repeats and fewer starts."]
                if "earlier_commit" in summary
                else []
            ),
            table(
                ["decision", "test error", "change", "components chosen, by repeat"],
                [
                    [
                        row["decision"],
                        f"{row['mse_alone']:.4f}",
                        signed(row["difference"], row["half_width"]),
                        row["components"],
                    ]
                    for row in summary["varied"]
                ],
            ),
        ]
    return parts


def differences(records: list[dict[str, Any]]) -> str:
    """Return a table of differences: learners down, shares across."""
    shares = sorted({r["proportion"] for r in records})
    learners = list(dict.fromkeys(r["learner"] for r in records))
    found = {(r["learner"], r["proportion"]): r for r in records}
    lines = [
        [learner]
        + [signed(found[learner, p]["difference"], found[learner, p]["half_width"]) for p in shares]
        for learner in learners
    ]
    return table(["", *(f"{100 * p:.0f} %" for p in shares)], lines)


def filled(rows: list[dict[str, Any]]) -> str:
    """Return a table of errors: fillings down, shares across."""
    shares = sorted({row["proportion"] for row in rows})
    fillings = list(dict.fromkeys(row["filling"] for row in rows))
    found = {(row["filling"], row["proportion"]): row["rmse"] for row in rows}
    lines = [[name, *(f"{found[name, p]:.3f}" for p in shares)] for name in fillings]
    return table(["", *(f"{100 * p:.0f} %" for p in shares)], lines)


def signed(mean: float, half: float) -> str:
    """Return a difference with its interval."""
    if half != half:
        return f"{mean:+.4f}"
    return f"{mean:+.4f} ± {half:.4f}"
