"""What a fitted mixture says of rows: densities, filled values, quantiles and draws."""

from __future__ import annotations

from gapmix.density.fitted import (
    Density,
    cell_scores,
    distribution,
    draw,
    fill,
    level_probabilities,
    marginal,
    quantiles,
    sample_rows,
    score,
)

__all__ = [
    "Density",
    "cell_scores",
    "distribution",
    "draw",
    "fill",
    "level_probabilities",
    "marginal",
    "quantiles",
    "sample_rows",
    "score",
]
