"""Where a table goes: a text file in the dialect it came in, or a Parquet file.

Files are written beside their place and moved there when they are complete, so that a run that is
broken off leaves what was there before.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from gapmix.storage.atomicfile import Replacement
from gapmix.tables.cells import guard_formulas
from gapmix.tables.dialect import Dialect
from gapmix.tables.schema import CallError, show

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

PARQUET = (".parquet", ".pq")
TABS = (".tsv", ".tab")


class Sink(Protocol):
    """Takes a table chunk by chunk."""

    n_guarded: int  # texts that were kept from being read as formulas

    def write(self, frame: Any) -> None:
        """Add the rows of a polars frame; its columns are in the order of the names."""

    def close(self, *, complete: bool) -> None:
        """Put the file in its place if it is complete, remove it otherwise."""


def is_parquet(path: Path | None) -> bool:
    """Tell whether a path names a Parquet file."""
    return path is not None and path.suffix.lower() in PARQUET


def output_dialect(path: Path | None, source: Dialect | None) -> Dialect:
    """Return the dialect to write: that of the input, with tabs if the name asks for them."""
    dialect = Dialect() if source is None else source
    suffix = "" if path is None else path.suffix.lower()
    delimiter = dialect.delimiter
    if suffix in TABS:
        delimiter = "\t"
    elif suffix == ".csv" and delimiter == "\t":
        delimiter = ";" if dialect.decimal == "," else ","
    if delimiter != dialect.delimiter:  # which texts may hold
        dialect = dialect._replace(delimiter=delimiter, quote=dialect.quote or '"')
    return dialect


def open_sink(
    path: Path | None,
    names: list[str],
    dialect: Dialect,
    *,
    raw: bool = False,
    numbers: frozenset[int] = frozenset(),
) -> Sink:
    """Return where to write a table; None is standard output.

    With `raw`, texts that look like formulas are written as they are; the columns in `numbers`
    have none. Names are written if the dialect has a header.
    """
    if path is not None:
        folder = path.parent
        if not folder.is_dir():
            raise CallError(f"There is no folder {show(str(folder))} to write to.")
        if path.is_dir():
            raise CallError(f"{show(str(path))} is a folder; name a file to write.")
    if is_parquet(path):
        assert path is not None
        return ParquetSink(path, names)
    skipped = frozenset(range(len(names))) if raw else numbers
    return TextSink(path, names, dialect, raw=raw, skipped=skipped)


class TextSink:
    """A text file, or standard output."""

    def __init__(
        self,
        path: Path | None,
        names: list[str],
        dialect: Dialect,
        *,
        raw: bool,
        skipped: frozenset[int],
    ) -> None:
        self.n_guarded = 0
        self._dialect, self._raw, self._skipped = dialect, raw, skipped
        self._beside = None if path is None else _open_beside(path)
        self._file: BinaryIO = sys.stdout.buffer
        if self._beside is not None:
            self._file = self._beside.stream
        if dialect.bom:
            self._file.write("\ufeff".encode(dialect.encoding))
        if dialect.header:
            self._write_header(names)

    def write(self, frame: Any) -> None:
        """Add the rows of a polars frame."""
        frame = self._guard(frame)
        dialect = self._dialect
        style = "never" if dialect.quote is None else "necessary"
        text = frame.write_csv(
            include_header=False,
            separator=dialect.delimiter,
            quote_char=dialect.quote or '"',
            quote_style=style,
            line_terminator="\n" if dialect.newline == "\r" else dialect.newline,
        )
        self._file.write(self._encode(text))

    def close(self, *, complete: bool) -> None:
        """Put the file in its place if it is complete, remove it otherwise."""
        if self._beside is None:
            self._file.flush()
        elif complete:
            self._beside.finish()
        else:
            self._beside.discard()

    def _write_header(self, names: list[str]) -> None:
        dialect = self._dialect
        texts, n_guarded = (names, 0) if self._raw else _guard_names(names)
        self.n_guarded += n_guarded
        line = io.StringIO(newline="")
        look: dict[str, Any] = {"quotechar": dialect.quote}
        if dialect.quote is None:
            look = {"quoting": csv.QUOTE_NONE, "quotechar": None, "escapechar": "\\"}
        csv.writer(
            line,
            delimiter=dialect.delimiter,
            **look,
            lineterminator="\n" if dialect.newline == "\r" else dialect.newline,
        ).writerow(texts)
        self._file.write(self._encode(line.getvalue()))

    def _guard(self, frame: Any) -> Any:
        guarded = []
        for j, series in enumerate(frame.get_columns()):
            if series.dtype in (pl.Categorical, pl.Enum):
                series = series.cast(pl.String)
            if series.dtype.is_float() and self._dialect.decimal == ",":
                series = series.cast(pl.String).str.replace(".", ",", literal=True)
            elif series.dtype == pl.String and j not in self._skipped:
                series, n_guarded = guard_formulas(series, self._dialect.decimal)
                self.n_guarded += n_guarded
            guarded.append(series)
        return pl.DataFrame(guarded)

    def _encode(self, text: str) -> bytes:
        if self._dialect.newline == "\r":
            text = text.replace("\n", "\r")
        return text.encode(self._dialect.encoding, errors="replace")


class ParquetSink:
    """A Parquet file, held in memory until it is closed."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.n_guarded = 0
        self._path, self._names = path, _distinct(names)
        self._frames: list[Any] = []

    def write(self, frame: Any) -> None:
        """Add the rows of a polars frame."""
        self._frames.append(frame)

    def close(self, *, complete: bool) -> None:
        """Put the file in its place if it is complete."""
        if not complete:
            return
        frame = pl.concat(self._frames, how="vertical_relaxed")
        frame.columns = self._names
        with _open_beside(self._path) as file:
            frame.write_parquet(file)


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


def _guard_names(names: list[str]) -> tuple[list[str], int]:
    texts, n_guarded = guard_formulas(pl.Series(names, dtype=pl.String), ".")
    return texts.to_list(), n_guarded


def _open_beside(path: Path) -> Replacement:
    try:
        return Replacement(path)
    except OSError as error:
        raise CallError(f"Cannot write {show(str(path))}: {error.strerror}.") from error
