"""An imputer fitted to a table that was read; what the fit says is told in the user's words."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from gapmix.cli.models import columns_to_plain, marks_to_parameter
from gapmix.cli.reading import OpenTable, read_bounds, require_columns
from gapmix.cli.requests import Fitting, Watch
from gapmix.estimators.glance import is_complete, list_doubted, tell_factors
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.levels import too_many_levels
from gapmix.fitting.progress import Event, listening
from gapmix.selection.sizes import Candidate, list_sizes_once
from gapmix.tables.dialect import TableError
from gapmix.tables.frames import named_rows
from gapmix.tables.schema import CATEGORY, NUMBER, Note, Schema, feature_names, features
from gapmix.tables.spelling import is_date
from gapmix.wording import Advised

NOTED = ("rare_levels_",)  # what is as it should be, and only worth knowing
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
    doubted: tuple[str, ...] = ()  # columns that are filled nearer to their mean
    error: float | None = None  # of hidden numbers, in standard deviations
    factors: str = ""  # how many there are, and why, if covariances have factors


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
            is_complete(imputer) and not self._interrupted,
            self._interrupted,
            mixture.stop_reason_,
            float(mixture.history_[-1].log_likelihood),
            time.perf_counter() - self._began,
            list_sizes_once(tuple(imputer.selection_)),
            list_doubted(imputer),
            imputer.hidden_error_,
            tell_factors(imputer),
        )


def fit_imputer(
    table: OpenTable, fitting: Fitting, watch: Watch
) -> tuple[GaussianMixtureImputer, FitSummary]:
    """Fit an imputer to the matrix of a table; an interrupted fit keeps what it has."""
    require_columns(table)
    schema = table.scan.schema
    imputer = make_imputer(fitting).set_params(
        bounds=read_bounds(fitting.bounds, schema), missing_values=marks_to_parameter(table.marks)
    )
    ear = Ear(watch)
    watch.stage("Fitting", fitting.max_iter, part="fitting")
    with telling(watch, besides="missing_values"), listening(ear.hear):  # told when it was read
        imputer.set_params(
            categorical_features=name_categories(schema), column_kinds=_name_kinds(schema)
        )
        imputer.fit(rows_of(table))
    imputer.columns_ = columns_to_plain(schema)
    return imputer, ear.sum_up(imputer)


def rows_of(table: OpenTable) -> Any:
    """Return the matrix of a table as a data frame, with the types that tell its categories."""
    schema = table.scan.schema
    values = {
        f: schema.columns[j].values
        for f, j in enumerate(features(schema))
        if schema.columns[j].kind == CATEGORY
    }
    return named_rows(table.scan.matrix, feature_names(schema), values)


def name_categories(schema: Schema) -> Any:
    """Return which columns an imputer is told to be categories, where their types do not tell."""
    layout, names = features(schema), feature_names(schema)
    named = {names[f]: schema.columns[j] for f, j in enumerate(layout)}
    categories = {name: column for name, column in named.items() if column.kind == CATEGORY}
    plain = all(
        isinstance(column.values[0], str | bool)
        and not too_many_levels(len(column.levels), schema.n_rows - column.n_missing)
        for column in categories.values()
    )
    return "from_dtype" if plain else list(categories)


def _name_kinds(schema: Schema) -> Any:
    """Return what an imputer is told of columns: 1970 is no lower limit of dates."""
    named = zip(feature_names(schema), features(schema), strict=True)
    return {name: NUMBER for name, j in named if is_date(schema.columns[j].spelling)} or "auto"


def make_imputer(fitting: Fitting) -> GaussianMixtureImputer:
    """Return the estimator that is asked for, not fitted."""
    return GaussianMixtureImputer(
        "auto" if fitting.components is None else fitting.components,
        effort=fitting.effort,
        refine="auto" if fitting.refine else None,
        covariance_type=fitting.covariance_type,
        n_factors=fitting.n_factors,
        n_init=fitting.starts,
        max_iter=fitting.max_iter,
        tol=fitting.tol,
        random_state=fitting.seed,
        n_jobs=fitting.threads,
        limits=fitting.limits,
    )


@contextmanager
def telling(watch: Watch, *, besides: str = "") -> Iterator[None]:
    """Turn warnings and errors of estimators inside into notes and errors of the command line.

    Warnings that are about the parameter `besides` are left out.
    """
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
                Note(_say(warning.message), _about(warning.message) not in NOTED)
                for warning in caught
                if isinstance(warning.message, Warning)
                and not issubclass(warning.category, ConvergenceWarning)
                and (not besides or _about(warning.message) != besides)
            ]
            for note in dict.fromkeys(heard):
                watch.note(note)


def _about(message: Exception) -> str:
    """Return which parameter a message of an estimator is about, nothing if it does not tell."""
    text = message.args[0] if message.args else ""
    return text.about if isinstance(text, Advised) else ""


def _say(message: Exception) -> str:
    """Return a message of an estimator with advice on options instead of parameters."""
    about = _about(message)
    return f"{message.args[0].fact} {ADVICE.get(about, '')}".strip() if about else str(message)
