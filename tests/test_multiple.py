"""Completions differ by as much as gaps are unknown; pooled answers follow Rubin's rules."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import FULL, size
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from gapmix import GaussianMixtureImputer
from gapmix.multiple import Pooled, impute_many, pool

ONE = GaussianMixtureImputer(1, max_iter=500, n_jobs=1)


def make_table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + [10.0, 0.0, -5.0]
    x[rng.random(x.shape) < 0.25] = np.nan
    return x


# ------------------------------------------------------------------ Rubin's rules


def test_three_estimates_pool_as_worked_by_hand():
    # Q = 2, W = 1, B = 1, T = 1 + 4/3, lambda = 4/7, df = 2 (7/4)^2, r = 4/3
    found = pool([1.0, 2.0, 3.0], [0.5, 1.0, 1.5])
    df = Fraction(49, 8)
    assert found.estimate == 2.0
    assert found.within == 1.0
    assert found.between == 1.0
    assert found.std_error == pytest.approx(np.sqrt(7 / 3), rel=1e-15)
    assert found.df == pytest.approx(float(df), rel=1e-14)
    information = (Fraction(4, 3) + 2 / (df + 3)) / Fraction(7, 3)
    assert found.missing_information == pytest.approx(float(information), rel=1e-14)
    # the 97.5 % point of t with 6.125 degrees of freedom, between those of 6 and 7 in any table
    reach = (found.high - 2.0) / found.std_error
    assert 2.365 < reach < 2.447
    assert found.low == pytest.approx(4.0 - found.high)


def test_degrees_of_freedom_given_those_of_the_complete_data_as_worked_by_hand():
    # observed: (21/23) 20 (3/7); together 1 / (8/49 + 161/1260)
    found = pool([1.0, 2.0, 3.0], [0.5, 1.0, 1.5], df_complete=20)
    assert found.df == pytest.approx(float(1 / (Fraction(8, 49) + Fraction(161, 1260))), rel=1e-14)
    df = found.df
    assert found.missing_information == pytest.approx((4 / 3 + 2 / (df + 3)) / (7 / 3), rel=1e-14)


def test_a_published_example_pools_to_the_plain_formulas():
    # Means and standard errors of oxygen intake after five imputations of 31 runners, from the
    # manual of SAS's MIANALYZE procedure (there with 30 degrees of freedom of the complete data).
    means = [47.0120, 47.2407, 47.4995, 47.1485, 47.0042]
    errors = [0.95984, 0.93540, 1.00766, 0.95439, 0.96528]
    within = sum(error**2 for error in errors) / 5
    mean = sum(means) / 5
    between = sum((each - mean) ** 2 for each in means) / 4
    total = within + 1.2 * between
    share = 1.2 * between / total
    df = 1 / (share**2 / 4 + 1 / (31 / 33 * 30 * (1 - share)))
    found = pool(means, np.square(errors), df_complete=30)
    assert found.estimate == pytest.approx(mean, rel=1e-14)
    assert found.between == pytest.approx(between, rel=1e-12)
    assert found.std_error**2 == pytest.approx(total, rel=1e-14)
    assert found.df == pytest.approx(df, rel=1e-12)
    assert (round(total, 4), round(df, 1)) == (0.9806, 26.3)
    reach = stats.t(df).ppf(0.975) * np.sqrt(total)
    np.testing.assert_allclose([found.low, found.high], [mean - reach, mean + reach], rtol=1e-12)


def test_a_vector_pools_as_its_entries_do():
    rng = np.random.default_rng(0)
    q, u = rng.normal(size=(7, 3)), rng.random((7, 3))
    together = pool(q, u, df_complete=50, level=0.8)
    for j in range(3):
        alone = pool(q[:, j], u[:, j], df_complete=50, level=0.8)
        assert isinstance(alone.low, float)
        for field in Pooled._fields[:9]:
            assert getattr(together, field)[j] == pytest.approx(getattr(alone, field), rel=1e-13)


def test_without_differences_nothing_is_missing():
    found = pool([[2.0, 0.0]] * 4, [[0.25, 0.0]] * 4)
    np.testing.assert_array_equal(found.missing_information, 0.0)
    np.testing.assert_array_equal(found.df, np.inf)
    np.testing.assert_array_equal(found.std_error, [0.5, 0.0])
    assert found.high[0] == pytest.approx(2.0 + 0.5 * stats.norm.ppf(0.975))
    assert found.high[1] == 0.0
    assert found.p_value[1] == 1.0
    assert pool([2.0, 2.0], [0.25, 0.25], df_complete=20).df == pytest.approx(21 / 23 * 20)


def test_exact_answers_that_differ_are_all_uncertainty_from_gaps():
    found = pool([1.0, 2.0, 4.0], [0.0, 0.0, 0.0], df_complete=10)
    assert found.missing_information == 1.0
    assert found.df == 2.0
    assert found.high > 4.0


def test_the_p_value_agrees_with_the_interval():
    q, u = [0.9, 1.1, 1.3], [0.2, 0.25, 0.3]
    p = pool(q, u, df_complete=30).p_value
    edge = pool(q, u, df_complete=30, level=1 - p)
    assert edge.low == pytest.approx(0.0, abs=1e-9)


def test_the_summary_is_a_table_with_a_line_for_each_quantity():
    text = pool([[1.0, 20.0], [2.0, 21.0]], [[1.0, 1.0]] * 2, names=["slope", "intercept"])
    lines = text.summary().splitlines()
    assert lines[0] == "Pooled over 2 imputations"
    assert lines[1].split()[:2] == ["estimate", "std"]
    assert lines[2].startswith("slope      ")
    assert lines[3].split()[:2] == ["intercept", "20.5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1.0]), "at least two are needed"),
        (([1.0, 2.0], [1.0]), r"estimates have shape \(2,\) and variances \(1,\)"),
        (([1.0, np.nan], [1.0, 1.0]), "estimates of completion 1 are not all finite"),
        (([1.0, 2.0], [1.0, -1.0]), "variances of completion 1 include -1"),
    ],
)
def test_wrong_estimates_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        pool(*arguments)


def test_wrong_numbers_are_told():
    for wrong, message in (
        ({"level": 95}, "level=95 must lie strictly between 0 and 1"),
        ({"df_complete": 0}, "df_complete=0 must be positive"),
        ({"names": ["a", "b"]}, "names has 2 entries; there are 1 quantities"),
    ):
        with pytest.raises(ValueError, match=message):
            pool([1.0, 2.0], [1.0, 1.0], **wrong)


# ------------------------------------------------------------------ completions


def test_known_values_stay_and_every_gap_is_filled_differently():
    x = make_table()
    tables = impute_many(x, 5, imputer=ONE, random_state=0)
    assert tables.shape == (5, *x.shape)
    assert np.isfinite(tables).all()
    known = ~np.isnan(x)
    np.testing.assert_array_equal(tables[:, known], np.broadcast_to(x[known], (5, known.sum())))
    assert (np.ptp(tables[:, ~known], axis=0) > 0).all()


def test_the_seed_decides_and_the_imputer_is_left_as_it_was():
    x = make_table()
    imputer = GaussianMixtureImputer(2, max_iter=500, random_state=3)
    first = impute_many(x, 2, imputer=imputer)
    assert not hasattr(imputer, "mixture_")
    assert imputer.average is True
    np.testing.assert_array_equal(first, impute_many(x, 2, imputer=imputer))
    np.testing.assert_array_equal(first, impute_many(x, 2, imputer=imputer, random_state=3))
    assert (first != impute_many(x, 2, imputer=imputer, random_state=4)).any()


def test_data_frames_come_back_as_they_were_and_filled():
    x = make_table(60)
    names = ["a", "b", "c"]
    plain = impute_many(x, 2, imputer=ONE, random_state=0)
    pandas = pd.DataFrame(x, columns=names, index=[f"r{i}" for i in range(60)])
    pandas["count"] = np.arange(60)
    for frame in impute_many(pandas, 2, imputer=ONE, random_state=0):
        assert list(frame.columns) == [*names, "count"]
        assert (frame.index == pandas.index).all()
        assert frame["count"].dtype == pandas["count"].dtype
        assert not frame.isna().any(axis=None)
    for frame, values in zip(
        impute_many(pl.DataFrame(x, schema=names), 2, imputer=ONE, random_state=0),
        plain,
        strict=True,
    ):
        assert isinstance(frame, pl.DataFrame)
        np.testing.assert_array_equal(frame.to_numpy(), values)


def test_a_bootstrap_spreads_parameters_as_their_standard_errors_say():
    # Column 0 is complete; the mean of column 1 given column 0 is known at the 150 rows that show
    # it. The completed mean of the others then varies by the error of that regression and by the
    # noise of single values: the first is what the bootstrap adds.
    rng = np.random.default_rng(1)
    n, n_gaps, m = 300, 150, size(100, 400)
    x = rng.normal(size=(n, 2))
    x[:, 1] += 2.0 * x[:, 0]
    x[:n_gaps, 1] = np.nan
    gaps, shown = x[:n_gaps, 0], x[n_gaps:, 0]
    noise = 1.0 / n_gaps
    line = 1.0 / len(shown) + (gaps.mean() - shown.mean()) ** 2 / (len(shown) * shown.var())
    for bootstrap, expected in (("rows", noise + line), ("bayesian", noise + line), (None, noise)):
        tables = impute_many(x, m, imputer=ONE, bootstrap=bootstrap, random_state=0)
        spread = tables[:, :n_gaps, 1].mean(axis=1).var(ddof=1)
        # a variance of m values is known to within sqrt(2 / m): here 14 or 7 % of it
        assert abs(spread / expected - 1.0) < 3.5 * np.sqrt(2.0 / m), bootstrap


def test_bounds_and_marks_of_gaps_are_heeded():
    x = np.abs(make_table(80))
    marked = np.where(np.isnan(x), -999.0, x)
    imputer = GaussianMixtureImputer(1, max_iter=500, missing_values=-999, bounds={0: (9.0, 10.0)})
    tables = impute_many(marked, 3, imputer=imputer, random_state=0)
    gaps = tables[:, np.isnan(x[:, 0]), 0]
    assert 9.0 <= gaps.min() <= gaps.max() <= 10.0


def test_the_number_of_components_may_be_chosen_automatically():
    x = make_table(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        tables = impute_many(x, 2, imputer=GaussianMixtureImputer(max_components=2), random_state=0)
    assert np.isfinite(tables).all()


def test_a_column_with_few_values_keeps_them_in_every_bootstrap_sample():
    x = make_table(40)
    x[3:, 2] = np.nan
    x[:3, 2] = [1.0, 2.0, 3.5]
    firm = GaussianMixtureImputer(1, max_iter=500, reg_covar=1e-2, n_jobs=1)
    assert np.isfinite(impute_many(x, 8, imputer=firm, random_state=0)).all()
    scarce = np.full((40, 60), np.nan)
    scarce[:, 0] = np.arange(40.0)
    scarce[np.arange(1, 60) % 40, np.arange(1, 60)] = 1.0
    with pytest.raises(ValueError, match="Use bootstrap='bayesian'"):
        impute_many(scarce, 2, imputer=firm, random_state=0)
    filled = impute_many(scarce, 2, imputer=firm, bootstrap="bayesian", random_state=0)
    assert np.isfinite(filled).all()


def test_row_weights_count_as_repeated_rows_do():
    x = make_table(50)
    weight = np.repeat([0.0, 1.0], 25)
    tables = impute_many(x, 3, imputer=ONE, sample_weight=weight, random_state=0)
    changed = x.copy()
    changed[:25, 0] += 100.0  # rows of weight 0 teach nothing
    others = impute_many(changed, 3, imputer=ONE, sample_weight=weight, random_state=0)
    np.testing.assert_allclose(others[:, 25:], tables[:, 25:], rtol=1e-6)


def test_fits_that_run_out_of_iterations_are_counted():
    imputer = GaussianMixtureImputer(3, max_iter=6, tol=1.0)
    with pytest.warns(ConvergenceWarning, match="2 of 2 bootstrap fits used all 6 iterations"):
        impute_many(make_table(), 2, imputer=imputer, random_state=0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_imputations": 0}, ValueError, "n_imputations"),
        ({"bootstrap": "columns"}, ValueError, "bootstrap='columns' is not known"),
        ({"imputer": "mean"}, TypeError, "imputer is a str"),
        (
            {"imputer": GaussianMixtureImputer(use_target=True)},
            ValueError,
            "Make the target a column of X",
        ),
    ],
)
def test_wrong_arguments_are_told(arguments, error, message):
    with pytest.raises(error, match=message):
        impute_many(make_table(20), **arguments)


# ------------------------------------------------------------------ coverage

COEFFICIENTS = np.array([1.0, 0.5, -1.0, 0.8])  # of 1, a, b, c


class Study(NamedTuple):
    """Share of 95 % intervals that hold the true coefficient, (4,) each."""

    pooled: np.ndarray
    single: np.ndarray  # gaps filled once, by their conditional mean
    complete: np.ndarray  # before values were removed


def regress(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of the last column on the others, and their variances."""
    design = np.column_stack([np.ones(len(table)), table[:, :-1]])
    inverse = np.linalg.inv(design.T @ design)
    slopes = inverse @ design.T @ table[:, -1]
    rest = table[:, -1] - design @ slopes
    return slopes, rest @ rest / (len(table) - 4) * np.diag(inverse)


def is_covered(table: np.ndarray) -> np.ndarray:
    slopes, variances = regress(table)
    reach = stats.t(len(table) - 4).ppf(0.975) * np.sqrt(variances)
    return np.abs(slopes - COEFFICIENTS) <= reach


def simulate(n_studies: int, n: int, n_imputations: int) -> Study:
    """Remove 30 % of b, c and y, more where the complete column a is large, and analyse."""
    pooled, single, complete = [], [], []
    for number in range(n_studies):
        rng = np.random.default_rng([2024, number])
        a, noise = rng.normal(size=n), rng.normal(size=(n, 3))
        b = 0.6 * a + 0.8 * noise[:, 0]
        c = 0.5 * b + 0.8 * noise[:, 1]
        y = np.column_stack([np.ones(n), a, b, c]) @ COEFFICIENTS + noise[:, 2]
        full = np.column_stack([a, b, c, y])
        table = full.copy()
        chance = 1.0 / (1.0 + np.exp(1.0 - 1.2 * a))
        table[:, 1:][rng.random((n, 3)) < chance[:, None]] = np.nan
        tables = impute_many(table, n_imputations, imputer=ONE, random_state=number)
        found = pool(*zip(*map(regress, tables), strict=True), df_complete=n - 4)
        pooled.append((found.low <= COEFFICIENTS) & (found.high >= COEFFICIENTS))
        single.append(is_covered(ONE.fit_transform(table)))
        complete.append(is_covered(full))
    return Study(*(np.mean(each, axis=0) for each in (pooled, single, complete)))


def test_pooled_intervals_of_slopes_cover_and_those_of_single_filling_do_not():
    study = simulate(size(30, 500), n=size(100, 200), n_imputations=10)
    if FULL:
        assert 0.93 <= study.pooled[2] <= 0.97, study
        assert (study.pooled > 0.92).all(), study
        assert study.single[2] < 0.85, study
    assert study.pooled.mean() > 0.9, study
    assert study.single.mean() < 0.85, study
