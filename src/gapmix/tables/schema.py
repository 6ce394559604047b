"""What the columns of a table are and what is done with them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from gapmix import wording
from gapmix.wording import list_names, quote

NUMBER, CATEGORY = "number", "category"  # used in the model
ID, DATE, TEXT, EMPTY, UNUSED = "id", "date", "text", "empty", "unused"  # passed through
USED = (NUMBER, CATEGORY)
MAX_LEVELS = 1000  # of a column that is named as a category
MAX_LISTED = 8  # names in a message before "and N more"


class CallError(ValueError):
    """A call that cannot be carried out as it is given; the message says what to give instead."""


class Column(NamedTuple):
    """One column of a table."""

    name: str  # as it stands in the table
    kind: str
    whole: bool = False  # numbers, all of them whole and below 2^53
    levels: tuple[str, ...] = ()  # of a category, as they are spelled; in a matrix, their places
    n_missing: int = 0
    large: bool = False  # integers, some of them beyond 2^53, which floats would change
    long: bool = False  # text with whole numbers that no type holds: it is written as text
    values: tuple[Any, ...] = ()  # the levels as a table with types holds them
    loose: bool = False  # numbers among other texts, which are gaps as asked
    keep: bool = False  # used, but its gaps are not filled
    marks: tuple[str, ...] = ()  # what stands for a gap in this column only
    spelling: str = ""  # of dates, "%d.%m.%Y", and numbers, "#,##0.0 kg"


class Schema(NamedTuple):
    """The columns of a table, in order, and how many rows they have."""

    columns: tuple[Column, ...]
    n_rows: int = 0


class Roles(NamedTuple):
    """What the caller wants done with columns, by name or pattern."""

    columns: tuple[str, ...] = ()  # use only these; none means all
    leave_out: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()  # use these, but do not fill them
    id: str | None = None


class Note(NamedTuple):
    """Something the user should know."""

    text: str
    warning: bool = False


def features(schema: Schema) -> tuple[int, ...]:
    """Return the columns of the table that are columns of the matrix, in order."""
    return tuple(j for j, column in enumerate(schema.columns) if column.kind in USED)


def feature_names(schema: Schema) -> list[str]:
    """Return a name for each column of the matrix, all different."""
    names = unique_names([column.name for column in schema.columns])
    return [names[j] for j in features(schema)]


def is_filled(column: Column) -> bool:
    """Tell whether the gaps of a column are filled."""
    return column.kind in USED and not column.keep


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names that are all different: those used twice or empty get their position."""
    counts = Counter(names)
    return [
        name if name and counts[name] == 1 else f"{name or 'column'} ({j + 1})"
        for j, name in enumerate(names)
    ]


def find_column(names: Sequence[str], name: str, option: str) -> int:
    """Return the position of a column named in an option; see `unique_names`."""
    places = [j for j, other in enumerate(names) if other == name]
    if len(places) == 1:
        return places[0]
    labels = unique_names(names)
    if places:
        raise CallError(
            f"{option} names the column {quote(name)}, but {len(places)} columns have that name. "
            f"Use one of {list_columns([labels[j] for j in places])}."
        )
    if labels.count(name) == 1:
        return labels.index(name)
    near = difflib.get_close_matches(name, names, n=1) or [
        other for other in names if other.strip().lower() == name.strip().lower()
    ]
    hint = f"Did you mean {quote(near[0])}?" if near else f"It has {list_columns(names)}."
    raise CallError(f"{option}: the table has no column {quote(name)}. {hint}")


def assign_roles(names: Sequence[str], roles: Roles) -> list[str]:
    """Return "use", "category", "numbers" or "pass" for every column.

    What an option names counts more than what a pattern of another one matches.
    """
    result = ["pass" if roles.columns else "use"] * len(names)
    by: dict[int, tuple[str, bool]] = {}  # option, and whether it names the column
    for option, listed, role in (
        ("--columns", roles.columns, "use"),
        ("--categories", roles.categories, "category"),
        ("--numbers", roles.numbers, "numbers"),
        ("--leave-out", roles.leave_out, "pass"),
        ("--id", (roles.id,) if roles.id is not None else (), "pass"),
    ):
        for j, named in find_columns(names, listed, option).items():
            other, was_named = by.get(j, ("", False))
            if named == was_named and other not in ("", "--columns"):
                raise CallError(f"The column {quote(names[j])} is named by {other} and {option}.")
            if named or not was_named or other == "--columns":
                result[j], by[j] = role, (option, named)
    return result


def find_kept(names: Sequence[str], roles: Roles, assigned: Sequence[str]) -> frozenset[int]:
    """Return the columns that are used but not filled."""
    kept = find_columns(names, roles.keep, "--keep")
    for j, named in kept.items():
        if named and assigned[j] == "pass":
            raise CallError(
                f"--keep: the column {quote(names[j])} is not used, so it stays as it is anyway."
            )
    return frozenset(kept)


def find_columns(names: Sequence[str], listed: Sequence[str], option: str) -> dict[int, bool]:
    """Return the columns that names and patterns in lists such as "a,b*" mean; True if by name.

    A column whose own name has commas, or signs of a pattern, is one name.
    """
    found: dict[int, bool] = {}
    known = {*names, *unique_names(names)}
    for item in listed:
        parts = [part.strip() for part in item.split(",")]
        for part in [item] if item in known or option == "--id" else [p for p in parts if p]:
            if part in known or option == "--id" or not any(sign in part for sign in "*?["):
                found[find_column(names, part, option)] = True
                continue
            matched = [j for j, name in enumerate(names) if fnmatchcase(name, part)]
            if not matched:
                raise CallError(
                    f"{option}: no column matches {quote(part)}. It has {list_columns(names)}."
                )
            found |= {j: found.get(j, False) for j in matched}
    return found


def list_columns(names: Sequence[str]) -> str:
    """Return names for a message, cut after a few."""
    return list_names([quote(name) for name in names], MAX_LISTED)


def name_columns(names: Sequence[str]) -> str:
    """Return "Column 'a'" or "Columns 'a', 'b'", to begin a sentence with."""
    return wording.name_columns([quote(name) for name in names], MAX_LISTED)
