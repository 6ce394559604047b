"""Sizes of the test families: small by default, full with GAPMIX_FULL=1 (`make test-full`)."""

from __future__ import annotations

import os

FULL = os.environ.get("GAPMIX_FULL") == "1"


def size(fast: int, full: int) -> int:
    """Return how many cases to run."""
    return full if FULL else fast
