"""Sizes of the test families: small by default, full with GAPMIX_FULL=1 (`make test-full`)."""

from __future__ import annotations

import os
import sys

import pytest
from tests.commandline import CommandLine

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # scikit-learn checks array-API input only with it
# Tests run in several processes; BLAS threads of each would only get in the others' way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

collect_ignore = ["reference/make_lca.py"]  # it needs StepMix, which made the reference once
if sys.platform == "win32":  # these need pseudo-terminals, limits of file sizes, or fork
    collect_ignore += ["test_cli.py", "test_cli_files.py", "test_modelfile_save.py"]

FULL = os.environ.get("GAPMIX_FULL") == "1"


def size(fast: int, full: int) -> int:
    """Return how many cases to run."""
    return full if FULL else fast


@pytest.fixture(scope="module")
def gapmix():
    """Yield a function that runs a command in a process of its own; see tests/commandline.py."""
    if not hasattr(os, "fork"):
        pytest.skip("commands are run in forked processes, which Windows does not have")
    line = CommandLine()
    yield line.run
    line.close()
