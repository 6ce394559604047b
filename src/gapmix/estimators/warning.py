"""Warnings that point at the user's line, however deep inside they arise."""

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


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning on behalf of the first caller outside the library."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
