"""GaussianMixtureRegressor: predict targets from rows with gaps, by their joint density."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gapmix import density
from gapmix.estimators import checks, refined
from gapmix.estimators.base import MixtureBased, warn_of_stops
from gapmix.estimators.bounds import find_constants
from gapmix.estimators.levels import count_levels, only_numbers, warn_of_rare
from gapmix.estimators.random import make_rng
from gapmix.estimators.refined import read_refine
from gapmix.estimators.validation import (
    column_names,
    keeping_last_fit,
    read_table,
    read_targets,
    read_weights,
)
from gapmix.estimators.warning import warn_codes, warn_of_unknown
from gapmix.fitting.matrix import check_reach
from gapmix.heads.fitting import fit_heads
from gapmix.heads.learners import choose_learners
from gapmix.selection.choose import as_chosen, choose
from gapmix.selection.task import Task


class GaussianMixtureRegressor(RegressorMixin, MixtureBased):
    """Regression by the joint density of inputs and targets, with gaps anywhere.

    A Gaussian mixture of (x, y) is fitted by exact EM. The prediction is E[y | x_o], where x_o are
    the inputs that a row shows. Rows with gaps in x or in y are used in the fit, too.

    Parameters
    ----------
    n_components : int or 'auto', default='auto'
        Number of components. 'auto' tries 1, 2, 3, 5, 8, ... on hidden targets.
    average : bool, default=True
        With 'auto', average up to three of the best mixtures; False keeps only the best.
    max_components : int or None, default=None
        With 'auto', the largest number to try. None leaves it to `effort`: up to 55, or 89 with
        'best', as long as results improve.
    effort : {'quick', 'default', 'best'}, default='default'
        How much work to spend with 'auto'. 'quick' fits one component, and lines between
        columns if some are categories. 'best' tries more components on more rows, for more
        iterations and with three starts, and refines.
    refine : None, 'auto', False or regressor, default=None
        Learn the errors of the mixture, and correct them where that helps on rows the learner has
        not seen. None leaves it to `effort`, which with 'auto' uses small trees and a forest.
        'auto' uses larger ones; or give a regressor. False turns it off.
    categorical_features : 'from_dtype', names, numbers or mask of columns of X, or None
        Which columns of X are categories; default='from_dtype', as in
        :class:`gapmix.GaussianMixture`.
    covariance_type : 'auto' or as in :class:`gapmix.GaussianMixture`, default='auto'
        'auto' is 'full', or 'factor' with more than 500 columns, or with more than 100 and fewer
        than five rows for each.
    n_factors : int or 'auto', default='auto'
        Number of factors, for 'factor' and 'ppca'. 'auto' chooses it like `n_components`.
    reg_covar : float or 'auto', default='auto'
        Ridge, as in :class:`gapmix.GaussianMixtureImputer`.
    tol, max_iter, n_init, solver, accelerate, n_jobs
        As in :class:`gapmix.GaussianMixture`.
    shrinkage, mean_shrinkage : float or 'auto', default='auto'
        Prior weights, in rows, of the pooled covariance and of the overall mean, as in
        :class:`gapmix.GaussianMixture`.
    random_state : int, RandomState instance or None, default=None
        Seed of hidden targets, starts and draws.
    verbose : int, default=0
        1 logs each number of components tried, 2 also each start.

    Attributes
    ----------
    mixture_ : GaussianMixture
        The joint density: the columns of X, then those of y.
    selection_ : tuple of Candidate
        What 'auto' tried; empty if the number of components was given.
    heads_ : Heads or None
        What refines the mixture: `heads_.heads` has a record for each target with its weight, from
        0 to 1, and the error before and after.
    n_components_ : int
        Number of components of the mixture.
    categories_ : list of ndarray
        The levels of each category of X.
    is_categorical_ : ndarray of shape (n_features,)
        True for the columns of X that are categories.
    rare_levels_ : list of ndarray
        As in :class:`gapmix.GaussianMixture`.
    n_targets_ : int
        Number of targets.
    constant_ : ndarray of shape (n_targets,)
        The value of targets that never vary, NaN for the others. It is predicted with a standard
        deviation of 0.
    n_iter_ : int
        Iterations of the fit, of the slowest one if several were averaged.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if the table had them.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixtureRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [2.0, -1.0] + 0.1 * rng.normal(size=200)
    >>> X[::3, 1] = np.nan
    >>> model = GaussianMixtureRegressor(1).fit(X, y)
    >>> mean, std = model.predict([[1.0, 1.0], [1.0, np.nan]], return_std=True)
    >>> mean.round(1), std.round(1)
    (array([1. , 1.9]), array([0.1, 1. ]))
    >>> model.predict_quantiles([[1.0, np.nan]], [0.05, 0.95]).shape
    (2, 1)
    """

    heads_ = None  # of models of earlier files

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @keeping_last_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the joint density of X and y.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The inputs, with gaps.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The targets, with gaps.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.

        Returns
        -------
        self
        """
        self._check_parameters()
        x = read_table(self, X, reset=True, min_rows=2)
        targets = read_targets(self, y, len(x))
        if np.isnan(targets).all():
            raise ValueError(f"y has no observed value in {len(x)} rows: nothing can be learned.")
        weight = read_weights(sample_weight, len(x))
        names = column_names(self)
        n_targets = targets.shape[1]
        joint = np.column_stack([x, targets])
        all_names = names + [f"target {j}" for j in range(n_targets)]
        n_levels = count_levels(self)
        if n_levels is not None:
            n_levels = np.append(n_levels, np.zeros(n_targets, dtype=int))
        numbers, number_names = only_numbers(self, x, names)
        warn_codes(
            np.column_stack([numbers, targets]), weight, number_names + all_names[len(names) :]
        )
        warn_of_unknown(weight @ ~np.isnan(joint) > 0, all_names)
        at_end = np.arange(x.shape[1], x.shape[1] + n_targets)
        wanted = self._wanted(joint.shape)
        task = Task(joint, weight, all_names, target_columns=at_end, n_levels=n_levels)
        chosen = choose(wanted, task)
        warn_of_stops(chosen.advice)
        mixed = n_levels is not None
        asked = read_refine(self.refine, wanted.effort, wanted.n_components, mixed=mixed)
        self.heads_ = None
        if asked is not None:
            learners = choose_learners(asked, wanted.seed)
            alike = as_chosen(wanted, chosen)
            self.heads_ = fit_heads(alike, task, chosen.fitted, learners, at_end.tolist()).heads
        self.mixture_ = self._to_mixture(chosen.fitted, wanted.seed, chosen.reg_covar)
        warn_of_rare([self.mixture_], all_names)
        self.selection_ = chosen.candidates
        self.n_components_ = len(self.mixture_.weights_)
        self.n_iter_ = chosen.fitted.n_iter
        self.n_targets_ = n_targets
        self.constant_ = find_constants(targets[weight > 0])
        self._flat = np.asarray(y).ndim == 1
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return E[y | x_o] of each row, and with `return_std` the standard deviation of y."""
        joint = self._joint(X)
        filled = refined.tell(self._density(), self.heads_, joint, spread=return_std)
        mean = self._targets(filled.mean, self.constant_)
        still = np.where(np.isnan(self.constant_), np.nan, 0.0)
        return (mean, self._targets(filled.std, still)) if return_std else mean

    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Return quantiles of y given x_o, (n_levels, n_samples) or with targets as last axis."""
        wrong = ValueError(
            f"levels={levels!r} must hold at least one number, each strictly between 0 and 1."
        )
        try:
            wanted = np.atleast_1d(np.asarray(levels, dtype=float))
        except (TypeError, ValueError) as error:
            raise wrong from error
        if wanted.ndim != 1 or not wanted.size or not ((wanted > 0) & (wanted < 1)).all():
            raise wrong
        joint = self._joint(X)
        values = refined.quantiles(self._density(), self.heads_, joint, wanted)
        return self._targets(values, self.constant_)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Return draws of y given x_o, the draws along the last axis.

        The shape is (n_rows, n_samples), or (n_rows, n_targets, n_samples) for several targets, as
        for :class:`sklearn.gaussian_process.GaussianProcessRegressor`.
        """
        checks.check_positive_int("n_samples", n_samples)
        joint = self._joint(X)
        rng = make_rng(random_state)
        drawn = refined.draw(self._density(), self.heads_, joint, n_samples, rng)
        draws = self._targets(drawn, self.constant_)
        return np.moveaxis(draws, 0, -1)

    def _density(self) -> density.Density:
        return self.mixture_._density()._replace(n_jobs=self.n_jobs)

    def _joint(self, X: Any) -> np.ndarray:
        """Return the rows of X with all targets missing."""
        check_is_fitted(self)
        x = read_table(self, X, reset=False)
        joint = np.column_stack([x, np.full((len(x), self.n_targets_), np.nan)])
        names = column_names(self) + [f"target {j}" for j in range(self.n_targets_)]
        check_reach(joint, self.mixture_._scaling, names, self.mixture_._n_levels)
        return joint

    def _targets(self, joint: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return the target columns, those that are `known` (n_targets,) as such, flat as y was."""
        targets = joint[..., self.n_features_in_ :]
        targets = np.where(np.isnan(known), targets, known)
        return targets[..., 0] if self._flat else targets
