"""What estimators with heads say of rows, and which learners `refine` asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from gapmix import density
from gapmix.density import Density
from gapmix.density.conditional import Filled
from gapmix.heads.fitting import fit_heads
from gapmix.heads.learners import can_learn, choose_learners
from gapmix.heads.using import Heads, move, redraw, refine
from gapmix.selection.calibration import recalibrate
from gapmix.selection.choose import Chosen, Wanted
from gapmix.selection.effort import LINES, Effort
from gapmix.selection.task import Task


def read_refine(asked: Any, effort: Effort, n_components: int | str, *, mixed: bool) -> Any:
    """Return what learners `refine` asks for: those of an effort, one of its own, or None.

    Effort is what is spent to find a mixture: one of a given number of components is left alone.
    `mixed` tells whether a table has categories.
    """
    if asked is None:
        wanted = effort.refine if n_components == "auto" else None
        return None if wanted == LINES and not mixed else wanted
    if asked is False:
        return None
    if (isinstance(asked, str) and asked == "auto") or can_learn(asked):
        return asked
    raise ValueError(
        f"refine={asked!r} is not known. Use 'auto', a regressor of scikit-learn or a classifier "
        "with predict_proba, False, or None, which leaves it to effort."
    )


def learn_heads(
    imputer: Any, wanted: Wanted, task: Task, chosen: Chosen
) -> tuple[Heads | None, np.ndarray | None]:
    """Return the heads that an imputer asks for, or None, and how intervals are then calibrated."""
    mixed = task.n_levels is not None
    asked = read_refine(imputer.refine, wanted.effort, wanted.n_components, mixed=mixed)
    if asked is None or (imputer.use_target and imputer.refine is None):
        return None, chosen.calibration
    if imputer.use_target:
        raise ValueError(
            "refine and use_target cannot be used together: the learners would see the target of "
            "training rows, but not of new ones. Leave out one of them."
        )
    learners = choose_learners(asked, wanted.seed)
    learned = fit_heads(wanted, task, chosen.fitted, learners, trust=chosen.trust)
    if chosen.calibration is None:
        return learned.heads, None
    told = chosen.calibration.copy()
    for j, widths in learned.widths.items():
        told[j] = recalibrate(told[j], *widths)
    return learned.heads, told


def tell(model: Density, heads: Heads | None, x: np.ndarray, *, spread: bool = False) -> Filled:
    """Return rows filled, and deviations if asked for or needed."""
    if heads is None or not heads.at_work():
        return density.fill(model, x, spread=spread)
    return _compare(model, heads, x)[1]


def _compare(model: Density, heads: Heads, x: np.ndarray) -> tuple[Filled, Filled]:
    """Return what the mixture alone says of rows, and what its heads make of that."""
    before = density.fill(model, x, spread=True)
    return before, refine(heads, before, np.isnan(x), model.shapes)


def quantiles(model: Density, heads: Heads | None, x: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return quantiles of every gap, (len(levels), n, D), as `density.quantiles` does."""
    values = density.quantiles(model, x, levels)
    if heads is None or not heads.at_work():
        return values
    return move(heads, *_compare(model, heads, x), values, np.isnan(x), model.shapes)


def draw(
    model: Density, heads: Heads | None, x: np.ndarray, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of the gaps, (n_draws, n, D), as `density.draw` does."""
    draws = density.draw(model, x, n_draws, rng)
    if heads is None or not heads.at_work():
        return draws
    before, after = _compare(model, heads, x)
    draws = move(heads, before, after, draws, np.isnan(x), model.shapes)
    return redraw(heads, before, after, draws, np.isnan(x), rng)
