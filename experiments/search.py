"""A search in stages for the mixture of a digit, in place of the paper's whole grid.

First the number of components, one more at a time, one start each, until two more than the best
did not help; then the best mixture against its neighbours, one component or one share of kept
principal components away, from one start; then two further starts of the best, and two of each
neighbour. Whenever another mixture turns out better, the search goes on from there. So it ends
where no neighbour is better from any of three starts: nowhere at the end of what was tried.
"""

from __future__ import annotations

from typing import NamedTuple

SHARES = (0.25, 0.5, 0.75, 0.9, 1.0)  # of principal components kept; the paper's are the last three
FIRST_SHARE = 0.75
SEEDS = (0, 1, 2)


class Setting(NamedTuple):
    """A mixture that is tried; settings that differ in their seed only are starts of one."""

    size: int
    share: float
    seed: int


Known = dict[Setting, float]  # negative log-likelihood of validation images


def best_of(known: Known) -> Setting:
    """Return the setting with the lowest value."""
    return min(known, key=lambda setting: known[setting])


def next_setting(known: Known) -> Setting | None:
    """Return what to try next, or None when the best is surrounded."""
    sizes = [s.size for s in known if s.share == FIRST_SHARE and s.seed == SEEDS[0]]
    best = min(sizes, key=lambda size: known[Setting(size, FIRST_SHARE, SEEDS[0])], default=0)
    for size in range(1, best + 3):
        if size not in sizes:
            return Setting(size, FIRST_SHARE, SEEDS[0])
    here = best_of(known)
    first, *further = (
        [s._replace(seed=seed) for s in (here, *around(here)) if has_start(s._replace(seed=seed))]
        for seed in SEEDS
    )
    rest = sorted((s for row in further for s in row), key=lambda s: s[:2] != here[:2])
    return next((s for s in (*first, *rest) if s not in known), None)


def stage_of(setting: Setting, known: Known) -> int:
    """Return 0 for a first start, 1 for a further one of the best so far, 2 of a neighbour."""
    if setting.seed == SEEDS[0]:
        return 0
    return 1 if setting[:2] == best_of(known)[:2] else 2


def around(setting: Setting) -> list[Setting]:
    """Return the neighbours: one component less or more, one share less or more."""
    at = SHARES.index(setting.share)
    sizes = [setting.size - 1, setting.size + 1]
    shares = [SHARES[i] for i in (at - 1, at + 1) if 0 <= i < len(SHARES)]
    return [setting._replace(size=size) for size in sizes if size > 0] + [
        setting._replace(share=share) for share in shares
    ]


def has_start(setting: Setting) -> bool:
    """Tell whether a start is a further one: k-means with one centre has but one outcome."""
    return setting.size > 1 or setting.seed == SEEDS[0]


def starts_of(known: Known, setting: Setting) -> list[float]:
    """Return the values of all starts of a setting."""
    return [v for s, v in known.items() if s[:2] == setting[:2]]
