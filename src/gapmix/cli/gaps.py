"""The gaps of a table, all of them: filled, or not filled and why."""

from __future__ import annotations

from typing import NamedTuple

from gapmix.tables.schema import (
    CATEGORY,
    DATE,
    EMPTY,
    ID,
    NUMBER,
    TEXT,
    UNUSED,
    Schema,
    is_filled,
    unique_names,
)

REASONS = {
    ID: "an id",
    DATE: "dates",
    TEXT: "texts",
    EMPTY: "no value in any row",
    UNUSED: "left out, as asked",
    NUMBER: "kept, as asked",
    CATEGORY: "kept, as asked",
}


class Unfilled(NamedTuple):
    """A column whose gaps stay."""

    column: str
    n_gaps: int
    reason: str


def count_gaps(schema: Schema, *, known: bool) -> tuple[dict[str, int], tuple[Unfilled, ...]]:
    """Return the gaps that are filled, by column, and those that are not.

    `known` if a model that was fitted before says which columns are used.
    """
    reasons = {**REASONS, UNUSED: "not known to the model"} if known else REASONS
    filled, unfilled = {}, []
    labels = unique_names([column.name for column in schema.columns])
    for label, column in zip(labels, schema.columns, strict=True):
        if column.n_missing and is_filled(column):
            filled[label] = column.n_missing
        elif column.n_missing:
            unfilled.append(Unfilled(label, column.n_missing, reasons[column.kind]))
    return filled, tuple(unfilled)
