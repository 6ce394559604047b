"""Files that are compressed: known by their first bytes when read, by their ending when written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from gapmix.storage.extras import need

ENDINGS = {".gz": "gzip", ".zst": "zstd"}
FIRST_BYTES = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def inner_suffix(path: Path | None) -> str:
    """Return how a name ends in small letters, below .gz or .zst if it has that: ".csv"."""
    if path is None:
        return ""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in ENDINGS else suffix


def split_name(path: Path) -> tuple[str, str]:
    """Return a file name before its ending and that ending: "out" and ".csv.gz"."""
    whole = path.suffix
    if whole.lower() in ENDINGS:
        whole = Path(path.stem).suffix + whole
    return path.name.removesuffix(whole), whole


class _Reader:
    """What is in a compressed file; damage is a ValueError that names the file."""

    def __init__(self, file: BinaryIO, kind: str, path: Path) -> None:
        self._stream, self._path = need("pyarrow", "cli").CompressedInputStream(file, kind), path

    def read(self, n_bytes: int) -> bytes:
        try:
            found: bytes = self._stream.read(n_bytes)
        except OSError as error:
            if error.errno is not None:  # the disk's fault, not the file's
                raise
            raise ValueError(
                f"'{self._path}' is compressed, and damaged or cut short ({error}). Make it again."
            ) from error
        return found


def find_compression(path: Path) -> str:
    """Return "gzip", "zstd" or nothing, as the first bytes of a file tell."""
    with path.open("rb") as file:
        first = file.read(4)
    return next((kind for mark, kind in FIRST_BYTES.items() if first.startswith(mark)), "")


@contextmanager
def open_bytes(path: Path) -> Iterator[Any]:
    """Open a file to read what is in it from the start, unpacked if it is compressed."""
    kind = find_compression(path)
    with path.open("rb") as file:
        yield _Reader(file, kind, path) if kind else file


class _Kept(io.RawIOBase):
    """A stream that stays open when what compresses into it is closed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._stream.write(data)


@contextmanager
def compressing(stream: BinaryIO, path: Path) -> Iterator[Any]:
    """Return what takes the bytes of a file on their way into a stream, by the ending of its name.

    The same bytes give the same file: it holds no time and no name.
    """
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        yield stream
        return
    arrow = need("pyarrow", "cli")
    with arrow.CompressedOutputStream(arrow.PythonFile(_Kept(stream), mode="w"), kind) as packed:
        yield packed
