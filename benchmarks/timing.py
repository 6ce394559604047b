"""Taking times: contestants in turn, so that what disturbs one disturbs all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.contestants import Contestant

WARM_UP = 1  # iterations that are not counted: compiled code is loaded in the first
LEAST = 2  # iterations that are, whatever they cost
COMMON = WARM_UP + LEAST


class Timing(NamedTuple):
    """Seconds per iteration of one contestant."""

    median: float
    q1: float
    q3: float
    n_timed: int
    iterations: int  # done in all, warm-up included
    log_likelihood: float | None  # per row, at the last of them
    log_likelihood_common: float | None  # at iteration COMMON, which everyone reaches


def interleave(contestants: Sequence[Contestant], repeats: int, budget: float) -> list[Timing]:
    """Time one iteration of each in turn, `repeats` times, the order reversed every other time.

    Who has used up `budget` seconds of the clock sits out the rest.
    """
    seconds: list[list[float]] = [[] for _ in contestants]
    used = [0.0 for _ in contestants]
    common: list[float | None] = [None for _ in contestants]
    order = list(range(len(contestants)))
    for turn in range(-WARM_UP, repeats):
        for i in order if turn % 2 == 0 else order[::-1]:
            if len(seconds[i]) < COMMON or used[i] < budget:
                began = time.perf_counter()
                seconds[i].append(contestants[i].step())
                used[i] += time.perf_counter() - began
                if len(seconds[i]) == COMMON:
                    common[i] = contestants[i].log_likelihood
    return [
        _summarise(s, contestant, value)
        for s, contestant, value in zip(seconds, contestants, common, strict=True)
    ]


def _summarise(seconds: list[float], contestant: Contestant, common: float | None) -> Timing:
    timed = seconds[WARM_UP:]
    q1, median, q3 = (float(q) for q in np.percentile(timed, [25, 50, 75]))
    return Timing(median, q1, q3, len(timed), len(seconds), contestant.log_likelihood, common)
