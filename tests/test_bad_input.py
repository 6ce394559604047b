"""The bad-input catalogue: each entry gets the right answer, or an error that helps.

Right means finite, of the same shape, no column dropped, the input untouched. An error says what
was found, where, and what to do, and is compared with its text.
"""

from __future__ import annotations

import re
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import size
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from gapmix import GaussianMixture

COVARIANCE_TYPES = ["full", "tied", "diag", "spherical"]
SOLVERS = ["auto", "naive", "naive-row"]
FITTED = ["weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"]
TEXT_ADVICE = (
    "If it marks a gap, replace it by NaN, for example with pandas.to_numeric(column, "
    "errors='coerce'). Otherwise leave the column out, or encode it as numbers, for example with "
    "OneHotEncoder."
)


def make_table(n: int = 60, d: int = 3, *, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


def make_frame() -> pd.DataFrame:
    return pd.DataFrame(make_table(), columns=list("abc"))


def put(value: object, row: int = 5, column: int = 1) -> np.ndarray:
    x = make_table()
    x[row, column] = value
    return x


def assert_usable(mixture: GaussianMixture, x: np.ndarray) -> None:
    """Everything fitted and everything answered about x is finite and of the right shape."""
    n, d = x.shape
    assert mixture.means_.shape[1] == d
    assert mixture.n_features_in_ == d
    for name in FITTED:
        assert np.isfinite(getattr(mixture, name)).all(), name
    assert np.isfinite(mixture.lower_bounds_).all()
    assert np.isclose(mixture.weights_.sum(), 1.0)
    before = x.copy()
    filled, std = mixture.impute(x, return_std=True)
    draws = mixture.sample_missing(x, n_draws=2, random_state=0)
    resp = mixture.predict_proba(x)
    assert filled.shape == std.shape == (n, d)
    assert draws.shape == (2, n, d)
    assert mixture.predict(x).shape == mixture.score_samples(x).shape == (n,)
    for result in (filled, std, draws, resp, mixture.score_samples(x), mixture.sample(5)[0]):
        assert np.isfinite(result).all()
    observed = ~np.isnan(x)
    np.testing.assert_array_equal(filled[observed], x[observed])
    np.testing.assert_array_equal(
        draws[:, observed], np.broadcast_to(x[observed], (2, observed.sum()))
    )
    assert (std[observed] == 0).all()
    assert (std[~observed] >= 0).all()
    np.testing.assert_allclose(resp.sum(axis=1), 1.0)
    np.testing.assert_array_equal(x, before)


def fit_quietly(x: object, **parameters: object) -> GaussianMixture:
    """Fit, whether or not EM converges: with such tables it need not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(**{"random_state": 0, **parameters}).fit(x)


def raises(message: str, kind: type[Exception] = ValueError) -> pytest.RaisesExc:
    """Expect an error with exactly this text."""
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


# ------------------------------------------------------------------ tables that are hard, not wrong


def constant_column(value: float = 3.0) -> np.ndarray:
    x = make_table()
    x[:, 1] = np.where(np.isnan(x[:, 1]), np.nan, value)
    return x


def copied_column(factor: float) -> np.ndarray:
    x = make_table()
    x[:, 2] = factor * x[:, 0]
    return x


def sum_of_columns() -> np.ndarray:
    x = make_table(d=4)
    x[:, 3] = x[:, 0] + x[:, 1]
    return x


def lonely_value() -> np.ndarray:
    x = make_table()
    x[1:, 2] = np.nan
    x[0, 2] = 4.0
    return x


def never_together() -> np.ndarray:
    x = make_table()
    x[:30, 0] = np.nan
    x[30:, 1] = np.nan
    return x


def identifiers() -> np.ndarray:
    return np.column_stack([make_table(), np.arange(60) + 1e6])


HARD = {
    "constant column": constant_column,
    "constant column at zero": lambda: constant_column(0.0),
    "constant column far away": lambda: constant_column(1e12),
    "duplicate column": lambda: copied_column(1.0),
    "scaled duplicate column": lambda: copied_column(-7e9),
    "sum of two columns": sum_of_columns,
    "all values equal": lambda: np.ones((10, 2)),
    "all rows equal": lambda: np.tile([[1.0, np.nan, 3.0, -2.0]], (12, 1))[:, [0, 2, 3]],
    "two different rows": lambda: np.repeat([[1.0, 2.0], [5.0, np.nan]], 6, axis=0),
    "fewer rows than columns": lambda: make_table(5, 12),
    "one column": lambda: make_table(60, 1),
    "one observed value in a column": lonely_value,
    "two columns never seen together": never_together,
    "an identifier": identifiers,
    "two values": lambda: np.where(np.isnan(make_table()), np.nan, make_table() > 0),
    "columns of very different units": lambda: make_table() * [1e-9, 1.0, 1e9],
    "large": lambda: make_table() * 1e140,
    "small": lambda: make_table() * 1e-140,
    "far from zero": lambda: make_table() + 1e9,
    "subnormal among normal values": lambda: put(5e-324),
    "an outlier": lambda: put(1e9),
    "empty rows": lambda: np.vstack([np.full((3, 3), np.nan), make_table(), [[np.nan] * 3]]),
    "nearly empty": lambda: np.where(
        np.random.default_rng(1).random((200, 4)) < 0.9, np.nan, make_table(200, 4)
    ),
    "float16": lambda: make_table().astype(np.float16).astype(float),
}


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("make", HARD.values(), ids=HARD)
def test_hard_tables_give_finite_answers(make, kind, n_components):
    x = make()
    assert_usable(fit_quietly(x, n_components=n_components, covariance_type=kind), x)


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
        "Column 'b' has no observed value. It is kept, with mean 0 and variance 1: nothing can be "
        "learned about it, and its gaps are filled with 0."
    )
    mixture = GaussianMixture(n_components, covariance_type=kind, random_state=0)
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        mixture.fit(frame)
    filled = mixture.impute(frame)
    assert filled.shape == frame.shape
    np.testing.assert_array_equal(filled[:, 1], 0.0)
    assert np.isfinite(filled).all()


def test_several_columns_without_values_are_all_named():
    with pytest.warns(UserWarning, match=r"^Columns 0, 2 have no observed value\. They are kept"):
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
        "is taken as a number. If it stands for a gap, replace it by NaN first."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        mixture = fit_quietly(x)
    assert mixture.means_[0, 1] < -50
    np.testing.assert_array_equal(mixture.impute(x)[::8, 1], -999.0)


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
    assert {warning.filename for warning in caught} == {__file__}


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


# ------------------------------------------------------------------ values that cannot be used


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1.7e308])
def test_infinity_is_refused_with_its_place(value):
    message = (
        f"X contains infinity or a number beyond 1e+300 in 1 cell, first in row 5, column 1 "
        f"({value:g}). Replace it by NaN if it stands for a gap, or change the column's units."
    )
    with raises(message):
        GaussianMixture().fit(put(value))


def test_infinity_in_a_frame_is_refused_with_the_columns_name():
    frame = make_frame()
    frame.loc[[7, 9], "c"] = -np.inf
    message = (
        "X contains infinity or a number beyond 1e+300 in 2 cells, first in row 7, column 'c' "
        "(-inf). Replace it by NaN if it stands for a gap, or change the column's units."
    )
    with raises(message):
        GaussianMixture().fit(frame)
    with raises(message.replace("'c'", "30")):
        GaussianMixture().fit(frame.set_axis([10, 20, 30], axis=1))


@pytest.mark.parametrize(
    "X",
    [
        [[10**400, 1.0], [2.0, 3.0], [4.0, 5.0]],
        np.array([["1e400", "1"], ["2", "3"], ["4", "5"]]).astype(np.longdouble),
    ],
    ids=["Python integer", "long double"],
)
def test_numbers_beyond_float64_are_refused_with_their_place(X):
    with pytest.raises(ValueError, match=r"in 1 cell, first in row 0, column 0 \(inf\)"):
        GaussianMixture().fit(X)


def test_scales_whose_squares_leave_float64_are_refused():
    x = np.array([[1.0], [2.0], [3.0], [4.0]])
    message = (
        "Column 0: values vary on a scale of about 7.7e+199, whose square is outside the range of "
        "float64. Change the column's units first, for example divide it by 7.7e+199."
    )
    with raises(message):
        GaussianMixture().fit(x * 0.6e200)
    with pytest.raises(ValueError, match=r"^Columns 0, 2: values vary on a scale of about"):
        GaussianMixture().fit(make_table() * [1e-310, 1.0, 1e-310])


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("method", ["predict", "score_samples", "impute", "sample_missing"])
def test_rows_beyond_all_reach_are_refused_when_answering(method, kind):
    mixture = fit_quietly(make_table(), n_components=2, covariance_type=kind)
    message = (
        "X is more than 1e+100 standard deviations away from the fitted rows in 1 cell, first in "
        "row 5, column 1 (1e+200): no density can be given for it. Correct it, or replace it by "
        "NaN if it stands for a gap."
    )
    with raises(message):
        getattr(mixture, method)(put(1e200))


@pytest.mark.parametrize("value", [1e8, 1e30, 1e90])
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_outliers_within_reach_get_finite_answers(kind, value):
    mixture = fit_quietly(make_table(), n_components=3, covariance_type=kind)
    assert_usable(mixture, put(value))
    assert_usable(mixture, put(-value))


TEXT = {
    "list": ([[1.0, 2.0], [3.0, "n/a"], [5.0, 6.0]], "Row 1, column 1: 'n/a'"),
    "array of text": (np.array([["1", "x"], ["?", "3"]]), "Row 1, column 0: '?'"),
    "array of bytes": (np.array([[b"1", b"x"], [b"?", b"3"]]), "Row 1, column 0: b'?'"),
    "object array": (np.array([[1, 2.0], [3, "?"]], dtype=object), "Row 1, column 1: '?'"),
    "pandas text": (make_frame().assign(s="male"), "Row 0, column 's': 'male'"),
    "pandas text with gaps": (
        make_frame().assign(s=[None] * 4 + ["male"] * 56),
        "Row 4, column 's': 'male'",
    ),
    "pandas text that is mostly numbers": (
        make_frame().assign(s=["1.5"] * 9 + ["?"] + ["2"] * 50),
        "Row 9, column 's': '?'",
    ),
    "pandas object": (
        make_frame().assign(s=pd.Series([1.0, pd.NA, "-"] * 20, dtype=object)),
        "Row 2, column 's': '-'",
    ),
    "pandas Arrow text": (
        make_frame().assign(s=pd.array([None, "a"] * 30, dtype="string[pyarrow]")),
        "Row 1, column 's': 'a'",
    ),
    "polars text": (pl.DataFrame({"a": [1.0, 2.0], "s": [None, "x"]}), "Row 1, column 's': 'x'"),
    "pyarrow text": (pa.table({"a": [1.0, 2.0], "s": [None, "x"]}), "Row 1, column 's': 'x'"),
    "long text": ([[1.0, "x" * 99], [2.0, 3.0]], f"Row 0, column 1: '{'x' * 36}..."),
}


@pytest.mark.parametrize(("X", "start"), TEXT.values(), ids=TEXT)
def test_text_is_refused_with_its_place(X, start):
    with raises(f"{start} is text, not a number. {TEXT_ADVICE}"):
        GaussianMixture().fit(X)


@pytest.mark.parametrize(
    ("X", "where"),
    [
        (np.array([["1", "2"], ["3", "4"]]), "Row 0, column 0: '1'"),
        (make_frame().assign(s="1.5"), "Row 0, column 's': '1.5'"),
        (
            make_frame().assign(s=pd.Series([pd.NA, "7"] * 30, dtype=object)),
            "Row 1, column 's': '7'",
        ),
    ],
    ids=["array", "pandas", "pandas object"],
)
def test_numbers_written_as_text_are_refused_with_the_way_to_convert_them(X, where):
    message = f"{where} is text, not a number. Convert the column first, for example with "
    with raises(f"{message}pandas.to_numeric."):
        GaussianMixture().fit(X)


OTHER_TYPES = {
    "pandas category": (
        make_frame().assign(s=pd.Categorical([None, "x"] * 30)),
        "Column 's' holds Categorical values, not numbers; row 1 has 'x'. Leave it out, or turn it "
        "into numbers first, for example with OneHotEncoder.",
    ),
    "pandas datetime": (
        make_frame().assign(s=pd.Timestamp("2020-01-01")),
        "Column 's' holds Datetime values, not numbers; row 0 has Timestamp('2020-01-01 00:00:00')."
        " Leave it out, or turn it into numbers first, for example the days since a date.",
    ),
    "pandas timedelta": (
        make_frame().assign(s=pd.Timedelta("1D")),
        "Column 's' holds Duration values, not numbers; row 0 has Timedelta('1 days 00:00:00'). "
        "Leave it out, or turn it into numbers first, for example the days since a date.",
    ),
    "polars date": (
        pl.DataFrame({"a": [1.0, 2.0], "s": pl.Series([None, 7]).cast(pl.Date)}),
        "Column 's' holds Date values, not numbers; row 1 has datetime.date(1970, 1, 8). Leave it "
        "out, or turn it into numbers first, for example the days since a date.",
    ),
    "polars category": (
        pl.DataFrame({"a": [1.0, 2.0], "s": pl.Series(["x", None]).cast(pl.Categorical)}),
        "Column 's' holds Categorical values, not numbers; row 0 has 'x'. Leave it out, or turn it "
        "into numbers first, for example with OneHotEncoder.",
    ),
    "polars list": (
        pl.DataFrame({"a": [1.0, 2.0], "s": [[1, 2], [3]]}),
        "Column 's' holds List values, not numbers; row 0 has [1, 2]. Leave it out, or turn it "
        "into numbers first.",
    ),
    "pyarrow dictionary": (
        pa.table({"a": [1.0, 2.0], "s": pa.array(["x", None]).dictionary_encode()}),
        "Column 's' holds Categorical values, not numbers; row 0 has 'x'. Leave it out, or turn it "
        "into numbers first, for example with OneHotEncoder.",
    ),
    "complex array": (
        make_table() * 1j,
        "Complex data not supported: X has dtype complex128. Pass real and imaginary parts as "
        "separate columns.",
    ),
    "complex masked array": (
        np.ma.array(make_table() * 1j),
        "Complex data not supported: X has dtype complex128. Pass real and imaginary parts as "
        "separate columns.",
    ),
}


@pytest.mark.parametrize(("X", "message"), OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_other_types_are_refused_with_an_example(X, message):
    with raises(message):
        GaussianMixture().fit(X)


OBJECTS = {
    "dict": (
        np.array([[1.0, {"a": 1}], [2.0, 3.0]], dtype=object),
        "Row 0, column 1: {'a': 1} is not a number (float() argument must be a string or a real "
        "number, not 'dict').",
    ),
    "complex column": (
        make_frame().assign(s=1j),
        "Row 0, column 's': 1j is not a number (complex data is not supported).",
    ),
    "period": (
        make_frame().assign(s=pd.period_range("2020", periods=60, freq="D")),
        "Row 0, column 's': Period('2020-01-01', 'D') is not a number (float() argument must be a "
        "string or a real number, not 'Period').",
    ),
    "datetime array": (
        np.full((4, 2), np.datetime64("2020-01-01")),
        "Row 0, column 0: datetime.date(2020, 1, 1) is not a number (float() argument must be a "
        "string or a real number, not 'datetime.date').",
    ),
}


@pytest.mark.parametrize(("X", "message"), OBJECTS.values(), ids=OBJECTS)
def test_objects_that_are_not_numbers_are_refused_with_their_place(X, message):
    with raises(f"{message} Leave the column out, or turn it into numbers first.", TypeError):
        GaussianMixture().fit(X)


# ------------------------------------------------------------------ masks


def test_a_mask_counts_whatever_it_hides():
    x = make_table()
    hidden = np.isnan(x)
    expected = fit_quietly(x).means_
    for below in (-999.0, np.inf, np.nan):
        masked = np.ma.array(np.where(hidden, below, x), mask=hidden)
        np.testing.assert_array_equal(fit_quietly(masked).means_, expected)
        assert np.array_equal(masked.data, np.where(hidden, below, x), equal_nan=True)
    text = np.where(hidden, "gap", x.astype(object))
    np.testing.assert_array_equal(fit_quietly(np.ma.array(text, mask=hidden)).means_, expected)


def test_a_mask_counts_when_imputing():
    mixture = fit_quietly(make_table())
    filled = mixture.impute(np.ma.masked_equal([[1.0, -999.0, 2.0]], -999.0))
    np.testing.assert_array_equal(filled, mixture.impute([[1.0, np.nan, 2.0]]))


def test_masked_integers_and_nan_beside_a_mask():
    masked = np.ma.masked_equal([[1, 2], [-999, 3], [4, -999], [3, 3]], -999)
    plain = [[1, 2], [np.nan, 3], [4, np.nan], [3, 3]]
    np.testing.assert_array_equal(fit_quietly(masked).means_, fit_quietly(plain).means_)
    x = make_table()
    np.testing.assert_array_equal(
        fit_quietly(np.ma.array(x, mask=False)).means_, fit_quietly(x).means_
    )


# ------------------------------------------------------------------ shapes


def test_too_few_rows_and_columns():
    found = "Found array with {} (shape={}) while a minimum of {} is required by GaussianMixture."
    for X in (make_table(1), make_frame().iloc[:1]):
        with raises(found.format("1 sample(s)", (1, 3), 2)):
            GaussianMixture().fit(X)
    for X in (np.empty((0, 3)), make_frame().iloc[:0], pl.from_pandas(make_frame()).head(0)):
        with raises(found.format("0 sample(s)", (0, 3), 2)):
            GaussianMixture().fit(X)
    for X in (np.empty((5, 0)), pd.DataFrame(index=range(5)), [[]] * 5):
        with raises(found.format("0 feature(s)", (5, 0), 1)):
            GaussianMixture().fit(X)
    with raises(found.format("0 sample(s)", (0, 3), 1)):
        fit_quietly(make_table()).impute(np.empty((0, 3)))


def test_nothing_observed():
    message = (
        "None of the 6 rows of X has an observed value and a positive weight: there is nothing to "
        "fit."
    )
    with raises(message):
        GaussianMixture().fit(np.full((6, 3), np.nan))
    with raises(message):
        GaussianMixture().fit(pd.DataFrame({"a": [None] * 6, "b": [np.nan] * 6}))


def test_more_components_than_rows():
    message = (
        "Expected n_samples >= n_components, but 9 components are asked for and X has {} rows with "
        "an observed value (n_samples = 6). Lower n_components."
    )
    x = make_table(6)
    x[:, 0] = 1.0
    with raises(message.format(6)):
        GaussianMixture(9).fit(x)
    x[0] = np.nan
    with raises(message.format(5)):
        GaussianMixture(9).fit(x)


@pytest.mark.parametrize("X", [np.arange(5.0), [1.0, 2.0, 3.0], pa.array([1.0, 2.0]), []])
def test_one_dimension_is_refused(X):
    with pytest.raises(ValueError, match="Reshape your data either using"):
        GaussianMixture().fit(X)
    with pytest.raises(ValueError, match="Reshape your data either using"):
        fit_quietly(make_table()).predict(X)


@pytest.mark.parametrize("X", [pd.Series([1.0, 2.0]), pl.Series([1.0, 2.0])])
def test_a_series_is_refused_with_the_way_to_a_table(X):
    message = (
        "Expected a table with rows and columns, got a Series, which has one dimension. Pass "
        "X.to_frame() if it is one column; to use one row of a data frame, select it with a list, "
        "as in frame.iloc[[0]]."
    )
    with raises(message):
        GaussianMixture().fit(X)
    assert GaussianMixture().fit(X.to_frame("a") if hasattr(X, "iloc") else X.to_frame())


def test_three_dimensions_are_refused():
    with pytest.raises(ValueError, match="Found array with dim 3, while dim <= 2 is required by"):
        GaussianMixture().fit(np.zeros((3, 2, 2)))


def test_rows_of_different_lengths_are_refused():
    message = (
        "X could not be read as a table: row 0 has 2 values, row 2 has 1. Every row needs the same "
        "number; use NaN or None for gaps."
    )
    with raises(message):
        GaussianMixture().fit([[1.0, 2.0], [3.0, 4.0], [5.0]])


CONTAINERS = {
    "str": ("table.csv", ": read the file first, for example with pandas.read_csv(X)"),
    "dict": ({"a": [1.0, 2.0]}, ", for example pandas.DataFrame(X)"),
    "list": ([{"a": 1.0}, {"a": 2.0}], ", for example pandas.DataFrame(X)"),
    "generator": ((row for row in [[1.0], [2.0]]), ", for example list(X)"),
    "NoneType": (None, ""),
    "ndarray": (
        np.array([(1.0, 2.0)] * 3, dtype=[("a", float), ("b", float)]),
        ", for example pandas.DataFrame(X)",
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_is_no_table_is_refused_with_the_way_to_one(name):
    X, advice = CONTAINERS[name]
    message = (
        f"X is a {name} and could not be read as a table with rows and columns of numbers. Pass a "
        f"2-d array or a data frame{advice}."
    )
    with raises(message, TypeError):
        GaussianMixture().fit(X)


def test_a_lazy_frame_is_refused():
    with raises("X is a LazyFrame, which holds no values yet: pass X.collect().", TypeError):
        GaussianMixture().fit(pl.DataFrame({"a": [1.0, 2.0]}).lazy())


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.coo_array, sparse.dia_matrix])
def test_sparse_matrices_are_refused(make):
    message = (
        "X is a sparse matrix. Its zeros are values, not gaps, and a Gaussian mixture needs them "
        "all: pass X.toarray(), with NaN in the cells that are missing."
    )
    with raises(message, TypeError):
        GaussianMixture().fit(make(np.eye(4)))
    with raises(message, TypeError):
        fit_quietly(make_table()).impute(make(np.eye(3)))


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "X",
    [
        make_frame().set_axis(["a", "b", "a"], axis=1),
        pa.Table.from_arrays([pa.array([1.0, 2.0])] * 3, names=["a", "b", "a"]),
    ],
    ids=["pandas", "pyarrow"],
)
def test_duplicate_names_are_refused(X):
    message = (
        "The name 'a' is used by 2 columns, at positions 0, 2. Give every column its own name."
    )
    with raises(message):
        GaussianMixture().fit(X)


def test_mixed_names_are_refused_as_in_scikit_learn():
    with pytest.raises(TypeError, match="Feature names are only supported if all input features"):
        GaussianMixture().fit(make_frame().set_axis(["a", 1, 2], axis=1))


def test_names_that_are_numbers_or_tuples_are_no_names():
    x = make_table()
    tuples = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
    for names in ([3, 1, 2], tuples):
        mixture = fit_quietly(pd.DataFrame(x, columns=names))
        assert not hasattr(mixture, "feature_names_in_")
        np.testing.assert_array_equal(mixture.means_, fit_quietly(x).means_)


@pytest.mark.parametrize("method", ["predict", "score_samples", "impute", "sample_missing", "bic"])
def test_other_columns_than_fitted_are_refused(method):
    ask = getattr(fit_quietly(make_table()), method)
    for n_columns in (2, 4):
        message = (
            f"X has {n_columns} features, but GaussianMixture is expecting 3 features as input."
        )
        with raises(message):
            ask(make_table(5, n_columns))
    ask = getattr(fit_quietly(make_frame()), method)
    mismatch = "The feature names should match those that were passed during fit.\n"
    with raises(f"{mismatch}Feature names seen at fit time, yet now missing:\n- c\n"):
        ask(make_frame()[["a", "b"]])
    with raises(f"{mismatch}Feature names unseen at fit time:\n- s\n"):
        ask(make_frame().assign(s="text"))


@pytest.mark.parametrize("method", ["predict", "score_samples", "impute", "sample_missing"])
def test_bad_cells_are_refused_when_answering(method):
    ask = getattr(fit_quietly(make_frame()), method)
    frame = make_frame()
    frame.loc[5, "b"] = np.inf
    with pytest.raises(ValueError, match=r"first in row 5, column 'b' \(inf\)"):
        ask(frame)
    text = make_frame().assign(b="x")
    with raises(f"Row 0, column 'b': 'x' is text, not a number. {TEXT_ADVICE}"):
        ask(text)


@pytest.mark.parametrize(
    "method", ["predict", "score_samples", "impute", "sample_missing", "score"]
)
def test_answers_need_a_fit(method):
    with pytest.raises(NotFittedError, match="This GaussianMixture instance is not fitted yet"):
        getattr(GaussianMixture(), method)(make_table())


def test_a_failed_fit_leaves_the_last_one_usable():
    x = make_table()
    mixture = fit_quietly(x)
    before = mixture.impute(x)
    for bad in (make_table(5, 4) * np.inf, [["a", 1.0]] * 3, np.empty((0, 2))):
        with pytest.raises(ValueError):
            mixture.fit(bad)
        np.testing.assert_array_equal(mixture.impute(x), before)


# ------------------------------------------------------------------ weights


def test_a_weight_of_zero_is_no_row():
    x = make_table()
    weight = np.tile([1.0, 0.0, 2.0], 20)
    kept = np.repeat(x[weight > 0], weight[weight > 0].astype(int), axis=0)
    weighted = GaussianMixture().fit(x, sample_weight=weight)
    np.testing.assert_allclose(weighted.means_, fit_quietly(kept).means_, rtol=1e-8)
    x[weight == 0] = 1e250  # not even looked at
    np.testing.assert_array_equal(
        GaussianMixture().fit(x, sample_weight=weight).means_, weighted.means_
    )


@pytest.mark.parametrize(
    "weight",
    [
        pd.Series(np.arange(60)),
        pl.Series(np.arange(60)),
        pa.array(np.arange(60)),
        pd.array(np.arange(60), dtype="Int64"),
        list(range(60)),
    ],
    ids=["pandas", "polars", "pyarrow", "nullable", "list"],
)
def test_weights_in_any_container(weight):
    x = make_table()
    found = GaussianMixture(2, random_state=0).fit(x, sample_weight=weight)
    expected = GaussianMixture(2, random_state=0).fit(x, sample_weight=np.arange(60.0))
    np.testing.assert_array_equal(found.means_, expected.means_)


@pytest.mark.parametrize("unit", [1e-310, 1e-200, 1e200, 1e300])
def test_weights_in_any_unit(unit):
    x = make_table()
    settings = {"random_state": 0, "tol": 1e-9, "max_iter": 1000}
    found = GaussianMixture(**settings).fit(x, sample_weight=np.arange(60.0) * unit)
    expected = GaussianMixture(**settings).fit(x, sample_weight=np.arange(60.0))
    np.testing.assert_allclose(found.means_, expected.means_, rtol=1e-4)
    assert_usable(found, x)


def weights_with(value: object) -> np.ndarray:
    weight = np.ones(60, dtype=object)
    weight[3] = value
    return weight


WEIGHTS = {
    "negative": (
        weights_with(-1.0).astype(float),
        "sample_weight is negative in 1 of 60 rows, first in row 3 (-1.0). Give every row a weight "
        "of 0 or more.",
    ),
    "NaN": (
        weights_with(np.nan).astype(float),
        "sample_weight is not finite in 1 of 60 rows, first in row 3 (nan). Give every row a "
        "weight of 0 or more.",
    ),
    "inf": (
        weights_with(np.inf).astype(float),
        "sample_weight is not finite in 1 of 60 rows, first in row 3 (inf). Give every row a "
        "weight of 0 or more.",
    ),
    "pandas NA": (
        weights_with(pd.NA),
        "sample_weight is not finite in 1 of 60 rows, first in row 3 (nan). Give every row a "
        "weight of 0 or more.",
    ),
    "masked": (
        np.ma.array(np.ones(60), mask=np.arange(60) == 3),
        "sample_weight is not finite in 1 of 60 rows, first in row 3 (nan). Give every row a "
        "weight of 0 or more.",
    ),
    "all zero": (np.zeros(60), "sample_weight is zero in all 60 rows: there is nothing to fit."),
    "too short": (
        np.ones(5),
        "sample_weight has shape (5,); X has 60 rows, so it must be (60,).",
    ),
    "two dimensions": (
        np.ones((60, 1)),
        "sample_weight has shape (60, 1); X has 60 rows, so it must be (60,).",
    ),
    "text": (
        ["heavy"] * 60,
        "sample_weight must hold one number for each row; it holds 'heavy'.",
    ),
    "complex": (
        np.full(60, 1j),
        "sample_weight must hold one number for each row; it holds 1j.",
    ),
}


@pytest.mark.parametrize(("weight", "message"), WEIGHTS.values(), ids=WEIGHTS)
def test_bad_weights_are_refused(weight, message):
    with raises(message):
        GaussianMixture().fit(make_table(), sample_weight=weight)


# ------------------------------------------------------------------ validation rows


def test_bad_validation_rows_are_refused():
    x = make_table()
    with raises("X has 2 features, but GaussianMixture is expecting 3 features as input."):
        GaussianMixture().fit(x, X_val=x[:, :2])
    with pytest.raises(ValueError, match=r"in 3 cells, first in row 0, column 0 \(inf\)"):
        GaussianMixture().fit(x, X_val=np.full((1, 3), np.inf))
    with pytest.raises(ValueError, match="None of the 4 rows of X_val has an observed value"):
        GaussianMixture().fit(x, X_val=np.full((4, 3), np.nan))


@pytest.mark.parametrize("n_components", [1, 5])
def test_a_validation_fraction_that_leaves_few_rows(n_components):
    x = make_table(8)
    x[:, 0] = np.arange(8.0)
    mixture = GaussianMixture(n_components, validation_fraction=0.9, random_state=0)
    if n_components == 1:
        assert_usable(mixture.fit(x), x)
    else:
        with pytest.raises(ValueError, match=r"5 components .* 1 row.*validation_fraction"):
            mixture.fit(x)


@pytest.mark.parametrize(
    "change", [{"n_components": 3}, {"covariance_type": "diag"}], ids=["components", "type"]
)
def test_a_warm_start_that_does_not_fit_is_refused(change):
    x = make_table()
    mixture = fit_quietly(x, n_components=2, warm_start=True).set_params(**change)
    with pytest.raises(ValueError, match="warm_start"):
        mixture.fit(x)


def test_a_warm_start_with_other_columns_is_refused():
    mixture = fit_quietly(make_table(), n_components=2, warm_start=True)
    with pytest.raises(ValueError, match="warm_start"):
        mixture.fit(make_table()[:, :2])


# ------------------------------------------------------------------ parameters

WHOLE = "Invalid value for {!r}: {!r}. It must be a whole number of at least 1."
NUMBER = "Invalid value for {!r}: {!r}. It must be a number of at least 0{}."
KEEP = (
    "Invalid value for 'keep_components': {!r}. It must be a share between 0 and 1, a number of "
    "components of at least 1, or None."
)
SHARE = "validation_fraction={!r} must lie strictly between 0 and 1, or be None."
N_JOBS = (
    "Invalid value for 'n_jobs': {!r}. It must be a whole number of threads, -1 for all cores, or "
    "None."
)
PARAMETERS = [
    *(
        (name, value, WHOLE.format(name, value))
        for name in ("n_components", "max_iter", "n_init", "patience", "verbose_interval")
        for value in (0, -1, 1.5, "2", None, True)
    ),
    *(
        (name, value, NUMBER.format(name, value, also))
        for name, also in (
            ("tol", ""),
            ("reg_covar", ""),
            ("diagonal_loading", ""),
            ("shrinkage", " or 'auto'"),
            ("mean_shrinkage", " or 'auto'"),
            ("fill", " or 'mean' or 'next'"),
        )
        for value in (-1.0, np.nan, np.inf, "x", None, True, [1.0])
    ),
    *(
        (name, value, f"{name}={value!r} is not known. Use {allowed}.")
        for name, allowed in (
            ("covariance_type", "one of 'full', 'tied', 'diag', 'spherical'"),
            ("init_params", "one of 'kmeans', 'k-means++', 'random', 'random_from_data'"),
            ("weights", "one of 'learned', 'equal'"),
            ("init_covariance", "one of 'available', 'filled'"),
            ("accelerate", "one of 'auto', 'squarem', 'anderson', None"),
            (
                "engine",
                "'threads', 'dask', the address of a Dask scheduler ('tcp://host:8786') or a Dask "
                "client",
            ),
        )
        for value in ("x", 3, ["full"], np.array(["full", "tied"]))
    ),
    *(("keep_components", v, KEEP.format(v)) for v in (0, 0.0, -1, 1.5, "x", True, np.nan)),
    *(("validation_fraction", v, SHARE.format(v)) for v in (0, 1, 1.5, -0.1, "x", True, np.nan)),
    *(("n_jobs", value, N_JOBS.format(value)) for value in (0, 1.5, "x", True)),
    *(
        ("warm_start", v, f"Invalid value for 'warm_start': {v!r}. It must be True or False.")
        for v in ("yes", None, 1)
    ),
    *(
        (
            "verbose",
            v,
            f"Invalid value for 'verbose': {v!r}. It must be a whole number of at least 0.",
        )
        for v in (-1, "x", None, 1.5)
    ),
    ("fill", 0.0, "fill=0 leaves no variance outside the kept components; use more."),
    ("random_state", "x", "'x' cannot be used to seed a numpy.random.RandomState instance"),
    ("weights_init", [0.5], "weights_init has shape (1,); it must be (2,)."),
    (
        "weights_init",
        [0.5, 0.6],
        "weights_init must be non-negative and sum to 1; it sums to 1.1 and its smallest is 0.5.",
    ),
    (
        "weights_init",
        [-0.5, 1.5],
        "weights_init must be non-negative and sum to 1; it sums to 1 and its smallest is -0.5.",
    ),
    (
        "weights_init",
        "x",
        "weights_init must be an array of numbers of shape (2,): could not convert string to "
        "float: 'x'.",
    ),
    ("means_init", np.zeros((2, 2)), "means_init has shape (2, 2); it must be (2, 3)."),
    (
        "means_init",
        [[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]],
        "means_init holds nan at (1, 1); every value must be finite.",
    ),
    ("precisions_init", np.eye(3), "precisions_init has shape (3, 3); it must be (2, 3, 3)."),
    (
        "precisions_init",
        np.stack([np.eye(3), -np.eye(3)]),
        "precisions_init: the matrix of component 1 is not positive definite.",
    ),
    (
        "precisions_init",
        np.stack([np.eye(3), np.eye(3) + np.eye(3, k=1)]),
        "precisions_init: the matrix of component 1 is not symmetric.",
    ),
]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    PARAMETERS,
    ids=[f"{name}={v!r}"[:40] for name, v, _ in PARAMETERS],
)
def test_bad_parameters_are_refused_by_name_at_fit(name, value, message):
    mixture = GaussianMixture(**{"n_components": 2, name: value})
    with raises(message):
        mixture.fit(make_table())


@pytest.mark.parametrize("value", ["x", None, "diagonal"])
def test_an_unknown_solver_is_refused_with_the_known_ones(value):
    with pytest.raises(ValueError, match=rf"^solver={value!r} is not known\. Use one of 'auto', "):
        GaussianMixture(solver=value).fit(make_table())


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_precisions_that_are_not_positive_are_refused(kind):
    shape = (2, 3) if kind == "diag" else (2,)
    with raises("precisions_init must be positive; its smallest is 0."):
        GaussianMixture(2, covariance_type=kind, precisions_init=np.zeros(shape)).fit(make_table())


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", None, True])
def test_bad_numbers_of_draws_are_refused(value):
    mixture = fit_quietly(make_table())
    with raises(WHOLE.format("n_draws", value)):
        mixture.sample_missing(make_table(), n_draws=value)
    with raises(WHOLE.format("n_samples", value)):
        mixture.sample(value)


def test_parameters_are_not_changed_by_a_fit():
    mixture = GaussianMixture(2, means_init=[[0, 0, 0], [1, 1, 1]], random_state=3)
    before = mixture.get_params()
    mixture.fit(make_table())
    assert mixture.get_params() == before


def test_a_collapse_without_regulariser_is_explained():
    with pytest.raises(ValueError, match=r"reg_covar") as caught:
        GaussianMixture(reg_covar=0.0).fit(
            pd.DataFrame(copied_column(1.0), columns=["left", "right", "copy"])
        )
    assert "'copy'" in str(caught.value)
