"""The problems that tests and benchmarks share: where the gaps are, and what is around them.

A family of patterns is a function of (rng, n) that returns which cells are observed, (n, d) bool.
A problem adds values drawn from a mixture, so that the truth is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Family = Callable[[np.random.Generator, int], np.ndarray]


class Problem(NamedTuple):
    """A table with gaps, the same table without, and the size of the mixture to fit."""

    name: str
    x: np.ndarray  # (n, d), NaN where missing
    complete: np.ndarray  # (n, d)
    n_components: int


def mcar(d: int, share: float) -> Family:
    """Hide cells completely at random."""

    def family(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.random((n, d)) >= share

    return family


def squares(side: int = 28, hole: int = 5) -> Family:
    """Hide a square of pixels at a random place of an image."""

    def family(rng: np.random.Generator, n: int) -> np.ndarray:
        corner = rng.integers(0, side - hole + 1, size=(n, 2))
        grid = np.arange(side)
        inside = (grid >= corner[:, :, None]) & (grid < corner[:, :, None] + hole)  # (n, 2, side)
        return ~(inside[:, 0, :, None] & inside[:, 1, None, :]).reshape(n, side * side)

    return family


def half_images(side: int = 12) -> Family:
    """Hide half of an image: left, right, top or bottom, shifted by up to two pixels."""

    def family(rng: np.random.Generator, n: int) -> np.ndarray:
        border = side // 2 + rng.integers(-2, 3, size=n)
        direction = rng.integers(0, 4, size=n)
        grid = np.arange(side)
        before = grid < border[:, None]
        lines = np.where((direction % 2 == 0)[:, None], before, ~before)
        rows = np.broadcast_to(lines[:, :, None], (n, side, side))
        columns = np.broadcast_to(lines[:, None, :], (n, side, side))
        shown = np.where((direction < 2)[:, None, None], rows, columns)
        return shown.reshape(n, side * side)

    return family


def merged_tables(d: int, n_tables: int = 8, noise: float = 0.0, n_joined: int = 4) -> Family:
    """Merge tables on a key: rows have the columns of a few of them, less a few further holes."""

    def family(rng: np.random.Generator, n: int) -> np.ndarray:
        table = np.arange(d) * n_tables // d
        joined = np.array(
            [rng.permutation(n_tables) < n_joined + rng.integers(0, 3) for _ in range(24)]
        )
        observed = joined[rng.integers(0, len(joined), size=n)][:, table]
        return observed & (rng.random((n, d)) >= noise)

    return family


def sensor_bursts(d: int = 120, n_bursts: int = 2, length: int = 6) -> Family:
    """Let sensors fail in runs of neighbouring channels."""

    def family(rng: np.random.Generator, n: int) -> np.ndarray:
        observed = np.ones((n, d), dtype=bool)
        for _ in range(n_bursts):
            start = rng.integers(0, d, size=n)
            run = rng.geometric(1.0 / length, size=n)
            channel = np.arange(d)
            observed &= ~((channel >= start[:, None]) & (channel < (start + run)[:, None]))
        return observed

    return family


def drop_out(d: int = 50) -> Family:
    """Leave a study: everything after a random visit is missing."""

    def family(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.arange(d) < rng.integers(1, d + 1, size=n)[:, None]

    return family


FAMILIES: dict[str, Family] = {
    "mcar10": mcar(50, 0.1),
    "mcar30": mcar(50, 0.3),
    "mcar50": mcar(50, 0.5),
    "mcar80": mcar(50, 0.8),
    "squares": squares(),
    "half images": half_images(),
    "tables": merged_tables(100),
    "noisy tables": merged_tables(100, noise=0.02),
    "bursts": sensor_bursts(),
    "drop-out": drop_out(),
    "large tables": merged_tables(400, noise=0.003),
}


def make_problem(
    name: str, observed: np.ndarray, n_components: int, seed: int = 0, condition: float = 100.0
) -> Problem:
    """Draw a table from a mixture with well separated components, and hide what is not observed."""
    rng = np.random.default_rng(seed)
    n, d = observed.shape
    values = np.geomspace(1.0, 1.0 / condition, d)
    complete = np.empty((n, d))
    label = rng.integers(0, n_components, size=n)
    for k in range(n_components):
        basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
        rows = label == k
        complete[rows] = rng.normal(size=(rows.sum(), d)) * np.sqrt(values) @ basis.T
        complete[rows] += rng.normal(size=d)
    return Problem(name, np.where(observed, complete, np.nan), complete, n_components)
