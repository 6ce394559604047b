"""Models of tables in files: what `gapmix fit` saves, or a mixture that was fitted in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gapmix.estimators.bounds import read_bounds
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.tablemodel import TableModel
from gapmix.modelfile.files import load, save
from gapmix.storage.recordfile import ModelFileError
from gapmix.tables.dialect import TableError
from gapmix.tables.schema import CATEGORY, NUMBER, CallError, Column, Schema, features, show

FIELDS = {"name": str, "kind": str, "whole": bool, "levels": list}


def columns_to_plain(schema: Schema) -> list[dict[str, Any]]:
    """Return the columns of a table as plain data."""
    return [
        {"name": c.name, "kind": c.kind, "whole": c.whole, "levels": list(c.levels)}
        for c in schema.columns
    ]


def columns_from_plain(columns: list[dict[str, Any]]) -> Schema:
    """Return the schema of columns that were plain data."""
    return Schema(
        tuple(Column(c["name"], c["kind"], c["whole"], tuple(c["levels"])) for c in columns)
    )


def save_model(model: TableModel, path: Path) -> None:
    """Save a model to a file."""
    try:
        save(model, path)
    except OSError as error:
        raise CallError(f"The model cannot be saved as {show(str(path))}: {error}.") from error


def load_model(path: Path) -> TableModel:
    """Return the model saved in a file."""
    if not path.is_file():
        raise CallError(f"There is no model file {show(str(path))}.")
    try:
        model = load(path)
        if isinstance(model, GaussianMixture | GaussianMixtureImputer):
            model = _with_columns(model)
        if not isinstance(model, TableModel):
            raise ModelFileError(
                f"It holds a {type(model).__name__}; the command line applies what `gapmix fit` "
                "saves, a GaussianMixture or a GaussianMixtureImputer."
            )
        _check(model)
    except (ModelFileError, OSError) as error:
        raise TableError(f"The model {show(str(path))} cannot be used. {error}") from error
    return model


def _with_columns(fitted: GaussianMixture | GaussianMixtureImputer) -> TableModel:
    """Return what was fitted in Python to a table with names as a model of tables."""
    names = getattr(fitted, "feature_names_in_", None)
    if names is None:
        raise ModelFileError(
            "It was fitted to rows without column names, so its columns cannot be found in a table."
        )
    labels = [str(name) for name in names]
    bounds = [[-np.inf, np.inf] for _ in labels]
    marks: list[str] = []
    mixture = fitted
    if isinstance(fitted, GaussianMixtureImputer):
        if fitted.use_target:
            raise ModelFileError("It was fitted with a target, which a table does not have.")
        low, high = read_bounds(fitted.bounds, labels, names)
        bounds = [[float(a), float(b)] for a, b in zip(low, high, strict=True)]
        marks = [str(mark) for mark in np.atleast_1d(fitted.missing_values) if mark == mark]
        mixture = fitted.mixture_
    if hasattr(mixture, "feature_names_in_"):
        del mixture.feature_names_in_  # rows are given to it without names
    columns = [{"name": name, "kind": NUMBER, "whole": False, "levels": []} for name in labels]
    return TableModel().fit(mixture, names=labels, columns=columns, marks=marks, bounds=bounds)


def _check(model: TableModel) -> None:
    """Raise an error unless columns, marks and bounds fit together and to the mixture."""
    columns, marks, bounds = model.columns_, model.marks_, model.bounds_
    right = isinstance(columns, list) and all(
        isinstance(c, dict)
        and set(c) == set(FIELDS)
        and all(type(c[name]) is kind for name, kind in FIELDS.items())
        and all(isinstance(level, str) for level in c["levels"])
        and (c["kind"] != CATEGORY or len(c["levels"]) > 1)
        for c in columns
    )
    right = right and isinstance(marks, list) and all(isinstance(mark, str) for mark in marks)
    right = right and isinstance(bounds, list) and len(bounds) == model.n_features_in_
    right = right and all(
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(value, float) for value in pair)
        and pair[0] <= pair[1]
        for pair in bounds
    )
    right = right and len(features(columns_from_plain(columns))) == model.n_features_in_
    if not right or model.mixture_.n_features_in_ != model.n_features_in_:
        raise ModelFileError("Its columns, marks and bounds do not fit together.")
