"""Tables into files, some rows at a time: delimited text in a dialect, or Parquet.

A file appears under its name when it is whole: a run that is broken off leaves what was there.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from gapmix.storage.atomicfile import Replacement
from gapmix.storage.compressed import compressing
from gapmix.storage.extras import need

PARQUET = (".parquet", ".pq")
Write = Callable[[Any], None]


class Dialect(NamedTuple):
    """How a text table is written."""

    encoding: str = "utf-8"
    delimiter: str = ","
    decimal: str = "."
    quote: str | None = '"'
    header: bool = True
    newline: str = "\n"
    bom: bool = False
    quoted: bool = False  # all names in the header stand between quotes


BLANKS = " "  # as a delimiter: any number of blanks and tabs
NO_VALUE = "NA"  # an empty cell where blanks stand between cells
PLAIN = Dialect()


def is_parquet(path: Path | None) -> bool:
    """Tell whether a path names a Parquet file."""
    return path is not None and path.suffix.lower() in PARQUET


@contextmanager
def writing_table(
    path: Path | None, names: Sequence[str], dialect: Dialect = PLAIN
) -> Iterator[Write]:
    """Open a table to write, Parquet by the ending of its name, otherwise text in a dialect.

    Text is compressed if the name ends in .gz or .zst. None is standard output. What is yielded
    adds rows: a polars frame, a pyarrow table or an array of floats (n, d), its
    columns in the order of `names` and of the same types each time.
    """
    if path is None:
        yield _TextTable(sys.stdout.buffer, names, dialect).write
        sys.stdout.buffer.flush()
        return
    with Replacement(path) as stream:
        if not is_parquet(path):
            with compressing(stream, path) as packed:
                yield _TextTable(packed, names, dialect).write
            return
        with closing(_ParquetTable(stream, names)) as table:
            yield table.write


class _TextTable:
    def __init__(self, stream: BinaryIO, names: Sequence[str], dialect: Dialect) -> None:
        self._stream, self._names, self._dialect = stream, names, dialect
        self._newline = "\n" if dialect.newline == "\r" else dialect.newline
        if dialect.bom:
            stream.write("\ufeff".encode(dialect.encoding))
        if dialect.header:
            self._write_header()

    def write(self, rows: Any) -> None:
        dialect = self._dialect
        frame = to_polars(rows, self._names)
        if dialect.decimal == ",":
            floats = need("polars", "cli").selectors.float()
            texts = floats.cast(need("polars", "cli").String).str.replace(".", ",", literal=True)
            frame = frame.with_columns(texts)
        text = frame.write_csv(
            include_header=False,
            separator=dialect.delimiter,
            quote_char=dialect.quote or '"',
            quote_style=self._quote_style(frame),
            line_terminator=self._newline,
            null_value=NO_VALUE if dialect.delimiter == BLANKS else None,
        )
        self._stream.write(self._encode(text))

    def _quote_style(self, frame: Any) -> Any:
        if self._dialect.quote is None:
            return "never"
        if self._dialect.delimiter != BLANKS:
            return "necessary"
        texts = frame.select(need("polars", "cli").selectors.string())  # tabs cut cells as well
        return "always" if any(s.str.contains("\t").any() for s in texts) else "necessary"

    def _write_header(self) -> None:
        dialect = self._dialect
        line = io.StringIO(newline="")
        look: dict[str, Any] = {"quotechar": dialect.quote}
        if dialect.quoted:
            look["quoting"] = csv.QUOTE_ALL
        if dialect.quote is None:
            look = {"quoting": csv.QUOTE_NONE, "quotechar": None, "escapechar": "\\"}
        csv.writer(
            line, delimiter=dialect.delimiter, lineterminator=self._newline, **look
        ).writerow(self._names)
        self._stream.write(self._encode(line.getvalue()))

    def _encode(self, text: str) -> bytes:
        if self._dialect.newline == "\r":
            text = text.replace("\n", "\r")
        return text.encode(self._dialect.encoding, errors="replace")


class _ParquetTable:
    def __init__(self, stream: BinaryIO, names: Sequence[str]) -> None:
        self._stream, self._names = stream, list(names)
        self._writer: Any = None

    def write(self, rows: Any) -> None:
        table = _to_arrow(rows, self._names)
        if self._writer is None:
            parquet, kinds = need("pyarrow.parquet", "cli"), need("pyarrow.types", "cli")
            # A dictionary of floats that hardly repeat costs time and saves nothing.
            repeating = [each.name for each in table.schema if not kinds.is_floating(each.type)]
            self._writer = parquet.ParquetWriter(
                self._stream, table.schema, use_dictionary=repeating or False
            )
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def to_polars(rows: Any, names: Sequence[str]) -> Any:
    """Return rows as a polars frame."""
    polars = need("polars", "cli")
    if isinstance(rows, polars.DataFrame):
        return rows
    return polars.from_arrow(_to_arrow(rows, names))


def _to_arrow(rows: Any, names: Sequence[str]) -> Any:
    """Return rows as a pyarrow table with these names."""
    arrow = need("pyarrow", "cli")
    if isinstance(rows, arrow.Table):
        return rows.rename_columns(list(names))
    if hasattr(rows, "to_arrow"):
        oldest = need("polars", "cli").CompatLevel.oldest()  # what every reader knows
        return rows.to_arrow(compat_level=oldest).rename_columns(list(names))
    return arrow.table(list(rows.T.copy()), names=list(names))
