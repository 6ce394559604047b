"""How the time of an iteration grows: with rows, columns, patterns and the share missing."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import contestants, iteration
from benchmarks.problems import Problem, make_problem, mcar, scaled_rows
from benchmarks.timing import interleave

Figure: Any
try:
    from matplotlib.figure import Figure
except ImportError:  # everything but the picture works without it
    Figure = None

N_COMPONENTS = 3
REPEATS = 5
BUDGET = 1.5  # seconds for each contestant at each point
NAIVE_SECONDS = 0.5
COLORS = {"gapmix": "#d55e00", contestants.SCIKIT_LEARN: "#0072b2", "naive": "#777777"}


class Point(NamedTuple):
    """One measurement."""

    panel: str
    value: float
    contestant: str  # a key of COLORS
    seconds: float
    q1: float
    q3: float


class Panel(NamedTuple):
    """What is varied, over which values, and the table for a value."""

    label: str
    values: tuple[float, ...]
    table: Callable[[np.random.Generator, float, float], np.ndarray]  # (rng, value, scale)
    caption: str
    log: bool = True


def _few_patterns(rng: np.random.Generator, n_patterns: float, scale: float) -> np.ndarray:
    distinct = mcar(30, 0.2)(rng, int(n_patterns))
    return distinct[rng.integers(0, len(distinct), size=scaled_rows(20_000, scale))]


PANELS: dict[str, Panel] = {
    "n": Panel(
        "rows n",
        (2_000, 5_000, 20_000, 50_000, 200_000),
        lambda rng, n, scale: mcar(20, 0.2)(rng, scaled_rows(int(n), scale)),
        "d = 20, 20 % missing",
    ),
    "d": Panel(
        "columns d",
        (5, 10, 20, 50, 100, 200),
        lambda rng, d, scale: mcar(int(d), 0.2)(rng, scaled_rows(5_000, scale)),
        "n = 5,000, 20 % missing",
    ),
    "patterns": Panel(
        "distinct patterns",
        (1, 10, 100, 1_000, 10_000),
        _few_patterns,
        "n = 20,000, d = 30, 20 % missing",
    ),
    "share": Panel(
        "share missing",
        (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95),
        lambda rng, share, scale: mcar(50, share)(rng, scaled_rows(10_000, scale)),
        "n = 10,000, d = 50",
        log=False,
    ),
}


def make_table(panel: str, value: float, scale: float) -> Problem:
    """Return the table of a point; every row shows something."""
    observed = PANELS[panel].table(np.random.default_rng(1), value, scale)
    observed[~observed.any(axis=1), 0] = True
    return make_problem(f"{panel} = {value:g}", observed, N_COMPONENTS)


def measure(panel: str, value: float, *, scale: float, threads: int) -> Iterator[Point]:
    """Yield the points of gapmix, scikit-learn and naive at one value."""
    problem = make_table(panel, value, scale)
    start = iteration.make_start(problem)
    made = [
        contestants.Gapmix(problem, start, threads=threads),
        contestants.ScikitLearn(problem, start, threads=threads),
        contestants.make_naive(problem, start, threads=threads, affordable=NAIVE_SECONDS),
    ]
    names = ("gapmix", contestants.SCIKIT_LEARN, "naive")
    for name, timing in zip(names, interleave(made, REPEATS, BUDGET), strict=True):
        yield Point(panel, value, name, timing.median, timing.q1, timing.q3)


def write_csv(points: list[Point], path: Path) -> None:
    """Write the points, one line each."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Point._fields)
        writer.writerows(points)


def draw(points: list[Point], path: Path, caption: str) -> None:
    """Draw one panel for each thing varied."""
    if Figure is None:
        raise ImportError("The scaling plot needs matplotlib: pip install 'gapmix[plot]'.")
    figure = Figure(figsize=(15, 4.2), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True)
    for axis, (name, panel) in zip(axes, PANELS.items(), strict=True):
        for contestant, color in COLORS.items():
            line = [p for p in points if p.panel == name and p.contestant == contestant]
            x = [p.value for p in line]
            axis.fill_between(x, [p.q1 for p in line], [p.q3 for p in line], color=color, alpha=0.2)
            axis.plot(x, [p.seconds for p in line], "o-", color=color, label=contestant, ms=4)
        axis.set(xlabel=panel.label, yscale="log", xscale="log" if panel.log else "linear")
        axis.set_title(panel.caption, fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds per EM iteration")
    axes[0].legend(frameon=False, loc="upper left")
    figure.suptitle(caption, fontsize=9, color="#555555")
    figure.savefig(path, dpi=110)
