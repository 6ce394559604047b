"""A variance for each variable and component, (K, d): variables are independent in a component."""

from __future__ import annotations

import numpy as np

from gapmix.structures.contract import Chart
from gapmix.structures.gaussian import Gaussian
from gapmix.structures.regularizer import Regularizer, sum_priors

LEAST_VARIANCE = 1e-6  # of a start, where columns have variance 1


class Diag(Gaussian):
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

    def restrict(self, covariances: np.ndarray, regularizer: Regularizer) -> np.ndarray:
        """Return the variances: there are no axes to choose from."""
        return covariances

    def log_prior(
        self, means: np.ndarray, prec: np.ndarray, log_det: np.ndarray, regularizer: Regularizer
    ) -> float:
        """Return the log-prior of components with these means and precisions."""

        def compare(prec: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, float]:
            diagonal = prec if prec.ndim == 2 else np.diagonal(prec, axis1=1, axis2=2)
            return diagonal @ target, float(np.log(target).sum())

        return sum_priors(means, prec, log_det, regularizer, compare)

    def count_free(self, d: int, n_kept: int | None = None) -> int:
        """Return d."""
        return d

    def draw_chart(self, covariances: np.ndarray) -> np.ndarray:
        """Return the standard deviations."""
        return np.sqrt(covariances)

    def to_vectors(
        self, means: np.ndarray, covariances: np.ndarray, chart: Chart
    ) -> list[np.ndarray]:
        """Return scaled means and log variances, each times the root of its Fisher information."""
        offset = chart.share[:, None] * (means - chart.means) / chart.chol
        free = self.free(covariances)
        return [offset.ravel(), (self._unit(chart) * np.log(free)).ravel()]

    def from_vector(self, vector: np.ndarray, chart: Chart) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances."""
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
        unit: np.ndarray = chart.share[:, None] * np.sqrt(0.5 * (d // self.count_free(d)))
        return unit

    # ------------------------------------------------------------------ starts and repairs

    def square(self, vectors: np.ndarray) -> np.ndarray:
        """Return the squares."""
        squares: np.ndarray = vectors**2
        return squares

    def sum_products(self, weight: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the diagonal of sum weight z z'."""
        squares: np.ndarray = weight @ z**2
        return squares

    def diagonal(self, covariances: np.ndarray) -> np.ndarray:
        """Return the variances themselves."""
        return covariances

    def make_proper(self, covariances: np.ndarray) -> np.ndarray:
        """Raise variances that are too small."""
        return np.maximum(covariances, LEAST_VARIANCE)

    def begin(
        self, covariances: np.ndarray, weights: np.ndarray, variance: np.ndarray
    ) -> np.ndarray:
        """Return the variances in the columns' units."""
        return self.tie(covariances) * variance

    def split(
        self, covariances: np.ndarray, donor: int, dead: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return half a deviation of the variable with the largest variance, and the rest."""
        offset = np.zeros(covariances.shape[1])
        longest = int(covariances[donor].argmax())
        offset[longest] = 0.5 * np.sqrt(covariances[donor, longest])
        return offset, self._remove(covariances, offset, donor, dead)

    def log_det(self, covariances: np.ndarray) -> np.ndarray:
        """Return the sums of log variances."""
        summed: np.ndarray = np.log(covariances).sum(axis=1)
        return summed

    # ------------------------------------------------------------------ shapes

    def shape(self, d: int) -> tuple[int, ...]:
        """Return the shape of a vector."""
        return (d,)

    def dense(self, covariances: np.ndarray) -> np.ndarray:
        """Return diagonal matrices."""
        return covariances[:, :, None] * np.eye(covariances.shape[1])

    def marginal(self, covariances: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the variances of some columns."""
        return covariances[:, columns]

    def rescale(self, covariances: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Multiply by scale^2."""
        return covariances * scale * scale

    def as_target(self, target: np.ndarray) -> np.ndarray:
        """Return the diagonal of a matrix, or the variances as they are."""
        return np.diag(target) if target.ndim == 2 else target

    # ------------------------------------------------------------------ users and files

    def public_shape(self, n_components: int, d: int) -> tuple[int, ...]:
        """Return (K, d)."""
        return n_components, d

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
        variances: np.ndarray = 1.0 / self.from_public(prec, len(scale)) / scale**2
        return variances

    def check(self, covariance: np.ndarray, component: int) -> None:
        """Accept what has positive variances."""
