"""What `verbose` shows, through the `gapmix` logger, and what a listener hears of a fit."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from gapmix.em.records import Iteration

logger = logging.getLogger("gapmix")

Report = Callable[[Iteration], bool]


class Event(NamedTuple):
    """One iteration of a fit, as a listener hears of it."""

    n_components: int
    start: int  # from 1
    n_starts: int
    iteration: int  # from 1
    record: Iteration  # densities in the user's units
    sizes: tuple[int, ...] = ()  # that may be tried, if the size is to be found


Listener = Callable[[Event], bool]
Pieces = Callable[[str, int, int], None]  # what is done, pieces done, pieces in all
SHOW_EVERY = 0.2  # seconds between lines that pass, in a notebook
MAX_LINES = 40  # the last ones, shown in a notebook
_shown: ContextVar[bool] = ContextVar("gapmix shown", default=False)
_listener: ContextVar[Listener | None] = ContextVar("gapmix listener", default=None)
_sizes: ContextVar[tuple[int, ...]] = ContextVar("gapmix sizes", default=())
_pieces: ContextVar[Pieces | None] = ContextVar("gapmix pieces", default=None)


@contextmanager
def listening(listener: Listener | None, pieces: Pieces | None = None) -> Iterator[None]:
    """Call `listener` at every iteration of the fits inside; it returns True to end a fit.

    The fit then ends with the parameters it has, and `stop_reason_` says so. `pieces` is called
    after every piece of a table that is read in pieces.
    """
    tokens = _listener.set(listener), _pieces.set(pieces)
    try:
        yield
    finally:
        _listener.reset(tokens[0])
        _pieces.reset(tokens[1])


@contextmanager
def comparing(sizes: Iterable[int]) -> Iterator[None]:
    """Tell listeners of the fits inside which sizes may be tried."""
    token = _sizes.set(tuple(sizes))
    try:
        yield
    finally:
        _sizes.reset(token)


def counter(what: str, total: int) -> Callable[[], None] | None:
    """Return what to call after each of `total` pieces; None if nobody listens."""
    hear = _pieces.get()
    if hear is None:
        return None
    count = 0

    def tick() -> None:
        nonlocal count
        count = count % total + 1
        hear(what, count, total)

    return tick


class NotebookHandler(logging.Handler):
    """Shows lines in the cell of a notebook; those that only pass are replaced by what follows.

    A record with `passing` "iteration" is replaced by the next one, one with "start" by the next
    start; others stay.
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        super().__init__()
        self._display = display
        self._lines: list[tuple[str, str]] = []  # what it passes with, and its text
        self._handle: Any = None
        self._shown = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Show a line, at most a few times a second if it only passes."""
        passing = getattr(record, "passing", "")
        gone = {"iteration": ("iteration",)}.get(passing, ("iteration", "start"))
        while self._lines and self._lines[-1][0] in gone:
            self._lines.pop()
        self._lines.append((passing, self.format(record)))
        now = time.monotonic()
        if not passing or self._handle is None or now - self._shown > SHOW_EVERY:
            self._shown = now
            self.flush()

    def close(self) -> None:
        """Leave what stays, or the last line that passed if nothing does."""
        staying = [line for line in self._lines if not line[0]]
        self._lines = staying or self._lines
        self.flush()
        super().close()

    def flush(self) -> None:
        """Show the lines as they are now."""
        if not self._lines:
            return
        content = {"text/plain": "\n".join(text for _, text in self._lines[-MAX_LINES:])}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def make_handler() -> logging.Handler:
    """Return what shows lines: in the cell of a notebook if this is one, else on stderr.

    IPython is never imported for it: whoever runs in a notebook has it already.
    """
    python = sys.modules.get("IPython")
    display = getattr(sys.modules.get("IPython.display"), "display", None)
    shell = python.get_ipython() if python is not None else None
    if display is None or not hasattr(shell, "kernel"):  # a terminal's has none
        return logging.StreamHandler()
    return NotebookHandler(display)


@contextmanager
def showing(verbose: int) -> Iterator[None]:
    """Show what is logged inside, if `verbose`, unless the application has set up its logging."""
    if not verbose:
        yield
        return
    handler = None
    if not _shown.get() and not logging.getLogger().handlers:
        handler = make_handler()
    level = logger.level
    token = _shown.set(True)
    logger.setLevel(logging.INFO)
    if handler is not None:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(level)
        _shown.reset(token)
        if handler is not None:
            logger.removeHandler(handler)
            handler.close()


@contextmanager
def reporting(
    verbose: int, interval: int, n_starts: int, *, n_components: int = 1, log_unit: float = 0.0
) -> Iterator[Callable[[int], Report]]:
    """Yield a maker of callbacks, one for each start; 1 logs starts, 2 iterations too.

    Lines go to stderr, or into the cell of a notebook, unless the application has set up logging
    of its own. `log_unit` is taken from log densities, to give them in the user's units.
    """
    listener, sizes = _listener.get(), _sizes.get()

    def for_start(number: int) -> Report:
        count = 0
        if verbose:
            passing = {"passing": "start"}
            logger.info("Start %d of %d", number + 1, n_starts, extra=passing)

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
                    extra={"passing": "iteration"},
                )
            if listener is None:
                return False
            return listener(Event(n_components, number + 1, n_starts, count, record, sizes))

        return report

    with showing(verbose):
        yield for_start
