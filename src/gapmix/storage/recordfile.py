"""Records of arrays and plain data as bytes: the safetensors layout, read with suspicion.

A record file is eight bytes (the length of the header, little endian), a JSON header, and the
arrays one after the other. Everything the header says is checked against the length of the file
before memory is taken for anything. Nothing here knows what a record means.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np

from gapmix.storage.atomicfile import Chunk, Path

SCHEMA = 2  # of what is written; all from 1 up to it are read
MAX_HEADER = 2**20  # bytes
MAX_DIMENSIONS = 4
DTYPES = {"F64": np.dtype("<f8"), "I64": np.dtype("<i8")}  # both of ITEM bytes
ITEM = 8
METADATA = {"gapmix", "record", "sha256"}
NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")  # as part of a tensor's name
FOREIGN = (
    (b"\x80\x02", "a pickle, which could run code when read and is never opened here"),
    (b"\x80\x03", "a pickle, which could run code when read and is never opened here"),
    (b"\x80\x04", "a pickle, which could run code when read and is never opened here"),
    (b"\x80\x05", "a pickle, which could run code when read and is never opened here"),
    (b"PK\x03\x04", "a zip archive (npz and xlsx files are such)"),
    (b"PAR1", "a Parquet table"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "compressed with gzip"),
)


class ModelFileError(ValueError):
    """A file cannot be read as a model, or a model cannot be written; the message says why.

    Examples
    --------
    >>> import os, tempfile
    >>> import gapmix
    >>> from gapmix.modelfile import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model")
    ...     with open(path, "wb") as file:
    ...         written = file.write(b"not a model")
    ...     try:
    ...         gapmix.load(path)
    ...     except ModelFileError as error:
    ...         print(type(error).__name__)
    ModelFileError
    """


class Record(NamedTuple):
    """What a file holds. `content` is plain data that JSON can hold."""

    kind: str
    content: dict[str, Any]
    arrays: dict[str, np.ndarray]  # float64 or int64


class Tensor(NamedTuple):
    """Where one array is in a file, once it has been checked."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int  # bytes after the header
    end: int


class Header(NamedTuple):
    """The checked header of a file."""

    kind: str
    content: dict[str, Any]
    tensors: tuple[Tensor, ...]  # in the order of their bytes, without holes
    raw: bytes  # the eight bytes and the text
    sha256: str


def pack(record: Record) -> list[Chunk]:
    """Return the bytes of a file, in pieces that share memory with the arrays."""
    arrays = {name: _to_bytes_order(record.arrays[name], name) for name in sorted(record.arrays)}
    text = json.dumps(
        {"kind": record.kind, "content": record.content},
        separators=(",", ":"),
        allow_nan=False,
    )
    header: dict[str, Any] = {
        "__metadata__": {"gapmix": str(SCHEMA), "record": text, "sha256": "0" * 64}
    }
    begin = 0
    for name, (dtype, array) in arrays.items():
        end = begin + array.nbytes
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
        begin = end
    raw = json.dumps(header, separators=(",", ":")).encode("ascii")
    raw += b" " * (-len(raw) % ITEM)  # arrays are then aligned
    if len(raw) > MAX_HEADER:
        raise ModelFileError(
            f"Names, settings and texts of this model take {len(raw):,} bytes; at most "
            f"{MAX_HEADER:,} can be saved. Shorten the columns' names (`feature_names_in_`), or "
            "delete that attribute to save without them."
        )
    raw = len(raw).to_bytes(8, "little") + raw
    chunks: list[Chunk] = [array.reshape(-1).view(np.uint8).data for _, array in arrays.values()]
    digest = hashlib.sha256(raw)
    for chunk in chunks:
        digest.update(chunk)
    return [_with_digest(raw, "0" * 64, digest.hexdigest()), *chunks]


def unpack(stream: BufferedIOBase, size: int, known: Mapping[str, frozenset[str]]) -> Record:
    """Return the record in a stream of `size` bytes.

    `known` gives the names of the arrays that each kind of record may hold, with `*` for a number.

    Raises
    ------
    ModelFileError
        If anything at all is not as `pack` would have written it.
    """
    header = read_header(stream, size, known)
    digest = hashlib.sha256(_with_digest(header.raw, header.sha256, "0" * 64))
    arrays = {}
    for tensor in header.tensors:
        array = np.empty(tensor.shape, DTYPES[tensor.dtype])
        view = array.reshape(-1).view(np.uint8).data
        _read_into(stream, view, tensor.name)
        digest.update(view)
        arrays[tensor.name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    if digest.hexdigest() != header.sha256:
        raise ModelFileError(
            "The checksum does not agree with the contents: the file was damaged or changed after "
            "it was saved. Take a copy that is whole, or fit and save again."
        )
    return Record(header.kind, header.content, arrays)


def read(path: Path, known: Mapping[str, frozenset[str]]) -> Record:
    """Return the record in a file; errors begin with its path."""
    name = os.fsdecode(os.fspath(path))
    # Without O_NONBLOCK, opening a pipe would wait for someone to write to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    file = os.open(name, flags)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise ModelFileError(f"{name}: this is a folder, a device or a pipe, not a saved model.")
    with open(file, "rb") as stream:
        try:
            return unpack(stream, found.st_size, known)
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}") from error


def read_header(stream: BufferedIOBase, size: int, known: Mapping[str, frozenset[str]]) -> Header:
    """Return the header of a stream of `size` bytes, after every check that needs no array."""
    raw = _read_raw_header(stream, size)
    header = _parse(raw[8:], "header")
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or "gapmix" not in metadata:
        raise ModelFileError(
            "This is a safetensors file of another program: its metadata has no entry 'gapmix'."
        )
    _check_schema(metadata["gapmix"])
    if set(metadata) != METADATA or not all(isinstance(text, str) for text in metadata.values()):
        raise ModelFileError(
            f"The metadata must be the texts {', '.join(sorted(METADATA))}; found "
            f"{_show(sorted(metadata))}."
        )
    sha256 = metadata["sha256"]
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ModelFileError(f"The checksum {_show(sha256)} is not a SHA-256 in hexadecimal.")
    tensors = _check_layout(
        [_read_tensor(name, entry) for name, entry in header.items()], size - len(raw)
    )
    record = _parse(metadata["record"].encode("utf-8", "surrogatepass"), "record")
    kind, content = record.get("kind"), record.get("content")
    if set(record) != {"kind", "content"} or not isinstance(content, dict):
        raise ModelFileError("The record must have the entries 'kind' and 'content', no others.")
    if not isinstance(kind, str) or kind not in known:
        raise ModelFileError(
            f"The file holds {_show(kind)}, which is none of {', '.join(known)}. It may come from "
            "a newer version of gapmix."
        )
    for tensor in tensors:
        if _pattern(tensor.name) not in known[kind]:
            raise ModelFileError(f"Array {_show(tensor.name)} has no place in a {kind}.")
    return Header(kind, content, tensors, raw, sha256)


def _read_raw_header(stream: BufferedIOBase, size: int) -> bytes:
    """Return the length and the text of the header, unparsed."""
    if size < 8 + 2:
        state = "is empty" if size == 0 else f"has only {size} bytes"
        raise ModelFileError(f"The file {state}: this is not a saved model, or it was cut short.")
    start = _read_exactly(stream, 8)
    length = int.from_bytes(start, "little")
    if length > MAX_HEADER or length < 2:
        guess = _guess(start)
        if guess:
            raise ModelFileError(f"This is not a gapmix model{guess}.")
        raise ModelFileError(
            f"This is not a gapmix model: its first eight bytes would mean a header of {length:,} "
            f"bytes, and 2 to {MAX_HEADER:,} are possible."
        )
    if 8 + length > size:
        raise ModelFileError(
            f"The header should have {length:,} bytes, but the whole file has {size:,}: it was cut "
            "short, or is not a gapmix model."
        )
    text = _read_exactly(stream, length)
    if text[:1] != b"{":
        raise ModelFileError(f"This is not a gapmix model{_guess(start)}: it has no JSON header.")
    return start + text


def _parse(text: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object in which no key comes twice and no number is NaN."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            twice = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
            raise ModelFileError(f"The {what} has the key {_show(twice)} twice.")
        return result

    def refuse(constant: str) -> None:
        raise ModelFileError(f"The {what} holds {constant}, which is not JSON.")

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)
    except ModelFileError:
        raise
    except RecursionError:
        raise ModelFileError(f"The {what} is nested too deeply to be a model's.") from None
    except ValueError as error:
        raise ModelFileError(f"The {what} is not JSON in UTF-8: {error}.") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"The {what} is not a JSON object.")
    return value


def _check_schema(schema: Any) -> None:
    known = [str(number) for number in range(1, SCHEMA + 1)]
    if isinstance(schema, str) and schema in known:
        return
    if isinstance(schema, str) and NUMBER.fullmatch(schema) and int(schema) > SCHEMA:
        raise ModelFileError(
            f"The file has format {schema} and this version of gapmix reads up to {SCHEMA}. "
            "Install a newer one."
        )
    raise ModelFileError(f"The format {_show(schema)} is not known; use {' or '.join(known)}.")


def _read_tensor(name: str, entry: Any) -> Tensor:
    """Return what the header says of one array, checked by itself."""
    what = f"Array {_show(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"{what} must be described by dtype, shape and data_offsets.")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ModelFileError(f"{what} has dtype {_show(dtype)}; only F64 and I64 are possible.")
    if not _is_sizes(shape) or len(shape) > MAX_DIMENSIONS or (0 in shape and len(shape) > 1):
        raise ModelFileError(
            f"{what} has shape {_show(shape)}: not a list of at most {MAX_DIMENSIONS} sizes."
        )
    if not _is_sizes(offsets) or len(offsets) != 2:
        raise ModelFileError(f"{what} has data_offsets {_show(offsets)}: not two places.")
    begin, end = offsets
    n_bytes = ITEM * math.prod(shape)
    if end - begin != n_bytes:
        raise ModelFileError(
            f"{what} of shape {_show(shape)} needs {n_bytes} bytes, and its data_offsets "
            f"{_show(offsets)} give {end - begin}."
        )
    return Tensor(name, dtype, tuple(shape), begin, end)


def _check_layout(tensors: list[Tensor], n_bytes: int) -> tuple[Tensor, ...]:
    """Return the arrays in the order of their bytes, which must fill the file exactly."""
    ordered = sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end))
    place = 0
    for tensor in ordered:
        if tensor.begin != place:
            how = "overlaps another" if tensor.begin < place else "leaves a hole before it"
            raise ModelFileError(
                f"Array {_show(tensor.name)} begins at byte {tensor.begin} of the data and {how}: "
                f"the one before it ends at {place}."
            )
        place = tensor.end
    if place != n_bytes:
        how = "was cut short" if place > n_bytes else "has something appended"
        raise ModelFileError(
            f"The arrays take {place:,} bytes and {n_bytes:,} follow the header: the file {how}."
        )
    return tuple(ordered)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**48 for item in value
    )


def _pattern(name: str) -> str:
    """Return a name with its numbers written as `*`."""
    return ".".join("*" if NUMBER.fullmatch(part) else part for part in name.split("."))


def _to_bytes_order(array: np.ndarray, name: str) -> tuple[str, np.ndarray]:
    for label, dtype in DTYPES.items():
        if array.dtype == dtype.newbyteorder("="):
            return label, np.ascontiguousarray(array, dtype=dtype)
    raise TypeError(f"Array {name!r} has dtype {array.dtype}; records hold float64 and int64.")


def _with_digest(raw: bytes, old: str, new: str) -> bytes:
    """Return the header with its checksum replaced; there is exactly one."""
    return raw.replace(f'"sha256":"{old}"'.encode(), f'"sha256":"{new}"'.encode(), 1)


def _read_exactly(stream: BufferedIOBase, length: int) -> bytes:
    data = stream.read(length)
    if len(data) != length:
        raise ModelFileError(f"The file ended while its header was read: {len(data)} of {length}.")
    return data


def _read_into(stream: BufferedIOBase, view: memoryview, name: str) -> None:
    done = 0
    while done < len(view):
        n_read = stream.readinto(view[done:])
        if not n_read:
            raise ModelFileError(f"The file ended while array {_show(name)} was read.")
        done += n_read


def _guess(start: bytes) -> str:
    """Return what a file with these first bytes may be, to be put after 'not a gapmix model'."""
    for first, what in FOREIGN:
        if start.startswith(first):
            return f" but {what}"
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        return " but a text, perhaps a table"
    return ""


def _show(value: Any) -> str:
    """Return how a value from a file looks in a message: escaped, and cut if it is long."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
