"""What `verbose` shows: starts and iterations, through the `gapmix` logger."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gapmix.em import Iteration

logger = logging.getLogger("gapmix")

Report = Callable[[Iteration], None]


@contextmanager
def reporting(verbose: int, interval: int, n_starts: int) -> Iterator[Callable[[int], Report]]:
    """Yield a maker of callbacks, one for each start; 1 logs starts, 2 iterations too.

    Lines go to stderr unless the application has set up logging of its own.
    """
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

        def report(record: Iteration) -> None:
            nonlocal count
            count += 1
            if verbose > 1 and count % interval == 0:
                logger.info(
                    "  iteration %d: objective %.6f per row, %.3f s",
                    count,
                    record.objective,
                    record.seconds,
                )

        return report

    try:
        yield for_start
    finally:
        logger.setLevel(level)
        if handler is not None:
            logger.removeHandler(handler)
