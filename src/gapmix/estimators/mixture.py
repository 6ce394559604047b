"""GaussianMixture: scikit-learn's estimator, on tables with gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gapmix import density
from gapmix import units as scaling
from gapmix.density.fitted import Density
from gapmix.em import checkpoint
from gapmix.em import run as em
from gapmix.engines.choose import is_remote
from gapmix.engines.sources import is_source, open_source
from gapmix.estimators import climb, options
from gapmix.estimators.glance import GlanceMixin
from gapmix.estimators.stream import partial_fit
from gapmix.estimators.streamed import fit_source
from gapmix.estimators.validation import (
    column_names,
    keeping_last_fit,
    read_table,
    read_weights,
    warn_codes,
)
from gapmix.estimators.warning import Advised
from gapmix.parameters import (
    Parameters,
    dense_covariances,
    parameters_to_internal,
    parameters_to_user,
    rescale,
)
from gapmix.plan import planner as plan
from gapmix.plan.patterns import find_patterns
from gapmix.plan.rows import Rows, compress_rows, prepare_rows
from gapmix.solvers.calibrate import costs_for
from gapmix.starts import kmeans as initialize


class GaussianMixture(GlanceMixin, DensityMixin, BaseEstimator):
    """Gaussian mixture fitted by exact EM to rows with gaps.

    A drop-in for :class:`sklearn.mixture.GaussianMixture` that takes NaN everywhere: every
    parameter, attribute and method of it is here under the same name. Gaps are assumed to be
    missing at random: whether a value is missing may depend on what is observed, not on the value
    itself.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    covariance_type : {'full', 'tied', 'diag', 'spherical'}, default='full'
        Shape of the covariances; all are exact with gaps.
    tol : float, default=1e-3
        Stop when less than this is left to gain per row: the distance from the objective to its
        limit, extrapolated from how gains shrink and from the curvature that `accelerate` has
        seen, so that slow creep is not taken for convergence. With `accelerate=None`, or with
        `diagonal_loading` or a `fill` under which EM may go down, stop by scikit-learn's rule
        instead: when an iteration gains less than this per row.
    reg_covar : float, default=1e-6
        Ridge, relative to each column's observed variance. This is the one difference from
        scikit-learn, where it is absolute: here it acts as a prior, so that EM never goes down,
        and units do not matter. For a component of average size, `reg_covar` times the column's
        variance is added to its variances; for a smaller one, more.
    max_iter : int, default=100
        Largest number of iterations.
    n_init : int, default=1
        Number of starts; the best is kept.
    init_params : {'kmeans', 'k-means++', 'random', 'random_from_data', 'auto'}, default='kmeans'
        How means are started, over the observed values. 'auto' compares several starts by k-means
        on a sample of the rows, climbs a little from the best, and merges and splits components
        that sit badly, for the work of a few iterations: see `history_[0].events`. With rows to
        stop on, it is 'kmeans'.
    weights_init, means_init, precisions_init : array-like, default=None
        Starting values, in the shapes scikit-learn uses.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts and of `sample`.
    warm_start : bool, default=False
        Start from the last solution.
    verbose : int, default=0
        1 logs each start, 2 also every `verbose_interval`-th iteration.
    verbose_interval : int, default=10
        Iterations between log lines.
    weights : {'learned', 'equal'}, default='learned'
        Whether component weights are estimated, or equal as in the paper's equations.
    solver : {'auto', 'dual', 'tree', 'paper', 'naive', 'naive-row'}, default='auto'
        How patterns are solved; all give the same numbers. `plan_.explain()` tells what was chosen
        and why. A `gapmix.plan.TreeOptions` sets more than the name.
    init_covariance : {'available', 'filled'}, default='available'
        Starting covariances of clusters from the pairs of values available, or from rows filled
        with the cluster's mean.
    keep_components : float, int or None, default=None
        Keep only this share (float) or number (int) of the principal components of every
        covariance, in columns scaled to variance 1. For 'full' and 'tied'.
    fill : {'mean', 'next'} or float, default='mean'
        Variance given to the directions not kept: the mean of theirs (then EM never goes down),
        the largest of theirs, or a number relative to the columns' variances.
    diagonal_loading : float, default=0.0
        Added to the diagonal of every covariance, in squared units of the data: the paper's first
        regulariser. EM may go down with it.
    shrinkage : float or 'auto', default=0.0
        Prior weight, in rows, of the pooled within-component covariance for every component;
        'auto' is 2 (d + 1).
    mean_shrinkage : float or 'auto', default=0.0
        Prior weight, in rows, of the overall mean for the mean of every component; 'auto' is 10.
        With it, a component of a few odd rows cannot put its mean anywhere it has no values for.
    validation_fraction : float or None, default=None
        Share of the rows set aside to stop on; see `patience`.
    patience : int, default=3
        Stop when the likelihood of the validation rows has not risen for so many iterations, and
        keep the best parameters. Iterations spent on rejected proposals do not count.
    accelerate : {'auto', 'squarem', 'anderson', None}, default='auto'
        How to need fewer iterations: 'auto' takes the way that needed the fewest when measured,
        quasi-Newton steps from EM's own; 'squarem' and 'anderson' are extrapolations known from
        the literature. None asks for plain EM steps and scikit-learn's stop rule: on complete
        rows, the same iterations as there. A step that would lower the objective is never taken.
        With `diagonal_loading` or `keep_components`, steps are always plain.
    engine : {'threads', 'dask'}, address or Dask client, default='threads'
        Where rows are worked on: threads of this process; a Dask cluster of worker processes on
        this machine ('dask'); the cluster whose scheduler has an address such as
        'tcp://host:8786'; or that of a `distributed.Client`.
    n_jobs : int or None, default=None
        Number of threads, or of workers with 'dask'; None uses all cores. The result does not
        depend on it.
    checkpoint : str or path, default=None
        A file that holds the state of the fit, written every few iterations or minutes. If it is
        there when `fit` is called with the same data and parameters, the fit goes on from it, to
        the same bits as if it had never stopped; delete it to begin afresh.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Component weights.
    means_ : ndarray of shape (n_components, n_features)
        Component means.
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Covariances, their inverses, and the Cholesky factors of these, in scikit-learn's shapes.
    converged_ : bool
        Whether a stop rule was met before `max_iter`.
    stop_reason_ : str
        Why the fit stopped, in words.
    n_iter_ : int
        Iterations of the best start, each one pass over the rows.
    lower_bound_ : float
        The objective per row: mean log-likelihood plus log-prior, which is never positive.
    lower_bounds_ : list of float
        The objective at every iteration of the best start.
    history_ : tuple of Iteration
        One record per iteration: log_likelihood, objective, validation, seconds, events. An
        iteration spent on a proposal that proved lower repeats the values before it, and has an
        event that begins with 'rejected'.
    plan_ : Plan
        Patterns and solver; `plan_.explain()` returns text.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if the table had them.

    Notes
    -----
    One iteration costs about 4 n d^2 + sum over patterns of min(n_o, n_m)^3 operations for each
    component, n_o and n_m being the numbers of observed and missing variables of a pattern.

    References
    ----------
    Delalleau, Courville, Bengio: Efficient EM Training of Gaussian Mixtures with Missing Data.
    Equations 1-4; the normaliser of equation 2 is corrected here.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> X = np.array([[1.0, 2.0], [2.0, 4.1], [3.0, np.nan], [4.0, 8.1], [np.nan, 9.9]])
    >>> mixture = GaussianMixture(random_state=0, tol=1e-6).fit(X)
    >>> mixture.impute(X).round(2)
    array([[1.  , 2.  ],
           [2.  , 4.1 ],
           [3.  , 6.09],
           [4.  , 8.1 ],
           [4.88, 9.9 ]])
    >>> mixture.score_samples([[2.0, np.nan], [9.0, np.nan]]).round(1)  # the second is far out
    array([ -1.5, -10.8])
    >>> mixture.sample_missing(X, n_draws=3, random_state=0).shape
    (3, 5, 2)
    >>> mixture.converged_, len(mixture.history_) == mixture.n_iter_
    (True, True)
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        weights: str = "learned",
        solver: str | plan.TreeOptions = "auto",
        init_covariance: str = "available",
        keep_components: float | int | None = None,
        fill: str | float = "mean",
        diagonal_loading: float = 0.0,
        shrinkage: float | str = 0.0,
        mean_shrinkage: float | str = 0.0,
        validation_fraction: float | None = None,
        patience: int = 3,
        accelerate: str | None = "auto",
        engine: Any = "threads",
        n_jobs: int | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.weights = weights
        self.solver = solver
        self.init_covariance = init_covariance
        self.keep_components = keep_components
        self.fill = fill
        self.diagonal_loading = diagonal_loading
        self.shrinkage = shrinkage
        self.mean_shrinkage = mean_shrinkage
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.accelerate = accelerate
        self.engine = engine
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ---------------------------------------------------------------- fitting

    @keeping_last_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, X_val: Any = None) -> Any:
        """Fit the mixture to the rows of X, NaN where missing.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The table. Rows without any value carry no information and are passed over. Tables
            larger than memory are read in pieces: the path of a `.npy` or Parquet file or of a
            folder of these, a large `numpy.memmap`, a dask array or data frame, or what
            `gapmix.engines.sources.open_source` returns.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights; a weight of 2 is the same as the row given twice.
        X_val : array-like or data frame, default=None
            Rows to stop on instead of `validation_fraction` of X.

        Returns
        -------
        self
        """
        options.check(self)
        if is_source(X):
            source = open_source(X)
            weights = None if sample_weight is None else read_weights(sample_weight, source.n_rows)
            return fit_source(self, source, weights, X_val)
        x = read_table(self, X, reset=True, min_rows=2)
        weight = read_weights(sample_weight, len(x))
        if is_remote(self.engine):
            names_in = getattr(self, "feature_names_in_", None)
            source = open_source(x)._replace(names=None if names_in is None else tuple(names_in))
            return fit_source(self, source, weight, X_val)
        x_val = None if X_val is None else read_table(self, X_val, reset=False)
        names = column_names(self)
        warn_codes(x, weight, names)
        options.warn_unknown(x, weight, names)
        return self._fit_matrix(x, weight, x_val, names)

    def _fit_matrix(
        self,
        x: np.ndarray,
        weight: np.ndarray,
        x_val: np.ndarray | None,
        names: list[str],
        *,
        units: scaling.Scaling | None = None,
        target: np.ndarray | None = None,
    ) -> Any:
        """Fit to rows and parameters that were checked; `names` are for messages.

        `units` replace those measured on the rows, and `target` (d, d), in the user's units, the
        covariance that `shrinkage` would find by itself.
        """
        continues = self.warm_start and hasattr(self, "means_")
        saved, entropy = climb.begin(self)
        seeds = np.random.SeedSequence(entropy)

        useful = (weight > 0) & ~np.isnan(x).all(axis=1)
        self._refuse_too_few(x, useful)
        if not useful.all():
            x, weight = x[useful], weight[useful]
        if units is None:
            units = options.measure_units(x, weight, self.covariance_type, names)
        split_seed, *start_seeds = seeds.spawn(2 if continues else 1 + self.n_init)
        x, weight, held = options.set_aside(self, x, weight, x_val, split_seed)
        identity = climb.identify(self, units, float(weight.sum()))
        if saved is not None:
            checkpoint.check_identity(saved, identity, self.checkpoint)
        asked = self.solver
        if saved is not None and asked == "auto":
            asked = saved.solver  # a choice by measured time may come out otherwise now
        chosen, rows = self._plan_rows(x, weight, units, asked)
        validation_rows = None
        if held is not None:
            options.check_reach(held.x, units, names)
            same = self.solver if isinstance(self.solver, plan.TreeOptions) else chosen.solver
            validation_rows = self._plan_rows(held.x, held.weight, units, same)[1]
        if target is None and continues:
            target = self._target
        center = self._center if continues else None
        settings = options.settings(self, units, float(rows.weight.sum()), target, center)
        held_unit = 0.0 if validation_rows is None else options.log_unit(validation_rows, units)
        task = climb.Task(
            rows,
            rows,
            tuple(start_seeds),
            settings,
            validation_rows,
            (options.log_unit(rows, units), held_unit),
            continues,
            checkpoint.Saved(identity, entropy, chosen.solver, 0, None, None),
            saved,
        )
        climb.fit(self, task, units, chosen, names)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Take one more batch of an endless stream: online EM, which is not exact.

        Every batch is looked at once: running statistics move towards its own by a step that
        decays with the number of batches, then parameters follow (Cappe and Moulines, 2009). The
        first batch sets the units and the start, so it should be a fair sample of some hundred
        rows or more; the likelihood may fall from batch to batch. `history_` has the mean
        log-likelihood of each batch before it was learned from. `fit` begins afresh.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The batch, NaN where missing.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.

        Returns
        -------
        self
        """
        options.check(self)
        x = read_table(self, X, reset=not hasattr(self, "_stream"))
        return partial_fit(self, x, read_weights(sample_weight, len(x)))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit, then return the most probable component of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    def _refuse_too_few(self, x: np.ndarray, useful: np.ndarray) -> None:
        n_useful = int(useful.sum())
        if n_useful == 0:
            raise ValueError(
                f"None of the {len(x)} rows of X has an observed value and a positive weight: "
                "there is nothing to fit."
            )
        if n_useful < self.n_components:
            fact = (
                f"Expected n_samples >= n_components, but {self.n_components} components are "
                f"asked for and X has {n_useful} rows with an observed value (n_samples = "
                f"{len(x)})."
            )
            raise ValueError(Advised(fact, "n_components", "Lower n_components."))

    def _plan_rows(
        self,
        x: np.ndarray,
        weight: np.ndarray,
        units: scaling.Scaling,
        solver: str | plan.TreeOptions,
    ) -> tuple[plan.Plan, Rows]:
        """Return the plan for a table and its rows laid out accordingly."""
        patterns = find_patterns(~np.isnan(x))
        diagonal = self.covariance_type in ("diag", "spherical")
        costs = costs_for(patterns, self.n_components)
        made = plan.make_plan(
            patterns, self.n_components, solver=solver, diagonal=diagonal, costs=costs
        )
        if self.n_components == 1:
            x, weight, patterns = compress_rows(x, weight, patterns)
        rows = prepare_rows(
            x, weight, self.n_components, patterns=patterns, forest=made.forest, units=units
        )
        return made, rows

    def _start(self, rows: Rows, units: scaling.Scaling, rng: np.random.Generator) -> Parameters:
        """Return starting parameters in internal units: the last ones, given ones, or new ones."""
        if self.warm_start and hasattr(self, "means_"):
            options.check_warm_start(self, len(units.scale))
            return parameters_to_internal(self._user_parameters(), units)
        weights, means, covariances = options.given_start(self, units)
        if weights is not None and means is not None and covariances is not None:
            return Parameters(weights, means, covariances)
        made = initialize.start(
            rows,
            units,
            self.n_components,
            self.covariance_type,
            method="kmeans" if self.init_params == "auto" else self.init_params,
            init_covariance=self.init_covariance,
            equal_weights=self.weights == "equal",
            rng=rng,
        )
        return Parameters(
            made.weights if weights is None else weights,
            made.means if means is None else means,
            made.covariances if covariances is None else covariances,
        )

    def _store(self, best: em.Fit, units: scaling.Scaling, chosen: plan.Plan) -> None:
        """Write the outcome of a fit to the estimator: the only place that does."""
        if hasattr(self, "_stream"):
            del self._stream  # a fit ends what partial_fit began
        user = parameters_to_user(best.parameters, units)
        self.weights_ = user.weights
        self.means_ = user.means
        self.covariances_ = options.to_public(user.covariances, self.covariance_type)
        self.precisions_, self.precisions_cholesky_ = options.precisions(
            best.parameters, units, self.covariance_type
        )
        self.converged_ = best.converged
        self.stop_reason_ = best.stop_reason
        self.n_iter_ = len(best.history)
        self.lower_bounds_ = [record.objective for record in best.history]
        self.lower_bound_ = self.lower_bounds_[-1]
        self.history_ = best.history
        self.plan_ = chosen
        self._scaling = units
        self._covariance_type = self.covariance_type
        self._target = None if best.target is None else rescale(best.target[None], units.scale)[0]
        self._center = None if best.center is None else scaling.to_user(best.center, units)

    # ---------------------------------------------------------------- using

    def _user_parameters(self) -> Parameters:
        return Parameters(
            self.weights_,
            self.means_,
            options.from_public(self.covariances_, self._covariance_type, self.means_.shape),
        )

    def _density(self) -> Density:
        # A tree pays over many iterations; new rows are solved once, each pattern afresh.
        solver = "dual" if self.plan_.forest else self.plan_.solver
        return Density(self._user_parameters(), self._scaling, solver, self.n_jobs)

    def _read(self, X: Any) -> np.ndarray:
        """Return new rows as a matrix, after checking that densities of them can be given."""
        check_is_fitted(self)
        x = read_table(self, X, reset=False)
        options.check_reach(x, self._scaling, column_names(self))
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
        deviation of every filled cell (0 where observed).
        """
        x = self._read(X)
        if not return_std:
            return density.fill_means(self._density(), x)
        filled = density.fill(self._density(), x)
        return filled.mean, filled.std

    def sample_missing(self, X: Any, n_draws: int = 1, random_state: Any = None) -> np.ndarray:
        """Return draws of the gaps given the rest of each row, (n_draws, n, n_features).

        A component is drawn first, then its Gaussian; observed values come back as they were.
        """
        options.check_positive_int("n_draws", n_draws)
        x = self._read(X)
        random = check_random_state(self.random_state if random_state is None else random_state)
        rng = np.random.default_rng(random.randint(0, 2**31, size=4))
        return density.draw(self._density(), x, n_draws, rng)

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Return random rows (n_samples, n_features) and the component each came from."""
        check_is_fitted(self)
        options.check_positive_int("n_samples", n_samples)
        random = check_random_state(self.random_state)
        rng = np.random.default_rng(random.randint(0, 2**31, size=4))
        n_components = len(self.weights_)
        labels = np.repeat(np.arange(n_components), rng.multinomial(n_samples, self.weights_))
        sigma = dense_covariances(parameters_to_internal(self._user_parameters(), self._scaling))
        noise = rng.standard_normal((n_samples, self.n_features_in_))
        chol = np.linalg.cholesky(sigma)
        for k in range(n_components):
            noise[labels == k] = noise[labels == k] @ chol[k].T
        return self.means_[labels] + noise * self._scaling.scale, labels

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of the rows; lower is better."""
        log_prob = self.score_samples(X)
        return float(-2.0 * log_prob.sum() + self._n_parameters() * np.log(len(log_prob)))

    def aic(self, X: Any) -> float:
        """Return the Akaike information criterion of the rows; lower is better."""
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self._n_parameters())

    def _n_parameters(self) -> int:
        """Return the number of free parameters."""
        return options.count_parameters(
            self.means_.shape,
            self._covariance_type,
            equal_weights=self.weights == "equal",
            keep_components=self.keep_components,
        )
