"""How kernels are compiled: serial, without the interpreter lock, kept on disk between runs.

Without Numba the package works all the same: every kernel has a NumPy twin, and `compile_kernel`
then returns the twin.
"""

import atexit
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from gapmix.kernels import digest

numba: Any
FunctionCache: Any
try:
    import numba
    from numba.core.caching import FunctionCache
except ImportError:
    numba = None

logger = logging.getLogger("gapmix.kernels")

F = TypeVar("F", bound=Callable[..., Any])

HAS_NUMBA = numba is not None


OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract"},
    "error_model": "numpy",  # a bad pivot gives NaN, which callers test for
}


def compile_inline(function: F) -> F:
    """Compile a small function for use inside kernels, where it is put in place of its calls."""
    return function if numba is None else cast(F, numba.njit(forceinline=True, **OPTIONS)(function))


def compile_in_order(function: F) -> F:
    """Compile like `compile_inline`, with sums in the order in which they are written."""
    options = {**OPTIONS, "fastmath": {"contract"}}
    return function if numba is None else cast(F, numba.njit(forceinline=True, **options)(function))


def compile_kernel(
    *examples: Any, twin: Callable[..., Any] | None = None, keep_lock: bool = False
) -> Callable[[F], F]:
    """Return a decorator that compiles a function for arguments like these, or gives its twin.

    A kernel that only other kernels call needs no twin. Kernels release the interpreter lock,
    unless they are too short for that. Summation order inside a kernel is fixed at compile time
    (reassociation is allowed so that sums use vector registers), hence the same bits
    on every call.
    """

    def decorate(function: F) -> F:
        if numba is None:
            return cast(F, twin)
        # The name is part of the file's: code made from other sources, or with the lock, is not it.
        function.__qualname__ = f"{function.__name__}_{digest()}" + "_locked" * keep_lock
        signature = tuple(numba.typeof(example) for example in examples)
        options = {**OPTIONS, "nogil": not keep_lock}
        with _open_cache(function) as kept:
            return cast(F, numba.njit(signature, cache=kept, **options)(function))

    return decorate


@contextmanager
def _open_cache(function: Callable[..., Any]) -> Iterator[bool]:
    """Tell whether code is kept on disk, having put there what was compiled ahead.

    Numba reads kept code only where it can also write. Where the package cannot be written to, as
    in a container, what was compiled beside it is copied to the user's folder, and where there is
    none, as with a read-only home, to a temporary one.
    """
    before = numba.config.CACHE_DIR
    try:
        folder = _find_folder(function)
        if folder is None:
            numba.config.CACHE_DIR = _make_folder()
            folder = _find_folder(function) if numba.config.CACHE_DIR else None
        files = f"*.{function.__qualname__}-*.nb?"
        if folder is not None and not any(folder.glob(files)):
            ahead = list((Path(__file__).parent / "__pycache__").glob(files))
            for file in ahead:
                shutil.copy2(file, folder / file.name)
            if not ahead:
                _announce()
        yield folder is not None
    finally:
        numba.config.CACHE_DIR = before


def _find_folder(function: Callable[..., Any]) -> Path | None:
    """Return the folder where Numba keeps a function, or None if it can write nowhere."""
    try:
        return Path(FunctionCache(function).cache_path)
    except RuntimeError:
        return None


@cache
def _make_folder() -> str:
    """Return a folder for the time of this process; nothing if there can be none."""
    try:
        folder = tempfile.mkdtemp(prefix="gapmix-")
    except OSError:
        _announce()
        return ""
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _announce() -> None:
    """Say what takes so long, once in a process."""
    logger.info(
        "Compiling for this machine. This takes about half a minute and happens once for each kind "
        "of table. `gapmix warm-up` does all of it in advance."
    )
