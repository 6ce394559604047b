"""How much is run: tiny (for tests), quick (`make experiments`), full (the paper's grids)."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from experiments.kernel_ridge import Kernel
from experiments.network import Setting

# ------------------------------------------------------------------------ the paper's grids

HIDDEN = (5, 10, 15, 20, 30, 50, 100, 200)
DECAYS = (0.0, 1e-6, 1e-4, 1e-2)
RATES = (1e-2, 1e-3, 1e-4)
DECREASES = (0.0, 1e-2, 1e-4, 1e-6)
RIDGES = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
BANDWIDTHS = (100.0, 50.0, 10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01)
DEGREES = (1, 2, 3, 4, 5)
POLY = "polynomial"
DOT_SCALES = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


def settings(
    hidden: tuple[int, ...], decays: tuple[float, ...], rates: tuple[float, ...], *rest: float
) -> tuple[Setting, ...]:
    """Return every combination; `rest` are the decrease constants."""
    return tuple(Setting(*values) for values in itertools.product(hidden, decays, rates, rest))


def kernels(
    bandwidths: tuple[float, ...], degrees: tuple[int, ...], scales: tuple[float, ...]
) -> tuple[Kernel, ...]:
    """Return the linear, the Gaussian and the polynomial kernels."""
    return (
        Kernel("linear"),
        *(Kernel("gaussian", bandwidth) for bandwidth in bandwidths),
        *(Kernel(POLY, s, degree) for degree, s in itertools.product(degrees, scales)),
    )


PAPER_SETTINGS = settings(HIDDEN, DECAYS, RATES, *DECREASES)  # 384
PAPER_KERNELS = kernels(BANDWIDTHS, DEGREES, DOT_SCALES)  # 45, each with 5 ridges


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
    timed_iterations: int  # of the chosen model retrained on all rows; on few: to the end
    varied_digit: int
    max_iter: int
    loadings: tuple[float, ...] = (1e-3, 1e-2, 1e-1)  # of classifiers
    n_varied: int | None = None  # decisions varied, all if None
    varied_seeds: tuple[int, ...] = (0, 1, 2)
    pattern_rows: tuple[int, ...] = (500, 1000, 2000)
    pattern_widths: tuple[int, ...] = (20, 50, 100, 200, 400)
    pattern_seeds: int = 3


class Abalone(NamedTuple):
    """How much of the study of regression is run."""

    proportions: tuple[float, ...]
    repeats: int
    sizes: tuple[int, ...]
    loadings: tuple[float, ...]
    seeds: tuple[int, ...]
    settings: tuple[Setting, ...]
    epochs: int
    patience: int
    kernels: tuple[Kernel, ...]
    n_trees: int
    varied_proportion: float
    small: bool = False  # one row in twenty
    with_others: bool = True  # imputers that the paper does not have: chains of regressions


class Profile(NamedTuple):
    """Everything that decides what is run."""

    name: str
    mnist: Mnist
    abalone: Abalone


def widen(profile: Abalone) -> Abalone:
    """Return lists of learners with the neighbours, in the paper's lists, of all their values."""
    lists = (HIDDEN, DECAYS, RATES, DECREASES)
    columns = zip(*profile.settings, strict=True)
    wide = [with_neighbours(set(own), all_) for own, all_ in zip(columns, lists, strict=True)]
    given = {name: [k for k in profile.kernels if k.name == name] for name in ("gaussian", POLY)}
    more = kernels(
        with_neighbours({k.scale for k in given["gaussian"]}, BANDWIDTHS),
        with_neighbours({k.degree for k in given[POLY]}, DEGREES),
        with_neighbours({k.scale for k in given[POLY]}, DOT_SCALES),
    )
    settings_ = tuple(Setting(*values) for values in itertools.product(*wide))
    return profile._replace(settings=settings_, kernels=more)


def with_neighbours(own: set[Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return those values of a list that are among some, or next to one of them."""
    ordered = sorted(values)
    return tuple(v for i, v in enumerate(ordered) if own & set(ordered[max(0, i - 1) : i + 2]))


_SEEDS = (0, 1, 2, 3, 4)

TINY = Profile(
    "tiny",
    Mnist(
        digits=(0, 3),
        grids={},
        grid=Grid((1,), (0.75,), (0,)),
        n_train=60,
        n_test=40,
        timed_digits=(3,),
        timed_iterations=1,
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
        seeds=(0,),
        settings=(Setting(5, 1e-4, 1e-2, 1e-4),),
        epochs=2,
        patience=2,
        kernels=(Kernel("linear"),),
        n_trees=2,
        varied_proportion=0.5,
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
        timed_digits=tuple(range(10)),
        timed_iterations=3,
        varied_digit=3,
        max_iter=50,
    ),
    Abalone(
        proportions=(0.0, 0.1, 0.3, 0.5, 0.7),
        repeats=5,
        sizes=(2, 4, 6, 8, 12),
        loadings=(0.0, 1e-2, 1e-1),
        seeds=(0, 1),
        settings=settings((10, 20), (1e-6, 1e-4), (1e-2,), 0.0, 1e-4),
        epochs=100,
        patience=20,
        kernels=(
            Kernel("gaussian", 5.0),
            Kernel(POLY, 0.05, 2),
        ),
        n_trees=20,
        varied_proportion=0.3,
        with_others=False,
    ),
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
        timed_iterations=10,
        varied_digit=3,
        max_iter=50,
    ),
    Abalone(
        proportions=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7),
        repeats=10,
        sizes=tuple(range(1, 13)),
        loadings=(0.0, 1e-4, 1e-3, 1e-2, 1e-1),
        seeds=_SEEDS,
        settings=PAPER_SETTINGS,
        epochs=200,
        patience=20,
        kernels=PAPER_KERNELS,
        n_trees=50,
        varied_proportion=0.3,
    ),
)

PROFILES = {profile.name: profile for profile in (TINY, QUICK, FULL)}
