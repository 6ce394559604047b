"""Gaussian mixtures on tables with gaps, fitted by exact EM."""

from __future__ import annotations

import logging

from gapmix.estimators.mixture import GaussianMixture

__version__ = "0.1.0"
__all__ = ["GaussianMixture"]

logging.getLogger("gapmix").addHandler(logging.NullHandler())
