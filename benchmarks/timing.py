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
SETTLE = 0.25  # seconds of iterations before one is timed: BLAS threads of whoever ran before go on
# spinning for a tenth of a second, and those of whoever runs now must wake up


class Timing(NamedTuple):
    """Seconds per iteration of one contestant."""

    median: float
    q1: float
    q3: float
    n_timed: int
    iterations: int  # done in all, warm-up included
    log_likelihood: float | None  # per row, at the last of them
    log_likelihood_common: float | None  # at iteration COMMON, which everyone reaches


def interleave(
    contestants: Sequence[Contestant], repeats: int, budget: float, settle: float = SETTLE
) -> list[Timing]:
    """Time one iteration of each in turn, `repeats` times, the order reversed every other time.

    Who has used up `budget` seconds of the clock sits out the rest.
    """
    runs = [_Run(contestant) for contestant in contestants]
    for turn in range(-WARM_UP, repeats):
        for run in runs if turn % 2 == 0 else runs[::-1]:
            if len(run.seconds) < COMMON or run.used < budget:
                run.time_one(settle)
    return [run.summarise() for run in runs]


class _Run:
    """What one contestant has done so far."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self.seconds: list[float] = []
        self.n_steps = 0
        self.used = 0.0
        self.common: float | None = None

    def time_one(self, settle: float) -> None:
        """Time one iteration as it is in the midst of a fit, after others of its own."""
        began = time.perf_counter()
        seconds = self._step()
        while time.perf_counter() - began < settle:
            seconds = self._step()
        self.seconds.append(seconds)

    def _step(self) -> float:
        began = time.perf_counter()
        seconds = self.contestant.step()
        self.used += time.perf_counter() - began
        self.n_steps += 1
        if self.n_steps == COMMON:
            self.common = self.contestant.log_likelihood
        return seconds

    def summarise(self) -> Timing:
        """Return quartiles of the seconds that count."""
        timed = self.seconds[WARM_UP:]
        q1, median, q3 = (float(q) for q in np.percentile(timed, [25, 50, 75]))
        last = self.contestant.log_likelihood
        return Timing(median, q1, q3, len(timed), self.n_steps, last, self.common)
