"""Environments of contestants that gapmix does not depend on: made by pip, each by itself."""

from __future__ import annotations

import inspect
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

from benchmarks.fillers import CONTESTANTS
from benchmarks.fillers.__main__ import MAX_MESSAGE
from gapmix import GaussianMixtureImputer

FOLDER = Path(__file__).parents[2] / "build" / "rivals"
WHY = "why-not.txt"  # in an environment that could not be made


def install(folder: Path, contestants: Iterable[str] = CONTESTANTS) -> None:
    """Make the environments that are not there; one that fails says why when it is asked for."""
    for found in map(CONTESTANTS.__getitem__, contestants):
        place = folder / found.environment
        note = place / WHY
        if not found.environment or (place.exists() and not note.exists()):
            continue
        print(f"installing {', '.join(found.packages)} into {place}", file=sys.stderr, flush=True)
        venv.create(place, with_pip=True)
        note.write_text("pip did not come to an end")
        command = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        done = subprocess.run([*command, *found.packages], capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            note.write_text(f"pip: {lines[-1][:MAX_MESSAGE]}")
        else:
            note.unlink()


def python_of(name: str, folder: Path) -> str:
    """Return the interpreter that runs a contestant."""
    environment = CONTESTANTS[name].environment
    return str(folder / environment / "bin" / "python") if environment else sys.executable


def why_absent(name: str, folder: Path) -> str:
    """Return why a contestant cannot run here, or nothing if it can."""
    found = CONTESTANTS[name]
    parameters = inspect.signature(GaussianMixtureImputer).parameters
    if "effort" in found.settings and "effort" not in parameters:
        return "this version of gapmix has no choice of effort"
    if not found.environment:
        return ""
    note = folder / found.environment / WHY
    if note.exists():
        return note.read_text()
    if not Path(python_of(name, folder)).exists():
        return "not installed: run with --install"
    return ""
