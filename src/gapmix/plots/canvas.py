"""The sheet all pictures are drawn on: figures without pyplot, and matplotlib if it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

figure: Any
try:
    from matplotlib import figure
except ImportError:
    figure = None

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


def write_beside(ax: Axes, text: str, place: tuple[float, float], points: float) -> None:
    """Write a small text right of a place."""
    look: dict[str, Any] = {"va": "center", "fontsize": 7}
    look["bbox"] = {"facecolor": "w", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
    ax.annotate(text, place, (points, 0), textcoords="offset points", **look)
