"""What the commands show: progress and notes on stderr, results as tables or JSON.

Names of columns and cells are data: they are shown as plain text, never as markup, and without
control characters.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gapmix.fitting.progress import Event
from gapmix.tables.schema import CONTROL, Note

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
        grid = Table.grid(padding=(0, 1), expand=True)
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


def clean(text: str) -> str:
    """Return a text without control characters."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
    )


def to_json(result: Any) -> str:
    """Return a result as JSON; what is not finite becomes null, arrays are left out."""
    return json.dumps(_plain(result), indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {
            str(key): _plain(item)
            for key, item in value.items()
            if not isinstance(item, np.ndarray)
        }
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_result(kind: str, result: Any, *, as_json: bool, quiet: bool) -> None:
    """Print a result: JSON or tables on stdout, the summary of written files on stderr."""
    if as_json:
        sys.stdout.write(to_json(result) + "\n")
        return
    if kind in ("described", "informed", "evaluated"):
        Console(highlight=False).print(render(kind, result))
    elif not quiet:
        Console(stderr=True, highlight=False).print(render(kind, result))


def render(kind: str, result: Any) -> Any:
    """Return a result as something rich prints."""
    return RENDERERS[kind](result)


def _summary(rows: list[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), Text(clean(value)))
    return grid


def _fit_rows(fit: Any) -> list[tuple[str, str]]:
    if fit is None:
        return []
    plural = "s" if fit.n_components > 1 else ""
    ended = "interrupted, best so far kept" if fit.interrupted else fit.stop_reason
    return [
        ("Model", f"{fit.n_components} component{plural}, {fit.n_iter} iterations"),
        ("Log-likelihood", f"{fit.log_likelihood:.4f} per row"),
        ("Stopped because" if not fit.interrupted else "Fit", ended),
    ]


def _filled(result: Any) -> Any:
    most = sorted(result.by_column.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {count:,}" for name, count in most[:6])
    more = f" and {len(most) - 6} more columns" if len(most) > 6 else ""
    spent = ", ".join(f"{name} {duration(value)}" for name, value in result.seconds.items())
    rows = [
        ("Table", f"{result.n_rows:,} rows, {result.n_columns:,} columns"),
        ("Filled", f"{result.n_filled:,} cells" + (f" ({listed}{more})" if most else "")),
        *_fit_rows(result.fit),
        ("Time", spent),
        (
            "Written",
            ", ".join(result.files).replace("-", "standard output")
            if result.files == ("-",)
            else ", ".join(result.files),
        ),
    ]
    return _summary(rows)


def _fitted(result: Any) -> Any:
    return _summary(
        [
            ("Table", f"{result.n_rows:,} rows, {result.n_features:,} columns used"),
            *_fit_rows(result.fit),
            ("Written", ", ".join(result.files)),
        ]
    )


def _reported(result: Any) -> Any:
    rows = [
        ("Table", f"{result.n_rows:,} rows, {result.n_features:,} columns used"),
        ("Missing", f"{result.n_gaps:,} cells"),
        *_fit_rows(result.fit),
        ("Written", f"{', '.join(result.files)} ({result.n_bytes / 1000:,.0f} kB)"),
    ]
    return _summary(rows)


def _scored(result: Any) -> Any:
    return _summary(
        [
            ("Rows", f"{result.n_rows:,}"),
            ("Mean log density", f"{result.mean:.4f}"),
            ("Lowest", f"{result.lowest:.4f} in row {result.lowest_row:,}"),
            *_fit_rows(result.fit),
        ]
    )


def _sampled(result: Any) -> Any:
    return _summary([("Drawn", f"{result.n_rows:,} rows, {result.n_columns:,} columns")])


def _described(result: Any) -> Any:
    head = _summary(
        [
            (
                "Table",
                f"{result.n_rows:,} rows, {result.n_columns:,} columns, {result.n_used:,} used",
            ),
            ("Missing", f"{100 * result.share_missing:.1f} % of the cells used"),
            ("Rows", f"{result.n_complete:,} complete, {result.n_empty:,} empty"),
            ("Patterns", f"{result.n_patterns:,} distinct"),
        ]
    )
    columns = _plain_table("Columns")
    for name in ("column", "kind"):
        columns.add_column(name, no_wrap=True, overflow="ellipsis")
    for name in ("missing", "%", "lowest", "mean", "highest"):
        columns.add_column(name, justify="right", no_wrap=True)
    for fact in result.columns:
        numbers = [_number(value) for value in (fact.low, fact.mean, fact.high)]
        kind = f"{fact.kind}, {len(fact.levels)} levels" if fact.levels else fact.kind
        missing = [f"{fact.n_missing:,}", f"{100 * fact.share_missing:.1f}"]
        columns.add_row(
            Text(clean(fact.name)),
            kind,
            *(missing if fact.kind not in ("text", "unused") else ["", ""]),
            *numbers,
        )
    patterns = _plain_table("Most frequent patterns")
    patterns.add_column("rows", justify="right", no_wrap=True)
    patterns.add_column("missing together", overflow="fold")
    for pattern in result.patterns:
        listed = ", ".join(pattern.missing[:12])
        more = f" and {len(pattern.missing) - 12} more" if len(pattern.missing) > 12 else ""
        patterns.add_row(f"{pattern.n_rows:,}", Text(clean(listed + more) or "nothing"))
    plan = Text("\n".join(clean(line) for line in result.plan.splitlines()))
    return Group(head, "", columns, "", patterns, "", Text("Plan of a fit", "italic"), plan)


def _evaluated(result: Any) -> Any:
    plural = "s" if result.repeats > 1 else ""
    cells = f"{result.n_hidden:,} cells in {result.repeats} repeat{plural}"
    head = _summary(
        [
            ("Table", f"{result.n_rows:,} rows, {len(result.columns):,} columns that vary"),
            ("Hidden", f"{cells}, {100 * result.share:g} % of the known ones each time"),
        ]
    )
    methods = _plain_table("Ways to fill (errors in standard deviations of the column)")
    methods.add_column("method", no_wrap=True)
    for name in ("error", *(f"{100 * c:g} % interval holds" for c in result.coverages), "time"):
        methods.add_column(name, justify="right")
    best = min(score.error for score in result.scores)
    for score in result.scores:
        held = [f"{100 * share:.1f} %" for share in score.coverage] or ["-"] * len(result.coverages)
        style = "bold" if score.error == best else ""
        methods.add_row(
            score.method, f"{score.error:.4f}", *held, duration(score.seconds), style=style
        )
    columns = _plain_table("Error by column")
    columns.add_column("column", no_wrap=True, overflow="ellipsis")
    for score in result.scores:
        columns.add_column(score.method, justify="right", no_wrap=True)
    for j, name in enumerate(result.columns):
        errors = [score.by_column[j] for score in result.scores]
        lowest = np.nanmin(errors) if np.isfinite(errors).any() else np.nan
        columns.add_row(
            Text(clean(name)),
            *(
                Text("-" if math.isnan(e) else f"{e:.3f}", "bold" if e == lowest else "")
                for e in errors
            ),
        )
    return Group(head, "", methods, "", columns)


def _plain_table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))


def _informed(result: Any) -> Any:
    head = _summary(
        [
            ("Model", f"{result.n_components} components, {result.covariance_type} covariances"),
            ("Columns", f"{len(result.columns)} in the table, {result.n_features} used"),
            (
                "Log-likelihood",
                f"{result.log_likelihood:.4f} per row, after {result.n_iter} iterations",
            ),
            ("Stopped because", result.stop_reason),
        ]
    )
    table = _plain_table("Means of the components")
    table.add_column("column", no_wrap=True, overflow="ellipsis")
    shown = min(len(result.weights), 8)
    for k in range(shown):
        table.add_column(f"{100 * result.weights[k]:.1f} %", justify="right", no_wrap=True)
    for j, name in enumerate(result.feature_names):
        table.add_row(Text(clean(name)), *(_number(result.means[k][j]) for k in range(shown)))
    rest = len(result.weights) - shown
    return Group(head, "", table, *([f"and {rest} more components"] if rest else []))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


RENDERERS = {
    "filled": _filled,
    "fitted": _fitted,
    "reported": _reported,
    "scored": _scored,
    "sampled": _sampled,
    "described": _described,
    "evaluated": _evaluated,
    "informed": _informed,
}
