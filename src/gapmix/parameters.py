"""The parameters of a mixture, and the matrices that follow from them once per iteration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from gapmix.scaling import Scaling


class Parameters(NamedTuple):
    """A Gaussian mixture. Immutable: every step of EM makes a new one."""

    weights: np.ndarray  # (K,)
    means: np.ndarray  # (K, d)
    covariances: np.ndarray  # (K, d, d); (1, d, d) when shared; (K, d) variances when diagonal


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
        super().__init__(
            f"Component {component}: the covariance is not positive definite "
            f"(column {pivot} is a linear combination of the ones before it)."
        )
        self.component = component
        self.pivot = pivot


def is_diagonal(parameters: Parameters) -> bool:
    """Tell whether the covariances are stored as variances."""
    return parameters.covariances.ndim == 2


def dense_covariances(parameters: Parameters) -> np.ndarray:
    """Return the covariances as full matrices, (K, d, d)."""
    covariances = parameters.covariances
    if is_diagonal(parameters):
        return covariances[:, :, None] * np.eye(covariances.shape[1])
    n_components, d = parameters.means.shape
    return np.broadcast_to(covariances, (n_components, d, d))


def factor(parameters: Parameters) -> Factored:
    """Factor every covariance; a shared one is factored once.

    Raises
    ------
    NotPositiveDefiniteError
        If a pivot is not larger than rounding error.
    """
    n_components, d = parameters.means.shape
    covariances = parameters.covariances
    if is_diagonal(parameters):
        covariances = dense_covariances(parameters)
    n_distinct = len(covariances)
    chol = np.empty((n_distinct, d, d))
    root = np.empty_like(chol)
    prec = np.empty_like(chol)
    condition = np.empty(n_distinct)
    for k, sigma in enumerate(covariances):
        chol[k] = cholesky(sigma, k)
        root[k] = lapack.dtrtri(chol[k].T, lower=0)[0].T
        prec[k] = root[k].T @ root[k]
        condition[k] = _scaled_condition(sigma, prec[k])
    log_det = 2.0 * np.log(np.diagonal(chol, axis1=1, axis2=2)).sum(axis=1)

    def per_component(array: np.ndarray) -> np.ndarray:
        return np.broadcast_to(array, (n_components, *array.shape[1:]))

    return Factored(
        per_component(covariances),
        per_component(chol),
        per_component(root),
        per_component(prec),
        per_component(log_det),
        per_component(condition),
    )


def _scaled_condition(sigma: np.ndarray, prec: np.ndarray) -> float:
    """Return the 1-norm condition of the correlation matrix: what limits Cholesky's accuracy."""
    spread = np.sqrt(np.diagonal(sigma))
    both = np.outer(spread, spread)
    return float(np.linalg.norm(sigma / both, 1) * np.linalg.norm(prec * both, 1))


def cholesky(sigma: np.ndarray, component: int) -> np.ndarray:
    """Return the lower Cholesky factor, refusing pivots that are rounding error.

    LAPACK accepts any positive pivot; one below d eps times its diagonal element carries no
    information, and everything computed from it would be noise.
    """
    d = len(sigma)
    if not np.isfinite(sigma).all():
        raise NotPositiveDefiniteError(component, int(np.argmin(np.isfinite(sigma).all(axis=1))))
    factor_t, info = lapack.dpotrf(sigma.T, lower=0, clean=1)  # sigma.T: the same, Fortran order
    if info > 0:
        raise NotPositiveDefiniteError(component, info - 1)
    pivot = np.diagonal(factor_t) ** 2
    ratio = pivot / np.diagonal(sigma)
    if ratio.min() <= d * np.finfo(float).eps:
        raise NotPositiveDefiniteError(component, int(ratio.argmin()))
    return np.ascontiguousarray(factor_t.T)


def parameters_to_user(parameters: Parameters, scaling: Scaling) -> Parameters:
    """Return the parameters in the user's units."""
    scale = scaling.scale
    return Parameters(
        parameters.weights,
        parameters.means * scale + scaling.center,
        _rescale(parameters.covariances, scale),
    )


def parameters_to_internal(parameters: Parameters, scaling: Scaling) -> Parameters:
    """Return the parameters in internal units; the inverse of `parameters_to_user`."""
    scale = scaling.scale
    return Parameters(
        parameters.weights,
        (parameters.means - scaling.center) / scale,
        _rescale(parameters.covariances, 1.0 / scale),
    )


def _rescale(covariances: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Multiply variances (K, d) by scale^2, or covariances (., d, d) by scale on both sides."""
    if covariances.ndim == 2:
        return covariances * scale * scale
    return covariances * scale[:, None] * scale
