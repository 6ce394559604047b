"""Jobs that look at a table or a model and change nothing: describe, info."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gapmix.cli.drawing import draw_gaps
from gapmix.cli.models import load_model
from gapmix.cli.reading import read_table
from gapmix.cli.requests import Fitting, Reading, Watch
from gapmix.estimators.glance import list_best, list_united
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.shaped import find_centers
from gapmix.kinds import look, tell
from gapmix.plan.patterns import count_rows, find_patterns
from gapmix.plan.planner import make_plan
from gapmix.selection import sizes
from gapmix.solvers.calibrate import costs_for
from gapmix.structures import STRUCTURES, suit
from gapmix.tables.dates import show_days
from gapmix.tables.schema import DATE, NUMBER, feature_names, features, unique_names
from gapmix.tables.spelling import is_date

MAX_PATTERNS = 8  # the most frequent ones, listed


class ColumnFacts(NamedTuple):
    """What a column holds."""

    name: str
    kind: str
    n_missing: int
    share_missing: float
    low: float | str | None  # a text of dates
    mean: float | str | None
    high: float | str | None
    levels: tuple[str, ...]


class PatternFacts(NamedTuple):
    """A pattern of gaps."""

    n_rows: int
    missing: tuple[str, ...]


class Description(NamedTuple):
    """What a table holds."""

    path: str
    n_rows: int
    n_columns: int
    n_used: int
    columns: tuple[ColumnFacts, ...]
    n_missing: int  # cells of all columns
    share_missing: float
    n_complete: int  # rows
    n_empty: int  # rows
    n_patterns: int
    patterns: tuple[PatternFacts, ...]
    plan: str
    observed: np.ndarray  # (n, D) bool
    codes: dict[str, dict[str, float]]  # values that may stand for gaps, by column


def describe(path: str | Path, reading: Reading, fitting: Fitting, watch: Watch) -> Description:
    """Return rows, columns, gaps, patterns, and how a fit would go about it."""
    watch.plan("reading")
    table = read_table(path, reading, watch)
    schema, matrix = table.scan.schema, table.scan.matrix
    if fitting.plots is not None and matrix.shape[1]:
        draw_gaps(table, fitting.plots, watch)
    layout, names = features(schema), feature_names(schema)
    labels = unique_names([column.name for column in schema.columns])
    place = {j: f for f, j in enumerate(layout)}
    facts = []
    for j, column in enumerate(schema.columns):
        low = mean = high = None
        kind = column.kind
        if column.kind == NUMBER:
            values = matrix[:, place[j]]
            kind = DATE if is_date(column.spelling) else tell(look(values))
            ends = np.array([f(values) for f in (np.nanmin, np.nanmean, np.nanmax)])
            dated = kind == DATE
            low, mean, high = show_days(ends, column.spelling) if dated else ends.tolist()
        share = column.n_missing / schema.n_rows
        facts.append(
            ColumnFacts(labels[j], kind, column.n_missing, share, low, mean, high, column.levels)
        )
    observed = ~np.isnan(matrix)
    every = find_patterns(observed)
    rows = count_rows(every)
    often = np.argsort(-rows, kind="stable")[:MAX_PATTERNS]
    explanation = "There are no numbers to fit."
    is_number = np.array([schema.columns[j].kind == NUMBER for j in layout], dtype=bool)
    if is_number.any():  # categories have no factors to plan
        patterns = find_patterns(observed[:, is_number])
        n_components = fitting.components or 5
        wide = STRUCTURES[suit(len(observed), int(is_number.sum()))].n_factors > 0
        explanation = make_plan(
            patterns,
            n_components,
            n_factors=sizes.FACTORS[0] if wide else 0,
            costs=costs_for(patterns, n_components),
        ).explain()
    return Description(
        str(path),
        schema.n_rows,
        len(schema.columns),
        len(layout),
        tuple(facts),
        sum(column.n_missing for column in schema.columns),
        sum(column.n_missing for column in schema.columns)
        / max(1, schema.n_rows * len(schema.columns)),
        int(observed.all(axis=1).sum()),
        int((~observed).all(axis=1).sum()),
        len(rows),
        tuple(
            PatternFacts(int(rows[p]), tuple(names[f] for f in np.flatnonzero(~every.observed[p])))
            for p in often
        ),
        explanation,
        observed,
        {
            name: {"value": code.value, "n_cells": code.n_cells, "low": code.low, "high": code.high}
            for name, code in table.codes.items()
        },
    )


class ModelFacts(NamedTuple):
    """What a model file holds."""

    path: str
    n_components: int
    n_features: int
    columns: tuple[dict[str, Any], ...]
    weights: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]  # by component
    feature_names: tuple[str, ...]  # of the columns of numbers
    categories: dict[str, tuple[dict[str, float], ...]]  # by component, probabilities of levels
    n_iter: int
    converged: bool
    stop_reason: str
    log_likelihood: float
    covariance_type: str
    united: tuple[int, ...]  # sizes of the mixtures that were averaged; empty for one alone
    shown: tuple[int, ...]  # the components that describe all rows by themselves


def info(path: Path) -> ModelFacts:
    """Return what is in a model file."""
    imputer = load_model(path)
    mixture = imputer.mixture_
    return ModelFacts(
        str(path),
        len(mixture.weights_),
        imputer.n_features_in_,
        tuple(imputer.columns_),
        tuple(mixture.weights_.tolist()),
        tuple(tuple(row) for row in find_centers(imputer).tolist()),
        tuple(imputer.feature_names_in_[~imputer.is_categorical_].tolist()),
        _name_probabilities(imputer),
        mixture.n_iter_,
        bool(mixture.converged_),
        mixture.stop_reason_,
        float(mixture.history_[-1].log_likelihood),
        mixture.covariance_type,
        list_united(imputer),
        tuple(list_best(imputer)),
    )


def _name_probabilities(imputer: GaussianMixtureImputer) -> dict[str, tuple[dict[str, float], ...]]:
    """Return the probabilities of the levels of each category in each component."""
    names = imputer.feature_names_in_[imputer.is_categorical_].tolist()
    return {
        str(name): tuple(
            {str(level): float(p) for level, p in zip(levels.tolist(), row, strict=True)}
            for row in table
        )
        for name, levels, table in zip(
            names, imputer.categories_, imputer.mixture_.category_probabilities_, strict=True
        )
    }
