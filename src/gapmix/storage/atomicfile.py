"""Files written as a whole: whoever opens the path finds the old bytes or the new, never a mixture.

The new bytes go to a file without a name where the system has those, so that a process killed half
way leaves nothing behind; elsewhere to a temporary file, which is removed if anything goes wrong.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

Path = str | os.PathLike[str]
Chunk = bytes | memoryview
COPY_BYTES = 2**22
NAMELESS = getattr(os, "O_TMPFILE", 0)  # opens a file without a name, on Linux


class Target(NamedTuple):
    """Where bytes will go."""

    path: str  # symbolic links followed
    folder: str
    permissions: int | None  # of the file that is there now


class Replacement:
    """A file in the making: what is written to `stream` takes the place of `path` as a whole.

    A new file gets the permissions the umask leaves; a file that is replaced hands on its own.
    A symbolic link stays, and what it points to is replaced. In a `with` statement, an error
    inside leaves what was there before.
    """

    def __init__(self, path: Path) -> None:
        self._target = find_target(path)
        self._temporary = os.path.join(self._target.folder, f".gapmix-{secrets.token_hex(8)}.tmp")
        nameless = _open_nameless(self._target.folder)
        self._is_named = nameless is None
        self.stream: BinaryIO = nameless or _open_named(self._target.folder, self._temporary)

    def finish(self) -> None:
        """Wait until all bytes are on the disk, and put the file in its place."""
        try:
            with self.stream as stream:
                _settle(stream, self._target)
                if not self._is_named:
                    self._give_name()
            os.replace(self._temporary, self._target.path)
        except BaseException:
            self.discard()
            raise
        _sync_folder(self._target.folder)

    def discard(self) -> None:
        """Leave nothing behind."""
        with suppress(OSError):  # what could not be written is not wanted any more
            self.stream.close()
        with suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def __enter__(self) -> BinaryIO:
        return self.stream

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.discard()

    def _give_name(self) -> None:
        """Link the nameless file to its temporary name, or copy it where links are refused."""
        folder = os.open(self._target.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Naming the folder by its number makes Python call linkat, which follows the link.
            source = f"/proc/self/fd/{self.stream.fileno()}"
            os.link(source, os.path.basename(self._temporary), dst_dir_fd=folder)
        except OSError:
            self.stream.seek(0)
            with _open_named(self._target.folder, self._temporary) as copy:
                shutil.copyfileobj(self.stream, copy, COPY_BYTES)
                _settle(copy, self._target)
        finally:
            os.close(folder)


def replace_file(path: Path, chunks: Sequence[Chunk]) -> None:
    """Write the chunks to `path`, all of them or nothing, and wait until they are on the disk."""
    with Replacement(path) as stream:
        for chunk in chunks:
            stream.write(chunk)


def find_target(path: Path) -> Target:
    """Return where a file of this name will be, or raise an error that says why it cannot be."""
    name = os.fsdecode(os.fspath(path))
    real = os.path.realpath(name)
    folder = os.path.dirname(real)
    try:
        found = os.stat(real)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                errno.ENOENT, "The folder to save in does not exist; make it first", folder
            ) from None
        return Target(real, folder, None)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(
            errno.EISDIR, "This is a folder; give the name of a file in it", name
        )
    if not stat.S_ISREG(found.st_mode):
        raise OSError(
            errno.EINVAL, "This is a device or a pipe, which cannot be replaced by a file", name
        )
    if not os.access(real, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(
            errno.EACCES, "The file there is read-only; remove it or choose another name", name
        )
    return Target(real, folder, stat.S_IMODE(found.st_mode) & 0o777)


def _open_nameless(folder: str) -> BinaryIO | None:
    """Return a file that gets its name only when it is whole; None if the system has no such."""
    if not NAMELESS:
        return None
    try:
        file = os.open(folder, NAMELESS | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:
        return None  # not on this file system; what else may be wrong shows on the other way
    return open(file, "w+b")


def _open_named(folder: str, temporary: str) -> BinaryIO:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        file = os.open(temporary, flags, 0o666)
    except PermissionError as error:
        raise PermissionError(
            errno.EACCES, "No file can be made in this folder; choose another", folder
        ) from error
    return open(file, "w+b")


def _settle(stream: BinaryIO, target: Target) -> None:
    """Give the file its permissions, and wait until its bytes are on the disk."""
    stream.flush()
    if target.permissions is not None and hasattr(os, "fchmod"):
        os.fchmod(stream.fileno(), target.permissions)
    os.fsync(stream.fileno())


def _sync_folder(folder: str) -> None:
    """Wait until the folder's entry is on the disk too, where folders can be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network folders cannot
            raise
    finally:
        os.close(number)
