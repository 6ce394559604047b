"""Tables that are hard, not wrong, get the right answer; codes for gaps are warned of."""

from __future__ import annotations

import re
import time

import bad_tables
import numpy as np
import pandas as pd
import pytest
from bad_tables import (
    COVARIANCE_TYPES,
    HARD,
    assert_usable,
    constant_column,
    copied_column,
    fit_quietly,
    make_frame,
    make_table,
)
from conftest import size
from every_estimator import KINDS, NEW, answer
from sklearn.exceptions import ConvergenceWarning

from gapmix import GaussianMixture
from gapmix.estimators.warning import find_codes

SOLVERS = ["auto", "naive", "naive-row"]


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("make", HARD.values(), ids=HARD)
def test_hard_tables_give_finite_answers(make, kind, n_components):
    x = make()
    assert_usable(fit_quietly(x, n_components=n_components, covariance_type=kind), x)


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
@pytest.mark.parametrize("make", HARD.values(), ids=HARD)
def test_hard_tables_give_finite_answers_of_every_kind(make, kind):
    x = make()
    before = x.copy()
    for result in answer(kind.fit(x, n_components=2), kind, x):
        assert np.isfinite(result).all()
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
@pytest.mark.parametrize("name", ["constant column", "all values equal", "nearly empty"])
def test_hard_tables_give_finite_answers_whatever_size_is_chosen(name, kind):
    x = HARD[name]()
    for result in answer(kind.fit(x, n_components="auto", max_components=3), kind, x):
        assert np.isfinite(result).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", ["constant column", "fewer rows than columns", "empty rows"])
def test_hard_tables_give_finite_answers_with_every_solver(name, solver):
    x = HARD[name]()
    assert_usable(fit_quietly(x, n_components=2, solver=solver), x)


@pytest.mark.parametrize("init_params", ["kmeans", "k-means++", "random", "random_from_data"])
@pytest.mark.parametrize("name", ["constant column", "all values equal", "nearly empty"])
def test_hard_tables_give_finite_answers_from_every_start(name, init_params):
    x = HARD[name]()
    assert_usable(fit_quietly(x, n_components=3, init_params=init_params), x)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_as_many_components_as_rows(kind):
    x = make_table(6, 2)
    x[:, 0] = np.arange(6.0)
    assert_usable(fit_quietly(x, n_components=6, covariance_type=kind), x)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_two_rows_are_enough(kind):
    x = np.array([[1.0, 2.0], [3.0, np.nan]])
    assert_usable(fit_quietly(x, covariance_type=kind), x)


def test_a_duplicate_column_is_filled_from_its_twin():
    x = copied_column(1.0)
    x[::4, 2] = np.nan
    twin = ~np.isnan(x[:, 0]) & np.isnan(x[:, 2])
    filled = fit_quietly(x, tol=1e-8, max_iter=1000).impute(x)
    np.testing.assert_allclose(filled[twin, 2], x[twin, 0], atol=1e-3)


def test_a_constant_column_is_filled_with_its_constant():
    x = constant_column()
    np.testing.assert_allclose(fit_quietly(x).impute(x)[:, 1], 3.0, rtol=1e-6)


def test_empty_rows_change_nothing_and_are_filled_with_the_mean():
    x = make_table()
    padded = np.vstack([x[:20], np.full((5, 3), np.nan), x[20:]])
    plain, with_empty = fit_quietly(x, n_components=2), fit_quietly(padded, n_components=2)
    np.testing.assert_array_equal(plain.means_, with_empty.means_)
    overall = plain.weights_ @ plain.means_
    np.testing.assert_allclose(with_empty.impute(padded)[20:25], np.tile(overall, (5, 1)))
    np.testing.assert_allclose(with_empty.score_samples(padded)[20:25], 0.0, atol=1e-15)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("n_components", [1, 3])
def test_a_column_without_values_is_kept_and_named_in_a_warning(kind, n_components):
    frame = make_frame().assign(b=np.nan)
    message = (
        "Column 'b' has no observed values, so nothing can be learned about it. It is kept, with "
        "mean 0 and variance 1, and its gaps in arrays are filled with 0."
    )
    mixture = GaussianMixture(n_components, covariance_type=kind, random_state=0)
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        mixture.fit(frame)
    filled = mixture.impute(frame)
    assert filled.shape == frame.shape
    np.testing.assert_array_equal(filled[:, 1], 0.0)
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
@pytest.mark.parametrize("n_components", [1, "auto"])
def test_a_column_without_values_is_named_once_and_where_the_user_is(kind, n_components):
    frame = make_frame().assign(b=np.nan)
    estimator = kind.cls(n_components, max_components=2, random_state=0)
    with pytest.warns(UserWarning, match="no observed value") as caught:
        estimator.fit(frame, kind.target(len(frame)))
    assert [str(warning.message).split(".")[0] for warning in caught] == [
        "Column 'b' has no observed values, so nothing can be learned about it"
    ]
    assert caught[0].filename == __file__
    for result in answer(estimator, kind, frame):
        assert np.isfinite(result).all()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_fit_that_does_not_converge_is_told_where_the_user_is(kind):
    x = make_table()
    estimator = kind.cls(2, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="The fit did not converge") as caught:
        estimator.fit(x, kind.target(len(x)))
    assert {warning.filename for warning in caught} == {__file__}


def test_several_columns_without_values_are_all_named():
    with pytest.warns(
        UserWarning, match=r"^Columns 0, 2 have no observed values, so .*\. They are kept"
    ):
        GaussianMixture().fit(make_table() * [np.nan, 1.0, np.nan])


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_column_empty_only_when_imputing_is_filled(kind, solver):
    x = make_table()
    mixture = fit_quietly(x, n_components=2, covariance_type=kind, solver=solver)
    later = make_table(10, seed=1)
    later[:, 1] = np.nan
    assert_usable(mixture, later)
    assert_usable(mixture, np.full((4, 3), np.nan))


@pytest.mark.parametrize("change", ["read-only", "memmap", "Fortran"])
def test_arrays_that_must_not_be_written_to(change, tmp_path):
    x = make_table()
    given = x.copy(order="F" if change == "Fortran" else "C")
    if change == "memmap":
        given.tofile(tmp_path / "x.bin")
        given = np.memmap(tmp_path / "x.bin", dtype=float, mode="r", shape=x.shape)
    if change == "read-only":
        given.flags.writeable = False
    np.testing.assert_array_equal(fit_quietly(given).means_, fit_quietly(x).means_)
    assert_usable(fit_quietly(given, n_components=2), given)


def test_long_double_and_float32_lose_nothing_they_need_not():
    x = make_table()
    np.testing.assert_array_equal(
        fit_quietly(x.astype(np.longdouble)).means_, fit_quietly(x).means_
    )
    single = x.astype(np.float32)
    np.testing.assert_array_equal(
        fit_quietly(single).means_, fit_quietly(single.astype(float)).means_
    )


def test_many_distinct_patterns():
    n, d = size(10_000, 100_000), 20
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.1 * rng.normal(size=(n, d))
    x[rng.random(x.shape) < 0.5] = np.nan
    mixture = fit_quietly(x, max_iter=3)
    assert len(mixture.plan_.patterns.observed) > 0.95 * n
    filled = mixture.impute(x)
    assert np.isfinite(filled).all()
    assert filled.shape == x.shape


def test_reading_objects_is_not_slow():
    frame = pd.DataFrame(np.ones((20_000, 10))).astype(object)
    frame.iloc[::7, 3] = pd.NA
    frame += np.arange(20_000)[:, None] % 7
    began = time.perf_counter()
    fit_quietly(frame)
    assert time.perf_counter() - began < 10.0


# ------------------------------------------------------------------ codes for gaps


def test_a_code_is_warned_of_and_kept_as_a_number():
    x = make_table(400)
    x[::8, 1] = -999.0
    low, high = np.nanmin(np.where(x == -999, np.nan, x)[:, 1]), np.nanmax(x[:, 1])
    message = (
        f"Column 1: the value -999 occurs 50 times, far from all others ({low:g} to {high:g}). It "
        "is used as a number. If it stands for a gap, replace it by NaN first."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        mixture = fit_quietly(x)
    assert mixture.means_[0, 1] < -50
    np.testing.assert_array_equal(mixture.impute(x)[::8, 1], -999.0)


def test_nines_are_a_code_where_no_other_value_is_negative_however_wide_the_column():
    x = np.linspace(0, 5000, 60)[:, None].repeat(4, axis=1)
    x[::6, :3] = [-999.0, -98.0, -99.0]
    x[1, 2] = -500.0
    assert [(code.column, code.value) for code in find_codes(x)] == [(0, -999.0)]


def test_nines_are_a_code_among_few_answers_too_where_other_values_far_out_are_none():
    answers = np.tile([1.0, 2.0, 3.0], 20)[:, None].repeat(4, axis=1)
    answers[::6] = [-9.0, -999.0, -5.0, 800.0]
    assert [(code.column, code.value) for code in find_codes(answers)] == [(0, -9.0), (1, -999.0)]


def test_a_number_alone_where_others_lie_close_together_is_a_code_and_then_in_all_columns():
    rng = np.random.default_rng(0)
    pressure = np.round(rng.normal(130, 15, 300))
    pressure[::20] = 0.0
    rain = np.where(rng.random(300) < 0.5, 0.0, np.round(rng.gamma(2.0, 10.0, 300), 1))
    visits, carbon = rng.poisson(3.0, 300).astype(float), rng.normal(3.0, 0.5, 300)
    nitrogen, other = np.round(rng.gamma(2.0, 100.0, (2, 300)), -2)
    carbon[::9] = nitrogen[::7] = -200.0
    other[::7] = -5.0
    x = np.column_stack([pressure, rain, visits, carbon, nitrogen, other])
    found = [(code.column, code.value) for code in find_codes(x)]
    assert found == [(0, 0.0), (3, -200.0), (4, -200.0)]
    assert [code.column for code in find_codes(x[:, [4]])] == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_codes_are_warned_of_once_by_every_estimator_unless_they_have_no_weight(kind):
    x = make_table(80)
    x[::8, 1] = -999.0
    y, weight = kind.target(80), np.where(np.arange(80) % 8, 1.0, 0.0)
    with pytest.warns(UserWarning, match="the value -999 occurs 10 times") as caught:
        kind.cls(n_components=1).fit(x, y)
    assert [warning.filename for warning in caught] == [__file__]
    kind.cls(n_components=1).fit(x, y, sample_weight=weight)  # a warning would be an error


def test_codes_are_warned_of_in_every_column_and_at_both_ends():
    frame = pd.DataFrame(make_table(400), columns=list("abc"))
    frame.loc[::9, "a"] = 9999
    frame.loc[::8, "c"] = -1
    frame["c"] = frame["c"].where(frame["c"] == -1, frame["c"] + 1000)
    with pytest.warns(UserWarning, match="far from all others") as caught:
        fit_quietly(frame)
    starts = [str(warning.message).split(",")[0] for warning in caught]
    assert starts == [
        "Column 'a': the value 9999 occurs 45 times",
        "Column 'c': the value -1 occurs 50 times",
    ]
    assert {warning.filename for warning in caught} == {bad_tables.__file__}


@pytest.mark.parametrize(
    "column",
    [
        np.arange(400.0),
        np.repeat([0.0, 1.0], 200),
        np.random.default_rng(0).poisson(2.0, 400),
        np.random.default_rng(0).lognormal(0.0, 1.0, 400).round(),
        np.append(np.random.default_rng(0).normal(size=399), 50.0),
    ],
    ids=["identifiers", "binary", "counts", "skewed", "one outlier"],
)
def test_ordinary_columns_are_not_taken_for_codes(column):
    fit_quietly(np.column_stack([make_table(400), column]))  # a warning would be an error
