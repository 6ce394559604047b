"""What `verbose` shows, through the `gapmix` logger, and what a listener hears of a fit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from gapmix.em import Iteration

logger = logging.getLogger("gapmix")

Report = Callable[[Iteration], bool]


class Event(NamedTuple):
    """One iteration of a fit, as a listener hears of it."""

    n_components: int
    start: int  # from 1
    n_starts: int
    iteration: int  # from 1
    record: Iteration  # densities in the user's units


Listener = Callable[[Event], bool]
_listener: ContextVar[Listener | None] = ContextVar("gapmix listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` at every iteration of the fits inside; it returns True to end a fit.

    The fit then ends with the parameters it has, and `stop_reason_` says so.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def reporting(
    verbose: int, interval: int, n_starts: int, *, n_components: int = 1, log_unit: float = 0.0
) -> Iterator[Callable[[int], Report]]:
    """Yield a maker of callbacks, one for each start; 1 logs starts, 2 iterations too.

    Lines go to stderr unless the application has set up logging of its own. `log_unit` is taken
    from log densities, to give them in the user's units.
    """
    listener = _listener.get()
    handler = logging.StreamHandler() if verbose and not logging.getLogger().handlers else None
    level = logger.level
    if verbose:
        logger.setLevel(logging.INFO)
    if handler is not None:
        logger.addHandler(handler)

    def for_start(number: int) -> Report:
        count = 0
        if verbose:
            logger.info("Start %d of %d", number + 1, n_starts)

        def report(record: Iteration) -> bool:
            nonlocal count
            count += 1
            record = record._replace(
                log_likelihood=record.log_likelihood - log_unit,
                objective=record.objective - log_unit,
            )
            if verbose > 1 and count % interval == 0:
                logger.info(
                    "  iteration %d: objective %.6f per row, %.3f s",
                    count,
                    record.objective,
                    record.seconds,
                )
            if listener is None:
                return False
            return listener(Event(n_components, number + 1, n_starts, count, record))

        return report

    try:
        yield for_start
    finally:
        logger.setLevel(level)
        if handler is not None:
            logger.removeHandler(handler)
