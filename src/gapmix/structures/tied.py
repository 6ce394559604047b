"""One covariance matrix for all components, (1, d, d)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapmix.structures.full import Full, add_diagonal
from gapmix.structures.regularizer import Regularizer


class Tied(Full):
    """As full, but for what sharing changes. There is nothing to shrink to."""

    SHARED = True

    def estimate(
        self, resp: np.ndarray, scatter: np.ndarray, regularizer: Regularizer
    ) -> np.ndarray:
        """Return (1, d, d)."""
        total = scatter.sum(axis=0, keepdims=True)
        covariances = add_diagonal(total, len(resp) * regularizer.ridge) / resp.sum()
        return self.finish(covariances, regularizer)

    def begin(
        self, covariances: np.ndarray, weights: np.ndarray, variance: np.ndarray
    ) -> np.ndarray:
        return super().begin(np.tensordot(weights, covariances, axes=1)[None], weights, variance)

    def pool(self, covariances: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return covariances

    def split(
        self, covariances: np.ndarray, donor: int, dead: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the half axis; the matrix stays."""
        return self.half_axis(covariances[0]), covariances

    def take(self, covariances: np.ndarray, members: Sequence[int]) -> np.ndarray:
        return covariances

    def separate(self, covariances: np.ndarray, n_components: int) -> np.ndarray:
        return np.repeat(covariances, n_components, axis=0)

    def public_shape(self, n_components: int, d: int) -> tuple[int, ...]:
        return self.shape(d)

    def to_public(self, covariances: np.ndarray) -> np.ndarray:
        return covariances[0]

    def from_public(self, covariances: np.ndarray, d: int) -> np.ndarray:
        return covariances[None]
