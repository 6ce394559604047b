"""Models in files: the imputer that `gapmix fit` saves, or what was fitted and saved in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gapmix.cli.earlier import OneHotModel
from gapmix.cli.requests import Watch
from gapmix.estimators.converted import as_imputer, on_matrices
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.levels import dict_levels
from gapmix.estimators.marks import Marks
from gapmix.estimators.marks import read_marks as read_parameter
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.passing import model_marks
from gapmix.modelfile.files import load, save
from gapmix.storage.recordfile import ModelFileError
from gapmix.tables.cells import read_marks
from gapmix.tables.dates import SPELLINGS
from gapmix.tables.dialect import TableError
from gapmix.tables.schema import CATEGORY, NUMBER, USED, CallError, Column, Schema
from gapmix.tables.spelling import is_spelling
from gapmix.wording import quote

FIELDS = {"name": str, "kind": str, "whole": bool, "levels": list}
MORE = {"missing_values": list, "spelling": str}  # of some columns


def columns_to_plain(schema: Schema) -> list[dict[str, Any]]:
    """Return the columns of a table as plain data."""
    return [
        {"name": c.name, "kind": c.kind, "whole": c.whole, "levels": list(c.levels)}
        | ({"missing_values": list(c.marks)} if c.marks else {})
        | ({"spelling": c.spelling} if c.spelling else {})
        for c in schema.columns
    ]


def schema_of(imputer: GaussianMixtureImputer) -> Schema:
    """Return the columns of the table that an imputer was fitted to."""
    values = iter(imputer.categories_)
    return Schema(
        tuple(
            Column(
                c["name"],
                c["kind"],
                c["whole"],
                tuple(c["levels"]),
                values=tuple(next(values, np.empty(0)).tolist()) if c["kind"] == CATEGORY else (),
                marks=tuple(c.get("missing_values", ())),
                spelling=c.get("spelling", ""),
            )
            for c in imputer.columns_
        )
    )


def apply_to_codes(imputer: GaussianMixtureImputer) -> GaussianMixtureImputer | OneHotModel:
    """Return what fills matrices that have the places of levels for categories."""
    levels = [len(c["levels"]) for c in imputer.columns_ if c["kind"] in USED]
    model = on_matrices(imputer)
    return OneHotModel(model, levels) if _is_earlier(imputer) else model


def _is_earlier(imputer: GaussianMixtureImputer) -> bool:
    """Tell whether a model has columns of 0 and 1 for categories, as those of version 0.1 have."""
    return not imputer.categories_ and any(c["kind"] == CATEGORY for c in imputer.columns_)


def marks_of(imputer: GaussianMixtureImputer, more: tuple[str, ...] = ()) -> Marks:
    """Return what stands for a gap in all columns of a model, and what else a user lists."""
    given = [] if isinstance(imputer.missing_values, dict) else imputer.missing_values
    listed = given if isinstance(given, list | tuple | set | frozenset) else [given]
    return read_marks((*more, *(str(mark) for mark in listed if mark is not None)))


def marks_to_parameter(marks: Marks) -> Any:
    """Return marks as the parameter `missing_values`: numbers as they are read and as written."""
    return [*marks.numbers, *sorted(marks.texts)] or np.nan


def save_model(imputer: GaussianMixtureImputer, path: Path, watch: Watch) -> None:
    """Save a model to a file."""
    watch.writes(path)
    save(imputer, path)


def load_model(path: Path) -> GaussianMixtureImputer:
    """Return the model saved in a file, with the columns of its table."""
    if not path.is_file():
        raise CallError(f"There is no model file {quote(str(path))}.")
    try:
        model = load(path)
        if isinstance(model, GaussianMixture):
            model = as_imputer(model)
        if not isinstance(model, GaussianMixtureImputer):
            raise ModelFileError(
                f"It holds a {type(model).__name__}; the command line applies what `gapmix fit` "
                "saves, a GaussianMixture or a GaussianMixtureImputer."
            )
        _check(model)
    except (ValueError, OSError) as error:
        raise TableError(f"The model {quote(str(path))} cannot be used. {error}") from error
    return model


def _check(imputer: GaussianMixtureImputer) -> None:
    """Raise an error unless an imputer can be applied to tables; one from Python gets columns."""
    names = getattr(imputer, "feature_names_in_", None)
    if names is None:
        raise ModelFileError(
            "It was fitted to rows without column names, so its columns cannot be found in a table."
        )
    if imputer.use_target:
        raise ModelFileError("It was fitted with a target, which a table does not have.")
    if not hasattr(imputer, "columns_"):
        levels = dict_levels(imputer)
        own = read_parameter(model_marks(imputer), names, len(names)).own
        marks = {j: (*map(_spell, m.numbers), *sorted(m.texts)) for j, m in own.items()}
        columns = tuple(
            Column(
                str(name),
                CATEGORY if j in levels else NUMBER,
                levels=tuple(map(_spell, levels[j].tolist())) if j in levels else (),
                marks=marks.get(j, ()),
            )
            for j, name in enumerate(names)
        )
        imputer.columns_ = columns_to_plain(Schema(columns))
    right = isinstance(imputer.columns_, list) and all(
        isinstance(c, dict)
        and set(FIELDS) <= set(c) <= set(FIELDS | MORE)
        and all(type(c[name]) is kind for name, kind in (FIELDS | MORE).items() if name in c)
        and all(isinstance(text, str) for text in (*c["levels"], *c.get("missing_values", ())))
        and is_spelling(c.get("spelling", SPELLINGS[0]))
        and (c["kind"] != CATEGORY or len(set(c["levels"])) == len(c["levels"]) > 0)
        for c in imputer.columns_
    )
    if not right or not _fits(imputer):
        raise ModelFileError("Its columns do not fit together.")


def _fits(imputer: GaussianMixtureImputer) -> bool:
    """Tell whether the columns that were written are those of the mixture."""
    used = [c for c in imputer.columns_ if c["kind"] in USED]
    if _is_earlier(imputer):
        return sum(max(1, len(c["levels"]) - 1) for c in used) == imputer.n_features_in_
    levels = [len(c["levels"]) for c in used if c["kind"] == CATEGORY]
    return [c["kind"] == CATEGORY for c in used] == imputer.is_categorical_.tolist() and levels == [
        len(each) for each in imputer.categories_
    ]


def _spell(level: Any) -> str:
    """Return how a level is written in a table: whole numbers without a point."""
    return str(level).removesuffix(".0") if isinstance(level, float) else str(level)
