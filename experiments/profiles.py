"""How much is run: tiny (for tests), quick (`make experiments`), full (stored)."""

from __future__ import annotations

from typing import NamedTuple

# ------------------------------------------------------------------------ the paper's grids

HIDDEN = (5, 10, 15, 20, 30, 50, 100, 200)
DECAYS = (0.0, 1e-6, 1e-4, 1e-2)
RATES = (1e-2, 1e-3, 1e-4)
DECREASES = (0.0, 1e-2, 1e-4, 1e-6)
RIDGES = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
BANDWIDTHS = (100.0, 50.0, 10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01)
DEGREES = (1, 2, 3, 4, 5)
DOT_SCALES = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)

NETWORK = (HIDDEN, DECAYS, RATES, tuple(sorted(DECREASES)))  # 384 settings
KERNELS = {  # 225 settings
    "linear": (RIDGES,),
    "gaussian": (BANDWIDTHS, RIDGES),
    "polynomial": (DOT_SCALES, DEGREES, RIDGES),
}
KERNEL_STARTS = {"linear": (1e-2,), "gaussian": (5.0, 1e-2), "polynomial": (0.01, 3, 1e-2)}


class Grid(NamedTuple):
    """Which mixtures of a digit are tried."""

    sizes: tuple[int, ...]
    kept: tuple[float, ...]
    seeds: tuple[int, ...]


class Mnist(NamedTuple):
    """How much of the study of images is run."""

    digits: tuple[int, ...]
    grids: dict[int, Grid]  # of some digits, always done; others have `grid`
    grid: Grid  # quick: of digits of which nothing is stored; full: the paper's, for its count
    n_train: int
    n_test: int  # images in all
    timed_digits: tuple[int, ...]
    row_digits: tuple[int, ...]  # of these, the ones timed with work for each row too
    retrained_digits: tuple[int, ...]  # whose chosen models are retrained with every solver
    varied_digit: int
    max_iter: int
    loadings: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0)  # of classifiers
    n_varied: int | None = None  # decisions varied, all if None
    varied_seeds: tuple[int, ...] = (0, 1, 2)
    pattern_rows: tuple[int, ...] = (500, 1000, 2000)
    pattern_widths: tuple[int, ...] = (20, 50, 100, 200, 400)
    pattern_seeds: int = 3


class Abalone(NamedTuple):
    """How much of the study of regression is run.

    Lists of settings are gone through from a start, to where no neighbour is better.
    """

    proportions: tuple[float, ...]
    repeats: int
    sizes: tuple[int, ...]
    loadings: tuple[float, ...]
    start: tuple[int, float]  # of sizes and loadings
    seeds: tuple[int, ...]
    network: tuple[tuple[float, ...], ...]
    network_start: tuple[float, ...]
    epochs: int
    patience: int
    kernels: dict[str, tuple[tuple[float, ...], ...]]
    varied_proportion: float
    varied_repeats: int
    whole_repeats: int  # in which the paper's whole lists are tried too
    kernel_starts: dict[str, tuple[float, ...]] = KERNEL_STARTS
    small: bool = False  # one row in twenty


class Profile(NamedTuple):
    """Everything that decides what is run."""

    name: str
    mnist: Mnist
    abalone: Abalone


_SEEDS = (0, 1, 2, 3, 4)
_ABALONE = Abalone(
    proportions=(0.0, 0.1, 0.3, 0.5, 0.7),
    repeats=5,
    sizes=(1, 2, 3, 4, 6, 8, 12, 16, 24),
    loadings=(0.0, 1e-4, 1e-3, 1e-2, 1e-1),
    start=(6, 1e-3),
    seeds=(0, 1),
    network=NETWORK,
    network_start=(20, 1e-4, 1e-2, 1e-6),
    epochs=100,
    patience=20,
    kernels=KERNELS,
    varied_proportion=0.3,
    varied_repeats=3,
    whole_repeats=3,
)

TINY = Profile(
    "tiny",
    Mnist(
        digits=(0, 3),
        grids={},
        grid=Grid((1,), (0.75,), (0,)),
        n_train=60,
        n_test=40,
        timed_digits=(3,),
        row_digits=(3,),
        retrained_digits=(3,),
        varied_digit=3,
        max_iter=2,
        loadings=(1e-2,),
        n_varied=2,
        varied_seeds=(0, 1),
        pattern_rows=(30, 60),
        pattern_widths=(10,),
        pattern_seeds=1,
    ),
    Abalone(
        proportions=(0.0, 0.5),
        repeats=2,
        sizes=(2,),
        loadings=(1e-3,),
        start=(2, 1e-3),
        seeds=(0,),
        network=((5, 10), (1e-4,), (1e-2,), (1e-4,)),
        network_start=(5, 1e-4, 1e-2, 1e-4),
        epochs=2,
        patience=2,
        kernels={"linear": (RIDGES[-2:],)},
        varied_proportion=0.5,
        varied_repeats=2,
        whole_repeats=1,
        small=True,
    ),
)

QUICK = Profile(
    "quick",
    Mnist(
        digits=tuple(range(10)),
        grids={3: Grid((3, 4), (0.75,), (0,))},
        grid=Grid((3,), (0.75,), (0,)),
        n_train=4500,
        n_test=10_000,
        timed_digits=(0, 3, 8),
        row_digits=(0, 3, 8),
        retrained_digits=(),
        varied_digit=3,
        max_iter=50,
    ),
    _ABALONE._replace(repeats=3, whole_repeats=0),
)

FULL = Profile(
    "full",
    Mnist(
        digits=tuple(range(10)),
        grids={},
        grid=Grid(tuple(range(1, 11)), (0.75, 0.9, 1.0), _SEEDS),
        n_train=4500,
        n_test=10_000,
        timed_digits=tuple(range(10)),
        row_digits=tuple(range(10)),
        retrained_digits=(2, 5, 8),
        varied_digit=3,
        max_iter=50,
    ),
    _ABALONE,
)

PROFILES = {profile.name: profile for profile in (TINY, QUICK, FULL)}
