"""BLAS on parts of larger arrays, without copies.

SciPy's Python wrappers copy an array unless it is contiguous; the routines themselves take a
leading dimension. They are reached through the pointers SciPy exports for Cython. Long calls
release the interpreter lock; short ones keep it, because two threads that hand it to each other
every few microseconds are slower than one.
"""

import ctypes
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

_INT = ctypes.POINTER(ctypes.c_int)
_REAL = ctypes.POINTER(ctypes.c_double)
_ADDRESS = ctypes.c_void_p


LONG_CALL = 256 * 256  # matrix elements from which a call is worth releasing the lock for


def _routine(name: str, *argument_types: Any, keep_lock: bool = False) -> Any:
    capsule = cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    prototype = ctypes.PYFUNCTYPE if keep_lock else ctypes.CFUNCTYPE
    return prototype(None, *argument_types)(address)


_TRSM = (*[ctypes.c_char_p] * 4, *[_INT] * 2, _REAL, *[_ADDRESS, _INT] * 2)
_dtrsm = _routine("dtrsm", *_TRSM)
_short_dtrsm = _routine("dtrsm", *_TRSM, keep_lock=True)
_short_dtrsv = _routine(
    "dtrsv", *[ctypes.c_char_p] * 3, _INT, *[_ADDRESS, _INT] * 2, keep_lock=True
)
_dsyrk = _routine(
    "dsyrk",
    *[ctypes.c_char_p] * 2,
    *[_INT] * 2,
    _REAL,
    *[_ADDRESS, _INT],
    _REAL,
    *[_ADDRESS, _INT],
)
_ONE = ctypes.c_double(1.0)
_STEP = ctypes.c_int(1)
FEW_ROWS = 2  # up to which vector by vector is faster


def solve_upper(upper: np.ndarray, size: int, rows: np.ndarray, *, transposed: bool) -> None:
    """Solve U x = b, or U' x = b, for each row b of `rows` (r, size), in place.

    U is the leading (size, size) part of `upper`, a C-ordered array of any width; BLAS sees it as
    a lower triangle in Fortran order. `rows` is C-contiguous.
    """
    if size == 0 or len(rows) == 0:
        return
    if len(rows) <= FEW_ROWS and size * size < LONG_CALL:
        matrix, order, width = upper.ctypes.data, ctypes.c_int(size), ctypes.c_int(upper.shape[1])
        direction, first, step = b"N" if transposed else b"T", rows.ctypes.data, rows.strides[0]
        for i in range(len(rows)):
            _short_dtrsv(b"L", direction, b"N", order, matrix, width, first + i * step, _STEP)
        return
    routine = _dtrsm if size * size >= LONG_CALL else _short_dtrsm
    routine(
        b"L",
        b"L",
        b"N" if transposed else b"T",
        b"N",
        ctypes.c_int(size),
        ctypes.c_int(len(rows)),
        _ONE,
        upper.ctypes.data,
        ctypes.c_int(upper.shape[1]),
        rows.ctypes.data,
        ctypes.c_int(rows.shape[1]),
    )


def add_products(rows: np.ndarray, total: np.ndarray) -> None:
    """Add rows' rows, (d, d), to the lower triangle of `total`, in place: half a full product.

    Both arrays are C-contiguous.
    """
    n, d = rows.shape
    if n:
        _dsyrk(
            b"U",
            b"N",
            ctypes.c_int(d),
            ctypes.c_int(n),
            _ONE,
            rows.ctypes.data,
            ctypes.c_int(d),
            _ONE,
            total.ctypes.data,
            ctypes.c_int(d),
        )
