"""The records of EM: what it is asked, where it stands, what it returns; and where rows may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from gapmix.em import accelerate
from gapmix.parameters import Parameters
from gapmix.plan.rows import Rows
from gapmix.statistics import Statistics
from gapmix.structures.regularizer import Regularizer

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Where queues of blocks run."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
        """Yield function(item) for every item, in the order of the items."""


class Shards(Protocol):
    """Rows kept elsewhere, in parts: on disk, or in the memory of other machines."""

    total_weight: float
    sample: Rows  # some of them, for what need not see all

    def sum_statistics(self, prepared: Any, parameters: Parameters) -> Statistics:
        """Return the statistics of all rows, parts merged in a fixed order."""


class Settings(NamedTuple):
    """What a fit is asked to do."""

    regularizer: Regularizer
    equal_weights: bool = False
    tol: float = 1e-3  # per row
    max_iter: int = 100
    patience: int = 3  # iterations without a better validation likelihood
    accelerate: str | None = None  # one of accelerate.METHODS; None asks for plain steps


class Iteration(NamedTuple):
    """One pass over the rows: the values belong to the parameters it started from, per row.

    A pass whose proposed parameters have a lower objective changes nothing: its record repeats the
    values of the last accepted one, and has an event that begins with "rejected".

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> X[::4, 1] = np.nan
    >>> history = GaussianMixture(2, random_state=0).fit(X).history_
    >>> bool(np.all(np.diff([each.objective for each in history]) >= -1e-9))
    True
    """

    log_likelihood: float
    objective: float  # log-likelihood plus log-prior: what EM climbs
    validation: float | None  # mean log-likelihood of the validation rows
    seconds: float
    events: tuple[str, ...]  # repairs made and forms chosen in this iteration


class Fit(NamedTuple):
    """The outcome of a run from one start."""

    parameters: Parameters
    history: tuple[Iteration, ...]
    converged: bool
    stop_reason: str
    target: np.ndarray | None  # the pooled covariance that shrinkage used
    center: np.ndarray | None  # the overall mean that mean_shrinkage used


class State(NamedTuple):
    """Where a run stands between two passes: with rows and settings, all that it goes on from."""

    parameters: Parameters  # of the next pass
    accelerator: accelerate.State | None
    plain: Parameters | None = None  # the step to fall back to, if `parameters` are a proposal
    resp: np.ndarray | None = None  # (K,) the responsibilities behind it
    objectives: tuple[float, ...] = ()  # of the last accepted passes
    kept: Parameters | None = None  # the last ones accepted; the best, with validation rows
    best: float = -np.inf  # validation likelihood of these
    n_stale: int = 0  # passes accepted since
    n_repairs: int = 0
    left: tuple[float, ...] = ()  # estimates of what is left to gain, after the last passes


class Progress(NamedTuple):
    """All that a run needs to go on later as if it had never stopped."""

    state: State
    history: tuple[Iteration, ...]
    target: np.ndarray | None  # what priors shrink to, once that was found
    center: np.ndarray | None
    stop_reason: str | None  # not None: no pass is left to do
