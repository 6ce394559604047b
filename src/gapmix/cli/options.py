"""The options that commands share, and their checks; nothing heavy is imported here."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from gapmix.cli.requests import Fitting, Reading, Streaming, Writing
from gapmix.tables.dialect import Given
from gapmix.tables.schema import CallError, Roles
from gapmix.wording import listed

HIDDEN = Group("What is hidden", sort_key=0)
WRITTEN = Group("What is written", sort_key=0)
TABLE = Group("How the table is read", sort_key=1)
COLUMNS = Group("Which columns are used", sort_key=2)
MODEL = Group("How the mixture is fitted", sort_key=3)
PIECES = Group("Tables larger than memory: Parquet files, folders of them, .npy", sort_key=4)
SHOWN = Group("What is shown", sort_key=5)
DEFAULTS = Fitting()
OF_A_FIT = (  # what a model that was fitted before is not changed by
    *("columns", "leave_out", "categories", "components", "effort", "covariance", "starts"),
    *("n_factors", "refine", "max_iter", "tol", "strict", "plots"),
)
OF_FILLING = ("bounds", "no_limits", "keep", "refine")
WITH_MODEL = "with --model, which is applied as it was fitted"


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


METHODS = _list("Compare only some of mean,k-NN,iterative,mixture", HIDDEN)


def flag(help_text: str, group: Group = WRITTEN) -> Any:
    """Return a switch that is off unless it is named."""
    return Parameter(help=help_text, group=group, negative="", show_default=False)


@Parameter(name="*")
@dataclass(frozen=True)
class ReadOptions:
    """How a table is read."""

    missing_values: Annotated[
        tuple[str, ...],
        _list(
            "What else marks a gap, besides empty cells, NA, NaN, null and the like: -999,none; "
            "'A,B=0;C=-200' for some columns only",
            TABLE,
            allow_leading_hyphen=True,
        ),
    ] = ()
    delimiter: Annotated[
        str | None,
        Parameter(
            help="Character between cells, 'tab', or 'blanks' for any number of spaces; detected "
            "by default",
            group=TABLE,
        ),
    ] = None
    decimal: Annotated[
        Literal[".", ","] | None, Parameter(help="Decimal sign; detected by default", group=TABLE)
    ] = None
    quote: Annotated[
        str | None, Parameter(help="Quotation mark, or 'none'; \" by default", group=TABLE)
    ] = None
    encoding: Annotated[
        str | None,
        Parameter(
            help="Text encoding, such as utf-8, cp1252 or utf-16; detected by default", group=TABLE
        ),
    ] = None
    header: Annotated[
        bool | None,
        Parameter(
            help="Whether the first line has the column names; detected by default",
            group=TABLE,
            negative="--no-header",
        ),
    ] = None
    memory: Annotated[
        str | None,
        Parameter(
            help="Most memory to use, such as 4GB or 500MB; by default all that is free",
            group=TABLE,
        ),
    ] = None

    def given(self) -> Given:
        """Return what is said about the dialect."""
        delimiter = {"tab": "\t", "\\t": "\t", "blanks": " "}.get(
            self.delimiter or "", self.delimiter
        )
        for name, value in (("--delimiter", delimiter), ("--quote", self.quote)):
            if value is not None and value != "none" and (len(value) != 1 or not value.isascii()):
                words = "'tab' or 'blanks'" if name == "--delimiter" else "'none'"
                raise CallError(f"{name} must be one ASCII character or {words}, not '{value}'.")
        if delimiter in ('"', "\n", "\r") or (delimiter and delimiter == self.quote):
            raise CallError("--delimiter must be neither a quotation mark nor the end of a line.")
        if delimiter is not None and delimiter == self.decimal:
            raise CallError(f"--delimiter and --decimal are both '{delimiter}'.")
        return Given(self.encoding, delimiter, self.decimal, self.quote, self.header)


@Parameter(name="*")
@dataclass(frozen=True)
class ColumnOptions:
    """Which columns are used."""

    columns: Annotated[
        tuple[str, ...], _list("Use only these: A,B,C or a pattern such as 'smoke*'", COLUMNS)
    ] = ()
    leave_out: Annotated[
        tuple[str, ...], _list("Do not use these; they are passed through unchanged", COLUMNS)
    ] = ()
    categories: Annotated[
        tuple[str, ...],
        _list("Treat these as categories: codes, ids or texts with many levels", COLUMNS),
    ] = ()
    numbers: Annotated[
        tuple[str, ...],
        _list(
            "Treat these as numbers, or as dates to fill; anything else in them is a gap", COLUMNS
        ),
    ] = ()
    keep: Annotated[
        tuple[str, ...], _list("Use these, but leave their gaps as they are", COLUMNS)
    ] = ()

    def roles(self, row_id: str | None) -> Roles:
        """Return what is done with columns."""
        return Roles(self.columns, self.leave_out, self.categories, self.numbers, self.keep, row_id)


@Parameter(name="*")
@dataclass(frozen=True)
class FitOptions:
    """How a mixture is fitted."""

    components: Annotated[
        Literal["auto"] | int,
        Parameter(
            help="Number of Gaussians; 'auto' takes what fills hidden cells best", group=MODEL
        ),
    ] = "auto"
    effort: Annotated[
        Literal["quick", "default", "best"],
        Parameter(help="'quick' fits one Gaussian, 'best' may take minutes", group=MODEL),
    ] = "default"
    refine: Annotated[
        bool,
        flag("Let larger trees correct the mixture where that helps; part of --effort best", MODEL),
    ] = False
    covariance: Annotated[
        Literal["auto", "full", "tied", "diag", "spherical", "factor", "ppca"],
        Parameter(
            name=("--covariance", "--covariance-type"),
            help="Shape of the covariances; 'auto' is 'full', or 'factor' for very many columns",
            group=MODEL,
        ),
    ] = "auto"
    n_factors: Annotated[
        Literal["auto"] | int,
        Parameter(help="Number of factors for 'factor' and 'ppca', or 'auto'", group=MODEL),
    ] = "auto"
    starts: Annotated[int, Parameter(help="Number of starts; the best is kept", group=MODEL)] = (
        DEFAULTS.starts
    )
    max_iter: Annotated[
        int, Parameter(help="Largest number of iterations for each start", group=MODEL)
    ] = DEFAULTS.max_iter
    tol: Annotated[
        float,
        Parameter(
            help="Stop when the log-likelihood per row seems to have less than this left to gain",
            group=MODEL,
        ),
    ] = DEFAULTS.tol
    bounds: Annotated[
        tuple[str, ...],
        _list("Keep filled values within COLUMN=LOW:HIGH; leave out either, as in rain=0:", MODEL),
    ] = ()
    no_limits: Annotated[
        bool, flag("Allow filled values outside the range seen in the column", MODEL)
    ] = False
    seed: Annotated[int, Parameter(help="Same seed, same result", group=MODEL)] = DEFAULTS.seed
    threads: Annotated[
        int | None, Parameter(help="Number of threads; all cores by default", group=MODEL)
    ] = None
    strict: Annotated[bool, flag("Exit with code 3 if the fit did not converge", MODEL)] = False

    def fitting(self, plots: Path | None = None) -> Fitting:
        """Return how a mixture is fitted."""
        for name, value in (
            ("--components", 1 if self.components == "auto" else self.components),
            ("--n-factors", 1 if self.n_factors == "auto" else self.n_factors),
            ("--starts", self.starts),
            ("--max-iter", self.max_iter),
            ("--threads", 1 if self.threads is None else self.threads),
        ):
            if value < 1:
                raise CallError(f"{name} must be at least 1, not {value}.")
        if not 0 <= self.seed < 2**32:
            raise CallError(f"--seed must be between 0 and 2^32 - 1, not {self.seed}.")
        if not 0 <= self.tol < math.inf:
            raise CallError(f"--tol must be a number of at least 0, not {self.tol:g}.")
        return Fitting(
            None if self.components == "auto" else self.components,
            self.covariance,
            self.starts,
            self.max_iter,
            self.tol,
            self.seed,
            self.threads,
            self.bounds,
            None if self.no_limits else "seen",
            plots,
            self.effort,
            self.n_factors,
            self.refine,
        )


@Parameter(name="*")
@dataclass(frozen=True)
class PieceOptions:
    """How a table larger than memory is worked on; any of these makes it read in pieces."""

    scheduler: Annotated[
        str | None,
        Parameter(help="Address of a Dask cluster, such as tcp://host:8786", group=PIECES),
    ] = None
    checkpoint: Annotated[
        Path | None,
        Parameter(
            help="File for the state of the fit, from which an interrupted fit continues",
            group=PIECES,
        ),
    ] = None

    def streaming(self) -> Streaming:
        """Return how a table is worked on in pieces."""
        if self.scheduler is not None and not self.scheduler.startswith("tcp://"):
            raise CallError(
                f"--scheduler must be an address such as tcp://host:8786, not '{self.scheduler}'. "
                "For TLS and other protocols use a Dask client in Python: engine=client."
            )
        return Streaming(self.scheduler, self.checkpoint)


@Parameter(name="*")
@dataclass(frozen=True)
class Shown:
    """What is shown."""

    json: Annotated[bool, flag("Print the result as JSON on standard output", SHOWN)] = False
    quiet: Annotated[bool, flag("Show warnings and errors only", SHOWN)] = False
    verbose: Annotated[
        bool, flag("Also show how it was computed: plans, components, log-likelihoods", SHOWN)
    ] = False


@Parameter(name="*")
@dataclass(frozen=True)
class Drawn(Shown):
    """What is shown, plots too."""

    plots: Annotated[Path | None, Parameter(help="Folder to write plots to", group=SHOWN)] = None


def read_request(read: ReadOptions, columns: ColumnOptions, row_id: str | None = None) -> Reading:
    """Return how a table is read."""
    return Reading(read.given(), columns.roles(row_id), read.missing_values, read.memory)


def refuse_idle(why: str, names: Collection[str], *groups: Any) -> None:
    """Raise an error about options that were given and would change nothing, by their names."""
    idle = [
        f"--{field.name.replace('_', '-')}"
        for group in groups
        for field in fields(group)
        if field.name in names and getattr(group, field.name) != field.default
    ]
    if idle:
        verb, it = ("has", "it") if len(idle) == 1 else ("have", "them")
        raise CallError(f"{listed(idle)} {verb} no effect {why}: leave {it} out.")


def check_writing(writing: Writing) -> None:
    """Raise an error about options that contradict each other, before any work is done."""
    if writing.draws is not None and writing.draws < 1:
        raise CallError(f"--draws must be at least 1, not {writing.draws}.")
    for option, given in (("--std", writing.std), ("--probabilities", writing.probabilities)):
        if writing.draws is not None and given:
            raise CallError(
                f"{option} belongs to single best values: leave out --draws or {option}."
            )
    if writing.draw_column and writing.draws is None:
        raise CallError("--draw-column needs --draws.")
    if writing.path is None and (writing.draws or 1) > 1 and not writing.draw_column:
        raise CallError("Several draws need a file name: give --output, or --draw-column.")
