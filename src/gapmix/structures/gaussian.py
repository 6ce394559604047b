"""What structures share whose components are Gaussians with second moments of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from gapmix.parameters import Parameters
from gapmix.statistics import Moments, add_rows, scatter_about
from gapmix.structures.regularizer import Regularizer


class Gaussian(ABC):
    """One covariance for each component, unless it says otherwise."""

    SHARED = False
    COMMON_UNITS = False
    HAS_AXES = False

    @abstractmethod
    def estimate(
        self, resp: np.ndarray, scatter: np.ndarray, regularizer: Regularizer
    ) -> np.ndarray:
        """Return the covariances that maximise the expected objective.

        `resp` (K,) are sums of responsibilities; `scatter` is the expected one about the new
        means, (K, d, d), or (K, d) its diagonal if that suffices.
        """

    @abstractmethod
    def square(self, vectors: np.ndarray) -> np.ndarray:
        """Return v v' of each vector (..., d), in the shape of a covariance."""

    def maximize(
        self, moments: Moments, parameters: Parameters, regularizer: Regularizer
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and covariances; components without rows keep theirs.

        The rows of `mean_shrinkage` at the overall mean move means and widen covariances as rows
        would, but do not count for the number of rows that covariances are divided by.
        """
        resp = moments.resp
        alive = resp > 0
        safe = np.where(alive, resp, 1.0)
        seen = moments._replace(resp=safe)
        if regularizer.center is not None:
            away = regularizer.center - parameters.means
            seen = add_rows(seen, away, regularizer.mean_shrinkage)
        shift = seen.first / seen.resp[:, None]
        # A shared covariance is divided by the rows of all components together.
        counted = resp if self.SHARED else safe
        covariances = self.estimate(counted, scatter_about(seen, shift), regularizer)
        if len(covariances) == len(alive):
            covariances[~alive] = parameters.covariances[~alive]
        return parameters.means + shift, covariances

    def pool(self, covariances: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the weighted mean for every component."""
        pooled = np.tensordot(weights / weights.sum(), covariances, axes=1)
        return np.repeat(pooled[None], len(covariances), axis=0)

    def merge(self, parameters: Parameters) -> np.ndarray:
        """Return the covariance of the mixture."""
        away = parameters.means - parameters.weights @ parameters.means
        spread = parameters.covariances + self.square(away)
        one: np.ndarray = np.tensordot(parameters.weights, spread, axes=1)[None]
        return one

    def take(self, covariances: np.ndarray, members: Sequence[int]) -> np.ndarray:
        """Return the covariances of some components."""
        return covariances[list(members)]

    def separate(self, covariances: np.ndarray, n_components: int) -> np.ndarray:
        """Return the covariances as they are."""
        return covariances

    def to_public(self, covariances: np.ndarray) -> np.ndarray:
        """Return the covariances as they are."""
        return covariances

    def from_public(self, covariances: np.ndarray, d: int) -> np.ndarray:
        """Return the covariances as they are."""
        return covariances

    def _remove(
        self, covariances: np.ndarray, offset: np.ndarray, donor: int, dead: int
    ) -> np.ndarray:
        """Return the covariances after a split along `offset`."""
        covariances = covariances.copy()
        covariances[donor] = covariances[donor] - self.square(offset)
        covariances[dead] = covariances[donor]
        return covariances
