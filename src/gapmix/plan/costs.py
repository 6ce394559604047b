"""What things cost on this machine: the constants behind a plan's predictions.

Times of primitives are kept at a few sizes and interpolated in logarithms.
`solvers/calibrate.py` measures them; DEFAULT holds one machine's, good enough to rank solvers on
another. It is what `python -c "from gapmix.solvers import calibrate; print(calibrate.measure())"`
prints, rounded.
"""

from typing import NamedTuple

import numpy as np


class Costs(NamedTuple):
    """Seconds of primitives, at index sets of the sizes `sizes`."""

    sizes: tuple[int, ...]
    scratch: tuple[float, ...]  # one pattern in `dual`: gather, factor, invert, add up
    cholesky: tuple[float, ...]  # LAPACK's factorisation alone
    append: tuple[float, ...]  # one variable into a moving factor, with its column t
    delete: tuple[float, ...]  # one variable out of it, with its column t
    solve: tuple[float, ...]  # both triangular solves for one row
    node: float  # interpreter's share of one node of a walk
    multiply_add: float  # one multiply-add of a large matrix product


DEFAULT = Costs(
    sizes=(4, 16, 64, 128, 256, 512),
    scratch=(1.2e-7, 4.2e-7, 8e-6, 5e-5, 1.1e-3, 7.3e-3),
    cholesky=(8e-7, 1.4e-6, 1.5e-5, 5.5e-5, 2.8e-4, 1.9e-3),
    append=(2.8e-5, 2.9e-5, 3.4e-5, 4.2e-5, 8.5e-5, 2.4e-4),
    delete=(3.5e-5, 3.5e-5, 4.3e-5, 6e-5, 1.1e-4, 3e-4),
    solve=(7.3e-6, 7.9e-6, 1e-5, 1.5e-5, 3.8e-5, 1.5e-4),
    node=1.5e-5,
    multiply_add=4.2e-11,
)


def at_size(costs: Costs, primitive: str, size: np.ndarray) -> np.ndarray:
    """Return the seconds of a primitive at any sizes; beyond the table its slope goes on."""
    known = np.log(np.array(costs.sizes, dtype=float))
    seconds = np.log(np.array(getattr(costs, primitive)))
    wanted = np.log(np.maximum(size, 1))
    slope = (seconds[-1] - seconds[-2]) / (known[-1] - known[-2])
    beyond = np.maximum(wanted - known[-1], 0.0) * max(slope, 2.0)
    return np.exp(np.interp(wanted, known, seconds) + np.where(wanted > known[-1], beyond, 0.0))


def tree_start_seconds(costs: Costs, size: np.ndarray) -> np.ndarray:
    """Return the seconds of starting a set from scratch in `tree`: factor and inverse, alone."""
    lapack = 3.0 * at_size(costs, "cholesky", size)
    return 2 * costs.node + np.maximum(lapack, at_size(costs, "scratch", size))


def tree_edge_seconds(
    costs: Costs, common: np.ndarray, added: np.ndarray, removed: np.ndarray
) -> np.ndarray:
    """Return the seconds of moving a factor between sets, in `tree`.

    Variables that change together are solved for together: the first costs a whole step, each
    further one about a third.
    """
    size = common + np.maximum(added, removed)
    each = np.unique(size)
    position = np.searchsorted(each, size)
    append = at_size(costs, "append", each)[position]
    delete = at_size(costs, "delete", each)[position]
    return costs.node + append * _together(added) + delete * _together(removed)


def _together(changes: np.ndarray) -> np.ndarray:
    return np.where(changes > 0, 0.67 + 0.33 * changes, 0.0)
