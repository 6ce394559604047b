"""How kernels are compiled: serial, without the interpreter lock, kept on disk between runs.

Without Numba the package works all the same: every kernel has a NumPy twin, and `compile_kernel`
then returns the twin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from gapmix.kernels import digest

numba: Any
try:
    import numba
except ImportError:
    numba = None

logger = logging.getLogger("gapmix")

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
        try:
            return cast(F, numba.njit(signature, cache=True, **options)(function))
        except RuntimeError:  # no folder to keep the compiled code in
            logger.info("compiled kernels cannot be kept on disk; compiling anew in each process")
            return cast(F, numba.njit(signature, **options)(function))

    return decorate
