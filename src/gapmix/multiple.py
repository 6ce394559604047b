"""Multiple imputation: several completions of a table, and one answer from all of them.

A filled table looks as if everything in it had been observed, so what is computed from it looks
surer than it is. `impute_many` fills the gaps several times, differently each time, by as much as
they are unknown; the analysis is done on every completion, and `pool` puts the answers together.
"""

import copy
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from gapmix.estimators import checks
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.passing import model_marks, only_used, put_back
from gapmix.estimators.returned import restore_frame, restore_levels
from gapmix.estimators.validation import column_names, read_weights
from gapmix.shapes import forward_table
from gapmix.wording import align, list_names

BOOTSTRAPS = ("rows", "bayesian", None)
# A bootstrap fit must leave the fit it starts from: it goes on until an iteration gains less than
# this in the log-likelihood of all rows, in which a parameter is one standard error off at 1/2.
LAST_GAIN = 1e-3
MAX_REDRAWS = 100


# -------------------------------------------------------------------- completions


def impute_many(
    X: Any,
    n_imputations: int = 20,
    *,
    imputer: GaussianMixtureImputer | None = None,
    bootstrap: str | None = "rows",
    sample_weight: Any = None,
    random_state: Any = None,
) -> Any:
    """Return several completions of a table, whose differences show how uncertain its gaps are.

    A mixture is fitted to all rows. Then, for every completion, it is fitted again to a bootstrap
    sample of the rows, and the gaps of the original rows are drawn once from that fit. So
    completions differ by the noise of the values and by the uncertainty of the parameters.
    Everything the analysis will use belongs in X, including its target: a column left out is
    treated as unrelated to the gaps.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)
        The table, with gaps.
    n_imputations : int, default=20
        Number of completions; about one for every percent of missing information is plenty.
    imputer : GaussianMixtureImputer or None, default=None
        Settings of the fits; it is not changed. None is `GaussianMixtureImputer()`. Where the
        number of components is chosen automatically, the best one is used alone.
    bootstrap : {'rows', 'bayesian'} or None, default='rows'
        'rows' draws as many rows as there are, with replacement; 'bayesian' gives all rows random
        weights instead, and so never loses the few values of a column. None draws all completions
        from the one fit, as if its parameters were known: intervals become too short.
    sample_weight : array-like of shape (n_samples,), default=None
        Row weights.
    random_state : int, RandomState instance or None, default=None
        Seed of starts, bootstrap samples and draws; None takes the imputer's.

    Returns
    -------
    ndarray of shape (n_imputations, n_samples, n_features), or list of data frames
        Data frames come back as frames of their kind, with names, index and untouched columns.

    Notes
    -----
    Bootstrap fits run longer than the imputer's `tol` asks, up to `max_iter`, because a fit that
    stays near its start would hide that parameters are uncertain. Priors are computed again for
    every bootstrap sample.

    References
    ----------
    Rubin (1987), Multiple Imputation for Nonresponse in Surveys. Honaker and King (2010), What to
    do about missing values in time-series cross-section data, for bootstrap and EM together.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix import GaussianMixtureImputer
    >>> from gapmix.multiple import impute_many, pool
    >>> rng = np.random.default_rng(0)
    >>> X = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=200)
    >>> X[:80, 1] = np.nan
    >>> tables = impute_many(X, 20, imputer=GaussianMixtureImputer(1), random_state=0)
    >>> tables.shape
    (20, 200, 2)
    >>> means = [table[:, 1].mean() for table in tables]
    >>> variances = [table[:, 1].var(ddof=1) / 200 for table in tables]
    >>> pooled = pool(means, variances, df_complete=199)
    >>> bool(pooled.low < 0 < pooled.high)
    True
    """
    checks.check_positive_int("n_imputations", n_imputations)
    _check_bootstrap(bootstrap)
    imputer = GaussianMixtureImputer() if imputer is None else imputer
    _check_imputer(imputer)
    random = check_random_state(imputer.random_state if random_state is None else random_state)
    seeds = np.random.SeedSequence(random.randint(0, 2**31, size=4).tolist()).spawn(n_imputations)
    base = clone(imputer).set_params(average=False, random_state=int(random.randint(2**31)))
    base.fit(X, sample_weight=sample_weight)
    x, used = base._read(X), only_used(X, base.passed_)
    weight = read_weights(sample_weight, len(x))
    inside = forward_table(base._density().shapes, x)
    values = np.empty((n_imputations, *x.shape))
    n_stopped = 0
    for number, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        one = copy.copy(base)
        if bootstrap is not None:
            counts = _draw_weights(~np.isnan(x), weight, bootstrap, rng, column_names(base))
            one.mixture_ = _refit(base.mixture_, inside, weight * counts)
            n_stopped += not one.mixture_.converged_
        values[number] = one._draw(x, 1, int(rng.integers(2**31)))[0]
    if n_stopped:
        warnings.warn(_advise(n_stopped, n_imputations, base), ConvergenceWarning, stacklevel=2)
    if nw.dependencies.is_into_dataframe(X):
        done = [restore_frame(base, used, x, each, model_marks(base)) for each in values]
        return done if used is X else [put_back(X, each) for each in done]
    return restore_levels(base, X, values, model_marks(base))


def _check_bootstrap(bootstrap: Any) -> None:
    if not any(
        bootstrap is choice or (isinstance(bootstrap, str) and bootstrap == choice)
        for choice in BOOTSTRAPS
    ):
        raise ValueError(f"bootstrap={bootstrap!r} is not known. Use 'rows', 'bayesian' or None.")


def _check_imputer(imputer: Any) -> None:
    if not isinstance(imputer, GaussianMixtureImputer):
        raise TypeError(
            f"imputer is a {type(imputer).__name__}; completions are drawn from the density that "
            "a GaussianMixtureImputer fits."
        )
    if imputer.use_target:
        raise ValueError(
            "imputer has use_target=True, but completions are drawn without y. Make the target a "
            "column of X instead: it is then used, and completed where it has gaps."
        )


def _draw_weights(
    observed: np.ndarray,
    weight: np.ndarray,
    bootstrap: str,
    rng: np.random.Generator,
    names: list[str],
) -> np.ndarray:
    """Return how often each row is drawn (n,); every column keeps two values, if it has them."""
    n = len(observed)
    if bootstrap == "bayesian":
        gaps = rng.standard_exponential(n)
        return gaps * (n / gaps.sum())
    known = observed & (weight > 0)[:, None]
    needed = np.minimum(2, known.sum(axis=0))
    for _ in range(MAX_REDRAWS):
        counts = rng.multinomial(n, np.full(n, 1.0 / n)).astype(float)
        if (known[counts > 0].sum(axis=0) >= needed).all():
            return counts
    few = [names[j] for j in np.argsort(known.sum(axis=0), kind="stable")]
    raise ValueError(
        f"Each of {MAX_REDRAWS} bootstrap samples of the {n} rows left some column with less than "
        f"two values; the emptiest columns are {list_names(few)}. Use bootstrap='bayesian', which "
        "keeps all rows, or leave these columns out."
    )


def _refit(mixture: GaussianMixture, x: np.ndarray, weight: np.ndarray) -> GaussianMixture:
    """Return the mixture fitted to reweighted rows, from where it stands."""
    again = clone(mixture).set_params(
        tol=min(mixture.tol, LAST_GAIN / weight.sum()),
        n_init=1,
    )
    if not mixture.categories_:
        again.set_params(
            weights_init=mixture.weights_,
            means_init=mixture.means_,
            precisions_init=mixture.precisions_,
        )
    with warnings.catch_warnings():  # said of the fit to all rows; convergence is counted
        warnings.simplefilter("ignore")
        if not mixture.categories_:
            fitted: GaussianMixture = again.fit(x, sample_weight=weight)
            return fitted
        again.is_categorical_, again.categories_ = mixture.is_categorical_, mixture.categories_
        again.n_features_in_ = mixture.n_features_in_
        before = mixture._fitted()._replace(target=None, center=None)
        refitted: GaussianMixture = again._fit_matrix(x, weight, before)
        return refitted


def _advise(n_stopped: int, n_imputations: int, base: GaussianMixtureImputer) -> str:
    return (
        f"{n_stopped} of {n_imputations} bootstrap fits used all {base.max_iter} iterations. They "
        "may still be near the fit they started from, which makes completions too much alike. "
        f"Raise max_iter of the imputer, or lower its n_components (now {base.n_components_})."
    )


# -------------------------------------------------------------------- one answer


class Pooled(NamedTuple):
    """Estimates pooled over completions: numbers, or arrays (q,) if each completion gave q.

    Examples
    --------
    >>> from gapmix.multiple import pool
    >>> pooled = pool([1.0, 1.2, 0.9], [0.04, 0.05, 0.04])
    >>> round(float(pooled.estimate), 2), round(float(pooled.std_error), 2)
    (1.03, 0.27)
    >>> round(float(pooled.missing_information), 2)
    0.5
    """

    estimate: Any
    std_error: Any
    low: Any  # ends of the confidence interval
    high: Any
    df: Any  # degrees of freedom of the t distribution behind it
    missing_information: Any  # fraction of the information about the estimate that the gaps took
    within: Any  # mean of the variances that the analyses report
    between: Any  # variance of the estimates between completions
    p_value: Any  # two-sided, of the hypothesis that the quantity is 0
    n_imputations: int
    level: float
    names: tuple[str, ...]

    def summary(self) -> str:
        """Return a table as text, a line for each quantity."""
        percent = f"{100 * self.level:g} %"
        head = ("", "estimate", "std error", f"{percent} from", "to", "df", "missing info", "p")
        columns = [
            np.atleast_1d(each)
            for each in (self.estimate, self.std_error, self.low, self.high, self.df)
        ]
        lines: list[tuple[str, ...]] = [head]
        for i, name in enumerate(self.names):
            numbers = [f"{column[i]:.4g}" for column in columns]
            share = 100 * np.atleast_1d(self.missing_information)[i]
            p = np.atleast_1d(self.p_value)[i]
            lines.append((name, *numbers, f"{share:.0f} %", f"{p:.3f}" if p >= 5e-4 else "<0.001"))
        return f"Pooled over {self.n_imputations} imputations\n{align(lines)}"


def pool(
    estimates: Any,
    variances: Any,
    *,
    df_complete: float | None = None,
    level: float = 0.95,
    names: Sequence[str] | None = None,
) -> Pooled:
    """Return one estimate, standard error and confidence interval from those of all completions.

    Parameters
    ----------
    estimates : array-like of shape (m,) or (m, q)
        What the analysis of each of m completions gave: one quantity, or q of them.
    variances : array-like of the same shape
        Squared standard errors of these estimates.
    df_complete : float or None, default=None
        Degrees of freedom the analysis would have without gaps, for a regression its rows less its
        coefficients. None takes them to be unlimited, which is fair with many rows.
    level : float, default=0.95
        Coverage of the confidence intervals.
    names : sequence of str or None, default=None
        What the quantities are called in `summary()`.

    Returns
    -------
    Pooled
        Its fields are numbers if the estimates were, and arrays (q,) otherwise.

    Notes
    -----
    Rubin's rules. With W the mean of the variances and B the variance of the estimates, the total
    is T = W + (1 + 1/m) B; lambda = (1 + 1/m) B / T of it is due to the gaps. The degrees of
    freedom are (m - 1) / lambda^2 or, when those of the complete data are given, Barnard and
    Rubin's, which never exceed them. The fraction of missing information is
    (r + 2 / (df + 3)) / (r + 1) with r = (1 + 1/m) B / W.

    References
    ----------
    Rubin (1987), Multiple Imputation for Nonresponse in Surveys, section 3.1. Barnard and Rubin
    (1999), Small-sample degrees of freedom with multiple imputation.

    Examples
    --------
    >>> from gapmix.multiple import pool
    >>> print(pool([1.0, 2.0, 3.0], [1.0, 1.0, 1.0], names=["slope"]).summary())
    Pooled over 3 imputations
           estimate  std error  95 % from     to     df  missing info      p
    slope         2      1.528     -1.719  5.719  6.125          67 %  0.237
    """
    q, u = _read_estimates(estimates, variances)
    _check_numbers(df_complete, level)
    m = len(q)
    within = u.mean(axis=0)
    between = q.var(axis=0, ddof=1)
    extra = (1.0 + 1.0 / m) * between
    total = within + extra
    share = np.divide(extra, total, out=np.zeros_like(total), where=total > 0)  # lambda
    df = _degrees_of_freedom(share, m, df_complete)
    estimate, std_error = q.mean(axis=0), np.sqrt(total)
    reach = stats.t.ppf(0.5 + 0.5 * level, df) * std_error
    with np.errstate(divide="ignore", invalid="ignore"):  # a standard error of 0
        p_value = np.where(
            std_error > 0, 2.0 * stats.t.sf(np.abs(estimate / std_error), df), estimate == 0
        )
    # r / (r + 1) = lambda and 1 / (r + 1) = 1 - lambda, also where W is 0
    missing = share + (1.0 - share) * 2.0 / (df + 3.0)
    missing = np.where(between > 0, missing, 0.0)
    low, high = estimate - reach, estimate + reach
    numbers = (estimate, std_error, low, high, df, missing, within, between, p_value)
    one = q.ndim == 1
    fields = [float(each) if one else np.asarray(each, dtype=float) for each in numbers]
    shown = _read_names(names, 1 if one else q.shape[1])
    return Pooled._make([*fields, m, float(level), shown])


def _degrees_of_freedom(share: np.ndarray, m: int, df_complete: float | None) -> np.ndarray:
    """Return the degrees of freedom of the pooled estimates; infinite where nothing is missing."""
    with np.errstate(divide="ignore"):
        rubin = (m - 1) / np.square(share)
        if df_complete is None or np.isinf(df_complete):
            return np.asarray(rubin)
        observed = (df_complete + 1.0) / (df_complete + 3.0) * df_complete * (1.0 - share)
        # An analysis that reports no error of its own has no degrees of freedom to run out of.
        observed = np.where(share < 1.0, observed, np.inf)
        return np.asarray(1.0 / (1.0 / rubin + 1.0 / observed))


def _read_estimates(estimates: Any, variances: Any) -> tuple[np.ndarray, np.ndarray]:
    q, u = np.asarray(estimates, dtype=float), np.asarray(variances, dtype=float)
    if q.ndim not in (1, 2) or q.shape != u.shape:
        raise ValueError(
            f"estimates have shape {q.shape} and variances {u.shape}; both must be (m,) or (m, q), "
            "m completions with a number, or q numbers, each."
        )
    if len(q) < 2:
        raise ValueError(
            f"There are estimates of {len(q)} completion; at least two are needed to see how much "
            "they differ."
        )
    for what, values in (("estimates", q), ("variances", u)):
        if not np.isfinite(values).all():
            number = int(np.argwhere(~np.isfinite(values))[0][0])
            raise ValueError(
                f"{what} of completion {number} are not all finite numbers. Check what the "
                "analysis gave for it."
            )
    if (u < 0).any():
        number = int(np.argwhere(u < 0)[0][0])
        raise ValueError(
            f"variances of completion {number} include {u[number].min():g}; they are squared "
            "standard errors, so none can be negative."
        )
    return q, u


def _check_numbers(df_complete: float | None, level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level={level!r} must lie strictly between 0 and 1.")
    if df_complete is not None and not df_complete > 0:
        raise ValueError(
            f"df_complete={df_complete!r} must be positive: for a regression it is the number of "
            "rows less the number of coefficients."
        )


def _read_names(names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    if names is None:
        return ("estimate",) if n == 1 else tuple(str(j) for j in range(n))
    if len(names) != n:
        raise ValueError(f"names has {len(names)} entries; there are {n} quantities.")
    return tuple(str(name) for name in names)
