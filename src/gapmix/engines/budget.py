"""How much memory work on a table may take, and how many rows a piece may have for that."""

import re

DEFAULT_MEMORY = 2**30  # bytes
SHARES = 24  # a piece is at most this part of the memory: a few in flight, each in several forms
MIN_PIECE_ROWS = 64
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {f"{unit}I": 1024**i for i, unit in enumerate("KMGT", 1)}


def read_memory(memory: int | str) -> int:
    """Return a number of bytes from a number or from a text such as '4GB' or '500 MiB'."""
    if isinstance(memory, str):
        found = re.fullmatch(r"([0-9.]+)\s*([KMGT]?I?)B?", memory.strip().upper())
        if found is None or found[2] not in UNITS or found[1].count(".") > 1:
            raise ValueError(
                f"memory={memory!r} is not an amount of memory. Write for example '4GB' or '500MB'."
            )
        memory = int(float(found[1]) * UNITS[found[2]])
    if not isinstance(memory, int) or memory < 10**6:
        raise ValueError(f"memory={memory!r} bytes is too little to work with; use 1MB or more.")
    return memory


def least_bytes(d: int) -> int:
    """Return the memory that pieces of the fewest rows take with all that is done to them."""
    return SHARES * 8 * d * MIN_PIECE_ROWS


def piece_rows(budget: int, d: int) -> int:
    """Return how many rows of d columns a piece has under a budget of bytes."""
    return max(MIN_PIECE_ROWS, budget // (SHARES * 8 * max(d, 1)))
