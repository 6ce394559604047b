import numpy as np
from conftest import size
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gapmix.plan.patterns import count_rows, find_patterns

N_EXAMPLES = size(100, 1000)


@st.composite
def tables(draw):
    """Tables of bits: rows repeat, and differ in few bits when columns are many."""
    d = draw(st.sampled_from([1, 2, 5, 8, 9, 63, 64, 65, 100, 128, 129, 200]))
    distinct = draw(arrays(bool, (draw(st.integers(1, 8)), d), elements=st.booleans()))
    return distinct[draw(st.lists(st.integers(0, len(distinct) - 1), max_size=40))]


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_every_row_is_in_exactly_one_pattern(observed):
    patterns = find_patterns(observed)
    assert np.array_equal(np.sort(patterns.order), np.arange(len(observed)))
    assert patterns.start[0] == 0
    assert patterns.start[-1] == len(observed)
    assert (count_rows(patterns) > 0).all()


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_rows_of_a_pattern_are_contiguous_and_show_exactly_it(observed):
    patterns = find_patterns(observed)
    repeated = np.repeat(patterns.observed, count_rows(patterns), axis=0)
    assert np.array_equal(repeated, observed[patterns.order])


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_patterns_are_distinct_and_as_many_as_distinct_rows(observed):
    patterns = find_patterns(observed)
    assert len(patterns.observed) == len({row.tobytes() for row in observed})


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_patterns_come_in_lexicographic_order_and_rows_in_their_own(observed):
    patterns = find_patterns(observed)
    keys = [tuple(row) for row in patterns.observed]
    assert keys == sorted(keys)
    for low, high in zip(patterns.start[:-1], patterns.start[1:], strict=True):
        assert (np.diff(patterns.order[low:high]) > 0).all()


def test_patterns_that_differ_in_one_bit_of_any_word_stay_apart():
    d = 200
    observed = np.ones((d + 1, d), dtype=bool)
    observed[np.arange(d), np.arange(d)] = False
    assert len(find_patterns(observed).observed) == d + 1


def test_no_rows_have_no_patterns():
    for d in (1, 64, 130):
        patterns = find_patterns(np.zeros((0, d), dtype=bool))
        assert patterns.observed.shape == (0, d)
        assert patterns.order.shape == (0,)
        assert patterns.start.tolist() == [0]


def test_many_patterns_are_all_found():
    rng = np.random.default_rng(0)
    observed = rng.random((size(10_000, 100_000), 70)) < 0.5
    patterns = find_patterns(observed)
    assert len(patterns.observed) == len(observed)
    assert np.array_equal(patterns.observed, observed[patterns.order])


def test_column_order_in_memory_does_not_matter():
    observed = np.random.default_rng(1).random((50, 66)) < 0.5
    plain, fortran = find_patterns(observed), find_patterns(np.asfortranarray(observed))
    assert all(np.array_equal(a, b) for a, b in zip(plain, fortran, strict=True))
