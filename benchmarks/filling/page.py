"""The page of results: tables in Markdown and a picture of error against seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.filling.summary import (
    OURS,
    PARTS,
    Line,
    Row,
    by_setting,
    by_table,
    find_winners,
    middle,
    read_rows,
    summarise,
    take_ratios,
    write_rows,
)

Figure: Any
FigureCanvasAgg: Any
Bbox: Any
try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
except ImportError:  # everything but the picture works without it
    Figure = FigureCanvasAgg = Bbox = None

OURS_COLOR, COLOR = "#d55e00", "#0072b2"
PLACES = (  # of names from their points
    *((0, 7, "center"), (0, -14, "center"), (7, -3, "left"), (7, 4, "left")),
    *((7, -10, "left"), (-7, -3, "right"), (-7, 4, "right"), (-7, -10, "right")),
    *((0, 20, "center"), (0, -27, "center"), (0, 33, "center"), (0, -40, "center")),
)
SCORES = {"rmse": "error of numbers", "wrong": "wrong levels"}
DASH = "-"


def write(document: dict[str, Any], rows: list[Row], folder: Path) -> None:
    """Write accuracy.csv, accuracy.json and accuracy.png into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(rows, folder / "accuracy.csv")
    (folder / "accuracy.json").write_text(json.dumps(document, indent=1) + "\n")
    if Figure is not None:
        draw(read_rows(folder / "accuracy.csv"), folder / "accuracy.png")


def markdown(folder: Path, picture: str) -> str:
    """Return the page's results from the files of a folder, with a link to the picture."""
    if not (folder / "accuracy.csv").exists():
        return "`make accuracy` makes the tables that belong here.\n"
    rows = read_rows(folder / "accuracy.csv")
    document = json.loads((folder / "accuracy.json").read_text())
    found = document["machine"]
    parts = [
        f"{found['cpu']}, {found['threads']} thread{'s' if found['threads'] > 1 else ''} each, "
        f"at most {document['limit']:g} s for a filling; gapmix {found['gapmix']} (commit "
        f"{found['commit']}), scikit-learn {found['scikit-learn']}; {document['date']}.",
        overview(summarise(rows)),
        f"![Error against seconds]({picture})",
        "### By table",
        *(
            f"{SCORES[score][0].upper()}{SCORES[score][1:]}:\n\n{each_table(rows, score)}"
            for score in SCORES
        ),
        "### Where others are ahead",
        winners(rows),
    ]
    if document["absent"] or document["not_run"]:
        parts += ["### Not run", missing(document)]
    return "\n\n".join(parts) + "\n"


def overview(lines: list[Line]) -> str:
    """Return one line for each contestant."""
    header = ["who", "RMSE", "MAE", "wrong levels", "CRPS", "energy distance", "RMSE / gapmix's"]
    header += ["mean rank", "held by 90 % intervals", "seconds", "longest", "settings"]
    rows = []
    for line in lines:
        pairs = [
            _pair([line.ratios[f"{part} {score}"] for part in PARTS])
            for score in ("rmse", "mae", "wrong", "crps", "energy")
        ]
        trouble = [f"{line.stopped} stopped"] * (line.stopped > 0)
        trouble += [f"{line.failed} failed"] * (line.failed > 0)
        rows.append(
            [
                f"**{line.contestant}**" if line.contestant.startswith(OURS) else line.contestant,
                *pairs,
                _number(line.to_ours),
                DASH if line.rank is None else f"{line.rank:.1f}",
                _pair([line.coverage[part] for part in PARTS], percent=True),
                report.seconds(line.processor),
                report.seconds(line.longest),
                ", ".join([str(line.settings), *trouble]),
            ]
        )
    return report.table(header, rows)


def each_table(rows: list[Row], score: str) -> str:
    """Return ratios by table and contestant, the least in bold."""
    found = by_table(rows, score)
    order = [line.contestant for line in summarise(rows)]
    sizes = {row["table"]: f"{row['n']:,} x {row['d']}" for row in rows}
    lines = []
    for table, ratios in found.items():
        least = min(ratios.values())
        cells = [_number(ratios.get(name)) for name in order]
        marked = [
            f"**{cell}**" if ratios.get(name) == least else cell
            for name, cell in zip(order, cells, strict=True)
        ]
        lines.append([f"{table}, {sizes[table]}", *marked])
    return report.table(["table", *order], lines) if lines else "nothing yet"


def each_setting(rows: list[Row]) -> str:
    """Return error of numbers / wrong levels (seconds) of seen rows, by setting and contestant."""
    names = list(dict.fromkeys(row["contestant"] for row in rows))
    lines = []
    for (table, mechanism, rate), group in by_setting(rows).items():
        found = {row["contestant"]: row for row in group if row["seeds"]}
        least = {
            score: min((r[score] for r in found.values() if r[score] is not None), default=None)
            for score in ("seen rmse", "seen wrong")
        }
        cells = []
        for name in names:
            row = found.get(name)
            figures = [_mark(row[score], least[score]) for score in least] if row else [DASH]
            seconds = f" ({report.seconds(row['processor'])})" if row else ""
            cells.append(" / ".join(figures) + seconds)
        lines.append([table, f"{mechanism} {100 * rate:.0f} %", *cells])
    return report.table(["table", "gaps", *names], lines)


def _mark(value: float | None, least: float | None) -> str:
    """Return a figure, in bold if none is less."""
    if value is None:
        return DASH
    text = f"{value:.3f}".removeprefix("0")
    return f"**{text}**" if value == least else text


def calibration(tenths: dict[str, list[list[float]]]) -> str:
    """Return how sure contestants were of filled levels, and how often they were right."""
    rows = [
        [name, f"{n:,.0f}", f"{sure:.3f}", f"{right:.3f}", f"{right - sure:+.3f}"]
        for name, found in tenths.items()
        for n, sure, right in found
    ]
    return report.table(["who", "levels", "sure", "right", "difference"], rows)


def winners(rows: list[Row]) -> str:
    """Return a list of tables that a rival fills better than gapmix does with its defaults."""
    if not any(row["contestant"] == OURS for row in rows):
        return "gapmix has not been run yet."
    items = [
        f"- {table}, {words}: {rival} has {ratio:.2f} times that of gapmix."
        for score, words in (("rmse", "RMSE"), ("wrong", "wrong levels"))
        for table, rival, ratio in find_winners(rows, score)
    ]
    return "\n".join(items) or "Nowhere."


def missing(document: dict[str, Any]) -> str:
    """Return who could not run and why, and how many cells are still to be run."""
    items = [f"- {name}: {why}." for name, why in document["absent"].items()]
    items += [
        f"- {name}: {count} fillings still to be run."
        for name, count in document["not_run"].items()
    ]
    return "\n".join(items)


def _pair(values: list[float | None], *, percent: bool = False) -> str:
    if all(value is None for value in values):
        return DASH
    return " / ".join(
        DASH if value is None else f"{100 * value:.0f} %" if percent else _number(value)
        for value in values
    )


def _number(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


class Point(NamedTuple):
    """A contestant in the picture."""

    who: str
    seconds: float
    error: float
    quarters: tuple[float, float]  # half of all settings lie between


def draw(rows: list[Row], path: Path) -> None:
    """Draw the error of each contestant against its seconds, numbers and levels side by side."""
    panels = {words: points for score, words in SCORES.items() if (points := place(rows, score))}
    if not panels:
        return
    figure = Figure(figsize=(5.5 * len(panels), 4.6), dpi=110, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (words, points) in zip(axes, panels.items(), strict=True):
        for point in points:
            color = OURS_COLOR if point.who.startswith(OURS) else COLOR
            axis.plot([point.seconds] * 2, point.quarters, color=color, alpha=0.3, lw=3)
            axis.plot(point.seconds, point.error, "o", color=color, ms=6)
        ours = sorted((p.seconds, p.error) for p in points if p.who.startswith(OURS))
        axis.plot([x for x, _ in ours], [y for _, y in ours], color=OURS_COLOR, lw=1)
        axis.axhline(1, color="#777777", lw=0.8, ls=":")
        axis.set(xscale="log", xlabel="processor seconds for a table (median)", title=words)
        axis.grid(alpha=0.3)
        axis.margins(x=0.4)
    axes[0].set_ylabel("against the best of mean, k-NN, iterative")
    figure.draw_without_rendering()  # only now is it known where points are
    for axis, points in zip(axes, panels.values(), strict=True):
        _name(axis, points, canvas.get_renderer())
    figure.savefig(path)


def _name(axis: Any, points: list[Point], renderer: Any) -> None:
    """Write names beside points, as near as others leave room."""
    at = axis.transData.transform([(each.seconds, each.error) for each in points])
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in at.tolist()]
    for point in sorted(points, key=lambda each: each.seconds):
        name = axis.annotate(
            *(point.who, (point.seconds, point.error)),
            color=OURS_COLOR if point.who.startswith(OURS) else COLOR,
            fontsize=9,
            xytext=(0, 0),
            textcoords="offset points",
        )
        name.set_in_layout(False)
        for right, up, side in PLACES:
            name.set(position=(right, up), ha=side)
            box = name.get_window_extent(renderer)
            if not any(box.overlaps(other) for other in taken):
                break
        taken.append(box)


def place(rows: list[Row], score: str) -> list[Point]:
    """Return the points of those who have seconds and an error."""
    found = []
    scaled = take_ratios(rows)
    for line in summarise(rows):
        own = [row["ratios"] for row in scaled if row["contestant"] == line.contestant]
        ratios = [each[f"{part} {score}"] for each in own for part in PARTS]
        shown = sorted(ratio for ratio in ratios if ratio is not None)
        error = middle(shown)
        if error is not None and line.processor:
            quarters = shown[len(shown) // 4], shown[3 * len(shown) // 4]
            found.append(Point(line.contestant, line.processor, error, quarters))
    return found
