"""A mixture fitted to a table that was read; what the fit says is told in the table's names."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gapmix.cli.models import columns_to_plain
from gapmix.cli.requests import Fitting, Table, Watch, read_bounds, require_numbers
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.tablemodel import TableModel
from gapmix.fitting.progress import listening
from gapmix.selection.sizes import Candidate
from gapmix.tables.dialect import TableError
from gapmix.tables.schema import Note, feature_names, show

COLUMN_NUMBERS = re.compile(r"\b([Cc]olumns?(?: is)?) (\d+(?:, \d+)*)\b")
CODE_ADVICE = "replace it by NaN first"


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

    def hear(self, event: Any) -> bool:
        """Return whether the fit is to stop, once and for all."""
        self._interrupted = self._watch.iteration(event) or self._interrupted
        return self._interrupted

    def sum_up(self, mixture: GaussianMixture, selection: tuple[Candidate, ...]) -> FitSummary:
        """Return how the fit of a mixture went, from the first word until now."""
        return FitSummary(
            len(mixture.weights_),
            mixture.n_iter_,
            bool(mixture.converged_),
            self._interrupted,
            mixture.stop_reason_,
            float(mixture.history_[-1].log_likelihood),
            time.perf_counter() - self._began,
            selection,
        )


def fit_model(table: Table, fitting: Fitting, watch: Watch) -> tuple[TableModel, FitSummary]:
    """Fit a mixture to the matrix of a table; an interrupted fit keeps what it has."""
    return fit_imputer(table, fitting, watch)[1:]


def fit_imputer(
    table: Table, fitting: Fitting, watch: Watch
) -> tuple[GaussianMixtureImputer, TableModel, FitSummary]:
    """Fit a mixture to the matrix of a table; return also the imputer that knows how."""
    require_numbers(table)
    schema, matrix = table.scan.schema, table.scan.matrix
    names = feature_names(schema)
    bounds = read_bounds(fitting.bounds, schema)
    ear = Ear(watch)
    watch.stage("Fitting", fitting.max_iter)
    with telling(names, watch), listening(ear.hear):
        imputer = make_imputer(fitting).fit(matrix)
    mixture = imputer.mixture_
    model = TableModel().fit(
        mixture,
        names=names,
        columns=columns_to_plain(schema),
        marks=sorted(table.marks.texts),
        bounds=bounds,
    )
    return imputer, model, ear.sum_up(mixture, tuple(imputer.selection_))


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
    )


@contextmanager
def telling(names: list[str], watch: Watch) -> Iterator[None]:
    """Turn warnings and errors of estimators inside into notes and errors in the table's names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except ValueError as error:
            if isinstance(error, TableError):
                raise
            raise TableError(in_names(str(error), names)) from error
        finally:
            for warning in caught:
                if not issubclass(warning.category, ConvergenceWarning):
                    text = in_names(str(warning.message), names)
                    watch.note(Note(text, warning=True))


def in_names(text: str, names: list[str]) -> str:
    """Return a message of an estimator with the names of columns in place of their numbers."""

    def rename(match: re.Match[str]) -> str:
        numbers = [int(number) for number in match[2].split(", ")]
        if max(numbers) >= len(names):
            return match[0]
        return f"{match[1]} {', '.join(show(names[j]) for j in numbers)}"

    return (
        COLUMN_NUMBERS.sub(rename, text)
        .replace(CODE_ADVICE, "name it in --missing-values")
        .replace("Lower n_components", "Lower --components")
    )


def count_gaps(matrix: np.ndarray) -> int:
    """Return the number of missing cells of a matrix."""
    return int(np.isnan(matrix).sum())
