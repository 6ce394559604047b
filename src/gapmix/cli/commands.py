"""The commands: each makes a request, runs the job and hands back its result."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from cyclopts import App, Parameter

from gapmix.cli.files import check_files, to_output
from gapmix.cli.later import Later
from gapmix.cli.options import (
    COLUMNS,
    HIDDEN,
    METHODS,
    OF_A_FIT,
    OF_FILLING,
    WITH_MODEL,
    WRITTEN,
    ColumnOptions,
    Drawn,
    FitOptions,
    PieceOptions,
    ReadOptions,
    Shown,
    check_writing,
    flag,
    read_request,
    refuse_idle,
)
from gapmix.cli.requests import Fitting, Writing
from gapmix.cli.screen import Screen
from gapmix.tables.schema import CallError

if TYPE_CHECKING:
    from gapmix.cli import beginning, drawing, evaluating, filling, looking, reporting, streaming
else:
    beginning = Later("gapmix.cli.beginning")
    drawing = Later("gapmix.cli.drawing")
    evaluating = Later("gapmix.cli.evaluating")
    filling = Later("gapmix.cli.filling")
    looking = Later("gapmix.cli.looking")
    reporting = Later("gapmix.cli.reporting")
    streaming = Later("gapmix.cli.streaming")


def _version() -> str:
    try:
        return version("gapmix")
    except PackageNotFoundError:  # used from its sources
        return "unknown"


app = App(
    name="gapmix",
    version=_version,
    help="Fill the gaps in a table with a Gaussian mixture, fitted to all its rows by exact EM.\n\n"
    "Exit codes: 0 done, 1 bad data, 2 bad call, 3 not converged with --strict.",
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,  # it would end without a word
)


class Outcome(NamedTuple):
    """What a command did."""

    kind: str
    result: Any
    options: Shown
    converged: bool = True


READ, USE, FIT, WHOLE = ReadOptions(), ColumnOptions(), FitOptions(), PieceOptions()
SHOW, DRAW = Shown(), Drawn()
DEMO = Path("gapmix-demo")
TablePath = Annotated[
    str, Parameter(help="CSV (also .gz, .zst), TSV or Parquet file; - is standard input")
]
BigTablePath = Annotated[
    str,
    Parameter(
        help="CSV (also .gz, .zst), TSV, Parquet or .npy file, a folder of Parquet files; "
        "- is standard input"
    ),
]
OutputPath = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        help="File to write: .csv, .tsv, .csv.gz, .csv.zst or .parquet; standard output by "
        "default, or with -",
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
            help="Fill with random draws instead of means, and write this many files",
            group=WRITTEN,
        ),
    ] = None,
    draw_column: Annotated[
        bool, flag("Write all draws into one file, with a column 'draw'")
    ] = False,
    std: Annotated[
        bool, flag("Add columns with the standard deviations of filled numbers")
    ] = False,
    probabilities: Annotated[
        bool, flag("Add columns with the probabilities of filled categories")
    ] = False,
    raw_means: Annotated[
        bool, flag("Write plain means, not rounded to values that the column can have")
    ] = False,
    raw: Annotated[bool, flag("Write texts that look like formulas without a leading '")] = False,
    force: Annotated[bool, flag("Let --output replace the table itself")] = False,
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    fit: FitOptions = FIT,
    pieces: PieceOptions = WHOLE,
    show: Drawn = DRAW,
) -> Outcome:
    """Fill the gaps in a table."""
    output = to_output(output)
    writing = Writing(
        output,
        draws,
        draw_column,
        std,
        probabilities,
        raw_means,
        raw,
        save_model,
        pieces.checkpoint,
    )
    check_writing(writing)
    check_files({"the table": table, "the model": model}, writing, show.plots, force=force)
    if show.json and output is None:
        raise CallError("--json and the table would both go to standard output. Give --output.")
    if model is not None and save_model is not None:
        raise CallError(
            "--model applies a model, so there is none to save. Leave out --model or --save-model."
        )
    if model is not None:
        idle = OF_A_FIT if draws is not None else (*OF_A_FIT, "seed")
        refuse_idle(WITH_MODEL, idle, columns, fit, show)
    request, fitting, how = read_request(read, columns), _fitting(fit, show), pieces.streaming()
    with _open_screen(show) as screen:
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
    show: Drawn = DRAW,
) -> Outcome:
    """Fit a model to a table and save it."""
    refuse_idle("on a model: give it to `impute`", ("keep",), columns)
    check_files(
        {"the table": table}, {"--output": output, "--checkpoint": pieces.checkpoint}, show.plots
    )
    request, fitting, how = read_request(read, columns), _fitting(fit, show), pieces.streaming()
    with _open_screen(show) as screen:
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
    id: Annotated[
        str | None,
        Parameter(
            help="Column that names the rows; not used, but copied beside the scores", group=COLUMNS
        ),
    ] = None,
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    fit: FitOptions = FIT,
    show: Drawn = DRAW,
) -> Outcome:
    """Write how probable each row is: the log density of its known cells."""
    output = to_output(output)
    check_files({"the table": table, "the model": model}, {"--output": output}, show.plots)
    refuse_idle("on densities", OF_FILLING, columns, fit)
    if model is not None:
        refuse_idle(WITH_MODEL, (*OF_A_FIT, "seed"), columns, fit, show)
    if show.json and output is None:
        raise CallError("--json and the table would both go to standard output. Give --output.")
    request = read_request(read, columns, id)
    with _open_screen(show) as screen:
        done = filling.score(table, request, _fitting(fit, show), output, screen, model)
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
    output = to_output(output)
    check_files({"the model": model}, {"--output": output})
    if show.json and output is None:
        raise CallError("--json and the table would both go to standard output. Give --output.")
    if seed < 0:
        raise CallError(f"--seed must be at least 0, not {seed}.")
    with _open_screen(show) as screen:
        return Outcome("sampled", filling.sample(model, rows, output, seed, screen), show)


@app.command
def describe(
    table: TablePath,
    /,
    *,
    components: Annotated[int, Parameter(help="Number of Gaussians to plan for")] = 5,
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    show: Drawn = DRAW,
) -> Outcome:
    """Show columns, gaps, and which gaps occur together; with --verbose, the plan of a fit."""
    refuse_idle("on what is described", ("keep",), columns)
    check_files({"the table": table}, {}, show.plots)
    fitting = _fitting(FitOptions(components=components), show)
    request = read_request(read, columns)
    with _open_screen(show) as screen:
        return Outcome("described", looking.describe(table, request, fitting, screen), show)


@app.command
def evaluate(
    table: TablePath,
    /,
    *,
    repeats: Annotated[int, Parameter(help="How many times to hide cells", group=HIDDEN)] = 3,
    share: Annotated[float, Parameter(help="Share of the known cells to hide", group=HIDDEN)] = 0.1,
    methods: Annotated[tuple[str, ...], METHODS] = (),
    read: ReadOptions = READ,
    columns: ColumnOptions = USE,
    fit: FitOptions = FIT,
    show: Shown = SHOW,
) -> Outcome:
    """Hide known cells and compare how well mean, k-NN, iterative and mixture fill them."""
    refuse_idle("on comparisons", ("keep", "bounds", "strict"), columns, fit)
    if repeats < 1:
        raise CallError(f"--repeats must be at least 1, not {repeats}.")
    if not 0 < share < 1:
        raise CallError(f"--share must lie between 0 and 1, not {share:g}.")
    request = read_request(read, columns)
    with _open_screen(show) as screen:
        done = evaluating.evaluate(
            table,
            request,
            fit.fitting(),
            screen,
            repeats=repeats,
            share=share,
            methods=tuple(part.strip() for each in methods for part in each.split(",")),
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
    show: Drawn = DRAW,
) -> Outcome:
    """Fill the gaps in a table and write a report: what was missing, what was filled, how well."""
    check_files({"the table": table}, {"--output": output}, show.plots)
    reporting.check_report()
    request = read_request(read, columns)
    with _open_screen(show) as screen:
        done = reporting.report(table, request, _fitting(fit, show), output, screen)
    return Outcome("reported", done, show, _converged(done.fit, fit))


@app.command
def info(model: Annotated[Path, Parameter(help="Model file")], /, *, show: Shown = SHOW) -> Outcome:
    """Show what is in a model file."""
    return Outcome("informed", looking.info(model), show)


@app.command
def demo(
    folder: Annotated[Path, Parameter(help="Folder to write two CSV files into")] = DEMO,
    /,
    *,
    show: Shown = SHOW,
) -> Outcome:
    """Try gapmix: remove a fifth of the cells of a wine table, fill them, and compare."""
    with _open_screen(show) as screen:
        return Outcome("demonstrated", beginning.demonstrate(folder, screen), show)


@app.command
def warm_up(*, show: Shown = SHOW) -> Outcome:
    """Compile in advance what the first fit would compile, for example in a container image."""
    with _open_screen(show) as screen:
        return Outcome("warmed", beginning.warm_up(screen), show)


@app.command
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Your shell")], /
) -> Outcome:
    """Print a script that completes commands and options in your shell."""
    return Outcome("script", app.generate_completion(shell=shell), SHOW)


def _fitting(options: FitOptions, show: Drawn) -> Fitting:
    fitting = options.fitting(show.plots)
    if show.plots is not None:
        drawing.check_folder(show.plots)
    return fitting


def _open_screen(show: Shown) -> Screen:
    return Screen(quiet=show.quiet, verbose=show.verbose)


def _converged(summary: Any, options: FitOptions) -> bool:
    return summary is None or summary.converged or not options.strict
