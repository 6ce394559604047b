"""Fitted estimators as files, without pickle."""

from __future__ import annotations

from gapmix.modelfile.files import ModelFileError, load, save

__all__ = ["ModelFileError", "load", "save"]
