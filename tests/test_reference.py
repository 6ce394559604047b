"""Family G: numbers from R's Amelia, which shares no code with this package."""

from pathlib import Path

import numpy as np
import pytest

from gapmix import GaussianMixture

FOLDER = Path(__file__).parent / "reference"
NAMES = ["breast_cancer", "diabetes", "iris", "linnerud", "wine"]


def read(name):
    return np.genfromtxt(FOLDER / f"{name}.csv", delimiter=",", skip_header=1)


@pytest.mark.parametrize("solver", ["auto", "naive"])
@pytest.mark.parametrize("name", NAMES)
def test_one_gaussian_is_the_one_amelia_finds(name, solver):
    X, mean, sigma = read(name), read(f"{name}_mean"), read(f"{name}_covariance")
    model = GaussianMixture(1, reg_covar=0, tol=1e-13, max_iter=5000, solver=solver).fit(X)
    spread = np.sqrt(np.diag(sigma))
    assert np.abs((model.means_[0] - mean) / spread).max() < 1e-6
    assert np.abs((model.covariances_[0] - sigma) / np.outer(spread, spread)).max() < 1e-6
    assert model.converged_


@pytest.mark.parametrize("name", NAMES)
def test_amelias_answer_is_a_fixed_point(name):
    X, mean, sigma = read(name), read(f"{name}_mean"), read(f"{name}_covariance")
    model = GaussianMixture(
        1,
        reg_covar=0,
        tol=0,
        max_iter=1,
        weights_init=[1.0],
        means_init=[mean],
        precisions_init=[np.linalg.inv(sigma)],
    ).fit(X)
    spread = np.sqrt(np.diag(sigma))
    assert np.abs((model.means_[0] - mean) / spread).max() < 1e-10
    assert np.abs((model.covariances_[0] - sigma) / np.outer(spread, spread)).max() < 1e-10
