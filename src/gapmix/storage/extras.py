"""Packages that come with an extra only."""

from __future__ import annotations

import importlib
from typing import Any


def need(module: str, extra: str) -> Any:
    """Return an optional module, or raise an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} is needed for this and is not installed: pip install 'gapmix[{extra}]'."
        ) from error
