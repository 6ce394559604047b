import numpy as np
import pytest
from conftest import size
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gapmix.plan.layout import group_patterns, on_missing_side
from gapmix.plan.patterns import find_patterns
from gapmix.plan.planner import SOLVERS, make_plan

N_EXAMPLES = size(100, 1000)


@st.composite
def tables(draw):
    d = draw(st.sampled_from([1, 2, 3, 7, 8, 66]))
    distinct = draw(arrays(bool, (draw(st.integers(1, 10)), d), elements=st.booleans()))
    return distinct[draw(st.lists(st.integers(0, len(distinct) - 1), max_size=40))]


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_groups_hold_every_pattern_and_every_row_once(observed):
    patterns = find_patterns(observed)
    groups = group_patterns(patterns.observed, patterns.start)
    pattern = [p for group in groups for p in group.pattern]
    row = [i for group in groups for i in group.row]
    assert sorted(pattern) == list(range(len(patterns.observed)))
    assert sorted(row) == list(range(len(observed)))


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_rows_of_a_group_belong_to_the_patterns_named(observed):
    patterns = find_patterns(observed)
    sorted_rows = observed[patterns.order]
    for group in group_patterns(patterns.observed, patterns.start):
        assert (np.diff(group.member) >= 0).all()
        named = patterns.observed[group.pattern[group.member]]
        assert np.array_equal(sorted_rows[group.row], named)


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_index_sets_are_the_smaller_side(observed):
    patterns = find_patterns(observed)
    d = observed.shape[1]
    for group in group_patterns(patterns.observed, patterns.start):
        for p, variables in zip(group.pattern, group.variables, strict=True):
            shown = np.flatnonzero(patterns.observed[p])
            gaps = np.flatnonzero(~patterns.observed[p])
            assert group.missing_side == (gaps.size <= shown.size)
            assert variables.tolist() == (gaps if group.missing_side else shown).tolist()
            assert variables.size <= d // 2


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_a_group_has_one_side_and_one_size_and_no_two_groups_share_both(observed):
    patterns = find_patterns(observed)
    groups = group_patterns(patterns.observed, patterns.start)
    kinds = [(group.missing_side, group.variables.shape[1]) for group in groups]
    assert len(set(kinds)) == len(kinds)


def test_ties_go_to_the_missing_side():
    assert on_missing_side(np.array([[True, False]])).all()


def test_auto_takes_dual_on_small_patterns_and_diagonal_where_it_may():
    patterns = find_patterns(np.random.default_rng(0).random((30, 5)) < 0.7)
    assert make_plan(patterns, 2).solver == "dual"
    assert make_plan(patterns, 2, diagonal=True).solver == "diagonal"


@pytest.mark.parametrize("name", SOLVERS)
def test_the_solver_asked_for_is_used_and_marked(name):
    patterns = find_patterns(np.random.default_rng(0).random((30, 5)) < 0.7)
    plan = make_plan(patterns, 2, solver=name)
    assert plan.solver == plan.requested == name
    used = [line for line in plan.explain().splitlines() if "<- used" in line]
    assert [line.split()[0] for line in used] == [name]


def test_predicted_cost_grows_with_components_and_once_per_row_costs_most():
    patterns = find_patterns(np.random.default_rng(0).random((300, 6)) < 0.7)
    one, three = make_plan(patterns, 1).seconds, make_plan(patterns, 3).seconds
    assert all(three[name] > one[name] for name in one)
    assert one["naive-row"] > one["naive"]


def test_explanation_counts_rows_gaps_patterns_and_marks_the_solver():
    observed = np.array([[1, 1, 1], [1, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    text = make_plan(find_patterns(observed), 2).explain()
    assert "5 rows x 3 columns, 7 gaps (46.7 % of the cells)" in text
    assert "4 distinct patterns; 1 rows are complete, 1 are empty" in text
    assert "2 patterns on their missing variables" in text
    assert "2 on their observed ones" in text
    assert next(line for line in text.splitlines() if "<- used" in line).split()[0] == "dual"


def test_no_rows_can_be_planned_and_explained():
    plan = make_plan(find_patterns(np.zeros((0, 3), dtype=bool)), 1)
    assert "0 rows x 3 columns" in plan.explain()
