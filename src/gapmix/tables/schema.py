"""What the columns of a table are and what is done with them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gapmix import wording
from gapmix.wording import list_names, quote

NUMBER, CATEGORY, TEXT, EMPTY, UNUSED = "number", "category", "text", "empty", "unused"
MAX_LEVELS = 200
MAX_LISTED = 8  # names in a message before "and N more"


class CallError(ValueError):
    """A call that cannot be carried out as it is given; the message says what to give instead."""


class Column(NamedTuple):
    """One column of a table."""

    name: str  # as it stands in the table
    kind: str  # NUMBER and CATEGORY are used; the others are passed through
    whole: bool = False  # numbers, all of them whole and below 2^53
    levels: tuple[str, ...] = ()  # of a category, sorted; the first is the one the others leave out
    n_missing: int = 0
    large: bool = False  # integers, some of them beyond 2^53, which floats would change
    long: bool = False  # text with whole numbers that no type holds: it is written as text


class Feature(NamedTuple):
    """One column of the matrix: a column of numbers, or one level of a category."""

    column: int
    level: int = -1  # 1, 2, ... of a category: level 0 is where all others are 0


class Schema(NamedTuple):
    """The columns of a table, in order, and how many rows they have."""

    columns: tuple[Column, ...]
    n_rows: int = 0


class Roles(NamedTuple):
    """What the caller wants done with columns, by name."""

    columns: tuple[str, ...] = ()  # use only these; none means all
    leave_out: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    id: str | None = None


class Note(NamedTuple):
    """Something the user should know."""

    text: str
    warning: bool = False


def features(schema: Schema) -> tuple[Feature, ...]:
    """Return the columns of the matrix: levels but the first give a coding of full rank."""
    return tuple(
        feature
        for j, column in enumerate(schema.columns)
        for feature in (
            [Feature(j)]
            if column.kind == NUMBER
            else [Feature(j, level) for level in range(1, len(column.levels))]
            if column.kind == CATEGORY
            else []
        )
    )


def feature_names(schema: Schema) -> list[str]:
    """Return a name for each column of the matrix, all different."""
    names = unique_names([column.name for column in schema.columns])
    return unique_names(
        [
            names[f.column] if f.level < 0 else f"{names[f.column]}={_level(schema, f)}"
            for f in features(schema)
        ]
    )


def _level(schema: Schema, feature: Feature) -> str:
    return schema.columns[feature.column].levels[feature.level]


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names that are all different: those used twice or empty get their position."""
    counts = Counter(names)
    return [
        name if name and counts[name] == 1 else f"{name or 'column'} ({j + 1})"
        for j, name in enumerate(names)
    ]


def find_column(names: Sequence[str], name: str, option: str) -> int:
    """Return the position of a column named in an option."""
    places = [j for j, other in enumerate(names) if other == name]
    if len(places) == 1:
        return places[0]
    if places:
        listed = ", ".join(str(j + 1) for j in places)
        raise CallError(
            f"{option} names the column {quote(name)}, but {len(places)} columns have that name "
            f"(numbers {listed}). Rename them first."
        )
    near = difflib.get_close_matches(name, names, n=1) or [
        other for other in names if other.strip().lower() == name.strip().lower()
    ]
    hint = f"Did you mean {quote(near[0])}?" if near else f"It has {list_columns(names)}."
    raise CallError(f"{option}: the table has no column {quote(name)}. {hint}")


def assign_roles(names: Sequence[str], roles: Roles) -> list[str]:
    """Return "use", "one-hot" or "pass" for every column."""
    result = ["pass" if roles.columns else "use"] * len(names)
    for option, listed, role in (
        ("--columns", roles.columns, "use"),
        ("--one-hot", roles.one_hot, "one-hot"),
        ("--leave-out", roles.leave_out, "pass"),
        ("--id", (roles.id,) if roles.id is not None else (), "pass"),
    ):
        for name in listed if option == "--id" else _split_lists(names, listed):
            j = find_column(names, name, option)
            if role == "pass" and result[j] == "one-hot":
                raise CallError(f"The column {quote(name)} is named by --one-hot and by {option}.")
            result[j] = role
    return result


def _split_lists(names: Sequence[str], listed: Sequence[str]) -> list[str]:
    """Return the names in lists such as "a,b"; a column whose own name has commas is one name."""
    result = []
    for item in listed:
        parts = [part.strip() for part in item.split(",")]
        result += [item] if item in names else [part for part in parts if part]
    return result


def list_columns(names: Sequence[str]) -> str:
    """Return names for a message, cut after a few."""
    return list_names([quote(name) for name in names], MAX_LISTED)


def name_columns(names: Sequence[str]) -> str:
    """Return "Column 'a'" or "Columns 'a', 'b'", to begin a sentence with."""
    return wording.name_columns([quote(name) for name in names], MAX_LISTED)
