"""GaussianMixtureImputer: fill the gaps of a table, and say how sure the filling is."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gapmix import density
from gapmix.density import Density
from gapmix.density.conditional import Filled
from gapmix.estimators import checks, refined
from gapmix.estimators.base import warn_of_stops
from gapmix.estimators.bounds import find_limits, read_limits, store_columns
from gapmix.estimators.cells import CellsMixin
from gapmix.estimators.levels import count_levels, only_numbers, warn_of_rare
from gapmix.estimators.passing import find_passed, model_kinds, model_marks, only_used, put_back
from gapmix.estimators.random import make_rng
from gapmix.estimators.refined import learn_heads
from gapmix.estimators.returned import as_frame_like, finish, restore_frame, restore_levels
from gapmix.estimators.shaped import find_shapes, list_shapes, store_shapes
from gapmix.estimators.validation import (
    column_names,
    keeping_last_fit,
    read_table,
    read_targets,
    read_weights,
)
from gapmix.estimators.warning import warn_codes, warn_of_unknown
from gapmix.fitting.matrix import check_reach
from gapmix.kinds import (
    EMPTY,
    ColumnValues,
    Possible,
    any_fraction,
    find_possible,
    look,
    to_possible,
)
from gapmix.selection.calibration import nominal_coverage
from gapmix.selection.choose import as_chosen, choose
from gapmix.selection.task import Task
from gapmix.shapes import forward_table


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianMixtureImputer(OneToOneFeatureMixin, TransformerMixin, CellsMixin):
    """Fill gaps by their conditional mean under a Gaussian mixture fitted by exact EM.

    A transformer in the family of :class:`sklearn.impute.SimpleImputer` and
    :class:`sklearn.impute.IterativeImputer`. The joint density of all columns is fitted once. Then
    each row is filled from what it shows, independently of other rows. New rows may have gaps in
    columns that had none in training. Values are assumed to be missing at random.

    Parameters
    ----------
    n_components : int or 'auto', default='auto'
        Number of components. 'auto' tries 1, 2, 3, 5, 8, ... on hidden cells.
    average : bool, default=True
        With 'auto', average up to three of the best mixtures; False keeps only the best.
    max_components : int or None, default=None
        With 'auto', the largest number to try. None leaves it to `effort`: up to 55, or 89 with
        'best', as long as results improve.
    effort : {'quick', 'default', 'best'}, default='default'
        How much work to spend with 'auto'. 'quick' fits one component, and lines between
        columns if some are categories. 'best' tries more components on more rows, for more
        iterations and with three starts, and refines.
    refine : None, 'auto', False or estimator, default=None
        Learn the errors of the mixture, column by column, and correct them where that helps on
        cells the learners have not seen. None leaves it to `effort`, which with 'auto' uses small
        trees and forests. 'auto' uses larger ones, without a limit on time. A regressor given here
        is used for numbers, a classifier with `predict_proba` for categories. False turns it off.
    missing_values : number, text, None, list of these, or dict, default=np.nan
        What marks a gap, in addition to NaN and None. `{column: mark or list}`, by name or number,
        for marks in some columns only.
    categorical_features : 'from_dtype', names, numbers or mask of columns, or None
        Which columns are categories; default='from_dtype', as in :class:`gapmix.GaussianMixture`.
        With categories, 'auto' compares by half the squared error of hidden numbers and the log
        probability of hidden levels together.
    add_indicator : bool, default=False
        Append a column of 0 and 1 for every column that had gaps in training.
    bounds : dict or None, default=None
        `{column: (low, high)}`, by name or number, None for no limit. Filled values, draws and
        intervals beyond are set to the nearest value allowed.
    limits : {'seen', None}, default='seen'
        Keep filled values within the range that each column had in training, unless `bounds` say
        otherwise. Draws and intervals may go beyond it, within what the kind of the column allows.
        None sets no limits.
    column_kinds : 'auto' or dict, default='auto'
        Kinds of columns of numbers, `{column: kind}` for those that should not be detected:
        'number', 'whole', 'two-valued', 'share' (from 0 to 1) or 'positive' (not below 0).
    shapes : 'auto', dict or None, default='auto'
        Which columns of numbers are transformed before the fit, `{column: name}` with 'log' (above
        0 or the lower bound), 'logit' (between the bounds, or 0 and 1) or 'yeo-johnson'. 'auto'
        does so if hidden cells become more probable and are filled no worse; it tries 'logit' if
        bounds or `column_kinds` give both ends. Results are in the units of X.
    use_target : bool, default=False
        Model the target y together with the columns. `fit_transform` then uses the target of each
        row; `transform` does not need it.
    covariance_type : 'auto' or as in :class:`gapmix.GaussianMixture`, default='auto'
        'auto' is 'full', or 'factor' with more than 500 columns, or with more than 100 and fewer
        than five rows for each.
    n_factors : int or 'auto', default='auto'
        Number of factors, for 'factor' and 'ppca'. 'auto' chooses it like `n_components`.
    reg_covar : float or 'auto', default='auto'
        Ridge, as in :class:`gapmix.GaussianMixture`. 'auto' is 1e-6. If `n_components` is 'auto'
        too and there are fewer than 30 rows for each column, it takes the best of 1e-6, 1e-3, 0.01,
        0.03, 0.1 and 0.3 on hidden cells.
    tol, max_iter, n_init, solver, accelerate, n_jobs
        As in :class:`gapmix.GaussianMixture`.
    shrinkage, mean_shrinkage : float or 'auto', default='auto'
        Prior weights, in rows, of the pooled covariance and of the overall mean, as in
        :class:`gapmix.GaussianMixture`.
    random_state : int, RandomState instance or None, default=None
        Seed of hidden cells, starts and draws.
    verbose : int, default=0
        1 logs each number of components tried, 2 also each start.

    Attributes
    ----------
    mixture_ : GaussianMixture
        The fitted mixture of the columns and, with `use_target`, the targets after them. Columns
        are transformed as in `column_shapes_`.
    selection_ : tuple of Candidate
        What 'auto' tried: n_components, error, log_score, n_iter, seconds, share, loss, n_factors,
        reg_covar. Empty if the number of components was given.
        `pandas.DataFrame(imputer.selection_)` shows it as a table.
    calibration_ : ndarray of shape (n_features, n_coverages), or None
        Coverage to ask of the model for coverages from 0 to 1, found on hidden cells of each
        column; None if `selection_` is empty.
    trust_ : ndarray of shape (n_features,)
        Weight, from 0 to 1, of the distribution of a gap given its row; the rest is the
        distribution of the column. It is below 1 if hidden cells were filled worse than by the
        column's mean, or by the frequencies of its levels.
    hidden_error_ : float or None
        Root mean square error of hidden numbers, as the mixture fills them before it is refined,
        in standard deviations.
    heads_ : Heads or None
        What refines the mixture: `heads_.heads` has a record for each column with gaps, with its
        weight, from 0 to 1, and the error of known cells before and after.
    n_components_ : int
        Number of components of the mixture.
    n_iter_ : int
        Iterations of the fit, of the slowest one if several were averaged.
    indicated_ : ndarray of int
        Numbers of the columns that `add_indicator` appends an indicator of.
    categories_ : list of ndarray
        The levels of each category, in the order of the columns.
    is_categorical_ : ndarray of shape (n_features,)
        True for the columns that are categories.
    rare_levels_ : list of ndarray
        As in :class:`gapmix.GaussianMixture`.
    constant_ : ndarray of shape (n_features,)
        The value of columns of numbers with only one value, NaN for the others. Their gaps are
        filled with it, with a standard deviation of 0.
    column_kinds_ : dict
        The kind of each column, by name or number: one of `column_kinds`, or 'category',
        'constant', 'empty'; then those of `passed_`.
    passed_ : dict
        Columns of a data frame that are not part of the model, {name: 'id', 'date' or 'text'}.
        `impute_frame` leaves them as they are, the other methods leave them out. Dates are filled
        with `column_kinds={column: 'number'}`, texts if `categorical_features` names them.
    column_values_ : tuple of ColumnValues
        For each column the number of values, the lowest, the highest, the decimals, and the values
        themselves if they are few. Empty for categories.
    column_shapes_ : dict
        How each column is transformed, by name or number: a `gapmix.shapes.Shape`, named
        'identity' if it is not.
    columns_ : list of dict
        Only of a model written by `gapmix fit`: name, kind, whole and levels of each column of its
        table, used or not, and any marks of gaps and spelling of dates.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if the table had them.

    Notes
    -----
    A column without any value in training is kept and filled with 0, with a warning that names it;
    `impute_frame` leaves it empty.
    Averaged mixtures have the shares that fill hidden cells best. In each row, those that explain
    the row better count more, so filled values, intervals, draws and densities all come from one
    model.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixtureImputer
    >>> X = np.array([[1.0, 2.0], [2.0, 4.1], [3.0, np.nan], [5.0, 9.9], [np.nan, 8.1]])
    >>> imputer = GaussianMixtureImputer(n_components=1, tol=1e-6)
    >>> imputer.fit_transform(X).round(2)
    array([[1.  , 2.  ],
           [2.  , 4.1 ],
           [3.  , 5.99],
           [5.  , 9.9 ],
           [4.07, 8.1 ]])

    New rows are filled by the same fit, with intervals and standard deviations:

    >>> low, high = imputer.intervals([[2.5, np.nan]], coverage=0.9)
    >>> bool(low[0, 1] < 5.0 < high[0, 1]), bool(low[0, 0] == high[0, 0] == 2.5)
    (True, True)
    >>> filled, std = imputer.impute_with_std([[2.5, np.nan]])
    >>> bool(std[0, 0] == 0), bool(std[0, 1] > 0)
    (True, True)
    >>> imputer.sample(X, n_draws=3, random_state=0).shape
    (3, 5, 2)
    """

    missing_values: Any = np.nan
    add_indicator: bool = False
    bounds: dict[Any, tuple[float | None, float | None]] | None = None
    limits: str | None = "seen"
    column_kinds: Any = "auto"
    shapes: Any = "auto"
    use_target: bool = False
    heads_ = None  # of models that have none, those of earlier files too

    # ---------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the mixture to the rows of X.

        Parameters
        ----------
        X : array-like, data frame or sparse table of shape (n_samples, n_features)
            The table, with gaps. What a sparse one does not store is a gap: see `fit_cells`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Ignored unless `use_target`; may have gaps.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.

        Returns
        -------
        self
        """
        if sparse.issparse(X):
            return self.fit_cells(X, sample_weight)
        self._fit(X, y, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to X and return it filled; with `use_target`, the target of each row is used."""
        x, targets = self._fit(X, y, sample_weight)
        if targets is None:
            return finish(self, only_used(X, self.passed_), x, self._fill(x))
        joint = np.column_stack([x, targets])
        filled = density.fill(self._joint_density(), joint).mean[:, : x.shape[1]]
        return finish(self, only_used(X, self.passed_), x, self._within(x, filled))

    @keeping_last_fit
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Fit; return the table as a matrix, and the targets if they are modelled."""
        self._check_parameters("add_indicator", "use_target")
        read_limits(self.limits)
        self.passed_ = find_passed(self, X)
        X = only_used(X, self.passed_)
        x = read_table(self, X, reset=True, min_rows=2, missing_values=model_marks(self))
        names = column_names(self)
        find_limits(self, names)
        weight = read_weights(sample_weight, len(x))
        known = x if (weight > 0).all() else x[weight > 0]
        columns = enumerate(self.is_categorical_.tolist())
        store_columns(
            self, tuple(ColumnValues() if named else look(known[:, j]) for j, named in columns)
        )
        self.column_kinds_ |= self.passed_
        numbers, number_names = only_numbers(self, x, names)
        warn_codes(numbers, weight, number_names)
        targets = read_targets(self, y, len(x)) if self.use_target else None
        joint, all_names = x, names
        if targets is not None:
            joint = np.column_stack([x, targets])
            all_names = names + [f"target {j}" for j in range(targets.shape[1])]
        n_levels = count_levels(self)
        if n_levels is not None and targets is not None:
            n_levels = np.append(n_levels, np.zeros(targets.shape[1], dtype=int))
        wanted, task = self._wanted(joint.shape), Task(joint, weight, all_names, n_levels=n_levels)
        warn_of_unknown(weight @ ~np.isnan(joint) > 0, all_names)
        shapes = find_shapes(self, wanted, task)
        task = task._replace(shapes=shapes, possible=any_fraction(self.possible(drawn=True)))
        chosen = choose(wanted, task)
        warn_of_stops(chosen.advice)
        self.indicated_ = np.flatnonzero(self.add_indicator & np.isnan(known).any(axis=0))
        for name in ("columns_", "_cells"):  # of another table
            self.__dict__.pop(name, None)
        self.mixture_ = self._to_mixture(chosen.fitted, wanted.seed, chosen.reg_covar)
        warn_of_rare([self.mixture_], all_names)
        store_shapes(self, shapes)
        self.selection_ = chosen.candidates
        self.heads_, told = learn_heads(self, as_chosen(wanted, chosen), task, chosen)
        self.calibration_ = None if told is None else told[: x.shape[1]]
        self.trust_ = np.ones(x.shape[1]) if chosen.trust is None else chosen.trust[: x.shape[1]]
        self.hidden_error_ = chosen.error
        self.n_components_, self.n_iter_ = len(self.mixture_.weights_), chosen.fitted.n_iter
        return x, targets

    # ---------------------------------------------------------------- filling

    def transform(self, X: Any) -> Any:
        """Return X with every gap filled by its conditional mean given the rest of its row.

        A category gets its most probable level; with categories the result is an array of objects,
        or a data frame with the types of X where `set_output` asks for one.
        """
        x = self._read(X)
        return finish(self, only_used(X, self.passed_), x, self._fill(x))

    def impute_with_std(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return X filled, and the standard deviation of each filled cell (0 where observed).

        For a category, the second is the probability that another level is true.
        """
        x = self._read(X)
        filled = self._tell(x, spread=True)
        filled.std[:, ~np.isnan(self.constant_)] = 0.0
        return self._restore(X, self._within(x, filled.mean)), filled.std

    def probabilities(self, X: Any) -> dict[Any, Any]:
        """Return the probabilities of the levels of each category given the rest of each row.

        Returns
        -------
        dict
            For each category, by name or number of the column: a data frame of the kind of X with
            one column for each level, or an array (n, n_levels) in the order of `categories_`.
            A level that a row shows has probability 1.
        """
        x = self._read(X)
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        found = self._tell(x).levels if self.categories_ else ()
        return {
            name: as_frame_like(X, values, levels)
            for name, values, levels in zip(
                names[self.is_categorical_].tolist(), found, self.categories_, strict=True
            )
        }

    def intervals(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals that contain each missing value with this probability.

        They are quantiles of the gap's conditional distribution, calibrated on hidden cells if the
        number of components was chosen ('auto'). Both ends of an observed cell are its value.
        Categories have no order, so the ends for their gaps are NaN; see `probabilities`.
        """
        if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
            raise ValueError(f"coverage={coverage!r} must lie strictly between 0 and 1.")
        x = self._read(X)
        half = 0.5 * nominal_coverage(float(coverage), self.calibration_)
        levels = np.array([0.5 - half, 0.5 + half])
        ends = refined.quantiles(self._density(), self.heads_, x, levels)
        low, high = (self._possible(x, each) for each in ends)
        return self._restore(X, low), self._restore(X, high)

    def sample(self, X: Any, n_draws: int = 1, random_state: Any = None) -> np.ndarray:
        """Return draws of the gaps given the rest of each row, (n_draws, n, n_features).

        A component is drawn first, then its Gaussian and its categories; observed values come back
        as they were. With categories, an array of objects.
        """
        checks.check_positive_int("n_draws", n_draws)
        x = self._read(X)
        seed = self.random_state if random_state is None else random_state
        return self._restore(X, self._draw(x, n_draws, seed))

    def impute_frame(self, X: Any) -> Any:
        """Return a data frame filled: the same kind, columns, rows, index and types.

        Cells get values that their column can have (`column_kinds_`): whole numbers where it has
        whole numbers, one of its values where it has few, and no more digits than it shows.
        Observed values are never changed. Ids, dates and texts that are not part of the model, and
        columns without any value, stay as they are, gaps included, with a warning from `fit`.
        """
        x, used = self._read(X), only_used(X, self.passed_)
        filled = to_possible(self.possible(), x, self._tell(x).mean)
        empty = [kind == EMPTY for kind in model_kinds(self).values()]
        shown = np.where(empty, 0.0, x) if any(empty) else x  # as if these had no gaps
        done = restore_frame(self, used, shown, filled, model_marks(self))
        return done if used is X else put_back(X, done)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log density of the observed cells of each row, log p(x_o)."""
        x = self._read(X)
        return density.score(self._density(), x).log_prob

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of what `transform` returns."""
        check_is_fitted(self)
        names: np.ndarray = super().get_feature_names_out(input_features)
        added = [f"missingindicator_{names[j]}" for j in self.indicated_]
        return np.concatenate([names, np.array(added, dtype=object)])

    # ---------------------------------------------------------------- inside

    def _density(self) -> Density:
        """Return the density of the columns, the target integrated out."""
        whole = self._joint_density()
        if self.mixture_.n_features_in_ == self.n_features_in_:
            return whole
        return density.marginal(whole, np.arange(self.n_features_in_))

    def _joint_density(self) -> Density:
        """Return the density of the columns and of the targets, if these are modelled."""
        whole = self.mixture_._density()._replace(n_jobs=self.n_jobs)
        trust = np.ones(self.mixture_.n_features_in_)
        trust[: self.n_features_in_] = self.trust_
        return whole._replace(shapes=list_shapes(self, len(trust)), trust=trust)

    def _read(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = only_used(X, self.passed_)
        x = read_table(self, X, reset=False, missing_values=model_marks(self))
        model = self._density()
        y, names = forward_table(model.shapes, x), column_names(self)
        check_reach(y, model.units, names, model.n_levels)
        return x

    def possible(self, *, drawn: bool = False) -> Possible:
        """Return which values are filled into each column, as means or as what is `drawn`."""
        reach = "kind" if drawn and read_limits(self.limits) else self.limits
        kinds = list(model_kinds(self).values())
        return find_possible(
            kinds, self.column_values_, find_limits(self, column_names(self)), reach
        )

    def _fill(self, x: np.ndarray) -> np.ndarray:
        return self._within(x, self._tell(x).mean)

    def _tell(self, x: np.ndarray, *, spread: bool = False) -> Filled:
        """Return what the mixture and its heads say of the gaps of a matrix."""
        return refined.tell(self._density(), self.heads_, x, spread=spread)

    def _within(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Bring filled values within the limits of their column, in place."""
        possible = self.possible()
        np.clip(values, possible.low, possible.high, out=values, where=np.isnan(x))
        return values

    def _possible(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Bring what is drawn, or an end of an interval, to the nearest value of its column."""
        return to_possible(any_fraction(self.possible(drawn=True)), x, values)

    def _draw(self, x: np.ndarray, n_draws: int, seed: Any) -> np.ndarray:
        """Return draws of the gaps of a matrix, (n_draws, n, n_features)."""
        draws = refined.draw(self._density(), self.heads_, x, n_draws, make_rng(seed))
        return self._possible(x, draws)

    def _restore(self, X: Any, values: np.ndarray) -> np.ndarray:
        return restore_levels(self, only_used(X, self.passed_), values, model_marks(self))
