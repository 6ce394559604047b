"""Fitted estimators as files: `save` and `load`.

What a file may be is told in docs/model-files.md; `recordfile` reads and writes the bytes. Here is
what each estimator puts into a record. `CODECS` is the whole list of classes: a file names one of
its keys, never a module.

An estimator that is made of fitted mixtures needs one entry of `CODECS`, made by `composed`.
`parts` are attributes that hold a fitted `GaussianMixture` or a list of them, `state` attributes
that hold numbers, texts, arrays, or lists, tuples and dicts of these (`values` has the list, and
the named tuples that are allowed); `check` raises a `ModelFileError` about fitted values that
cannot be (`validity`). Constructor parameters that do not belong to the run, number and names of
the columns are kept without being mentioned. Attributes that an estimator does not have are passed
over.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gapmix.estimators.classifier import GaussianMixtureClassifier
from gapmix.estimators.converted import as_imputer
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.regressor import GaussianMixtureRegressor
from gapmix.heads.using import Heads
from gapmix.modelfile.estimator import (
    Arrays,
    Content,
    array_names,
    arrays_of,
    describe,
    field,
    rebuild,
    require_same,
)
from gapmix.modelfile.heads import HEAD_ARRAYS, heads_from_arrays, heads_to_arrays
from gapmix.modelfile.mixture import MIXTURE_ARRAYS, mixture_from_record, mixture_to_record
from gapmix.modelfile.validity import (
    check_classifier,
    check_imputer,
    check_regressor,
)
from gapmix.modelfile.values import decode, encode
from gapmix.storage.atomicfile import Path, find_target, replace_file
from gapmix.storage.recordfile import ModelFileError, Record, pack, read

__all__ = ["ModelFileError", "load", "save"]


class Codec(NamedTuple):
    """How one class of estimators goes into a record and comes back."""

    cls: type
    to_record: Callable[[Any], tuple[Content, Arrays]]
    from_record: Callable[[Content, Arrays], Any]
    names: frozenset[str]  # of the arrays it may have, with `*` for a number


def save(estimator: Any, path: Path) -> None:
    """Save a fitted estimator to a file that `load` reads, without pickle.

    The file appears complete or not at all: if the process is killed, an old file is still there.
    It holds the names of columns, the settings and the record of the fit, but not the rows.

    Parameters
    ----------
    estimator : estimator of gapmix
        Fitted. Subclasses are refused, since a file names no code.
    path : str or path-like
        The file to write; its folder must exist. An existing file is replaced.

    See Also
    --------
    load : The inverse.

    Notes
    -----
    Parameters that are random generators (`random_state=RandomState(0)`) come back as None, and
    arrays of other libraries as NumPy arrays; functions are refused. Where and how a fit runs
    (`engine`, `n_jobs`, `checkpoint`, `verbose`, `verbose_interval`, `warm_start`) is not kept. The
    bytes are those of a safetensors file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import gapmix
    >>> X = np.array([[1.0, 2.0], [2.0, 4.1], [3.0, np.nan], [4.0, 8.1], [np.nan, 9.9]])
    >>> mixture = gapmix.GaussianMixture(random_state=0, tol=1e-6).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "mixture.safetensors")
    ...     gapmix.save(mixture, path)
    ...     copy = gapmix.load(path)
    >>> bool((copy.impute(X) == mixture.impute(X)).all())
    True
    """
    kind = next((kind for kind, codec in CODECS.items() if codec.cls is type(estimator)), None)
    if kind is None:
        raise TypeError(
            f"save takes a fitted {' or '.join(CODECS)} of gapmix, but got a "
            f"{type(estimator).__name__} from {type(estimator).__module__}."
        )
    check_is_fitted(estimator)
    find_target(path)  # what is wrong with the path is told before any work
    content, arrays = CODECS[kind].to_record(estimator)
    CODECS[kind].from_record(content, arrays)  # what could not be loaded is not saved
    written = {"version": _version(), "date": datetime.now(UTC).isoformat(timespec="seconds")}
    replace_file(path, pack(Record(kind, {**content, "written": written}, arrays)))


def load(path: Path) -> Any:
    """Return the estimator saved in a file; it gives the same bits as the one that was saved.

    Nothing in the file is run: arrays and plain data are read and checked one by one.

    Parameters
    ----------
    path : str or path-like
        A file written by `save`, by this or an earlier version.

    Returns
    -------
    estimator
        Fitted. Of `plan_`, the solver and the words of `explain()` are kept, not the patterns.

    Raises
    ------
    ModelFileError
        A `ValueError` that says what is wrong with the file.

    See Also
    --------
    save : The inverse.

    Examples
    --------
    >>> import os, tempfile
    >>> import gapmix
    >>> imputer = gapmix.GaussianMixtureImputer(1).fit([[1.0, 2.0], [2.0, 4.1], [3.0, 5.9]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "imputer.safetensors")
    ...     gapmix.save(imputer, path)
    ...     again = gapmix.load(path)
    >>> type(again).__name__, again.n_features_in_
    ('GaussianMixtureImputer', 2)
    """
    record = read(path, {kind: codec.names for kind, codec in CODECS.items()})
    try:
        return CODECS[record.kind].from_record(record.content, record.arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fsdecode(os.fspath(path))}: {error}") from error


def composed(
    cls: Any,
    *,
    parts: tuple[str, ...],
    state: tuple[str, ...],
    check: Callable[[Any], None] = lambda estimator: None,
) -> Codec:
    """Return the codec of an estimator made of fitted mixtures; see the top of this module."""

    def to_record(estimator: Any) -> tuple[Content, Arrays]:
        of_heads = heads_to_arrays(estimator)
        content, arrays = describe(estimator)
        arrays.update(of_heads)
        content["state"] = {
            name: encode(getattr(estimator, name), f"state.{name}", arrays)
            for name in state
            if hasattr(estimator, name)
        }
        content["parts"], content["mixtures"] = {}, []
        for name in parts:
            held = getattr(estimator, name)
            content["parts"][name] = len(held) if isinstance(held, list | tuple) else None
            for mixture in held if isinstance(held, list | tuple) else [held]:
                inner, inner_arrays = mixture_to_record(mixture)
                prefix = f"mixture.{len(content['mixtures'])}."
                content["mixtures"].append(inner)
                arrays.update({prefix + key: array for key, array in inner_arrays.items()})
        return content, arrays

    def from_record(content: Content, arrays: Arrays) -> Any:
        estimator = rebuild(cls, content, arrays)
        inner = field(content, "mixtures", list)
        mixtures = [mixture_from_record(*part) for part in _split(inner, arrays)]
        values = field(content, "state", dict)
        own = {name for name in arrays if name.startswith("state.")}
        require_same(own, arrays_of(values, "state"), "state")
        for name, value in values.items():
            if name not in state:
                raise ModelFileError(f"A {cls.__name__} has no attribute {name!a}.")
            setattr(estimator, name, decode(value, arrays))
        counts = field(content, "parts", dict)
        require_same(set(counts), set(parts), "parts")
        for name, count in counts.items():
            n_taken = 1 if count is None else count
            if type(n_taken) is not int or not 0 <= n_taken <= len(mixtures):
                raise ModelFileError(f"{name} cannot have {count!a} of {len(mixtures)} mixtures.")
            taken, mixtures = mixtures[:n_taken], mixtures[n_taken:]
            setattr(estimator, name, taken[0] if count is None else taken)
        if mixtures:
            raise ModelFileError(f"{len(mixtures)} mixtures belong to nothing.")
        check(estimator)
        estimator.heads_ = _read_heads(estimator, arrays)
        return estimator

    nested = {f"mixture.*.{name}" for name in array_names(GaussianMixture, MIXTURE_ARRAYS)}
    own = array_names(cls, (*(f"state.{name}" for name in state), *HEAD_ARRAYS))
    return Codec(cls, to_record, from_record, frozenset(own | nested))


def _read_heads(estimator: Any, arrays: Arrays) -> Heads | None:
    """Return the heads of a checked estimator; a classifier's is of the label, the last column."""
    if hasattr(estimator, "mixture_"):
        mixture, targets = estimator.mixture_, getattr(estimator, "n_targets_", 0)
        return heads_from_arrays(arrays, mixture.n_features_in_, mixture._n_levels, targets)
    d, n_levels = estimator.n_features_in_, estimator.mixtures_[0]._n_levels
    counts = np.append(np.zeros(d, dtype=int) if n_levels is None else n_levels, 0)
    counts[-1] = len(estimator.mixtures_)
    return heads_from_arrays(arrays, d + 1, counts, targets=1)


def _split(contents: list[Any], arrays: Arrays) -> list[tuple[Content, Arrays]]:
    """Return content and arrays of each mixture inside."""
    parts: list[tuple[Content, Arrays]] = [(content, {}) for content in contents]
    for name, array in arrays.items():
        if name.startswith("mixture."):
            _, number, inner = name.split(".", 2)
            if int(number) >= len(parts):
                raise ModelFileError(f"{name!a} belongs to none of {len(parts)} mixtures.")
            parts[int(number)][1][inner] = array
    return parts


def _version() -> str:
    try:
        return version("gapmix")
    except PackageNotFoundError:  # used from its sources
        return "unknown"


class TableModel(BaseEstimator):
    """What `gapmix fit` wrote before it wrote imputers: read, never written."""

    mixture_: GaussianMixture
    columns_: Any  # as those of an imputer
    marks_: Any  # texts that stand for a gap
    bounds_: Any  # lowest and highest value of each feature


OLD_TABLE_MODEL = composed(TableModel, parts=("mixture_",), state=("columns_", "marks_", "bounds_"))


def _to_imputer(model: TableModel) -> GaussianMixtureImputer:
    """Return what is applied today in place of an old model of a table."""
    names, marks, bounds, columns = (
        getattr(model, name, None)
        for name in ("feature_names_in_", "marks_", "bounds_", "columns_")
    )
    if (
        names is None
        or len(names) != model.mixture_.n_features_in_
        or not isinstance(marks, list)
        or not all(isinstance(mark, str) for mark in marks)
        or not isinstance(bounds, list)
        or len(bounds) != len(names)
        or not all(isinstance(pair, list) and len(pair) == 2 for pair in bounds)
        or not all(isinstance(end, float) for pair in bounds for end in pair)
        or not all(low <= high and low < np.inf and high > -np.inf for low, high in bounds)
    ):
        raise ModelFileError("Its columns, marks and bounds do not fit together.")
    model.mixture_.feature_names_in_ = names
    imputer = as_imputer(model.mixture_)
    imputer.columns_ = columns
    imputer.bounds = {name: tuple(pair) for name, pair in zip(names, bounds, strict=True)}
    imputer.missing_values = marks or np.nan
    check_imputer(imputer)
    return imputer


CODECS: MappingProxyType[str, Codec] = MappingProxyType(
    {
        "GaussianMixture": Codec(
            GaussianMixture,
            mixture_to_record,
            mixture_from_record,
            frozenset(array_names(GaussianMixture, MIXTURE_ARRAYS)),
        ),
        "GaussianMixtureImputer": composed(
            GaussianMixtureImputer,
            parts=("mixture_",),
            state=(
                *("selection_", "calibration_", "trust_", "hidden_error_"),
                *("n_components_", "n_iter_"),
                *("indicated_", "constant_", "columns_", "passed_", "column_kinds_"),
                *("column_values_", "column_shapes_"),
            ),
            check=check_imputer,
        ),
        "GaussianMixtureRegressor": composed(
            GaussianMixtureRegressor,
            parts=("mixture_",),
            state=("selection_", "n_components_", "n_iter_", "n_targets_", "constant_", "_flat"),
            check=check_regressor,
        ),
        "GaussianMixtureClassifier": composed(
            GaussianMixtureClassifier,
            parts=("mixtures_",),
            state=("classes_", "selection_", "priors_", "exponent_", "n_iter_"),
            check=check_classifier,
        ),
        "TableModel": OLD_TABLE_MODEL._replace(
            from_record=lambda content, arrays: _to_imputer(
                OLD_TABLE_MODEL.from_record(content, arrays)
            )
        ),
    }
)
