"""What was measured, a line of JSON for each cell; a run that was killed goes on where it was.

A cell is a table with holes and a contestant. It is named by a digest of all that its record
depends on: the rows as they are shown, the contestant's code, settings and versions, how scores
are taken. Comments and documentation do not count.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import fillers
from benchmarks.fillers import CONTESTANTS

ROOT = Path(__file__).parents[2]
FILE = "accuracy.jsonl"
FACES = {"cli", "evaluate", "modelfile", "plots", "report", "tables"}  # nothing is filled there
ASK = """
import json, sys
from importlib import metadata
print(json.dumps([metadata.version(name) for name in sys.argv[1:]]))
"""


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the last record of each cell; half a line of a run that was killed is passed over."""
    path = folder / FILE
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[record["key"]] = record
    return found


def append(record: dict[str, Any], folder: Path) -> None:
    """Add a record in one write, on a line of its own whatever stands before it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    line = ("\n" if torn else "") + json.dumps(record) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)


def name_cell(problem: str, contestant: str, seed: int, threads: int) -> str:
    """Return the key of a record, from digests of a problem and of a contestant."""
    return _digest([problem, contestant, str(seed), str(threads)])


def name_contestant(name: str, python: str) -> str:
    """Return a digest of a contestant's code, settings and versions, and of the scores'."""
    found = CONTESTANTS[name]
    files = [
        ROOT / "benchmarks" / "filling" / "scores.py",
        *(
            Path(fillers.__file__).with_name(f"{each}.py")
            for each in ("__main__", "contract", found.module)
        ),
    ]
    if not found.packages:
        files += sorted(
            path
            for path in (ROOT / "src" / "gapmix").rglob("*.py")
            if path.relative_to(ROOT / "src" / "gapmix").parts[0] not in FACES
        )
    code = [what_it_does(path.read_text(encoding="utf-8")) for path in files]
    versions = ask_versions(found.packages, python)
    return _digest([name, json.dumps(found.settings, sort_keys=True), *versions, *code])


def ask_versions(packages: tuple[str, ...], python: str) -> list[str]:
    """Return versions of packages in an environment."""
    packages = tuple(re.split("[<>=]", package)[0] for package in packages)
    if python == sys.executable:
        return [metadata.version(package) for package in packages]
    told = subprocess.run([python, "-c", ASK, *packages], capture_output=True, text=True)
    if told.returncode:
        raise RuntimeError(told.stderr.strip().splitlines()[-1])
    return json.loads(told.stdout)


def what_it_does(source: str) -> str:
    """Return what a source does: without comments, layout and documentation."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                del node.body[0]
    return ast.dump(tree)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
