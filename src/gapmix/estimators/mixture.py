"""GaussianMixture: scikit-learn's estimator, on tables with gaps."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gapmix.engines.choose import is_remote
from gapmix.engines.pieces import fit_pieces
from gapmix.engines.sources import Source, is_source, open_source
from gapmix.estimators import checks
from gapmix.estimators.answers import FittedMixture
from gapmix.estimators.levels import count_levels, only_numbers, warn_of_rare
from gapmix.estimators.random import draw_entropy
from gapmix.estimators.sourced import code_source, find_source_categories
from gapmix.estimators.validation import (
    column_names,
    keeping_last_fit,
    read_table,
    read_weights,
    record_columns,
)
from gapmix.estimators.warning import warn_codes, warn_of_unknown, warn_user
from gapmix.fitting.batches import fit_batch, refuse_options
from gapmix.fitting.fitted import Fitted
from gapmix.fitting.matrix import are_useful, check_reach, make_matrix
from gapmix.fitting.spec import Running, Spec, count_factors
from gapmix.fitting.whole import fit
from gapmix.plan import TreeOptions
from gapmix.selection.choose import Wanted, find_factors
from gapmix.selection.task import Task
from gapmix.structures import name_structure
from gapmix.units import Scaling


@dataclass(eq=False, repr=False)
class GaussianMixture(FittedMixture):
    """Gaussian mixture fitted by exact EM to rows with gaps.

    A drop-in replacement for :class:`sklearn.mixture.GaussianMixture` that accepts NaN everywhere,
    with the same parameters, attributes and methods, and more. Values are assumed to be missing at
    random: whether a value is missing may depend on what is observed, but not on the value itself.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    covariance_type : {'full', 'tied', 'diag', 'spherical', 'factor', 'ppca'}
        Shape of the covariances; all are exact with gaps. 'factor' is L L' + diag(psi) with a few
        columns in L, for tables with very many columns: time and memory are proportional to the
        number of columns, not to its square. 'ppca' has one psi for all columns, which must then
        have the same unit.
    n_factors : int or 'auto', default=10
        Number of factors, for 'factor' and 'ppca'. 'auto' compares some on hidden cells; the table
        must be in memory.
    tol : float, default=1e-3
        Stop when the gain still possible per row seems smaller than this. The estimate uses how
        gains shrink and the curvature that `accelerate` has seen, so that slow progress does not
        count as convergence. It cannot foresee new gains after a plateau. With `accelerate=None`,
        or with `diagonal_loading` or a `fill` under which the objective may fall, scikit-learn's
        rule is used: stop when an iteration gains less than this per row.
    reg_covar : float, default=1e-6
        Ridge, relative to each column's observed variance. This is the one difference from
        scikit-learn, where it is absolute. Here it acts as a prior, so that the objective never
        falls and units do not matter. `reg_covar` times the column's variance is added to the
        variances of a component of average weight, and more for a smaller one.
    max_iter : int, default=100
        Largest number of iterations.
    n_init : int, default=1
        Number of starts; the best is kept.
    init_params : {'kmeans', 'k-means++', 'random', 'random_from_data', 'auto'}, default='kmeans'
        How means are started, over the observed values. 'auto' compares several k-means starts on
        a sample of the rows, improves the best a little, and merges and splits badly placed
        components, at the cost of a few iterations: see `history_[0].events`. With validation rows
        it is the same as 'kmeans'.
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
        How patterns are solved; all give the same numbers. `plan_.explain()` says what was chosen
        and why. A `gapmix.plan.TreeOptions` sets details of 'tree' and 'paper'.
    init_covariance : {'available', 'filled'}, default='available'
        Starting covariances of clusters, from the available pairs of values, or from rows filled
        with the cluster's mean.
    keep_components : float, int or None, default=None
        Keep only this fraction (float) or number (int) of the principal components of every
        component. For 'full' and 'tied'.
    keep_components_of : {'correlation', 'covariance'}, default='correlation'
        Which principal components: of columns scaled to variance 1, so that units do not matter,
        or, as in the paper, of the covariance itself, where columns with large units dominate.
    fill : {'mean', 'next'} or float, default='mean'
        Variance of the directions not kept: the mean of theirs (then the objective never falls),
        the largest of theirs, or a number, relative to the columns' variances or, for
        'covariance', in squared units of the data.
    diagonal_loading : float, default=0.0
        Added to the diagonal of every covariance, in squared units of the data: the paper's first
        regulariser. The objective may fall with it.
    shrinkage : float or 'auto', default=0.0
        Prior weight, in rows, of the pooled within-component covariance for every component;
        'auto' is 2 (d + 1).
    mean_shrinkage : float or 'auto', default=0.0
        Prior weight, in rows, of the overall mean for the mean of every component; 'auto' is 10.
        It keeps a component of a few odd rows in place in columns where it has no values.
    validation_fraction : float or None, default=None
        Fraction of the rows set aside for validation; see `patience`.
    patience : int, default=3
        Stop when the likelihood of the validation rows has not risen for this many iterations, and
        keep the best parameters. Iterations spent on rejected proposals do not count.
    accelerate : {'auto', 'squarem', 'anderson', None}, default='auto'
        How to need fewer iterations. 'auto' uses quasi-Newton steps based on EM, which needed the
        fewest in benchmarks; 'squarem' and 'anderson' are extrapolations from the literature.
        None uses plain EM steps and scikit-learn's stop rule: on complete rows, the same
        iterations as there. A step that would lower the objective is never taken.
        With `diagonal_loading` or `keep_components`, steps are always plain.
    categorical_features : 'from_dtype', names, numbers or mask of columns, or None
        Which columns are categories; default='from_dtype', which takes text, Boolean and
        categorical columns of a data frame, and no column of an array. Each component has a table
        of probabilities for each category. A column of text with more than 50 distinct values, or
        with more than 10 that make up more than half of its values, is an error unless it is named
        here. In new rows, unknown levels are kept and treated as missing, with a warning.
    engine : {'threads', 'dask'}, address or Dask client, default='threads'
        Where rows are processed: threads of this process; a Dask cluster of worker processes on
        this machine ('dask'); the cluster whose scheduler has an address such as
        'tcp://host:8786'; or that of a `distributed.Client`.
    n_jobs : int or None, default=None
        Number of threads, or of workers with 'dask'; None uses all cores. The result does not
        depend on it.
    checkpoint : str or path, default=None
        A file for the state of the fit, written every 5 iterations or 60 s. If it exists when `fit`
        is called with the same data and parameters, the fit continues from it, to the same bits as
        if it had never stopped. The file of another fit is an error. `tol` and `max_iter` may
        change, and `random_state=None` takes the seed of the file. Delete it to begin afresh.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Component weights.
    means_ : ndarray of shape (n_components, n_features)
        Component means; with categories, of the columns of numbers.
    categories_ : list of ndarray
        The levels of each category, in the order of the columns.
    category_probabilities_ : list of ndarray of shape (n_components, n_levels)
        The probabilities of these levels in each component.
    is_categorical_ : ndarray of shape (n_features,)
        True for the columns that are categories.
    rare_levels_ : list of ndarray
        In each category with more than 20 levels, those in fewer than 5 rows. Every component gives
        them one joint probability, split as in all rows.
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Covariances, their inverses, and the Cholesky factors of these, in scikit-learn's shapes.
        With 'factor' and 'ppca' arrays (n_components, n_features, n_factors + 1): L, then psi;
        W, then w of the inverse diag(w) - W W'. This has no small Cholesky factor, so
        `precisions_cholesky_` is the same as `precisions_`.
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
        One record per iteration: log_likelihood, objective, validation, seconds, events. The record
        of a rejected proposal repeats the values before it and has an event that begins with
        'rejected'.
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

    n_components: int = 1
    _: KW_ONLY
    covariance_type: str = "full"
    tol: float = 1e-3
    reg_covar: float = 1e-6
    max_iter: int = 100
    n_init: int = 1
    init_params: str = "kmeans"
    weights_init: Any = None
    means_init: Any = None
    precisions_init: Any = None
    random_state: Any = None
    warm_start: bool = False
    verbose: int = 0
    verbose_interval: int = 10
    weights: str = "learned"
    n_factors: int | str = 10
    solver: str | TreeOptions = "auto"
    init_covariance: str = "available"
    keep_components: float | int | None = None
    keep_components_of: str = "correlation"
    fill: str | float = "mean"
    diagonal_loading: float = 0.0
    shrinkage: float | str = 0.0
    mean_shrinkage: float | str = 0.0
    validation_fraction: float | None = None
    patience: int = 3
    accelerate: str | None = "auto"
    categorical_features: Any = "from_dtype"
    engine: Any = "threads"
    n_jobs: int | None = None
    checkpoint: Any = None

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
        self._check()
        if is_source(X) or is_remote(self.engine):
            return self._fit_source(X, sample_weight, X_val)
        x = read_table(self, X, reset=True, min_rows=2)
        weight = read_weights(sample_weight, len(x))
        x_val = None if X_val is None else read_table(self, X_val, reset=False)
        names = column_names(self)
        numbers, number_names = only_numbers(self, x, names)
        warn_codes(numbers, weight, number_names)
        return self._fit_matrix(x, weight, self._before(), x_val)

    def _fit_matrix(
        self,
        x: np.ndarray,
        weight: np.ndarray,
        before: Fitted | None,
        x_val: np.ndarray | None = None,
    ) -> Any:
        """Fit to a matrix whose columns, and the levels of categories, are on record."""
        spec, running = self._check()
        names = column_names(self)
        n_levels = count_levels(self)
        if self._seeks_factors(spec):
            wanted = Wanted(spec, self.n_components, False, None, self._entropy()[0], running)
            number = find_factors(wanted, Task(x, weight, names, n_levels=n_levels))
            kind = name_structure(self.covariance_type, number)
            spec = spec._replace(covariance_type=kind)
        matrix = make_matrix(x, weight, names, spec.covariance_type, n_levels=n_levels)
        warn_of_unknown(weight @ ~np.isnan(x) > 0, names)
        return self._finish(fit(spec, matrix, self._entropy(), running, x_val=x_val, before=before))

    def _fit_source(self, X: Any, sample_weight: Any, X_val: Any) -> Any:
        """Fit to a table in pieces, or on other machines."""
        spec, running = self._check(at_once=False)
        source = self._open_source(X)
        if self.validation_fraction is not None:
            raise ValueError(
                "validation_fraction cannot be used with a table in pieces: give rows of your own "
                "to stop on, fit(X, X_val=...)."
            )
        if source.n_rows < 2:
            raise ValueError(f"The table has {source.n_rows} rows; at least 2 are needed.")
        weight = None if sample_weight is None else read_weights(sample_weight, source.n_rows)
        record_columns(self, source.d, source.names)
        names = column_names(self)
        if is_source(X):  # a table in memory has been read, and has codes already
            self.is_categorical_, self.categories_ = find_source_categories(
                source, self.categorical_features, names, running
            )
            source = code_source(source, self.is_categorical_, self.categories_, names)
        x_val = None if X_val is None else read_table(self, X_val, reset=False)

        def tell(sample: np.ndarray, units: Scaling) -> None:
            numbers, number_names = only_numbers(self, sample, names)
            warn_codes(numbers, np.ones(len(sample)), number_names)
            warn_of_unknown(units.known[: len(number_names)], number_names)

        fitted = fit_pieces(
            spec,
            source,
            weight,
            names,
            self._entropy(),
            running,
            x_val=x_val,
            before=self._before(),
            n_levels=count_levels(self),
            tell=tell,
        )
        return self._finish(fitted)

    def _open_source(self, X: Any) -> Source:
        """Return a table in pieces; one that is in memory goes to other machines as it is."""
        if is_source(X):
            return open_source(X)
        x = read_table(self, X, reset=True, min_rows=2)
        names = getattr(self, "feature_names_in_", None)
        return open_source(x)._replace(names=None if names is None else tuple(names))

    def _spec(self) -> Spec:
        spec = Spec(**{name: getattr(self, name) for name in Spec._fields})
        number = 1 if checks.is_auto(self.n_factors) else int(self.n_factors)
        return spec._replace(covariance_type=name_structure(spec.covariance_type, number))

    def _seeks_factors(self, spec: Spec) -> bool:
        return checks.is_auto(self.n_factors) and count_factors(spec) > 0

    def _check(self, *, at_once: bool = True) -> tuple[Spec, Running]:
        """Return what is asked for, after checking it."""
        if not checks.is_auto(self.n_factors):
            checks.check_positive_int("n_factors", self.n_factors)
        spec = self._spec()
        if not at_once and self._seeks_factors(spec):
            raise ValueError("n_factors='auto' needs the table in memory. Give a number here.")
        running = Running(
            self.n_jobs,
            self.engine,
            self.checkpoint,
            self.verbose,
            self.verbose_interval,
            is_seeded=self.random_state is not None,
        )
        checks.check(spec, running)
        checks.check_switch("warm_start", self.warm_start)
        return spec, running

    def _entropy(self) -> list[int]:
        """Return what seeds a fit."""
        entropy: list[int] = draw_entropy(self.random_state).tolist()
        return entropy

    def _before(self) -> Fitted | None:
        """Return the last solution if this fit is to continue from it."""
        return self._fitted() if self.warm_start and hasattr(self, "means_") else None

    def _finish(self, fitted: Fitted) -> Any:
        self._store(fitted)
        warn_of_rare([self], column_names(self))
        if fitted.advice:
            warn_user(fitted.advice, ConvergenceWarning)
        return self

    @keeping_last_fit
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Take one more batch of an endless stream: online EM, which is not exact.

        Every batch is looked at once: running statistics move towards its own by a step that
        decays with the number of batches, then parameters follow (Cappe and Moulines, 2009). The
        first batch sets the units and the start, so it should be a fair sample of some hundred
        rows or more; the likelihood may fall from batch to batch. `history_` has the mean
        log-likelihood of each batch before it was learned from. A batch that is refused changes
        nothing, and a saved and loaded stream goes on where it was. `fit` begins afresh.

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
        spec, running = self._check(at_once=False)
        refuse_options(spec)
        stream = getattr(self, "_stream", None)
        x = read_table(self, X, reset=stream is None)
        weight, names = read_weights(sample_weight, len(x)), column_names(self)
        n_levels = count_levels(self)
        n_numbers = only_numbers(self, x, names)[0].shape[1]
        as_given = np.arange(max(1, n_numbers))  # an order of their own would differ by batch
        if stream is None:
            matrix = make_matrix(x, weight, names, spec.covariance_type, None, as_given, n_levels)
            warn_of_unknown(weight @ ~np.isnan(x) > 0, names)
            before = self._before()
        elif are_useful(x, weight).any():
            before = self._fitted()
            check_reach(x, before.units, names, n_levels)
            units = before.units
            matrix = make_matrix(x, weight, names, spec.covariance_type, units, as_given, n_levels)
        else:
            return self
        entropy = self._entropy() if stream is None else []
        stream, fitted = fit_batch(spec, matrix, running, stream, before, entropy)
        self._store(fitted)
        self._stream = stream
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit, then return the most probable component of each row."""
        return self.fit(X, y, sample_weight).predict(X)
