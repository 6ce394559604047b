"""What all pictures share: figures without pyplot, and colours that differ in grey too."""

from __future__ import annotations

from typing import Any

figure: Any
try:
    from matplotlib import figure
except ImportError:
    figure = None

SHOWN, GAP = "#e3e6ea", "#2b3a55"  # light and dark
FILLED = "#f2b45c"


def require_matplotlib() -> None:
    """Raise an error that says what to install, if matplotlib is missing."""
    if figure is None:
        raise ImportError('Plots need matplotlib: pip install "gapmix[plot]"')


def new_figure(width: float, height: float) -> Any:
    """Return a figure of so many inches."""
    require_matplotlib()
    return figure.Figure(figsize=(width, height), layout="constrained")
