"""Categories at the door: which columns they are, frames in and out, files, draws, evaluations."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import gapmix
from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
)
from gapmix.estimators.converted import on_matrices
from gapmix.estimators.levels import (
    _encode_stored,
    _encode_values,
    dict_levels,
    find_levels,
    stored_codes,
    values_of,
)
from gapmix.estimators.marks import gap_test, read_marks
from gapmix.evaluate import hide_and_score
from gapmix.multiple import impute_many

CATEGORIES = ["sex", "ok", "size"]


def make_frame(n=200, seed=0):
    """Return a frame with gaps in numbers, texts, booleans and categories, and rows' groups."""
    rng = np.random.default_rng(seed)
    k = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n) + 3 * k,
            "sex": np.array(["m", "f", "x"], dtype=object)[(k + (rng.random(n) < 0.1)) % 3],
            "b": rng.normal(size=n) - 2 * k,
            "ok": pd.array((k == 1) ^ (rng.random(n) < 0.1), dtype="boolean"),
            "size": pd.Categorical(
                np.array(["S", "M", "L"])[(2 * k + (rng.random(n) < 0.2)) % 3],
                categories=["S", "M", "L", "XL"],
            ),
        }
    )
    gaps = rng.random(frame.shape) < 0.2
    for j in range(frame.shape[1]):
        frame.iloc[gaps[:, j], j] = None
    return frame, k


FRAME, GROUP = make_frame()


@pytest.fixture(scope="module")
def imputer():
    return GaussianMixtureImputer(3, random_state=0).fit(FRAME)


def test_types_tell_which_columns_are_categories(imputer):
    assert imputer.is_categorical_.tolist() == [False, True, False, True, True]
    assert [list(levels) for levels in imputer.categories_] == [
        ["f", "m", "x"],
        [False, True],
        ["S", "M", "L"],
    ]
    mixture = imputer.mixture_
    assert mixture.means_.shape == (3, 2)
    assert [table.shape for table in mixture.category_probabilities_] == [(3, 3), (3, 2), (3, 3)]
    for table in mixture.category_probabilities_:
        np.testing.assert_allclose(table.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_come_back_with_the_same_types(kind):
    given = FRAME if kind == "pandas" else pl.from_pandas(FRAME)
    given = given.to_arrow() if kind == "pyarrow" else given
    imputer = GaussianMixtureImputer(2, random_state=0).fit(given)
    filled = imputer.impute_frame(given)
    assert type(filled) is type(given)
    if kind == "pyarrow":
        assert filled.schema.names == given.schema.names
        assert sum(column.null_count for column in filled.columns) == 0
        return
    assert list(filled.dtypes) == list(given.dtypes)
    for name in FRAME.columns:
        before, after = given[name].to_list(), filled[name].to_list()
        assert all(b == a for b, a in zip(before, after, strict=True) if not pd.isna(b))
        assert not any(pd.isna(a) for a in after)


def test_transform_gives_objects_and_set_output_frames(imputer):
    values = imputer.transform(FRAME)
    assert values.dtype == object
    assert not pd.isna(values).any()
    framed = GaussianMixtureImputer(3, random_state=0).set_output(transform="pandas")
    framed = framed.fit_transform(FRAME)
    assert list(framed.dtypes) == list(FRAME.dtypes)
    assert (framed.to_numpy(dtype=object) == values).all()
    flagged = GaussianMixtureImputer(3, add_indicator=True, random_state=0).fit(FRAME)
    assert flagged.transform(FRAME).shape == (200, 10)


@pytest.mark.parametrize("add_indicator", [True, False])
@pytest.mark.parametrize("given", ["pandas", "polars", "pyarrow", "array"])
@pytest.mark.parametrize("asked", ["pandas", "polars"])
def test_set_output_gives_frames_with_types(asked, given, add_indicator):
    table = FRAME if given == "pandas" else pl.from_pandas(FRAME)
    table = table.to_arrow() if given == "pyarrow" else table
    options = {"categorical_features": [1, 3, 4], "add_indicator": add_indicator}
    if given == "array":
        table = FRAME.to_numpy(dtype=object)
    imputer = GaussianMixtureImputer(2, random_state=0, **options).set_output(transform=asked)
    framed = imputer.fit_transform(table)
    assert type(framed) is (pd.DataFrame if asked == "pandas" else pl.DataFrame)
    assert list(framed.columns) == [str(name) for name in imputer.get_feature_names_out()]
    assert framed.shape == (200, 10 if add_indicator else 5)
    plain = imputer.set_output(transform="default").transform(table)
    assert plain.shape == framed.shape
    for j, name in enumerate(framed.columns):
        column = framed[name].to_list()
        assert column == plain[:, j].tolist()
        if j in (0, 2, *range(5, 10)):
            assert framed[name].dtype == (float if asked == "pandas" else pl.Float64)
    if given == asked == "pandas":
        assert list(framed.dtypes)[:5] == list(FRAME.dtypes)
        assert framed.index.equals(FRAME.index)


def test_a_chain_of_steps_takes_filled_categories():
    steps = make_pipeline(
        GaussianMixtureImputer(2, random_state=0).set_output(transform="pandas"),
        make_column_transformer((OneHotEncoder(), CATEGORIES), remainder="passthrough"),
        LogisticRegression(max_iter=500),
    )
    assert steps.fit(FRAME, GROUP).score(FRAME, GROUP) > 0.9


def make_cities(n=1500, n_cities=120):
    """Return a frame where most cities are in a few rows."""
    rng = np.random.default_rng(4)
    group = rng.integers(0, 3, n)
    city = np.minimum(rng.zipf(1.4, n) + 3 * group, n_cities) - 1
    frame = pd.DataFrame({"x": rng.normal(3.0 * group), "city": [f"c{c:03d}" for c in city]})
    frame.loc[rng.random(n) < 0.2, "city"] = None
    return frame, group


def test_rare_levels_of_many_are_told_and_listed(tmp_path):
    frame, group = make_cities()
    named = {"categorical_features": ["city"], "random_state": 0}
    counts = frame["city"].value_counts()
    rare = sorted(counts.index[counts < 5])
    assert len(rare) > 20
    message = (
        rf"Column 'city': {len(rare)} of its {len(counts)} levels are in fewer than 5 rows each"
    )
    with pytest.warns(UserWarning, match=message):
        model = GaussianMixture(3, **named).fit(frame)
    (table,), (levels,) = model.category_probabilities_, model.categories_
    assert model.rare_levels_[0].tolist() == rare
    chosen = np.isin(levels.astype(str), rare)
    share = table[:, chosen] / table[:, chosen].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(share, np.broadcast_to(share[0], share.shape), rtol=1e-9)
    assert np.ptp(table[:, ~chosen][:, 0]) > 0.01  # the others are told apart
    with pytest.warns(UserWarning, match="Column 'city'"):
        imputer = GaussianMixtureImputer(3, **named).fit(frame)
    assert imputer.rare_levels_[0].tolist() == rare
    with pytest.warns(UserWarning, match="'city': .* in fewer than 5 rows of a class each"):
        classifier = GaussianMixtureClassifier(1, **named).fit(frame, group)
    assert set(rare) <= set(classifier.rare_levels_[0])
    assert GaussianMixture(2).fit(FRAME).rare_levels_[0].size == 0
    assert model._n_parameters() == 2 + 3 + 3 + 3 * (len(counts) - len(rare))
    for each in (model, imputer, classifier):
        gapmix.save(each, tmp_path / "model")
        again = gapmix.load(tmp_path / "model")
        assert again.rare_levels_[0].tolist() == each.rare_levels_[0].tolist()


def test_many_levels_in_frames_are_refused_unless_named():
    frame, _ = make_cities()
    with pytest.raises(ValueError, match=r"Column 'city' has .* distinct values in .* too many"):
        GaussianMixture().fit(frame)


def test_rows_that_are_drawn_follow_the_model():
    model = GaussianMixture(3, random_state=0).fit(FRAME)
    rows, component = model.sample(20_000)
    assert rows.dtype == object
    for k in range(3):
        own = rows[component == k]
        for j, table, levels in zip(
            np.flatnonzero(model.is_categorical_),
            model.category_probabilities_,
            model.categories_,
            strict=True,
        ):
            found = [(own[:, j] == level).mean() for level in levels.tolist()]
            np.testing.assert_allclose(found, table[k], atol=0.03)
        np.testing.assert_allclose(own[:, 0].astype(float).mean(), model.means_[k, 0], atol=0.1)


def test_the_density_of_a_row_is_that_of_its_cells_one_after_the_other():
    model = GaussianMixture(3, random_state=0).fit(FRAME)
    row = FRAME.dropna().head(4)
    total = np.zeros(4)
    shown = row.assign(**dict.fromkeys(CATEGORIES))
    for name in CATEGORIES:
        levels = model.categories_[CATEGORIES.index(name)].tolist()
        before = model.score_samples(shown)
        each = [model.score_samples(shown.assign(**{name: level})) - before for level in levels]
        np.testing.assert_allclose(np.exp(each).sum(axis=0), 1.0)  # its levels share it all out
        shown = shown.assign(**{name: row[name]})
        total += model.score_samples(shown) - before
    numbers = row.assign(**dict.fromkeys(CATEGORIES))
    np.testing.assert_allclose(
        model.score_samples(row), total + model.score_samples(numbers), rtol=1e-9
    )


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_keep_unknown_levels_and_lose_marks(kind):
    new = FRAME.head(6).assign(sex=["other", "m", None, "?", "f", "other"])
    new["size"] = new["size"].cat.add_categories("XXL")
    new.loc[0, "size"] = "XXL"
    imputer = GaussianMixtureImputer(2, missing_values="?", random_state=0).fit(FRAME)
    given = new if kind == "pandas" else pl.from_pandas(new)
    given = given.to_arrow() if kind == "pyarrow" else given
    with pytest.warns(UserWarning, match="Column '(sex|size)': .* a level not seen in training"):
        filled = imputer.impute_frame(given)
    values = filled["sex"].to_pylist() if kind == "pyarrow" else filled["sex"].to_list()
    assert [values[i] for i in (0, 1, 4, 5)] == ["other", "m", "f", "other"]
    assert {values[2], values[3]} <= {"f", "m", "x"}
    sizes = filled["size"].to_pylist() if kind == "pyarrow" else filled["size"].to_list()
    assert sizes[0] == "XXL"
    assert None not in sizes


def test_a_stream_learns_categories_and_goes_on_from_a_file(tmp_path):
    frame = make_frame(1200, seed=3)[0]
    whole = GaussianMixture(3, random_state=0)
    for low in range(0, 600, 200):
        whole.partial_fit(frame[low : low + 200])
    gapmix.save(whole, tmp_path / "model")
    again = gapmix.load(tmp_path / "model")
    for low in range(600, 1200, 200):
        for each in (whole, again):
            each.partial_fit(frame[low : low + 200])
    for one, two in zip(whole.category_probabilities_, again.category_probabilities_, strict=True):
        np.testing.assert_array_equal(one, two)
    assert whole.score(frame) > GaussianMixture(1).fit(frame).score(frame) + 0.5


def test_numbers_alone_are_as_ever():
    x = FRAME[["a", "b"]].to_numpy()
    plain = GaussianMixtureImputer(2, random_state=0)
    np.testing.assert_array_equal(
        plain.fit(x).transform(x),
        GaussianMixtureImputer(2, categorical_features=None, random_state=0).fit(x).transform(x),
    )
    assert plain.categories_ == []
    assert plain.probabilities(x) == {}


def test_probabilities_deviations_and_draws_agree(imputer):
    shares = imputer.probabilities(FRAME)
    assert list(shares) == CATEGORIES
    filled, std = imputer.impute_with_std(FRAME)
    for name, share in shares.items():
        j = FRAME.columns.get_loc(name)
        gaps = FRAME[name].isna().to_numpy()
        assert share.index.equals(FRAME.index)
        np.testing.assert_allclose(share.sum(axis=1), 1.0)
        assert (share[gaps].idxmax(axis=1).to_numpy() == filled[gaps, j]).all()
        np.testing.assert_allclose(std[gaps, j], 1.0 - share[gaps].max(axis=1))
        assert (std[~gaps, j].astype(float) == 0).all()
    row = FRAME[FRAME["sex"].isna()].iloc[[0]]
    draws = imputer.sample(row, 4000, random_state=0)[:, 0, 1]
    for level, share in imputer.probabilities(row)["sex"].iloc[0].items():
        assert (draws == level).mean() == pytest.approx(share, abs=0.03)
    low, high = imputer.intervals(row)
    assert pd.isna(low[0, 1])
    assert pd.isna(high[0, 1])


def test_columns_are_named_numbered_or_masked():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=60), rng.integers(3, 6, 60)])
    x[:9, 1] = np.nan
    by_number = GaussianMixture(2, categorical_features=[1], random_state=0).fit(x)
    by_mask = GaussianMixture(2, categorical_features=[False, True], random_state=0).fit(x)
    named = pd.DataFrame(x, columns=["u", "v"])
    by_name = GaussianMixture(2, categorical_features=["v"], random_state=0).fit(named)
    for each in (by_number, by_mask, by_name):
        assert each.categories_[0].tolist() == [3, 4, 5]
    np.testing.assert_array_equal(by_number.score_samples(x), by_mask.score_samples(x))
    filled = by_number.impute(x)
    assert filled.dtype == object
    assert set(filled[:, 1]) == {3.0, 4.0, 5.0}
    assert by_name.impute(named)["v"].dtype == float
    with pytest.raises(ValueError, match="names the column 'w', but X has no such column"):
        GaussianMixture(categorical_features=["w"]).fit(named)
    with pytest.raises(ValueError, match="a mask of 3 columns"):
        GaussianMixture(categorical_features=[True, False, True]).fit(x)
    with pytest.raises(ValueError, match="categorical_features='some' is not known"):
        GaussianMixture(categorical_features="some").fit(x)


def test_identifiers_are_refused_by_name():
    frame = FRAME.assign(id=[f"row {i}" for i in range(len(FRAME))])
    with pytest.raises(ValueError, match="Column 'id' has 200 distinct values in 200 rows"):
        GaussianMixture().fit(frame)


def test_unknown_levels_are_kept_and_taken_as_missing(imputer):
    new = FRAME.head(3).assign(sex=["other", "m", None])
    with pytest.warns(UserWarning, match="a level not seen in training"):
        filled = imputer.transform(new)
    assert filled[0, 1] == "other"
    hidden = new.assign(sex=[None, "m", None])
    with pytest.warns(UserWarning, match="not seen in training"):
        found = imputer.score_samples(new)
    np.testing.assert_array_equal(found, imputer.score_samples(hidden))


def test_what_cannot_be_a_level_is_told_with_its_place(imputer):
    with pytest.raises(TypeError, match=r"Column 'sex', row 1: \[1\] cannot be a level"):
        imputer.transform(FRAME.head(2).assign(sex=["m", [1]]))
    with pytest.raises(TypeError, match="Column 'sex' holds values that cannot be levels"):
        GaussianMixture(categorical_features=["sex"]).fit(FRAME.assign(sex=[[1]] * len(FRAME)))
    with pytest.raises(ValueError, match=r"'size' holds Categorical .* name it in categorical_f"):
        GaussianMixture(categorical_features=["sex"]).fit(FRAME)
    endless = np.column_stack([np.arange(9.0), [np.inf] * 9])
    with pytest.raises(ValueError, match="Column 1 is to be a category and holds an infinite"):
        GaussianMixture(categorical_features=[1]).fit(endless)


def test_marks_of_gaps_hold_in_categories_too():
    given = FRAME.assign(sex=FRAME["sex"].fillna("?"))
    imputer = GaussianMixtureImputer(2, missing_values=[np.nan, "?"], random_state=0).fit(given)
    assert list(imputer.categories_[0]) == ["f", "m", "x"]
    assert "?" not in set(imputer.transform(given)[:, 1])


def test_names_of_levels_do_not_matter():
    other = FRAME.assign(sex=FRAME["sex"].map({"f": "zz", "m": "yy", "x": "aa"}))
    one, two = (GaussianMixtureImputer(random_state=0, max_components=3) for _ in range(2))
    one, two = one.fit(FRAME), two.fit(other[[*other.columns[::-1]]])
    assert [each.n_components for each in one.selection_] == [
        each.n_components for each in two.selection_
    ]
    np.testing.assert_allclose(
        one.score_samples(FRAME), two.score_samples(other[[*other.columns[::-1]]]), rtol=1e-7
    )


def test_no_numbers_at_all(tmp_path):
    only = FRAME[CATEGORIES]
    imputer = GaussianMixtureImputer(3, random_state=0).fit(only)
    assert imputer.mixture_.means_.shape == (3, 0)
    assert not pd.isna(imputer.transform(only)).any()
    rows = imputer.mixture_.sample(20)[0]
    assert rows.shape == (20, 3)
    assert np.isfinite(imputer.mixture_.bic(only.to_numpy(dtype=object)))
    gapmix.save(imputer, tmp_path / "model")
    again = gapmix.load(tmp_path / "model")
    assert (again.transform(only) == imputer.transform(only)).all()


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_files_give_back_the_same(covariance_type, tmp_path):
    for estimator in (
        GaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(FRAME),
        GaussianMixtureImputer(2, covariance_type=covariance_type, random_state=0).fit(FRAME),
    ):
        gapmix.save(estimator, tmp_path / "model")
        again = gapmix.load(tmp_path / "model")
        np.testing.assert_array_equal(again.score_samples(FRAME), estimator.score_samples(FRAME))
        for one, two in zip(again.categories_, estimator.categories_, strict=True):
            assert one.tolist() == two.tolist()


def test_classifier_and_regressor_read_categories():
    labels = np.array(["u", "v", "w"], dtype=object)[GROUP]
    labels[::10] = None
    known = labels != None  # noqa: E711
    classifier = GaussianMixtureClassifier(1, use_unlabelled=True).fit(FRAME, labels)
    assert classifier.score(FRAME[known], labels[known]) > 0.9
    plain = GaussianMixtureClassifier(1).fit(FRAME[["a", "b"]], labels)
    assert classifier.score(FRAME[known], labels[known]) > plain.score(
        FRAME[["a", "b"]][known], labels[known]
    )
    regressor = GaussianMixtureRegressor(3, random_state=0).fit(FRAME, GROUP)
    assert regressor.score(FRAME, GROUP) > 0.8
    targeted = GaussianMixtureImputer(2, use_target=True, random_state=0)
    assert not pd.isna(targeted.fit_transform(FRAME[CATEGORIES], GROUP)).any()


def test_a_fit_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path):
    options = {"n_components": 4, "random_state": 0, "tol": 0.0, "accelerate": "squarem"}
    whole = GaussianMixture(**options, max_iter=40).fit(FRAME)
    path = tmp_path / "state"
    GaussianMixture(**options, max_iter=20, checkpoint=path).fit(FRAME)
    rest = GaussianMixture(**options, max_iter=40, checkpoint=path).fit(FRAME)
    assert rest.n_iter_ == whole.n_iter_
    for one, two in zip(rest.category_probabilities_, whole.category_probabilities_, strict=True):
        np.testing.assert_array_equal(one, two)


def test_completions_have_levels():
    tables = impute_many(FRAME, 3, imputer=GaussianMixtureImputer(2), random_state=0)
    for table in tables:
        assert list(table.dtypes) == list(FRAME.dtypes)
        assert not table.isna().any().any()
    assert any(not tables[0][name].equals(tables[1][name]) for name in CATEGORIES)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_hidden_categories_are_judged_by_their_levels(kind):
    given = FRAME if kind == "pandas" else pl.from_pandas(FRAME)
    result = hide_and_score(given, n_repeats=1, random_state=0)
    by_name = {each.imputer: each for each in result.overall()}
    assert list(by_name) == ["mean", "k-NN", "iterative", "mixture"]
    assert not any(each.problem for each in by_name.values())
    mean, mixture = by_name["mean"], by_name["mixture"]
    assert mean.wrong == by_name["k-NN"].wrong == by_name["iterative"].wrong
    assert by_name["k-NN"].error < mean.error
    assert abs(mixture.sure - (1 - mixture.wrong)) < 0.1
    assert np.log(1 / 3) < mixture.level_log_score < 0
    classes = result.calibration("mixture")
    cells = [each for each in result.cells if each.imputer == "mixture"]
    assert sum(each.n for each in classes) == sum(len(each.true) for each in cells)
    assert result.calibration("mean") == []
    table = result.confusion("mixture", "sex")
    assert table.levels == ("f", "m", "x")
    sex = next(each for each in cells if each.column == "sex")
    for i, j in np.ndindex(3, 3):
        assert table.counts[i, j] == ((sex.true == i) & (sex.filled == j)).sum()
    with pytest.raises(ValueError, match="no hidden level of a category 'a'"):
        result.confusion("mixture", "a")
    assert mixture.wrong < 0.7 * mean.wrong
    assert mixture.error < mean.error
    assert "wrong levels" in result.summary()
    scores = {score.column: score for score in result.scores if score.imputer == "mixture"}
    assert np.isnan(scores["sex"].error)
    assert np.isnan(scores["a"].wrong)
    assert scores["sex"].log_score < 0


def test_sizes_are_compared_by_numbers_and_levels_together():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 600)
    wrong = rng.random((600, 6)) < 0.2
    names = np.where(wrong, rng.integers(0, 3, (600, 6)), group[:, None])
    levels = pd.DataFrame(np.array(["a", "b", "c"])[names], columns=list("uvwxyz"))
    told = levels.assign(number=rng.normal(size=600))  # whose one group says nothing
    told = told.mask(rng.random(told.shape) < 0.1)
    found = GaussianMixtureImputer(random_state=0, average=False).fit(told)
    assert found.n_components_ == 3
    alone = GaussianMixtureImputer(random_state=0, average=False).fit(told[["number"]])
    assert alone.n_components_ == 1
    clusters = told[["u"]].assign(number=rng.normal(6.0 * group), more=rng.normal(6.0 * group))
    found = GaussianMixtureImputer(random_state=0, average=False).fit(clusters)
    assert found.n_components_ >= 3
    assert isinstance(found.selection_[0].error, float)


@pytest.mark.parametrize("kind", ["string", "categorical", "enum", "pandas"])
def test_stored_codes_say_what_the_plain_loop_says(kind):
    values = ["b", None, "a", "?", "new", "b", "a", " ? ", "b"] * 3
    declared = ["unused", "b", "new", "?", " ? ", "a"]
    frame = {
        "string": pl.DataFrame({"c": values}),
        "categorical": pl.DataFrame({"c": pl.Series(values, dtype=pl.Categorical)}),
        "enum": pl.DataFrame({"c": pl.Series(values, dtype=pl.Enum(declared))}),
        "pandas": pd.DataFrame({"c": pd.Categorical(values, categories=declared)}),
    }[kind]
    is_gap = gap_test(read_marks("?"))
    levels = np.array(["a", "b"], dtype=object)
    stored = stored_codes(frame, 0)
    assert stored is not None
    shown = values_of(frame, 0)
    expected, strange = _encode_values([None if v != v else v for v in shown], levels, "c", is_gap)
    found, also_strange = _encode_stored(stored, levels, is_gap)
    np.testing.assert_array_equal(found, expected)
    assert also_strange == strange == {"new": 3}
    seen = find_levels(frame, 0, "'c'", is_gap, named=False).tolist()
    assert seen == (["b", "new", "a"] if kind in ("enum", "pandas") else ["a", "b", "new"])


def test_marks_that_are_numbers_do_not_mark_codes_of_levels():
    frame = FRAME.assign(a=FRAME["a"].fillna(0.0))
    marked = GaussianMixtureImputer(2, missing_values=0, random_state=0).fit(frame)
    plain = GaussianMixtureImputer(2, random_state=0).fit(FRAME)
    assert (marked.transform(frame) == plain.transform(FRAME)).all()


def test_an_imputer_of_matrices_fills_codes(imputer):
    x = imputer._read(FRAME)
    given = imputer.impute_with_std(FRAME)
    filled, std = on_matrices(imputer).impute_with_std(x)
    for j, levels in dict_levels(imputer).items():
        assert (levels[filled[:, j].astype(int)] == given[0][:, j]).all()
    np.testing.assert_array_equal(std, given[1].astype(float))
    assert imputer.feature_names_in_.tolist() == list(FRAME.columns)


@pytest.mark.parametrize("as_objects", [False, True], ids=["texts", "objects"])
def test_answers_beside_numbers_are_levels(as_objects):
    rng = np.random.default_rng(0)
    n_children = rng.integers(4, size=300)
    answers = [0, 1, 2, "3+"] if as_objects else ["0", "1", "2", "3+"]
    frame = pd.DataFrame({"x": n_children + 0.2 * rng.normal(size=300)})
    frame["children"] = pd.Series([answers[i] for i in n_children], dtype=object)
    holed = frame.copy()
    holed.loc[::7, "children"] = None
    with pytest.warns(UserWarning, match=r"'children' has numbers and texts \('3\+'\)") as told:
        imputer = GaussianMixtureImputer(4, random_state=0).fit(holed)
    assert len(told) == 1
    assert imputer.categories_[0].tolist() == answers
    filled = imputer.impute_frame(holed)["children"]
    assert {type(value) for value in filled} == {type(value) for value in answers}
    assert (filled == frame["children"])[::7].mean() > 0.8
    for marks in ("?", "*", "unknown", "none"):
        with pytest.raises(ValueError, match="is text, not a number"):
            GaussianMixtureImputer(1).fit(holed.replace("3+", marks))


def test_a_table_of_names_only_is_an_error_that_lists_them():
    frame = pd.DataFrame({"country": [f"land {i}" for i in range(30)], "born": ["1999-12-31"] * 30})
    with pytest.raises(ValueError, match="no column to learn from: 'country'"):
        GaussianMixtureImputer().fit(frame)


def test_texts_among_numbers_are_passed_through_with_a_warning():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    tickets = [f"PC {i}" if i % 4 == 0 else str(7 * i) for i in range(200)]
    frame = pd.DataFrame({"x": x, "y": x + 0.1 * rng.normal(size=200), "ticket": tickets})
    frame.loc[::7, "y"] = np.nan
    as_objects = [int(each) if each.isdecimal() else each for each in tickets]
    for given in (tickets, as_objects):
        table = frame.assign(ticket=pd.Series(given, dtype=object))
        with pytest.warns(UserWarning, match="'ticket' is mostly numbers, but 50 cells of it are"):
            imputer = GaussianMixtureImputer(1, random_state=0).fit(table)
        filled = imputer.impute_frame(table)
        assert filled["ticket"].tolist() == given
        assert filled["y"].notna().all()
    slips = frame.assign(ticket=[str(i) for i in range(198)] + ["?", "x"])
    with pytest.raises(ValueError, match="Row 198, column 'ticket': '\\?' is text, not a number"):
        GaussianMixtureImputer(1).fit(slips)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mostly_words = frame.assign(ticket=[f"A{i}" if i % 3 else str(i) for i in range(200)])
        GaussianMixtureImputer(1, random_state=0).fit(mostly_words)
