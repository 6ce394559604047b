"""How covariances are held away from zero: the priors, and the paper's two regularisers.

The ridge and the two kinds of shrinkage are log-priors,

    -1/2 sum_k tr(ridge S_k^-1),
    -shrinkage sum_k KL(N(0, target) || N(0, S_k)),
    -1/2 mean_shrinkage sum_k (mu_k - center)' S_k^-1 (mu_k - center),

whose maximum stays closed-form, so EM still climbs its objective at every step. All are zero or
negative: the objective is a lower bound of the log-likelihood.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from gapmix.categories import NO_PRIOR, LevelPrior


class Regularizer(NamedTuple):
    """How covariances are held away from zero. All in internal units."""

    ridge: np.ndarray  # (d,) prior scatter of each component, in rows times variance
    shrinkage: float = 0.0  # prior weight of `target`, in rows
    target: np.ndarray | None = None  # the pooled covariance, in the shape of the structure's own
    mean_shrinkage: float = 0.0  # prior weight of `center`, in rows
    center: np.ndarray | None = None  # (d,) the overall mean
    loading: np.ndarray | None = None  # (d,) added to the variances after the M step (paper, A)
    n_kept: int | None = None  # principal components kept (paper, B)
    fill: str | float = "mean"  # what replaces the other eigenvalues
    unit: np.ndarray | None = None  # (d,) variances of columns in the units of (B)
    levels: LevelPrior = NO_PRIOR  # of categories
    variance: np.ndarray | float = 1.0  # (d,) of the columns


def is_monotone(regularizer: Regularizer) -> bool:
    """Tell whether EM climbs at every step, which the paper's own regularisers do not promise."""
    truncates = regularizer.n_kept is not None and regularizer.fill != "mean"
    return regularizer.loading is None and not truncates


def keep_components(sigma: np.ndarray, regularizer: Regularizer) -> np.ndarray:
    """Keep the n_kept largest principal components; give all other directions one variance.

    Components are those of columns in the units that `unit` gives: observed variance 1 (principal
    components of correlations), or the user's (the paper's, of the covariance itself). With fill
    "mean" the discarded eigenvalues become their mean, which is the maximum-likelihood choice
    among matrices of this form (probabilistic principal components), so EM still climbs; "next"
    takes the largest discarded one, as the paper's authors did; a number is taken as it is.
    """
    d = len(sigma)
    n_kept = regularizer.n_kept
    if n_kept is None or n_kept >= d:
        return sigma
    unit = np.ones(d) if regularizer.unit is None else np.sqrt(regularizer.unit)
    values, vectors = _decompose(sigma / np.outer(unit, unit))
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


def _decompose(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues, ascending, and eigenvectors.

    LAPACK's fastest driver gives up on some matrices with hundreds of eigenvalues that are zero
    but for rounding, such as those of images; the other one does not.
    """
    try:
        return eigh(matrix)
    except np.linalg.LinAlgError:
        return eigh(matrix, driver="evd")
