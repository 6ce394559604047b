"""Where a table comes from: a text file, a Parquet file or a data frame, read chunk by chunk."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import narwhals as nw

from gapmix.engines.scratch import scratch_folder
from gapmix.storage.compressed import find_compression, open_bytes
from gapmix.storage.tablefiles import BLANKS, Dialect
from gapmix.tables.dialect import NUMBER, SAMPLE_BYTES, Given, TableError, find_dialect
from gapmix.tables.formats import STANDARD, refuse_input
from gapmix.tables.schema import CallError, Note
from gapmix.tables.textfile import MAX_COLUMNS, read_blocks, read_header
from gapmix.wording import list_names, quote

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

CHUNK_CELLS = 2**20  # of a Parquet file read in one go
MAX_FILE_BYTES = 2**40
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
NUMBERED = Path("/proc/self/fd")  # open files by their numbers


class Chunk(NamedTuple):
    """Consecutive rows of a table."""

    frame: Any  # narwhals frame; of texts if it comes from a text file
    first_row: int  # from 1
    n_blank: int = 0  # lines without any character, left out before or between these rows

    def column(self, j: int) -> Any:
        """Return a column as a series; in polars without looking at the names of all others."""
        native = nw.to_native(self.frame)
        if hasattr(native, "to_series"):
            return nw.from_native(native.to_series(j), series_only=True)
        return self.frame[:, j]


class Source(Protocol):
    """A table that can be read more than once."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def dialect(self) -> Dialect | None:
        """Dialect of a text file; the cells of others have types."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known before reading."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the user should know."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows in order."""


class TextSource(NamedTuple):
    """A text file."""

    path: Path
    names: tuple[str, ...]
    dialect: Dialect
    n_bytes: int
    notes: tuple[Note, ...] = ()
    n_rows: int | None = None
    types: Mapping[str, Any] = MappingProxyType({})  # a text file has none

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows in order, every cell a text or null."""
        for block in read_blocks(self.path, self.dialect, len(self.names)):
            yield Chunk(nw.from_native(block.frame), block.first_row, block.n_blank)


class ParquetSource(NamedTuple):
    """A Parquet file; rows and columns are known from its footer."""

    path: Path
    names: tuple[str, ...]
    n_bytes: int
    n_rows: int
    types: Mapping[str, Any]  # of polars, by name
    dialect: None = None
    notes: tuple[Note, ...] = ()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows in order."""
        step = max(1000, CHUNK_CELLS // max(1, len(self.names)))
        for first in range(0, self.n_rows, step):
            frame = _guarded(
                self.path,
                lambda first=first: (
                    pl.scan_parquet(self.path, glob=False).slice(first, step).collect()
                ),
            )
            yield Chunk(nw.from_native(frame), first + 1)


class FrameSource(NamedTuple):
    """A data frame of any kind that narwhals reads."""

    frame: Any  # narwhals frame
    names: tuple[str, ...]
    n_rows: int
    dialect: None = None
    n_bytes: int = 0
    notes: tuple[Note, ...] = ()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the whole frame."""
        yield Chunk(self.frame, 1)


def open_table(path: str | Path, given: Given | None = None) -> TextSource | ParquetSource:
    """Return a file as a source of rows: Parquet by its first bytes, anything else as text."""
    if pl is None:
        raise ImportError('Reading files needs polars: pip install "gapmix[cli]"')
    given = Given() if given is None else given
    shown = "Standard input" if str(path) == STANDARD else quote(str(path))
    path = locate(path)
    n_bytes = path.stat().st_size
    if n_bytes == 0:
        raise TableError(f"{shown} is empty.")
    if n_bytes > MAX_FILE_BYTES:
        raise TableError(f"{shown} has {n_bytes:,} bytes; at most 2^40 are read.")
    with open_bytes(path) as file:
        sample = file.read(SAMPLE_BYTES)
    if sample.startswith(b"PAR1") and find_compression(path):
        raise TableError(f"{shown} is a Parquet file that was compressed again: unpack it first.")
    if sample.startswith(b"PAR1"):
        return _open_parquet(path, n_bytes)
    if not sample:
        raise TableError(f"{shown} is empty.")
    dialect = find_dialect(sample, given, whole=len(sample) < SAMPLE_BYTES)
    names = read_header(path, dialect)
    return TextSource(path, tuple(names), dialect, n_bytes, tuple(_notes(dialect, given, names)))


def open_frame(frame: Any) -> FrameSource:
    """Return a data frame as a source of rows."""
    frame = nw.from_native(frame, eager_only=True)
    return FrameSource(frame, tuple(frame.columns), len(frame))


def refuse_address(path: str | Path) -> None:
    """Raise an error if a path is an address in a network."""
    if isinstance(path, str) and URL.match(path):
        raise CallError(
            f"{quote(path)} is a web address, and gapmix does not use the network. Download the "
            "file first."
        )


def _check_path(path: str | Path) -> Path:
    refuse_address(path)
    path = Path(path)
    if not path.exists():
        raise CallError(f"There is no file {quote(str(path))}.")
    if not path.is_file():
        raise CallError(f"{quote(str(path))} is not a file.")
    refuse_input(path)
    return path


def locate(path: str | Path) -> Path:
    """Return where a table is: for standard input, a copy that can be read more than once."""
    if str(path) != STANDARD:
        return _check_path(path)
    file = _spool()
    return NUMBERED / str(file.fileno()) if NUMBERED.exists() else Path(file.name)


def name_table(path: str | Path) -> str:
    """Return what a table is called in messages and results."""
    return "standard input" if str(path) == STANDARD else Path(path).name


@cache
def _spool() -> Any:
    """Return a copy of standard input: a file that is gone when the process ends.

    It has no name where open files can be opened again by their numbers, as on Linux.
    """
    if sys.stdin is None:
        raise CallError("Standard input is closed: give the name of a file.")
    make = tempfile.TemporaryFile if NUMBERED.exists() else tempfile.NamedTemporaryFile
    file: Any = make(dir=scratch_folder())
    atexit.register(file.close)
    shutil.copyfileobj(sys.stdin.buffer, file, SAMPLE_BYTES)
    file.flush()
    return file


def _open_parquet(path: Path, n_bytes: int) -> ParquetSource:
    types = _guarded(path, lambda: dict(pl.read_parquet_schema(path)))
    names = tuple(types)
    if len(names) > MAX_COLUMNS:
        raise TableError(
            f"{quote(str(path))} has {len(names):,} columns; at most {MAX_COLUMNS:,} are read."
        )
    count = _guarded(
        path, lambda: pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    )
    return ParquetSource(path, names, n_bytes, int(count), types)


def _guarded(path: Path, read: Any) -> Any:
    """Return read(), with what polars says of a damaged file as an error of ours."""
    try:
        return read()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).split("\n")[0][:200]
        raise TableError(
            f"{quote(str(path))} is damaged, or not a Parquet file ({reason})."
        ) from error


def _notes(dialect: Dialect, given: Given, names: list[str]) -> Iterator[Note]:
    if given.encoding is None and dialect.encoding == "cp1252":
        yield Note("The file is not UTF-8 and is read as cp1252. Give --encoding if that is wrong.")
    if given.header is None and not dialect.header:
        yield Note(
            "The first line holds numbers, so it is taken as data, and columns are called "
            "column_1, column_2, ... Give --header if it has the column names.",
            warning=True,
        )
    numbers = [quote(name) for name in names if NUMBER.fullmatch(name.strip())]
    if given.header is None and dialect.header and numbers:
        yield Note(
            f"The first line is taken as column names, although it has numbers in it "
            f"({list_names(numbers)}). Give --no-header if it is data."
        )
    if given.delimiter is None and dialect.delimiter == BLANKS:
        yield Note("Cells are separated at blanks. Give --delimiter if that is wrong.")
    if given.decimal is None and dialect.decimal == ",":
        yield Note("Numbers are read with a decimal comma. Give --decimal . if that is wrong.")
