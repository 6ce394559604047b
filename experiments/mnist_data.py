"""Images with a square missing, as the study needs them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from benchmarks.data import Mnist, load_mnist
from benchmarks.problems import squares

N_SELECT_FROM = 4500  # the first so many images of a class train, the rest of it selects
TEST = 10  # stands where a digit would, in the seed of the test images' squares


class Images(NamedTuple):
    """Images with and without a hole, pixels between 0 and 1."""

    x: np.ndarray  # (n, 784), NaN in a random 5 x 5 square
    complete: np.ndarray  # (n, 784)
    labels: np.ndarray  # (n,)


@cache
def _mnist() -> Mnist:
    return load_mnist()


def _punch(images: np.ndarray, labels: np.ndarray, seed: list[int]) -> Images:
    complete = images / 255.0
    observed = squares()(np.random.default_rng(seed), len(complete))
    return Images(np.where(observed, complete, np.nan), complete, labels)


def _class(digit: int) -> Images:
    """Return the training images of a class; the seed of the squares is the digit."""
    images, labels = _mnist().train
    own = labels == digit
    return _punch(images[own], labels[own], [2, digit])


def training(digit: int, n: int) -> Images:
    """Return the first n images of a class."""
    return Images(*(part[:n] for part in _class(digit)))


def selection(digit: int, n: int) -> Images:
    """Return the images of a class after the first 4500; at most n of them."""
    return Images(*(part[N_SELECT_FROM : N_SELECT_FROM + n] for part in _class(digit)))


@cache
def test(digits: tuple[int, ...], n: int) -> Images:
    """Return the first n official test images of some classes."""
    images, labels = _mnist().test
    punched = _punch(images, labels, [2, TEST])
    chosen = np.flatnonzero(np.isin(labels, digits))[:n]
    return Images(*(part[chosen] for part in punched))


def source() -> str:
    """Return where the images came from."""
    return _mnist().source
