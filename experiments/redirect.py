"""Let NumPy and SciPy as they are installed call oneMKL instead of the OpenBLAS they bring.

Their compiled modules call BLAS and LAPACK under names of OpenBLAS's own, such as `scipy_dpotrf_`,
or `scipy_cblas_dgemm64_` where integers have 64 bits. This writes a small library that has all
these names and jumps to oneMKL; loaded first, it takes every call. It needs Linux on x86-64, a C
compiler and `nm`:

    pip install --target build/mkl mkl
    python -m experiments.redirect build/mkl

prints the command that times oneMKL.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy

OWN = "scipy_"  # what names of OpenBLAS begin with in the wheels of NumPy and SciPy


def list_symbols(path: Path, which: str) -> set[str]:
    """Return the names that a library defines, or those it needs."""
    done = subprocess.run(["nm", "-D", f"--{which}-only", path], capture_output=True, text=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if line}


def name_there(name: str) -> str:
    """Return oneMKL's name of a function, given OpenBLAS's.

    >>> [name_there(f"scipy_{name}") for name in ("dpotrf_", "dpotrf_64_", "cblas_dgemm64_")]
    ['dpotrf_', 'dpotrf_64_', 'cblas_dgemm_64']
    """
    plain = name.removeprefix(OWN)
    return re.sub(r"(?<!_)64_$", "_64", plain)


def write_redirection(names: set[str], path: Path) -> None:
    """Write the assembly of a library that jumps from each name to its counterpart."""
    lines = [".text"]
    for name in sorted(names):
        lines += [
            f".globl {name}",
            f".type {name},@function",
            f"{name}: jmp {name_there(name)}@PLT",
        ]
    path.write_text("\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""]))


def main() -> None:
    """Make the library, and tell how it is used."""
    folder = Path(sys.argv[1]).resolve()
    library = next(folder.rglob("libmkl_rt.so*"))
    needed: set[str] = set()
    for package in (np, scipy):
        for path in Path(package.__file__).parent.rglob("*.so"):
            needed |= {name for name in list_symbols(path, "undefined") if name.startswith(OWN)}
    absent = {name for name in needed if name_there(name) not in list_symbols(library, "defined")}
    if absent:
        sys.exit(f"error: oneMKL lacks {', '.join(sorted(absent))}")
    source, made = folder / "redirect.S", folder / "redirect.so"
    write_redirection(needed, source)
    place = library.parent
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", made, source, library, f"-Wl,-rpath,{place}"], check=True
    )
    print(
        f"LD_PRELOAD={made} LD_LIBRARY_PATH={place} MKL_THREADING_LAYER=SEQUENTIAL "
        "python -m experiments.libraries oneMKL"
    )


if __name__ == "__main__":
    main()
