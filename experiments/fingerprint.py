"""Which code made a result: a digest that comments, docstrings and layout do not change.

Two parts: of the package, the modules that the fit of a mixture reaches by imports; and of the
experiments, the function that does a cell with every function and constant it reaches.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import textwrap
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import gapmix

FIT = "gapmix.fitting.whole"
# These make no number: words, files, the list of kernels, what stands in for a missing Numba.
BESIDE = r"gapmix\.(wording|storage.*|kernels|kernels\.twins)"
OURS = ("experiments.", "benchmarks.problems", "benchmarks.data")
ELSE = ("experiments.store",)  # it keeps results and makes none


def plain(source: str) -> str:
    """Return the meaning of source: its syntax tree without docstrings."""
    tree = ast.parse(textwrap.dedent(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


@cache
def of_package() -> str:
    """Return the digest of the modules that a fit goes through."""
    digest = hashlib.sha256()
    for name, source in sorted(reached_modules().items()):
        digest.update(f"{name} {plain(source)}".encode())
    return digest.hexdigest()[:12]


def reached_modules() -> dict[str, str]:
    """Return the sources of the modules that a fit imports, and of the kernels it loads by name."""
    found: dict[str, str] = {}
    names = [FIT]
    while names:
        name = names.pop()
        path = _file_of(name)
        if path is None or name in found or re.fullmatch(BESIDE, name):
            continue
        found[name] = path.read_text()
        for node in ast.walk(ast.parse(found[name])):
            names += _imported(node)
    return found


def _file_of(name: str) -> Path | None:
    """Return the file of a module below the package, None for anything else."""
    first, *rest = name.split(".")
    path = Path(gapmix.__file__).parent.joinpath(*rest)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if first == "gapmix" and rest and path.exists() else None


def _imported(node: ast.AST) -> list[str]:
    """Return what may be names of modules in an import, or in the loading of a kernel."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}", *(f"{node.module}.{each.name}" for each in node.names)]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "kernels.load":
        return [f"gapmix.kernels.{ast.literal_eval(each)}" for each in node.args]
    return []


@cache
def of_work(compute: Callable[..., Any]) -> str:
    """Return the digest of a function of the experiments and all it reaches there."""
    found: dict[str, str] = {}
    _reach(compute, found)
    text = "\n".join(f"{name} {found[name]}" for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _reach(value: Any, found: dict[str, str]) -> None:
    """Add a function, and what it names in our modules, to those found."""
    while isinstance(value, partial):
        value = value.func
    value = inspect.unwrap(getattr(value, "py_func", value))
    if not inspect.isfunction(value) or not value.__module__.startswith(OURS):
        return
    if value.__module__ in ELSE:
        return
    name = f"{value.__module__}.{value.__qualname__}"
    if name in found:
        return
    found[name] = plain(inspect.getsource(value))
    names = _names(value.__code__)
    for word in sorted(names & value.__globals__.keys()):
        other = value.__globals__[word]
        if isinstance(other, ModuleType) and other.__name__.startswith(OURS):
            for attribute in sorted(names & vars(other).keys()):
                _note(f"{other.__name__}.{attribute}", vars(other)[attribute], found)
        else:
            _note(f"{value.__module__}.{word}", other, found)


def _note(name: str, value: Any, found: dict[str, str]) -> None:
    """Add a constant by its value, a function by its source, a collection by what is in it."""
    if isinstance(value, dict | tuple) and " at 0x" in repr(value):  # there are functions in it
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in inside:
            _note(f"{name}[{key!r}]", each, found)
    elif isinstance(value, int | float | str | tuple | dict):
        found[name] = repr(value)
    _reach(value, found)


def _names(code: Any) -> set[str]:
    """Return the names that a function uses, those of functions inside it included."""
    inner = (each for each in code.co_consts if hasattr(each, "co_names"))
    return set(code.co_names).union(*(_names(each) for each in inner))
