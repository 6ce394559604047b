"""GaussianMixtureClassifier: one mixture per class, for rows with gaps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.validation import check_is_fitted

from gapmix import density
from gapmix.estimators import automatic, options
from gapmix.estimators.automatic import Chosen, Task
from gapmix.estimators.glance import GlanceMixin
from gapmix.estimators.labels import find_classes, read_labels, read_priors
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.validation import (
    column_names,
    keeping_last_fit,
    read_table,
    read_weights,
    warn_codes,
)

COOLEST, HOTTEST = 0.02, 1.5  # range of the exponent that calibrates densities
MAX_ROUNDS = 20  # of sharing unlabelled rows among classes
SMALLEST_CHANGE = 1e-3  # mean change of the shares at which sharing ends


class GaussianMixtureClassifier(GlanceMixin, ClassifierMixin, BaseEstimator):
    """Classification by the density of each class, with gaps anywhere.

    Every class gets a Gaussian mixture of its own, fitted by exact EM. A row is compared with the
    classes by the density of what it shows, so gaps need no filling. Covariances are shrunk to
    the one pooled over the classes.

    Parameters
    ----------
    n_components : int or 'auto', default='auto'
        Components per class. 'auto' compares a growing range on rows held out, class by class.
    average : bool, default=True
        With 'auto', unite the best three sizes into one mixture; False keeps the best alone.
    max_components : int or None, default=None
        With 'auto', the largest size to try; None tries up to 55 while it pays.
    priors : array-like of shape (n_classes,) or None, default=None
        Probabilities of the classes; None takes their shares of the (weighted) rows.
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes, which multiply the row weights.
    use_unlabelled : bool, default=False
        Let rows whose label is missing (NaN or None) take part in training: they are shared among
        the classes by their probabilities, and the classes fitted again, until that settles.
        Otherwise they are passed over.
    calibrate : bool, default=True
        Densities of many columns make too sure: raise them to the power that suits rows held out.
    covariance_type, tol, reg_covar, max_iter, n_init, solver, accelerate, n_jobs
        As in :class:`gapmix.GaussianMixture`.
    shrinkage, mean_shrinkage : float or 'auto', default='auto'
        Prior weights, in rows, of the pooled covariance, and of the mean of the class for the mean
        of each of its components.
    random_state : int, RandomState instance or None, default=None
        Seed of held-out rows and starts.
    verbose : int, default=0
        1 logs each size tried, 2 also each start.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    mixtures_ : list of GaussianMixture
        The mixture of each class.
    selection_ : list of tuple of Candidate
        The sizes tried, for each class.
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

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        average: bool = True,
        max_components: int | None = None,
        priors: Any = None,
        class_weight: Any = None,
        use_unlabelled: bool = False,
        calibrate: bool = True,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        shrinkage: float | str = "auto",
        mean_shrinkage: float | str = "auto",
        solver: Any = "auto",
        accelerate: str | None = "auto",
        random_state: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.average = average
        self.max_components = max_components
        self.priors = priors
        self.class_weight = class_weight
        self.use_unlabelled = use_unlabelled
        self.calibrate = calibrate
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.shrinkage = shrinkage
        self.mean_shrinkage = mean_shrinkage
        self.solver = solver
        self.accelerate = accelerate
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

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
        self._check_parameters()
        x = read_table(self, X, reset=True, min_rows=2)
        labels, known = read_labels(self, y, len(x))
        weight = read_weights(sample_weight, len(x))
        names = column_names(self)
        warn_codes(x, weight, names)
        classes, code = find_classes(labels, known, weight)
        weight = weight * self._class_weights(classes, code, labels[known])
        units = options.measure_units(x, weight, self.covariance_type, names)
        options.warn_unknown(x, weight, names)
        seed = int(check_random_state(self.random_state).randint(2**31))

        tasks = [
            Task(x[code == c], weight[code == c], names, whole_rows=True, units=units)
            for c in range(len(classes))
        ]
        self._refuse_small_classes(classes, tasks)
        pooled = self._pool(tasks, seed)
        tasks = [task._replace(pooled=pooled) for task in tasks]
        chosen = [automatic.fit(self, task, seed + c) for c, task in enumerate(tasks)]
        mixtures = [each.mixture for each in chosen]
        totals = np.array([task.weight.sum() for task in tasks])
        priors = read_priors(self.priors, classes, totals)
        exponent = self._calibrate(chosen, priors)
        if self.use_unlabelled and (code < 0).any():
            loose = Task(x[code < 0], weight[code < 0], names)
            mixtures, priors = self._share_out(loose, tasks, mixtures, priors, exponent)
        self.classes_ = classes
        self.mixtures_ = mixtures
        self.selection_ = [each.candidates for each in chosen]
        self.priors_ = priors
        self.exponent_ = exponent
        self.n_iter_ = max(mixture.n_iter_ for mixture in mixtures)
        return self

    def _check_parameters(self) -> None:
        automatic.check(self)
        for name in ("use_unlabelled", "calibrate"):
            options.check_switch(name, getattr(self, name))

    def _refuse_small_classes(self, classes: np.ndarray, tasks: list[Task]) -> None:
        """Raise an error that names a class with too few rows for a mixture."""
        n_needed = 1 if self.n_components == "auto" else int(self.n_components)
        for label, task in zip(classes.tolist(), tasks, strict=True):
            n_useful = int(((task.weight > 0) & ~np.isnan(task.x).all(axis=1)).sum())
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

    def _pool(self, tasks: list[Task], seed: int) -> np.ndarray:
        """Return the covariance within classes, in the user's units: one Gaussian for each."""
        total = sum(float(task.weight.sum()) for task in tasks)
        pooled = 0.0
        for task in tasks:
            one = automatic.make(self, 1, seed).set_params(covariance_type="full")
            share = float(task.weight.sum()) / total
            with warnings.catch_warnings():  # a prior may be rough; the fits under it are told of
                warnings.simplefilter("ignore", ConvergenceWarning)
                pooled = pooled + share * task.fit(one).covariances_[0]
        return np.asarray(pooled)

    def _calibrate(self, chosen: list[Chosen], priors: np.ndarray) -> float:
        """Return the power of the densities that makes held-out rows most probable in their class.

        The densities are those of fits that have not seen these rows.
        """
        blind = [each.blind for each in chosen]
        if not self.calibrate or any(each is None for each in blind):
            return 1.0
        held = [each.held for each in chosen if each.held is not None]
        truth = np.repeat(np.arange(len(held)), [len(rows) for rows in held])
        if not truth.size:
            return 1.0
        log_prob = _class_densities([m for m in blind if m], np.concatenate(held), self.n_jobs)

        def loss(log_exponent: float) -> float:
            joint = np.exp(log_exponent) * log_prob + np.log(priors)
            return -float(log_softmax(joint, axis=1)[np.arange(len(truth)), truth].mean())

        ends = np.log([COOLEST, HOTTEST])
        return float(np.exp(minimize_scalar(loss, bounds=ends, method="bounded").x))

    def _share_out(
        self,
        loose: Task,
        tasks: list[Task],
        mixtures: list[GaussianMixture],
        priors: np.ndarray,
        exponent: float,
    ) -> tuple[list[GaussianMixture], np.ndarray]:
        """Share rows without a label among the classes by their probabilities, and fit again.

        This is EM once more, with the label as what is missing: every round raises the likelihood
        of labelled and unlabelled rows together when densities are not raised to a power.
        """
        share = np.zeros((len(loose.x), len(tasks)))
        for _ in range(MAX_ROUNDS):
            before = share
            joint = exponent * _class_densities(mixtures, loose.x, self.n_jobs) + np.log(priors)
            share = softmax(joint, axis=1)
            if np.abs(share - before).mean() < SMALLEST_CHANGE:
                break
            for c, (task, mixture) in enumerate(zip(tasks, mixtures, strict=True)):
                together = task._replace(
                    x=np.concatenate([task.x, loose.x]),
                    weight=np.concatenate([task.weight, loose.weight * share[:, c]]),
                )
                together.fit(mixture.set_params(warm_start=True)).set_params(warm_start=False)
            own = np.array([task.weight.sum() for task in tasks])
            if self.priors is None:
                totals = own + loose.weight @ share
                priors = totals / totals.sum()
        return mixtures, priors

    # ---------------------------------------------------------------- using

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the log probability of each class given what a row shows, (n, n_classes)."""
        log_prob = self._log_prob(X)
        joint = self.exponent_ * log_prob + np.log(self.priors_)
        return np.asarray(log_softmax(joint, axis=1))

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
        options.check_reach(x, self.mixtures_[0]._scaling, column_names(self))
        return _class_densities(self.mixtures_, x, self.n_jobs)


def _class_densities(
    mixtures: list[GaussianMixture], x: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return log p(x_o | class), (n, n_classes)."""
    models = [mixture._density()._replace(n_jobs=n_jobs) for mixture in mixtures]
    return np.column_stack([density.score(model, x).log_prob for model in models])
