"""What every solver offers. A solver says how; it knows nothing of EM, threads or estimators."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from gapmix.parameters import Parameters
from gapmix.plan.rows import Block
from gapmix.statistics import Moments, Statistics

LOG_2PI = float(np.log(2.0 * np.pi))


class Visit(NamedTuple):
    """What a solver knows of a block before the responsibilities are known."""

    log_density: np.ndarray  # (n_b, K) log p(x_o | component)
    kept: Any  # the solver's own: whatever `accumulate` needs


class Completed(NamedTuple):
    """Rows filled by each component, and how sure it is."""

    log_density: np.ndarray  # (n_b, K)
    deviation: np.ndarray  # (K, n_b, d) E[x | x_o, component] - mean
    variance: np.ndarray  # (K, P_b, d) conditional variance of each variable; 0 where observed,
    # and perhaps everywhere if it was not asked for


class Solver(Protocol):
    """The functions of a solver module. `prepared` is whatever its `prepare` returned."""

    SUMS_DIAGONAL: bool  # statistics hold only the diagonal of the second moments

    def prepare(self, parameters: Parameters) -> Any:
        """Do what is done once per iteration, for all blocks."""

    def visit(self, prepared: Any, block: Block) -> Visit:
        """Return the log densities of the block's rows."""

    def accumulate(
        self, prepared: Any, block: Block, visit: Visit, resp: np.ndarray, total: Statistics
    ) -> None:
        """Add the block to `total` in place; `resp` (n_b, K) is already times the row weight."""

    def moments(self, prepared: Any, statistics: Statistics) -> Moments:
        """Return the moments of all rows, in the coordinates of the table."""

    def precisions(self, prepared: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return precisions (K, d, d), or (K, d) when diagonal, and log|S| (K,).

        They are for the structure's log-prior, which may read something else of its own solver.
        """

    def complete(self, prepared: Any, block: Block, *, spread: bool = True) -> Completed:
        """Return the rows filled by each component, with conditional variances if asked for."""

    def notes(self, prepared: Any, statistics: Statistics) -> tuple[str, ...]:
        """Return what is worth recording about how this iteration was solved."""
