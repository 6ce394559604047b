"""Modules that are imported when they are needed.

Jobs need numpy, scikit-learn and polars, and pictures matplotlib, which take seconds to import.
`Later` is the one place that puts this off, so that --version, --help and a wrong option answer at
once.
"""

from importlib import import_module
from typing import Any


class Later:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
