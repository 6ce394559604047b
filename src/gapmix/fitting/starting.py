"""Where the runs of a fit begin: at the last solution, at what is given, or at what is found."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gapmix.categories import NO_PRIOR, LevelPrior, count_levels, sizes
from gapmix.em.records import Engine
from gapmix.fitting.spec import Spec, make_settings
from gapmix.parameters import Parameters
from gapmix.plan.rows import Rows
from gapmix.solvers import SOLVERS
from gapmix.starts import kmeans, search
from gapmix.structures import STRUCTURES
from gapmix.units import Scaling


class Start(NamedTuple):
    """Parameters to begin with, and what the first record of a run tells about them."""

    parameters: Parameters
    events: tuple[str, ...] = ()


def searches(spec: Spec, *, continues: bool, validates: bool) -> bool:
    """Tell whether a good start is looked for.

    Not if anything was given to start from, and not with rows to stop on: a run that is to be
    stopped early should not begin late.
    """
    wanted = spec.init_params == "auto" and spec.n_components > 1
    return wanted and not continues and not validates and _given(spec) == 0


def is_kept(spec: Spec, *, continues: bool, validates: bool) -> bool:
    """Tell whether a run begins at its start exactly, unimproved."""
    searched = searches(spec, continues=continues, validates=validates)
    return continues or searched or _given(spec) == 3


def _given(spec: Spec) -> int:
    given = (spec.weights_init, spec.means_init, spec.precisions_init)
    return sum(value is not None for value in given)


def begin(
    spec: Spec,
    rows: Rows,
    units: Scaling,
    engine: Engine,
    seed: np.random.SeedSequence,
    *,
    looks_around: bool,
    levels: LevelPrior = NO_PRIOR,
) -> Start:
    """Return the start of one run; if it `looks_around`, the best that a few tries find."""
    rng = np.random.default_rng(seed)
    make = partial(make_start, spec, rows, units, rng, levels.shares)
    if not looks_around:
        return Start(make())
    solver = STRUCTURES[spec.covariance_type].SOLVER
    settings = make_settings(spec, units, float(rows.weight.sum()), levels=levels)
    found = search.find_start(SOLVERS[solver], rows, make, settings, engine, rng)
    return Start(found.parameters, (found.note,))


def make_start(
    spec: Spec,
    rows: Rows,
    units: Scaling,
    rng: np.random.Generator,
    shares: tuple[np.ndarray, ...] = (),
) -> Parameters:
    """Return starting parameters in internal units: as far as given, else made from the rows.

    `shares` are those of the levels of each category in all rows.
    """
    weights, means, covariances = given_start(spec, units)
    if weights is not None and means is not None and covariances is not None and not shares:
        return Parameters(weights, means, covariances, spec.covariance_type)
    made = kmeans.start(
        rows,
        units,
        spec.n_components,
        spec.covariance_type,
        method="kmeans" if spec.init_params == "auto" else spec.init_params,
        init_covariance=spec.init_covariance,
        equal_weights=spec.weights == "equal",
        rng=rng,
        shares=shares,
    )
    return Parameters(
        made.weights if weights is None else weights,
        made.means if means is None else means,
        made.covariances if covariances is None else covariances,
        spec.covariance_type,
        made.categories,
    )


def refuse_other(
    spec: Spec, parameters: Parameters, d: int, n_levels: np.ndarray | None = None
) -> None:
    """Raise an error if the last solution is not of the kind that is asked for now.

    `n_levels` are those of the table's columns, 0 for its `d` columns of numbers.
    """
    found = (parameters.structure, *parameters.means.shape)
    wanted = (spec.covariance_type, spec.n_components, d)
    if found != wanted:
        raise ValueError(
            f"warm_start=True continues from the last solution, which has covariance_type="
            f"{found[0]!r}, {found[1]} components and {found[2]} columns; now {wanted[0]!r}, "
            f"{wanted[1]} and {wanted[2]} are asked for. Set warm_start=False, or use a new "
            "estimator."
        )
    had = count_levels(parameters.categories)
    has = sizes(n_levels)
    if had != has:
        raise ValueError(
            "warm_start=True continues from the last solution, whose categories have "
            f"{list(had)} levels; now they have {list(has)}. Set warm_start=False, or use a new "
            "estimator."
        )


def given_start(
    spec: Spec, units: Scaling
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Return the given weights, means and covariances in internal units, None where not given."""
    n_components, d = spec.n_components, len(units.scale)
    weights = means = covariances = None
    if spec.weights_init is not None:
        weights = _read_array("weights_init", spec.weights_init, (n_components,))
        if (weights < 0).any() or not np.isclose(weights.sum(), 1.0):
            raise ValueError(
                f"weights_init must be non-negative and sum to 1; it sums to {weights.sum():g} "
                f"and its smallest is {weights.min():g}."
            )
    if spec.means_init is not None:
        means = (read_means(spec, d) - units.center) / units.scale
    if spec.precisions_init is not None:
        structure = STRUCTURES[spec.covariance_type]
        covariances = structure.read_precisions(read_precisions(spec, d), units.scale)
    return weights, means, covariances


def read_means(spec: Spec, d: int) -> np.ndarray:
    """Return the given means, in the user's units."""
    return _read_array("means_init", spec.means_init, (spec.n_components, d))


def read_precisions(spec: Spec, d: int) -> np.ndarray:
    """Return the given precisions, in scikit-learn's shape and the user's units."""
    shape = STRUCTURES[spec.covariance_type].public_shape(spec.n_components, d)
    return _read_array("precisions_init", spec.precisions_init, shape)


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
