"""Whole data frames as they are: ids, dates and texts pass through, the rest is filled."""

import warnings
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from gapmix import GaussianMixtureImputer, load, save
from gapmix.cli.main import main
from gapmix.multiple import impute_many

FILLED = ["age", "smokes", "city", "const", "lab"]
PASSED = {"id": "id", "when": "date", "note": "text"}
KINDS = [pd.DataFrame, pl.from_pandas, lambda frame: pl.from_pandas(frame).to_arrow()]


@pytest.fixture(scope="module")
def messy():
    """Return a table with about everything that tables have."""
    rng = np.random.default_rng(0)
    n = 120
    z = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "id": [f"p{i:04d}" for i in range(n)],
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "age": np.round(40 + 10 * z),
            "smokes": rng.integers(0, 2, n).astype(float),
            "city": rng.choice(["Rome", "Oslo", "Bern"], n),
            "const": 7.0,
            "lab": np.round(np.exp(z + 0.3 * rng.normal(size=n)), 2),
            "note": [f"visit {i if i % 3 else 0}" for i in range(n)],
        }
    )
    frame = frame.mask(rng.random(frame.shape) < 0.12)
    frame.loc[frame.index[::15], "lab"] = -999
    return frame


def fit(frame, **settings):
    """Return an imputer of two components that knows of -999."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = {"n_components": 2, "random_state": 0, "missing_values": {"lab": -999}} | settings
        return GaussianMixtureImputer(**own).fit(frame)


def to_lists(frame):
    """Return the columns of a frame as lists, None for gaps."""
    if hasattr(frame, "iloc"):
        frame = pl.from_pandas(frame)
    return pl.DataFrame(frame).to_dict(as_series=False)


def test_gaps_that_stay_are_named_with_what_to_do(messy):
    n_gaps = messy.isna().sum()
    wanted = (
        rf"'id' \(an id; {n_gaps['id']} gaps left\), 'when' \(dates; {n_gaps['when']} gaps left\), "
        rf"'note' \(texts; {n_gaps['note']} gaps left\).*column_kinds"
    )
    with pytest.warns(UserWarning, match=wanted):
        GaussianMixtureImputer(1, missing_values={"lab": -999}).fit(messy)


@pytest.mark.parametrize("kind", KINDS)
def test_a_messy_frame_is_filled_as_the_command_line_fills_its_file(messy, kind, tmp_path):
    frame = kind(messy)
    imputer = fit(frame)
    assert imputer.passed_ == PASSED
    assert {name: imputer.column_kinds_[name] for name in PASSED} == PASSED
    filled, given = to_lists(imputer.impute_frame(frame)), to_lists(frame)
    assert list(filled) == list(messy.columns)
    for name in PASSED:
        assert filled[name] == given[name]
    messy.to_csv(tmp_path / "in.csv", index=False)
    options = ["--components", "2", "--seed", "0", "--quiet", "--missing-values", "lab=-999"]
    assert not main(["impute", str(tmp_path / "in.csv"), "-o", str(tmp_path / "o.csv"), *options])
    written = pl.read_csv(tmp_path / "o.csv").to_dict(as_series=False)
    for name in FILLED:
        assert None not in filled[name]
        assert filled[name] == written[name], name


def test_other_answers_leave_them_out_and_files_know_them(messy, tmp_path):
    imputer = fit(messy)
    assert imputer.transform(messy).shape == (len(messy), 5)
    assert imputer.get_feature_names_out().tolist() == FILLED
    assert imputer.sample(messy, 2).shape == (2, len(messy), 5)
    assert imputer.intervals(messy)[0].shape == (len(messy), 5)
    save(imputer, tmp_path / "model")
    again = load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.impute_frame(messy), imputer.impute_frame(messy))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = GaussianMixtureImputer(1, missing_values={"lab": -999})
        many = impute_many(messy, 2, imputer=settings, bootstrap=None, random_state=0)
    assert list(many[0].columns) == list(messy.columns)
    assert many[0][FILLED].notna().all().all()


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_filled_as_dates_on_request(messy, kind):
    frame = kind(messy)
    imputer = fit(frame, column_kinds={"when": "number"})
    assert imputer.column_kinds_["when"] == "number"
    filled, given = to_lists(imputer.impute_frame(frame))["when"], to_lists(frame)["when"]
    assert None in given
    for new, old in zip(filled, given, strict=True):
        assert new == old or (old is None and new == datetime(new.year, new.month, new.day))
        assert datetime(2024, 1, 1) <= new <= datetime(2024, 10, 28)


def test_dates_keep_their_time_zone_and_texts_can_be_asked_for(messy):
    frame = messy.assign(when=messy["when"].dt.tz_localize("Europe/Rome"))
    filled = fit(frame, column_kinds={"when": "number"}).impute_frame(frame)
    assert filled["when"].dtype == frame["when"].dtype
    assert filled["when"].notna().all()
    asked = fit(messy, categorical_features=["city", "note"]).passed_
    assert asked == {"id": "id", "when": "date"}


@pytest.mark.parametrize(
    "settings",
    [
        {"missing_values": {3: -9}},
        {"bounds": {3: (0, 1)}},
        {"column_kinds": {2: "whole"}},
        {"shapes": {1: "log"}},
        {"categorical_features": [2]},
        {"categorical_features": np.arange(4) == 2},
    ],
)
def test_numbers_of_columns_are_refused_where_they_could_mean_either_table(settings):
    ids = [f"row{i:03d}" for i in range(60)]
    frame = pd.DataFrame({"id": ids, **dict.fromkeys("abc", np.arange(60.0) % 7)})
    [name] = settings
    message = rf"{name} refers to columns by number, but .* 1 column \('id'\)"
    with pytest.raises(ValueError, match=message):
        GaussianMixtureImputer(1, **settings).fit(frame)
