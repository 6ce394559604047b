"""Going down a grid step by step, in place of trying all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Place = tuple[int, ...]  # the number of a value in each list


class Found(NamedTuple):
    """Where a descent ended, and all it tried."""

    best: Place
    known: dict[Place, float]


def descend(
    lists: Sequence[Sequence[Any]], start: Sequence[Any], value: Callable[[Place], float]
) -> Found:
    """Go from a start to the best of its neighbours until none is better.

    Neighbours are one value away in one list. So it ends where all of them were tried and are
    worse: at an end of a list only if the list ends there.
    """
    here = tuple(list(own).index(at) for own, at in zip(lists, start, strict=True))
    known: dict[Place, float] = {}
    while True:
        for place in (here, *around(here, lists)):
            if place not in known:
                known[place] = value(place)
        best = min(known, key=lambda place: known[place])
        if best == here:
            return Found(here, known)
        here = best


def around(here: Place, lists: Sequence[Sequence[Any]]) -> list[Place]:
    """Return the places that are one value away in one list."""
    return [
        (*here[:axis], here[axis] + step, *here[axis + 1 :])
        for axis in range(len(lists))
        for step in (-1, 1)
        if 0 <= here[axis] + step < len(lists[axis])
    ]


def try_all(lists: Sequence[Sequence[Any]], value: Callable[[Place], float]) -> Found:
    """Try the whole grid."""
    places: list[Place] = [()]
    for own in lists:
        places = [(*place, i) for place in places for i in range(len(own))]
    known = {place: value(place) for place in places}
    return Found(min(known, key=lambda place: known[place]), known)


def values_at(lists: Sequence[Sequence[Any]], place: Place) -> list[Any]:
    """Return the values of a place."""
    return [own[i] for own, i in zip(lists, place, strict=True)]
