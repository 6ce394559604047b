"""The parameters of the mixture estimator: their checks, and what they mean inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gapmix import covariance, em, initialize
from gapmix.covariance import Regularizer
from gapmix.estimators.validation import list_names
from gapmix.parameters import NotPositiveDefiniteError, Parameters, cholesky, factor
from gapmix.plan import SOLVERS
from gapmix.rows import Rows
from gapmix.scaling import Scaling

LARGEST = 1e150  # squares of larger spreads leave the range of float64
CHOICES = {
    "covariance_type": covariance.TYPES,
    "init_params": initialize.METHODS,
    "weights": ("learned", "equal"),
    "solver": ("auto", *SOLVERS),
    "init_covariance": ("available", "filled"),
    "accelerate": ("auto", None),
    "engine": ("threads",),
}


def check(estimator: Any) -> None:
    """Raise an error that names the parameter, what was found and what is allowed."""
    for name, allowed in CHOICES.items():
        value = getattr(estimator, name)
        if not any(value is choice or value == choice for choice in allowed):
            listed = ", ".join(repr(choice) for choice in allowed)
            raise ValueError(f"{name}={value!r} is not known. Use one of {listed}.")
    for name in ("n_components", "max_iter", "n_init", "patience", "verbose_interval"):
        check_positive_int(name, getattr(estimator, name))
    for name in ("tol", "reg_covar", "diagonal_loading"):
        _check_number(name, getattr(estimator, name))
    if estimator.shrinkage != "auto":
        _check_number("shrinkage", estimator.shrinkage, also=" or 'auto'")
    if estimator.fill not in ("mean", "next"):
        _check_number("fill", estimator.fill, also=" or 'mean' or 'next'")
        if estimator.fill == 0:
            raise ValueError("fill=0 leaves no variance outside the kept components; use more.")
    fraction = estimator.validation_fraction
    if fraction is not None and not (isinstance(fraction, Real) and 0 < float(fraction) < 1):
        raise ValueError(
            f"validation_fraction={fraction!r} must lie strictly between 0 and 1, or be None."
        )
    _check_kept(estimator.keep_components)


def check_positive_int(name: str, value: Any) -> None:
    """Raise an error unless `value` is a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"Invalid value for {name!r}: {value!r}. It must be a whole number of at least 1."
        )


def check_magnitudes(units: Scaling, names: list[str]) -> None:
    """Raise an error where variances would leave the range of float64."""
    outside = (units.scale > LARGEST) | (units.scale < 1 / LARGEST)
    if outside.any():
        listed = [name for name, bad in zip(names, outside, strict=True) if bad]
        first = float(units.scale[outside][0])
        raise ValueError(
            f"Column {list_names(listed)}: values vary on a scale of about {first:.1e}, whose "
            "square is outside the range of float64. Change the column's units first, for example "
            f"divide it by {first:.1e}."
        )


def settings(estimator: Any, units: Scaling, total_weight: float) -> em.Settings:
    """Return what a fit is asked to do, in internal units."""
    d = len(units.scale)
    share = estimator.reg_covar * total_weight / estimator.n_components
    loading = None
    if estimator.diagonal_loading > 0:
        loading = estimator.diagonal_loading / units.scale**2
    regularizer = Regularizer(
        ridge=np.where(units.known, share * units.variance, 0.0),
        shrinkage=2.0 * (d + 1) if estimator.shrinkage == "auto" else float(estimator.shrinkage),
        loading=loading,
        n_kept=count_kept(estimator.keep_components, d),
        fill=estimator.fill,
        unit=units.variance,
    )
    return em.Settings(
        covariance_type=estimator.covariance_type,
        regularizer=regularizer,
        equal_weights=estimator.weights == "equal",
        tol=float(estimator.tol),
        max_iter=int(estimator.max_iter),
        patience=int(estimator.patience),
    )


def count_kept(keep_components: float | int | None, d: int) -> int | None:
    """Return the number of principal components kept, or None for all."""
    if keep_components is None:
        return None
    if isinstance(keep_components, Integral):
        return min(int(keep_components), d)
    return max(1, round(float(keep_components) * d))


def choose_rows(n: int, fraction: float, seed: np.random.SeedSequence) -> np.ndarray:
    """Return True for the rows set aside for validation: at least one, at most n - 1."""
    n_held = int(np.clip(round(fraction * n), 1, n - 1))
    held = np.zeros(n, dtype=bool)
    held[np.random.default_rng(seed).choice(n, n_held, replace=False)] = True
    return held


def final_value(fit: em.Fit) -> float:
    """Return what starts are compared by: validation likelihood if there is one, else objective."""
    validation = [record.validation for record in fit.history if record.validation is not None]
    return max(validation) if validation else fit.history[-1].objective


def record_to_user(
    record: em.Iteration, units: Scaling, rows: Rows, validation: Rows | None
) -> em.Iteration:
    """Return the record with densities in the user's units."""
    offset = log_unit(rows, units)
    held_out = record.validation
    if held_out is not None and validation is not None:
        held_out -= log_unit(validation, units)
    return record._replace(
        log_likelihood=record.log_likelihood - offset,
        objective=record.objective - offset,
        validation=held_out,
    )


def log_unit(rows: Rows, units: Scaling) -> float:
    """Return the mean over rows of the log scales of the observed values."""
    n_values = np.add.reduceat(rows.weight, rows.patterns.start[:-1]) @ rows.patterns.observed
    return float(n_values @ np.log(units.scale) / rows.weight.sum())


@contextmanager
def explaining_collapse(estimator: Any, names: list[str]) -> Iterator[None]:
    """Turn a collapse inside into an error that names component, column and remedies."""
    try:
        yield
    except em.CollapseError as error:
        raise ValueError(
            f"{error} The column is {names[error.pivot]}. Increase reg_covar (now "
            f"{estimator.reg_covar:g}), lower n_components (now {estimator.n_components}), or "
            "leave out columns that repeat others."
        ) from error


def given_start(
    estimator: Any, units: Scaling
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Return the given weights, means and covariances in internal units, None where not given."""
    n_components, d = estimator.n_components, len(units.scale)
    weights = means = covariances = None
    if estimator.weights_init is not None:
        weights = _read_array("weights_init", estimator.weights_init, (n_components,))
        if (weights < 0).any() or not np.isclose(weights.sum(), 1.0):
            raise ValueError(
                f"weights_init must be non-negative and sum to 1; it sums to {weights.sum():g} "
                f"and its smallest is {weights.min():g}."
            )
    if estimator.means_init is not None:
        means = _read_array("means_init", estimator.means_init, (n_components, d))
        means = (means - units.center) / units.scale
    if estimator.precisions_init is not None:
        covariances = _given_covariances(estimator, units)
    return weights, means, covariances


def _given_covariances(estimator: Any, units: Scaling) -> np.ndarray:
    n_components, d = estimator.n_components, len(units.scale)
    kind = estimator.covariance_type
    shape = {
        "full": (n_components, d, d),
        "tied": (d, d),
        "diag": (n_components, d),
        "spherical": (n_components,),
    }[kind]
    prec = _read_array("precisions_init", estimator.precisions_init, shape)
    scale = units.scale
    if kind in ("diag", "spherical"):
        if (prec <= 0).any():
            raise ValueError(f"precisions_init must be positive; its smallest is {prec.min():g}.")
        variances = 1.0 / (prec if kind == "diag" else np.repeat(prec[:, None], d, axis=1))
        return variances / scale**2
    matrices = prec.reshape(-1, d, d) * scale[:, None] * scale
    result = np.empty_like(matrices)
    for k, matrix in enumerate(matrices):
        try:
            chol = cholesky(0.5 * (matrix + matrix.T), k)
        except NotPositiveDefiniteError as error:
            raise ValueError(
                f"precisions_init: the matrix of component {k} is not symmetric and positive "
                "definite."
            ) from error
        inverse = lapack.dpotri(chol, lower=1)[0]
        result[k] = np.tril(inverse) + np.tril(inverse, -1).T
    return result


def _read_array(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are not finite.")
    return array


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


def count_parameters(estimator: Any, d: int) -> int:
    """Return the number of free parameters of the mixture."""
    n_components = estimator.n_components
    n_matrices = 1 if estimator.covariance_type == "tied" else n_components
    kept = count_kept(estimator.keep_components, d)
    per_matrix = d * (d + 1) // 2
    if kept is not None and kept < d:
        per_matrix = min(per_matrix, d * kept - kept * (kept - 1) // 2 + 1)
    per_matrix = {"diag": d, "spherical": 1}.get(estimator.covariance_type, per_matrix)
    n_weights = 0 if estimator.weights == "equal" else n_components - 1
    return n_matrices * per_matrix + n_components * d + n_weights


def _check_number(name: str, value: Any, *, also: str = "") -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not (0 <= float(value) < np.inf):
        raise ValueError(
            f"Invalid value for {name!r}: {value!r}. It must be a number of at least 0{also}."
        )


def _check_kept(value: Any) -> None:
    if value is None:
        return
    whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
    share = isinstance(value, Real) and not isinstance(value, Integral) and 0 < float(value) <= 1
    if not (whole or share):
        raise ValueError(
            f"Invalid value for 'keep_components': {value!r}. It must be a share between 0 and 1, "
            "a number of components of at least 1, or None."
        )
