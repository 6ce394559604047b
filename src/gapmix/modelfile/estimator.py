"""What all estimators have in a model file: settings, number and names of columns, their levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gapmix.estimators.levels import is_infinite
from gapmix.estimators.marks import NO_MARKS, gap_test
from gapmix.fitting.spec import Running
from gapmix.modelfile.values import decode, encode
from gapmix.storage.recordfile import ModelFileError

Content = dict[str, Any]
Arrays = dict[str, np.ndarray]

# Where and how a fit ran is no part of a model: not written, and not taken from old files.
OF_THE_RUN = {*Running._fields, "warm_start"}


def field(content: Any, name: str, *types: type) -> Any:
    """Return an entry of an object in a file, which must have one of the types exactly."""
    value = content.get(name) if isinstance(content, dict) else None
    if type(value) not in types:
        raise ModelFileError(
            f"The entry {name!r} must be {' or '.join(kind.__name__ for kind in types)}, and is "
            f"{type(value).__name__}."
        )
    return value


def describe(estimator: Any) -> tuple[Content, Arrays]:
    """Return what every estimator has: settings, and number and names of the columns."""
    arrays: Arrays = {}
    settings = {
        name: encode(value, f"settings.{name}", arrays)
        for name, value in estimator.get_params(deep=False).items()
        if name not in OF_THE_RUN
    }
    names = getattr(estimator, "feature_names_in_", None)
    columns: Content = {
        "count": int(estimator.n_features_in_),
        "names": None if names is None else [str(name) for name in names],
    }
    if getattr(estimator, "categories_", None):
        columns["categorical"] = np.flatnonzero(estimator.is_categorical_).tolist()
        columns["levels"] = [
            encode(levels, f"categories_[{j}]") for j, levels in enumerate(estimator.categories_)
        ]
    return {"settings": settings, "columns": columns}, arrays


def rebuild(cls: Any, content: Content, arrays: Arrays) -> Any:
    """Return an estimator with its settings and columns; what an old file lacks has its default."""
    settings = field(content, "settings", dict)
    unknown = sorted(set(settings) - set(cls._get_param_names()))
    if unknown:
        raise ModelFileError(f"A {cls.__name__} has no parameter {unknown[0]!a} in this version.")
    held = {name for name in arrays if name.startswith("settings.")}
    require_same(held, arrays_of(settings, "settings"), "settings")
    kept = {name: decode(settings[name], arrays) for name in settings if name not in OF_THE_RUN}
    estimator = cls(**kept)
    columns = field(content, "columns", dict)
    count, names = field(columns, "count", int), field(columns, "names", list, type(None))
    if count < 1:
        raise ModelFileError(f"The model has {count} columns; there must be at least one.")
    n_numbers = sum(array.size for array in arrays.values())
    if count > n_numbers:  # before anything of their number is made
        raise ModelFileError(
            f"The model has {count} columns, and the file only {n_numbers} numbers."
        )
    estimator.n_features_in_ = count
    if names is not None:
        if len(names) != count or not all(isinstance(name, str) for name in names):
            raise ModelFileError(f"{len(names)} names are given to {count} columns, or not texts.")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if "categorical_features" in cls._get_param_names():
        estimator.is_categorical_, estimator.categories_ = _categories(columns, count)
    return estimator


def _categories(columns: Content, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return which columns are categories, and their levels; an old file has none."""
    chosen = np.zeros(count, dtype=bool)
    if "categorical" not in columns:
        return chosen, []
    places, told = field(columns, "categorical", list), field(columns, "levels", list)
    if not all(type(place) is int and 0 <= place < count for place in places):
        raise ModelFileError(f"The columns that are categories must be among {count}.")
    if sorted(set(places)) != places or len(places) != len(told):
        raise ModelFileError(f"{len(places)} categories cannot have levels of {len(told)}.")
    levels, is_gap = [decode(each, {}) for each in told], gap_test(NO_MARKS)
    for each in levels:
        plain = isinstance(each, np.ndarray) and each.ndim == 1
        try:
            distinct = plain and len(set(each.tolist())) == each.size > 0
        except TypeError:
            distinct = False
        if not distinct or any(is_gap(level) or is_infinite(level) for level in each.tolist()):
            raise ModelFileError("The levels of a category must be a list without doubles or gaps.")
    chosen[places] = True
    return chosen, levels


def rare_levels(columns: Content, categories: list[np.ndarray]) -> list[np.ndarray]:
    """Return the rare levels of each category; most files have none."""
    told = field(columns, "rare", list) if "rare" in columns else [[] for _ in categories]
    if len(told) != len(categories):
        raise ModelFileError(f"{len(categories)} categories cannot have {len(told)} rare ones.")
    for each, levels in zip(told, categories, strict=True):
        right = isinstance(each, list) and all(type(place) is int for place in each)
        if not right or not all(0 <= place < len(levels) for place in each):
            raise ModelFileError("Rare levels must be numbers of levels.")
    pairs = zip(categories, told, strict=True)
    return [levels[np.array(each, dtype=int)] for levels, each in pairs]


def find_places(categories: Sequence[np.ndarray], chosen: Sequence[np.ndarray]) -> list[list[int]]:
    """Return where some levels of each category are among all of it."""
    pairs = [
        (each.tolist(), set(some.tolist())) for each, some in zip(categories, chosen, strict=True)
    ]
    return [[i for i, level in enumerate(levels) if level in some] for levels, some in pairs]


def array_names(cls: Any, own: tuple[str, ...]) -> set[str]:
    """Return the names an estimator's arrays may have: its own, and those of its settings."""
    return {*own, *(f"settings.{name}" for name in cls._get_param_names())}


def arrays_of(values: Content, prefix: str) -> set[str]:
    """Return the names of the arrays that encoded values refer to."""
    return {
        f"{prefix}.{name}"
        for name, value in values.items()
        if isinstance(value, dict) and "array" in value
    }


def require_same(found: set[str], wanted: set[str], what: str) -> None:
    """Raise an error that names what is missing or does not belong."""
    for name in sorted(wanted - found):
        raise ModelFileError(f"{name!a} is missing from the {what}.")
    for name in sorted(found - wanted):
        raise ModelFileError(f"{name!a} has no place in the {what}.")
