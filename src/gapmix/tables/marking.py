"""Marks of gaps as they are given, and what is said of them: where they are, what they wipe out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gapmix.estimators.levels import is_numeral
from gapmix.estimators.marks import DOUBTFUL_LEVELS, USUAL_MARKS, WIPED, Marks
from gapmix.estimators.warning import is_far
from gapmix.tables.schema import CATEGORY, USED, CallError, Column, Note, find_columns
from gapmix.tables.tally import Tally
from gapmix.wording import count, list_names, percent, quote

OPTION = "--missing-values"


def read_missing(
    values: Sequence[str], names: Sequence[str]
) -> tuple[tuple[str, ...], dict[int, tuple[str, ...]]]:
    """Return marks of all columns and of single ones from texts such as "NA,?;A,B=0;C=-200"."""
    common: list[str] = []
    own: dict[int, tuple[str, ...]] = {}
    for item in (item for value in values for item in value.split(";") if item.strip()):
        columns, equals, marks = item.rpartition("=")
        listed = [mark.strip() for mark in marks.split(",")]
        if not equals:
            common += listed
            continue
        found = find_columns(names, (columns.strip(),), OPTION)
        if not found or not marks.strip():
            raise CallError(
                f"{OPTION} {quote(item)} is not understood. Write marks of all columns as NA,-999 "
                "and marks of some columns as A,B=0, with ; between them."
            )
        for j in found:
            own[j] = (*own.get(j, ()), *listed)
    return tuple(common), own


def write_missing(codes: Iterable[tuple[str, float | str]]) -> str:
    """Return the text that names codes as gaps of their columns, as the option takes it."""
    by_code: dict[str, list[str]] = {}
    for name, code in codes:
        text = code if isinstance(code, str) else f"{code:.15g}"
        by_code.setdefault(text, []).append(name)
    return ";".join(f"{','.join(names)}={code}" for code, names in by_code.items())


def note_marks(
    columns: Sequence[Column], tallies: Sequence[Tally], marks: Marks, n_rows: int, *, new: bool
) -> Iterator[Note]:
    """Yield what there is to say of marks; `marks` are those given for all columns.

    They are `new` if the user gave them for this table, not for another that a model comes from.
    """
    found: dict[str, dict[str, int]] = {}
    for column, tally in zip(columns, tallies, strict=True):
        for mark, n_cells in tally.marked.items():
            found.setdefault(mark, {})[column.name] = n_cells
    if found:
        listed = [
            f"{quote(mark)} in {list_names([f'{quote(c)} ({n:,})' for c, n in where.items()])}"
            for mark, where in found.items()
        ]
        yield Note(f"Also taken as gaps, like empty cells and NA: {list_names(listed)}.")
    given = {f"{number:.15g}" for number in marks.numbers}
    given |= {text for text in marks.texts if not is_numeral(text)}
    absent = sorted(mark for mark in given - set(found) if mark.lower() not in USUAL_MARKS)
    if absent and new:
        yield Note(f"{OPTION}: no cell holds {' or '.join(map(quote, absent))}.", warning=True)
    if new:
        yield from _note_doubtful(columns)
    for column, tally in zip(columns, tallies, strict=True):
        for mark in sorted(given & set(tally.marked)) if column.kind in (*USED, "empty") else ():
            yield from _note_wiped(column, tally, mark, n_rows)


def _note_doubtful(columns: Sequence[Column]) -> Iterator[Note]:
    """Yield what there is to say of levels that may stand for gaps."""
    doubtful = [
        (column.name, level)
        for column in columns
        if column.kind == CATEGORY
        for level in column.levels
        if level.strip().lower() in DOUBTFUL_LEVELS
    ]
    if doubtful:
        listed = [f"{quote(level)} in {quote(name)}" for name, level in doubtful]
        one = len(listed) == 1
        yield Note(
            f"Used as {'a level' if one else 'levels'} like any other: {list_names(listed)}. "
            f"If {'it stands for a gap' if one else 'they stand for gaps'}, give "
            f"{OPTION} '{write_missing(doubtful)}'."
        )


def _note_wiped(column: Column, tally: Tally, mark: str, n_rows: int) -> Iterator[Note]:
    n_cells = tally.marked[mark]
    n_shown = n_rows - tally.n_missing + n_cells
    if is_numeral(mark) and tally.low < tally.high and is_far(float(mark), tally.low, tally.high):
        return  # evidently a code
    if mark in column.marks or n_cells <= WIPED * n_shown:
        return
    yield Note(
        f"Column {quote(column.name)}: {quote(mark)} is taken as a gap in "
        f"{count(n_cells, 'cell')}, {percent(n_cells / n_shown)} of the column. If it is a value "
        f"there, name only the columns where it marks a gap: {OPTION} {quote(f'A,B={mark}')}.",
        warning=True,
    )
