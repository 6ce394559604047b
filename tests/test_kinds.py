"""What columns are, and that nothing impossible is filled in."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import gapmix
from gapmix import GaussianMixtureImputer, kinds
from gapmix.multiple import impute_many


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "empty"),
        ([3.5] * 9, "constant"),
        ([0, 1] * 5, "two-valued"),
        ([-1.5, 7] * 5, "two-valued"),
        ([-1.5, 7], "number"),  # twice nothing: two values prove nothing yet
        ([1, 2, 3, 4, 5, 6], "whole"),
        ([1, 2, 3, 2.0**60], "positive"),
        ([-2, 5, 9], "whole"),
        ([0.0, 0.25, 1.0], "share"),
        ([0.0, 0.25, 1.5], "positive"),
        ([-0.1, 0.25, 0.5], "number"),
    ],
)
def test_kinds_are_told_from_values(values, kind):
    assert kinds.tell(kinds.look(np.array([*values, np.nan], dtype=float))) == kind


@pytest.mark.parametrize(
    ("values", "decimals"),
    [([1, 2], 0), ([0.1, 0.25], 2), ([1e6 + 0.001], 3), ([1 / 3], -1), ([1e-9], 9), ([1e300], -1)],
)
def test_digits_are_those_that_all_values_need(values, decimals):
    assert kinds.look(np.array(values, dtype=float)).decimals == decimals


def test_parts_of_a_column_show_together_what_the_whole_shows():
    rng = np.random.default_rng(0)
    columns = [
        rng.integers(0, 5, 60).astype(float),
        rng.integers(0, 500, 60).astype(float),
        np.round(rng.normal(size=60), 2),
        rng.normal(size=60),
        np.full(60, np.nan),
        np.repeat([2.0, 7.0], 30),
    ]
    for column in columns:
        parts = [kinds.look(part) for part in np.split(column, 4)]
        joined = kinds.ColumnValues()
        for part in parts:
            joined = kinds.join(joined, part)
        assert joined == kinds.look(column)


def make_frame(n=300, seed=0):
    """A frame whose columns are related, with a fifth of the cells missing, and all of them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    whole = pd.DataFrame(
        {
            "age": np.round(40 + 12 * z + 3 * rng.normal(size=n)),
            "count": rng.poisson(np.exp(0.6 * z)),
            "flag": (z + 0.5 * rng.normal(size=n) > 0).astype(int),
            "share": np.round(1 / (1 + np.exp(-2 * z)), 2),
            "amount": np.round(np.exp(z + 0.3 * rng.normal(size=n)), 3),
            "code": rng.choice([1, 2, 5, 9], n),
            "exact": z * np.pi,
            "same": 3.5,
        }
    ).astype(float)
    return whole.mask(rng.random(whole.shape) < 0.2), whole


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_get_only_values_that_their_columns_can_have(size, library):
    frame, whole = make_frame()
    given = frame if library == "pandas" else pl.from_pandas(frame)
    imputer = GaussianMixtureImputer(size, random_state=0).fit(given)
    assert list(imputer.column_kinds_.values()) == [
        *("whole", "whole", "two-valued", "share", "positive", "whole", "number", "constant")
    ]
    filled = imputer.impute_frame(given)
    filled = filled if library == "pandas" else filled.to_pandas()
    assert not filled.isna().any().any()
    gaps = frame.isna()
    for name in frame:
        new, old = filled[name][gaps[name]], frame[name].dropna()
        assert new.between(old.min(), old.max()).all(), name
        assert (filled[name][~gaps[name]] == old).all()
    for name in ("age", "count"):
        assert (filled[name] == filled[name].round()).all()
    assert set(filled["flag"]) == {0, 1}
    assert set(filled["code"]) <= {1, 2, 5, 9}
    assert (filled["share"].round(2) == filled["share"]).all()
    assert (filled["amount"].round(3) == filled["amount"]).all()
    assert (filled["same"] == 3.5).all()
    assert (whole.std() >= 0).all()


def test_transform_gives_means_within_the_range_seen():
    frame, _ = make_frame()
    x = frame.to_numpy()
    filled = GaussianMixtureImputer(2, random_state=0).fit_transform(x)
    free = GaussianMixtureImputer(2, random_state=0, limits=None).fit_transform(x)
    gaps = np.isnan(x)
    low, high = np.nanmin(x, axis=0), np.nanmax(x, axis=0)
    assert ((filled >= low) & (filled <= high)).all()
    np.testing.assert_array_equal(filled[gaps], np.clip(free, low, high)[gaps])
    assert not (filled == free).all()  # something had to be brought back
    flag = filled[gaps[:, 2], 2]
    assert ((flag > 0.05) & (flag < 0.95)).any()  # not rounded: pipelines expect means


def test_draws_and_intervals_have_values_of_their_kind_but_may_leave_the_range_seen():
    frame, _ = make_frame()
    x = frame.to_numpy()
    imputer = GaussianMixtureImputer(1, random_state=0).fit(x)
    gaps = np.isnan(x)
    draws = imputer.sample(x, 300, random_state=0)
    low, high = imputer.intervals(x, 0.95)
    for values in (*draws, low, high):
        for j in (0, 1):
            assert (values[:, j] == np.round(values[:, j])).all()
        assert (values[:, [1, 3, 4]] >= 0).all()
        assert (values[:, 3] <= 1).all()
        assert set(values[:, 2]) <= {0, 1}
        assert set(values[:, 5]) <= {1, 2, 5, 9}
        assert (values[:, 7] == 3.5).all()
    beyond = (draws > np.nanmax(x, axis=0)) | (draws < np.nanmin(x, axis=0))
    assert beyond[:, gaps[:, 4], 4].any()
    for table in impute_many(frame, 2, imputer=imputer, random_state=0):
        assert set(table["flag"]) == {0, 1}


def test_few_steps_that_are_no_whole_numbers_are_kept_to():
    rng = np.random.default_rng(0)
    z = rng.normal(size=400)
    x = np.column_stack([np.round(2 * z) / 2, z + 0.3 * rng.normal(size=400)])
    x[:, 0] = np.clip(x[:, 0], -1.5, 1.5)
    x[rng.random(400) < 0.3, 0] = np.nan
    frame = pd.DataFrame(x, columns=["step", "z"])
    filled = GaussianMixtureImputer(1).fit(frame).impute_frame(frame)
    assert set(filled["step"]) == set(np.arange(-1.5, 2.0, 0.5))
    free = GaussianMixtureImputer(1, limits=None).fit(frame).impute_frame(frame)
    assert len(set(free["step"])) > 7


def test_declared_bounds_win_over_the_range_seen():
    x = np.array([[1.0, 2], [2, 4], [3, 5], [4, 9], [np.nan, 30], [5, np.nan], [2, 5], [4, 7]])
    far = GaussianMixtureImputer(1, bounds={0: (0, 12.5)}).fit(x)
    seen = GaussianMixtureImputer(1).fit(x)
    assert seen.transform(x)[4, 0] == 5
    assert 5 < far.transform(x)[4, 0] <= 12.5
    assert far.impute_frame(pd.DataFrame(x))[0][4] == 12  # 12.5 is no whole number


def test_kinds_can_be_declared_by_name_or_number():
    frame, _ = make_frame()
    declared = {"age": "number", "code": "number", "exact": "number"}
    imputer = GaussianMixtureImputer(1, column_kinds=declared).fit(frame)
    assert imputer.column_kinds_["age"] == "number"
    filled = imputer.impute_frame(frame)
    assert not set(filled["code"]) <= {1, 2, 5, 9}
    by_number = GaussianMixtureImputer(1, column_kinds={0: "number"}).fit(frame.to_numpy())
    assert by_number.column_kinds_[0] == "number"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"exact": "whole"}, "not all values are whole numbers"),
        ({"code": "two-valued"}, "does not have two values; it has 1, 2, 5, 9"),
        ({"amount": "share"}, "the values go from"),
        ({"exact": "positive"}, "the smallest value is -"),
        ({"nowhere": "whole"}, "column_kinds name the column 'nowhere'"),
        ({"age": "integer"}, "Use one of 'number', 'whole'"),
        ({"age": "category"}, "categorical_features"),
        ("whole", "Use 'auto', or a dict"),
    ],
)
def test_kinds_that_cannot_be_are_refused(asked, message):
    frame, _ = make_frame()
    with pytest.raises(ValueError, match=message):
        GaussianMixtureImputer(1, column_kinds=asked).fit(frame)


def test_limits_that_are_not_known_are_refused():
    with pytest.raises(ValueError, match="limits='range' is not known"):
        GaussianMixtureImputer(1, limits="range").fit(np.eye(4))


def test_rows_of_weight_zero_do_not_widen_the_range():
    x = np.array([[1.0, 1], [2, 2], [3, 3], [900, 3], [np.nan, 3]])
    imputer = GaussianMixtureImputer(1).fit(x, sample_weight=[1, 1, 1, 0, 1])
    assert imputer.column_values_[0].high == 3


def test_kinds_travel_with_the_model(tmp_path):
    frame, _ = make_frame()
    imputer = GaussianMixtureImputer(2, random_state=0, column_kinds={"age": "number"}).fit(frame)
    gapmix.save(imputer, tmp_path / "model")
    again = gapmix.load(tmp_path / "model")
    assert again.column_kinds_ == imputer.column_kinds_
    assert again.column_values_ == imputer.column_values_
    pd.testing.assert_frame_equal(again.impute_frame(frame), imputer.impute_frame(frame))


def test_kinds_that_cannot_be_are_refused_before_the_fit(monkeypatch):
    frame, _ = make_frame()
    monkeypatch.setattr("gapmix.estimators.imputer.choose", lambda *_: pytest.fail("it was fitted"))
    with pytest.raises(ValueError, match="not all values are whole"):
        GaussianMixtureImputer(1, column_kinds={"exact": "whole"}).fit(frame)


def test_a_column_without_values_stays_empty_in_a_frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": np.nan, "c": rng.normal(size=40)})
    frame.loc[::5, "a"] = np.nan
    before = frame.copy()
    with pytest.warns(UserWarning, match="Column 'b' has no observed value"):
        imputer = GaussianMixtureImputer(1, random_state=0).fit(frame)
    filled = imputer.impute_frame(frame)
    assert filled["b"].isna().all()
    assert filled[["a", "c"]].notna().all(axis=None)
    assert np.isfinite(imputer.transform(frame)).all()
    pd.testing.assert_frame_equal(frame, before)
