"""What is shown while a command runs: progress, notes and errors, on stderr.

Names of columns and cells are data: they are shown as plain text, never as markup, and without
control characters.
"""

from __future__ import annotations

import math
import signal
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from gapmix.tables.schema import Note
from gapmix.wording import clean, duration

if TYPE_CHECKING:
    from gapmix.fitting.progress import Event

LINE_EVERY = 10.0  # seconds between lines where there is no terminal
STOPPING = "Ending the fit after this iteration; Ctrl-C again gives up."


class Screen:
    """A watch that shows what it hears on stderr, and turns Ctrl-C into a clean end of a fit."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        tol: float = 1e-3,
        many_sizes: bool = False,
        console: Console | None = None,
    ) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.quiet = quiet
        self._tol = max(tol, 1e-300)
        self._for_what = " for this size" if many_sizes else ""
        self._live: Live | None = None
        self._text = self._status = self._left = self._within = ""
        self._unit = "rows"
        self._total: int | None = None
        self._began = self._said = time.monotonic()
        self._fitting = self._stop = False
        self._gains: list[float] = []
        self._last: tuple[int, int, float] | None = None
        self._share: float | None = None
        self._handler: Any = None

    def __enter__(self) -> Screen:
        try:
            self._handler = signal.signal(signal.SIGINT, self._interrupt)
        except ValueError:  # not in the main thread
            self._handler = None
        return self

    def __exit__(self, *error: object) -> None:
        self._end_stage()
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)

    def note(self, note: Note) -> None:
        """Show a note; warnings are shown even when quiet."""
        if self.quiet and not note.warning:
            return
        label = ("Warning: ", "bold yellow") if note.warning else ("Note: ", "bold cyan")
        text = Text.assemble(label, clean(note.text))
        self.console.print(text, soft_wrap=not self.console.is_terminal)

    def stage(self, text: str, total: int | None = None, unit: str = "rows") -> None:
        """Begin a new bar."""
        self._end_stage()
        self._unit = unit
        self._text, self._total = clean(text), total
        self._began = self._said = time.monotonic()
        self._status, self._left, self._within, self._share = "", "", "", None
        self._fitting = text.startswith("Fitting")
        self._gains, self._last = [], None
        if not self.quiet and self.console.is_terminal:
            self._live = Live(
                get_renderable=self._bar,
                console=self.console,
                refresh_per_second=8,
                transient=False,
            )
            self._live.start()

    def step(self, done: int) -> None:
        """Move the bar."""
        self._status = f"{done:,} {self._unit if done != 1 else self._unit.removesuffix('s')}"
        self._share = done / self._total if self._total else None

    def iteration(self, event: Event) -> bool:
        """Show an iteration and what is left; return True after Ctrl-C."""
        share, left = self._estimate(event)
        start = f", start {event.start} of {event.n_starts}" if event.n_starts > 1 else ""
        plural = "s" if event.n_components > 1 else ""
        self._text = f"Fitting {event.n_components} component{plural}{start}"
        self._share = (event.start - 1 + share) / event.n_starts
        self._status = (
            f"iteration {event.iteration}, log-likelihood {event.record.log_likelihood:.4f}"
        )
        self._within = ""
        self._left = "" if left is None else f", about {duration(left)} left{self._for_what}"
        now = time.monotonic()
        if self._live is None and not self.quiet and now - self._said > LINE_EVERY:
            self._said = now
            self.console.print(Text(f"{self._text}: {self._status}{self._left}"), soft_wrap=True)
        return self._stop

    def piece(self, done: int, total: int) -> None:
        """Show how far an iteration has come."""
        self._within = f", piece {done:,} of {total:,}"
        now = time.monotonic()
        if self._live is None and not self.quiet and now - self._said > LINE_EVERY:
            self._said = now
            self.console.print(Text(f"{self._text}: {self._what()}"), soft_wrap=True)

    def _what(self) -> str:
        return f"{self._status}{self._within}".removeprefix(", ")

    def _estimate(self, event: Event) -> tuple[float, float | None]:
        """Return the share of a start that is done and the seconds left, from shrinking gains."""
        objective = event.record.objective
        key = (event.n_components, event.start)
        if self._last is None or self._last[:2] != key:
            self._gains, self._last = [], (*key, objective)
            return 0.0, None
        gain = abs(objective - self._last[2])
        self._last = (*key, objective)
        self._gains.append(max(gain, 1e-300))
        if len(self._gains) < 3:
            return 0.0, None
        ratio = (self._gains[-1] / self._gains[-3]) ** 0.5
        limit = (self._total or event.iteration) - event.iteration
        n_left = float(limit)
        if ratio < 0.999 and self._gains[-1] > self._tol:
            n_left = min(limit, math.log(self._tol / self._gains[-1]) / math.log(ratio))
            n_left = max(n_left, 0.0)
        elif self._gains[-1] <= self._tol:
            n_left = 0.0
        seconds = event.record.seconds * n_left
        later = event.n_starts - event.start
        seconds += later * event.record.seconds * (event.iteration + n_left)
        return event.iteration / (event.iteration + n_left), seconds

    def _bar(self) -> Any:
        """Return the bar and what is known, beside it or, where there is no room, below it."""
        grid = Grid.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True, overflow="ellipsis", max_width=40)
        grid.add_column(width=20)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        share = self._share
        bar = ProgressBar(
            total=1.0, completed=share or 0.0, width=20, pulse=share is None, style="bar.back"
        )
        elapsed = duration(time.monotonic() - self._began)
        status = self._what() + self._left
        if len(self._text) + len(elapsed) + len(status) + 26 <= self.console.width:
            grid.add_row(Text(self._text), bar, Text(f"{elapsed}  {status}"))
            return grid
        grid.add_row(Text(self._text), bar, Text(elapsed))
        return Group(grid, Text(f"  {status}", no_wrap=True, overflow="ellipsis"))

    def _end_stage(self) -> None:
        self._fitting = False
        if self._live is not None:
            if self._share is not None or self._status:
                self._share = 1.0
            self._left = self._within = ""
            self._live.stop()
            self._live = None

    def _interrupt(self, *_: object) -> None:
        if not self._fitting or self._stop:
            raise KeyboardInterrupt
        self._stop = True
        self.console.print(Text(STOPPING, "bold yellow"))


def show_error(text: str) -> None:
    """Show an error on stderr."""
    console = Console(stderr=True, highlight=False)
    shown = Text.assemble(("Error: ", "bold red"), clean(text))
    console.print(shown, soft_wrap=not console.is_terminal)
