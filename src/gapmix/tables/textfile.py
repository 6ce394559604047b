"""A text table as a stream of blocks of records, each checked before it is parsed.

A file is read in pieces of a few megabytes, cut where a record ends, so that memory does not grow
with the file. Every record must have as many fields as the first: the delimiters outside quotes are
counted before anything else reads the bytes, so that no row is cut, shifted or padded in silence.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gapmix.storage.compressed import open_bytes
from gapmix.storage.tablefiles import BLANKS, Dialect
from gapmix.tables.dialect import TableError, parse_record, squeeze

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

BLOCK_BYTES = 2**23
MAX_RECORD_BYTES = 2**26
MAX_FIELD_BYTES = 2**20
MAX_COLUMNS = 10_000


class Block(NamedTuple):
    """Consecutive records, every cell a text or null."""

    frame: Any  # polars frame; columns are called "0", "1", ...
    first_row: int  # number of its first record, from 1, the header not counted
    n_blank: int  # empty lines left out


class Structure(NamedTuple):
    """Where the records of a block are."""

    end: np.ndarray  # (n,) position of the newline that ends each record
    n_fields: np.ndarray  # (n,)
    longest: int  # bytes that no field exceeds


def read_header(path: Path, dialect: Dialect) -> list[str]:
    """Return the names in the first record, or column_1, column_2, ... without a header."""
    for piece in _records(path, dialect):
        first = bytes(piece).lstrip(b"\n")
        if not first:
            continue
        structure = _find_structure(first, dialect)
        fields = parse_record(first[: int(structure.end[0])].decode(), dialect)
        if len(fields) > MAX_COLUMNS:
            raise TableError(
                f"The first line has {len(fields):,} fields; at most {MAX_COLUMNS:,} columns can "
                "be used. If the table is turned on its side, transpose it first."
            )
        if not dialect.header:
            return [f"column_{j + 1}" for j in range(len(fields))]
        return fields
    raise TableError("The file is empty: it has no header and no rows.")


def read_blocks(path: Path, dialect: Dialect, n_columns: int) -> Iterator[Block]:
    """Yield the records below the header, block by block, in order."""
    line, row, n_blank, header_due = 1, 1, 0, dialect.header
    for piece in _records(path, dialect):
        structure = _find_structure(piece, dialect)
        n_lines = piece.count(b"\n")
        blank = _find_blank(piece, structure)
        _check_structure(piece, structure, blank, n_columns, line)
        keep = ~blank if n_columns > 1 else np.ones(len(blank), dtype=bool)
        if header_due and (~blank).any():
            keep[: int(np.flatnonzero(~blank)[0]) + 1] = False
            header_due = False
        n_blank += int((blank & ~keep).sum())
        if keep.any():
            body = piece if keep.all() else _select(piece, structure, keep)
            frame = _parse(body, dialect, n_columns, int(keep.sum()), (line, line + n_lines))
            yield Block(frame, row, n_blank)
            row, n_blank = row + frame.height, 0
        line += n_lines


def _records(path: Path, dialect: Dialect) -> Iterator[bytes]:
    """Yield pieces of UTF-8 text that end where a record ends."""
    quote = dialect.quote.encode() if dialect.quote else None
    rest, line = b"", 1
    for piece in _pieces(path, dialect):
        buffer = rest + piece
        cut = _last_record_end(buffer, quote)
        if cut:
            yield _cut_evenly(buffer[:cut], dialect)
            line += buffer.count(b"\n", 0, cut)
        rest = buffer[cut:]
        if len(rest) > MAX_RECORD_BYTES:
            raise TableError(
                f"The record that begins in line {line:,} has no end within "
                f"{MAX_RECORD_BYTES // 2**20} MB: probably a quotation mark is opened and never "
                "closed. Correct it, or give --quote none if quotes have no meaning in this file."
            )
    if rest:
        if quote is not None and rest.count(quote) % 2:
            raise TableError(
                f"The record that begins in line {line:,} opens a quotation mark that is never "
                "closed. Correct it, or give --quote none if quotes have no meaning in this file."
            )
        yield _cut_evenly(rest if rest.endswith(b"\n") else rest + b"\n", dialect)


def _cut_evenly(piece: bytes, dialect: Dialect) -> bytes:
    return squeeze(piece, dialect.quote) if dialect.delimiter == BLANKS else piece


def _pieces(path: Path, dialect: Dialect) -> Iterator[bytes]:
    """Yield the file as UTF-8, without byte order mark, lone carriage returns as new lines."""
    skip = len("\ufeff".encode(dialect.encoding)) if dialect.bom else 0
    with open_bytes(path) as file:
        file.read(skip)
        decoder = codecs.getincrementaldecoder(dialect.encoding)()
        place = skip
        while True:
            raw = file.read(BLOCK_BYTES)
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeError as error:
                where = "The file"
                if isinstance(error, UnicodeDecodeError):
                    byte = error.object[error.start]
                    where = f"Byte {place + error.start:,} of the file (0x{byte:02x})"
                raise TableError(
                    f"{where} is not valid {dialect.encoding}. Give the right --encoding, for "
                    "example cp1252 or latin-1."
                ) from error
            place += len(raw)
            piece = text.encode()
            if b"\0" in piece:
                raise TableError("The file holds zero bytes, so it is not a text table.")
            yield piece.replace(b"\r", b"\n") if dialect.newline == "\r" else piece
            if not raw:
                return


def _last_record_end(buffer: bytes, quote: bytes | None) -> int:
    """Return where the last complete record ends, 0 if none does."""
    last = buffer.rfind(b"\n") + 1
    if quote is None or not last or buffer.find(quote) < 0:
        return last
    cells = np.frombuffer(buffer, np.uint8)
    inside = np.cumsum(cells == quote[0], dtype=np.uint8) & 1  # wraps, but parity stays
    ends = np.flatnonzero((cells == 10) & (inside == 0))
    return int(ends[-1]) + 1 if ends.size else 0


def _find_structure(piece: bytes, dialect: Dialect) -> Structure:
    """Count the fields of each record by the delimiters outside quotes."""
    cells = np.frombuffer(piece, np.uint8)
    is_end, is_cut = cells == 10, cells == ord(dialect.delimiter)
    if dialect.quote and dialect.quote.encode() in piece:
        outside = (np.cumsum(cells == ord(dialect.quote), dtype=np.uint8) & 1) == 0
        is_end &= outside
        is_cut &= outside
    end = np.flatnonzero(is_end)
    cuts = np.flatnonzero(is_cut)
    n_fields = np.diff(np.searchsorted(cuts, end), prepend=0) + 1
    longest = int(np.diff(end, prepend=-1).max(initial=1)) - 1
    if longest > MAX_FIELD_BYTES:  # of the records; their fields are shorter
        edges = np.flatnonzero(is_end | is_cut)
        longest = int(np.diff(edges, prepend=-1).max(initial=1)) - 1
    return Structure(end, n_fields, longest)


def _find_blank(piece: bytes, structure: Structure) -> np.ndarray:
    """Return True for records without any character, (n,)."""
    length = np.diff(structure.end, prepend=-1) - 1
    cells = np.frombuffer(piece, np.uint8)
    only_return = (length == 1) & (cells[np.maximum(structure.end - 1, 0)] == 13)
    return (length == 0) | only_return


def _check_structure(
    piece: bytes, structure: Structure, blank: np.ndarray, n_columns: int, line: int
) -> None:
    wrong = np.flatnonzero((structure.n_fields != n_columns) & ~blank)
    if wrong.size:
        first = int(wrong[0])
        begin = int(structure.end[first - 1]) + 1 if first else 0
        at = line + piece.count(b"\n", 0, begin)
        raise TableError(
            f"Line {at:,} has {int(structure.n_fields[first])} fields, the first line has "
            f"{n_columns}. Correct the line; if the fields are cut at the wrong places, give "
            "--delimiter, --decimal or --quote."
        )
    if structure.longest > MAX_FIELD_BYTES:
        raise TableError(
            f"A field between lines {line:,} and {line + piece.count(bytes([10])):,} is "
            f"{structure.longest:,} bytes long; at most {MAX_FIELD_BYTES:,} are read. Check the "
            "quotation marks, or leave such texts out of the file."
        )


def _select(piece: bytes, structure: Structure, keep: np.ndarray) -> bytes:
    """Return the records to keep, runs of them at a time."""
    begin = np.concatenate([[0], structure.end[:-1] + 1])
    change = np.flatnonzero(np.diff(keep.astype(np.int8), prepend=0, append=0))
    runs = change.reshape(-1, 2)
    return b"".join(piece[int(begin[a]) : int(structure.end[b - 1]) + 1] for a, b in runs)


def _parse(
    body: bytes, dialect: Dialect, n_columns: int, n_records: int, lines: tuple[int, int]
) -> Any:
    schema = {str(j): pl.String for j in range(n_columns)}
    if body.startswith(codecs.BOM_UTF8):  # here it is text; polars would take one away
        body = codecs.BOM_UTF8 + body
    where = f"Between lines {lines[0]:,} and {lines[1]:,}"
    try:
        frame = pl.read_csv(
            body,
            has_header=False,
            schema=schema,
            separator=dialect.delimiter,
            quote_char=dialect.quote,
        )
    except pl.exceptions.PolarsError as error:
        reason = str(error).split("\n")[0]
        raise TableError(
            f"{where} the table could not be read ({reason}). A quotation mark must open a field "
            "or be doubled inside one; give --quote none if quotes have no meaning in this file."
        ) from error
    if frame.height != n_records:
        raise TableError(
            f"{where} {n_records:,} records end with a new line, but {frame.height:,} could be "
            "read. Check the quotation marks there, or give --quote none."
        )
    return frame
