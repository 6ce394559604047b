"""Ways to obtain, for every component and pattern, density, completed row and statistics.

All solvers are exact and interchangeable. Each is a module with the functions of `Solver`.
"""

from types import MappingProxyType

from gapmix.solvers import diagonal, dual, factors, naive, naive_row, paper, tree
from gapmix.solvers.contract import Completed, Solver, Visit

SOLVERS: MappingProxyType[str, Solver] = MappingProxyType(
    {
        "naive-row": naive_row,
        "naive": naive,
        "paper": paper,
        "tree": tree,
        "dual": dual,
        "diagonal": diagonal,
        "factors": factors,
    }
)

__all__ = ["SOLVERS", "Completed", "Solver", "Visit"]
