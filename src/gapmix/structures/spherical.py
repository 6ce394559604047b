"""One variance for each component, the same for all its variables, (K, d) nevertheless."""

from __future__ import annotations

import numpy as np

from gapmix.structures.diag import Diag


class Spherical(Diag):
    """As diag, but for what a common variance changes."""

    COMMON_UNITS = True
    UNITED = "spherical"

    def tie(self, variances: np.ndarray) -> np.ndarray:
        """Return the mean of each component's variances for all its variables."""
        mean = variances.mean(axis=1, keepdims=True)
        return np.broadcast_to(mean, variances.shape).copy()

    def free(self, covariances: np.ndarray) -> np.ndarray:
        """Return the variance of each component, (K, 1)."""
        return covariances[:, :1]

    def count_free(self, d: int, n_kept: int | None = None) -> int:
        return 1

    def public_shape(self, n_components: int, d: int) -> tuple[int, ...]:
        return (n_components,)

    def to_public(self, covariances: np.ndarray) -> np.ndarray:
        return covariances[:, 0].copy()

    def from_public(self, covariances: np.ndarray, d: int) -> np.ndarray:
        return np.repeat(covariances[:, None], d, axis=1)
