"""Where a table goes: a text file in the dialect it came in, or a Parquet file.

Texts that a spreadsheet would run as formulas are disarmed on their way into a text file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gapmix.storage.compressed import inner_suffix
from gapmix.storage.tablefiles import (
    BLANKS,
    PLAIN,
    Dialect,
    Write,
    is_parquet,
    to_polars,
    writing_table,
)
from gapmix.tables.cells import guard_formulas
from gapmix.tables.schema import CallError
from gapmix.wording import quote

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

TABS = (".tsv", ".tab")


class Sink:
    """Takes a table chunk by chunk."""

    def __init__(
        self, write: Write, names: list[str], guarded: Dialect | None, n_guarded: int
    ) -> None:
        self.n_guarded = n_guarded  # texts that were kept from being read as formulas
        self._write, self._names, self._guarded = write, names, guarded

    def write(self, rows: Any) -> None:
        """Add rows, a polars frame or a pyarrow table with columns in the order of the names."""
        if self._guarded is not None:
            frame = to_polars(rows, self._names)
            rows = pl.DataFrame([self._guard(each).alias(each.name) for each in frame])
        self._write(rows)

    def _guard(self, series: Any) -> Any:
        assert self._guarded is not None
        if series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        if series.dtype == pl.String:
            series, n_guarded = guard_formulas(series, self._guarded.decimal)
            self.n_guarded += n_guarded
        return series


def refuse_types(path: Path | None, types: Mapping[str, Any]) -> None:
    """Raise an error if a column has a polars type that a text file cannot hold."""
    for name, kind in {} if is_parquet(path) else types.items():
        if kind.is_nested() or kind in (pl.Binary, pl.Duration, pl.Object):
            raise CallError(
                f"The column {quote(name)} has type {kind}, which a text file cannot hold: write "
                "Parquet (--output with a name that ends in .parquet), or drop the column first."
            )


def output_dialect(path: Path | None, source: Dialect | None) -> Dialect:
    """Return the dialect to write: that of the input, with tabs if the name asks for them."""
    dialect = PLAIN if source is None else source
    suffix = inner_suffix(path)
    delimiter = dialect.delimiter
    if suffix in TABS:
        delimiter = "\t"
    elif suffix == ".csv" and delimiter in ("\t", BLANKS):
        delimiter = ";" if dialect.decimal == "," else ","
    if delimiter != dialect.delimiter:  # which texts may hold
        dialect = dialect._replace(delimiter=delimiter, quote=dialect.quote or '"')
    return dialect


@contextmanager
def writing(
    path: Path | None, names: list[str], source: Dialect | None, *, raw: bool = False
) -> Iterator[Sink]:
    """Open where a table goes, None for standard output; an error inside leaves no file.

    `source` is the dialect the table came in. With `raw`, texts that look like formulas are written
    as they are. Names are written if the dialect has a header.
    """
    dialect = output_dialect(path, source)
    guarded, n_guarded = None, 0
    if is_parquet(path):
        names = _distinct(names)
    elif not raw:
        guarded = dialect
        texts, n_guarded = guard_formulas(pl.Series(names, dtype=pl.String), ".")
        names, n_guarded = texts.to_list(), n_guarded if dialect.header else 0
    with writing_table(path, names, dialect) as write:
        yield Sink(write, names, guarded, n_guarded)


def _distinct(names: list[str]) -> list[str]:
    """Return names for a Parquet file, which cannot use one twice."""
    result: list[str] = []
    for name in names:
        new, count = name, 1
        while new in result:
            count += 1
            new = f"{name}_{count}"
        result.append(new)
    return result
