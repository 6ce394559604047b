"""Which code the compiled kernels were made from."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from gapmix.plan import layout


@cache
def digest() -> str:
    """Return a digest of the sources of all kernels, and of the layout they are given.

    Numba keeps compiled code by the file of the function that is called, and would not notice that
    one which it put in place of a call has changed in another file.
    """
    paths = [*sorted(Path(__file__).parent.glob("*.py")), Path(layout.__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:12]
