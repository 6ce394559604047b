"""The page of results: what the paper claims, what we find, and a verdict, from the numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import table

from experiments.open_questions import DECISIONS
from experiments.outputs import ROOT
from experiments.profiles import FULL, QUICK, Profile
from experiments.speed_page import patterns_part, timing_part
from experiments.verdicts import PENDING, abalone_claims, mnist_claims

HEADER = ["the paper's words", "read as", "ours", "verdict"]


class Study(NamedTuple):
    """What a profile found."""

    profile: Profile
    mnist: dict[str, Any]
    abalone: dict[str, Any]

    def claims(self) -> list[list[str]]:
        """Return the paper's words, the reading, our figures and the verdict, claim by claim."""
        return [*mnist_claims(self.mnist), *abalone_claims(self.abalone)]


def write(profile: Profile, output: Path) -> Path:
    """Write the page from the summaries in a folder, and return where it is.

    Results in their usual place have one page, `experiments/RESULTS.md`: the full profile's, which
    is stored, with the claims of the quick profile beside it.
    """
    study = _read(profile, output)
    if output != ROOT / "results" / profile.name or profile.name not in ("quick", "full"):
        path = output / "RESULTS.md"
        path.write_text(compose(study, None, ""))
        return path
    full, quick = (_read(each, ROOT / "results" / each.name) for each in (FULL, QUICK))
    path = ROOT / "RESULTS.md"
    path.write_text(compose(full, quick, "results/full/"))
    return path


def _read(profile: Profile, output: Path) -> Study:
    paths = [output / f"{study}-summary.json" for study in ("mnist", "abalone")]
    return Study(profile, *(json.loads(p.read_text()) if p.exists() else {} for p in paths))


def compose(study: Study, beside: Study | None, prefix: str) -> str:
    """Return the page."""
    mnist, abalone = study.mnist, study.abalone
    parts = [
        "# The paper's experiments, rerun",
        "Written by `experiments/page.py` from the numbers beside it; do not edit. Figures are of "
        f"the **{study.profile.name}** profile"
        + (
            ", which takes hours and is stored in `experiments/results/full`; "
            "`make experiments` runs the **quick** profile, which is what half an hour of two "
            "cores allows, and puts its own figures into the column beside."
            if beside
            else "."
        ),
        "## Claims and verdicts",
        "Intervals are 95 %. On Abalone they cover the draw of the gaps, the starts of mixtures "
        "and networks (all drawn anew in every repeat) and the choice of test rows; differences "
        "are paired, first less second, in test error (the target has variance 1). *Sure* means "
        "p < 0.05 (Student's t) after Holm's correction, for all differences of the study at once, "
        "and for all means over the places (shares of gaps, learners) of a claim. From three "
        "repeats, as in the quick profile, hardly a single place can be sure.",
        claims_table(study, beside),
        "## Which code made which number",
        *made_part(study, beside),
        "## What is left out, and why",
        *left_out(study),
        *mnist_part(mnist, prefix),
        *abalone_part(abalone, prefix),
        "## What the paper leaves open, and what was decided",
        table(["question", "decided", "why; does it matter?"], [list(row) for row in DECISIONS]),
    ]
    return "\n\n".join(parts) + "\n"


def claims_table(study: Study, beside: Study | None) -> str:
    """Return every claim with our figures, those of another profile beside them, and the verdict.

    The other profile's verdict is told where it is another one.
    """
    if beside is None:
        return table(HEADER, study.claims())
    rows = []
    for own, other in zip(study.claims(), beside.claims(), strict=True):
        words, reading, figures, verdict = own
        quick = "the same" if other[2] == figures else other[2]
        if other[3] not in (verdict, PENDING):
            quick += f" ({other[3]})"
        rows.append([words, reading, figures, verdict, quick])
    return table([*HEADER, f"{beside.profile.name} profile"], rows)


def made_part(study: Study, beside: Study | None) -> list[str]:
    """Return which commit made each part, and how long that took."""
    rows = []
    for each in (study, beside) if beside else (study,):
        name = each.profile.name
        studies = {"MNIST": each.mnist, "Abalone": each.abalone}
        made = {
            f"{name}: {which}, {part}": value
            for which, summary in studies.items()
            for part, value in summary.get("made", {}).items()
        }
        cells, seconds = (
            sum(v[unit] for v in made.values()) for unit in ("cells", "processor_seconds")
        )
        rows += [
            [part, ", ".join(v["commits"]), str(v["cells"]), f"{v['processor_seconds'] / 60:.1f}"]
            for part, v in made.items()
        ]
        rows.append([f"{name}: all", "", str(cells), f"{seconds / 60:.1f}"])
    text = (
        "Results are stored by configuration and by a digest of the code that makes them, without "
        "comments (`experiments/fingerprint.py`); other code does them anew. A plus sign: the "
        "commit with changes that came right after it. Profiles share results, so that processor "
        "minutes are counted in both. A part that a run does not do stays as an earlier run left "
        "it, with its commits."
    )
    heads = ["part", "commits", "results", "processor minutes"]
    return [text, *([table(heads, rows)] if rows else [])]


def left_out(study: Study) -> list[str]:
    """Return what separates this from the paper's studies, and what rests on too little."""
    lines = []
    if "search" in study.mnist:
        lines.append(_left_of_search(study.mnist["search"]))
    if "rows" in study.mnist.get("timing", {}):
        lines.append(_left_of_times(study.mnist["timing"]))
    if "chosen" in study.abalone:
        lines += _left_of_abalone(study)
    lines.append(
        "The depth rule (`recompute_every`) is tested, not studied: nothing was lost without it."
    )
    return ["\n".join(f"- {line}" for line in lines)]


def _left_of_search(found: dict[str, Any]) -> str:
    grid = FULL.mnist.grid
    n_all = (len(grid.sizes) - 1) * len(grid.kept) * len(grid.seeds) + len(grid.kept)
    lacking = {
        "one start of every neighbour": [d for d, each in found.items() if not each["inside"]],
        "three starts of the chosen": [d for d, each in found.items() if each["n_starts"] < 3],
        "three of every neighbour": [d for d, each in found.items() if not each["finished"]],
    }
    return (
        f"MNIST: the search made {sum(each['fits'] for each in found.values())} fits, the paper's "
        f"grid has {n_all * len(FULL.mnist.digits)} distinct ones: left out are two of five "
        "starts, and sizes and shares that are not next to the best, which would take five hours "
        "and could change a choice only where likelihood has a second minimum. The value added to "
        "the diagonal stays 0.001: likelihood alone would choose a smaller one, which fills worse "
        "(see the decisions varied). Digits that still lack "
        + "; ".join(f"{what}: {', '.join(d) or 'none'}" for what, d in lacking.items())
        + ". Where starts differ by more than neighbours do, another number of components might "
        "do as well; no claim depends on it."
    )


def _left_of_times(timing: dict[str, Any]) -> str:
    n_rows = len({r["digit"] for r in timing["rows"] if r["solver"] == "naive-row"})
    again = sorted({str(row["digit"]) for row in timing["retrained"]})
    return (
        f"Times: two iterations of one component of {timing['ratios']['naive']['paper']['n']} "
        f"digits; with work for each row one iteration of {n_rows} digits, as one takes more than "
        "a minute. All are of all rows, none is extrapolated. "
        + (
            f"The chosen mixtures of digits {', '.join(again)} are retrained until they converge, "
            "with every solver but `naive-row`, which would take an hour for each."
            if again
            else "Retrained mixtures: see the full profile."
        )
    )


def _left_of_abalone(study: Study) -> list[str]:
    a, found = study.profile.abalone, study.abalone["chosen"]
    repeats = study.abalone["settings"]["repeats"]
    sizes = ", ".join(f"{n} times {size}" for size, n in found["sizes"].items() if n)
    loads = ", ".join(f"{n} times {v}" for v, n in found["loadings"].items() if n)
    lines = [
        f"Abalone: {len(a.proportions)} shares of gaps, {repeats} repeats. The paper's lists of "
        "settings are gone through step by step, to where no neighbour is better "
        "(`experiments/descent.py`), instead of trying all 384 networks and 225 kernel ridges for "
        f"every table, which would take days. A network has at most {a.epochs} epochs."
        + (
            " What trying all of them changes is in the last table on Abalone."
            if "whole" in study.abalone
            else ""
        ),
        f"Chosen mixtures of Abalone: components {sizes} (of {a.sizes[0]} to {a.sizes[-1]}); value "
        f"added to the diagonal {loads}. All chosen settings: `abalone-chosen.csv`.",
    ]
    for learner, each in found["learners"].items():
        ends = sorted(each["at_ends"].items(), key=lambda pair: -pair[1])
        lines.append(
            f"Of {each['n']} times that a {learner} was chosen ({each['tried']:.0f} settings tried "
            "in the mean), values at an end of the paper's own lists: "
            + (", ".join(f"{value}: {n}" for value, n in ends) or "none")
            + "."
        )
    if "no_donor" in study.abalone:
        lines.append(
            "Of rows with gaps, no training row has all they lack in "
            + ", ".join(
                f"{100 * v:.0f} % ({p} % missing)" for p, v in study.abalone["no_donor"].items()
            )
            + "."
        )
    return lines


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
    if "whole" in summary:
        parts += [
            "### All of the paper's settings",
            "Tables filled by the mixture, 30 % missing: the setting found step by step against "
            "the best of the paper's whole lists on validation rows (network: hidden units, decay, "
            "rate, decrease; kernel ridge: kernel, its parameters, decay).",
            table(
                ["learner", "tried", "of", "validation error", "test error", "found", "best"],
                [
                    [
                        row["learner"],
                        f"{row['tried_by_steps']:.0f}",
                        f"{row['tried_in_all']:.0f}",
                        f"{100 * row['validation_change']:+.1f} %",
                        signed(row["difference"], row["half_width"]),
                        row["by_steps"],
                        row["in_all"],
                    ]
                    for row in summary["whole"]
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
    return f"{mean:+.4f} ± {half:.4f}"
