"""What every structure offers. It says what a component is, and knows nothing of solvers or EM.

`covariances` below is an array of the structure's own making, the first axis over components, or
of length 1 if they share one. No one else looks inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gapmix.parameters import Parameters
from gapmix.statistics import Moments
from gapmix.structures.regularizer import Regularizer


class Chart(NamedTuple):
    """Coordinates for mixtures of one structure, about one of them; see `em/accelerate.py`."""

    share: np.ndarray  # (K,) root of the weights
    means: np.ndarray  # (K, d)
    chol: np.ndarray  # roots of the covariances, in the shape of these
    structure: str
    equal_weights: bool


class Structure(Protocol):
    """Stateless: one object serves all mixtures of its kind."""

    SOLVER: str  # the one that serves it and needs no trees
    SHARED: bool  # one covariance serves all components
    COMMON_UNITS: bool  # all columns must be measured in the same unit
    HAS_AXES: bool  # there are principal components to choose from
    UNITED: str  # the structure of a mixture of such mixtures

    # ------------------------------------------------------------------ EM

    def maximize(
        self, moments: Moments, parameters: Parameters, regularizer: Regularizer
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and covariances that maximise the expected objective."""

    def restrict(self, covariances: np.ndarray, regularizer: Regularizer) -> np.ndarray:
        """Return the nearest covariances that `n_kept` allows."""

    def log_prior(
        self, means: np.ndarray, prec: np.ndarray, log_det: np.ndarray, regularizer: Regularizer
    ) -> float:
        """Return the log-prior, given what a solver's `precisions` returned."""

    def count_free(self, d: int, n_kept: int | None = None) -> int:
        """Return the number of free parameters in one covariance."""

    def draw_chart(self, covariances: np.ndarray) -> np.ndarray:
        """Return the roots of the covariances that a chart is drawn about."""

    def to_vectors(
        self, means: np.ndarray, covariances: np.ndarray, chart: Chart
    ) -> list[np.ndarray]:
        """Return the coordinates of means and covariances, to be put one after the other."""

    def from_vector(self, vector: np.ndarray, chart: Chart) -> tuple[np.ndarray, np.ndarray]:
        """Return means and covariances; the inverse of `to_vectors`."""

    # ------------------------------------------------------------------ starts and repairs

    def sum_products(self, weight: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return as much of sum weight z z' as a start needs, for rows z (n, d)."""

    def diagonal(self, covariances: np.ndarray) -> np.ndarray:
        """Return a view (..., d) of the variances in covariances, products or a public array."""

    def make_proper(self, covariances: np.ndarray) -> np.ndarray:
        """Return quotients of products as positive definite ones, columns having variance 1."""

    def begin(
        self, covariances: np.ndarray, weights: np.ndarray, variance: np.ndarray
    ) -> np.ndarray:
        """Return proper quotients as covariances to start from, where columns have `variance`."""

    def pool(self, covariances: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return covariances that are all the weighted mean of these."""

    def split(
        self, covariances: np.ndarray, donor: int, dead: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return half a deviation (d,) along the donor's longest axis, and what is left of it.

        In the covariances returned, `donor` and `dead` have what the axis leaves.
        """

    def merge(self, parameters: Parameters) -> np.ndarray:
        """Return the covariance, of one component, that has the mixture's second moments."""

    def log_det(self, covariances: np.ndarray) -> np.ndarray:
        """Return the log determinants (K,)."""

    # ------------------------------------------------------------------ shapes

    def shape(self, d: int) -> tuple[int, ...]:
        """Return the shape of one covariance."""

    def dense(self, covariances: np.ndarray) -> np.ndarray:
        """Return full matrices, as many as there are covariances."""

    def take(self, covariances: np.ndarray, members: Sequence[int]) -> np.ndarray:
        """Return the covariances of some components."""

    def separate(self, covariances: np.ndarray, n_components: int) -> np.ndarray:
        """Return the covariances of the structure `UNITED`, one for each component."""

    def marginal(self, covariances: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the covariances of some columns."""

    def rescale(self, covariances: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the covariances of columns multiplied by `scale` (d,)."""

    def as_target(self, target: np.ndarray) -> np.ndarray:
        """Return a target of shrinkage, given as a matrix or as such, in the structure's shape."""

    # ------------------------------------------------------------------ users and files

    def public_shape(self, n_components: int, d: int) -> tuple[int, ...]:
        """Return scikit-learn's shape of covariances, precisions and their factors."""

    def to_public(self, covariances: np.ndarray) -> np.ndarray:
        """Return covariances in scikit-learn's shape."""

    def from_public(self, covariances: np.ndarray, d: int) -> np.ndarray:
        """Return covariances given in scikit-learn's shape; the inverse of `to_public`."""

    def precisions(
        self, covariances: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return precisions and their factors, in scikit-learn's shape and the user's units.

        scikit-learn's factor U is upper triangular with U U' the precision: R' of R'R.
        """

    def read_precisions(self, prec: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the covariances of `precisions_init`, which has the public shape.

        Raises
        ------
        ValueError
            If it is not positive definite.
        """

    def check(self, covariance: np.ndarray, component: int) -> None:
        """Raise a ValueError unless one covariance with positive variances is a proper one."""
