"""The first look at a table: which columns are numbers, where gaps are, and the matrix to fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from gapmix.estimators.marks import Marks
from gapmix.tables.cells import parse_levels, parse_numbers, refuse_infinite
from gapmix.tables.dialect import TableError
from gapmix.tables.schema import (
    CATEGORY,
    EMPTY,
    MAX_LEVELS,
    NUMBER,
    TEXT,
    UNUSED,
    Column,
    Note,
    Schema,
    features,
    list_columns,
    name_columns,
)
from gapmix.tables.source import Chunk, Source
from gapmix.wording import quote

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

FIT_COPIES = 4.5  # what a fit holds at its peak, in matrices
LARGEST_WHOLE = 2.0**53  # beyond it a float does not hold every whole number
MOSTLY = 0.5  # a column with this share of numbers is probably meant as one


class Scan(NamedTuple):
    """What a table holds."""

    schema: Schema
    matrix: np.ndarray  # (n, D) NaN where missing; (0, D) if it was not to be kept
    notes: tuple[Note, ...]


class _Tally:
    """What has been seen of a column; filled chunk by chunk, the only mutable record here."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.parts: list[np.ndarray] = []  # values, or codes of levels with -1 for a gap
        self.codes: dict[str, int] = {}
        self.n_numbers = self.n_missing = self.n_other = 0
        self.first_other = 0
        self.others: tuple[str, ...] = ()
        self.whole = self.integers = True
        self.long = False
        self.what = "text"  # what it is if it is not numbers


def scan(
    source: Source,
    roles: list[str] | None = None,
    marks: Marks | None = None,
    *,
    keep: bool = True,
    max_bytes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Scan:
    """Read a table once and return its schema and matrix.

    `roles` has "use", "one-hot" or "pass" for every column (`schema.assign_roles`).
    `max_bytes` is the memory a fit may use; without it, what the machine has to spare. `progress`
    is called with the number of rows read so far.
    """
    marks = Marks() if marks is None else marks
    tallies = [_Tally(role) for role in roles or ["use"] * len(source.names)]
    n_rows = 0
    for chunk in source.chunks():
        for j, tally in enumerate(tallies):
            if tally.role != "pass" and not (tally.n_other and tally.role == "use"):
                _look(tally, chunk, j, source, marks, keep)
        n_rows += len(chunk.frame)
        if keep:
            _check_memory(source, tallies, n_rows, max_bytes)
        if progress is not None:
            progress(n_rows)
    if n_rows == 0:
        raise TableError("The table has a header but no rows.")
    columns = [
        _column(name, tally, n_rows) for name, tally in zip(source.names, tallies, strict=True)
    ]
    schema = Schema(tuple(columns), n_rows)
    notes = (*source.notes, *_notes(source, columns, tallies, n_rows))
    return Scan(schema, _assemble(schema, tallies, keep), notes)


def available_bytes() -> int:
    """Return how much memory the machine has to spare."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 2**63


def typed_numbers(series: Any) -> np.ndarray | None:
    """Return a narwhals series as floats with NaN for gaps, None if it does not hold numbers."""
    if not series.dtype.is_numeric():
        return None
    return np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


def read_integers(series: Any, gaps: np.ndarray) -> Any:
    """Return a narwhals series as integers, null at gaps and where the cell is none.

    Texts become 64-bit integers; typed integers keep their type.
    """
    if series.dtype == nw.String:
        texts = nw.to_native(series).str.strip_chars().str.strip_prefix("+")
        values = texts.cast(pl.Int64, strict=False).set(pl.Series(gaps), None)
        return nw.from_native(values, series_only=True)
    return series if series.dtype.is_integer() else series.filter([False] * len(series))


def typed_levels(series: Any) -> list[str | None]:
    """Return a narwhals series as texts with None for gaps."""
    gaps = series.is_null().to_list()
    return [
        None if gap or (isinstance(value, float) and value != value) else str(value)
        for value, gap in zip(series.to_list(), gaps, strict=True)
    ]


def _look(tally: _Tally, chunk: Chunk, j: int, source: Source, marks: Marks, keep: bool) -> None:
    series = chunk.frame[:, j]
    if tally.role == "one-hot":
        _look_at_levels(tally, series, source, marks, source.names[j])
        return
    if source.dialect is None:
        values = typed_numbers(series)
        if values is None:
            n_null = int(series.null_count())
            tally.n_other += len(series) - n_null
            tally.n_missing += n_null
            tally.what = str(series.dtype).split("(")[0].lower()
            return
        for code in marks.numbers:
            values[values == code] = np.nan
    else:
        parsed = parse_numbers(nw.to_native(series), marks, source.dialect.decimal)
        values = parsed.values
        if parsed.n_other:
            tally.n_other, tally.others = parsed.n_other, parsed.others
            tally.first_other = chunk.first_row + parsed.first_other
            tally.parts.clear()
    gaps = np.isnan(values)
    tally.n_missing += int(gaps.sum()) - tally.n_other
    tally.n_numbers += len(values) - int(gaps.sum())
    if tally.n_other:
        return
    refuse_infinite(values, chunk.first_row, quote(source.names[j]))
    known = values[~gaps]
    is_whole = bool((known == np.round(known)).all())
    is_small = bool(np.abs(known).max(initial=0.0) < LARGEST_WHOLE)
    tally.whole = tally.whole and is_whole and is_small
    if source.dialect is not None and not is_small:
        tally.long = tally.long or _changes_as_float(series, values)
    tally.integers = tally.integers and (
        is_whole and (is_small or len(known) == int(read_integers(series, gaps).count()))
    )
    if keep:
        tally.parts.append(values)


def _changes_as_float(series: Any, values: np.ndarray) -> bool:
    """Tell whether a float is not the whole number that the text in its place says."""
    places = np.flatnonzero(np.abs(values) >= LARGEST_WHOLE)
    texts = [series[int(i)].strip() for i in places]
    return any(
        text.lstrip("+-").isdecimal() and int(text) != int(value)
        for text, value in zip(texts, values[places], strict=True)
    )


def _look_at_levels(tally: _Tally, series: Any, source: Source, marks: Marks, name: str) -> None:
    if source.dialect is None:
        texts = [
            None if text is None or text.strip() in marks.texts else text
            for text in typed_levels(series)
        ]
    else:
        texts = parse_levels(nw.to_native(series), marks).to_list()
    codes = [
        -1 if text is None else tally.codes.setdefault(text, len(tally.codes)) for text in texts
    ]
    if len(tally.codes) > MAX_LEVELS:
        raise TableError(
            f"--one-hot: the column {quote(name)} has more than {MAX_LEVELS} levels, so it names "
            "rows rather than groups. Leave it out."
        )
    tally.parts.append(np.array(codes, dtype=np.int32))
    tally.n_missing += codes.count(-1)


def _check_memory(
    source: Source, tallies: list[_Tally], n_rows: int, max_bytes: int | None
) -> None:
    """Raise an error as soon as it is clear that the fit would not fit into memory."""
    width = sum(
        1 if tally.role == "use" else max(1, len(tally.codes) - 1)
        for tally in tallies
        if tally.role != "pass" and not (tally.role == "use" and tally.n_other)
    )
    needed = int(FIT_COPIES * 8 * width * max(n_rows, source.n_rows or 0))
    limit = available_bytes() + 8 * width * n_rows if max_bytes is None else max_bytes
    if needed > limit:
        raise TableError(
            f"After {n_rows:,} rows it is clear that a fit in memory would need more than "
            f"{needed / 2**30:.2g} GB, and {limit / 2**30:.2g} GB may be used. Use fewer columns "
            "(--columns), or `gapmix fit` on a file with a part of the rows and apply its model to "
            "all of them with --model, which needs little memory. As Parquet, the table can be "
            "fitted in pieces."
        )


def _column(name: str, tally: _Tally, n_rows: int) -> Column:
    if tally.role == "pass":
        return Column(name, UNUSED)
    if tally.role == "one-hot":
        levels = tuple(sorted(tally.codes))
        kind = CATEGORY if len(levels) > 1 else EMPTY if not levels else UNUSED
        return Column(name, kind, levels=levels, n_missing=tally.n_missing)
    if tally.n_missing == n_rows:
        return Column(name, EMPTY, n_missing=n_rows)
    if tally.n_other:
        return Column(name, TEXT)
    large = tally.integers and not tally.whole
    long = tally.long and not large
    return Column(name, NUMBER, tally.whole, n_missing=tally.n_missing, large=large, long=long)


def _assemble(schema: Schema, tallies: list[_Tally], keep: bool) -> np.ndarray:
    """Return the matrix, giving back the memory of each column's parts as they are copied."""
    layout = features(schema)
    # By columns, so that a frame with their names can be made of it without a copy.
    matrix = np.empty((schema.n_rows if keep else 0, len(layout)), order="F")
    if not keep:
        return matrix
    for f, feature in enumerate(layout):
        tally, column = tallies[feature.column], schema.columns[feature.column]
        if column.kind == NUMBER:
            first = 0
            for part in tally.parts:
                matrix[first : first + len(part), f] = part
                first += len(part)
            tally.parts.clear()
        else:
            codes = np.concatenate(tally.parts)
            hit = codes == tally.codes[column.levels[feature.level]]
            matrix[:, f] = np.where(codes < 0, np.nan, hit)
    return matrix


def _notes(source: Source, columns: list[Column], tallies: list[_Tally], n_rows: int) -> list[Note]:
    notes = []
    seen = list(zip(columns, tallies, strict=True))
    plain = []
    for column, tally in seen:
        if column.kind != TEXT:
            continue
        if tally.n_numbers > MOSTLY * (tally.n_numbers + tally.n_other):
            marks = ",".join(tally.others)
            notes.append(
                Note(
                    f"Column {quote(column.name)} looks like numbers, but row "
                    f"{tally.first_other:,} has {quote(tally.others[0])}: it is passed through "
                    f"unfilled. If that marks a gap, add --missing-values {quote(marks)}; if it is "
                    f"text, --leave-out {quote(column.name)} silences this.",
                    warning=True,
                )
            )
        else:
            plain.append(column.name)
    if plain:
        notes.append(
            Note(
                f"{name_columns(plain)} {'hold' if len(plain) > 1 else 'holds'} no numbers: passed "
                "through as they are. --one-hot COLUMN uses a category."
                if len(plain) > 1
                else f"{name_columns(plain)} holds no numbers: passed through as it is. "
                "--one-hot COLUMN uses a category."
            )
        )
    empty = [c.name for c in columns if c.kind == EMPTY]
    if empty:
        several = len(empty) > 1
        notes.append(
            Note(
                f"{name_columns(empty)} {'have' if several else 'has'} no value in any row: left "
                f"empty, because nothing can be learned about {'them' if several else 'it'}.",
                warning=True,
            )
        )
    single = [c.name for c, t in seen if t.role == "one-hot" and len(t.codes) == 1]
    if single:
        notes.append(Note(f"--one-hot: {list_columns(single)} has one level only: not used."))
    twice = sorted({name for name in source.names if source.names.count(name) > 1})
    if twice:
        notes.append(
            Note(
                f"The name{'s' if len(twice) > 1 else ''} {list_columns(twice)} "
                f"{'are' if len(twice) > 1 else 'is'} used by more than one column: each column is "
                "used and comes back under its name, but options cannot name it."
            )
        )
    return notes
