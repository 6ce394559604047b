"""Figure 1 of the paper, and the same for every digit."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from experiments.store import Result

SIDE = 28
GREY = 0.5


def draw_examples(results: dict[int, Result]) -> Figure:
    """Draw two images as in the paper: square missing, filled, and the truth beside them."""
    digits = sorted(results, key=lambda digit: (digit != 3, digit))[:2]  # a 3 first, if there
    titles = ("5 x 5 pixels missing", "filled by the mixture", "truth")
    figure = Figure(figsize=(6.2, 4.6), layout="constrained")
    for row, digit in zip(figure.subplots(len(digits), 3, squeeze=False), digits, strict=True):
        i = most_telling(results[digit])
        for axis, name in zip(row, ("shown", "filled mixture", "truth"), strict=True):
            show(axis, results[digit], name, i)
    for axis, title in zip(figure.axes, titles, strict=False):
        axis.set_title(title, fontsize=11)
    return figure


def draw_digits(results: dict[int, Result]) -> Figure:
    """Draw an image of every digit under each way of filling, and the truth."""
    names = ("shown", "filled mixture", "filled mean", "filled 10 nearest", "truth")
    labels = ("missing", "mixture", "mean", "10 nearest", "truth")
    n = len(results)
    figure = Figure(figsize=(1.0 * n + 0.9, 5.3), layout="constrained")
    axes = figure.subplots(len(names), n, squeeze=False)
    for column, result in enumerate(results.values()):
        i = most_telling(result)
        for axis, name in zip(axes[:, column], names, strict=True):
            show(axis, result, name, i)
    for axis, label in zip(axes[:, 0], labels, strict=True):
        axis.set_ylabel(label, fontsize=11)
    return figure


def most_telling(result: Result) -> int:
    """Return the image with most ink in its square: an empty square is easily filled."""
    hidden = np.isnan(result["shown"])
    return int(np.where(hidden, result["truth"], 0.0).sum(axis=1).argmax())


def show(axis: Any, result: Result, name: str, i: int) -> None:
    """Draw an image, the missing square grey, or framed once it is filled."""
    image = result[name][i].reshape(SIDE, SIDE)
    hidden = np.isnan(result["shown"][i]).reshape(SIDE, SIDE)
    ink = np.where(np.isnan(image), GREY, image)
    axis.imshow(ink, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    rows, columns = np.nonzero(hidden)
    corner = (columns.min() - 0.5, rows.min() - 0.5)
    frame = Rectangle(corner, np.ptp(columns) + 1, np.ptp(rows) + 1, fill=False, lw=0.8, ls=":")
    axis.add_patch(frame)
    axis.set(xticks=[], yticks=[])
