"""How we say things: counts, numbers, shares, durations, names and lists; tables as plain text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

NOTHING = "\N{EN DASH}"
MAX_LABEL = 48  # characters of a name in a text
MAX_QUOTED = 60  # characters of a name or cell in a message
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Advised(str):
    """A message for a warning or an error: a fact, and advice on a parameter in Python's words.

    Who speaks to others, as the command line does, takes the fact and says what to do about it.
    """

    fact: str
    about: str  # the parameter

    def __new__(cls, fact: str, about: str = "", advice: str = "") -> Advised:
        """Return the whole message as a text; a copy that is unpickled begins with this text."""
        message = super().__new__(cls, f"{fact} {advice}" if advice else fact)
        message.fact, message.about = fact, about
        return message


def align(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as text: the first column to the left, the others to the right."""
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    )


# -------------------------------------------------------------------- numbers


def count(n: int, noun: str) -> str:
    """Return "1 row" or "2,000 rows"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


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


def chance(p: float) -> str:
    """Return a p value as text."""
    return "under 0.0001" if p < 1e-4 else f"{p:.2g}"


def duration(seconds: float) -> str:
    """Return a time that somebody waits: "0.3 s", "42 s", "3 min 05 s", "1 h 20 min"."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
    )


def whole_duration(seconds: float) -> str:
    """Return a time that passes, in whole seconds: "1 s", "42 s", "3 min 05 s"."""
    return f"{max(1, round(seconds))} s" if seconds < 99.5 else duration(seconds)


def rough_duration(seconds: float) -> str:
    """Return a time that is only guessed: "3 s", "45 s", "4 min", "1 h 20 min"."""
    if seconds < 97.5:
        return f"{max(1, round(seconds)) if seconds < 20 else 5 * round(seconds / 5)} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    minutes = 10 * round(minutes / 10)
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def short_duration(seconds: float) -> str:
    """Return a time that may be far below a second with three digits: "1.2 s", "35 ms", "80 us"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}", 1) if text.startswith("-") else text


# -------------------------------------------------------------------- names


def clean(text: str) -> str:
    """Return a text without control characters."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def label(name: str, most: int = MAX_LABEL) -> str:
    """Return a name without control characters, shortened in its middle if it is long."""
    head = 2 * most // 3
    short = name if len(name) <= most else f"{name[:head]}…{name[len(name) - most + head + 1 :]}"
    return clean(short) or "(no name)"


def quote(text: str) -> str:
    """Return a name or cell as messages show it: quoted, short, without control characters."""
    text = clean(text)
    return f"'{text}'" if len(text) <= MAX_QUOTED else f"'{text[: MAX_QUOTED - 3]}...'"


def list_names(names: Sequence[str], most: int = 5) -> str:
    """Return names joined for a message, cut after a few: "a, b" or "a, b and 7 more"."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def name_columns(names: Sequence[str], most: int = 5) -> str:
    """Return "Column 'a'" or "Columns 'a', 'b'", of quoted names, to begin a message with."""
    return f"Column{'s' if len(names) > 1 else ''} {list_names(names, most)}"


def say_doubted(names: Sequence[str]) -> str:
    """Return what is said of columns that the rest of the row fills no better than their mean."""
    return (
        f"judging by hidden cells, other columns say little about {list_names(names)}; "
        f"{'its' if len(names) == 1 else 'their'} gaps are filled closer to the mean or the most "
        "frequent level"
    )


def listed(items: Sequence[str], most: int = 6) -> str:
    """Return items as a sentence has them: "a, b and c", or "a, b and 7 more"."""
    shown = list(items)
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(items) - most + 1:,} more"]
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
