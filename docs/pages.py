"""Pages made from result files: accuracy, costs, stability, and the benchmarks.

Whatever files are there are shown; where there are none, the page says how to make them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.filling import page

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks" / "results"


def write_all(folder: Path) -> None:
    """Write every generated page into a folder; those that did not change keep their date."""
    folder.mkdir(exist_ok=True)
    made = {
        "accuracy.md": page.markdown(BENCHMARKS, "../benchmarks/results/accuracy.png"),
        "benchmarks.md": benchmarks_page(BENCHMARKS),
        "costs.md": costs_table(BENCHMARKS / "costs.json"),
        "stability.md": stability_tables(BENCHMARKS / "stability.json"),
    }
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def benchmarks_page(folder: Path) -> str:
    """Return the newest full run in a folder of results, as Markdown."""
    documents = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    runs = [each for each in documents if isinstance(each, dict) and "results" in each]
    if not runs:
        return (
            "No full run is stored with this version. `make bench` makes one, which this page then "
            "shows.\n"
        )
    newest = max(runs, key=lambda each: each["date"])
    return report.markdown(newest).removeprefix("# Benchmarks\n\n")


def costs_table(path: Path) -> str:
    """Return counts and seconds of each family of patterns, as Markdown."""
    if not path.exists():
        return "`python -m benchmarks.solver_costs` makes the table that belongs here.\n"
    document = json.loads(path.read_text())
    solvers = list(document["records"][0]["seconds"])
    rows = []
    for each in document["records"]:
        seconds, best = each["seconds"], min(each["seconds"].values())
        rows.append(
            [
                each["family"],
                f"{each['n']:,} x {each['d']}",
                f"{each['n_patterns']:,}",
                f"{each['mean_missing']:.1f}",
                f"{each['mean_smaller']:.1f}",
                f"{each['mean_changes']:.1f}",
                report.number(each["observed_side"] / max(1.0, each["smaller_side"]), 2),
                *(
                    f"**{report.seconds(s)}**" if s == best else report.seconds(s)
                    for s in seconds.values()
                ),
            ]
        )
    header = ["patterns", "table", "distinct", "mean n_m", "mean smaller side"]
    header += ["mean n_d", "operations saved by the smaller side, times"]
    return (
        "One iteration, E and M step, one component, processor time of one thread, least of three "
        f"rounds; {_where(document)}. *n_d*: variables in which neighbours in the minimum spanning "
        "tree differ.\n\n"
        + report.table([*header, *(f"`{solver}`" for solver in solvers)], rows)
        + "\n"
    )


def stability_tables(path: Path) -> str:
    """Return errors by condition number, a table for each spectrum, as Markdown."""
    if not path.exists():
        return "`python -m benchmarks.stability` makes the tables that belong here.\n"
    document = json.loads(path.read_text())
    records, problem = document["records"], document["problem"]
    conditions = sorted({each["condition"] for each in records})
    forms = list(dict.fromkeys(each["form"] for each in records))
    parts = [
        f"One step of EM against the same step in {problem['digits']} digits: {problem['n']} rows, "
        f"{problem['d']} columns, {100 * problem['share']:.0f} % missing, one component, median of "
        f"{problem['seeds']} seeds; {_where(document)}. Each cell: relative error of the "
        "log-likelihood / of the new covariance (Frobenius norm)."
    ]
    for spectrum, words in document["spectra"].items():
        found = {
            (each["form"], each["condition"]): f"{_error(each['log_likelihood'])} / "
            f"{_error(each['covariance'])}"
            for each in records
            if each["spectrum"] == spectrum
        }
        rows = [[form, *(found[form, condition] for condition in conditions)] for form in forms]
        header = [f"eigenvalues: {words}", *(f"1e{math.log10(c):.0f}" for c in conditions)]
        parts.append(report.table(header, rows))
    return "\n\n".join(parts) + "\n"


def _error(value: float | None) -> str:
    return "fails" if value is None else f"{value:.0e}"


def _where(document: dict[str, Any]) -> str:
    machine = document["machine"]
    return f"{machine['cpu']}, {machine['blas']}, commit {machine['commit']}"
