"""The parameters of the mixture estimator: their checks, and what they mean inside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from gapmix.em import run as em
from gapmix.em.repair import CollapseError
from gapmix.engines.choose import is_engine
from gapmix.estimators.validation import name_columns
from gapmix.estimators.warning import Advised, warn_user
from gapmix.parameters import (
    NotPositiveDefiniteError,
    Parameters,
    cholesky,
    factor,
    rescale,
)
from gapmix.plan.planner import SOLVERS, TreeOptions
from gapmix.plan.rows import Rows
from gapmix.starts import kmeans as initialize
from gapmix.statistics import mirror
from gapmix.structures import covariance
from gapmix.structures.covariance import Regularizer
from gapmix.threads import one_blas_thread
from gapmix.units import Scaling, measure, to_internal

FARTHEST = 1e100  # standard deviations; with ill-conditioned covariances squares still fit float64
LARGEST = 1e150  # squares of larger spreads leave the range of float64
MEAN_ROWS = 10.0  # mean_shrinkage="auto": filled cells were best with 3 to 30 on real tables
AUTO_ACCELERATE = "quasi-newton"  # needs the fewest passes; see benchmarks/convergence.py
CHOICES = {
    "covariance_type": covariance.TYPES,
    "init_params": (*initialize.METHODS, "auto"),
    "weights": ("learned", "equal"),
    "solver": ("auto", *SOLVERS),
    "init_covariance": ("available", "filled"),
    "accelerate": ("auto", "squarem", "anderson", None),
}


def check(estimator: Any) -> None:
    """Raise an error that names the parameter, what was found and what is allowed."""
    for name, allowed in CHOICES.items():
        value = getattr(estimator, name)
        if isinstance(value, TreeOptions):
            _check_tree_options(value)
            continue
        # A value may be anything, an array too, so only text is compared.
        if not any(value is choice or _is_text(value, choice) for choice in allowed):
            listed = ", ".join(repr(choice) for choice in allowed)
            several = "one of " if len(allowed) > 1 else ""
            raise ValueError(f"{name}={value!r} is not known. Use {several}{listed}.")
    for name in ("n_components", "max_iter", "n_init", "patience", "verbose_interval"):
        check_positive_int(name, getattr(estimator, name))
    for name in ("tol", "reg_covar", "diagonal_loading"):
        _check_number(name, getattr(estimator, name))
    for name in ("shrinkage", "mean_shrinkage"):
        if not _is_text(getattr(estimator, name), "auto"):
            _check_number(name, getattr(estimator, name), also=" or 'auto'")
    if not _is_text(estimator.fill, "mean", "next"):
        _check_number("fill", estimator.fill, also=" or 'mean' or 'next'")
        if estimator.fill == 0:
            raise ValueError("fill=0 leaves no variance outside the kept components; use more.")
    _check_switches(estimator)
    _check_place(estimator.engine, estimator.checkpoint)
    fraction = estimator.validation_fraction
    if fraction is not None and not (isinstance(fraction, Real) and 0 < float(fraction) < 1):
        raise ValueError(
            f"validation_fraction={fraction!r} must lie strictly between 0 and 1, or be None."
        )
    _check_kept(estimator.keep_components)
    if estimator.keep_components is not None and estimator.covariance_type not in ("full", "tied"):
        raise ValueError(
            f"keep_components={estimator.keep_components!r} needs covariance_type 'full' or "
            f"'tied': {estimator.covariance_type!r} has no principal components to choose from."
        )


def _check_place(engine: Any, path: Any) -> None:
    """Check where a fit runs and where its state is kept."""
    if not is_engine(engine):
        raise ValueError(
            f"engine={engine!r} is not known. Use 'threads', 'dask', the address of a Dask "
            "scheduler ('tcp://host:8786') or a Dask client."
        )
    if path is not None and not isinstance(path, str | os.PathLike):
        raise ValueError(f"checkpoint={path!r} must be the path of a file, or None.")


def _check_tree_options(options: TreeOptions) -> None:
    if options.name not in ("paper", "tree"):
        raise ValueError(
            f"TreeOptions(name={options.name!r}): only 'paper' and 'tree' walk along trees."
        )
    if options.cost not in ("hamming", "seconds") and not callable(options.cost):
        raise ValueError(
            f"TreeOptions(cost={options.cost!r}) is not known. Use 'hamming', 'seconds' or a "
            "function of (common, added, removed)."
        )
    if options.recompute_every is not None:
        check_positive_int("recompute_every", options.recompute_every)
    check_positive_int("max_cluster", options.max_cluster)


def check_positive_int(name: str, value: Any) -> None:
    """Raise an error unless `value` is a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"Invalid value for {name!r}: {value!r}. It must be a whole number of at least 1."
        )


def check_switch(name: str, value: Any) -> None:
    """Raise an error unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"Invalid value for {name!r}: {value!r}. It must be True or False.")


def measure_units(
    x: np.ndarray, weight: np.ndarray, covariance_type: str, names: list[str]
) -> Scaling:
    """Return the units of a table, refused where variances would leave the range of float64.

    They are measured under one BLAS thread, so that the number of its threads changes no bit.
    """
    with one_blas_thread():
        units = measure(x, weight, common=covariance_type == "spherical")
    check_magnitudes(units, names)
    return units


def check_magnitudes(units: Scaling, names: list[str]) -> None:
    """Raise an error where variances would leave the range of float64."""
    outside = (units.scale > LARGEST) | (units.scale < 1 / LARGEST)
    if outside.any():
        listed = [name for name, bad in zip(names, outside, strict=True) if bad]
        first = float(units.scale[outside][0])
        raise ValueError(
            f"{name_columns(listed)}: values vary on a scale of about {first:.1e}, whose "
            "square is outside the range of float64. Change the column's units first, for example "
            f"divide it by {first:.1e}."
        )


def check_reach(x: np.ndarray, units: Scaling, names: list[str]) -> None:
    """Raise an error about a cell so far from the fitted rows that its square overflows."""
    distance = np.abs(x / units.scale - units.center / units.scale)
    outside = distance > FARTHEST
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        raise ValueError(
            f"X is more than {FARTHEST:g} standard deviations away from the fitted rows in "
            f"{int(outside.sum())} cell{'s' if outside.sum() > 1 else ''}, first in row {row}, "
            f"column {names[column]} ({x[row, column]:g}): no density can be given for it. "
            "Correct it, or replace it by NaN if it stands for a gap."
        )


def check_warm_start(estimator: Any, d: int) -> None:
    """Raise an error if the last solution does not fit what is asked for now."""
    found = (estimator._covariance_type, *estimator.means_.shape)
    wanted = (estimator.covariance_type, estimator.n_components, d)
    if found != wanted:
        raise ValueError(
            f"warm_start=True continues from the last solution, which has covariance_type="
            f"{found[0]!r}, {found[1]} components and {found[2]} columns; now {wanted[0]!r}, "
            f"{wanted[1]} and {wanted[2]} are asked for. Set warm_start=False, or use a new "
            "estimator."
        )


class HeldRows(NamedTuple):
    """Rows to stop on."""

    x: np.ndarray  # (n, d)
    weight: np.ndarray  # (n,)


def set_aside(
    estimator: Any,
    x: np.ndarray,
    weight: np.ndarray,
    x_val: np.ndarray | None,
    seed: np.random.SeedSequence,
) -> tuple[np.ndarray, np.ndarray, HeldRows | None]:
    """Return the rows to fit to with their weights, and the rows to stop on, if any."""
    fraction = estimator.validation_fraction
    if x_val is not None:
        useful = _drop_empty(x_val, "X_val")
        return x, weight, HeldRows(useful, np.ones(len(useful)))
    if fraction is None:
        return x, weight, None
    held = choose_rows(len(x), fraction, seed)
    n_left = int((~held).sum())
    if n_left < estimator.n_components:
        raise ValueError(
            f"{estimator.n_components} components are asked for and {n_left} row"
            f"{'s are' if n_left > 1 else ' is'} left to fit them to: lower "
            f"validation_fraction (now {fraction:g}) or n_components."
        )
    return x[~held], weight[~held], HeldRows(x[held], weight[held])


def is_whole_start_given(estimator: Any) -> bool:
    """Tell whether weights, means and covariances to start from were all given."""
    given = (estimator.weights_init, estimator.means_init, estimator.precisions_init)
    return all(value is not None for value in given)


def _drop_empty(x: np.ndarray, name: str) -> np.ndarray:
    """Return the rows that show something; there must be one."""
    empty = np.isnan(x).all(axis=1)
    if empty.all():
        raise ValueError(
            f"None of the {len(x)} rows of {name} has an observed value: there is nothing to stop "
            "on."
        )
    return x[~empty]


def warn_unknown(x: np.ndarray, weight: np.ndarray, names: list[str]) -> None:
    """Warn about columns that have no observed value; a table without any is refused elsewhere."""
    warn_of_unknown(weight @ ~np.isnan(x) > 0, names)


def warn_of_unknown(known: np.ndarray, names: list[str]) -> None:
    """Warn about columns that are not `known` (d,)."""
    unknown = [name for name, seen in zip(names, known, strict=True) if not seen]
    if not unknown or not known.any():
        return
    has, it_is, it, its = (
        ("has", "It is", "it", "its")
        if len(unknown) == 1
        else ("have", "They are", "them", "their")
    )
    warn_user(
        f"{name_columns(unknown)} {has} no observed value. {it_is} kept, with mean 0 and variance "
        f"1: nothing can be learned about {it}, and {its} gaps are filled with 0."
    )


def advise(fit: em.Fit, tol: float) -> str:
    """Return what to say of a fit that did not converge."""
    values = [record.objective for record in fit.history]
    gain = values[-1] - values[-2] if len(values) > 1 else np.inf
    remedy = "Raise max_iter or tol, or lower n_components."
    if "finite" in fit.stop_reason:
        remedy = "Raise reg_covar, or lower n_components."
    n_repairs = sum("repair" in event for record in fit.history for event in record.events)
    repairs = f" {n_repairs} components had to be repaired on the way." if n_repairs else ""
    return (
        f"The fit did not converge: {fit.stop_reason} (last gain {gain:.4g} per row, "
        f"tol={tol:g}).{repairs} {remedy}"
    )


def settings(
    estimator: Any,
    units: Scaling,
    total_weight: float,
    target: np.ndarray | None = None,
    center: np.ndarray | None = None,
) -> em.Settings:
    """Return what a fit is asked to do, in internal units.

    `target` and `center`, in the user's units, are the covariance and the mean to shrink to, if
    they are known already.
    """
    d = len(units.scale)
    shrinkage = 2.0 * (d + 1) if estimator.shrinkage == "auto" else float(estimator.shrinkage)
    pull = MEAN_ROWS if estimator.mean_shrinkage == "auto" else float(estimator.mean_shrinkage)
    if target is not None and estimator.covariance_type in ("diag", "spherical"):
        target = np.diag(target) if target.ndim == 2 else target
    share = estimator.reg_covar * total_weight / estimator.n_components
    loading = None
    if estimator.diagonal_loading > 0:
        loading = estimator.diagonal_loading / units.scale**2
    regularizer = Regularizer(
        ridge=np.where(units.known, share * units.variance, 0.0),
        shrinkage=shrinkage,
        target=_rescale_target(target, units) if shrinkage > 0 else None,
        mean_shrinkage=pull,
        center=None if center is None or pull == 0 else to_internal(center, units),
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
        accelerate=AUTO_ACCELERATE if estimator.accelerate == "auto" else estimator.accelerate,
    )


def _rescale_target(target: np.ndarray | None, units: Scaling) -> np.ndarray | None:
    return None if target is None else rescale(target[None], 1.0 / units.scale)[0]


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


def history_to_user(
    history: Sequence[em.Iteration], unit: float, held_unit: float
) -> tuple[em.Iteration, ...]:
    """Return the records with densities in the user's units.

    `unit` and `held_unit` are `log_unit` of the rows and of the validation rows, if there are any.
    """
    return tuple(
        record._replace(
            log_likelihood=record.log_likelihood - unit,
            objective=record.objective - unit,
            validation=None if record.validation is None else record.validation - held_unit,
        )
        for record in history
    )


def log_unit(rows: Rows, units: Scaling) -> float:
    """Return the mean over rows of the log scales of the observed values."""
    with one_blas_thread():  # as everything that a fit stores
        n_values = sum(  # by block: as numbers, all patterns at once would be a second table
            np.add.reduceat(block.weight, block.start[:-1]) @ block.observed
            for block in rows.blocks
        )
        return float(n_values @ np.log(units.scale) / rows.weight.sum())


@contextmanager
def explaining_collapse(estimator: Any, names: list[str]) -> Iterator[None]:
    """Turn a collapse inside into an error that names component, column and remedies."""
    try:
        yield
    except CollapseError as error:
        column = "" if error.pivot is None else f" The column is {names[error.pivot]}."
        advice = (
            f"Increase reg_covar (now {estimator.reg_covar:g}), lower n_components (now "
            f"{estimator.n_components}), or leave out columns that repeat others."
        )
        raise ValueError(Advised(f"{error}{column}", "reg_covar", advice)) from error


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
        if not np.allclose(matrix, matrix.T):
            raise ValueError(f"precisions_init: the matrix of component {k} is not symmetric.")
        try:
            chol = cholesky(0.5 * (matrix + matrix.T), k)
        except NotPositiveDefiniteError as error:
            raise ValueError(
                f"precisions_init: the matrix of component {k} is not positive definite."
            ) from error
        inverse = lapack.dpotri(chol, lower=1)[0]
        result[k] = mirror(inverse)
    return result


def _read_array(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers of shape {shape}: {error}."
        ) from error
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}.")
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} holds {array[place]} at {place}; every value must be finite.")
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


def _check_switches(estimator: Any) -> None:
    """Check what says how a fit is run and reported: warm_start, verbose, n_jobs."""
    warm_start, verbose, n_jobs = estimator.warm_start, estimator.verbose, estimator.n_jobs
    check_switch("warm_start", warm_start)
    if not isinstance(verbose, Integral | np.bool_) or verbose < 0:
        raise ValueError(
            f"Invalid value for 'verbose': {verbose!r}. It must be a whole number of at least 0."
        )
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ValueError(
            f"Invalid value for 'n_jobs': {n_jobs!r}. It must be a whole number of threads, -1 for "
            "all cores, or None."
        )


def _is_text(value: Any, *choices: Any) -> bool:
    return isinstance(value, str) and value in choices
