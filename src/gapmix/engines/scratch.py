"""Shards on disk: written once, read back in every pass, in a file that nobody else can open.

Reading a shard back takes a tenth of the time of building it from its source again.
"""

import os
import pickle
import shutil
import tempfile
import threading
from typing import Any, BinaryIO, NamedTuple

import numpy as np

ALIGNMENT = 64  # bytes; where every array begins
RESERVE = 20  # this part of the disk stays free
ON_DISK = "/var/tmp"  # kept on disk by convention, where /tmp may be memory


class Entry(NamedTuple):
    """Where a shard is in the file."""

    skeleton: bytes  # the record without its arrays
    offset: int
    sizes: tuple[int, ...]  # bytes of the arrays


class Scratch:
    """A file without a name that holds shards until it is closed; the system then removes it."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = scratch_folder() if folder is None else folder
        self._file: BinaryIO | None = None
        self._entries: dict[int, Entry] = {}
        self._end = 0
        self._lock = threading.Lock()
        self._rooms = threading.local()
        self._is_full = not hasattr(os, "preadv")  # elsewhere shards are built again instead

    def put(self, number: int, shard: Any) -> None:
        """Write a shard, unless the disk is too full for it."""
        if self._is_full or number in self._entries:
            return
        buffers: list[pickle.PickleBuffer] = []
        skeleton = pickle.dumps(shard, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        sizes = tuple(view.nbytes for view in views)
        try:
            file, offset = self._claim(sum(map(_padded, sizes)))
            at = offset
            for view in views:
                _write_at(file, view, at)
                at += _padded(view.nbytes)
        except OSError:
            self._is_full = True
            return
        self._entries[number] = Entry(skeleton, offset, sizes)

    def get(self, number: int) -> Any:
        """Return a shard, None if it is not here.

        Its arrays are overwritten by the next one that the same thread gets: fresh memory for
        each would cost more than the reading.
        """
        entry = self._entries.get(number)
        if entry is None or self._file is None:
            return None
        starts = np.cumsum([0, *map(_padded, entry.sizes)]).tolist()
        room = self._room(starts[-1])
        _read_at(self._file.fileno(), room, entry.offset)
        parts = [room[at : at + n] for at, n in zip(starts[:-1], entry.sizes, strict=True)]
        # The bytes are our own: the file has no name by which others could reach it.
        return pickle.loads(entry.skeleton, buffers=parts)

    def close(self) -> None:
        """Give the space back."""
        self._entries, self._end, self._rooms = {}, 0, threading.local()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _room(self, n_bytes: int) -> memoryview:
        room: Any = getattr(self._rooms, "room", None)
        if room is None or len(room) < n_bytes:
            self._rooms.room = room = np.empty(n_bytes, dtype=np.uint8)
        return memoryview(room)[:n_bytes]

    def _claim(self, n_bytes: int) -> tuple[int, int]:
        """Return the file's number and where in it to write so many bytes."""
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (until close)
            usage = shutil.disk_usage(self._folder)
            if usage.free - n_bytes < usage.total // RESERVE:
                raise OSError("The disk is nearly full.")
            offset = self._end
            self._end += n_bytes
            return self._file.fileno(), offset


def scratch_folder() -> str:
    """Return the folder for scratch files: TMPDIR if it is set, else one that is on disk."""
    given = os.environ.get("TMPDIR")
    if given:
        return given
    return ON_DISK if os.path.isdir(ON_DISK) else tempfile.gettempdir()


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def _write_at(file: int, view: memoryview, offset: int) -> None:
    while view.nbytes:
        n_written = os.pwrite(file, view, offset)
        view, offset = view[n_written:], offset + n_written


def _read_at(file: int, room: memoryview, offset: int) -> None:
    while room.nbytes:
        n_read = os.preadv(file, [room], offset)
        if n_read == 0:
            # Padding after the last array may never have been written.
            room[:] = bytes(room.nbytes)
            return
        room, offset = room[n_read:], offset + n_read
