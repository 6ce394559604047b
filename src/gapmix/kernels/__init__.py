"""Compiled inner loops, and the one place that knows Numba and BLAS pointers.

The kernels are loaded when first used: importing Numba takes longer than importing the rest.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def load(name: str) -> ModuleType:
    """Return the module `gapmix.kernels.<name>`, importing and compiling it if need be."""
    return import_module(f"gapmix.kernels.{name}")
