"""The textbook, row by row: what the paper's equations say literally, with nothing shared."""

from __future__ import annotations

from gapmix.parameters import Parameters
from gapmix.plan.rows import Block
from gapmix.solvers import naive
from gapmix.solvers.contract import Completed, Visit

SUMS_DIAGONAL = naive.SUMS_DIAGONAL
prepare, accumulate, notes = naive.prepare, naive.accumulate, naive.notes
moments, precisions = naive.moments, naive.precisions


def visit(parameters: Parameters, block: Block) -> Visit:
    """Return log densities, factoring S_oo anew for every row."""
    return naive.visit(parameters, block, naive.by_row)


def complete(parameters: Parameters, block: Block, *, spread: bool = True) -> Completed:
    """Return the rows filled by each component, with conditional variances."""
    return naive.completed(parameters, block, visit(parameters, block))
