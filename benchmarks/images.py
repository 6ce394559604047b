"""Images with a square missing, filled with factors and with full covariances.

python -m benchmarks.images                  scikit-learn's digits, half a minute
python -m benchmarks.images --mnist 3 8      images of these digits too, from GAPMIX_DATA
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.data import load_mnist
from benchmarks.problems import squares
from gapmix import GaussianMixtureImputer

N_TRAIN, N_NEW = 2000, 500  # images of a digit that are fitted, and that are only filled
SEED = 23
LEAST = 20  # images in which a pixel is not black; others have their mean, if this is asked for
ONE: dict[str, dict[str, Any]] = {  # component, but for the first two
    "factor": {},
    "lit": {},
    "given": {"n_components": 1, "n_factors": 34},
    "full": {"n_components": 1, "covariance_type": "full"},
}


class Images(NamedTuple):
    """Rows of pixels between 0 and 1, and where squares are missing."""

    complete: np.ndarray  # (n, d)
    observed: np.ndarray  # (n, d)


def punch(pixels: np.ndarray, size: int, side: int, seed: int) -> Images:
    """Return images without a square each, somewhere."""
    family = squares(round(pixels.shape[1] ** 0.5), side)
    observed = family(np.random.default_rng([SEED, seed]), len(pixels))
    return Images(pixels / size, observed)


def compare(name: str, old: Images, new: Images, settings: dict[str, dict[str, Any]]) -> None:
    """Fit to old images, fill the squares of new ones, and print errors and times."""
    x, y = (np.where(each.observed, each.complete, np.nan) for each in (old, new))
    guess = np.broadcast_to(np.nanmean(x, axis=0), y.shape)
    print(f"{name:<10} {'mean':<7} {'':>7} {'':>9} {'':>7} {error(guess, new):>8.4f}", flush=True)
    lit = (x > 0).sum(axis=0)
    for kind, options in settings.items():
        used = lit >= (LEAST if kind == "lit" else 0)
        begin = time.process_time()
        imputer = GaussianMixtureImputer(random_state=0, n_jobs=1, **options).fit(x[:, used])
        spent = time.process_time() - begin
        filled = guess.copy()
        filled[:, used] = imputer.transform(y[:, used])
        mixture = imputer.mixture_
        n_factors = mixture.n_factors if mixture.covariance_type == "factor" else "-"
        print(
            f"{name:<10} {kind:<7} {n_factors:>7} {len(mixture.weights_):>9} {spent:>7.1f} "
            f"{error(filled, new):>8.4f}",
            flush=True,
        )


def error(filled: np.ndarray, images: Images) -> float:
    """Return the root mean square error of missing pixels, 1 being white on black."""
    return float(np.sqrt(np.mean((filled - images.complete)[~images.observed] ** 2)))


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", type=int, nargs="*", default=[])
    asked = parser.parse_args()
    print("images     kind    factors components seconds error of new images")
    pixels = np.random.default_rng(SEED).permutation(load_digits().data)
    old, new = punch(pixels[:1297], 16, 3, 0), punch(pixels[1297:], 16, 3, 1)
    compare("digits", old, new, {kind: {"covariance_type": kind} for kind in ("factor", "full")})
    if asked.mnist:
        mnist = load_mnist()
    for digit in asked.mnist:
        old, new = (images[labels == digit] for images, labels in (mnist.train, mnist.test))
        compare(
            f"MNIST {digit}",
            punch(old[:N_TRAIN], 255, 5, 10 + digit),
            punch(new[:N_NEW], 255, 5, 20 + digit),
            ONE,
        )


if __name__ == "__main__":
    main()
