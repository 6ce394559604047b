"""How far a job has come and how long it still takes, as far as that can be known.

Times are handed in, so that a recorded run can be played again. A share never falls, and a time
left moves no faster than its reader could follow: it is never negative and never leaps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gapmix.fitting.progress import Event

WEIGHTS = {
    "fitting": 8.0,
    "sizes": 4.0,
}  # of parts of a job whose times are not known; others count 1
GROWTH = 1.3  # a fit of K components takes about K^1.3 as long as one of one component
N_KEPT = 3  # sizes at most are fitted again, to all that is known
REFIT = 0.5  # as long as the first time: it goes on from where that was
USUAL_ITERATIONS = 30.0  # of a fit, while none is done
OVERDUE = 0.3  # of the iterations done are still to come, if there are more than usual
ENOUGH = 4  # iterations to tell a speed from
LEAP = 8.0  # times: what is said changes no more at once, however long nothing was heard
LEAST_ELAPSED = 2.0  # seconds; earlier, times tell nothing


class Work(NamedTuple):
    """How much of the fitting is done."""

    share: float
    left: float  # seconds
    at_most: bool  # sizes still grow, and may end growing before all that are counted


class FitWork:
    """Tells from its iterations how much of a fit, or of fits of growing sizes, is done.

    While sizes grow, all that may still be tried are counted.
    """

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._n_heard = self._n_iter = 0
        self._size = 0
        self._began = 0.0  # of the fit under way: its first iteration, after compiling and starts
        self._tried: list[int] = []  # sizes
        self._again: list[int] = []  # those that are fitted again
        self._done: list[tuple[float, float, int]] = []  # seconds, units, iterations of fits

    def hear(self, event: Event, now: float) -> Work | None:
        """Return what is done and left; None while too little is known."""
        self._n_heard += 1
        if event.n_components != self._size or event.start == event.iteration == 1:
            self._begin(event.n_components, now)
        self._n_iter = event.iteration
        usual = USUAL_ITERATIONS
        if self._done:
            usual = sum(n for _, _, n in self._done[-2:]) / len(self._done[-2:])
        n_left = max(usual - event.iteration, OVERDUE * event.iteration, 1.0)
        n_left = min(n_left, max(self._max_iter - event.iteration, 0))
        share = (event.start - 1 + event.iteration / (event.iteration + n_left)) / event.n_starts
        units = self._units()
        # Later fits are like the last ones; the one under way tells more the further it is.
        known = [*self._done[-2:], (now - self._began, units * share, 0)]
        speed = sum(each[0] for each in known) / max(sum(each[1] for each in known), 1e-300)
        before = sum(each for _, each, _ in self._done)
        todo = units * (1.0 - share) + self._units_to_come(event.sizes)
        if self._n_heard < ENOUGH:
            return None
        grows = not self._again and any(size > self._size for size in event.sizes)
        done = before + units * share
        return Work(done / (done + todo), speed * todo, grows)

    def _begin(self, size: int, now: float) -> None:
        if self._size:
            self._done.append((now - self._began, self._units(), self._n_iter))
        (self._again if size in self._tried else self._tried).append(size)
        self._size, self._began = size, now

    def _units(self) -> float:
        return self._size**GROWTH * (REFIT if self._again else 1.0)

    def _units_to_come(self, sizes: Sequence[int]) -> float:
        """Return the work of sizes that may still be tried, and of those to be fitted again."""
        if len(sizes) < 2:
            return 0.0
        larger = [size for size in sizes if size > self._size]
        n_kept = max(N_KEPT - len(self._again), 0)
        if self._again:
            later = [size for size in self._tried if size > self._size]
            return REFIT * sum(size**GROWTH for size in later[:n_kept])
        kept = [*self._tried, *larger][-n_kept:]
        return sum(size**GROWTH for size in larger) + REFIT * sum(size**GROWTH for size in kept)


class Forecast:
    """Share and time left of a job of several parts, some of which may be alike."""

    def __init__(self, parts: Sequence[str] = ()) -> None:
        self._parts = list(parts)
        self._place = -1
        self._took: dict[str, list[float]] = {}  # seconds of parts that are done, by name
        self._job_began: float | None = None
        self._part_began = self._at = 0.0
        self._within: float | None = None  # share of the part
        self._left: float | None = None  # seconds of the part
        self._said: float | None = None  # seconds left of the job, at the time `_at`
        self.at_most = False  # whether that is a bound
        self.share = 0.0

    def begin(self, part: str, now: float) -> None:
        """Hear that a part begins; one that was not planned is a piece of the part under way."""
        if self._job_began is None:
            self._job_began = now
        if part not in self._parts[self._place + 1 :]:
            return
        if self._place >= 0:
            name = self._parts[self._place]
            self._took.setdefault(name, []).append(now - self._part_began)
        self._place = self._parts.index(part, self._place + 1)
        self._part_began, self._within, self._left, self._said = now, None, None, None
        self.at_most = False
        self._update(now)

    def hear(
        self, now: float, share: float | None, left: float | None = None, at_most: bool = False
    ) -> None:
        """Hear how much of the part is done, and the seconds that it still takes, if known."""
        if self._place < 0:  # nothing is planned
            return
        self._within, self._left = share, left
        if left is None and share:
            self._left = (now - self._part_began) * (1.0 - share) / share
        at_most = at_most and self._expect(self._parts[self._place]) is None
        if self.at_most and not at_most:  # growing has ended
            self._said = None
        self.at_most = at_most
        self._update(now)

    def elapsed(self, now: float) -> float:
        """Return the seconds since the job began."""
        return 0.0 if self._job_began is None else now - self._job_began

    def left(self, now: float) -> float | None:
        """Return the seconds left, None if that cannot be known yet; it only runs down."""
        if self._said is None or self.elapsed(now) < LEAST_ELAPSED:
            return None
        return max(self._said - (now - self._at), self._said / 3)

    def _update(self, now: float) -> None:
        left = self._estimate(now)
        if left is None:
            self._said = None
        elif self._said is None or self.elapsed(now) < LEAST_ELAPSED:
            self._said, self._at = left, now
        else:  # it follows what is found, but slowly
            passed = now - self._at
            said = max(self._said - passed, self._said / 3)
            low = max(said * math.exp(-passed), self._said / LEAP)
            high = min(said * math.exp(passed / 10) + passed, LEAP * max(self._said, 1.0))
            self._said, self._at = min(max(left, low), max(high, low)), now
        if left is not None:
            share = self.elapsed(now) / max(self.elapsed(now) + (self._said or 0.0), 1e-9)
        else:
            weights = [WEIGHTS.get(part, 1.0) for part in self._parts]
            done = sum(weights[: max(self._place, 0)])
            if self._place >= 0:
                done += weights[self._place] * (self._within or 0.0)
            share = done / max(sum(weights), 1e-9)
        self.share = max(self.share, min(share, 0.99))

    def _estimate(self, now: float) -> float | None:
        """Return the seconds left of the job, from this part and from how long others took."""
        if self._place < 0:
            return None
        name = self._parts[self._place]
        expected, left = self._expect(name), self._left
        if expected is not None and (left is None or not self._within or self._within < 0.3):
            left = max(expected - (now - self._part_began), 0.1 * expected)
        if left is None:
            return None
        own = now - self._part_began + left  # of this part, and so of others like it
        after = self._parts[self._place + 1 :]
        later = [own if part == name else self._expect(part) for part in after]
        if None in later:
            return None
        return left + sum(each for each in later if each is not None)

    def _expect(self, part: str) -> float | None:
        """Return the seconds that a part should take; writing reads all rows again, and fills."""
        took = self._took.get(part)
        if took:
            return sum(took) / len(took)
        read = self._took.get("reading") if part == "writing" else None
        return 2.0 * read[-1] if read else None
