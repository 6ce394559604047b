"""The page of results: what the paper claims, what we find, and a verdict, from the numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.report import table

from experiments.open_questions import DECISIONS
from experiments.outputs import ROOT
from experiments.profiles import FULL, Profile
from experiments.verdicts import abalone_claims, mnist_claims

HEADER = ["claim", "paper", "ours", "verdict"]


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
    commits = sorted({study["commit"] for study in (mnist, abalone) if study})
    parts = [
        "# The paper's experiments, rerun",
        "Written by `experiments/page.py` from the numbers beside it; do not edit. "
        f"Profile: **{profile.name}**; commit {', '.join(commits)}. "
        "`make experiments` makes the quick profile, `python -m experiments.mnist --full` and "
        "`python -m experiments.abalone --full` the paper's full grids.",
        "## Claims and verdicts",
        "Intervals are 95 %. On Abalone they cover both the draw of the gaps (repeats) and the "
        "choice of test rows; differences are paired. *Sure* means that the interval excludes "
        "zero.",
        table(HEADER, [*mnist_claims(mnist), *abalone_claims(abalone)]),
        "## What this profile leaves out",
        *left_out(profile),
        *mnist_part(mnist, prefix),
        *abalone_part(abalone, prefix),
        "## What the paper leaves open, and what was decided",
        table(["question", "decided", "why; does it matter?"], [list(row) for row in DECISIONS]),
    ]
    return "\n\n".join(parts) + "\n"


def left_out(profile: Profile) -> list[str]:
    """Return what separates a profile from the paper's grids."""
    if profile is FULL:
        return ["Nothing that the paper has: these are its grids."]
    m, a, fm, fa = profile.mnist, profile.abalone, FULL.mnist, FULL.abalone
    others = ", ".join(
        f"digit {digit}: {grid.sizes} components, shares kept {grid.kept}, seeds {grid.seeds}"
        for digit, grid in m.grids.items()
    )
    grid = f"{m.grid.sizes} components, shares kept {m.grid.kept}, seeds {m.grid.seeds}"
    limited = m.timed_iterations is not None
    iterations = f"{m.timed_iterations} iterations from the start" if limited else "to convergence"
    lines = [
        f"MNIST: {len(m.digits)} of 10 digits; grid {grid}"
        + (f"; {others}" if others else "")
        + f"; the paper has {fm.grid.sizes[0]} to {fm.grid.sizes[-1]}, {fm.grid.kept} and five.",
        f"Times: of digits {m.timed_digits}, {iterations}; `naive-row` on one row in "
        f"{m.row_part}, scaled up to all.",
        f"Abalone: {len(a.proportions)} shares instead of {len(fa.proportions)}, {a.repeats} "
        f"repeats instead of {fa.repeats}, {len(a.settings)} network settings instead of "
        f"{len(fa.settings)} (at most {a.epochs} epochs instead of {fa.epochs}), {len(a.kernels)} "
        f"kernels instead of {len(fa.kernels)} (each with all 5 weight decays), mixtures of "
        f"{a.sizes} components instead of {fa.sizes[0]} to {fa.sizes[-1]}.",
    ]
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
            "Chosen models: "
            + "; ".join(
                f"{digit}: {c['n_components']} components, {100 * c['kept']:.0f} % kept"
                for digit, c in summary["chosen"].items()
            )
            + ".",
        ]
    if "timing" in summary:
        parts += timing_part(summary["timing"])
    if "varied" in summary:
        parts += [
            "### Decisions varied (images)",
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
                        f"{row['nll_validation']:.1f}",
                        str(row["n_iter"]),
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


def timing_part(timing: dict[str, Any]) -> list[str]:
    """Return the section on times."""
    where = timing["machine"]
    busy = timing["others_cpu"]
    note = "" if busy is None else f" Others had up to {100 * busy:.0f} % of the cores meanwhile."
    counts = ", ".join(str(n) for n in timing["n_iter"].values())
    traced = (
        f"The chosen model was retrained to convergence ({counts} iterations, as when chosen)."
        if timing["retraced"]
        else f"Fits had {counts} iterations, which is not the whole course of the chosen model."
    )
    return [
        "### Time per iteration",
        f"{where['cpu']}, one thread, {where['blas']}; processor seconds per iteration, E "
        f"and M step, mean of a fit, best round; ranges of ratios are over rounds.{note} {traced} "
        "`python -m experiments.mnist --only timing --again` takes the times anew.",
        table(
            [
                "digit",
                "solver",
                "s per iteration",
                "times naive-row",
                "times naive",
                "log-likelihood off by",
                "others had",
            ],
            [
                [
                    f"{row['digit']} ({row['n_components']} components)",
                    row["solver"]
                    + (f" ({row['rows_used']} rows)" if row["rows_used"] < 1000 else ""),
                    f"{row['seconds_per_iteration']:.3g}",
                    ratio(row, "naive_row"),
                    ratio(row, "naive"),
                    f"{row['difference_log_likelihood']:.1e}",
                    f"{100 * row['others_cpu']:.0f} %",
                ]
                for row in timing["rows"]
            ],
        ),
    ]


def ratio(row: dict[str, Any], baseline: str) -> str:
    """Return a speed-up with its range over rounds."""
    name = f"times_faster_than_{baseline}"
    return f"{row[name]:.3g} ({row[f'{name}_low']:.3g} to {row[f'{name}_high']:.3g})"


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
