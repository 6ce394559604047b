"""Compiled inner loops, and the one place that knows Numba and BLAS pointers.

The kernels are loaded when first used: importing Numba takes longer than importing the rest.
"""

from __future__ import annotations

import hashlib
import logging
import os
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from gapmix.plan import layout

logger = logging.getLogger("gapmix")


@cache
def load(name: str) -> ModuleType:
    """Return the module `gapmix.kernels.<name>`, importing and compiling it if need be."""
    if not _is_compiled(name):
        logger.info("compiling kernels (%s) for this machine, once: a few seconds", name)
    return import_module(f"gapmix.kernels.{name}")


def _is_compiled(name: str) -> bool:
    """Tell whether Numba has kept the compiled kernels of a module."""
    folders = [Path(__file__).parent / "__pycache__"]
    if "NUMBA_CACHE_DIR" in os.environ:
        folders.append(Path(os.environ["NUMBA_CACHE_DIR"]))
    return any(next(folder.rglob(f"{name}.*{digest()}*.nbi"), None) for folder in folders)


@cache
def digest() -> str:
    """Return a digest of the sources of all kernels, and of the layout they are given.

    Numba keeps compiled code by the file of the function that is called, and would not notice that
    one which it put in place of a call has changed in another file.
    """
    paths = [*sorted(Path(__file__).parent.glob("*.py")), Path(layout.__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:12]
