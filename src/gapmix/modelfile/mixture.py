"""A fitted mixture as plain data and arrays, and back, with every number checked on the way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gapmix.em.online import Online
from gapmix.em.records import Iteration
from gapmix.estimators.levels import count_levels
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.validation import LARGEST_VALUE
from gapmix.fitting.matrix import FARTHEST, LARGEST
from gapmix.modelfile.estimator import (
    Arrays,
    Content,
    describe,
    field,
    find_places,
    rare_levels,
    rebuild,
    require_same,
)
from gapmix.modelfile.validity import check_counts, check_settings, check_shares
from gapmix.parameters import SMALLEST_VARIANCE, Parameters
from gapmix.plan.forests import Cluster
from gapmix.plan.patterns import Patterns
from gapmix.plan.planner import Plan
from gapmix.solvers import SOLVERS
from gapmix.statistics import Moments
from gapmix.storage.recordfile import ModelFileError
from gapmix.structures import STRUCTURES, Structure
from gapmix.threads import open_engine
from gapmix.units import Scaling

PUBLIC = ("covariances", "precisions", "precisions_cholesky")
STREAM = tuple(
    f"stream.{name}" for name in ("means", "covariances", "resp", "first", "second", "counts")
)
MIXTURE_ARRAYS = (
    *("weights", "means", "covariances", "precisions", "precisions_cholesky", "target", "center"),
    *("scaling.center", "scaling.scale", "scaling.mean", "scaling.variance", "scaling.known"),
    *("history.log_likelihood", "history.objective", "history.validation", "history.seconds"),
    *("history.lower_bounds", "event.iteration", "event.text", "categories.*"),
    *STREAM,
)
OPTIONAL = {"target", "center", *STREAM}


def mixture_to_record(mixture: GaussianMixture) -> tuple[Content, Arrays]:
    """Return what a fitted mixture is, as plain data and arrays."""
    check_is_fitted(mixture)
    content, arrays = describe(mixture)
    history: tuple[Iteration, ...] = mixture.history_
    texts = sorted({event for record in history for event in record.events})
    events = [(i, texts.index(event)) for i, r in enumerate(history) for event in r.events]
    plan: Plan = mixture.plan_
    content |= {
        "covariance_type": mixture._covariance_type,
        "fit": {
            "converged": bool(mixture.converged_),
            "stop_reason": mixture.stop_reason_,
            "n_iter": int(mixture.n_iter_),
            "lower_bound": float(mixture.lower_bound_),
            "events": texts,
        },
        "plan": {
            "solver": plan.solver,
            "requested": plan.requested,
            "n_components": int(plan.n_components),
            "seconds": {name: float(value) for name, value in plan.seconds.items()},
            "bounds": sorted(plan.bounds),
            "reason": plan.reason,
            "walks": bool(plan.forest),
            "text": plan.explain(),
        },
    }
    scaling: Scaling = mixture._scaling
    numbers = {
        "weights": mixture.weights_,
        "means": mixture.means_,
        "covariances": mixture.covariances_,
        "precisions": mixture.precisions_,
        "precisions_cholesky": mixture.precisions_cholesky_,
        **{f"scaling.{name}": getattr(scaling, name) for name in Scaling._fields},
        "history.log_likelihood": [record.log_likelihood for record in history],
        "history.objective": [record.objective for record in history],
        "history.validation": [r.validation for r in history if r.validation is not None],
        "history.seconds": [record.seconds for record in history],
        "history.lower_bounds": mixture.lower_bounds_,
    }
    for j, table in enumerate(mixture.category_probabilities_):
        numbers[f"categories.{j}"] = table
    if any(map(len, mixture.rare_levels_)):
        content["columns"]["rare"] = find_places(mixture.categories_, mixture.rare_levels_)
    if mixture._target is not None:
        numbers["target"] = mixture._target
    if mixture._center is not None:
        numbers["center"] = mixture._center
    stream: Online | None = getattr(mixture, "_stream", None)
    if stream is not None and stream.moments is not None:
        content["stream"] = {"n_batches": stream.n_batches, "total_weight": stream.total_weight}
        held = (*stream.parameters[1:3], *stream.moments)
        numbers |= dict(zip(STREAM, held, strict=True))
    numbers = {name: np.asarray(value, dtype=np.float64) for name, value in numbers.items()}
    arrays |= {name: value for name, value in numbers.items() if value.size or value.ndim == 1}
    arrays["scaling.known"] = np.asarray(scaling.known, dtype=np.int64)
    arrays["event.iteration"] = np.array([i for i, _ in events], dtype=np.int64)
    arrays["event.text"] = np.array([text for _, text in events], dtype=np.int64)
    return content, arrays


def mixture_from_record(content: Content, arrays: Arrays) -> GaussianMixture:
    """Return the fitted mixture of a record, after checking that it is one."""
    mixture = rebuild(GaussianMixture, content, arrays)
    kind = field(content, "covariance_type", str)
    if kind not in STRUCTURES:
        raise ModelFileError(f"The covariance type {kind!a} is not known.")
    if mixture.is_categorical_.all() and "weights" in arrays:  # what is empty is not in the file
        n_components = arrays["weights"].size
        public = STRUCTURES[kind].public_shape(n_components, 0)
        shapes = {"means": (n_components, 0), **dict.fromkeys(PUBLIC, public)}
        empty = {name: np.empty(shape) for name, shape in shapes.items() if 0 in shape}
        arrays = {**empty, **arrays}
    _check_arrays(arrays, kind, mixture)
    units = Scaling(*(arrays[f"scaling.{name}"] for name in Scaling._fields))
    units = units._replace(known=units.known.astype(bool))
    mixture.weights_ = arrays["weights"]
    mixture.means_ = arrays["means"]
    mixture.covariances_ = arrays["covariances"]
    mixture.precisions_ = arrays["precisions"]
    mixture.precisions_cholesky_ = arrays["precisions_cholesky"]
    fit = field(content, "fit", dict)
    mixture.converged_ = field(fit, "converged", bool)
    mixture.stop_reason_ = field(fit, "stop_reason", str)
    mixture.n_iter_ = field(fit, "n_iter", int)
    mixture.lower_bound_ = field(fit, "lower_bound", float)
    if mixture.n_iter_ < 0 or not math.isfinite(mixture.lower_bound_):
        raise ModelFileError(
            f"{mixture.n_iter_} iterations cannot lead to {mixture.lower_bound_:g} per row."
        )
    mixture.lower_bounds_ = arrays["history.lower_bounds"].tolist()
    mixture.history_ = _history(field(fit, "events", list), arrays)
    mixture.plan_ = _plan(field(content, "plan", dict), mixture.n_features_in_)
    mixture._scaling = units
    mixture._covariance_type = kind
    mixture._n_levels = count_levels(mixture)
    mixture.rare_levels_ = rare_levels(field(content, "columns", dict), mixture.categories_)
    mixture.category_probabilities_ = [
        arrays[f"categories.{j}"] for j in range(len(mixture.categories_))
    ]
    mixture._target = arrays.get("target")
    mixture._center = arrays.get("center")
    # What overflows is refused; BLAS on several threads is slower on one matrix at a time.
    check_settings(mixture)
    with np.errstate(all="ignore"), open_engine(1):
        _check_values(arrays, STRUCTURES[kind])
        _check_units(units)
        _check_inside(mixture._fitted().parameters, units)
        if "stream" in content or any(name in arrays for name in STREAM):
            mixture._stream = _stream(content, arrays, mixture)
    return mixture


def _check_arrays(arrays: Arrays, kind: str, mixture: GaussianMixture) -> None:
    """Check names, types and shapes of a mixture's arrays against each other."""
    own = {name for name in arrays if not name.startswith("settings.")}
    tables = {f"categories.{j}": levels for j, levels in enumerate(mixture.categories_)}
    wanted = {*MIXTURE_ARRAYS, *tables} - {"categories.*"} - (OPTIONAL - own)
    require_same(own, wanted, "arrays of a mixture")
    d = mixture.n_features_in_ - len(tables)
    inside = max(1, d)  # see categories.split_table
    n_components = arrays["weights"].size
    n_iterations = arrays["history.objective"].size
    n_held = arrays["history.validation"].size
    n_events = arrays["event.text"].size
    structure, none = STRUCTURES[kind], np.empty((0, 0))
    public = structure.public_shape(n_components, d)
    shapes: dict[str, tuple[int, ...]] = {
        "weights": (n_components,),
        "means": (n_components, d),
        **{f"scaling.{name}": (inside,) for name in Scaling._fields},
        **{name: (n_components, len(levels)) for name, levels in tables.items()},
        **{name: (n_iterations,) for name in own if name.startswith("history.")},
        "history.validation": (n_iterations if n_held else 0,),
        "history.lower_bounds": (arrays["history.lower_bounds"].size,),
        "event.iteration": (n_events,),
        "event.text": (n_events,),
        **dict.fromkeys(PUBLIC, public),
        "target": structure.shape(inside),
        "center": (inside,),
        "stream.means": (n_components, inside),
        "stream.covariances": (1 if structure.SHARED else n_components, *structure.shape(inside)),
        "stream.resp": (n_components,),
        "stream.first": (n_components, inside),
        "stream.second": (n_components, inside, structure.n_sums)
        if structure.n_sums
        else (n_components, *[inside] * (arrays.get("stream.second", none).ndim - 1)),
        "stream.counts": (n_components, sum(map(len, mixture.categories_))),
    }
    whole = {"scaling.known", "event.iteration", "event.text"}
    for name in sorted(own):
        array = arrays[name]
        if array.shape != shapes[name] or (array.dtype == np.int64) != (name in whole):
            raise ModelFileError(
                f"{name} has shape {array.shape} and dtype {array.dtype}; with {n_components} "
                f"components, {d} columns and covariance type {kind!r} it must have shape "
                f"{shapes[name]} and dtype {'int64' if name in whole else 'float64'}."
            )


def _check_values(arrays: Arrays, structure: Structure) -> None:
    """Check that numbers are finite, weights sum to 1 and diagonals are positive."""
    for name in (name for name in arrays if not name.startswith("settings.")):
        values = arrays[name]
        if name == "history.validation":  # a held-out row may be beyond every density
            values = values[values != -np.inf]
        if not np.isfinite(values).all():
            raise ModelFileError(f"{name} holds a number that is not finite.")
    check_shares("weights", arrays["weights"])
    if not np.isin(arrays["scaling.known"], (0, 1)).all():
        raise ModelFileError("scaling.known must hold 0 and 1.")
    for name in (name for name in arrays if name.startswith("categories.")):
        for k, shares in enumerate(arrays[name]):
            check_shares(f"probabilities {name} of component {k}", shares)
    matrices = {*PUBLIC, "target"}
    for name in sorted(matrices & arrays.keys()):
        if arrays[name].size and not structure.diagonal(arrays[name]).min() > 0:
            raise ModelFileError(f"{name} must be positive on the diagonal.")


def _check_units(units: Scaling) -> None:
    """Check what columns are measured in."""
    scale, center = units.scale, units.center
    powers = (np.frexp(scale)[0] == 0.5) & (scale <= LARGEST) & (scale >= 1 / LARGEST)
    if not powers.all() or units.variance.min() <= 0 or units.variance.max() > FARTHEST:
        raise ModelFileError("The columns' scales must be powers of two, variances positive.")
    if np.abs(units.mean).max() > 0.5:
        raise ModelFileError("The columns' means must lie within half a unit of their centres.")
    if (np.maximum(np.abs(center), np.abs(center / scale)) > LARGEST_VALUE).any():
        raise ModelFileError(f"The columns' centres must lie below {LARGEST_VALUE:g}.")


def _check_inside(parameters: Parameters, units: Scaling) -> None:
    """Check means and covariances in internal units, where their size can be told."""
    if np.abs((parameters.means - units.center) / units.scale).max() > FARTHEST:
        raise ModelFileError(f"A mean is more than {FARTHEST:g} standard deviations away.")
    structure = STRUCTURES[parameters.structure]
    for k, sigma in enumerate(parameters.covariances):  # one at a time, which saves memory
        sigma = structure.rescale(sigma[None], 1.0 / units.scale)[0]
        variances = structure.diagonal(sigma)
        if not (variances > SMALLEST_VARIANCE).all() or not (variances < FARTHEST).all():
            raise ModelFileError(f"Component {k}: a variance is zero or far too large.")
        try:
            structure.check(sigma, k)
        except ValueError as error:
            raise ModelFileError(str(error)) from error


def _stream(content: Content, arrays: Arrays, mixture: GaussianMixture) -> Online:
    """Return where `partial_fit` goes on."""
    kind, tables = mixture._covariance_type, tuple(mixture.category_probabilities_)
    if not tables:  # what is empty is not in the file
        arrays = {"stream.counts": np.empty((arrays["weights"].size, 0)), **arrays}
    told = field(content, "stream", dict)
    n_batches, total_weight = field(told, "n_batches", int), field(told, "total_weight", float)
    require_same({name for name in STREAM if name in arrays}, set(STREAM), "stream")
    means, covariances, *moments = (arrays[name] for name in STREAM)
    check_shares("stream.resp", arrays["stream.resp"])
    check_counts("stream.counts", arrays["stream.counts"], tables, arrays["stream.resp"])
    reach = max(np.abs(moments[1]).max(), np.sqrt(np.abs(moments[2]).max()), np.abs(means).max())
    variances = STRUCTURES[kind].diagonal(covariances)
    if not reach <= FARTHEST or not (variances > SMALLEST_VARIANCE).all():
        raise ModelFileError(f"The stream's moments are beyond {FARTHEST:g} standard deviations.")
    if n_batches < 1 or not 0.0 < total_weight < FARTHEST:
        raise ModelFileError(f"A stream of {n_batches} batches cannot weigh {total_weight:g}.")
    for k, sigma in enumerate(covariances):
        try:
            STRUCTURES[kind].check(sigma, k)
        except ValueError as error:
            raise ModelFileError(f"stream: {error}") from error
    parameters = Parameters(arrays["weights"], means, covariances, kind, tables)
    return Online(parameters, Moments(*moments), n_batches, total_weight)


def _history(texts: list[Any], arrays: Arrays) -> tuple[Iteration, ...]:
    """Return the record of every iteration."""
    objective = arrays["history.objective"].tolist()
    validation = arrays["history.validation"].tolist() or [None] * len(objective)
    events: list[list[str]] = [[] for _ in objective]
    for i, number in zip(
        arrays["event.iteration"].tolist(), arrays["event.text"].tolist(), strict=True
    ):
        if not (0 <= i < len(events) and 0 <= number < len(texts)):
            raise ModelFileError(f"Event {number} of iteration {i} does not exist.")
        events[i].append(texts[number])
    if not all(isinstance(text, str) for text in texts):
        raise ModelFileError("The events of a fit must be texts.")
    values = zip(
        arrays["history.log_likelihood"].tolist(),
        objective,
        validation,
        arrays["history.seconds"].tolist(),
        map(tuple, events),
        strict=True,
    )
    return tuple(Iteration(*value) for value in values)


def _plan(content: Content, d: int) -> Plan:
    """Return a small plan that names the solver and explains itself as the whole one did.

    It has no patterns; one cluster without routes stands for the forest of a solver that walks.
    """
    solver, seconds = field(content, "solver", str), field(content, "seconds", dict)
    bounds, text = field(content, "bounds", list), field(content, "text", str)
    if solver not in SOLVERS or not text:
        raise ModelFileError(f"The plan names no known solver ({solver!a}), or says nothing.")
    if not all(type(cost) is float and math.isfinite(cost) for cost in seconds.values()):
        raise ModelFileError("The plan's predicted seconds must be numbers.")
    if not all(isinstance(name, str) for name in bounds):
        raise ModelFileError("The plan's bounds must be names.")
    none = np.empty(0, dtype=np.int64)
    return Plan(
        patterns=Patterns(np.empty((0, d), dtype=bool), none, np.zeros(1, dtype=np.int64)),
        solver=solver,
        requested=field(content, "requested", str),
        n_components=field(content, "n_components", int),
        seconds=dict(seconds),
        bounds=frozenset(bounds),
        reason=field(content, "reason", str),
        forest=(Cluster(none, ()),) if field(content, "walks", bool) else (),
        text=text,
    )
