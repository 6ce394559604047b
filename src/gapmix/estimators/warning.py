"""Warnings that point at the user's line, and messages that end in advice on a parameter."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import sklearn

# scikit-learn wraps methods and calls them in searches and pipelines: not the user's line either.
INSIDE = tuple(
    str(folder) + os.sep for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent)
)


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


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning on behalf of the first caller outside the library."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
