"""What is shown while a command runs: progress, notes and errors, on stderr.

Names of columns and cells are data: they are shown as plain text, never as markup, and without
control characters.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from gapmix.cli.files import identify
from gapmix.cli.forecast import FitWork, Forecast
from gapmix.tables.schema import Note
from gapmix.wording import clean, count, rough_duration, whole_duration

if TYPE_CHECKING:
    from gapmix.fitting.progress import Event

MAX_ITER = 100  # of a fit, if it is not told
WIDE = 110  # characters, for all on one line
LINE_EVERY = 10.0  # seconds between lines where there is no terminal
STOPPING = "Ending the fit after this iteration. Press Ctrl-C again to stop at once."


KERNELS = logging.getLogger("gapmix.kernels")


class _Compiling(logging.Handler):
    """Shows as a note that kernels are compiled, which takes longer than most fits."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """Show what is said."""
        self._screen.note(Note(record.getMessage()))


class Screen:
    """A watch that shows what it hears on stderr, and turns Ctrl-C into a clean end of a fit."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        verbose: bool = False,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.quiet, self.verbose = quiet, verbose
        self._clock = clock
        self._forecast = Forecast()
        self._work: FitWork | None = None
        self._live: Live | None = None
        self._text = self._status = self._within = ""
        self._unit = "rows"
        self._total: int | None = None
        self._said = clock()
        self._fitting = self._stop = False
        self._handler: Any = None
        self._compiling = _Compiling(self)
        self._files: dict[Path, list[object]] = {}  # to be written, and what was there before

    def __enter__(self) -> Screen:
        try:
            self._handler = signal.signal(signal.SIGINT, self._interrupt)
        except ValueError:  # not in the main thread
            self._handler = None
        KERNELS.addHandler(self._compiling)
        KERNELS.setLevel(logging.INFO)
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._fitting = False
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        KERNELS.removeHandler(self._compiling)
        KERNELS.setLevel(logging.NOTSET)
        if error is not None:
            # Looked up only now: an interrupt may come between a file and any word about it.
            written = [str(path) for path, old in self._files.items() if identify(path) != old]
            if written:
                error.add_note(f"Only {', '.join(written)} had been written before.")

    def note(self, note: Note) -> None:
        """Show a note; warnings are shown even when quiet."""
        if self.quiet and not note.warning:
            return
        label = ("Warning: ", "bold yellow") if note.warning else ("Note: ", "bold cyan")
        text = Text.assemble(label, clean(note.text))
        self.console.print(text, soft_wrap=not self.console.is_terminal)

    def plan(self, *parts: str) -> None:
        """Hear of which parts the job consists: there is one bar for all of them."""
        self._forecast = Forecast(parts)

    def stage(
        self, text: str, total: int | None = None, unit: str = "rows", *, part: str = ""
    ) -> None:
        """Say what is done now; it begins a part of the job, or is a piece of the one under way."""
        if self._live is not None:
            self._live.refresh()  # the last of what was done is seen, however short it was
        if not self._text:  # nothing was done before
            self._said = self._clock()
        self._forecast.begin(part, self._clock())
        self._unit, self._text, self._total = unit, clean(text), total
        self._status = self._within = ""
        self._work = None
        self._fitting = text.startswith("Fitting")
        if self._live is None and not self.quiet and self.console.is_terminal:
            self._live = Live(
                get_renderable=self._bar,
                console=self.console,
                refresh_per_second=8,
                transient=True,
            )
            self._live.start()

    def step(self, done: int) -> None:
        """Move the bar."""
        self._status = f"{done:,} {self._unit if done != 1 else self._unit.removesuffix('s')}"
        self._forecast.hear(self._clock(), done / self._total if self._total else None)
        self._print_line()

    def iteration(self, event: Event) -> bool:
        """Show an iteration and what is left; return True after Ctrl-C."""
        now = self._clock()
        if self._work is None:
            self._work = FitWork(self._total or MAX_ITER)
        found = self._work.hear(event, now)
        if found is not None:
            self._forecast.hear(now, *found)
        start = f", start {event.start} of {event.n_starts}" if event.n_starts > 1 else ""
        doing = f"{count(event.n_components, 'component')}{start}"
        if self._fitting:
            self._text, self._status = f"Fitting {doing}", f"iteration {event.iteration}"
        else:
            self._status = f"{doing}, iteration {event.iteration}"
        if self.verbose:
            self._status += f", log-likelihood {event.record.log_likelihood:.4f}"
        self._within = ""
        self._print_line()
        return self._stop

    def piece(self, done: int, total: int, what: str = "piece") -> None:
        """Show how far an iteration, or whatever else goes on, has come."""
        self._within = f", {what} {done:,} of {total:,}"
        if self._work is None:
            self._forecast.hear(self._clock(), done / total)
        self._print_line()

    def writes(self, path: Path) -> None:
        """Remember a file, to tell whether it was written if the job ends early."""
        self._files.setdefault(path, identify(path))

    def _print_line(self) -> None:
        """Say now and then how far it is where there is no terminal to draw a bar on."""
        now = self._clock()
        if self._live is None and not self.quiet and now - self._said > LINE_EVERY:
            self._said = now
            parts = [part for part in (self._doing(), self._times(now)) if part]
            self.console.print(Text(f"{self._text}: {', '.join(parts)}"), soft_wrap=True)

    def _doing(self) -> str:
        return f"{self._status}{self._within}".removeprefix(", ")

    def _times(self, now: float) -> str:
        """Return the time of the job and, if it is known, what is left."""
        spent, left = whole_duration(self._forecast.elapsed(now)), self._forecast.left(now)
        if left is None:
            return f"{spent} so far"
        bound = "at most" if self._forecast.at_most else "about"
        return f"{spent}, {bound} {rough_duration(left)} left"

    def _bar(self) -> Any:
        """Return the bar and what is known, beside it or, where there is no room, below it."""
        grid = Grid.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True, overflow="ellipsis", max_width=40)
        grid.add_column(width=20)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        bar = ProgressBar(total=1.0, completed=self._forecast.share, width=20, style="bar.back")
        doing, times = self._doing(), self._times(self._clock())
        if self.console.width >= WIDE:
            grid.add_row(Text(self._text), bar, Text(f"{times}  {doing}"))
            return grid
        grid.add_row(Text(self._text), bar, Text(times))
        return Group(grid, Text(f"  {doing}", no_wrap=True, overflow="ellipsis"))

    def _interrupt(self, *_: object) -> None:
        if not self._fitting or self._stop:
            raise KeyboardInterrupt
        self._stop = True
        self.console.print(Text(STOPPING, "bold yellow"))


def show_error(text: str, error: BaseException | None = None) -> None:
    """Show an error on stderr, with the notes that an exception carries."""
    text = " ".join([text, *getattr(error, "__notes__", ())])
    console = Console(stderr=True, highlight=False)
    shown = Text.assemble(("Error: ", "bold red"), clean(text))
    console.print(shown, soft_wrap=not console.is_terminal)
