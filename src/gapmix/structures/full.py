"""A covariance matrix for each component, (K, d, d)."""

import numpy as np
from scipy.linalg import eigh, lapack

from gapmix.parameters import NotPositiveDefiniteError, cholesky, factor_matrices
from gapmix.statistics import mirror
from gapmix.structures.contract import Chart, Structure
from gapmix.structures.regularizer import Regularizer, keep_components

SYMMETRIC = 1e-6  # what a correlation may differ from its mirror image


class Full(Structure):
    """A matrix for each component."""

    SOLVER = "dual"
    HAS_AXES = True
    UNITED = "full"

    # ------------------------------------------------------------------ EM

    def estimate(
        self, resp: np.ndarray, scatter: np.ndarray, regularizer: Regularizer
    ) -> np.ndarray:
        """Return (K, d, d)."""
        covariances = add_diagonal(scatter, regularizer.ridge)
        if regularizer.target is not None:
            covariances += regularizer.shrinkage * regularizer.target
            resp = resp + regularizer.shrinkage
        covariances /= resp[:, None, None]
        return self.finish(covariances, regularizer)

    def finish(self, covariances: np.ndarray, regularizer: Regularizer) -> np.ndarray:
        """Return the covariances symmetric and after the paper's regularisers."""
        for k, sigma in enumerate(covariances):
            covariances[k] = 0.5 * (sigma + sigma.T)
        covariances = self.restrict(covariances, regularizer)
        if regularizer.loading is not None:
            return add_diagonal(covariances, regularizer.loading)
        return covariances

    def restrict(self, covariances: np.ndarray, regularizer: Regularizer) -> np.ndarray:
        """Keep the first principal components of every covariance, if that is asked for."""
        if regularizer.n_kept is None:
            return covariances
        return np.stack([keep_components(sigma, regularizer) for sigma in covariances])

    def trace(self, prec: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.einsum("kij,ij->k", prec, target)

    def count_free(self, d: int, n_kept: int | None = None) -> int:
        """Return d (d + 1) / 2, or the number for n_kept principal components and a constant."""
        count = d * (d + 1) // 2
        if n_kept is None or n_kept >= d:
            return count
        return min(count, d * n_kept - n_kept * (n_kept - 1) // 2 + 1)

    def draw_chart(self, covariances: np.ndarray) -> np.ndarray:
        return cholesky(covariances)

    def to_vectors(
        self, means: np.ndarray, covariances: np.ndarray, chart: Chart
    ) -> list[np.ndarray]:
        """Return whitened means and log-Cholesky factors."""
        offset = means - chart.means
        share = chart.share[:, None]
        shared = len(chart.chol) == 1
        roots = np.broadcast_to(chart.chol, (len(offset), *chart.chol.shape[1:]))
        vectors = [
            _solve_lower(root, each) for root, each in zip(roots, share * offset, strict=True)
        ]
        relative = np.stack(list(map(_solve_lower, chart.chol, cholesky(covariances))))
        unit = np.ones((1, 1)) if shared else share
        stretch = unit * np.sqrt(2.0) * np.log(np.diagonal(relative, axis1=1, axis2=2))
        rows, columns = np.tril_indices(offset.shape[1], -1)
        turn = unit * relative[:, rows, columns]
        vectors.append(np.hstack([stretch, turn]).reshape(-1))
        return vectors

    def from_vector(self, vector: np.ndarray, chart: Chart) -> tuple[np.ndarray, np.ndarray]:
        n_components, d = chart.means.shape
        end = n_components * d
        offset = vector[:end].reshape(n_components, d) / chart.share[:, None]
        shared = len(chart.chol) == 1
        means = chart.means + np.einsum(
            "kij,kj->ki", np.broadcast_to(chart.chol, (n_components, d, d)), offset
        )
        unit = np.ones((1, 1)) if shared else chart.share[:, None]
        parts = vector[end:].reshape(len(chart.chol), -1)
        relative = np.exp(parts[:, :d] / (unit * np.sqrt(2.0)))[:, None] * np.eye(d)
        rows, columns = np.tril_indices(d, -1)
        relative[:, rows, columns] = parts[:, d:] / unit
        chol = chart.chol @ relative
        covariances = chol @ chol.transpose(0, 2, 1)
        return means, covariances

    # ------------------------------------------------------------------ starts and repairs

    def square(self, vectors: np.ndarray) -> np.ndarray:
        return vectors[..., :, None] * vectors[..., None, :]

    def sum_products(self, weight: np.ndarray, z: np.ndarray) -> np.ndarray:
        return (z.T * weight) @ z

    def diagonal(self, covariances: np.ndarray) -> np.ndarray:
        return np.einsum("...ii->...i", covariances)

    def make_proper(self, covariances: np.ndarray) -> np.ndarray:
        """Repair every matrix."""
        return np.stack([repair(sigma) for sigma in covariances])

    def begin(
        self, covariances: np.ndarray, weights: np.ndarray, variance: np.ndarray
    ) -> np.ndarray:
        spread = np.sqrt(variance)
        return covariances * np.outer(spread, spread)

    def half_axis(self, covariance: np.ndarray) -> np.ndarray:
        """Return half a deviation along the first principal component."""
        d = len(covariance)
        value, vector = eigh(covariance, subset_by_index=(d - 1, d - 1))
        return 0.5 * np.sqrt(value[0]) * vector[:, 0]

    def log_det(self, covariances: np.ndarray) -> np.ndarray:
        return np.linalg.slogdet(covariances)[1]

    # ------------------------------------------------------------------ shapes

    def shape(self, d: int) -> tuple[int, ...]:
        return d, d

    def dense(self, covariances: np.ndarray) -> np.ndarray:
        return covariances

    def marginal(self, covariances: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return covariances[:, columns][:, :, columns]

    def rescale(self, covariances: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return covariances * scale[:, None] * scale

    # ------------------------------------------------------------------ users and files

    def precisions(
        self, covariances: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return inverse matrices and their upper factors."""
        factored = factor_matrices(covariances, len(covariances))
        upper = factored.root.transpose(0, 2, 1) / scale[:, None]
        return self.to_public(factored.prec / np.outer(scale, scale)), self.to_public(upper)

    def read_precisions(self, prec: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the inverse of each matrix, which must be symmetric."""
        matrices = self.from_public(prec, len(scale)) * scale[:, None] * scale
        result = np.empty_like(matrices)
        for k, matrix in enumerate(matrices):
            if not np.allclose(matrix, matrix.T):
                raise ValueError(f"precisions_init: the matrix of component {k} is not symmetric.")
            try:
                chol = cholesky(0.5 * (matrix + matrix.T)[None], k)[0]
            except NotPositiveDefiniteError as error:
                raise ValueError(
                    f"precisions_init: the matrix of component {k} is not positive definite."
                ) from error
            result[k] = mirror(lapack.dpotri(chol, lower=1)[0])
        return result

    def check(self, covariance: np.ndarray, component: int) -> None:
        """Raise an error unless the matrix is symmetric and has a factor."""
        spread = np.sqrt(np.diagonal(covariance))
        skew = np.abs(covariance - covariance.T) / spread[:, None] / spread
        if not skew.max() <= SYMMETRIC:
            raise ValueError(f"Component {component}: the covariance is not symmetric.")
        cholesky(covariance[None], component)


def _solve_lower(root: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return root^-1 right. SciPy's own call of this takes ten times as long on small matrices."""
    solution: np.ndarray = lapack.dtrtrs(root.T, right, lower=0, trans=1)[0]
    return solution


def add_diagonal(matrices: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """Return the matrices with this added to the diagonal of each."""
    return matrices + diagonal[:, None] * np.eye(len(diagonal))


def repair(sigma: np.ndarray, floor: float = 1e-6) -> np.ndarray:
    """Return the nearest matrix whose eigenvalues exceed the noise in this one.

    Pairwise estimates are inconsistent with each other; the most negative eigenvalue shows by how
    much, so nothing below its size is believed.
    """
    values, vectors = eigh(sigma)
    lowest = max(floor * max(float(values.mean()), floor), -float(values[0]))
    if values[0] >= lowest:
        return sigma
    repaired: np.ndarray = (vectors * np.maximum(values, lowest)) @ vectors.T
    return 0.5 * (repaired + repaired.T)
