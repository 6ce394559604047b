"""GaussianMixtureClassifier: one mixture per class, for rows with gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax, logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from gapmix import density
from gapmix.categories import TINY, split_table
from gapmix.estimators.base import MixtureBased, warn_of_stops
from gapmix.estimators.labels import find_classes, read_labels, read_priors
from gapmix.estimators.levels import count_levels, only_numbers, warn_of_rare
from gapmix.estimators.refined import read_refine
from gapmix.estimators.validation import (
    column_names,
    keeping_last_fit,
    read_table,
    read_weights,
)
from gapmix.estimators.warning import warn_codes, warn_of_unknown
from gapmix.fitting.fitted import Fitted, density_of
from gapmix.fitting.matrix import are_useful, check_reach, measure_units
from gapmix.heads.fitting import fit_heads
from gapmix.heads.indicators import describe
from gapmix.heads.learners import choose_learners, predict_levels
from gapmix.heads.using import Heads
from gapmix.selection.choose import Wanted, as_chosen, choose
from gapmix.selection.classes import (
    find_exponent,
    join_classes,
    pool,
    score_classes,
    share_out,
    temper,
)
from gapmix.selection.task import Task


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianMixtureClassifier(ClassifierMixin, MixtureBased):
    """Classification by the density of each class, with gaps anywhere.

    One Gaussian mixture is fitted to the rows of each class, by exact EM. A new row is classified
    by the densities of its observed cells, so gaps need no filling. Covariances are shrunk towards
    the one pooled over all classes.

    Parameters
    ----------
    n_components : int or 'auto', default='auto'
        Components per class. 'auto' tries 1, 2, 3, 5, 8, ... on held-out rows.
    average : bool, default=True
        With 'auto', average up to three of the best mixtures; False keeps only the best.
    max_components : int or None, default=None
        With 'auto', the largest number to try. None leaves it to `effort`: up to 55, or 89 with
        'best', as long as results improve.
    effort : {'quick', 'default', 'best'}, default='default'
        How much work to spend with 'auto'. 'quick' fits one component, and lines between
        columns if some are categories. 'best' tries more components on more rows, for more
        iterations and with three starts, and refines.
    refine : None, 'auto', False or classifier, default=None
        Also learn the classes from rows filled by the mixtures, and mix the probabilities where
        that helps on rows the learner has not seen. None leaves it to `effort`, which with 'auto'
        uses small trees and a forest. 'auto' uses larger ones; or give a classifier. False turns it
        off.
    priors : array-like of shape (n_classes,) or None, default=None
        Probabilities of the classes; None uses their frequencies in the (weighted) rows.
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes, which multiply the row weights.
    use_unlabelled : bool, default=False
        Also train on rows whose label is missing (NaN or None). They are divided among the classes
        by their probabilities and the classes are fitted again, until nothing changes. Otherwise
        they are not used.
    calibrate : bool, default=True
        Densities of many columns are overconfident: raise them to the power that is best on
        held-out rows.
    categorical_features : 'from_dtype', names, numbers or mask of columns, or None
        Which columns are categories; default='from_dtype', as in :class:`gapmix.GaussianMixture`.
    covariance_type : 'auto' or as in :class:`gapmix.GaussianMixture`, default='auto'
        'auto' is 'full', or 'factor' with more than 500 columns, or with more than 100 and fewer
        than five rows for each.
    n_factors : int or 'auto', default='auto'
        Number of factors, for 'factor' and 'ppca'. 'auto' chooses it like `n_components`.
    reg_covar : float or 'auto', default='auto'
        Ridge, as in :class:`gapmix.GaussianMixtureImputer`, chosen for each class on hidden rows.
    tol, max_iter, n_init, solver, accelerate, n_jobs
        As in :class:`gapmix.GaussianMixture`.
    shrinkage, mean_shrinkage : float or 'auto', default='auto'
        Prior weights, in rows, of the pooled covariance, and of the mean of the class for the mean
        of each of its components.
    random_state : int, RandomState instance or None, default=None
        Seed of held-out rows and starts.
    verbose : int, default=0
        1 logs each number of components tried, 2 also each start.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    mixtures_ : list of GaussianMixture
        The mixture of each class.
    selection_ : list of tuple of Candidate
        What 'auto' tried, for each class.
    categories_ : list of ndarray
        The levels of each category.
    is_categorical_ : ndarray of shape (n_features,)
        True for the columns that are categories.
    rare_levels_ : list of ndarray
        Of each category, the levels that are rare in some class; see
        :class:`gapmix.GaussianMixture`.
    heads_ : Heads or None
        What refines the mixtures: `heads_.heads` has a record with the weight, from 0 to 1, and the
        mean log probability of true classes before and after.
    priors_ : ndarray of shape (n_classes,)
        Probabilities of the classes.
    exponent_ : float
        Power that densities are raised to; 1 if not calibrated.
    n_iter_ : int
        Iterations of the slowest class.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if the table had them.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixtureClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> y = np.repeat(["low", "high"], 50)
    >>> model = GaussianMixtureClassifier(1, random_state=0).fit(X, y)
    >>> model.predict([[0.0, np.nan], [np.nan, 5.0]])
    array(['low', 'high'], dtype='<U4')
    >>> model.predict_proba([[0.0, np.nan]]).round(1)  # in the order of model.classes_
    array([[0., 1.]])
    """

    priors: Any = None
    class_weight: Any = None
    use_unlabelled: bool = False
    calibrate: bool = True
    heads_ = None  # of models of earlier files

    # ---------------------------------------------------------------- fitting

    @keeping_last_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit a mixture to the rows of each class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The table, with gaps.
        y : array-like of shape (n_samples,)
            The labels; NaN or None where missing.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.

        Returns
        -------
        self
        """
        self._check_parameters("use_unlabelled", "calibrate")
        x = read_table(self, X, reset=True, min_rows=2)
        labels, known = read_labels(self, y, len(x))
        weight = read_weights(sample_weight, len(x))
        names = column_names(self)
        numbers, number_names = only_numbers(self, x, names)
        warn_codes(numbers, weight, number_names)
        n_levels = count_levels(self)
        classes, code = find_classes(labels, known, weight)
        weight = weight * self._class_weights(classes, code, labels[known])
        wanted = self._wanted(x.shape)
        units = measure_units(
            split_table(x, n_levels)[0],
            weight,
            wanted.spec.covariance_type,
            number_names or ["(none)"],
        )
        warn_of_unknown(weight @ ~np.isnan(x) > 0, names)
        tasks = [
            Task(
                x[code == c],
                weight[code == c],
                names,
                whole_rows=True,
                units=units,
                n_levels=n_levels,
            )
            for c in range(len(classes))
        ]
        self._refuse_small_classes(classes, tasks)
        pooled = pool(wanted, tasks)
        tasks = [task._replace(pooled=pooled) for task in tasks]
        chosen = [
            choose(wanted._replace(seed=wanted.seed + c), task) for c, task in enumerate(tasks)
        ]
        warn_of_stops(text for each in chosen for text in each.advice)
        fits = [each.fitted for each in chosen]
        totals = np.array([task.weight.sum() for task in tasks])
        priors = read_priors(self.priors, classes, totals)
        exponent = find_exponent(chosen, priors, self.n_jobs) if self.calibrate else 1.0
        if self.use_unlabelled and (code < 0).any():
            loose = Task(x[code < 0], weight[code < 0], names, n_levels=n_levels)
            learns = self.priors is None
            alike = [as_chosen(wanted, each) for each in chosen]
            fits, priors = share_out(
                alike, loose, tasks, fits, priors, exponent, learns_priors=learns
            )
            warn_of_stops(fitted.advice for fitted in fits)
        self.classes_ = classes
        self.mixtures_ = [
            self._to_mixture(fitted, wanted.seed + c, chosen[c].reg_covar)
            for c, fitted in enumerate(fits)
        ]
        warn_of_rare(self.mixtures_, names, of=" of a class")
        self.selection_ = [each.candidates for each in chosen]
        self.priors_ = priors
        self.exponent_ = exponent
        named = np.column_stack([x, np.where(code < 0, np.nan, code)])
        ridge = float(np.median([each.reg_covar for each in chosen]))
        joint = wanted._replace(spec=wanted.spec._replace(reg_covar=ridge))
        self.heads_ = self._fit_heads(joint, Task(named, weight, [*names, "the label"]), fits)
        self.n_iter_ = max(fitted.n_iter for fitted in fits)
        return self

    def _fit_heads(self, wanted: Wanted, task: Task, fits: list[Fitted]) -> Heads | None:
        mixed = count_levels(self) is not None
        asked = read_refine(self.refine, wanted.effort, wanted.n_components, mixed=mixed)
        if asked is None:
            return None
        joint = join_classes(fits, self.priors_)
        return fit_heads(
            wanted,
            task._replace(n_levels=joint.n_levels),
            joint,
            choose_learners(asked, wanted.seed),
            [self.n_features_in_],
            lambda shares: temper(shares, self.priors_, self.exponent_),
        ).heads

    def _refuse_small_classes(self, classes: np.ndarray, tasks: list[Task]) -> None:
        """Raise an error that names a class with too few rows for a mixture."""
        n_needed = 1 if self.n_components == "auto" else int(self.n_components)
        for label, task in zip(classes.tolist(), tasks, strict=True):
            n_useful = int(are_useful(task.x, task.weight).sum())
            if n_useful < n_needed:
                raise ValueError(
                    f"Class {label!r} has {n_useful} of {len(task.x)} rows with an observed value, "
                    f"and a mixture of {n_needed} components needs at least {n_needed}. Lower "
                    "n_components, or leave the class out."
                )

    def _class_weights(
        self, classes: np.ndarray, code: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        """Return the factor of every row's weight, (n,); 1 for rows without a label."""
        factor = compute_class_weight(self.class_weight, classes=classes, y=labels)
        if not ((factor > 0) & (factor < np.inf)).all():
            raise ValueError(
                f"class_weight={self.class_weight!r}: every class needs a positive weight. To "
                "leave a class out, leave out its rows."
            )
        return np.where(code >= 0, factor[np.maximum(code, 0)], 1.0)

    # ---------------------------------------------------------------- using

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the log probability of each class given what a row shows, (n, n_classes)."""
        log_prob = self._log_prob(X)
        joint = self.exponent_ * log_prob + np.log(self.priors_)
        told: np.ndarray = log_softmax(joint, axis=1)
        if self.heads_ is None or not self.heads_.at_work():
            return told
        x = read_table(self, X, reset=False)
        x = np.column_stack([x, np.full(len(x), np.nan)])
        whole = join_classes([each._fitted() for each in self.mixtures_], self.priors_)
        filled = density.fill(density_of(whole, self.n_jobs), x, spread=True)
        (head, learner), *_ = self.heads_.at_work()
        view, seen = self.heads_.view, self.heads_.indicators
        features = describe(view, seen, head.column, filled, np.isnan(x))
        learned = predict_levels(learner, features, len(self.classes_))
        return np.log(np.maximum((1.0 - head.weight) * np.exp(told) + head.weight * learned, TINY))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class given what a row shows, (n, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        likeliest = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def score_samples(self, X: Any) -> np.ndarray:
        """Return log p(x_o) of each row, over all classes."""
        log_prob = self._log_prob(X)
        return np.asarray(logsumexp(log_prob + np.log(self.priors_), axis=1))

    def _log_prob(self, X: Any) -> np.ndarray:
        """Return log p(x_o | class), (n, n_classes)."""
        check_is_fitted(self)
        x = read_table(self, X, reset=False)
        first = self.mixtures_[0]
        check_reach(x, first._scaling, column_names(self), first._n_levels)
        models = [mixture._density()._replace(n_jobs=self.n_jobs) for mixture in self.mixtures_]
        return score_classes(models, x)
