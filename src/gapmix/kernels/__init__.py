"""Compiled inner loops, and the one place that knows Numba and BLAS pointers.

The kernels are loaded when first used: importing Numba takes longer than importing the rest.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from gapmix.kernels.sources import digest

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
