"""The page of results: what the paper claims, what we find, and a verdict, from the numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.report import table

from experiments.open_questions import DECISIONS
from experiments.outputs import ROOT
from experiments.profiles import FULL, Profile
from experiments.speed_page import patterns_part, timing_part
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
        "half an hour of two cores allows; mixtures of digits are chosen from the stored fits of a "
        "search, `python -m experiments.mnist --full --only grid --minutes 60` goes on with it.",
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
        made["MNIST, search (stored)"] = mnist["stored_made"]
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
    heads = ["part", "commits", "results", "processor minutes"]
    return [text, *([table(heads, rows)] if rows else [])]


def left_out(profile: Profile, mnist: dict[str, Any], abalone: dict[str, Any]) -> list[str]:
    """Return what separates a profile from the paper's grids, and what rests on too little."""
    fm, fa = FULL.mnist, FULL.abalone
    a = profile.abalone._replace(**abalone.get("settings", {}))  # of what was run, not of today
    n_all = len(fm.digits) * (len(fm.grid.sizes) - 1) * len(fm.grid.kept) * len(fm.grid.seeds)
    n_all += len(fm.digits) * len(fm.grid.kept)  # one component has one start
    lines, timing = [], mnist.get("timing", {})
    if "search" in mnist:
        found = mnist["search"]
        lacking = {
            "one start of every neighbour": [d for d, each in found.items() if not each["inside"]],
            "three starts of the chosen": [d for d, e in found.items() if e["n_starts"] < 3],
            "three of every neighbour": [d for d, each in found.items() if not each["finished"]],
        }
        lines.append(
            f"MNIST: the search made {sum(each['fits'] for each in found.values())} fits, the "
            f"paper's grid has {n_all} distinct ones: left out are two of five starts, and sizes "
            "and shares that are not next to the best. The value added to the diagonal "
            "stays 0.001: likelihood alone would choose a smaller one, which fills worse (see the "
            "decisions varied). Digits that still lack "
            + "; ".join(f"{what}: {', '.join(d) or 'none'}" for what, d in lacking.items())
            + ". Until then the number of components is not told from its neighbours where their "
            "values are closer than starts are."
        )
    lines += [
        f"Times: one component of {len({row['digit'] for row in timing.get('rows', [])})} digits, "
        f"two iterations; the chosen mixture of digit {profile.mnist.varied_digit} "
        + ("is" if timing.get("retrained") else "is to be, and was not yet,")
        + " retrained with every solver but `naive-row`, for "
        f"{profile.mnist.timed_iterations} iterations on all rows and until it converges on "
        f"{profile.mnist.n_train // 15}. Per-row work is timed at two numbers of rows and "
        "carried on along their line; all other times are of all rows.",
        f"Abalone: {len(a.proportions)} shares of gaps instead of {len(fa.proportions)}, "
        f"{a.repeats} repeats instead of {fa.repeats}, {len(a.settings)} network settings instead "
        f"of {len(fa.settings)} (at most {a.epochs} epochs instead of {fa.epochs}), "
        f"{len(a.kernels)} kernels instead of {len(fa.kernels)} (each with all 5 weight decays), "
        f"mixtures of {', '.join(map(str, a.sizes))} components instead of {fa.sizes[0]} to "
        f"{fa.sizes[-1]}. Lists of learners have so few values that a choice is always at an end"
        + (": what longer ones change is in the last table." if "lists" in abalone else "."),
        "The depth rule (`recompute_every`) is tested, not studied: nothing was lost without it.",
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
    if "search" in summary:
        parts += search_part(summary)
    if "ratios" in summary.get("timing", {}):
        parts += timing_part(summary["timing"])
    if "patterns" in summary:
        parts += patterns_part(summary["patterns"])
    if "varied" in summary:
        parts += [
            "### Decisions varied (images)",
            "Two components of digit 3; mean over three starts, in brackets how far these are "
            "apart. Likelihood falls with the value added to the diagonal, pixel error does not: "
            "pixels at the border hardly vary, and the density of a constant has no bound. So the "
            "value is decided, not chosen by likelihood.",
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
                        f"{row['nll_validation']:.1f} ({row['nll_spread']:.1f})",
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


def search_part(summary: dict[str, Any]) -> list[str]:
    """Return the stored search: what was chosen, and what its neighbours give."""
    found, repeated = summary["search"], summary["repeated"]
    sizes = sorted({int(size) for each in found.values() for size in each["by_size"]})
    shares = sorted({float(share) for each in found.values() for share in each["by_share"]})

    def value(each: dict[str, Any], axis: str, key: str) -> str:
        if key not in each[axis]:
            return ""
        is_best = each[axis][key] == each["nll"]
        return f"**{each[axis][key]:.1f}**" if is_best else f"{each[axis][key]:.1f}"

    rows = [
        [
            digit,
            f"{each['chosen']['size']}, {100 * each['chosen']['share']:.0f} %",
            str(each["fits"]),
            f"{each['n_starts']} ({each['spread_of_starts']:.1f})",
            *(value(each, "by_size", str(size)) for size in sizes),
            *(value(each, "by_share", f"{share:g}") for share in shares),
        ]
        for digit, each in found.items()
    ]
    heads = ["digit", "components, share", "fits", "starts of it (apart)"]
    heads += [str(size) for size in sizes] + [f"{100 * share:.0f} %" for share in shares]
    return [
        "### The mixture of each digit",
        "Chosen by a search in stages (`experiments/search.py`) on all 4,500 training images of a "
        "digit: components one by one, one start each, until two more did not help; then the best "
        "against its neighbours, one component or one share of kept principal components away, "
        "from three starts each; from a better neighbour it goes on. The table has the mean "
        "negative log-likelihood of validation images: by number of components at the chosen "
        "share, by share at the chosen number, each the best of its starts. "
        f"{repeated['n']} of these fits were done again by this profile; the largest difference is "
        f"{repeated['largest']:.1e}.",
        table(heads, rows),
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
    if "lists" in summary:
        parts += [
            "### Longer lists of the learners' settings",
            "With the neighbours, in the paper's lists, of all values of the short lists: change "
            "of the test error at 30 % missing, and what was chosen in each repeat (network: "
            "hidden units, decay, rate, decrease; kernel ridge: kernel, scale, degree, decay).",
            table(
                ["learner", "filled by", "settings", "change", "chosen"],
                [
                    [
                        row["learner"],
                        row["filling"],
                        str(row["settings"]),
                        signed(row["difference"], row["half_width"]),
                        row["chosen"],
                    ]
                    for row in summary["lists"]
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
    lines = [
        [name, *(f"{found[name, p]:.3f}" if (name, p) in found else "" for p in shares)]
        for name in fillings
    ]
    return table(["", *(f"{100 * p:.0f} %" for p in shares)], lines)


def signed(mean: float, half: float) -> str:
    """Return a difference with its interval."""
    if half != half:
        return f"{mean:+.4f}"
    return f"{mean:+.4f} ± {half:.4f}"
