"""Results as Markdown and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.machine import is_loud
from benchmarks.timing import COMMON

MEGABYTE = 2**20


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table whose columns line up."""
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def number(value: float | None, digits: int = 3) -> str:
    """Return a number in a few digits, or a dash."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def seconds(value: float | None) -> str:
    """Return a duration in a unit that suits it."""
    if value is None:
        return "-"
    if value >= 1:
        return f"{number(value)} s"
    return f"{number(1e3 * value)} ms" if value >= 1e-3 else f"{number(1e6 * value)} us"


def verdict(reached: bool | None) -> str:
    """Return yes, NO or a dash."""
    return "-" if reached is None else ("yes" if reached else "NO")


def targets(results: list[dict[str, Any]]) -> str:
    """Return one line per problem: the ratio with what it must be, memory and bits."""
    lines = []
    for result in results:
        ratio, checks, shape = result["ratio"], result["checks"], result["shape"]
        times = ratio["naive_times"]
        wanted = ratio["naive_must"]
        bar = "-" if times is None else f"{number(times)}" + (f" ({wanted:g})" if wanted else "")
        lines.append(
            [
                result["problem"] + ("*" if result["note"] else ""),
                f"{shape['n']:,} x {shape['d']}, K={shape['n_components']}, "
                f"{100 * shape['share_missing']:.0f} %",
                seconds(ratio["gapmix"]),
                seconds(ratio["scikit_learn"]),
                number(ratio["value"], 2),
                number(ratio["value_best"], 2),
                f"{ratio['must']:g}",
                f"{ratio['goal']:g}",
                verdict(ratio["reaches_must"]),
                verdict(ratio["reaches_goal"]),
                bar,
                _memory(checks["memory"]),
                verdict(checks["same_bits"]["equal"]),
            ]
        )
    header = ["problem", "table", "gapmix", "scikit-learn", "ratio", "to its best"]
    header += [
        "must",
        "goal",
        "must met",
        "goal met",
        "x naive (must)",
        "memory / allowed",
        "same bits",
    ]
    notes = [f"\\* {r['problem']}: {r['note']}" for r in results if r["note"]]
    return "\n\n".join([table(header, lines), *notes])


def _memory(memory: dict[str, Any]) -> str:
    if memory["peak_bytes"] is None:
        return "-"
    return f"{memory['peak_bytes'] / MEGABYTE:.0f} / {memory['allowed_bytes'] / MEGABYTE:.0f} MB"


def iterations(results: list[dict[str, Any]]) -> str:
    """Return one line per problem and contestant."""
    lines = [
        [
            row["problem"],
            row["contestant"],
            seconds(row["seconds_median"]),
            f"{seconds(row['seconds_q1'])} - {seconds(row['seconds_q3'])}",
            str(row["n_timed"]),
            str(row["iterations"]),
            "-" if common is None else f"{common:.9g}",
            "-" if row["peak_bytes"] is None else f"{row['peak_bytes'] / MEGABYTE:.0f} MB",
            row["note"],
        ]
        for result in results
        for row in result["rows"]
        for common in [row["log_likelihood_common"]]
    ]
    header = ["problem", "who", "median", "quartiles", "timed", "iterations"]
    header += ["log-likelihood", "memory", "note"]
    return table(header, lines)


def warnings(results: list[dict[str, Any]]) -> list[str]:
    """Return what makes times unfit to quote."""
    loud = [
        f"{result['problem']} ({100 * result['others_cpu']:.0f} %)"
        for result in results
        if is_loud(result["others_cpu"])
    ]
    if not loud:
        return []
    return [
        f"**Other processes used the cores during {', '.join(loud)}. BLAS threads suffer most from "
        "that, up to thirty times: these times are not to be quoted, and nothing is judged by "
        "them.**"
    ]


def jobs(results: list[dict[str, Any]]) -> str:
    """Return one line per table and filler."""
    lines = []
    for result in results:
        for row in result["rows"]:
            lines.append(
                [
                    row["problem"],
                    row["contestant"],
                    seconds(row["seconds"]),
                    number(row["times_gapmix"]),
                    "-" if row["rmse"] is None else f"{row['rmse']:.4f}",
                    f"{row['n_rows']:,}",
                    row["note"],
                ]
            )
    header = ["problem", "who", "whole job", "x gapmix", "error (sd)", "rows", "note"]
    return table(header, lines)


def markdown(document: dict[str, Any]) -> str:
    """Return the whole report."""
    machine = document["machine"]
    parts = [
        "# Benchmarks",
        f"`{document['command']}` on {document['date']}, commit {machine['commit']}.",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads each; "
        f"{machine['blas']}; Python {machine['python']}, NumPy {machine['numpy']}, SciPy "
        f"{machine['scipy']}, scikit-learn {machine['scikit-learn']}.",
    ]
    if document["scale"] != 1:
        parts.append(f"**Only {document['scale']:g} times the rows: targets do not apply.**")
    parts += warnings(document["results"])
    timed = [result for result in document["results"] if "ratio" in result]
    whole = [result for result in document["results"] if "ratio" not in result]
    if timed:
        parts += [
            "## One iteration of EM",
            "Ratio: median time of an iteration of gapmix on the table with gaps / of scikit-learn "
            'on the same table before it got them, taken in turn; "to its best" takes scikit-learn '
            "on one thread where that is faster.",
            targets(timed),
            "## Every solver and peer",
            f"Log-likelihood: per row, in iteration {COMMON}, from one start for all; "
            "scikit-learn's is of the complete rows. Memory: peak beyond the table.",
            iterations(timed),
        ]
    if whole:
        parts += [
            "## Whole jobs: fill a table with 20 % holes",
            "Error: root mean square over the hidden cells, in standard deviations of the column.",
            jobs(whole),
        ]
    if document["seconds"] is not None:
        parts.append(f"All of this took {document['seconds'] / 60:.1f} minutes.")
    return "\n\n".join(parts) + "\n"


def write_json(document: dict[str, Any], path: Path) -> None:
    """Write the document."""
    path.write_text(json.dumps(document, indent=1) + "\n")
