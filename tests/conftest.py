"""Sizes of the test families: small by default, full with GAPMIX_FULL=1 (`make test-full`)."""

from __future__ import annotations

import os

from threadpoolctl import threadpool_limits

# Tests run in several processes; BLAS threads of each would only get in the others' way.
threadpool_limits(1, user_api="blas")

FULL = os.environ.get("GAPMIX_FULL") == "1"


def size(fast: int, full: int) -> int:
    """Return how many cases to run."""
    return full if FULL else fast
