"""Pictures of gaps, plans, fits, what was filled and how well. Needs matplotlib.

`pip install "gapmix[plot]"` brings it. Figures are made without pyplot, so that none stays open and
none is shown; the Axes returned knows its figure (`ax.figure.savefig(...)`). Everything can be told
apart in grey.
"""

from gapmix.plots.filled import plot_convergence, plot_images, plot_marginals, plot_missing
from gapmix.plots.gaps import plot_patterns
from gapmix.plots.plans import plot_plan
from gapmix.plots.results import plot_hide_and_score, plot_selection

__all__ = [
    "plot_convergence",
    "plot_hide_and_score",
    "plot_images",
    "plot_marginals",
    "plot_missing",
    "plot_patterns",
    "plot_plan",
    "plot_selection",
]
