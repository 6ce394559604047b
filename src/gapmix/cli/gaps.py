"""The gaps of a table, all of them: filled, or not filled and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gapmix.selection.sizes import measure_spread
from gapmix.tables.schema import (
    CATEGORY,
    DATE,
    EMPTY,
    ID,
    NUMBER,
    TEXT,
    UNUSED,
    Column,
    Schema,
    is_filled,
    unique_names,
)

REASONS = {
    ID: "an id",
    DATE: "dates",
    TEXT: "texts",
    EMPTY: "no values",
    UNUSED: "left out, as asked",
    NUMBER: "kept, as asked",
    CATEGORY: "kept, as asked",
}


MAX_LOOKED_AT = 1_000  # rows with gaps that tell how sure filled cells are


class Sureness(NamedTuple):
    """How sure filled cells are on average, by the model's own account; NaN if there are none."""

    explained: float  # share of the variance of numbers that the rest of their row settles, 0 to 1
    probability: float  # of the levels filled in


def measure_sureness(model: Any, x: np.ndarray, columns: Sequence[Column]) -> Sureness | None:
    """Return how sure a model at work on matrices is of gaps that are filled, None without any.

    x holds rows of the columns that the model uses, (n, D); the first thousand or so are looked at.
    """
    filled = np.array([is_filled(column) for column in columns], dtype=bool)
    is_level = np.array([column.kind == CATEGORY for column in columns], dtype=bool)
    rows = np.flatnonzero((np.isnan(x) & filled).any(axis=1))
    if not rows.size:
        return None
    rows = rows[:: -(-rows.size // MAX_LOOKED_AT)]
    gaps = np.isnan(x[rows]) & filled
    _, std = model.impute_with_std(x[rows])
    spread = measure_spread(x)
    levels, numbers = gaps & is_level, gaps & ~is_level & (spread > 0)
    relative = std / np.where(spread > 0, spread, 1.0)
    return Sureness(
        float(max(0.0, 1.0 - np.mean(relative[numbers] ** 2))) if numbers.any() else np.nan,
        float(1.0 - std[levels].mean()) if levels.any() else np.nan,
    )


class Unfilled(NamedTuple):
    """A column whose gaps stay."""

    column: str
    n_gaps: int
    reason: str


def count_gaps(schema: Schema, *, known: bool) -> tuple[dict[str, int], tuple[Unfilled, ...]]:
    """Return the gaps that are filled, by column, and those that are not.

    `known` if a model that was fitted before says which columns are used.
    """
    reasons = {**REASONS, UNUSED: "not used by the model"} if known else REASONS
    filled, unfilled = {}, []
    labels = unique_names([column.name for column in schema.columns])
    for label, column in zip(labels, schema.columns, strict=True):
        if column.n_missing and is_filled(column):
            filled[label] = column.n_missing
        elif column.n_missing:
            unfilled.append(Unfilled(label, column.n_missing, reasons[column.kind]))
    return filled, tuple(unfilled)
