"""What is seen of a column as a table is read: numbers, levels, gaps; and what it is in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from gapmix.estimators.levels import (
    MOST_LEVELS,
    are_mostly_numbers,
    are_numbers,
    are_padded,
    has_answers,
    too_many_levels,
)
from gapmix.estimators.marks import NO_MARKS, Marks
from gapmix.estimators.passing import DAY, NAMES_ROWS
from gapmix.kinds import LARGEST_WHOLE
from gapmix.tables.cells import (
    Parsed,
    count_numbers,
    find_codes,
    parse_levels,
    parse_numbers,
    refuse_infinite,
    spell,
)
from gapmix.tables.dates import TYPED, find_spelling
from gapmix.tables.dialect import TableError
from gapmix.tables.dressed import find_dress, find_dressed
from gapmix.tables.schema import (
    CATEGORY,
    DATE,
    EMPTY,
    ID,
    MAX_LEVELS,
    NUMBER,
    TEXT,
    UNUSED,
    Column,
)
from gapmix.tables.source import Chunk, Source
from gapmix.tables.spelling import read_spelled
from gapmix.wording import quote

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

MAX_COUNTED = 10_000  # distinct texts, after which they are no longer counted
OTHER_TYPES = (nw.Binary, nw.Duration, nw.Time, nw.Unknown)  # that texts are not made of


class Tally:
    """What has been seen of a column; filled chunk by chunk, the only mutable record here."""

    def __init__(self, role: str, marks: Marks = NO_MARKS) -> None:
        self.role = role
        self.marks = marks
        self.marked: Counter[str] = Counter()  # marks of gaps that were found, besides plain ones
        self.low, self.high = np.inf, -np.inf  # of the numbers
        self.parts: list[np.ndarray] = []  # values, or codes of levels with -1 for a gap
        self.n_seen = self.n_missing = 0  # cells
        self.n_other = self.first_other = 0  # cells that are neither number nor gap
        self.others: tuple[str, ...] = ()
        self.whole = self.integers = True
        self.long = False  # whole numbers that floats would change
        self.is_text = role == "category"
        self.coded = False  # whole numbers with zeros before them, which are codes
        self.late = False  # texts came after numbers, whose spelling was not kept
        self.codes: dict[str, int] = {}
        self.values: dict[str, Any] = {}  # of a table with types
        self.declared: tuple[str, ...] = ()  # levels in the order of their type
        self.n_counted = 0  # cells in which distinct texts were counted
        self.what = ""  # "date" or "text" for types that are passed through
        self.spelling = ""  # of dates, or of numbers that are not plain


def look(tally: Tally, chunk: Chunk, j: int, source: Source, *, keep: bool = True) -> None:
    """Add a column of a chunk to what has been seen of it."""
    series, typed = chunk.column(j), source.dialect is None
    if typed and not tally.n_seen and tally.role != "pass":
        _judge_type(tally, series, source.names[j])
    if tally.role == "pass" or tally.what or tally.late:
        tally.n_missing += _count_gaps(tally, series, typed=typed)
    elif tally.is_text:
        look_at_levels(tally, chunk, j, source, keep=keep)
    else:
        _look_at_numbers(tally, chunk, j, source, keep=keep)
    tally.n_seen += len(series)


def find_spellings(source: Source, tallies: Sequence[Tally]) -> None:
    """Note how columns of a text table are spelled that are to be numbers and are not written so.

    They hold dates, or numbers with separators, signs and units.
    """
    if source.dialect is None:
        return
    asked = [j for j, tally in enumerate(tallies) if tally.role == "numbers"]
    first = next(source.chunks(), None) if asked else None
    for j in asked if first is not None else ():
        assert first is not None
        texts = nw.to_native(first.column(j))
        if texts.str.contains(f"^(?:{DAY.pattern})$").any():
            parts = (nw.to_native(chunk.column(j)) for chunk in source.chunks())
            stripped = (part.drop_nulls().str.strip_chars() for part in parts)
            tallies[j].spelling = find_spelling(stripped, source.names[j])
        else:
            levels = parse_levels(first.column(j), tallies[j].marks, typed=False).texts
            known = levels.drop_nulls().unique().to_list()
            tallies[j].spelling = find_dress(known, source.dialect.decimal)


def begin_again(tally: Tally) -> None:
    """Forget what a column of late texts has shown, before its levels are read from the start."""
    tally.n_missing = 0
    tally.marked.clear()


def _judge_type(tally: Tally, series: Any, name: str) -> None:
    """Tell from the type of a column how it is looked at."""
    dtype = series.dtype
    empty = dtype == nw.Unknown and series.null_count() == len(series)  # the type of nulls
    plain = dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Boolean)
    if dtype.is_numeric() or plain or empty:
        tally.is_text = tally.role == "category" or (tally.role == "use" and plain)
    elif tally.role == "use" or dtype.is_nested() or dtype in (nw.Binary, nw.Unknown):
        tally.what = DATE if dtype in (nw.Date, nw.Datetime) else TEXT
    if tally.role == "numbers":
        tally.spelling = next((TYPED[kind] for kind in TYPED if dtype == kind), "")
    timed = dtype.is_temporal() and not tally.spelling
    if (tally.what and tally.role != "use") or (tally.role == "numbers" and timed):
        raise TableError(
            f"--{'categories' if tally.role == 'category' else 'numbers'}: the column "
            f"{quote(name)} holds {str(dtype).split('(')[0]} values, which it cannot be made of."
        )


def _count_gaps(tally: Tally, series: Any, *, typed: bool) -> int:
    if typed and (series.dtype.is_nested() or series.dtype in OTHER_TYPES):
        return int(series.null_count())
    texts, marked = parse_levels(series, tally.marks, typed=typed)
    tally.marked.update(marked)
    return int(texts.null_count())


def typed_numbers(series: Any, marks: Marks) -> Parsed | None:
    """Return a series with a type as numbers, None if it is no type of numbers or texts."""
    if series.dtype in (nw.String, nw.Categorical, nw.Enum) and series.implementation.is_polars():
        return parse_numbers(series.to_native().cast(pl.String), marks, ".")
    if series.null_count() == len(series):
        return Parsed(np.full(len(series), np.nan), 0, -1, (), {})
    if not series.dtype.is_numeric() and series.dtype != nw.Boolean:
        return None
    values = np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    marked = count_numbers(values, marks.numbers)
    values[np.isin(values, marks.numbers)] = np.nan
    return Parsed(values, 0, -1, (), marked)


def read_integers(series: Any, gaps: np.ndarray) -> Any:
    """Return a narwhals series as integers, null at gaps and where the cell is none.

    Texts become 64-bit integers; typed integers keep their type.
    """
    if series.dtype == nw.String:
        texts = nw.to_native(series).str.strip_chars().str.strip_prefix("+")
        values = texts.cast(pl.Int64, strict=False).set(pl.Series(gaps), None)
        return nw.from_native(values, series_only=True)
    return series if series.dtype.is_integer() else series.filter([False] * len(series))


def _look_at_numbers(tally: Tally, chunk: Chunk, j: int, source: Source, *, keep: bool) -> None:
    series, marks = chunk.column(j), tally.marks
    if tally.spelling:
        parsed: Parsed | None = read_spelled(series, marks, tally.spelling)
        assert parsed is not None
    elif source.dialect is None:
        parsed = typed_numbers(series, marks)
        assert parsed is not None
    else:
        parsed = parse_numbers(nw.to_native(series), marks, source.dialect.decimal)
    if parsed.n_other:
        if not tally.n_other:
            tally.first_other, tally.others = chunk.first_row + parsed.first_other, parsed.others
        tally.n_other += parsed.n_other
    coded = source.dialect is not None and not parsed.n_other and _has_codes(series, parsed.values)
    if (parsed.n_other or coded) and tally.role != "numbers":
        tally.is_text, tally.late, tally.coded = True, tally.n_seen > 0, coded
        tally.parts.clear()
        if not tally.late:
            look_at_levels(tally, chunk, j, source, keep=keep)
        return
    tally.marked.update(parsed.marked)
    values = parsed.values
    gaps = np.isnan(values)
    tally.n_missing += int(gaps.sum())
    refuse_infinite(values, chunk.first_row, quote(source.names[j]))
    known = values[~gaps]
    tally.low = min(tally.low, known.min(initial=np.inf))
    tally.high = max(tally.high, known.max(initial=-np.inf))
    is_whole = bool((known == np.round(known)).all())
    is_small = bool(np.abs(known).max(initial=0.0) < LARGEST_WHOLE)
    tally.whole = tally.whole and is_whole and is_small
    if source.dialect is not None and not is_small and not tally.spelling:
        tally.long = tally.long or _changes_as_float(series, values)
    tally.integers = tally.integers and (
        is_whole and (is_small or len(known) == int(read_integers(series, gaps).count()))
    )
    if keep:
        tally.parts.append(values)


def _has_codes(series: Any, values: np.ndarray) -> bool:
    """Tell whether texts that were all read as numbers are codes such as 02139."""
    texts = nw.to_native(series).filter(pl.Series(values == np.round(values)))  # NaN is a gap
    if not texts.str.contains(r"^\s*0[0-9]+\s*$").any():
        return False
    return len(texts) == np.isfinite(values).sum() and are_padded(texts.unique().to_list())


def _changes_as_float(series: Any, values: np.ndarray) -> bool:
    """Tell whether a float is not the whole number that the text in its place says."""
    places = np.flatnonzero(np.abs(values) >= LARGEST_WHOLE)
    texts = [series[int(i)].strip() for i in places]
    return any(
        text.lstrip("+-").isdecimal() and int(text) != int(value)
        for text, value in zip(texts, values[places], strict=True)
    )


def look_at_levels(
    tally: Tally, chunk: Chunk, j: int, source: Source, *, keep: bool = True
) -> None:
    """Add the levels of a column of a chunk to those that have been seen."""
    series, typed = chunk.column(j), source.dialect is None
    texts, marked = parse_levels(series, tally.marks, typed=typed)
    tally.marked.update(marked)
    n_gaps = int(texts.null_count())
    tally.n_missing += n_gaps
    if len(tally.codes) > MAX_COUNTED:
        return
    tally.n_counted += len(texts) - n_gaps
    if typed:
        _keep_values(tally, series)
    for text in texts.unique(maintain_order=True).drop_nulls().to_list():
        tally.codes.setdefault(text, len(tally.codes))
    n_levels, most = len(tally.codes), MAX_LEVELS if tally.role == "category" else MOST_LEVELS
    if tally.role == "category" and n_levels > most:
        raise TableError(
            f"--categories: the column {quote(source.names[j])} has more than {most:,} levels, so "
            "it names rows rather than groups. Leave it out."
        )
    if n_levels > most:
        tally.parts.clear()
    elif keep:
        codes = find_codes(texts, list(tally.codes))
        tally.parts.append(np.where(np.isnan(codes), -1, codes).astype(np.int32))


def _keep_values(tally: Tally, series: Any) -> None:
    """Remember what the levels of a column with a type are in it."""
    if isinstance(series.dtype, nw.Enum):
        tally.declared = tuple(series.dtype.categories)
    if series.dtype.is_numeric() or series.dtype in (nw.Boolean, nw.Object):
        distinct = series.unique()
        if series.implementation.is_polars():
            texts = spell(distinct.to_native()).to_list()
        else:
            texts = [str(value) for value in distinct.to_list()]
        tally.values |= dict(zip(texts, distinct.to_list(), strict=True))


def count_width(tally: Tally) -> int:
    """Return how many columns of the matrix a column will be, as far as has been seen."""
    if tally.role == "pass" or tally.what:
        return 0
    return int(not tally.is_text or tally.role == "category" or len(tally.codes) <= MOST_LEVELS)


def to_column(name: str, tally: Tally, n_rows: int, decimal: str) -> Column:
    """Return what a column is, from all that has been seen of it."""
    n_missing = tally.n_missing
    if tally.role == "numbers" and find_dressed(tally.others, decimal):
        raise TableError(
            f"--numbers: row {tally.first_other:,} of column {quote(name)} has "
            f"{quote(tally.others[0])}, which would be lost. Write numbers without separators and "
            "signs, as in 1234.5."
        )
    if tally.role == "numbers" and n_missing == n_rows and tally.n_other:
        raise TableError(
            f"--numbers: no cell of column {quote(name)} is a number, or a date as in 2024-12-31, "
            f"31.12.2024 or 12/31/2024; row {tally.first_other:,} has {quote(tally.others[0])}."
        )
    if tally.role == "pass" or n_missing == n_rows:
        return Column(name, UNUSED if tally.role == "pass" else EMPTY, n_missing=n_missing)
    if tally.what:
        return Column(name, tally.what, n_missing=n_missing)
    if not tally.is_text:
        large = tally.integers and not tally.whole
        loose = tally.role == "numbers"
        return Column(
            name,
            NUMBER,
            tally.whole,
            n_missing=n_missing,
            large=large and not loose,
            long=tally.long and not large,
            loose=loose,
            spelling=tally.spelling,
        )
    kind = CATEGORY if tally.role == "category" else _judge_texts(tally, decimal)
    if kind != CATEGORY:
        return Column(name, kind, n_missing=n_missing)
    levels = _sort_levels(tally)
    values = tuple(tally.values.get(level, level) for level in levels)
    return Column(name, kind, levels=levels, n_missing=n_missing, values=values)


def _judge_texts(tally: Tally, decimal: str) -> str:
    dressed = "" if tally.values else find_dressed(tally.codes, decimal)
    if not tally.values and not dressed:  # True and False, or numbers of a type, are what they are
        if looks_like_numbers(tally, decimal):
            return TEXT
        if all(DAY.fullmatch(text) for text in tally.codes):
            return DATE
    if not too_many_levels(len(tally.codes), tally.n_counted):
        return CATEGORY
    if sum(bool(DAY.fullmatch(text)) for text in tally.codes) >= NAMES_ROWS * len(tally.codes):
        return DATE  # with a few texts among them
    names_rows = len(tally.codes) >= NAMES_ROWS * tally.n_counted
    return ID if names_rows and not dressed else TEXT


def looks_like_numbers(tally: Tally, decimal: str) -> bool:
    """Tell whether texts are numbers for the most part, with something else among them."""
    if is_coded(tally):
        return False
    return are_numbers([with_point(text, decimal) for text in tally.codes])


def mixes_numbers(tally: Tally, decimal: str) -> bool:
    """Tell whether levels are numbers for the most part, and answers such as 3+ beside them."""
    texts = [with_point(text, decimal) for text in tally.codes]
    return are_mostly_numbers(texts) and has_answers(texts)


def with_point(text: str, decimal: str) -> str:
    """Return a text with a point where numbers have their decimal comma."""
    return text.replace(",", ".") if decimal == "," else text


def is_coded(tally: Tally) -> bool:
    """Tell whether texts are codes such as 02139."""
    return tally.coded or are_padded(tally.codes)


def _sort_levels(tally: Tally) -> tuple[str, ...]:
    """Return levels in the order in which an estimator has them."""
    if tally.declared:
        return tuple(level for level in tally.declared if level in tally.codes)
    if tally.values:
        return tuple(sorted(tally.codes, key=lambda text: tally.values[text]))
    return tuple(sorted(tally.codes))


def gather(tally: Tally, column: Column, out: np.ndarray) -> None:
    """Write a column of the matrix, and give back the memory of its parts."""
    first = 0
    for part in tally.parts:
        out[first : first + len(part)] = part
        first += len(part)
    tally.parts.clear()
    if column.kind == CATEGORY:
        places = np.full(len(tally.codes) + 1, np.nan)
        for place, level in enumerate(column.levels):
            places[tally.codes[level]] = place
        out[:] = places[out.astype(int)]
