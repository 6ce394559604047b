"""What a fit is asked to do: the parameters of the mixture estimator, and what they mean inside."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from gapmix.categories import NO_PRIOR, LevelPrior
from gapmix.em.records import Settings
from gapmix.plan import TreeOptions
from gapmix.structures import STRUCTURES
from gapmix.structures.regularizer import Regularizer
from gapmix.units import Scaling, to_internal

MEAN_ROWS = 10.0  # mean_shrinkage="auto": filled cells were best with 3 to 30 on real tables
AUTO_ACCELERATE = "quasi-newton"  # needs the fewest passes; see benchmarks/convergence.py


class Spec(NamedTuple):
    """A mixture that is wanted. Fields are parameters of `GaussianMixture`, by the same names."""

    n_components: int
    covariance_type: str
    tol: float
    reg_covar: float
    max_iter: int
    n_init: int
    init_params: str
    weights_init: Any
    means_init: Any
    precisions_init: Any
    weights: str
    solver: str | TreeOptions
    init_covariance: str
    keep_components: float | int | None
    keep_components_of: str
    fill: str | float
    diagonal_loading: float
    shrinkage: float | str
    mean_shrinkage: float | str
    validation_fraction: float | None
    patience: int
    accelerate: str | None


class Running(NamedTuple):
    """Where a fit runs, what is kept of it on the way, and what is told."""

    n_jobs: int | None = None
    engine: Any = "threads"
    checkpoint: Any = None  # path of a file, or None
    verbose: int = 0
    verbose_interval: int = 10
    is_seeded: bool = True  # else the seed was drawn, and a checkpoint's is taken instead


def is_diagonal(spec: Spec) -> bool:
    """Tell whether the solver for variances serves the components."""
    return STRUCTURES[spec.covariance_type].SOLVER == "diagonal"


def count_factors(spec: Spec) -> int:
    """Return the number of factors that components have, 0 if they have none."""
    return STRUCTURES[spec.covariance_type].n_factors


def make_settings(
    spec: Spec,
    units: Scaling,
    total_weight: float,
    target: np.ndarray | None = None,
    center: np.ndarray | None = None,
    levels: LevelPrior = NO_PRIOR,
) -> Settings:
    """Return what a run is asked to do, in internal units.

    `target` and `center`, in the user's units, are the covariance and the mean to shrink to, if
    they are known already.
    """
    d = int(units.known.sum())
    structure = STRUCTURES[spec.covariance_type]
    shrinkage = spec.shrinkage
    if shrinkage == "auto":
        shrinkage = structure.auto_shrinkage(d, total_weight / spec.n_components)
    shrinkage = float(shrinkage)
    pull = MEAN_ROWS if spec.mean_shrinkage == "auto" else float(spec.mean_shrinkage)
    share = spec.reg_covar * total_weight / spec.n_components
    loading = None
    if spec.diagonal_loading > 0:
        loading = spec.diagonal_loading / units.scale**2
    target = target if structure.HAS_TARGET else None
    if target is not None and shrinkage > 0:
        target = structure.rescale(structure.as_target(target)[None], 1.0 / units.scale)[0]
    regularizer = Regularizer(
        ridge=np.where(units.known, share * units.variance, 0.0),
        shrinkage=shrinkage,
        target=target if shrinkage > 0 else None,
        mean_shrinkage=pull,
        center=None if center is None or pull == 0 else to_internal(center, units),
        loading=loading,
        n_kept=count_kept(spec.keep_components, len(units.scale)),
        fill=spec.fill,
        unit=_unit_of_components(spec, units),
        levels=levels,
        variance=units.variance,
    )
    return Settings(
        regularizer=regularizer,
        equal_weights=spec.weights == "equal",
        tol=float(spec.tol),
        max_iter=int(spec.max_iter),
        patience=int(spec.patience),
        accelerate=AUTO_ACCELERATE if spec.accelerate == "auto" else spec.accelerate,
    )


def _unit_of_components(spec: Spec, units: Scaling) -> np.ndarray:
    """Return the variances, in internal units, of columns in the units of `keep_components`."""
    return units.variance if spec.keep_components_of == "correlation" else units.scale**-2.0


def count_kept(keep_components: float | int | None, d: int) -> int | None:
    """Return the number of principal components kept, or None for all."""
    if keep_components is None:
        return None
    if isinstance(keep_components, Integral):
        return min(int(keep_components), d)
    return max(1, round(float(keep_components) * d))
