"""Who fills the tables: a module for each kind of contestant, loaded by another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Contestant(NamedTuple):
    """A way to fill a table, and where it runs."""

    module: str  # of this folder
    settings: dict[str, Any]
    packages: tuple[str, ...] = ("scikit-learn",)  # that count, as pip is told of them
    environment: str = ""  # of its own, with these packages; else the one of gapmix
    mixed: bool = False  # only for tables with categories
    guess: Callable[[int, int], float] = lambda n, d: 1e-6 * n * d  # seconds for n rows, d columns


# What newer versions of these break: gcimpute calls np.round_, miceforest a private function of
# LightGBM, and HyperImpute fills with means without a word.
CONTESTANTS = {
    "gapmix quick": Contestant(
        "mixture", {"effort": "quick"}, (), guess=lambda n, d: 1e-5 * n * d**1.5
    ),
    "gapmix unrefined": Contestant(
        "mixture", {"refine": False}, (), guess=lambda n, d: 7e-5 * n * d**1.5
    ),
    "gapmix": Contestant("mixture", {}, (), guess=lambda n, d: 1e-4 * n * d**1.5),
    "gapmix refined": Contestant(
        "mixture", {"refine": "auto"}, (), guess=lambda n, d: 2e-4 * n * d**1.5 + 1.0 * d
    ),
    "gapmix best": Contestant(
        "mixture", {"effort": "best"}, (), guess=lambda n, d: 1e-3 * n * d**1.5
    ),
    "gapmix one-hot": Contestant(
        "indicators", {"refine": False}, (), mixed=True, guess=lambda n, d: 3e-4 * n * d**1.5
    ),
    "mean": Contestant("mean", {}),
    **{
        f"k-NN {k}": Contestant(
            "neighbours",
            {"n_neighbors": k},
            guess=lambda n, d: 2e-8 * n * n * d,
        )
        for k in (5, 10, 20)
    },
    **{
        f"iterative {how}": Contestant(
            "chain",
            {"scaled": how == "scaled", "max_iter": 10},
            guess=lambda n, d: 1e-6 * n * d**2 + 5e-3 * d,
        )
        for how in ("plain", "scaled")
    },
    "extra-trees chain": Contestant(
        "chain",
        {"trees": 100, "max_iter": 10},
        guess=lambda n, d: d * (1.0 + 3e-4 * n * d**0.5),
    ),
    "missForest-like": Contestant(
        "forest",
        {"trees": 100, "max_rounds": 10},
        guess=lambda n, d: d * (1.0 + 4e-4 * n * d**0.5),
    ),
    "gcimpute": Contestant(
        "copula",
        {},
        ("gcimpute", "numpy<2", "pandas<3"),
        "gcimpute",
        guess=lambda n, d: 1e-4 * n * d**1.5,
    ),
    "miceforest": Contestant(
        "boosted",
        {"data_sets": 5, "rounds": 5},
        ("miceforest", "lightgbm<4.6", "pandas<3"),
        "miceforest",
        guess=lambda n, d: 2e-4 * n * d + 2.0 * d,
    ),
    "HyperImpute": Contestant(
        "hyper",
        {},
        ("hyperimpute", "numpy<2", "pandas<3", "scikit-learn<1.6"),
        "hyperimpute",
        guess=lambda n, d: 20.0 + 2e-3 * n * d,
    ),
}
