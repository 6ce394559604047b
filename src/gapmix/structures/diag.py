"""A variance for each variable and component, (K, d): variables are independent in a component."""

from __future__ import annotations

import numpy as np

from gapmix.structures.contract import Chart, Structure
from gapmix.structures.regularizer import Regularizer

LEAST_VARIANCE = 1e-6  # of a start, where columns have variance 1


class Diag(Structure):
    """Variances. Solvers that factor matrices serve them too, and sum whole products then."""

    SOLVER = "diagonal"
    UNITED = "diag"

    # ------------------------------------------------------------------ EM

    def estimate(
        self, resp: np.ndarray, scatter: np.ndarray, regularizer: Regularizer
    ) -> np.ndarray:
        """Return (K, d)."""
        diagonal = scatter if scatter.ndim == 2 else np.diagonal(scatter, axis1=1, axis2=2)
        total = diagonal + regularizer.ridge
        if regularizer.target is not None:
            total = total + regularizer.shrinkage * regularizer.target
            resp = resp + regularizer.shrinkage
        variances = self.tie(total / resp[:, None])
        return variances if regularizer.loading is None else variances + regularizer.loading

    def tie(self, variances: np.ndarray) -> np.ndarray:
        """Return the variances that the structure allows, (K, d)."""
        return variances

    def trace(self, prec: np.ndarray, target: np.ndarray) -> np.ndarray:
        diagonal = prec if prec.ndim == 2 else np.diagonal(prec, axis1=1, axis2=2)
        return diagonal @ target

    def count_free(self, d: int, n_kept: int | None = None) -> int:
        return d

    def draw_chart(self, covariances: np.ndarray) -> np.ndarray:
        return np.sqrt(covariances)

    def to_vectors(
        self, means: np.ndarray, covariances: np.ndarray, chart: Chart
    ) -> list[np.ndarray]:
        """Return scaled means and log variances, each times the root of its Fisher information."""
        offset = chart.share[:, None] * (means - chart.means) / chart.chol
        free = self.free(covariances)
        return [offset.ravel(), (self._unit(chart) * np.log(free)).ravel()]

    def from_vector(self, vector: np.ndarray, chart: Chart) -> tuple[np.ndarray, np.ndarray]:
        n_components, d = chart.means.shape
        end = n_components * d
        offset = vector[:end].reshape(n_components, d) / chart.share[:, None]
        free = np.exp(vector[end:].reshape(n_components, -1) / self._unit(chart))
        variances = np.broadcast_to(free, (n_components, d)).copy()
        return chart.means + offset * chart.chol, variances

    def free(self, covariances: np.ndarray) -> np.ndarray:
        """Return the variances that are free, (K, d) or (K, 1)."""
        return covariances

    def _unit(self, chart: Chart) -> np.ndarray:
        """Return the root of the Fisher information of a log variance, (K, 1)."""
        d = chart.means.shape[1]
        return chart.share[:, None] * np.sqrt(0.5 * (d // self.count_free(d)))

    # ------------------------------------------------------------------ starts and repairs

    def square(self, vectors: np.ndarray) -> np.ndarray:
        return vectors**2

    def sum_products(self, weight: np.ndarray, z: np.ndarray) -> np.ndarray:
        return weight @ z**2

    def diagonal(self, covariances: np.ndarray) -> np.ndarray:
        return covariances

    def make_proper(self, covariances: np.ndarray) -> np.ndarray:
        """Raise variances that are too small."""
        return np.maximum(covariances, LEAST_VARIANCE)

    def begin(
        self, covariances: np.ndarray, weights: np.ndarray, variance: np.ndarray
    ) -> np.ndarray:
        return self.tie(covariances) * variance

    def half_axis(self, covariance: np.ndarray) -> np.ndarray:
        """Return half a deviation of the variable with the largest variance."""
        offset = np.zeros(len(covariance))
        longest = int(covariance.argmax())
        offset[longest] = 0.5 * np.sqrt(covariance[longest])
        return offset

    def log_det(self, covariances: np.ndarray) -> np.ndarray:
        return np.log(covariances).sum(axis=1)

    # ------------------------------------------------------------------ shapes

    def shape(self, d: int) -> tuple[int, ...]:
        return (d,)

    def dense(self, covariances: np.ndarray) -> np.ndarray:
        return covariances[:, :, None] * np.eye(covariances.shape[1])

    def marginal(self, covariances: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return covariances[:, columns]

    def rescale(self, covariances: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return covariances * scale * scale

    def as_target(self, target: np.ndarray) -> np.ndarray:
        """Return the diagonal of a matrix, or the variances as they are."""
        return np.diag(target) if target.ndim == 2 else target

    # ------------------------------------------------------------------ users and files

    def precisions(
        self, covariances: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return 1 / variances and their roots."""
        prec = self.to_public(1.0 / (covariances * scale**2))
        return prec, np.sqrt(prec)

    def read_precisions(self, prec: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return 1 / precisions, which must be positive."""
        if (prec <= 0).any():
            raise ValueError(f"precisions_init must be positive; its smallest is {prec.min():g}.")
        return 1.0 / self.from_public(prec, len(scale)) / scale**2
