"""How things are said: counts, names of columns, tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NAMES = 5  # names listed in a message before "and N more"


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


def count(number: int, noun: str) -> str:
    """Return "1 row" or "2 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def list_names(names: Sequence[str]) -> str:
    """Return names joined for a message, cut after a few."""
    shown = ", ".join(names[:MAX_NAMES])
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"


def name_columns(names: Sequence[str]) -> str:
    """Return "Column 'a'" or "Columns 'a', 'b'", to begin a message with."""
    return f"Column{'s' if len(names) > 1 else ''} {list_names(names)}"
