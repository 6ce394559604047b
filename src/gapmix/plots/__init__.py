"""Pictures of gaps, plans and results. Needs matplotlib: `pip install "gapmix[plot]"`.

Figures are made without pyplot, so that none stays open and none is shown; the Axes returned knows
its figure (`ax.figure.savefig(...)`). Everything can be told apart in grey.
"""

from gapmix.plots.gaps import plot_patterns
from gapmix.plots.plans import plot_plan
from gapmix.plots.results import plot_hide_and_score, plot_selection

__all__ = ["plot_hide_and_score", "plot_patterns", "plot_plan", "plot_selection"]
