"""Compiled inner loops, and the one place that knows Numba and BLAS pointers.

The kernels are loaded when first used: importing Numba takes longer than importing the rest.
"""

import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from gapmix.plan import layout

MODULES = (
    "single",
    "lanes",
    "completing",
    "sharing",
    "shaped",
    "factors",
    "levels",
    "boosted",
    "growing",
)


@cache
def load(name: str) -> ModuleType:
    """Return the module `gapmix.kernels.<name>`, importing and compiling it if need be."""
    return import_module(f"gapmix.kernels.{name}")


@cache
def digest() -> str:
    """Return a digest of the sources of all kernels, and of the layout they are given.

    Numba keeps compiled code by the file of the function that is called, and would not notice that
    one which it put in place of a call has changed in another file.
    """
    paths = [*sorted(Path(__file__).parent.glob("*.py")), Path(layout.__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:12]
