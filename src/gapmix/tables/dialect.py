"""How a text table is written: encoding, delimiter, decimal sign, quotes; found or given."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from gapmix.storage.tablefiles import BLANKS, Dialect

SAMPLE_BYTES = 2**18
SAMPLE_RECORDS = 500
DELIMITERS = "\t;|,"  # the rarest inside numbers and text first
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+")
NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
YEARS = range(1800, 2201)  # whole numbers that are likely names of columns


class TableError(ValueError):
    """A table that cannot be used as it is; the message says where and what to do."""


class Given(NamedTuple):
    """What the caller says about a text table; None is to be found out."""

    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    quote: str | None = None  # one character, or "none"
    header: bool | None = None


def find_dialect(sample: bytes, given: Given, *, whole: bool) -> Dialect:
    """Return how a table is written, from its first bytes; `whole` if there are no more.

    What is given is taken as it is. A delimiter counts if it cuts every record of the sample into
    the same number of fields, more than one.
    """
    encoding, mark = _find_encoding(sample, given.encoding)
    text = _decode(sample[mark:], encoding)
    if "\0" in text:
        raise TableError(
            "The file holds zero bytes, so it is not a text table. If it is UTF-16 without a byte "
            "order mark, give --encoding utf-16-le; a spreadsheet must be saved as CSV first."
        )
    newline = "\r\n" if "\r\n" in text else "\r" if "\r" in text and "\n" not in text else "\n"
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not whole and "\n" in text:  # the last line may be cut
        text = text[: text.rindex("\n")]
    quote = '"' if given.quote is None else None if given.quote == "none" else given.quote
    delimiter = given.delimiter or _find_delimiter(text, quote)
    if delimiter == BLANKS:
        text = squeeze(text.encode(), quote).decode()
    records = [r for r in _records(text, delimiter, quote) if r]
    decimal = given.decimal or _find_decimal(records, delimiter)
    first, second = ([line for line in text.split("\n", 9) if line] + ["", ""])[:2]
    quoted = _all_quoted(first, delimiter, quote)
    header = given.header
    if header is None:
        only_first = quoted and second != "" and not _all_quoted(second, delimiter, quote)
        header = not records or only_first or not _holds_data(records[0], decimal)
    return Dialect(encoding, delimiter, decimal, quote, header, newline, mark > 0, quoted)


def squeeze(raw: bytes, quote: str | None) -> bytes:
    """Return text with one blank between cells, where any number of blanks and tabs stood."""
    if quote is None or quote.encode() not in raw:
        return re.sub(rb"(?m)^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", raw))
    q = re.escape(quote.encode())
    cells = re.compile(rb"(%b[^%b]*%b)|(?m:^[ \t]+|[ \t]+(?=\r?$))|([ \t]+)" % (q, q, q))
    return cells.sub(lambda found: found[1] or (b" " if found[2] else b""), raw)


def _all_quoted(line: str, delimiter: str, quote: str | None) -> bool:
    """Tell whether all fields of a line stand between quotes."""
    if quote is None:
        return False
    field = "{0}(?:[^{0}]|{0}{0})*{0}".format(re.escape(quote))
    return re.fullmatch(f"{field}(?:{re.escape(delimiter)}{field})*", line) is not None


def parse_record(text: str, dialect: Dialect) -> list[str]:
    """Return the fields of one record."""
    return next(_records(text, dialect.delimiter, dialect.quote), [])


def _find_encoding(sample: bytes, given: str | None) -> tuple[str, int]:
    """Return the encoding and the length of the byte order mark."""
    found = next(
        ((name, len(mark)) for mark, name in BYTE_ORDER_MARKS.items() if sample.startswith(mark)),
        None,
    )
    if given is not None:
        try:
            name = codecs.lookup(given).name
            io.TextIOWrapper(io.BytesIO(), encoding=given)  # base64 and the like encode no texts
        except LookupError as error:
            raise TableError(
                f"The encoding {given!r} is not known. Use for example utf-8, cp1252, latin-1 or "
                "utf-16-le."
            ) from error
        name = {"utf-8-sig": "utf-8", "utf-16": found[0] if found else "utf-16-le"}.get(name, name)
        return name, found[1] if found and found[0] == name else 0
    if found is not None:
        return found
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp1252", 0
    return "utf-8", 0


def _decode(sample: bytes, encoding: str) -> str:
    try:
        return codecs.getincrementaldecoder(encoding)(errors="replace").decode(sample)
    except (UnicodeError, LookupError, TypeError, AttributeError) as error:
        raise TableError(f"The file cannot be read as {encoding}: {error}.") from error


def _find_delimiter(text: str, quote: str | None) -> str:
    best, best_share = ",", 0.0
    for delimiter in DELIMITERS:
        records = [r for r in _records(text, delimiter, quote) if r]
        counts = [len(r) for r in records]
        if not counts or counts[0] < 2:  # a header of one field is a table of one column
            continue
        modal, n_modal = Counter(counts).most_common(1)[0]
        share = n_modal / len(counts)
        if quote and any(field.count(quote) % 2 for record in records for field in record):
            share *= 0.5  # it cuts through quotes
        if modal > 1 and share > best_share:
            best, best_share = delimiter, share
    if best_share == 0.0 and _is_cut_by_blanks(text, quote):
        return BLANKS
    if best_share == 0.0 and any(DECIMAL_COMMA.fullmatch(line.strip()) for line in text.split()):
        return ";"  # one column of numbers with decimal commas
    return best


def _is_cut_by_blanks(text: str, quote: str | None) -> bool:
    """Tell whether blanks cut every line into as many fields, most of them numbers or gaps."""
    every = _records(squeeze(text.encode(), quote).decode(), BLANKS, quote)
    records = [record for record in every if record]
    below = [field for record in records[1:] or records for field in record]
    n_numbers = sum(bool(NUMBER.fullmatch(field)) or field in ("NA", "NaN", "?") for field in below)
    same = len({len(record) for record in records}) == 1 and len(records[0]) > 1
    return same and 2 * n_numbers >= len(below)


def _records(text: str, delimiter: str, quote: str | None) -> Iterator[list[str]]:
    """Yield the fields of the first records of a text; what csv cannot read ends it."""
    look: dict[str, Any] = {"quotechar": quote}
    if quote is None:
        look["quoting"] = csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, **look)
    try:
        for _, record in zip(range(SAMPLE_RECORDS), reader, strict=False):
            yield record
    except csv.Error:
        return


def _find_decimal(records: list[list[str]], delimiter: str) -> str:
    fields = [field.strip() for record in records[1:] or records for field in record]
    if any(DECIMAL_POINT.fullmatch(field) for field in fields):
        return "."
    commas = [field for field in fields if DECIMAL_COMMA.fullmatch(field)]
    if delimiter == ",":  # "1,234" between quotes is more likely a thousand
        commas = [field for field in commas if not THOUSANDS.fullmatch(field)]
    return "," if commas else "."


def _holds_data(record: list[str], decimal: str) -> bool:
    """Tell whether a first record is a row of data, not of names.

    Names are rarely numbers, except years, an enumeration or four and more at even steps, as in
    "country,2019,2020" or "400,402.5,405,407.5".
    """
    numbers = [field.strip() for field in record if NUMBER.fullmatch(field.strip())]
    if not numbers:
        return False
    if len(numbers) == len(record) == 1:
        return True
    values = [float(field.replace(",", ".")) for field in numbers]
    steps = {round(b - a, 9) for a, b in pairwise(values)}
    if len(values) >= 4 and len(steps) == 1 and steps != {0.0}:
        return False
    whole = all(field.isdigit() for field in numbers)
    return not (whole and (steps == {1.0} or all(value in YEARS for value in values)))
