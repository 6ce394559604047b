"""Values, types, shapes and names that cannot be used are refused with their place."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bad_tables import (
    COVARIANCE_TYPES,
    TEXT_ADVICE,
    assert_usable,
    fit_quietly,
    make_frame,
    make_table,
    put,
    raises,
)
from every_estimator import KINDS, NEW, Kind, answer
from scipy import sparse
from sklearn.exceptions import NotFittedError

from gapmix import GaussianMixture, GaussianMixtureImputer


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request) -> Kind:
    return request.param


# ------------------------------------------------------------------ values that cannot be used


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1.7e308])
def test_infinity_is_refused_with_its_place(kind, value):
    message = (
        f"X contains infinity or a number beyond 1e+300 in 1 cell, first in row 5, column 1 "
        f"({value:g}). Replace it by NaN if it stands for a gap, or change the column's units."
    )
    with raises(message):
        kind.fit(put(value))


def test_infinity_in_a_frame_is_refused_with_the_columns_name(kind):
    frame = make_frame()
    frame.loc[[7, 9], "c"] = -np.inf
    message = (
        "X contains infinity or a number beyond 1e+300 in 2 cells, first in row 7, column 'c' "
        "(-inf). Replace it by NaN if it stands for a gap, or change the column's units."
    )
    with raises(message):
        kind.fit(frame)
    with raises(message.replace("'c'", "30")):
        kind.fit(frame.set_axis([10, 20, 30], axis=1))


@pytest.mark.parametrize(
    "X",
    [
        [[10**400, 1.0], [2.0, 3.0], [4.0, 5.0]],
        np.array([["1e400", "1"], ["2", "3"], ["4", "5"]]).astype(np.longdouble),
    ],
    ids=["Python integer", "long double"],
)
def test_numbers_beyond_float64_are_refused_with_their_place(kind, X):
    with pytest.raises(ValueError, match=r"in 1 cell, first in row 0, column 0 \(inf\)"):
        kind.fit(X)


def test_scales_whose_squares_leave_float64_are_refused(kind):
    x = np.array([[1.0], [2.0], [3.0], [4.0]])
    message = (
        "Column 0: values vary on a scale of about 7.7e+199, whose square is outside the range of "
        "float64. Change the column's units first, for example divide it by 7.7e+199."
    )
    with raises(message):
        kind.fit(x * 0.6e200)
    with pytest.raises(ValueError, match=r"^Columns 0, 2: values vary on a scale of about"):
        kind.fit(make_table() * [1e-310, 1.0, 1e-310])


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


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
def test_rows_beyond_all_reach_are_refused_by_every_answer(kind):
    frame = pd.DataFrame(put(1e200), columns=list("abc"))
    fitted = kind.fit(make_frame())
    for method in kind.answers:
        with pytest.raises(ValueError, match=r"in 1 cell, first in row 5, column 'b' \(1e\+200\)"):
            getattr(fitted, method)(frame)


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
def test_rows_far_away_get_finite_answers_of_every_kind(kind):
    fitted = kind.fit(make_table(), n_components=2)
    for value in (1e8, -1e30, 1e90):
        for result in answer(fitted, kind, put(value)):
            assert np.isfinite(result).all()


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
def test_text_is_refused_with_its_place_unless_it_is_a_category(kind, X, start):
    with raises(f"{start} is text, not a number. {TEXT_ADVICE}"):
        kind.fit(X, categorical_features=None)


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
def test_numbers_written_as_text_are_refused_with_the_way_to_convert_them(kind, X, where):
    message = f"{where} is text, not a number. Convert the column first, for example with "
    with raises(f"{message}pandas.to_numeric."):
        kind.fit(X)


OTHER_TYPES = {
    "pandas category": (
        make_frame().assign(s=pd.Categorical([None, "x"] * 30)),
        "Column 's' holds Categorical values, not numbers; row 1 has 'x'. Leave it out, or turn it "
        "into numbers first, or name it in categorical_features.",
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
        "into numbers first, or name it in categorical_features.",
    ),
    "polars list": (
        pl.DataFrame({"a": [1.0, 2.0], "s": [[1, 2], [3]]}),
        "Column 's' holds List values, not numbers; row 0 has [1, 2]. Leave it out, or turn it "
        "into numbers first.",
    ),
    "pyarrow dictionary": (
        pa.table({"a": [1.0, 2.0], "s": pa.array(["x", None]).dictionary_encode()}),
        "Column 's' holds Categorical values, not numbers; row 0 has 'x'. Leave it out, or turn it "
        "into numbers first, or name it in categorical_features.",
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
def test_other_types_are_refused_with_an_example(kind, X, message):
    if kind is KINDS["imputer"] and "holds Date" in message:  # passes them through
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the gap that stays
            assert kind.fit(X, categorical_features=None).passed_ == {"s": "date"}
        return
    with raises(message):
        kind.fit(X, categorical_features=None)


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
def test_objects_that_are_not_numbers_are_refused_with_their_place(kind, X, message):
    with raises(f"{message} Leave the column out, or turn it into numbers first.", TypeError):
        kind.fit(X)


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


def test_a_mask_counts_in_every_estimator(kind):
    x = make_table()
    hidden = np.isnan(x)
    fitted = kind.fit(x)
    masked = np.ma.array(np.where(hidden, -999.0, x), mask=hidden)
    expected = answer(fitted, kind, x)
    for estimator in (fitted, kind.fit(masked)):
        for found, wanted in zip(answer(estimator, kind, masked), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_masked_integers_and_nan_beside_a_mask():
    masked = np.ma.masked_equal([[1, 2], [-999, 3], [4, -999], [3, 3]], -999)
    plain = [[1, 2], [np.nan, 3], [4, np.nan], [3, 3]]
    np.testing.assert_array_equal(fit_quietly(masked).means_, fit_quietly(plain).means_)
    x = make_table()
    np.testing.assert_array_equal(
        fit_quietly(np.ma.array(x, mask=False)).means_, fit_quietly(x).means_
    )


# ------------------------------------------------------------------ shapes


def test_too_few_rows_and_columns(kind):
    found = "Found array with {} (shape={}) while a minimum of {} is required by {}."
    name = kind.cls.__name__
    for X in (make_table(1), make_frame().iloc[:1]):
        with raises(found.format("1 sample(s)", (1, 3), 2, name)):
            kind.fit(X)
    for X in (np.empty((0, 3)), make_frame().iloc[:0], pl.from_pandas(make_frame()).head(0)):
        with raises(found.format("0 sample(s)", (0, 3), 2, name)):
            kind.fit(X)
    for X in (np.empty((5, 0)), pd.DataFrame(index=range(5)), [[]] * 5):
        with raises(found.format("0 feature(s)", (5, 0), 1, name)):
            kind.fit(X)
    with raises(found.format("0 sample(s)", (0, 3), 1, name)):
        answer(kind.fit(make_table()), kind, np.empty((0, 3)))


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
def test_one_dimension_is_refused(kind, X):
    with pytest.raises(ValueError, match="Reshape your data either using"):
        kind.fit(X)
    with pytest.raises(ValueError, match="Reshape your data either using"):
        answer(kind.fit(make_table()), kind, X)


@pytest.mark.parametrize("X", [pd.Series([1.0, 2.0]), pl.Series([1.0, 2.0])])
def test_a_series_is_refused_with_the_way_to_a_table(kind, X):
    message = (
        "Expected a table with rows and columns, got a Series, which has one dimension. Pass "
        "X.to_frame() if it is one column; to use one row of a data frame, select it with a list, "
        "as in frame.iloc[[0]]."
    )
    with raises(message):
        kind.fit(X)
    assert kind.fit(X.to_frame("a") if hasattr(X, "iloc") else X.to_frame())


def test_three_dimensions_are_refused(kind):
    with pytest.raises(ValueError, match="Found array with dim 3, while dim <= 2 is required by"):
        kind.fit(np.zeros((3, 2, 2)))


def test_rows_of_different_lengths_are_refused(kind):
    message = (
        "X could not be read as a table: row 0 has 2 values, row 2 has 1. Every row needs the same "
        "number; use NaN or None for gaps."
    )
    with raises(message):
        kind.fit([[1.0, 2.0], [3.0, 4.0], [5.0]])


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
def test_what_is_no_table_is_refused_with_the_way_to_one(kind, name):
    X, advice = CONTAINERS[name]
    message = (
        f"X is a {name} and could not be read as a table with rows and columns of numbers. Pass a "
        f"2-d array or a data frame{advice}."
    )
    with raises(message, TypeError):
        kind.fit(X)


def test_a_lazy_frame_is_refused(kind):
    with raises("X is a LazyFrame, which holds no values yet: pass X.collect().", TypeError):
        kind.fit(pl.DataFrame({"a": [1.0, 2.0]}).lazy())


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.coo_array, sparse.dia_matrix])
def test_sparse_matrices_are_refused(kind, make):
    message = (
        "X is a sparse matrix, which only GaussianMixtureImputer's fit and predict_cells take. "
        "Here pass X.toarray(), with NaN in the cells that are missing."
    )
    if kind.cls is not GaussianMixtureImputer:
        with raises(message, TypeError):
            kind.fit(make(np.eye(4)))
    with raises(message, TypeError):
        answer(kind.fit(make_table()), kind, make(np.eye(3)))


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "X",
    [
        make_frame().set_axis(["a", "b", "a"], axis=1),
        pa.Table.from_arrays([pa.array([1.0, 2.0])] * 3, names=["a", "b", "a"]),
    ],
    ids=["pandas", "pyarrow"],
)
def test_duplicate_names_are_refused(kind, X):
    message = (
        "The name 'a' is used by 2 columns, at positions 0, 2. Give every column its own name."
    )
    with raises(message):
        kind.fit(X)


def test_mixed_names_are_refused_as_in_scikit_learn(kind):
    with pytest.raises(TypeError, match="Feature names are only supported if all input features"):
        kind.fit(make_frame().set_axis(["a", 1, 2], axis=1))


def test_names_that_are_numbers_or_tuples_are_no_names():
    x = make_table()
    tuples = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
    for names in ([3, 1, 2], tuples):
        mixture = fit_quietly(pd.DataFrame(x, columns=names))
        assert not hasattr(mixture, "feature_names_in_")
        np.testing.assert_array_equal(mixture.means_, fit_quietly(x).means_)


def test_other_columns_than_fitted_are_refused(kind):
    name = kind.cls.__name__
    unnamed, named = kind.fit(make_table()), kind.fit(make_frame())
    for method in (*kind.answers, *(["bic"] if name == "GaussianMixture" else [])):
        ask = getattr(unnamed, method)
        for n_columns in (2, 4):
            with raises(
                f"X has {n_columns} features, but {name} is expecting 3 features as input."
            ):
                ask(make_table(5, n_columns))
        ask = getattr(named, method)
        mismatch = "The feature names should match those that were passed during fit.\n"
        with raises(f"{mismatch}Feature names seen at fit time, yet now missing:\n- c\n"):
            ask(make_frame()[["a", "b"]])
        with raises(f"{mismatch}Feature names unseen at fit time:\n- s\n"):
            ask(make_frame().assign(s="text"))
        with raises(f"{mismatch}Feature names must be in the same order as they were in fit.\n"):
            ask(make_frame()[["b", "a", "c"]])


def test_bad_cells_are_refused_when_answering(kind):
    fitted, frame = kind.fit(make_frame()), make_frame()
    frame.loc[5, "b"] = np.inf
    for method in kind.answers:
        ask = getattr(fitted, method)
        with pytest.raises(ValueError, match=r"first in row 5, column 'b' \(inf\)"):
            ask(frame)
        with raises(f"Row 0, column 'b': 'x' is text, not a number. {TEXT_ADVICE}"):
            ask(make_frame().assign(b="x"))


def test_answers_need_a_fit(kind):
    name = kind.cls.__name__
    for method in (*kind.answers, *(["score"] if name == "GaussianMixture" else [])):
        with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
            getattr(kind.cls(), method)(make_table())


def test_a_failed_fit_leaves_the_last_one_usable(kind):
    x = make_table()
    fitted = kind.fit(x)
    before = answer(fitted, kind, x)
    bad_rows = make_table(5, 4)
    for bad, weight in (
        (bad_rows * np.inf, None),
        ([["a", 1.0]] * 3, None),
        (np.empty((0, 2)), None),
        (bad_rows, -np.ones(5)),
        (pd.DataFrame(bad_rows, columns=list("abcd")), np.zeros(5)),
    ):
        with pytest.raises(ValueError):
            fitted.fit(bad, kind.target(5), sample_weight=weight)
        for found, wanted in zip(answer(fitted, kind, x), before, strict=True):
            np.testing.assert_array_equal(found, wanted)
