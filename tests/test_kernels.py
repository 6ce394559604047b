"""Compiled code that is kept on disk is that of the sources as they are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gapmix

HELPER = """
from gapmix.kernels.compiled import compile_inline

@compile_inline
def helper(values):
    return values[0] + {}
"""
CALLER = """
from gapmix.kernels.compiled import compile_kernel
from gapmix.kernels.helper import helper
from gapmix.kernels.records import REALS

@compile_kernel(REALS)
def caller(values):
    return helper(values)
"""


@pytest.fixture
def package(tmp_path):
    """Return a copy of the package's kernels, with nothing compiled, and two kernels more."""
    folder = tmp_path / "gapmix"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(gapmix.__file__).parent, folder, ignore=ignored)
    (folder / "__init__.py").write_text("")
    (folder / "kernels" / "helper.py").write_text(HELPER.format("1.0"))
    (folder / "kernels" / "caller.py").write_text(CALLER)
    return folder


def run(package, code):
    """Return what Python prints with this copy of the package."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def kept(package, name):
    """Return the compiled files of a module of kernels, with when they were written."""
    files = (package / "kernels" / "__pycache__").glob(f"{name}.*.nbc")
    return {file.name: file.stat().st_mtime_ns for file in files}


def test_code_that_was_put_in_place_of_a_call_is_compiled_anew_when_its_source_changes(package):
    code = """
import numpy as np
from gapmix import kernels
caller = kernels.load("caller").caller
print(bool(caller.stats.cache_hits), caller(np.ones(1)))
"""
    assert run(package, code) == "False 2.0"
    before = kept(package, "caller")
    assert len(before) == 1
    assert run(package, code) == "True 2.0"
    assert kept(package, "caller") == before
    (package / "kernels" / "helper.py").write_text(HELPER.format("5.0"))
    assert run(package, code) == "False 6.0"
    assert run(package, code) == "True 6.0"


def test_kernels_with_and_without_the_interpreter_lock_are_kept_apart(package):
    run(package, "import gapmix.kernels.factors")
    assert len(kept(package, "factors")) == 2


def test_code_compiled_ahead_is_used_where_nothing_can_be_written(package):
    # Numba asks for a folder it can write to; where the package's and the user's are none, what
    # was compiled ahead beside the package still counts.
    code = """
import logging, sys
import numpy as np
import numba.core.caching as caching
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
allowed = []
ensure = caching._CacheLocator.ensure_cache_path
def refuse(self):
    if not any(str(self.get_cache_path()).startswith(each) for each in allowed):
        raise PermissionError(13, "read-only")
    ensure(self)
caching._CacheLocator.ensure_cache_path = refuse
import tempfile
allowed.append(tempfile.gettempdir() + "/gapmix-")
from gapmix import kernels
caller = kernels.load("caller").caller
print(bool(caller.stats.cache_hits), caller(np.ones(1)), caching.config.CACHE_DIR)
"""
    cold = run(package, code)
    assert cold.startswith("Compiling for this machine.")
    assert cold.endswith("False 2.0")
    run(package, "import gapmix.kernels.caller")
    assert run(package, code) == "True 2.0"
