"""The parameters of a mixture, and what follows from covariance matrices once per iteration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import lapack

SMALLEST_PIVOT = 1e-14  # of its diagonal element
SMALLEST_VARIANCE = 1e-20  # in internal units
LARGEST_CONDITION = 5e14  # of a correlation matrix; beyond, nothing computed from it has a digit
REFINE_CONDITION = 1e7  # above, the factor is corrected in extended precision,
REFINE_COLUMNS = 128  # up to this many columns: it is slow


class Parameters(NamedTuple):
    """A Gaussian mixture. Immutable: every step of EM makes a new one."""

    weights: np.ndarray  # (K,)
    means: np.ndarray  # (K, d)
    covariances: np.ndarray  # in the shape of its structure, the first axis over components
    structure: str  # what a component is: a name in structures.STRUCTURES
    categories: tuple[np.ndarray, ...] = ()  # (K, L_j) probabilities of each category's levels


class Factored(NamedTuple):
    """Per component, what every pattern needs of the covariance; shared by all solvers."""

    sigma: np.ndarray  # (K, d, d) covariance S
    chol: np.ndarray  # (K, d, d) lower G with S = G G'
    root: np.ndarray  # (K, d, d) lower R = G^-1, so that R' R is the precision
    prec: np.ndarray  # (K, d, d) precision S^-1
    log_det: np.ndarray  # (K,) log|S|
    condition: np.ndarray  # (K,) condition of S with its diagonal scaled to 1, in the 1-norm


class NotPositiveDefiniteError(ValueError):
    """A covariance has no Cholesky factor; `component` says which."""

    def __init__(self, component: int, pivot: int) -> None:
        why = "is a linear combination of the ones before it" if pivot else "has no variance"
        super().__init__(
            f"Component {component}: the covariance is not positive definite "
            f"(column {pivot} {why})."
        )
        self.component = component
        self.pivot = pivot


def factor_matrices(matrices: np.ndarray, n_components: int) -> Factored:
    """Factor covariance matrices (K, d, d), or (1, d, d) when all components share one.

    Raises
    ------
    NotPositiveDefiniteError
        If a pivot is not larger than rounding error.
    """
    covariances = np.require(matrices, float, ["C", "W"])
    n_distinct, d, _ = covariances.shape
    chol = cholesky(covariances)
    root = _invert_lower(chol)
    prec = root.transpose(0, 2, 1) @ root
    condition = _scaled_condition(covariances, prec)
    if not (condition < LARGEST_CONDITION).all():
        broken = int(np.argmin(condition < LARGEST_CONDITION))
        worst = np.argmax(np.diagonal(prec[broken]) * np.diagonal(covariances[broken]))
        raise NotPositiveDefiniteError(broken, int(worst))
    poor = np.flatnonzero(condition > REFINE_CONDITION) if d <= REFINE_COLUMNS else ()
    for k in poor:
        chol[k] = _refine(chol[k], root[k], covariances[k])
        root[k] = _invert_lower(chol[k][None])[0]
        prec[k] = root[k].T @ root[k]
    log_det = 2.0 * np.log(np.diagonal(chol, axis1=1, axis2=2)).sum(axis=1)

    def per_component(array: np.ndarray) -> np.ndarray:
        if n_distinct == n_components:
            return array
        # like broadcast_to, but not read-only, which compiled code would refuse
        strides = (0, *array.strides[1:])
        return as_strided(array, (n_components, *array.shape[1:]), strides)

    return Factored(
        per_component(covariances),
        per_component(chol),
        per_component(root),
        per_component(prec),
        per_component(log_det),
        per_component(condition),
    )


def _invert_lower(chol: np.ndarray) -> np.ndarray:
    """Return the inverses of lower triangular matrices (K, d, d)."""
    inverse = np.empty_like(chol)
    for k, each in enumerate(chol):
        inverse[k] = lapack.dtrtri(each.T, lower=0)[0].T
    return inverse


def _refine(chol: np.ndarray, root: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor with its error brought from eps cond down to eps sqrt(cond).

    With E = S - G G' taken in extended precision, G (1 + h(R E R')) is the factor to second order,
    where h keeps the lower triangle and halves the diagonal.
    """
    wide = chol.astype(np.longdouble)
    residual = (sigma - wide @ wide.T).astype(float)
    relative = np.tril(root @ residual @ root.T)
    relative[np.diag_indices_from(relative)] *= 0.5
    return np.tril(chol + chol @ relative)


def _scaled_condition(sigma: np.ndarray, prec: np.ndarray) -> np.ndarray:
    """Return the 1-norm condition of correlation matrices (K,): what limits Cholesky's accuracy."""
    spread = np.sqrt(np.diagonal(sigma, axis1=1, axis2=2))
    both = spread[:, :, None] * spread[:, None, :]
    norms = [np.abs(each).sum(axis=1).max(axis=1) for each in (sigma / both, prec * both)]
    condition: np.ndarray = norms[0] * norms[1]
    return condition


def cholesky(matrices: np.ndarray, first: int = 0) -> np.ndarray:
    """Return lower Cholesky factors (K, d, d), refusing pivots that are rounding error.

    LAPACK accepts any positive pivot. One that is tiny against its diagonal element carries no
    information, and a variance that is tiny in internal units, where columns have variance 1,
    belongs to a component that has collapsed. The error counts components from `first`.
    """
    finite = np.isfinite(matrices).all(axis=2)
    if not finite.all():
        broken = int(np.argmin(finite.all(axis=1)))
        raise NotPositiveDefiniteError(first + broken, int(np.argmin(finite[broken])))
    factors = np.empty(matrices.shape)
    for k, sigma in enumerate(matrices):
        factor_t, info = lapack.dpotrf(sigma.T, lower=0, clean=1)  # the same, in Fortran order
        factors[k] = factor_t.T
        if info > 0:
            factors[k, info - 1, info - 1] = 0.0
    variance = np.diagonal(matrices, axis1=1, axis2=2)
    pivots = np.diagonal(factors, axis1=1, axis2=2) ** 2
    large = variance > SMALLEST_VARIANCE
    ratio = np.divide(pivots, variance, out=np.zeros_like(pivots), where=large)
    smallest = max(SMALLEST_PIVOT, matrices.shape[-1] * np.finfo(float).eps)
    sound = (ratio > smallest).all(axis=1)
    if not sound.all():
        broken = int(np.argmin(sound))
        raise NotPositiveDefiniteError(first + broken, int(ratio[broken].argmin()))
    return factors
