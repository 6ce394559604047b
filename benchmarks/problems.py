"""The problems that tests and benchmarks share: where the gaps are, and what is around them.

A family of patterns is a function of (rng, n) that returns which cells are observed, (n, d) bool.
A problem adds values drawn from a mixture, so that the truth is known. `SHAPES` are the tables on
which one iteration of EM is timed, `JOBS` the tables that are filled from beginning to end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.data import DataNotFoundError, load_mnist

Family = Callable[[np.random.Generator, int], np.ndarray]


class Problem(NamedTuple):
    """A table with gaps, the same table without, and the size of the mixture to fit."""

    name: str
    x: np.ndarray  # (n, d), NaN where missing
    complete: np.ndarray  # (n, d)
    n_components: int
    note: str = ""  # what a reader of the results must know


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
    name: str,
    observed: np.ndarray,
    n_components: int,
    seed: int = 0,
    condition: float = 100.0,
    separation: float = 1.0,
) -> Problem:
    """Draw a table from a mixture, and hide what is not observed.

    The largest standard deviation within a component is 1; `separation` is that of the means. At 1
    components hardly overlap.
    """
    rng = np.random.default_rng(seed)
    n, d = observed.shape
    values = np.geomspace(1.0, 1.0 / condition, d)
    complete = np.empty((n, d))
    label = rng.integers(0, n_components, size=n)
    for k in range(n_components):
        basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
        rows = label == k
        complete[rows] = rng.normal(size=(rows.sum(), d)) * np.sqrt(values) @ basis.T
        complete[rows] += separation * rng.normal(size=d)
    return Problem(name, np.where(observed, complete, np.nan), complete, n_components)


class Shape(NamedTuple):
    """A table to time, and how one iteration must compare with others on it."""

    n: int
    d: int
    share: float  # of the cells missing
    n_components: int
    family: Family
    must: float  # gapmix with gaps / scikit-learn without, at most
    goal: float
    naive: float | None = None  # at least so many times faster than `naive`
    reg_covar: float = 1e-6  # of gapmix and of scikit-learn: the default of both
    also_reg_covar: float | None = None  # a further row, for gapmix


def _mcar_shape(
    n: int, d: int, share: float, n_components: int, must: float, goal: float, *naive: float
) -> Shape:
    return Shape(n, d, share, n_components, mcar(d, share), must, goal, *naive)


SHAPES: dict[str, Shape] = {
    # Pixels that are constant or nearly so make covariances singular but for the ridge, so that its
    # size decides whether the plain form of a solver will do: hence a second row.
    "squares": Shape(4_500, 784, 25 / 784, 4, squares(), 0.8, 0.5, 45, also_reg_covar=1e-3),
    "table": _mcar_shape(100_000, 20, 0.2, 5, 0.5, 0.25, 200),
    "narrow": _mcar_shape(500_000, 10, 0.1, 5, 0.4, 0.2),
    "wide": _mcar_shape(10_000, 100, 0.2, 5, 1.2, 0.7),
    "half": _mcar_shape(20_000, 50, 0.5, 5, 2.5, 1.0),
    "wide30": _mcar_shape(5_000, 200, 0.3, 3, 3.0, 1.0),
    "sparse": _mcar_shape(20_000, 500, 0.95, 3, 0.3, 0.1, 1000),
}


class JobShape(NamedTuple):
    """A table to fill from beginning to end, with one component."""

    n: int
    d: int
    n_factors: int
    share: float = 0.2


JOBS: dict[str, JobShape] = {
    "job-16": JobShape(20_000, 16, 4),
    "job-57": JobShape(4_600, 57, 10),
}
MIN_ROWS = 60
SEPARATION = 0.3  # components touch, so that not all responsibilities are 0 or 1
DIGIT = 3


def scaled_rows(n: int, scale: float) -> int:
    """Return the number of rows at a scale; columns stay, because they make the problem."""
    return max(MIN_ROWS, round(n * scale))


def make_named(name: str, scale: float = 1.0, seed: int = 0) -> Problem:
    """Return a problem of `SHAPES` or `JOBS`, with `scale` times its rows."""
    rng = np.random.default_rng(seed)
    if name in JOBS:
        job = JOBS[name]
        n = scaled_rows(job.n, scale)
        complete = draw_factors(rng, n, job.d, job.n_factors)
        observed = mcar(job.d, job.share)(rng, n)
        return Problem(name, np.where(observed, complete, np.nan), complete, 1)
    if name not in SHAPES:
        raise ValueError(f"There is no problem {name!r}. Use one of {', '.join([*SHAPES, *JOBS])}.")
    shape = SHAPES[name]
    n = scaled_rows(shape.n, scale)
    observed = shape.family(rng, n)
    if name == "squares":
        return _digits(observed, shape.n_components)
    return make_problem(name, observed, shape.n_components, seed, separation=SEPARATION)


def _digits(observed: np.ndarray, n_components: int) -> Problem:
    """Return images of a digit with holes, or a drawn table of that shape and a note."""
    try:
        digits = load_mnist(download=False).train
    except DataNotFoundError as error:
        note = f"{error} A drawn table of the same shape stands in."
        drawn = make_problem("squares", observed, n_components, separation=SEPARATION)
        return drawn._replace(note=note)
    images = digits.images[np.flatnonzero(digits.labels == DIGIT)[: len(observed)]] / 255.0
    return Problem("squares", np.where(observed, images, np.nan), images, n_components)


def draw_factors(rng: np.random.Generator, n: int, d: int, n_factors: int) -> np.ndarray:
    """Draw correlated columns with heavy tails (Student's t, 6 degrees) in units of their own."""
    loadings = rng.normal(size=(n_factors, d))
    normal = rng.normal(size=(n, n_factors)) @ loadings + 0.7 * rng.normal(size=(n, d))
    tails = np.sqrt(6.0 / rng.chisquare(6, size=(n, 1)))
    return rng.normal(scale=10, size=d) + normal * tails * np.exp(rng.normal(size=d))
