"""The commands and their options: each makes a request, runs the job and hands back its result."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import App, Group, Parameter

from gapmix.cli import evaluating, filling, looking, reporting, streaming
from gapmix.cli.drawing import check_folder
from gapmix.cli.requests import Fitting, Reading, Streaming, Writing
from gapmix.cli.screen import Screen
from gapmix.engines.sources import read_memory
from gapmix.tables.dialect import Given
from gapmix.tables.schema import CallError, Roles

HIDDEN = Group("What is hidden", sort_key=0)
WRITTEN = Group("What is written", sort_key=0)
TABLE = Group("How the table is read", sort_key=1)
COLUMNS = Group("Which columns are used", sort_key=2)
MODEL = Group("How the mixture is fitted", sort_key=3)
PIECES = Group("Tables larger than memory: Parquet, folders of it, .npy", sort_key=4)
SHOWN = Group("What is shown", sort_key=5)


def _version() -> str:
    try:
        return version("gapmix")
    except PackageNotFoundError:  # used from its sources
        return "unknown"


app = App(
    name="gapmix",
    version=_version,
    help="Fill the gaps of a table by a Gaussian mixture fitted to all its rows by exact EM.\n\n"
    "Exit codes: 0 done, 1 bad data, 2 bad call, 3 not converged with --strict.",
    help_format="plaintext",
    result_action="return_value",
)


class Outcome(NamedTuple):
    """What a command did."""

    kind: str
    result: Any
    options: Shown
    converged: bool = True


def _list(help_text: str, group: Group, **more: Any) -> Any:
    """Return a list of texts as an option that may be repeated or hold commas."""
    return Parameter(
        help=help_text,
        group=group,
        negative="",
        consume_multiple=False,
        show_default=False,
        **more,
    )


def _flag(help_text: str, group: Group = WRITTEN) -> Any:
    return Parameter(help=help_text, group=group, negative="", show_default=False)


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(","))


@Parameter(name="*")
@dataclass(frozen=True)
class ReadOptions:
    """How a table is read."""

    missing_values: Annotated[
        tuple[str, ...],
        _list(
            "What marks a gap, besides empty cells, NA, NaN, null and the like: NA,?,-999",
            TABLE,
            allow_leading_hyphen=True,
        ),
    ] = ()
    delimiter: Annotated[
        str | None,
        Parameter(help="Character between cells, or 'tab'; found by default", group=TABLE),
    ] = None
    decimal: Annotated[
        Literal[".", ","] | None, Parameter(help="Decimal sign; found by default", group=TABLE)
    ] = None
    quote: Annotated[
        str | None, Parameter(help="Quotation mark, or 'none'; \" by default", group=TABLE)
    ] = None
    encoding: Annotated[
        str | None,
        Parameter(help="Such as utf-8, cp1252, utf-16; found by default", group=TABLE),
    ] = None
    header: Annotated[
        bool | None,
        Parameter(
            help="Whether the first line holds names; found by default",
            group=TABLE,
            negative="--no-header",
        ),
    ] = None
    max_memory: Annotated[
        float | None,
        Parameter(help="Gigabytes a fit may use; what is free by default", group=TABLE),
    ] = None

    def given(self) -> Given:
        """Return what is said about the dialect."""
        delimiter = {"tab": "\t", "\\t": "\t"}.get(self.delimiter or "", self.delimiter)
        for name, value in (("--delimiter", delimiter), ("--quote", self.quote)):
            if value is not None and value != "none" and (len(value) != 1 or not value.isascii()):
                raise CallError(f"{name} must be one ASCII character, and is '{value}'.")
        if delimiter in ('"', "\n", "\r") or (delimiter and delimiter == self.quote):
            raise CallError("--delimiter must be neither a quotation mark nor the end of a line.")
        if delimiter is not None and delimiter == self.decimal:
            raise CallError(f"--delimiter and --decimal are both '{delimiter}'.")
        return Given(self.encoding, delimiter, self.decimal, self.quote, self.header)


@Parameter(name="*")
@dataclass(frozen=True)
class ColumnOptions:
    """Which columns are used."""

    columns: Annotated[tuple[str, ...], _list("Use only these: A,B,C", COLUMNS)] = ()
    leave_out: Annotated[
        tuple[str, ...], _list("Do not use these; they are passed through", COLUMNS)
    ] = ()
    one_hot: Annotated[
        tuple[str, ...],
        _list("Use these as categories; gaps get the most probable level", COLUMNS),
    ] = ()
    id: Annotated[
        str | None,
        Parameter(help="Names rows: not used, and copied into scores", group=COLUMNS),
    ] = None

    def roles(self) -> Roles:
        """Return what is done with columns."""
        return Roles(self.columns, self.leave_out, self.one_hot, self.id)


@Parameter(name="*")
@dataclass(frozen=True)
class FitOptions:
    """How a mixture is fitted."""

    components: Annotated[
        Literal["auto"] | int,
        Parameter(help="Number of Gaussians, or 'auto' to find it on hidden cells", group=MODEL),
    ] = "auto"
    covariance: Annotated[
        Literal["full", "tied", "diag", "spherical"],
        Parameter(help="Shape of the covariances", group=MODEL),
    ] = "full"
    starts: Annotated[int, Parameter(help="Starts; the best is kept", group=MODEL)] = 1
    max_iter: Annotated[int, Parameter(help="Most iterations of a start", group=MODEL)] = 200
    tol: Annotated[
        float, Parameter(help="Stop when an iteration gains less than this per row", group=MODEL)
    ] = 1e-3
    bounds: Annotated[
        tuple[str, ...],
        _list("COLUMN=LOW:HIGH, either may be left out: --bounds rain=0:", MODEL),
    ] = ()
    seed: Annotated[int, Parameter(help="Same seed, same result", group=MODEL)] = 0
    threads: Annotated[int | None, Parameter(help="Threads; all cores by default", group=MODEL)] = (
        None
    )
    strict: Annotated[bool, _flag("Exit with 3 if the fit did not converge", MODEL)] = False

    def fitting(self, plots: Path | None = None) -> Fitting:
        """Return how a mixture is fitted."""
        for name, value in (
            ("--components", 1 if self.components == "auto" else self.components),
            ("--starts", self.starts),
            ("--max-iter", self.max_iter),
            ("--threads", 1 if self.threads is None else self.threads),
        ):
            if value < 1:
                raise CallError(f"{name} must be at least 1, and is {value}.")
        if not 0 <= self.seed < 2**32:
            raise CallError(f"--seed must be between 0 and 2^32 - 1, and is {self.seed}.")
        if not self.tol >= 0:
            raise CallError(f"--tol must be at least 0, and is {self.tol:g}.")
        check_folder(plots)
        return Fitting(
            None if self.components == "auto" else self.components,
            self.covariance,
            self.starts,
            self.max_iter,
            self.tol,
            self.seed,
            self.threads,
            self.bounds,
            plots,
        )


@Parameter(name="*")
@dataclass(frozen=True)
class PieceOptions:
    """How a table larger than memory is worked on; any of these makes it read in pieces."""

    memory: Annotated[
        str | None, Parameter(help="What the work may take, such as 4GB or 500MB", group=PIECES)
    ] = None
    engine: Annotated[
        Literal["threads", "dask"] | None,
        Parameter(help="Threads, or Dask workers on this machine", group=PIECES),
    ] = None
    scheduler: Annotated[
        str | None,
        Parameter(help="Address of a Dask cluster, such as tcp://host:8786", group=PIECES),
    ] = None
    checkpoint: Annotated[
        Path | None,
        Parameter(
            help="File for the state of the fit; goes on from it if it is there", group=PIECES
        ),
    ] = None

    def streaming(self) -> Streaming:
        """Return where and within what memory a table is worked on in pieces."""
        if self.scheduler is not None and self.engine == "threads":
            raise CallError("--scheduler belongs to --engine dask: leave out one of them.")
        if self.scheduler is not None and "://" not in self.scheduler:
            raise CallError(
                f"--scheduler must be an address such as tcp://host:8786: '{self.scheduler}'."
            )
        if self.checkpoint is not None and not self.checkpoint.parent.is_dir():
            raise CallError(f"There is no folder '{self.checkpoint.parent}' for --checkpoint.")
        try:
            memory = None if self.memory is None else read_memory(self.memory)
        except ValueError as error:
            raise CallError(f"--{error}") from error
        return Streaming(self.engine, self.scheduler, memory, self.checkpoint)


@Parameter(name="*")
@dataclass(frozen=True)
class Shown:
    """What is shown."""

    json: Annotated[bool, _flag("Print the result as JSON on standard output", SHOWN)] = False
    quiet: Annotated[bool, _flag("Show warnings and errors only", SHOWN)] = False
    plots: Annotated[Path | None, Parameter(help="Folder to draw pictures into", group=SHOWN)] = (
        None
    )


def _reading(read: ReadOptions, columns: ColumnOptions) -> Reading:
    limit = read.max_memory
    if limit is not None and not limit > 0:
        raise CallError(f"--max-memory must be above 0, and is {limit:g}.")
    return Reading(
        read.given(),
        columns.roles(),
        _split(read.missing_values),
        None if limit is None else int(min(limit, 2.0**32) * 2**30),
    )


READ, USE, FIT, SHOW = ReadOptions(), ColumnOptions(), FitOptions(), Shown()
WHOLE = PieceOptions()
TablePath = Annotated[str, Parameter(help="CSV, TSV or Parquet file")]
BigTablePath = Annotated[
    str, Parameter(help="CSV, TSV, Parquet or .npy file, or a folder of Parquet files")
]
OutputPath = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        help="File to write, CSV, TSV or Parquet by its ending; standard output by default",
        group=WRITTEN,
    ),
]
ModelPath = Annotated[
    Path | None, Parameter(name=["--model", "-m"], help="Apply this model instead of fitting one")
]


@app.command
def impute(
    table: BigTablePath,
    /,
    *,
    output: OutputPath = None,
    model: ModelPath = None,
    save_model: Annotated[
        Path | None, Parameter(help="Also save the fitted model here", group=WRITTEN)
    ] = None,
    draws: Annotated[
        int | None,
        Parameter(
            help="Fill by so many random draws instead of means, a file for each",
            group=WRITTEN,
        ),
    ] = None,
    draw_column: Annotated[
        bool, _flag("Write all draws into one file, with a column 'draw'")
    ] = False,
    std: Annotated[bool, _flag("Write the standard deviation of filled cells beside them")] = False,
    round: Annotated[bool, _flag("Fill columns of whole numbers with whole numbers")] = False,
    raw: Annotated[bool, _flag("Write texts that look like formulas without a leading '")] = False,
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    fit: FitOptions = FIT,
    pieces: PieceOptions = WHOLE,
    show: Shown = SHOW,
) -> Outcome:
    """Fill the gaps of a table."""
    writing = Writing(output, draws, draw_column, std, round, raw, save_model)
    filling.check_writing(writing)
    if show.json and output is None:
        raise CallError("--json and the table would both go to standard output: give --output.")
    if model is not None and save_model is not None:
        raise CallError("--save-model belongs to a fit: leave out --model or --save-model.")
    request, fitting, how = _reading(read, columns), fit.fitting(show.plots), pieces.streaming()
    with _open_screen(show, fit) as screen:
        if streaming.is_needed(table, request, how):
            done = streaming.impute(table, request, fitting, how, writing, screen, model)
        else:
            done = filling.impute(table, request, fitting, writing, screen, model)
    return Outcome("filled", done, show, _converged(done.fit, fit))


@app.command
def fit(
    table: BigTablePath,
    /,
    *,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help="Model file to write, for --model")
    ],
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    fit: FitOptions = FIT,
    pieces: PieceOptions = WHOLE,
    show: Shown = SHOW,
) -> Outcome:
    """Fit a model to a table and save it."""
    filling.check_writing(Writing(model_path=output))
    request, fitting, how = _reading(read, columns), fit.fitting(show.plots), pieces.streaming()
    with _open_screen(show, fit) as screen:
        if streaming.is_needed(table, request, how):
            done = streaming.fit(table, request, fitting, how, output, screen)
        else:
            done = filling.fit(table, request, fitting, output, screen)
    return Outcome("fitted", done, show, _converged(done.fit, fit))


@app.command
def score(
    table: TablePath,
    /,
    *,
    output: OutputPath = None,
    model: ModelPath = None,
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    fit: FitOptions = FIT,
    show: Shown = SHOW,
) -> Outcome:
    """Write how probable each row is: the log density of what it shows."""
    filling.check_writing(Writing(output))
    if show.json and output is None:
        raise CallError("--json and the table would both go to standard output: give --output.")
    request = _reading(read, columns)
    with _open_screen(show, fit) as screen:
        done = filling.score(table, request, fit.fitting(show.plots), output, screen, model)
    return Outcome("scored", done, show, _converged(done.fit, fit))


@app.command
def sample(
    model: Annotated[Path, Parameter(help="Model file")],
    /,
    *,
    rows: Annotated[int, Parameter(name=["--rows", "-n"], help="Rows to draw")] = 1000,
    output: OutputPath = None,
    seed: Annotated[int, Parameter(help="Same seed, same rows")] = 0,
    show: Shown = SHOW,
) -> Outcome:
    """Write new rows drawn from a model."""
    filling.check_writing(Writing(output))
    if show.json and output is None:
        raise CallError("--json and the table would both go to standard output: give --output.")
    if seed < 0:
        raise CallError(f"--seed must be at least 0, and is {seed}.")
    with Screen(quiet=show.quiet) as screen:
        return Outcome("sampled", filling.sample(model, rows, output, seed, screen), show)


@app.command
def describe(
    table: TablePath,
    /,
    *,
    components: Annotated[int, Parameter(help="Number of Gaussians to plan for")] = 5,
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    show: Shown = SHOW,
) -> Outcome:
    """Show columns, gaps, patterns of gaps and the plan of a fit."""
    fitting = FitOptions(components=components).fitting(show.plots)
    request = _reading(read, columns)
    with Screen(quiet=show.quiet) as screen:
        return Outcome("described", looking.describe(table, request, fitting, screen), show)


@app.command
def evaluate(
    table: TablePath,
    /,
    *,
    repeats: Annotated[int, Parameter(help="Times that cells are hidden", group=HIDDEN)] = 3,
    share: Annotated[float, Parameter(help="Share of the known cells to hide", group=HIDDEN)] = 0.1,
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    fit: FitOptions = FIT,
    show: Shown = SHOW,
) -> Outcome:
    """Hide known cells and compare ways to fill them: mean, k-NN, iterative, mixture."""
    if repeats < 1:
        raise CallError(f"--repeats must be at least 1, and is {repeats}.")
    if not 0 < share < 1:
        raise CallError(f"--share must lie between 0 and 1, and is {share:g}.")
    request = _reading(read, columns)
    with _open_screen(show, fit) as screen:
        done = evaluating.evaluate(
            table, request, fit.fitting(show.plots), screen, repeats=repeats, share=share
        )
    return Outcome("evaluated", done, show)


@app.command
def report(
    table: TablePath,
    /,
    *,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help="HTML file to write", group=WRITTEN)
    ],
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    fit: FitOptions = FIT,
    show: Shown = SHOW,
) -> Outcome:
    """Fill the gaps of a table and write a report: gaps, model, what was filled, how well."""
    reporting.check_report(output)
    request = _reading(read, columns)
    with _open_screen(show, fit) as screen:
        done = reporting.report(table, request, fit.fitting(show.plots), output, screen)
    return Outcome("reported", done, show, _converged(done.fit, fit))


@app.command
def info(model: Annotated[Path, Parameter(help="Model file")], /, *, show: Shown = SHOW) -> Outcome:
    """Show what is in a model file."""
    return Outcome("informed", looking.info(model), show)


def _open_screen(show: Shown, fit: FitOptions) -> Screen:
    return Screen(quiet=show.quiet, tol=fit.tol, many_sizes=fit.components == "auto")


def _converged(summary: Any, options: FitOptions) -> bool:
    return summary is None or summary.converged or not options.strict
