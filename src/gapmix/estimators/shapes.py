"""Covariances in scikit-learn's shapes, and back."""

from __future__ import annotations

import numpy as np

from gapmix.fitting.spec import count_kept
from gapmix.parameters import Parameters, factor
from gapmix.units import Scaling


def to_public(covariances: np.ndarray, covariance_type: str) -> np.ndarray:
    """Return covariances in scikit-learn's shape."""
    if covariance_type == "tied":
        return covariances[0]
    if covariance_type == "spherical":
        return covariances[:, 0].copy()
    return covariances


def from_public(
    covariances: np.ndarray, covariance_type: str, shape: tuple[int, int]
) -> np.ndarray:
    """Return covariances in the shape of `Parameters`; the inverse of `to_public`."""
    if covariance_type == "tied":
        return covariances[None]
    if covariance_type == "spherical":
        return np.repeat(covariances[:, None], shape[1], axis=1)
    return covariances


def precisions(
    parameters: Parameters, units: Scaling, covariance_type: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return precisions and their Cholesky factors in the user's units and scikit-learn's shapes.

    scikit-learn's factor U is upper triangular with U U' the precision: R' of R'R.
    """
    scale = units.scale
    if covariance_type in ("diag", "spherical"):
        prec = 1.0 / (parameters.covariances * scale**2)
        prec = prec[:, 0].copy() if covariance_type == "spherical" else prec
        return prec, np.sqrt(prec)
    factored = factor(parameters)
    upper = factored.root.transpose(0, 2, 1) / scale[:, None]
    prec = factored.prec / np.outer(scale, scale)
    if covariance_type == "tied":
        return prec[0], upper[0]
    return prec, upper


def count_parameters(
    shape: tuple[int, int],
    covariance_type: str,
    *,
    equal_weights: bool,
    keep_components: float | int | None,
) -> int:
    """Return the number of free parameters of a mixture with means of this shape."""
    n_components, d = shape
    n_matrices = 1 if covariance_type == "tied" else n_components
    kept = count_kept(keep_components, d)
    per_matrix = d * (d + 1) // 2
    if kept is not None and kept < d:
        per_matrix = min(per_matrix, d * kept - kept * (kept - 1) // 2 + 1)
    per_matrix = {"diag": d, "spherical": 1}.get(covariance_type, per_matrix)
    n_weights = 0 if equal_weights else n_components - 1
    return n_matrices * per_matrix + n_components * d + n_weights
