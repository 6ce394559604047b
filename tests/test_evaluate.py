"""Hidden cells are hidden by the rule, every imputer is judged by them, and failures are told."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gapmix import GaussianMixtureImputer, evaluate
from gapmix.evaluate.compare import default_imputers, hide_and_score
from gapmix.evaluate.contenders import leave_slow
from gapmix.evaluate.ranking import RowErrors, rank
from gapmix.selection.hiding import hide, leave_some

NAMES = ["a", "b", "c"]
MIXTURE = GaussianMixtureImputer(1, max_iter=500, n_jobs=1)


def make_table(n=200, gaps=0.1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    x[:, 1] += 2.0 * x[:, 0]
    x = x * [1.0, 10.0, 0.1] + [0.0, 100.0, 0.0]
    x[rng.random(x.shape) < gaps] = np.nan
    return x


class Truth(TransformerMixin, BaseEstimator):
    """Fills from the table it was given, off by a number of its units."""

    def __init__(self, table=None, off=0.0):
        self.table = table
        self.off = off

    def fit_transform(self, X, y=None):
        x = np.asarray(X, dtype=float)
        return np.where(np.isnan(x), np.nan_to_num(self.table) + self.off, x)


class Drops(BaseEstimator):
    """Gives back all columns but the first."""

    def fit_transform(self, X, y=None):
        return np.nan_to_num(np.asarray(X, dtype=float))[:, 1:]


class Leaves(BaseEstimator):
    """Fills all columns but the second."""

    def fit_transform(self, X, y=None):
        x = np.array(X, dtype=float)
        x[:, [0, 2]] = np.nan_to_num(x[:, [0, 2]])
        return x


class Fails(BaseEstimator):
    def fit_transform(self, X, y=None):
        raise RuntimeError("out of ideas\nand of lines")


class Wide(BaseEstimator):
    """Fills nothing well, but offers intervals of a known coverage, and nothing else."""

    def fit_transform(self, X, y=None):
        return np.nan_to_num(np.asarray(X, dtype=float))

    def intervals(self, X, coverage=0.9):
        everything = np.full(np.shape(X), np.inf)
        return -everything, everything if coverage > 0.8 else -everything


# ------------------------------------------------------------------ what is hidden


@pytest.mark.parametrize("mechanism", ["mcar", "patterns", "mar"])
def test_only_known_cells_are_hidden_and_rows_and_columns_keep_some(mechanism):
    x = make_table(60, gaps=0.5)
    x[:, 2] = np.nan
    x[:3, 2] = [1.0, 2.0, 3.0]
    shows_something = ~np.isnan(x).all(axis=1)
    for seed in range(20):
        hidden = hide(x, mechanism, np.random.default_rng(seed), share=0.7)
        assert not np.isnan(x[hidden]).any()
        left = ~np.isnan(x) & ~hidden
        assert left.any(axis=1)[shows_something].all()
        assert (left.sum(axis=0) >= 2).all()
        assert hidden.any()


def test_a_share_of_the_cells_is_hidden_with_the_same_chance():
    x = make_table(20_000, gaps=0.0)
    hidden = hide(x, "mcar", np.random.default_rng(0), share=0.3)
    np.testing.assert_allclose(hidden.mean(axis=0), 0.3, atol=0.02)
    large = x[:, 0] > np.median(x[:, 0])
    assert abs(hidden[large].mean() - hidden[~large].mean()) < 0.02


def test_mar_hides_more_where_the_driver_is_large_and_never_the_driver():
    x = make_table(20_000, gaps=0.0)
    x[:4000, 1] = np.nan
    hidden = hide(x, "mar", np.random.default_rng(0), share=0.3, driver=1)
    assert not hidden[:, 1].any()
    assert abs(hidden[:, [0, 2]].mean() - 0.3) < 0.02
    known = np.arange(20_000) >= 4000
    large = known & (x[:, 1] > np.nanmedian(x[:, 1]))
    assert hidden[large, 0].mean() > 1.5 * hidden[known & ~large, 0].mean()
    # With nothing to go by it is 0.3 for both cells; one of them is spared where both are hit.
    assert abs(hidden[~known, 0].mean() - (0.3 - 0.3**2 / 2)) < 0.02


def test_patterns_hides_what_is_missing_in_other_rows():
    x = np.ones((400, 4))
    x[::2, :2] = np.nan  # a and b are missing together, in half of the rows
    hidden = hide(x, "patterns", np.random.default_rng(0))
    whole = hidden[1::2]
    assert (whole[:, 0] == whole[:, 1]).all()
    assert not whole[:, 2:].any()
    assert abs(whole[:, 0].mean() - 0.5) < 0.1
    assert not hidden[::2].any()


def test_only_the_columns_asked_for_are_hidden_by_the_same_rule():
    x = make_table(60, gaps=0.5)
    for mechanism in ("mcar", "patterns", "mar"):
        hidden = hide(x, mechanism, np.random.default_rng(0), share=0.7, columns=np.array([1, 2]))
        assert hidden[:, 1:].any()
        assert not hidden[:, 0].any()
        left = ~np.isnan(x) & ~hidden
        assert left.any(axis=1)[~np.isnan(x).all(axis=1)].all()


def test_a_row_keeps_its_largest_draw_and_a_column_two_values():
    observed = np.array([[True, True, False], [True, True, True], [True, True, True]])
    wanted = np.array([[True, True, False], [False, False, True], [False, False, False]])
    drawn = np.array([[0.1, 0.15, 0.5], [0.9, 0.9, 0.1], [0.9, 0.9, 0.9]])
    left = leave_some(observed, wanted, drawn)
    assert left.tolist() == [[True, False, False], [False] * 3, [False] * 3]
    assert wanted[0, 1]  # what was given is not changed


# ------------------------------------------------------------------ scores


def test_errors_are_what_they_were_made_to_be():
    x = make_table()
    spread = np.nanstd(x, axis=0)
    result = hide_and_score(
        x, {"exact": Truth(x), "off": Truth(x, 2.0)}, n_repeats=2, random_state=0
    )
    for score in result.scores:
        j = int(score.column)
        assert score.n_hidden > 0
        if score.imputer == "exact":
            assert (score.rmse, score.error) == (0.0, 0.0)
        else:
            assert score.rmse == pytest.approx(2.0)
            assert score.error == pytest.approx(2.0 / spread[j])
        assert np.isnan([score.log_score, score.coverage_50, score.coverage_90]).all()
        assert score.seconds > 0
        assert score.problem == ""
    exact, off = result.overall()
    assert (exact.imputer, exact.error) == ("exact", 0.0)
    cells = [score for score in result.scores if score.imputer == "off" and score.repeat == 0]
    weight = [score.n_hidden for score in cells]
    first = np.sqrt(np.average([score.error**2 for score in cells], weights=weight))
    again = [score for score in result.scores if score.imputer == "off" and score.repeat == 1]
    weight = [score.n_hidden for score in again]
    second = np.sqrt(np.average([score.error**2 for score in again], weights=weight))
    assert off.error == pytest.approx((first + second) / 2)


def test_the_same_cells_are_hidden_from_all_and_the_seed_decides_which():
    x = make_table()
    contenders = {"one": SimpleImputer(), "two": SimpleImputer()}
    result = hide_and_score(x, contenders, n_repeats=3, random_state=1)
    one = [score._replace(imputer="", seconds=0) for score in result.scores[: 3 * 3]]
    two = [score._replace(imputer="", seconds=0) for score in result.scores[3 * 3 :]]
    assert [str(each) for each in one] == [str(each) for each in two]
    again = hide_and_score(x, contenders, n_repeats=3, random_state=1)
    assert [score.error for score in again.scores] == [score.error for score in result.scores]
    other = hide_and_score(x, contenders, n_repeats=3, random_state=2)
    assert [score.error for score in other.scores] != [score.error for score in result.scores]


def test_a_good_model_has_the_error_the_log_score_and_the_coverage_of_the_truth():
    # b = 10 (2 a + noise) + 100: a given b has variance 1/5, b given a has variance 100 of 500,
    # and c is unrelated. Where both a and b are hidden nothing is known of either.
    x = make_table(3000, gaps=0.0)
    result = hide_and_score(x, {"mixture": MIXTURE}, share=0.2, n_repeats=2, random_state=0)
    (overall,) = result.overall()
    assert abs(overall.coverage_50 - 0.5) < 0.03
    assert abs(overall.coverage_90 - 0.9) < 0.02
    known, unknown = stats.norm(0, np.sqrt(0.2)).entropy(), stats.norm(0, 1).entropy()
    for score in result.scores:
        alone = 1.0 if score.column == "2" else 0.2
        assert score.error**2 == pytest.approx(0.8 * (0.2 if alone < 1 else 1) + 0.2, abs=0.1)
        expected = -(0.8 * (known if alone < 1 else unknown) + 0.2 * unknown)
        assert score.log_score == pytest.approx(expected, abs=0.1)


def test_intervals_are_judged_where_they_are_offered():
    result = hide_and_score(make_table(), {"wide": Wide()}, n_repeats=1, random_state=0)
    for score in result.scores:
        assert (score.coverage_50, score.coverage_90) == (0.0, 1.0)
        assert np.isnan(score.log_score)


def test_the_usual_contenders_all_give_numbers_and_the_mixture_wins_where_columns_relate():
    x = make_table(80)
    assert list(default_imputers()) == ["mean", "k-NN", "iterative", "mixture"]
    result = hide_and_score(x, mechanism="patterns", n_repeats=2, random_state=0)
    overall = {each.imputer: each for each in result.overall()}
    assert list(overall) == ["mean", "k-NN", "iterative", "mixture"]
    assert not any(each.problem for each in overall.values())
    assert overall["mixture"].error < overall["mean"].error
    assert 0.7 < overall["mixture"].coverage_90 <= 1.0
    assert np.isnan(overall["mean"].coverage_90)


def test_records_by_column_are_those_of_the_column_alone():
    x = np.column_stack([make_table(), np.full(200, 3.0)])
    result = hide_and_score(x, {"off": Truth(x, 2.0)}, n_repeats=2, random_state=0)
    by_column = result.by_column()
    assert list(by_column) == ["0", "1", "2", "3"]
    for column, (only,) in by_column.items():
        mine = [score for score in result.scores if score.column == column]
        assert only.n_hidden == sum(score.n_hidden for score in mine)
        wanted = np.mean([score.error for score in mine])
        assert only.error == pytest.approx(wanted, nan_ok=True)  # NaN where nothing varies


def test_a_long_table_is_judged_on_some_of_its_rows_with_values():
    x = make_table(300)
    x[::2] = np.nan
    frame = pd.DataFrame(x, columns=NAMES)
    seen = []

    class Looks(SimpleImputer):
        def fit_transform(self, X, y=None):
            seen.append(X.index)
            return super().fit_transform(X)

    result = hide_and_score(frame, {"looks": Looks()}, max_rows=50, n_repeats=1, random_state=0)
    assert result.shape == (50, 3)
    assert (seen[0] % 2 == 1).all()
    assert seen[0].is_monotonic_increasing
    assert result.overall()[0].problem == ""
    again = hide_and_score(x, {"mean": SimpleImputer()}, max_rows=300, random_state=0)
    assert [score.error for score in again.scores] == [
        score.error for score in hide_and_score(x, {"mean": SimpleImputer()}, random_state=0).scores
    ]


def test_progress_hears_who_fills_and_how_often_it_did():
    heard = []
    contenders = {"one": SimpleImputer(), "two": SimpleImputer()}
    hide_and_score(make_table(), contenders, n_repeats=2, progress=lambda *what: heard.append(what))
    first, then = [("one", 0), ("one", 1), ("two", 0), ("two", 1)], [("one", 1), ("one", 2)]
    assert heard == [*first, *then, ("two", 1), ("two", 2)]


def test_nearest_rows_are_the_same_in_any_units():
    x = make_table()
    k_nn = {"k-NN": default_imputers()["k-NN"]}
    for one, other in zip(
        hide_and_score(x, k_nn, n_repeats=1, random_state=0).scores,
        hide_and_score(x * [1e6, 1, 1e-6], k_nn, n_repeats=1, random_state=0).scores,
        strict=True,
    ):
        assert one.error == pytest.approx(other.error)


# ------------------------------------------------------------------ who is best, and how sure


def leave_out_each_row(rows, figure):
    """Standard error of a figure by the jackknife: the slow and obvious way."""
    n = len(rows[0].squares)
    shown = np.flatnonzero(np.sum([r.n_numbers + r.n_levels for r in rows], axis=0))
    without = []
    for i in shown:
        kept = np.arange(n) != i
        without.append(
            figure([r._replace(**{f: getattr(r, f)[kept] for f in r._fields[2:]}) for r in rows])
        )
    return np.sqrt((len(shown) - 1) * np.var(without))


@pytest.mark.parametrize("levels", [False, True])
def test_standard_errors_are_those_of_leaving_out_each_row_in_turn(levels):
    rng = np.random.default_rng(0)
    n = 400
    rows = []
    for repeat in range(3):
        counts = rng.integers(0, 4, size=(2, n))
        hard = rng.gamma(1.0, size=n)  # of rows, for both
        for name, off in (("better", 1.0), ("worse", 1.3)):
            squares = counts[0] * hard * rng.gamma(2.0, off, size=n)
            wrong = rng.binomial(counts[1], min(0.3 * off, 1.0))
            rows.append(RowErrors(name, repeat, squares, counts[0], wrong, counts[1]))

    def value(part, name):
        chosen = [r for r in part if r.imputer == name]
        if levels:
            return sum(r.n_wrong.sum() for r in chosen) / sum(r.n_levels.sum() for r in chosen)
        return np.mean([np.sqrt(r.squares.sum() / r.n_numbers.sum()) for r in chosen])

    first, second = rank(rows, levels=levels)
    assert (first.imputer, second.imputer) == ("better", "worse")
    for each in (first, second):
        assert each.value == pytest.approx(value(rows, each.imputer))
        slow = leave_out_each_row(rows, partial(value, name=each.imputer))
        assert each.standard_error == pytest.approx(slow, rel=0.02)
    slow = leave_out_each_row(rows, lambda part: value(part, "worse") - value(part, "better"))
    assert second.behind_error == pytest.approx(slow, rel=0.02)
    assert second.behind == pytest.approx(second.value - first.value)


def test_the_verdict_is_sure_only_over_two_standard_errors():
    x = make_table()
    noise = 0.1 * np.nanstd(x, axis=0) * np.random.default_rng(0).normal(size=(2, *x.shape))
    contenders = {
        "mean": SimpleImputer(),
        "noisy": Truth(x + noise[0]),
        "as noisy": Truth(x + noise[1]),
        "noisy again": Truth(x + noise[0]),
    }
    result = hide_and_score(x, contenders, n_repeats=2, random_state=0)
    errors = {each.imputer: each.error for each in result.overall()}
    ranked = result.ranking()
    assert {each.imputer: each.value for each in ranked} == pytest.approx(errors)
    assert [each.sure for each in ranked] == [False] * 3 + [True]
    assert ranked[-1].imputer == "mean"
    assert all(each.sure == (each.behind > 2 * each.behind_error) for each in ranked)
    twins = hide_and_score(x, {name: contenders[name] for name in ("noisy", "noisy again")})
    assert twins.verdict().startswith(
        "Best for this table: noisy and noisy again (a tie), with an "
    )
    one = hide_and_score(x, {"noisy": contenders["noisy"]}, n_repeats=1, random_state=0)
    assert one.verdict().startswith("noisy fills this table with an error of 0.0")
    pair = hide_and_score(x, {name: contenders[name] for name in ("noisy", "mean")}, n_repeats=1)
    assert (
        "less than mean, the next best; the difference is clear (over two standard errors)."
        in pair.verdict()
    )


def test_an_imputer_that_failed_is_not_ranked_and_the_mixture_is_told_of_in_any_place():
    x = make_table()
    contenders = {
        "mixture": SimpleImputer(strategy="constant", fill_value=1e3),
        "mean": SimpleImputer(),
        "truth": Truth(x),
        "leaves": Leaves(),
        "fails": Fails(),
    }
    result = hide_and_score(x, contenders, n_repeats=2, random_state=0)
    assert [each.imputer for each in result.ranking()] == ["truth", "mean", "mixture"]
    told = result.verdict()
    assert told.startswith("Best for this table: truth, with an error of 0.000 ± 0.000. That is ")
    assert "less than mean, the next best; the difference is clear (over two " in told
    assert "standard errors). mixture has " in told
    assert hide_and_score(x, {"fails": Fails()}, n_repeats=1).verdict() == ""


# ------------------------------------------------------------------ tables with names


@pytest.mark.parametrize(
    "make",
    [
        lambda x: pd.DataFrame(x, columns=NAMES, index=np.arange(len(x)) + 7),
        lambda x: pd.DataFrame(x, columns=NAMES).convert_dtypes(),
        lambda x: pl.DataFrame(x, schema=NAMES, nan_to_null=True),
        lambda x: pa.table({name: x[:, j] for j, name in enumerate(NAMES)}),
    ],
    ids=["pandas", "pandas nullable", "polars", "pyarrow"],
)
def test_data_frames_give_the_same_scores_under_their_names(make):
    x = make_table(60)
    contenders = {"mean": SimpleImputer(), "mixture": MIXTURE}
    plain = hide_and_score(x, contenders, n_repeats=1, random_state=0)
    named = hide_and_score(make(x), contenders, n_repeats=1, random_state=0)
    assert [score.column for score in named.scores] == NAMES * 2
    np.testing.assert_allclose(
        [score[4:9] for score in named.scores],
        [score[4:9] for score in plain.scores],
        rtol=1e-9,
        equal_nan=True,
    )


def test_the_driver_is_found_by_name_or_number_and_keeps_its_cells():
    frame = pd.DataFrame(make_table(), columns=NAMES)
    for driver in ("b", 1):
        result = hide_and_score(
            frame, {"mean": SimpleImputer()}, mechanism="mar", driver=driver, n_repeats=1
        )
        assert [score.column for score in result.scores] == ["a", "c"]


def test_columns_are_chosen_and_named():
    x = make_table()
    for columns in (["b", "c"], [1, 2]):
        result = hide_and_score(
            x, {"mean": SimpleImputer()}, columns=columns, feature_names=NAMES, n_repeats=1
        )
        assert [score.column for score in result.scores] == ["b", "c"]


def test_the_scores_become_a_frame_and_dicts_and_a_table():
    result = hide_and_score(
        make_table(), {"mean": SimpleImputer(), "mixture": MIXTURE}, n_repeats=2, random_state=0
    )
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 2 * 2 * 3
    assert result.to_dicts()[0]["imputer"] == "mean"
    assert frame["error"].tolist() == [score.error for score in result.scores]
    lines = result.summary().splitlines()
    assert lines[3].split()[0] == "error"
    assert [line.split()[0] for line in lines[4:6]] == ["mixture", "mean"]
    assert lines[6:] == ["", result.verdict()]


def test_without_pandas_the_frame_is_a_list_of_dicts(monkeypatch):
    result = hide_and_score(make_table(), {"mean": SimpleImputer()}, n_repeats=1)

    def refuse(*arguments, **options):
        raise ModuleNotFoundError("No module named 'pandas'")

    monkeypatch.setattr("narwhals.from_dict", refuse)
    assert result.to_frame() == result.to_dicts()


# ------------------------------------------------------------------ failures


def test_failures_are_reported_and_do_not_stop_the_others():
    contenders = {
        "drops": Drops(),
        "leaves": Leaves(),
        "fails": Fails(),
        "scales": make_pipeline(SimpleImputer(), StandardScaler()),
        "mean": SimpleImputer(),
    }
    result = hide_and_score(make_table(), contenders, n_repeats=1, random_state=0)
    found = {each.imputer: each for each in result.overall()}
    assert found["drops"].problem == (
        "ValueError: it returned 2 of 3 columns, and does not say which"
    )
    assert "gaps of column '1' were left" in found["leaves"].problem
    assert found["fails"].problem == "RuntimeError: out of ideas"
    assert "known values of column '0' were changed" in found["scales"].problem
    assert found["mean"].problem == ""
    for name in ("drops", "leaves", "fails", "scales"):
        assert np.isnan(found[name].error)
    assert found["mean"].error > 0
    left = [score for score in result.scores if score.imputer == "leaves"]
    assert [bool(score.problem) for score in left] == [False, True, False]
    assert [np.isnan(score.error) for score in left] == [False, True, False]
    text = result.summary()
    assert "fails: RuntimeError: out of ideas" in text
    assert "scales: known values of column '0' were changed" in text


def test_a_dropped_column_is_named_where_the_imputer_says_which():
    class DropsByName(SimpleImputer):
        def fit_transform(self, X, y=None):
            return super().fit_transform(X)[:, 1:]

        def get_feature_names_out(self, input_features=None):
            return super().get_feature_names_out(input_features)[1:]

    for table, name in (
        (make_table(), "0"),
        (pd.DataFrame(make_table(), columns=NAMES), "a"),
    ):
        result = hide_and_score(table, {"drops": DropsByName()}, n_repeats=1, random_state=0)
        first, second, _ = result.scores
        assert first.problem == f"column {name!r} was dropped"
        assert second.problem == ""
        assert second.error > 0
        frames = DropsByName().set_output(transform="pandas")
        assert hide_and_score(table, {"drops": frames}, n_repeats=1).scores[0].problem


def test_columns_that_are_appended_do_no_harm():
    x = make_table()
    contenders = {"plain": SimpleImputer(), "more": SimpleImputer(add_indicator=True)}
    plain, more = hide_and_score(x, contenders, n_repeats=1, random_state=0).overall()
    assert more.error == plain.error


def test_columns_without_values_or_without_spread_are_passed_over():
    x = np.column_stack([make_table(), np.full(200, np.nan), np.full(200, 3.0)])
    result = hide_and_score(x, None, n_repeats=1, random_state=0)
    for each in result.overall():
        assert each.problem == ""
        assert each.error > 0
    assert {score.column for score in result.scores} == {"0", "1", "2", "4"}
    assert all(np.isnan(score.error) for score in result.scores if score.column == "4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": "mnar"}, "mechanism='mnar' is not known. Use one of 'mcar'"),
        ({"share": 20}, "share=20 must lie strictly between 0 and 1"),
        ({"n_repeats": 0}, "n_repeats"),
        ({"imputers": {}}, "imputers must be a dict"),
        ({"imputers": [SimpleImputer()]}, "imputers must be a dict"),
        (
            {"imputers": {"text": "mean"}},
            r"imputers\['text'\] is a str, which has no fit_transform",
        ),
        ({"columns": ["1", "z"]}, "columns: 'z' is not a column of the table: 0, 1, 2"),
        ({"max_rows": 0}, "max_rows"),
        ({"feature_names": ["a"]}, "feature_names has 1 names; X has 3 columns"),
        ({"mechanism": "mar", "driver": "z"}, "driver='z' is not a column of the table: 0, 1, 2"),
    ],
)
def test_wrong_arguments_are_told(options, message):
    with pytest.raises(ValueError, match=message):
        hide_and_score(make_table(), **options)


def test_tables_in_which_nothing_can_be_hidden_are_told():
    with pytest.raises(ValueError, match="no gaps to take patterns from"):
        hide_and_score(np.ones((9, 2)), {"mean": SimpleImputer()}, mechanism="patterns")
    with pytest.raises(ValueError, match="No cell could be hidden in a table of 9 rows and 1"):
        hide_and_score(np.arange(9.0)[:, None], {"mean": SimpleImputer()})


def test_the_module_is_imported_from_the_package():
    assert evaluate.hide_and_score is hide_and_score


def test_regressions_in_turn_are_left_out_of_very_wide_tables():
    x = np.random.default_rng(0).normal(size=(20, 501))
    x[::3, 0] = np.nan
    compared = {each.imputer for each in hide_and_score(x, n_repeats=1, random_state=0).overall()}
    assert compared == {"mean", "k-NN", "mixture"}
    assert "iterative" in leave_slow(default_imputers(), 500)


def test_an_evaluation_is_shown_as_its_summary():
    x = np.random.default_rng(0).normal(size=(60, 3))
    found = hide_and_score(x, {"mean": SimpleImputer()}, n_repeats=2)
    assert repr(found) == found.summary()
    assert len(repr(found).splitlines()) < 20
