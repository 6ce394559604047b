"""An imputer fitted to a table that was read; what the fit says is told in the user's words."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gapmix.cli.models import columns_to_plain, marks_to_parameter
from gapmix.cli.reading import OpenTable, read_bounds, require_numbers
from gapmix.cli.requests import Fitting, Watch
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.fitting.progress import Event, listening
from gapmix.selection.sizes import Candidate
from gapmix.tables.dialect import TableError
from gapmix.tables.frames import named_rows
from gapmix.tables.schema import Note, feature_names
from gapmix.wording import Advised

ADVICE = {  # in place of what estimators advise on their parameters
    "missing_values": "If it stands for a gap, name it in --missing-values.",
    "n_components": "Lower --components.",
    "reg_covar": "Lower --components, or leave out columns that repeat others: --leave-out.",
}


class FitSummary(NamedTuple):
    """How a fit went."""

    n_components: int
    n_iter: int
    converged: bool
    interrupted: bool
    stop_reason: str
    log_likelihood: float  # per row
    seconds: float
    selection: tuple[Candidate, ...] = ()  # the sizes compared, if the size was to be found


class Ear:
    """Hears how a fit goes on: asks who watches whether to stop, and tells how it went."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._began = time.perf_counter()
        self._interrupted = False

    def hear(self, event: Event) -> bool:
        """Return whether the fit is to stop, once and for all."""
        self._interrupted = self._watch.iteration(event) or self._interrupted
        return self._interrupted

    def sum_up(self, imputer: GaussianMixtureImputer) -> FitSummary:
        """Return how the fit of an imputer went, from the first word until now."""
        mixture = imputer.mixture_
        return FitSummary(
            len(mixture.weights_),
            mixture.n_iter_,
            bool(mixture.converged_),
            self._interrupted,
            mixture.stop_reason_,
            float(mixture.history_[-1].log_likelihood),
            time.perf_counter() - self._began,
            tuple(imputer.selection_),
        )


def fit_imputer(
    table: OpenTable, fitting: Fitting, watch: Watch
) -> tuple[GaussianMixtureImputer, FitSummary]:
    """Fit an imputer to the matrix of a table; an interrupted fit keeps what it has."""
    require_numbers(table)
    schema = table.scan.schema
    imputer = make_imputer(fitting).set_params(
        bounds=read_bounds(fitting.bounds, schema), missing_values=marks_to_parameter(table.marks)
    )
    ear = Ear(watch)
    watch.stage("Fitting", fitting.max_iter)
    with telling(watch), listening(ear.hear):
        imputer.fit(named_rows(table.scan.matrix, feature_names(schema)))
    imputer.columns_ = columns_to_plain(schema)
    return imputer, ear.sum_up(imputer)


def make_imputer(fitting: Fitting) -> GaussianMixtureImputer:
    """Return the estimator that is asked for, not fitted."""
    return GaussianMixtureImputer(
        "auto" if fitting.components is None else fitting.components,
        covariance_type=fitting.covariance_type,
        n_init=fitting.starts,
        max_iter=fitting.max_iter,
        tol=fitting.tol,
        random_state=fitting.seed,
        n_jobs=fitting.threads,
        limits=fitting.limits,
    )


@contextmanager
def telling(watch: Watch) -> Iterator[None]:
    """Turn warnings and errors of estimators inside into notes and errors of the command line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except ValueError as error:
            if isinstance(error, TableError):
                raise
            raise TableError(_say(error)) from error
        finally:
            heard = [
                _say(warning.message)
                for warning in caught
                if isinstance(warning.message, Warning)
                and not issubclass(warning.category, ConvergenceWarning)
            ]
            for text in dict.fromkeys(heard):
                watch.note(Note(text, warning=True))


def _say(message: Exception) -> str:
    """Return a message of an estimator with advice on options instead of parameters."""
    text = message.args[0] if message.args else ""
    return f"{text.fact} {ADVICE[text.about]}" if isinstance(text, Advised) else str(message)


def count_gaps(matrix: np.ndarray) -> int:
    """Return the number of missing cells of a matrix."""
    return int(np.isnan(matrix).sum())
