"""Pictures of gaps, plans, fits and what was filled.

They need matplotlib: `pip install "gapmix[plot]"`.
Figures are made without pyplot, so that none stays open and none is shown; the Axes returned knows
its figure (`ax.figure.savefig(...)`). Everything can be told apart in grey.
"""

from gapmix.plots.filled import plot_convergence, plot_images, plot_marginals, plot_missing
from gapmix.plots.patterns import plot_patterns, plot_plan

__all__ = [
    "plot_convergence",
    "plot_images",
    "plot_marginals",
    "plot_missing",
    "plot_patterns",
    "plot_plan",
]
