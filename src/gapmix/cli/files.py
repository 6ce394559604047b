"""Which files a command reads and writes: none is written over another, known before any work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gapmix.cli.requests import Writing
from gapmix.storage.atomicfile import find_target
from gapmix.storage.compressed import split_name
from gapmix.storage.tablefiles import is_parquet
from gapmix.tables.formats import STANDARD, refuse_output
from gapmix.tables.schema import CallError
from gapmix.wording import quote

PICTURES = ("missing", "patterns", "convergence", "filled")  # what --plots may draw
Files = Mapping[str, str | Path | None]  # by the option that names them


def list_targets(writing: Writing) -> list[tuple[int | None, Path | None]]:
    """Return each table to write: the number of its draw, from 1, and its file."""
    if writing.draws is None:
        return [(None, writing.path)]
    path, numbers = writing.path, range(1, writing.draws + 1)
    if path is None or writing.draw_column or writing.draws == 1:
        return [(draw, path) for draw in numbers]
    name, ending = split_name(path)
    return [(draw, path.with_name(f"{name}.{draw}{ending}")) for draw in numbers]


def to_output(path: Path | None) -> Path | None:
    """Return where a table goes, None for standard output; refuse endings that mislead."""
    refuse_output(path)
    return None if path == Path(STANDARD) else path


def picture_path(folder: Path, name: str) -> Path:
    """Return the file of a picture."""
    return folder / f"{name}.png"


def check_files(
    reads: Files, writes: Files | Writing, plots: Path | None = None, *, force: bool = False
) -> None:
    """Raise an error about a file that cannot be written, or that is read or written otherwise.

    With `force`, one output may take the place of the table, which is read to its end before that.
    """
    single = isinstance(writes, Writing) and len({path for _, path in list_targets(writes)}) == 1
    table = set(identify(reads["the table"] or "")) if single else set()
    owners: dict[object, str] = {}
    for what, place in reads.items():
        for path in _list_files(place):
            owners.update(dict.fromkeys(identify(path), f"{what} {quote(str(place))}"))
    for option, path in _list_writes(writes, plots):
        if path == Path(STANDARD):
            raise CallError(f"{option}: only tables go to standard output. Name a file.")
        _check_target(path)
        for folder in (place for place in reads.values() if place is not None):
            inside = os.path.realpath(folder) == os.path.realpath(path.parent)
            if inside and is_parquet(path):
                raise CallError(
                    f"{option} {quote(str(path))} would become a part of the table in the folder "
                    f"{quote(str(folder))}. Choose another folder."
                )
        keys = identify(path)
        taken = next((owners[key] for key in keys if key in owners), None)
        in_place = option == "--output" and not table.isdisjoint(keys)
        if taken is not None and not (force and in_place):
            way = ", or give --force" if in_place else ""
            raise CallError(
                f"{option} {quote(str(path))} would overwrite {taken}. Choose another name{way}."
            )
        owners.update(dict.fromkeys(keys, f"{option} {quote(str(path))}"))


def identify(path: str | Path) -> list[object]:
    """Return what tells a file from others: its path with links followed, and its inode."""
    real = os.path.realpath(path)
    try:
        found = os.stat(real)
    except (OSError, ValueError):
        return [real]
    return [real, (found.st_dev, found.st_ino)]


def _list_writes(writes: Files | Writing, plots: Path | None) -> Iterator[tuple[str, Path]]:
    if isinstance(writes, Writing):
        for target in dict.fromkeys(path for _, path in list_targets(writes)):
            if target is not None:
                yield "--output", target
        writes = {"--save-model": writes.model_path, "--checkpoint": writes.checkpoint}
    for option, path in writes.items():
        if path is not None:
            yield option, Path(path)
    if plots is not None and plots.is_dir():
        for name in PICTURES:
            yield "--plots", picture_path(plots, name)


def _list_files(place: str | Path | None) -> Sequence[str | Path]:
    if place is None:
        return ()
    if os.path.isdir(place):
        return [path for path in Path(place).rglob("*") if is_parquet(path)]
    return (place,)


def _check_target(path: Path) -> None:
    if not path.parent.is_dir():
        raise CallError(f"There is no folder {quote(str(path.parent))} to write to.")
    try:
        find_target(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CallError(f"Cannot write {quote(str(path))}: {reason}.") from error
