"""The pictures hold what they must, leave no figure open, and warn of nothing."""

import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from benchmarks.problems import mcar, merged_tables
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from gapmix import GaussianMixture, GaussianMixtureImputer
from gapmix.evaluate.scores import Evaluation, Score
from gapmix.plan.forests import TreeOptions
from gapmix.plan.patterns import find_patterns
from gapmix.plan.planner import make_plan
from gapmix.plots import (
    canvas,
    plot_convergence,
    plot_hide_and_score,
    plot_images,
    plot_marginals,
    plot_missing,
    plot_patterns,
    plot_plan,
    plot_selection,
)
from gapmix.selection.sizes import Candidate


def few_patterns():
    """Three patterns of three columns, with 1, 2 and 3 rows."""
    X = np.ones((6, 3))
    X[1:3, 0] = X[3:, 1] = X[3:, 2] = np.nan
    return X


def many_patterns(n=2000, d=60, share=0.5):
    return find_patterns(mcar(d, share)(np.random.default_rng(0), n))


def draw(ax):
    """Draw the whole figure and return the Axes: warnings appear only now."""
    ax.figure.savefig(io.BytesIO(), format="png", dpi=30)
    return ax


def texts(ax):
    return [text.get_text() for text in ax.texts]


def n_edges(ax):
    found = [each for each in ax.collections if isinstance(each, LineCollection)]
    return sum(len(each.get_segments()) for each in found)


def n_stars(ax):
    """Return how many markers there are with more corners than a circle or square has."""
    points = [each for each in ax.collections if not isinstance(each, LineCollection)]
    return sum(
        len(each.get_offsets()) for each in points if len(each.get_paths()[0].vertices) == 11
    )


@pytest.fixture(autouse=True)
def _nothing_stays_open():
    yield
    assert pyplot.get_fignums() == []


# ------------------------------------------------------------------ patterns


def test_the_most_frequent_pattern_comes_first_with_its_number_of_rows():
    cells, bars, strip = draw(plot_patterns(few_patterns())).child_axes
    assert cells.collections[0].get_array().tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert [bar.get_width() for bar in bars.patches] == [3, 2, 1]
    assert texts(bars) == ["3", "2", "1"]
    shares = [bar.get_height() for bar in strip.patches]
    assert shares == pytest.approx([100 / 3, 50.0, 50.0])


def test_a_title_that_hides_nothing_speaks_of_nothing_hidden():
    title = plot_patterns(few_patterns()).get_title(loc="left")
    assert title == "3 patterns in 6 rows, 3 columns"


def test_thousands_of_patterns_are_cut_and_the_title_counts_the_rest():
    patterns = many_patterns()
    ax = draw(plot_patterns(patterns, max_patterns=30))
    cells, bars, _ = ax.child_axes
    assert cells.collections[0].get_array().shape == (30, 60)
    assert len(bars.patches) == 30
    expected = "Not shown: 1,970 less frequent patterns, with 1,970 rows (98.5 %)"
    assert expected in ax.get_title(loc="left")


def test_many_columns_are_drawn_together_and_none_is_left_out():
    X = np.ones((4, 100))
    X[0, :15] = X[1, 99] = np.nan
    ax = draw(plot_patterns(X, max_columns=10))
    cells, _, strip = ax.child_axes
    image = cells.collections[0].get_array()
    assert image.shape == (3, 10)
    assert sorted(image.sum(axis=1)) == pytest.approx([0.0, 0.1, 1.5])
    assert len(strip.patches) == 10
    assert "Up to 10 neighbouring columns are drawn as one" in ax.get_title(loc="left")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_data_frame_are_named(frame):
    table = frame(dict(zip(["age", "income", "height"], few_patterns().T, strict=True)))
    cells = draw(plot_patterns(table)).child_axes[0]
    assert [label.get_text() for label in cells.get_xticklabels()] == ["age", "income", "height"]


def test_names_are_data_and_no_formulas():
    table = pd.DataFrame(few_patterns(), columns=["$a$", "a\x1b$b$", "c" * 1000])
    for ax in (plot_patterns(table).child_axes[0], plot_missing(table)):
        ticks = [*draw(ax).get_xticklabels()]
        assert [tick.get_text() for tick in ticks[:2]] == ["$a$", "a\N{REPLACEMENT CHARACTER}$b$"]
        assert len(ticks[2].get_text()) == 48
        assert not any(tick.get_parse_math() for tick in ticks)


def test_names_given_are_used_and_must_be_as_many_as_the_columns():
    patterns = find_patterns(~np.isnan(few_patterns()))
    cells = plot_patterns(patterns, feature_names=["a", "b", "c"]).child_axes[0]
    assert [label.get_text() for label in cells.get_xticklabels()] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature_names has 2 names; the table has 3 columns"):
        plot_patterns(patterns, feature_names=["a", "b"])


def test_a_complete_table_and_a_single_cell_can_be_drawn():
    for table in (np.ones((5, 4)), np.array([[np.nan]]), np.full((3, 2), np.nan)):
        draw(plot_patterns(table))


# ------------------------------------------------------------------ plans


def test_a_small_tree_shows_every_edge_every_start_and_the_size_of_every_set():
    plan = make_plan(many_patterns(12, 10), 1, solver="paper")
    ax = draw(plot_plan(plan))
    tree, scale = ax.child_axes
    (route,) = plan.forest[0].routes
    assert n_edges(tree) == 11
    assert n_stars(tree) == 1
    assert sorted(map(int, texts(tree))) == sorted(route.tree.members.sum(axis=1))
    assert scale.get_ylabel() == "variables that change"
    title = ax.get_title(loc="left")
    assert "Solver: paper, because it was asked for." in title
    assert "12 nodes: 1 from scratch, 11 moved with" in title


def test_sides_and_virtual_patterns_are_in_the_key():
    options = TreeOptions("tree", virtual_patterns=True, cost="hamming", recompute_every=3)
    tree = draw(plot_plan(make_plan(many_patterns(40, 14), 1, solver=options))).child_axes[0]
    key = [text.get_text() for text in tree.get_legend().get_texts()]
    assert key == [
        "on its missing variables",
        "on its observed variables",
        "virtual",
        "from scratch",
    ]


def test_a_large_tree_shows_edges_without_numbers_and_a_histogram_of_changes():
    plan = make_plan(many_patterns(), 1, solver="paper")
    tree, _, below = draw(plot_plan(plan)).child_axes
    assert n_edges(tree) == 2000 - len(plan.forest)
    assert n_stars(tree) == len(plan.forest)
    assert texts(tree) == []
    assert sum(bar.get_height() for bar in below.patches) == n_edges(tree)
    assert below.get_xlabel() == "variables that change on an edge"


def test_a_large_tree_on_both_sides_is_drawn():
    observed = merged_tables(200, noise=0.01)(np.random.default_rng(0), 1500)
    tree = draw(plot_plan(make_plan(find_patterns(observed), 1, solver="tree"))).child_axes[0]
    assert n_edges(tree) > 300


def test_a_tree_of_starts_alone_is_drawn_without_a_scale():
    plan = make_plan(many_patterns(8, 6), 1, solver="tree")
    tree, scale = draw(plot_plan(plan)).child_axes
    assert n_edges(tree) == 0
    assert n_stars(tree) == 8
    assert not scale.axison


@pytest.mark.parametrize("n", [10, 2000])
def test_without_a_tree_every_pattern_is_in_the_histogram_of_sizes(n):
    plan = make_plan(many_patterns(n), 1, solver="dual")
    ax = draw(plot_plan(plan))
    (sizes,) = ax.child_axes
    assert sum(bar.get_height() for bar in sizes.patches) == n
    key = [text.get_text() for text in sizes.get_legend().get_texts()]
    assert key == ["missing variables", "observed variables"]
    assert "Solver: dual, because it was asked for." in ax.get_title(loc="left")


def test_diagonal_naive_and_empty_plans_can_be_drawn():
    patterns = many_patterns(30, 8)
    draw(plot_plan(make_plan(patterns, 2, diagonal=True)))
    draw(plot_plan(make_plan(patterns, 2, solver="naive")))
    draw(plot_plan(make_plan(find_patterns(np.zeros((0, 3), dtype=bool)), 1)))


def test_the_plan_of_a_fit_can_be_drawn():
    model = GaussianMixture(1, max_iter=2, tol=0, solver="paper").fit(few_patterns() * np.arange(3))
    assert "3 nodes" in plot_plan(model.plan_).get_title(loc="left")


# ------------------------------------------------------------------ results

TRIED = (
    Candidate(1, 0.9, -1.3, 5, 0.1),
    Candidate(2, 0.7, -1.0, 9, 0.1, share=0.5),
    Candidate(5, 0.8, -1.1, 9, 0.1, share=0.5),
)


def make_evaluation(n_columns=3, n_repeats=2):
    """Two imputers: errors j / 10 in column j, and errors 0 but for column 0, which fails."""
    nan = np.nan
    scores = []
    for repeat in range(n_repeats):
        for j in range(n_columns):
            name = f"column {j}"
            fails = j == 0
            plain = (0.1 * j, j, nan, nan, nan, 0.1, "")
            sure = (nan if fails else 0.0, nan, -1.0, 0.4, 0.8, 0.1, "left" if fails else "")
            scores.append(Score("plain", repeat, name, 10, *plain))
            scores.append(Score("sure", repeat, name, 10, *sure))
    return Evaluation(tuple(scores), "mcar", n_repeats, (50, n_columns))


def values(ax):
    """Return the points of all lines that have more than a stroke's two equal places."""
    return [line.get_xydata().tolist() for line in ax.lines]


def test_every_size_is_drawn_and_the_chosen_ones_are_ringed():
    ax = draw(plot_selection(TRIED))
    assert ax.get_title(loc="left") == "3 numbers tried; averaged: 2 and 5 components (7 in all)"
    error, score = ax.child_axes
    assert values(error) == [[[2, 0.7], [5, 0.8]], [[1, 0.9], [2, 0.7], [5, 0.8]]]
    assert values(score) == [[[2, -1.0], [5, -1.1]], [[1, -1.3], [2, -1.0], [5, -1.1]]]
    assert [label.get_text() for label in error.get_xticklabels()] == ["1", "2", "5"]
    assert "lower is better" in error.get_ylabel()
    assert "higher is better" in score.get_ylabel()


def test_the_selection_of_an_estimator_is_drawn_and_its_absence_told():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = GaussianMixtureImputer(max_components=2, random_state=0).fit(X)
    assert "2 numbers tried" in draw(plot_selection(model)).get_title(loc="left")
    with pytest.raises(ValueError, match="was given, not chosen"):
        plot_selection(GaussianMixtureImputer(1).fit(X))
    with pytest.raises(ValueError, match="has no selection_"):
        plot_selection(GaussianMixture())


def test_errors_and_coverage_are_drawn_by_column_and_together():
    ax = draw(plot_hide_and_score(make_evaluation()))
    errors, shares = ax.child_axes
    lines = [label.get_text() for label in errors.get_yticklabels()]
    assert lines == ["all columns", "column 0", "column 1", "column 2"]
    plain = next(points for points in values(errors) if len(points) == 4)
    np.testing.assert_allclose(np.array(plain)[1:, 0], [0.0, 0.1, 0.2])
    key = [text.get_text() for text in errors.get_legend().get_texts()]
    assert key == ["plain", "sure (with problems)"]
    fifty, ninety = (np.array(points) for points in values(shares)[:2])
    np.testing.assert_allclose(fifty[:, 0], 40.0)
    np.testing.assert_allclose(ninety[:, 0], 80.0)


def test_many_columns_are_cut_to_those_that_differ_most():
    ax = draw(plot_hide_and_score(make_evaluation(60, 1), max_columns=4))
    lines = [label.get_text() for label in ax.child_axes[0].get_yticklabels()]
    assert lines[1:] == [f"column {j}" for j in range(56, 60)]
    assert "Not shown: 56 columns" in ax.get_title(loc="left")


def test_without_intervals_there_is_one_panel():
    evaluation = make_evaluation()
    alone = tuple(score for score in evaluation.scores if score.imputer == "plain")
    assert len(draw(plot_hide_and_score(evaluation._replace(scores=alone))).child_axes) == 1


# ------------------------------------------------------------------ all of them


def test_given_axes_are_drawn_on_and_returned():
    for function, what in (
        (plot_patterns, few_patterns()),
        (plot_plan, make_plan(many_patterns(9, 5), 1)),
        (plot_selection, TRIED),
        (plot_hide_and_score, make_evaluation()),
    ):
        ax = Figure().add_subplot()
        assert function(what, ax=ax) is ax
        assert ax.child_axes


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(canvas, "figure", None)
    for function, what in (
        (plot_patterns, few_patterns()),
        (plot_plan, make_plan(many_patterns(9, 5), 1)),
        (plot_selection, TRIED),
        (plot_hide_and_score, make_evaluation()),
    ):
        with pytest.raises(ImportError, match=r'pip install "gapmix\[plot\]"'):
            function(what)


# ------------------------------------------------------------------ tables and fits


def test_a_missingness_matrix_shows_every_cell_of_a_small_table():
    X = few_patterns()
    ax = draw(plot_missing(X, feature_names=["a", "b", "c"]))
    image = ax.images[0].get_array()
    np.testing.assert_array_equal(image, np.isnan(X))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    assert ax.get_title(loc="left") == "6 rows, 3 columns, 44.4 % missing"


def test_a_missingness_matrix_of_many_rows_shows_shares():
    X = np.ones((5000, 300))
    X[:2500, :150] = np.nan
    ax = draw(plot_missing(X, max_rows=100, max_columns=60))
    image = ax.images[0].get_array()
    assert image.shape == (100, 60)
    np.testing.assert_allclose(image[:50, :30], 1)
    np.testing.assert_allclose(image[50:], 0)


def test_convergence_has_a_point_for_each_iteration():
    X = mcar(4, 0.2)(np.random.default_rng(0), 200)
    X = np.where(X, np.random.default_rng(1).normal(size=X.shape), np.nan)
    mixture = GaussianMixture(2, random_state=0).fit(X)
    ax = draw(plot_convergence(mixture))
    (line, *_) = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), mixture.lower_bounds_)
    assert len(line.get_xdata()) == mixture.n_iter_


def test_marginals_of_a_handful_of_values_warn_of_nothing():
    X = np.array([[1.0, 2.0], [np.nan, 4.0], [3.0, np.nan]])
    ax = draw(plot_marginals(X, np.nan_to_num(X, nan=2.0)))
    bars = [
        patch.get_height() for patch in ax.child_axes[0].patches if hasattr(patch, "get_height")
    ]
    assert sum(height > 0 for height in bars) == 2


def test_marginals_hold_observed_and_filled_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 2] = 5.0
    filled = np.where(np.isnan(X), 0.25, X)
    ax = draw(plot_marginals(X, filled, feature_names=["a", "b", "c"]))
    panels = ax.child_axes
    assert [panel.get_title() for panel in panels] == ["a", "b"]  # c has no gaps
    with pytest.raises(ValueError, match="has no gaps"):
        plot_marginals(filled, filled)


def test_categories_are_drawn_as_shares_of_levels():
    x = np.array([[0.0, 1.0], [1.0, 2.0], [1.0, np.nan], [np.nan, 3.0], [np.nan, 4.0]])
    filled = np.array([[0.0, 1.0], [1.0, 2.0], [1.0, 2.5], [0.0, 3.0], [0.0, 4.0]])
    levels = {0: ["$a_{", "b"]}
    panel, _ = draw(plot_marginals(x, filled, levels=levels)).child_axes
    seen, new = panel.containers
    assert [bar.get_width() for bar in seen] == pytest.approx([2 / 3, 1 / 3])  # the most first
    assert [bar.get_width() for bar in new] == [0.0, 1.0]
    assert [text.get_text() for text in panel.get_yticklabels()] == ["b", "$a_{"]


def test_images_stand_in_a_grid():
    images = np.arange(2 * 3 * 16.0).reshape(2, 3, 4, 4)
    images[0, 0, :2, :2] = np.nan
    ax = draw(plot_images(images, column_titles=["hidden", "filled", "true"]))
    assert len(ax.child_axes) == 6
    assert [panel.get_title() for panel in ax.child_axes[:3]] == ["hidden", "filled", "true"]
    with pytest.raises(ValueError, match="four dimensions"):
        plot_images(images[0, 0])
