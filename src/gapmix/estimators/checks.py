"""The parameters of estimators, checked at the door: what was found, what is allowed."""

from __future__ import annotations

import os
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

from gapmix.engines.choose import is_engine
from gapmix.fitting.spec import Running, Spec
from gapmix.plan.forests import TreeOptions
from gapmix.plan.planner import SOLVERS
from gapmix.starts import kmeans
from gapmix.structures import STRUCTURES

CHOICES = {
    "init_params": (*kmeans.METHODS, "auto"),
    "weights": ("learned", "equal"),
    "solver": ("auto", *SOLVERS),
    "init_covariance": ("available", "filled"),
    "keep_components_of": ("correlation", "covariance"),
    "accelerate": ("auto", "squarem", "anderson", None),
}

LARGEST_RIDGE = 1e100  # far beyond use; products of larger ones overflow


def check(spec: Spec, running: Running) -> None:
    """Raise an error that names the parameter, what was found and what is allowed."""
    if not (isinstance(spec.covariance_type, str) and spec.covariance_type in STRUCTURES):
        check_choice("covariance_type", spec.covariance_type, tuple(STRUCTURES))
    for name, allowed in CHOICES.items():
        check_choice(name, getattr(spec, name), allowed)
    for name in ("n_components", "max_iter", "n_init", "patience"):
        check_positive_int(name, getattr(spec, name))
    check_positive_int("verbose_interval", running.verbose_interval)
    for name in ("tol", "reg_covar", "diagonal_loading"):
        _check_number(name, getattr(spec, name))
    if float(spec.reg_covar) > LARGEST_RIDGE:
        raise ValueError(
            f"reg_covar={spec.reg_covar:g} is too large: at most {LARGEST_RIDGE:g}. It is relative "
            "to the variance of each column, and from about 1 on it outweighs the rows."
        )
    for name in ("shrinkage", "mean_shrinkage"):
        if not is_auto(getattr(spec, name)):
            _check_number(name, getattr(spec, name), also=" or 'auto'")
    if not _is_text(spec.fill, "mean", "next"):
        _check_number("fill", spec.fill, also=" or 'mean' or 'next'")
        if spec.fill == 0:
            raise ValueError("fill=0 leaves no variance outside the kept components; use more.")
    _check_told(running)
    _check_place(running.engine, running.checkpoint)
    fraction = spec.validation_fraction
    if fraction is not None and not (isinstance(fraction, Real) and 0 < float(fraction) < 1):
        raise ValueError(
            f"validation_fraction={fraction!r} must lie strictly between 0 and 1, or be None."
        )
    structure = STRUCTURES[spec.covariance_type]
    if structure.n_factors and not is_auto(spec.solver):
        raise ValueError(
            f"solver={spec.solver!r} factors matrices; covariance_type="
            f"{structure.covariance_type!r} has none, and one solver. Use 'auto'."
        )
    _check_kept(spec.keep_components)
    if spec.keep_components is not None and not STRUCTURES[spec.covariance_type].HAS_AXES:
        named = " or ".join(repr(name) for name, each in STRUCTURES.items() if each.HAS_AXES)
        raise ValueError(
            f"keep_components={spec.keep_components!r} needs covariance_type {named}: "
            f"{spec.covariance_type!r} has no principal components to choose from."
        )


def check_choice(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Raise an error unless `value` is one of those allowed."""
    if isinstance(value, TreeOptions):
        _check_tree_options(value)
    # A value may be anything, an array too, so only text is compared.
    elif not any(value is choice or _is_text(value, choice) for choice in allowed):
        listed = ", ".join(repr(choice) for choice in allowed)
        several = "one of " if len(allowed) > 1 else ""
        raise ValueError(f"{name}={value!r} is not known. Use {several}{listed}.")


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
    if options.max_cluster is not None:
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


def _check_told(running: Running) -> None:
    """Check how a fit is run and reported."""
    verbose, n_jobs = running.verbose, running.n_jobs
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


def is_auto(value: Any) -> bool:
    """Tell whether a parameter leaves the choice to the fit."""
    return _is_text(value, "auto")


def _is_text(value: Any, *choices: Any) -> bool:
    return isinstance(value, str) and value in choices
