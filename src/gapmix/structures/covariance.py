"""The M step for covariances: four types, the priors, and the paper's two regularisers.

Given expected scatters, every type has a closed form. The ridge and the two kinds of shrinkage are
log-priors,

    -1/2 sum_k tr(ridge S_k^-1),
    -shrinkage sum_k KL(N(0, target) || N(0, S_k)),
    -1/2 mean_shrinkage sum_k (mu_k - center)' S_k^-1 (mu_k - center),

whose maximum stays closed-form, so EM still climbs its objective at every step. All are zero or
negative: the objective is a lower bound of the log-likelihood.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

TYPES = ("full", "tied", "diag", "spherical")


class Regularizer(NamedTuple):
    """How covariances are held away from zero. All in internal units."""

    ridge: np.ndarray  # (d,) prior scatter of each component, in rows times variance
    shrinkage: float = 0.0  # prior weight of `target`, in rows
    target: np.ndarray | None = None  # (d, d), or (d,) when diagonal: the pooled covariance
    mean_shrinkage: float = 0.0  # prior weight of `center`, in rows
    center: np.ndarray | None = None  # (d,) the overall mean
    loading: np.ndarray | None = None  # (d,) added to the variances after the M step (paper, A)
    n_kept: int | None = None  # principal components kept (paper, B)
    fill: str | float = "mean"  # what replaces the other eigenvalues
    unit: np.ndarray | None = None  # (d,) variances that make columns comparable, for (B)


def is_monotone(regularizer: Regularizer) -> bool:
    """Tell whether EM climbs at every step, which the paper's own regularisers do not promise."""
    truncates = regularizer.n_kept is not None and regularizer.fill != "mean"
    return regularizer.loading is None and not truncates


def estimate(
    resp: np.ndarray, scatter: np.ndarray, covariance_type: str, regularizer: Regularizer
) -> np.ndarray:
    """Return the covariances that maximise the expected objective.

    Parameters
    ----------
    resp : (K,) sums of responsibilities, all positive.
    scatter : (K, d, d) expected scatter about the new means; (K, d) its diagonal if that suffices.
    covariance_type : one of TYPES.
    regularizer : priors and the paper's regularisers.

    Returns
    -------
    (K, d, d) for full, (1, d, d) for tied, (K, d) for diag and spherical.
    """
    if covariance_type in ("diag", "spherical"):
        covariances = _variances(resp, scatter, covariance_type, regularizer)
    elif covariance_type == "tied":
        covariances = scatter.sum(axis=0, keepdims=True)
        covariances = _add_diagonal(covariances, len(resp) * regularizer.ridge) / resp.sum()
    else:
        covariances = _add_diagonal(scatter, regularizer.ridge)
        total = resp
        if regularizer.target is not None:
            covariances += regularizer.shrinkage * regularizer.target
            total = resp + regularizer.shrinkage
        covariances /= total[:, None, None]
    if covariances.ndim == 3:
        for k, sigma in enumerate(covariances):
            covariances[k] = 0.5 * (sigma + sigma.T)
    return _apply_paper_regularizers(covariances, regularizer)


def log_prior(
    means: np.ndarray, prec: np.ndarray, log_det: np.ndarray, regularizer: Regularizer
) -> float:
    """Return the log-prior of components with these means and precisions, (K, d, d) or (K, d)."""
    diagonal = prec if prec.ndim == 2 else np.diagonal(prec, axis1=1, axis2=2)
    value = -0.5 * float((diagonal @ regularizer.ridge).sum())
    if regularizer.center is not None:
        away = means - regularizer.center
        form = "kd,kd,kd->" if prec.ndim == 2 else "ki,kij,kj->"
        distance = float(np.einsum(form, away, prec, away, optimize=True))
        value -= 0.5 * regularizer.mean_shrinkage * distance
    target = regularizer.target
    if target is None:
        return value
    if target.ndim == 1:
        log_det_target, d = float(np.log(target).sum()), len(target)
        trace = diagonal @ target
    else:
        log_det_target, d = float(np.linalg.slogdet(target)[1]), len(target)
        trace = np.einsum("kij,ij->k", prec, target)
    divergence = 0.5 * (trace - d + log_det - log_det_target)
    return value - regularizer.shrinkage * float(divergence.sum())


def _variances(
    resp: np.ndarray, scatter: np.ndarray, covariance_type: str, regularizer: Regularizer
) -> np.ndarray:
    """Return variances (K, d); a spherical component has the same one for every variable."""
    diagonal = scatter if scatter.ndim == 2 else np.diagonal(scatter, axis1=1, axis2=2)
    total = diagonal + regularizer.ridge
    rows = resp
    if regularizer.target is not None:
        total = total + regularizer.shrinkage * regularizer.target
        rows = resp + regularizer.shrinkage
    variances = total / rows[:, None]
    if covariance_type == "spherical":
        variances = np.broadcast_to(variances.mean(axis=1, keepdims=True), variances.shape).copy()
    return variances


def _add_diagonal(matrices: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    return matrices + diagonal[:, None] * np.eye(len(diagonal))


def restrict(covariances: np.ndarray, regularizer: Regularizer) -> np.ndarray:
    """Keep the first principal components of every covariance, if that is asked for."""
    if regularizer.n_kept is None or covariances.ndim == 2:
        return covariances
    return np.stack([keep_components(sigma, regularizer) for sigma in covariances])


def _apply_paper_regularizers(covariances: np.ndarray, regularizer: Regularizer) -> np.ndarray:
    """Keep the first principal components, then load the diagonal, as far as asked."""
    covariances = restrict(covariances, regularizer)
    if regularizer.loading is not None:
        if covariances.ndim == 2:
            return covariances + regularizer.loading
        return _add_diagonal(covariances, regularizer.loading)
    return covariances


def keep_components(sigma: np.ndarray, regularizer: Regularizer) -> np.ndarray:
    """Keep the n_kept largest principal components; give all other directions one variance.

    Components are those of the columns in comparable units (observed variance 1). With fill
    "mean" the discarded eigenvalues become their mean, which is the maximum-likelihood choice
    among matrices of this form (probabilistic principal components), so EM still climbs; "next"
    takes the largest discarded one, as the paper's authors did; a number is taken as it is.
    """
    d = len(sigma)
    n_kept = regularizer.n_kept
    if n_kept is None or n_kept >= d:
        return sigma
    unit = np.ones(d) if regularizer.unit is None else np.sqrt(regularizer.unit)
    values, vectors = eigh(sigma / np.outer(unit, unit))  # ascending
    rest, kept = values[: d - n_kept], values[d - n_kept :]
    if regularizer.fill == "mean":
        constant = float(rest.mean())
    elif regularizer.fill == "next":
        constant = float(rest[-1])
    else:
        constant = float(regularizer.fill)
    vectors = vectors[:, d - n_kept :]
    low_rank = (vectors * (kept - constant)) @ vectors.T
    return (low_rank + constant * np.eye(d)) * np.outer(unit, unit)
