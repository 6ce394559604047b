"""How much work the choice of sizes may take, counted in predicted seconds of one processor.

The predictions are those of `plan` with the constants of one machine, so that the same table leads
to the same fits on every other.
"""

from __future__ import annotations

from typing import NamedTuple

from gapmix.plan.costs import DEFAULT
from gapmix.plan.patterns import Patterns
from gapmix.plan.planner import predict, predict_factors

ROW_SECONDS = 1e-7  # of a row under a component, whatever its columns: see benchmarks/choice.py

FEWEST = 6  # iterations with factors, whose starts are near the end


class Spend(NamedTuple):
    """How long a fit may climb."""

    seconds: float
    least: int  # but as many iterations at least


class Effort(NamedTuple):
    """What a choice may spend: `python -m benchmarks.choice` shows what it buys."""

    max_components: int  # largest size tried
    max_rows: int  # sizes are compared on at most so many rows, drawn at random
    compared: Spend  # on a size, on these rows
    kept: Spend  # on a size that is kept, on all rows
    n_starts: int  # of every size that is kept; all of them are united
    refine: str | None = None  # the learners that refine what the mixture fills
    foresees: bool = True  # whether large sizes are tried only if gains promise one


LINES = "lines"  # learners for tables with categories: of numbers, one Gaussian has them
FEW_TREES = "few trees"  # learners that take about as long as the choice itself

EFFORTS = {
    "quick": Effort(1, 5_000, Spend(0.2, 10), Spend(0.5, 10), 1, refine=LINES),
    "default": Effort(55, 5_000, Spend(0.2, 12), Spend(0.5, 8), 1, refine=FEW_TREES),
    "best": Effort(89, 20_000, Spend(30.0, 30), Spend(60.0, 30), 3, refine="auto", foresees=False),
}


def count_iterations(
    spend: Spend, patterns: Patterns, n_components: int, n_factors: int = 0
) -> int:
    """Return how many iterations of a mixture of this size may be spent."""
    if n_factors:
        once = predict_factors(patterns, n_components, n_factors, DEFAULT)
    else:
        once = predict(patterns, n_components, DEFAULT)["dual"]
    once += ROW_SECONDS * n_components * len(patterns.order)
    least = min(spend.least, FEWEST) if n_factors else spend.least
    return max(least, int(spend.seconds / once))
