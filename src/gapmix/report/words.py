"""Numbers and names as a report says them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gapmix.tables.schema import CONTROL

NOTHING = "\N{EN DASH}"
MAX_LABEL = 48  # characters of a name in the text
MAX_TABLE = 30  # rows of a table
MAX_TICK = 20  # and beside an axis


def label(name: str, most: int = MAX_LABEL) -> str:
    """Return a name without control characters, shortened in its middle if it is long."""
    head = 2 * most // 3
    short = name if len(name) <= most else f"{name[:head]}…{name[len(name) - most + head + 1 :]}"
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", short) or "(no name)"


def number(value: float) -> str:
    """Return a number with three or four digits that count, as people write it."""
    if not math.isfinite(value):
        return NOTHING
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e7 or size < 1e-4:
        return _minus(f"{value:.2e}")
    if size >= 1000:
        return _minus(f"{value:,.0f}")
    digits = max(0, 2 - math.floor(math.log10(size)))
    text = f"{value:.{digits}f}"
    return _minus(text.rstrip("0").rstrip(".") if "." in text else text)


def plus_minus(value: float, spread: float) -> str:
    """Return a value and its spread with the digits that the spread leaves it."""
    if not (math.isfinite(value) and 1e-4 <= spread < 1e7 and abs(value) < 1e7):
        return f"{number(value)} ± {number(spread)}"
    digits = max(0, 1 - math.floor(math.log10(spread)))
    return f"{_minus(f'{value:,.{digits}f}')} ± {spread:,.{digits}f}"


def signed(value: float) -> str:
    """Return a number of standard deviations with its sign."""
    return f"+{value:.1f}" if value >= 0.05 else _minus(f"{value:.1f}") if value <= -0.05 else "0.0"


def percent(share: float) -> str:
    """Return a share as a percentage; what is not nothing is never said to be 0 %."""
    if not math.isfinite(share):
        return NOTHING
    value = 100 * share
    if value == 0 or value == 100:
        return f"{value:.0f} %"
    if value < 0.1:
        return "under 0.1 %"
    if 99.9 < value < 100:
        return "over 99.9 %"
    if value < 10 or 99 < value < 100:
        return f"{value:.1f} %"
    return f"{value:.0f} %"


def amount(count: int, noun: str, several: str | None = None) -> str:
    """Return "1 row" or "2,000 rows"."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def listed(items: Sequence[str], most: int = 6) -> str:
    """Return "a, b and c", or "a, b and 7 more"."""
    shown = list(items)
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(items) - most + 1:,} more"]
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def chance(p: float) -> str:
    """Return a p value as text."""
    return "under 0.0001" if p < 1e-4 else f"{p:.2g}"


def duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}", 1) if text.startswith("-") else text
