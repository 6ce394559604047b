"""Every kind of table gives the same fit, and the columns' names are remembered."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gapmix import GaussianMixture, GaussianMixtureImputer
from gapmix.multiple import impute_many

NAMES = ["height", "weight", "age"]


def make_table() -> np.ndarray:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3)) + [170.0, 70.0, 40.0]
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


def with_none(x: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in x]


def fit(X: object, **settings: object) -> GaussianMixture:
    return GaussianMixture(2, random_state=0, **settings).fit(X)


def columns(x: np.ndarray) -> dict[str, list[float | None]]:
    rows = with_none(x)
    return {name: [row[j] for row in rows] for j, name in enumerate(NAMES)}


UNNAMED = {
    "list of lists with None": with_none,
    "list of lists with NaN": lambda x: x.tolist(),
    "tuple of tuples": lambda x: tuple(map(tuple, x)),
    "list of arrays": list,
    "object array": lambda x: np.array(with_none(x), dtype=object),
    "masked array": lambda x: np.ma.array(np.nan_to_num(x, nan=-999.0), mask=np.isnan(x)),
    "list of masked rows": lambda x: list(
        np.ma.array(np.nan_to_num(x, nan=-999.0), mask=np.isnan(x))
    ),
    "Fortran order": np.asfortranarray,
    "big endian": lambda x: x.astype(">f8"),
    "long double": lambda x: x.astype(np.longdouble),
    "a view with strides": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
    "pandas with numbers as names": pd.DataFrame,
    "pyarrow record batch": lambda x: pa.record_batch(columns(x)),
}
NAMED = {
    "pandas": lambda x: pd.DataFrame(x, columns=NAMES),
    "pandas with an index": lambda x: pd.DataFrame(
        x, columns=NAMES, index=[f"row {i}" for i in range(len(x))[::-1]]
    ),
    "pandas Float64": lambda x: pd.DataFrame(x, columns=NAMES).astype("Float64"),
    "pandas Arrow": lambda x: pd.DataFrame(x, columns=NAMES).astype("double[pyarrow]"),
    "pandas object with NA": lambda x: (
        pd.DataFrame(x, columns=NAMES).astype(object).where(~np.isnan(x), pd.NA)
    ),
    "polars nulls": lambda x: pl.DataFrame(columns(x)),
    "polars NaN": lambda x: pl.DataFrame(x, schema=NAMES),
    "polars in chunks": lambda x: pl.concat(
        [pl.DataFrame(x[:30], schema=NAMES), pl.DataFrame(x[30:], schema=NAMES)], rechunk=False
    ),
    "pyarrow nulls": lambda x: pa.table(columns(x)),
    "pyarrow in chunks": lambda x: pa.concat_tables(
        [pa.table(columns(x[:30])), pa.table(columns(x[30:]))]
    ),
}


@pytest.mark.parametrize("make", [*UNNAMED.values(), *NAMED.values()], ids=[*UNNAMED, *NAMED])
def test_every_container_gives_the_same_fit_and_the_same_answers(make):
    x = make_table()
    expected, found = fit(x), fit(make(x))
    np.testing.assert_array_equal(found.means_, expected.means_)
    np.testing.assert_array_equal(found.covariances_, expected.covariances_)
    assert found.lower_bounds_ == expected.lower_bounds_
    np.testing.assert_array_equal(found.impute(make(x)), expected.impute(x))
    np.testing.assert_array_equal(found.score_samples(make(x)), expected.score_samples(x))


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED)
def test_names_are_recorded(make):
    fitted = fit(make(make_table()))
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.n_features_in_ == 3


@pytest.mark.parametrize("make", UNNAMED.values(), ids=UNNAMED)
def test_tables_without_names_record_none(make):
    fitted = fit(make(make_table()))
    assert not hasattr(fitted, "feature_names_in_")
    assert fitted.n_features_in_ == 3


@pytest.mark.parametrize("fit_on", ["pandas", "polars nulls", "pyarrow nulls"])
@pytest.mark.parametrize("ask_with", ["pandas", "polars nulls", "pyarrow nulls"])
def test_a_fit_on_one_kind_of_frame_answers_for_another(fit_on, ask_with):
    x = make_table()
    fitted = fit(NAMED[fit_on](x))
    np.testing.assert_array_equal(fitted.predict(NAMED[ask_with](x)), fit(x).predict(x))


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None, 3, 2] * 20, dtype="Int64"),
        pd.array([1, None, 3, 2] * 20, dtype="UInt8"),
        pd.array([1, None, 3, 2] * 20, dtype="Float32"),
        pd.array([1, None, 3, 2] * 20, dtype="int64[pyarrow]"),
        pd.array([1, None, 3, 2] * 20, dtype="float[pyarrow]"),
        pd.array(
            [decimal.Decimal(v) if v else None for v in [1, 0, 3, 2] * 20],
            dtype=pd.ArrowDtype(pa.decimal128(5, 1)),
        ),
        pd.Series([decimal.Decimal(v) if v else None for v in [1, 0, 3, 2] * 20], dtype=object),
        pd.Series([1, pd.NA, np.int8(3), 2.0] * 20, dtype=object),
        pd.Series([1, pd.NaT, 3, 2] * 20, dtype=object),
        pd.arrays.SparseArray([1.0, np.nan, 3.0, 2.0] * 20),
    ],
    ids=lambda column: str(column.dtype),
)
def test_nullable_numbers_are_numbers_and_their_gaps_are_gaps(column):
    x = make_table()
    expected = fit(np.column_stack([x, [1.0, np.nan, 3.0, 2.0] * 20]))
    found = fit(pd.DataFrame(x, columns=NAMES).assign(code=column))
    np.testing.assert_array_equal(found.means_, expected.means_)
    np.testing.assert_array_equal(found.covariances_, expected.covariances_)


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", object])
def test_nullable_booleans_are_zero_and_one(dtype):
    x = make_table()
    expected = fit(np.column_stack([x, [1.0, np.nan, 0.0, 0.0] * 20]))
    column = pd.Series([True, None, False, False] * 20, dtype=dtype)
    frame = pd.DataFrame(x, columns=NAMES).assign(flag=column)
    found = fit(frame, categorical_features=None)
    np.testing.assert_array_equal(found.means_, expected.means_)
    assert fit(frame).categories_[0].tolist() == [False, True]


def test_plain_integers_and_booleans_are_read_as_numbers():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (60, 3))
    for given in (x, x.astype(np.uint8), x.astype(np.float16), x.astype(np.float32), x.tolist()):
        np.testing.assert_array_equal(fit(given).means_, fit(x.astype(float)).means_)
    np.testing.assert_array_equal(fit(x > 4).means_, fit((x > 4).astype(float)).means_)


def test_float32_results_are_float64():
    fitted = fit(make_table().astype(np.float32))
    assert fitted.means_.dtype == fitted.covariances_.dtype == np.float64


BIG = 2**60 + 1
LONG = decimal.Decimal("12345678901234567890.25")
EXACT = {  # columns with a gap in row 1, of values that float64 does not hold
    "pandas Int64": lambda: pd.DataFrame({"c": pd.array([BIG, None, 3] * 20, dtype="Int64")}),
    "pandas UInt64": lambda: pd.DataFrame(
        {"c": pd.array([2**64 - 1, None, 3] * 20, dtype="UInt64")}
    ),
    "pandas Arrow": lambda: pd.DataFrame(
        {"c": pd.array([BIG, None, 3] * 20, dtype="int64[pyarrow]")}
    ),
    "pandas Arrow decimals": lambda: pd.DataFrame(
        {"c": pd.array([LONG, None, decimal.Decimal(3)] * 20, pd.ArrowDtype(pa.decimal128(30, 2)))}
    ),
    "pandas objects": lambda: pd.DataFrame({"c": pd.Series([BIG, None, 3] * 20, dtype=object)}),
    "pandas decimals": lambda: pd.DataFrame(
        {"c": pd.Series([LONG, None, decimal.Decimal(3)] * 20, dtype=object)}
    ),
    "polars Int64": lambda: pl.DataFrame({"c": [BIG, None, 3] * 20}),
    "polars UInt64": lambda: pl.DataFrame(
        {"c": [2**64 - 1, None, 3] * 20}, schema={"c": pl.UInt64}
    ),
    "polars decimals": lambda: pl.DataFrame(
        {"c": [LONG, None, decimal.Decimal(3)] * 20}, schema={"c": pl.Decimal(30, 2)}
    ),
    "pyarrow int64": lambda: pa.table({"c": [BIG, None, 3] * 20}),
    "pyarrow uint64": lambda: pa.table({"c": pa.array([2**64 - 1, None, 3] * 20, pa.uint64())}),
    "pyarrow decimals": lambda: pa.table(
        {"c": pa.array([LONG, None, decimal.Decimal(3)] * 20, pa.decimal128(30, 2))}
    ),
}


def cells(frame):
    if isinstance(frame, pa.Table):
        return frame["c"].to_pylist()
    return frame["c"].to_list()


def dtype(frame):
    return frame.schema.field("c").type if isinstance(frame, pa.Table) else frame["c"].dtype


@pytest.mark.filterwarnings("ignore:Column 'c'. the value")
@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
def test_observed_cells_are_kept_exactly_whatever_their_type(make):
    frame = make()
    imputer = GaussianMixtureImputer(1).fit(frame)
    for filled in (imputer.impute_frame(frame), *impute_many(frame, 1, imputer=imputer)):
        assert dtype(filled) == dtype(frame)
        for given, found in zip(cells(frame), cells(filled), strict=True):
            missing = given is None or given is pd.NA
            assert found is not None and found is not pd.NA if missing else found == given


@pytest.mark.parametrize("kind", ["Int8", "UInt16", "Int64", "Float32", "Float64"])
def test_columns_keep_their_types(kind):
    frame = pd.DataFrame({"c": pd.array([2, None, 3] * 20, dtype=kind)})
    filled = GaussianMixtureImputer(1).fit(frame).impute_frame(frame)
    assert filled["c"].dtype == frame["c"].dtype
    assert filled["c"][frame["c"].notna()].tolist() == frame["c"].dropna().tolist()
    assert set(filled["c"]) == {2, 3}


def test_integers_called_numbers_become_float64():
    frame = pd.DataFrame({"c": pd.array([2, None, 3, 7] * 20, dtype="Int64")})
    imputer = GaussianMixtureImputer(1, column_kinds={"c": "number"}, limits=None)
    filled = imputer.fit(frame).impute_frame(frame)
    assert filled["c"].dtype == float
    assert filled["c"][1] == pytest.approx(4.0, abs=1e-6)


def test_what_is_rounded_stays_within_its_type():
    rng = np.random.default_rng(0)
    values = [None if rng.random() < 0.3 else int(v) for v in rng.integers(0, 2**63, 200)]
    frame = pl.DataFrame(
        {"c": [v if v is None else 2 * v for v in values], "x": rng.normal(size=200)},
        schema={"c": pl.UInt64, "x": pl.Float64},
    )
    imputer = GaussianMixtureImputer(1).fit(frame)
    far = frame.with_columns(x=pl.Series(rng.normal(size=200) * 1e6))
    filled = imputer.impute_frame(far)
    assert filled["c"].dtype == pl.UInt64
    assert filled.filter(frame["c"].is_not_null()).equals(far.filter(frame["c"].is_not_null()))


def test_a_frame_is_left_as_it_was():
    frame = pd.DataFrame(make_table(), columns=NAMES)
    before = frame.copy(deep=True)
    fit(frame).impute(frame)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", "Float32", "Float64", "Int8", "Int64", "float[pyarrow]"],
)
def test_columns_of_pandas_keep_their_types_when_filled(dtype):
    x = 5.0 * np.random.default_rng(0).normal(size=(40, 2))
    x[::5, 0] = np.nan
    x = x.round() if dtype.startswith("Int") else x
    frame = pd.DataFrame({"a": pd.Series(x[:, 0]).astype(dtype), "b": x[:, 1]})
    filled = GaussianMixtureImputer(1, random_state=0).fit(frame).impute_frame(frame)
    assert filled["a"].dtype == frame["a"].dtype
    assert filled["a"].notna().all()
    known = frame["a"].notna()
    assert (filled["a"][known] == frame["a"][known]).all()
