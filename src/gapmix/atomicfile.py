"""Files written as a whole: whoever opens the path finds the old bytes or the new, never a mixture.

The new bytes go to a file without a name where the system has those, so that a process killed half
way leaves nothing behind; elsewhere to a temporary file, which is removed if anything goes wrong.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

Path = str | os.PathLike[str]
Chunk = bytes | memoryview
NAMELESS = getattr(os, "O_TMPFILE", 0)  # opens a file without a name, on Linux


class Target(NamedTuple):
    """Where bytes will go."""

    path: str  # symbolic links followed
    folder: str
    permissions: int | None  # of the file that is there now


def replace_file(path: Path, chunks: Sequence[Chunk]) -> None:
    """Write the chunks to `path`, all of them or nothing, and wait until they are on the disk.

    A new file gets the permissions the umask leaves; a file that is replaced hands on its own.
    A symbolic link stays, and what it points to is replaced.
    """
    target = find_target(path)
    temporary = os.path.join(target.folder, f".gapmix-{secrets.token_hex(8)}.tmp")
    try:
        if not _write_nameless(target, temporary, chunks):
            _write_named(target, temporary, chunks)
        os.replace(temporary, target.path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(target.folder)


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


def _write_nameless(target: Target, temporary: str, chunks: Sequence[Chunk]) -> bool:
    """Write a file that gets its name only when it is whole; False if the system has no such."""
    if not NAMELESS:
        return False
    try:
        file = os.open(target.folder, NAMELESS | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError:
        return False  # not on this file system; what else may be wrong shows on the other way
    with open(file, "wb") as stream:
        _fill(stream, target, chunks)
        folder = os.open(target.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Naming the folder by its number makes Python call linkat, which follows the link.
            source = f"/proc/self/fd/{stream.fileno()}"
            os.link(source, os.path.basename(temporary), dst_dir_fd=folder)
        except OSError:
            return False
        finally:
            os.close(folder)
    return True


def _write_named(target: Target, temporary: str, chunks: Sequence[Chunk]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        file = os.open(temporary, flags, 0o666)
    except PermissionError as error:
        raise PermissionError(
            errno.EACCES, "No file can be made in this folder; choose another", target.folder
        ) from error
    with open(file, "wb") as stream:
        _fill(stream, target, chunks)


def _fill(stream: BinaryIO, target: Target, chunks: Sequence[Chunk]) -> None:
    for chunk in chunks:
        stream.write(chunk)
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
