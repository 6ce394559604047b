"""Figures 2 and 3 of the paper: test error against the share of missing inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.figure import Figure

from experiments.abalone_work import (
    LEARNERS,
    MEAN,
    MIXTURE,
    MIXTURE_ALL,
    MIXTURE_SEEING,
    NEIGHBOURS,
    NEIGHBOURS_FAIR,
    NEIGHBOURS_WHOLE,
)


class Style(NamedTuple):
    """How a curve looks: dark enough, and marked, so that it can be told apart in grey."""

    color: str
    line: str
    marker: str


STYLES = {
    MIXTURE: Style("#000000", "-", "o"),
    MIXTURE_SEEING: Style("#555555", "-", "v"),
    MEAN: Style("#b2182b", "--", "s"),
    NEIGHBOURS: Style("#2166ac", "-.", "^"),
    NEIGHBOURS_WHOLE: Style("#542788", "--", "P"),
    NEIGHBOURS_FAIR: Style("#67a9cf", ":", "D"),
    MIXTURE_ALL: Style("#999999", (0, (3, 2)), "h"),  # type: ignore[arg-type]
    "network": Style("#2166ac", "--", "s"),
    "kernel ridge": Style("#b2182b", "-.", "^"),
    "mixture alone": Style("#000000", "-", "o"),
}
Curves = dict[str, list[dict[str, Any]]]


def draw_imputers(curves: dict[str, Curves]) -> Figure:
    """Draw figure 2: every imputer under the network (top) and kernel ridge (bottom)."""
    figure = Figure(figsize=(7.2, 8.4), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, sharey=True)
    for axis, learner in zip((top, bottom), LEARNERS, strict=True):
        _draw(axis, curves[learner])
        axis.set_title(learner, fontsize=11)
    bottom.set_xlabel("share of input values missing")
    top.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def draw_discriminant(curves: Curves) -> Figure:
    """Draw figure 3: the mixture alone, and learners on what it filled."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axis = figure.subplots()
    _draw(axis, curves)
    axis.set_xlabel("share of input values missing")
    axis.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def _draw(axis: Any, curves: Curves) -> None:
    for name, points in curves.items():
        style = STYLES[name]
        x = [point["proportion"] for point in points]
        y = [point["mse"] for point in points]
        band = [point["band"] for point in points]
        low = [a - b for a, b in zip(y, band, strict=True)]
        high = [a + b for a, b in zip(y, band, strict=True)]
        axis.fill_between(x, low, high, color=style.color, alpha=0.15, lw=0)
        axis.plot(
            x, y, color=style.color, ls=style.line, marker=style.marker, ms=6, lw=1.6, label=name
        )
    axis.set_ylabel("test mean squared error\n(target has variance 1)")
    axis.grid(alpha=0.3)
