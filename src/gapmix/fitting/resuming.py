"""Which fit a checkpoint belongs to, and whether this one may go on from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gapmix.em.checkpoint import Saved, check_identity, digest, load
from gapmix.fitting.fitted import Fitted
from gapmix.fitting.spec import Running, Spec
from gapmix.plan import TreeOptions
from gapmix.storage.atomicfile import find_target

FREE = {"max_iter", "tol"}  # what may change when a fit goes on: how long it runs


class Resumed(NamedTuple):
    """A fit as its checkpoint knows it."""

    entropy: tuple[int, ...]  # seeds it
    saved: Saved | None  # to go on from


def open_checkpoint(running: Running, entropy: Sequence[int]) -> Resumed:
    """Return what seeds a fit, and what a checkpoint holds."""
    saved = None
    if running.checkpoint is not None:
        find_target(running.checkpoint)  # say now if nothing can be written there
        saved = load(running.checkpoint)
    if saved is not None and not running.is_seeded:
        entropy = saved.entropy
    return Resumed(tuple(entropy), saved)


def identify(
    spec: Spec,
    running: Running,
    resumed: Resumed,
    before: Fitted | None,
    contents: Mapping[str, object],
) -> tuple[Saved, Saved | None]:
    """Return what identifies this fit to its checkpoint, and what to go on from, if anything.

    Settings that change the result are compared, and arrays by a digest of what is in them: the
    `contents` of the data, starting values, and the fit `before` that this one continues.
    """
    fresh = Saved({}, resumed.entropy, float(spec.tol), int(spec.max_iter), "", 0, None, None)
    if running.checkpoint is None:
        return fresh, None
    compared = {name: value for name, value in spec._asdict().items() if name not in FREE}
    identity = {name: _tell(value) for name, value in compared.items()}
    identity["random_state"] = list(resumed.entropy)
    identity |= {name: _tell(value) for name, value in contents.items()}
    if before is None:
        identity["last solution"] = None
    else:
        last = before.parameters
        identity["last solution"] = digest(*last[:3], *last.categories)
    fresh, saved = fresh._replace(identity=identity), resumed.saved
    if saved is None:
        return fresh, None
    check_identity(saved, identity, running.checkpoint)
    runs_longer = fresh.tol < saved.tol or fresh.max_iter > saved.max_iter
    # Starts that have ended would go on as well, and no state of theirs is there.
    return fresh, None if saved.number > 0 and runs_longer else saved


def _tell(value: object) -> object:
    """Return a setting as text, an array as a digest."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, TreeOptions):  # one that costs by a function has it by name
        value = tuple(getattr(option, "__qualname__", option) for option in value)
    if value is None or isinstance(value, str | int | float | tuple):
        return repr(value)
    return digest(np.asarray(value))
