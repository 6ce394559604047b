"""Random numbers from scikit-learn's `random_state`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def draw_entropy(random_state: Any) -> np.ndarray:
    """Return four numbers that seed whatever is drawn next."""
    entropy: np.ndarray = check_random_state(random_state).randint(0, 2**31, size=4)
    return entropy


def make_rng(random_state: Any) -> np.random.Generator:
    """Return a generator seeded by `random_state`."""
    return np.random.default_rng(draw_entropy(random_state))
