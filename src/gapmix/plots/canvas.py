"""The sheet all pictures are drawn on: figures without pyplot, and matplotlib if it is there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

figure: Any = None
colors: Any = None
with suppress(ImportError):  # told when something is drawn
    from matplotlib import colors, figure

SHOWN, GAP = "#e3e6ea", "#2b3a55"  # light and dark: also apart in grey
FILLED = "#f2b45c"
BAR, EDGE, RULE = "#cccccc", "#999999", "#e6e6e6"  # of bars and lines, and lines behind the drawing


def require_matplotlib() -> None:
    """Raise an error that says what to install, if matplotlib is missing."""
    if figure is None:
        raise ImportError('Plots need matplotlib: pip install "gapmix[plot]"')


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of so many inches."""
    require_matplotlib()
    return figure.Figure(figsize=(width, height), layout="constrained")


def open_axes(ax: Axes | None, width: float, height: float, *, panels: bool = False) -> Axes:
    """Return where to draw: what was given, or a figure of so many inches; for panels, no frame."""
    opened: Axes = new_figure(width, height).add_subplot() if ax is None else ax
    if panels:
        opened.set_axis_off()
    return opened


def group_neighbours(n: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the number of each of at most `most` groups of n neighbours."""
    n_groups = min(n, max(1, most))
    first = np.arange(n_groups) * n // n_groups
    return first, np.diff(np.append(first, n))


def gap_colors() -> dict[str, Any]:
    """Return how shares of gaps are coloured, from 0 to 1."""
    scale = colors.LinearSegmentedColormap.from_list("gaps", [SHOWN, GAP])
    return {"cmap": scale, "vmin": 0, "vmax": 1}


def write_beside(ax: Axes, text: str, place: tuple[float, float], points: float) -> None:
    """Write a small text right of a place."""
    look: dict[str, Any] = {"va": "center", "fontsize": 7}
    look["bbox"] = {"facecolor": "w", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
    ax.annotate(text, place, (points, 0), textcoords="offset points", **look)
