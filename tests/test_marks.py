"""Marks of gaps for single columns, and marks that take much of a column."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from gapmix import GaussianMixtureImputer, load, save


@pytest.fixture(scope="module")
def tables():
    """Return a table with marks of its own in three columns, and the same with plain gaps."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=80)
    plain = pd.DataFrame(
        {
            "age": np.round(40 + 10 * z),
            "zeros": rng.integers(0, 3, 80).astype(float),
            "rain": np.exp(z),
            "kind": np.where(z > 0, "a", "b"),
        }
    )
    holes = pd.DataFrame(rng.random(plain.shape) < 0.15, columns=plain.columns)
    holes["zeros"] = False
    gaps = plain.mask(holes)
    marks = {"age": 0, "rain": -200, "kind": "b?"}
    marked = gaps.fillna(marks)
    marked["age"] = marked["age"].astype(int)
    return marked, gaps, {"age": 0, "rain": [-200, -999], "kind": "b?"}


@pytest.mark.parametrize("kind", [pd.DataFrame, lambda frame: pl.from_pandas(frame)])
def test_marks_of_single_columns_are_gaps_there_and_values_elsewhere(tables, kind):
    marked, gaps, marks = tables
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = GaussianMixtureImputer(2, missing_values=marks, random_state=0).fit(kind(marked))
    plain = GaussianMixtureImputer(2, random_state=0).fit(gaps)
    filled, wanted = own.impute_frame(kind(marked)), plain.impute_frame(gaps)
    for name in gaps:
        assert list(filled[name]) == list(wanted[name]), name
    assert (np.asarray(filled["zeros"]) == marked["zeros"]).all()
    assert str(filled["age"].dtype).lower() == "int64"


def test_they_are_named_by_number_in_arrays_and_kept_in_files(tables, tmp_path):
    marked, gaps, _ = tables
    x, plain = marked.drop(columns="kind").to_numpy(), gaps.drop(columns="kind").to_numpy()
    imputer = GaussianMixtureImputer(2, missing_values={0: 0, 2: -200}, random_state=0).fit(x)
    wanted = GaussianMixtureImputer(2, random_state=0).fit(plain).transform(plain)
    np.testing.assert_array_equal(imputer.transform(x), wanted)
    save(imputer, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").transform(x), wanted)


def test_unknown_columns_are_refused_by_name(tables):
    marked, _, _ = tables
    with pytest.raises(
        ValueError, match="missing_values name the column 'agee', but the table has "
    ):
        GaussianMixtureImputer(1, missing_values={"agee": 0}).fit(marked)


def test_a_mark_that_takes_much_of_a_column_is_a_warning(tables):
    marked, _, _ = tables
    numbers = marked[["age", "zeros"]]
    with pytest.warns(UserWarning, match=r"Column 'zeros': 0 is taken as a gap in \d+ cells, 3. %"):
        GaussianMixtureImputer(1, missing_values=0).fit(numbers)
