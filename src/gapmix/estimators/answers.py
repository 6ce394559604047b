"""What a fitted mixture answers: densities, components, filled values, draws, new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from gapmix import density
from gapmix.density import Density
from gapmix.estimators import checks
from gapmix.estimators.glance import GlanceMixin
from gapmix.estimators.levels import is_frame, pick_levels
from gapmix.estimators.random import make_rng
from gapmix.estimators.returned import restore_frame, restore_levels
from gapmix.estimators.validation import column_names, read_table
from gapmix.fitting.fitted import Fitted, density_of
from gapmix.fitting.matrix import check_reach
from gapmix.fitting.spec import count_kept
from gapmix.parameters import Parameters
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import parameters_to_internal, without_numbers


class FittedMixture(GlanceMixin, DensityMixin, BaseEstimator):
    """The methods of `GaussianMixture` that use a fit, and how it is stored."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _store(self, fitted: Fitted) -> None:
        """Write the outcome of a fit to the estimator: the only place that does."""
        if hasattr(self, "_stream"):
            del self._stream  # a fit ends what partial_fit began
        parameters = fitted.parameters
        self.weights_, self.means_ = parameters.weights, parameters.means
        self._covariance_type = parameters.structure
        structure = STRUCTURES[self._covariance_type]
        self.covariances_ = structure.to_public(parameters.covariances)
        inside = parameters_to_internal(parameters, fitted.units).covariances
        self.precisions_, self.precisions_cholesky_ = structure.precisions(
            inside, fitted.units.scale
        )
        if fitted.n_levels is not None and fitted.n_levels.all():  # no one asked for a number
            shape = structure.public_shape(len(self.weights_), 0)
            self.means_ = self.means_[:, :0]
            self.covariances_ = self.precisions_ = self.precisions_cholesky_ = np.ones(shape)
        self.category_probabilities_ = list(parameters.categories)
        self._n_levels = fitted.n_levels
        self.rare_levels_ = pick_levels(self.categories_, fitted.rare)
        self.converged_ = fitted.converged
        self.stop_reason_ = fitted.stop_reason
        self.n_iter_ = fitted.n_iter
        self.lower_bounds_ = [record.objective for record in fitted.history]
        self.lower_bound_ = self.lower_bounds_[-1]
        self.history_ = fitted.history
        self.plan_ = fitted.plan
        self._scaling = fitted.units
        self._target, self._center = fitted.target, fitted.center

    def _fitted(self) -> Fitted:
        """Return the fit that is stored, as a record."""
        name, means = self._covariance_type, self.means_
        structure = STRUCTURES[name]
        covariances = self.covariances_
        if means.shape[1]:
            covariances = structure.from_public(covariances, means.shape[1])
        tables = tuple(self.category_probabilities_)
        parameters = Parameters(self.weights_, means, covariances, name, tables)
        return Fitted(
            parameters if means.shape[1] else without_numbers(parameters),
            self._scaling,
            self.plan_,
            self.history_,
            self.n_iter_,
            self.converged_,
            self.stop_reason_,
            self._target,
            self._center,
            n_levels=self._n_levels,
        )

    def _density(self) -> Density:
        return density_of(self._fitted(), self.n_jobs)

    def _read(self, X: Any) -> np.ndarray:
        """Return new rows as a matrix, after checking that densities of them can be given."""
        check_is_fitted(self)
        x = read_table(self, X, reset=False)
        check_reach(x, self._scaling, column_names(self), self._n_levels)
        return x

    def score_samples(self, X: Any) -> np.ndarray:
        """Return log p(x_o) of each row, the density of what it shows; 0 for an empty row."""
        x = self._read(X)
        return density.score(self._density(), x).log_prob

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of the rows."""
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each component given what a row shows, (n, n_components)."""
        x = self._read(X)
        return density.score(self._density(), x).resp

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable component of each row."""
        return self.predict_proba(X).argmax(axis=1)

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Return X with each gap filled by its conditional mean given the rest of its row.

        Observed values come back as they were. With `return_std`, also the conditional standard
        deviation of every filled cell (0 where observed). Categories are filled by their most
        probable level, and have the probability of any other in place of a deviation; with them, a
        data frame comes back as one, with the same types, and anything else as an array of objects.
        """
        x = self._read(X)
        filled = density.fill(self._density(), x, spread=return_std)
        mean = filled.mean
        if self.category_probabilities_:
            mean = restore_frame(self, X, x, mean) if is_frame(X) else restore_levels(self, X, mean)
        return (mean, filled.std) if return_std else mean

    def sample_missing(self, X: Any, n_draws: int = 1, random_state: Any = None) -> np.ndarray:
        """Return draws of the gaps given the rest of each row, (n_draws, n, n_features).

        A component is drawn first, then its Gaussian and its categories; observed values come back
        as they were. With categories, an array of objects.
        """
        checks.check_positive_int("n_draws", n_draws)
        x = self._read(X)
        rng = make_rng(self.random_state if random_state is None else random_state)
        return restore_levels(self, X, density.draw(self._density(), x, n_draws, rng))

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Return random rows (n_samples, n_features) and the component each came from.

        With categories, an array of objects.
        """
        check_is_fitted(self)
        checks.check_positive_int("n_samples", n_samples)
        rng = make_rng(self.random_state)
        rows, labels = density.sample_rows(self._density(), n_samples, rng)
        return restore_levels(self, None, rows), labels

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of the rows; lower is better."""
        log_prob = self.score_samples(X)
        return float(-2.0 * log_prob.sum() + self._n_parameters() * np.log(len(log_prob)))

    def aic(self, X: Any) -> float:
        """Return the Akaike information criterion of the rows; lower is better."""
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self._n_parameters())

    def _n_parameters(self) -> int:
        """Return the number of free parameters."""
        n_components, d = self.means_.shape
        structure = STRUCTURES[self._covariance_type]
        free = structure.count_free(d, count_kept(self.keep_components, d))
        n_weights = 0 if self.weights == "equal" else n_components - 1
        numbers = (1 if structure.SHARED else n_components) * free + n_components * d
        n_levels = sum(table.shape[1] - 1 for table in self.category_probabilities_)
        n_levels -= sum(max(0, len(levels) - 1) for levels in self.rare_levels_)
        return numbers + n_weights + n_components * n_levels
