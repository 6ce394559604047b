"""Figure 1 of the paper, and the same for every digit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from experiments.store import Result
from gapmix.plots import plot_images

SIDE = 28


def draw_examples(results: dict[int, Result]) -> Figure:
    """Draw two images as in the paper: square missing, filled, and the truth beside them."""
    digits = sorted(results, key=lambda digit: (digit != 3, digit))[:2]  # a 3 first, if there
    titles = ("5 x 5 pixels missing", "filled by the mixture", "truth")
    figure = Figure(figsize=(6.2, 4.6), layout="constrained")
    ax = figure.add_subplot()
    names = ("shown", "filled mixture", "truth")
    images = np.array([[image(results[digit], name) for name in names] for digit in digits])
    plot_images(images, column_titles=titles, ax=ax)
    frame(ax.child_axes, [results[digit] for digit in digits for _ in names])
    return figure


def draw_digits(results: dict[int, Result]) -> Figure:
    """Draw an image of every digit under each way of filling, and the truth."""
    names = ("shown", "filled mixture", "filled mean", "filled 10 nearest", "truth")
    labels = ("missing", "mixture", "mean", "10 nearest", "truth")
    n = len(results)
    figure = Figure(figsize=(1.0 * n + 0.9, 5.3), layout="constrained")
    ax = figure.add_subplot()
    images = np.array([[image(result, name) for result in results.values()] for name in names])
    plot_images(images, ax=ax)
    frame(ax.child_axes, [*results.values()] * len(names))
    for panel, label in zip(ax.child_axes[::n], labels, strict=True):
        panel.set_ylabel(label, fontsize=11)
    return figure


def most_telling(result: Result) -> int:
    """Return the image with most ink in its square: an empty square is easily filled."""
    hidden = np.isnan(result["shown"])
    return int(np.where(hidden, result["truth"], 0.0).sum(axis=1).argmax())


def image(result: Result, name: str) -> np.ndarray:
    """Return the most telling image of a digit, (SIDE, SIDE), NaN where it is missing."""
    return np.asarray(result[name][most_telling(result)]).reshape(SIDE, SIDE)


def frame(panels: Sequence[Axes], results: Sequence[Result]) -> None:
    """Draw a frame around what is missing, or was."""
    for panel, result in zip(panels, results, strict=True):
        rows, columns = np.nonzero(np.isnan(image(result, "shown")))
        corner = (columns.min() - 0.5, rows.min() - 0.5)
        size = np.ptp(columns) + 1, np.ptp(rows) + 1
        panel.add_patch(Rectangle(corner, *size, fill=False, lw=0.8, ls=":"))
