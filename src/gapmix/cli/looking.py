"""Jobs that look at a table or a model and change nothing: describe, info."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gapmix.cli.drawing import draw_gaps
from gapmix.cli.models import load_model
from gapmix.cli.reading import read_table
from gapmix.cli.requests import Fitting, Reading, Watch
from gapmix.plan.patterns import count_rows, find_patterns
from gapmix.plan.planner import make_plan
from gapmix.solvers.calibrate import costs_for
from gapmix.tables.schema import CATEGORY, NUMBER, feature_names, features, unique_names

MAX_PATTERNS = 8  # the most frequent ones, listed


class ColumnFacts(NamedTuple):
    """What a column holds."""

    name: str
    kind: str
    n_missing: int
    share_missing: float
    low: float | None
    mean: float | None
    high: float | None
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
    share_missing: float  # of the cells that are used
    n_complete: int  # rows
    n_empty: int  # rows
    n_patterns: int
    patterns: tuple[PatternFacts, ...]
    plan: str
    observed: np.ndarray  # (n, D) bool


def describe(path: str | Path, reading: Reading, fitting: Fitting, watch: Watch) -> Description:
    """Return rows, columns, gaps, patterns, and how a fit would go about it."""
    table = read_table(path, reading, watch)
    schema, matrix = table.scan.schema, table.scan.matrix
    if fitting.plots is not None and matrix.shape[1]:
        draw_gaps(table, fitting.plots, watch)
    layout, names = features(schema), feature_names(schema)
    labels = unique_names([column.name for column in schema.columns])
    place = {feature.column: f for f, feature in enumerate(layout)}
    facts = []
    for j, column in enumerate(schema.columns):
        low = mean = high = None
        if column.kind == NUMBER:
            values = matrix[:, place[j]]
            low, mean, high = (float(f(values)) for f in (np.nanmin, np.nanmean, np.nanmax))
        share = column.n_missing / schema.n_rows
        facts.append(
            ColumnFacts(
                labels[j], column.kind, column.n_missing, share, low, mean, high, column.levels
            )
        )
    observed = ~np.isnan(matrix)
    patterns = find_patterns(observed)
    rows = count_rows(patterns)
    often = np.argsort(-rows, kind="stable")[:MAX_PATTERNS]
    used = [column for column in schema.columns if column.kind in (NUMBER, CATEGORY)]
    n_missing = sum(column.n_missing for column in used)
    explanation = "There are no numbers to fit."
    if layout:
        n_components = fitting.components or 5
        explanation = make_plan(
            patterns, n_components, costs=costs_for(patterns, n_components)
        ).explain()
    return Description(
        str(path),
        schema.n_rows,
        len(schema.columns),
        len(used),
        tuple(facts),
        n_missing / max(1, schema.n_rows * len(used)),
        int(observed.all(axis=1).sum()),
        int((~observed).all(axis=1).sum()),
        len(rows),
        tuple(
            PatternFacts(
                int(rows[p]), tuple(names[f] for f in np.flatnonzero(~patterns.observed[p]))
            )
            for p in often
        ),
        explanation,
        observed,
    )


class ModelFacts(NamedTuple):
    """What a model file holds."""

    path: str
    n_components: int
    n_features: int
    columns: tuple[dict[str, Any], ...]
    weights: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]  # by component
    feature_names: tuple[str, ...]
    n_iter: int
    converged: bool
    stop_reason: str
    log_likelihood: float
    covariance_type: str


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
        tuple(tuple(row) for row in mixture.means_.tolist()),
        tuple(imputer.feature_names_in_),
        mixture.n_iter_,
        bool(mixture.converged_),
        mixture.stop_reason_,
        float(mixture.history_[-1].log_likelihood),
        mixture.covariance_type,
    )
