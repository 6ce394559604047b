"""Gaussian mixtures on tables with gaps, fitted by exact EM."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapmix.estimators.classifier import GaussianMixtureClassifier
    from gapmix.estimators.imputer import GaussianMixtureImputer
    from gapmix.estimators.mixture import GaussianMixture
    from gapmix.estimators.regressor import GaussianMixtureRegressor
    from gapmix.modelfile.files import load, save

__version__ = "0.1.0"
__all__ = [
    "GaussianMixture",
    "GaussianMixtureClassifier",
    "GaussianMixtureImputer",
    "GaussianMixtureRegressor",
    "load",
    "save",
]

# Names are looked up when first asked for: scikit-learn alone takes longer to import than this
# package should.
_HOMES = {
    "GaussianMixture": "gapmix.estimators.mixture",
    "GaussianMixtureClassifier": "gapmix.estimators.classifier",
    "GaussianMixtureRegressor": "gapmix.estimators.regressor",
    "GaussianMixtureImputer": "gapmix.estimators.imputer",
    "load": "gapmix.modelfile",
    "save": "gapmix.modelfile",
}

logging.getLogger("gapmix").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gapmix' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
