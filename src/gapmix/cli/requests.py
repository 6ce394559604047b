"""What a job is asked to do, and what it tells on the way: plain records, imported in no time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gapmix.tables.dialect import Given
from gapmix.tables.schema import Note, Roles

if TYPE_CHECKING:
    from gapmix.fitting.progress import Event


class Reading(NamedTuple):
    """How a table is read."""

    given: Given = Given()
    roles: Roles = Roles()
    missing_values: tuple[str, ...] = ()  # "NA,-999" for all columns, "A,B=0" for some
    memory: str | None = None  # what the work may take, such as "4GB"


class Fitting(NamedTuple):
    """How a mixture is fitted; the defaults are those of `GaussianMixtureImputer`."""

    components: int | None = None  # None finds it
    covariance_type: str = "auto"
    starts: int = 1
    max_iter: int = 100
    tol: float = 1e-3
    seed: int = 0
    threads: int | None = None
    bounds: tuple[str, ...] = ()  # "column=low:high"
    limits: str | None = "seen"  # None lets fills leave the range seen
    plots: Path | None = None  # folder for pictures
    effort: str = "default"  # of finding the number of components
    n_factors: int | str = "auto"  # of covariances that have factors
    refine: bool = False  # whatever the effort


class Streaming(NamedTuple):
    """How a table is worked on in pieces; anything given here makes it so."""

    scheduler: str | None = None  # address of a Dask cluster
    checkpoint: Path | None = None  # file that holds the state of the fit


class Writing(NamedTuple):
    """How a completed table is written."""

    path: Path | None = None  # None is standard output
    draws: int | None = None
    draw_column: bool = False
    std: bool = False
    probabilities: bool = False
    raw_means: bool = False  # as they are, instead of the nearest value that a column can have
    raw: bool = False
    model_path: Path | None = None  # also save the model
    checkpoint: Path | None = None  # of the fit


class Watch(Protocol):
    """Hears what a job does while it does it."""

    def note(self, note: Note) -> None:
        """Hear something the user should know."""

    def plan(self, *parts: str) -> None:
        """Hear of which parts the job consists, in their order."""

    def stage(
        self, text: str, total: int | None = None, unit: str = "rows", *, part: str = ""
    ) -> None:
        """Hear what is done now, in so many steps, and which part of the job it begins, if any."""

    def step(self, done: int) -> None:
        """Hear how many steps of the stage are done."""

    def iteration(self, event: Event) -> bool:
        """Hear of an iteration of a fit; return True to end the fit."""

    def piece(self, done: int, total: int, what: str = "piece") -> None:
        """Hear how many pieces of the table an iteration has seen, or how far else it is."""

    def writes(self, path: Path) -> None:
        """Hear that a file is about to be written."""
