import numpy as np
import pytest
from conftest import size
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gapmix.plan import rows as rows_module
from gapmix.plan.patterns import find_patterns
from gapmix.plan.rows import (
    compress_rows,
    cut_block,
    deal_queues,
    expand,
    prepare_rows,
    rows_per_block,
)

N_EXAMPLES = size(100, 1000)


@st.composite
def tables(draw):
    """Tables of different numbers, with rows that repeat a few patterns."""
    d = draw(st.sampled_from([1, 2, 5, 70]))
    distinct = draw(arrays(bool, (draw(st.integers(1, 6)), d), elements=st.booleans()))
    observed = distinct[draw(st.lists(st.integers(0, len(distinct) - 1), max_size=40))]
    x = 1.0 + np.arange(observed.size, dtype=float).reshape(observed.shape)
    return np.where(observed, x, np.nan)


def cut(x, block_rows):
    """Return rows and blocks of `block_rows` rows, however small."""
    rows = prepare_rows(x, np.arange(1.0, len(x) + 1), 2)
    blocks = tuple(
        cut_block(
            rows.patterns, rows.x, rows.weight, first, min(first + block_rows, len(x)), rows.codes
        )
        for first in range(0, len(x), block_rows)
    )
    return rows._replace(blocks=blocks)


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables(), st.integers(1, 50))
def test_blocks_cover_the_rows_exactly_once_and_in_order(x, block_rows):
    rows = cut(x, block_rows)
    if not len(x):
        assert rows.blocks == ()
        return
    assert np.array_equal(np.concatenate([block.x for block in rows.blocks]), rows.x)
    assert np.array_equal(np.concatenate([block.weight for block in rows.blocks]), rows.weight)
    assert np.array_equal(rows.weight, rows.patterns.order + 1.0)


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables(), st.integers(1, 50))
def test_every_block_knows_the_patterns_of_its_rows_even_across_borders(x, block_rows):
    rows = cut(x, block_rows)
    observed = ~np.isnan(x[rows.patterns.order])
    first = 0
    for block in rows.blocks:
        assert (np.diff(block.start) > 0).all()
        assert block.start[0] == 0
        assert block.start[-1] == len(block.x)
        assert np.array_equal(expand(block.observed, block), observed[first : first + len(block.x)])
        in_groups = sorted(i for group in block.groups for i in group.row)
        assert in_groups == list(range(len(block.x)))
        first += len(block.x)


def test_a_pattern_larger_than_a_block_appears_in_each():
    rows = cut(np.ones((10, 3)), 4)
    assert [len(block.observed) for block in rows.blocks] == [1, 1, 1]
    assert [len(block.x) for block in rows.blocks] == [4, 4, 2]


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables())
def test_the_order_of_patterns_tells_where_rows_were(x):
    rows = prepare_rows(x, np.ones(len(x)), 1)
    assert np.array_equal(np.where(np.isnan(x), 0.0, x)[rows.patterns.order], rows.x)


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(tables(), st.integers(1, 9))
def test_queues_hold_every_block_once_dealt_in_turn(x, block_rows):
    rows = cut(x, block_rows)
    queues = deal_queues(rows)
    assert 1 <= len(queues) <= rows_module.N_QUEUES
    for number, queue in enumerate(queues):
        dealt = rows.blocks[number :: len(queues)]
        assert all(a is b for a, b in zip(queue, dealt, strict=True))
    assert sum(len(queue) for queue in queues) == len(rows.blocks)
    sizes = [len(queue) for queue in queues]
    assert max(sizes) - min(sizes) <= 1


def test_no_rows_make_no_blocks_and_one_empty_queue():
    rows = prepare_rows(np.empty((0, 3)), np.empty(0), 2)
    assert rows.blocks == ()
    assert deal_queues(rows) == [()]


def test_the_caller_keeps_its_gaps():
    x = np.array([[1.0, np.nan], [np.nan, 2.0]])
    prepare_rows(x, np.ones(2), 1)
    assert np.isnan(x).sum() == 2


@pytest.mark.parametrize(("d", "n_components"), [(1, 1), (20, 5), (500, 3), (2000, 30)])
def test_block_size_stays_between_its_bounds(d, n_components):
    observed = np.random.default_rng(0).random((50, d)) < 0.5
    n = rows_per_block(find_patterns(observed), n_components)
    assert rows_module.MIN_BLOCK_ROWS <= n <= rows_module.MAX_BLOCK_ROWS


@pytest.mark.parametrize("seed", range(size(5, 50)))
def test_compressed_rows_are_the_same_to_one_gaussian(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    shown = rng.random((4, d)) < 0.7
    x = rng.standard_normal((400, d)) @ rng.standard_normal((d, d)) + 5 * rng.standard_normal(d)
    x[~shown[rng.integers(0, 4, 400)]] = np.nan
    weight = rng.uniform(0.5, 2.0, 400)
    patterns = find_patterns(~np.isnan(x))
    few, few_weight, same = compress_rows(x, weight, patterns)
    assert (~np.isnan(few)).any(axis=1).sum() < len(x) / 2  # empty rows stay
    for p, observed in enumerate(patterns.observed):
        assert np.array_equal(same.observed[p], observed)
        before = patterns.order[patterns.start[p] : patterns.start[p + 1]]
        after = same.order[same.start[p] : same.start[p + 1]]
        assert np.array_equal(~np.isnan(few[after]), np.broadcast_to(observed, (len(after), d)))
        old, new = x[before][:, observed], few[after][:, observed]
        w, v = weight[before], few_weight[after]
        np.testing.assert_allclose(v.sum(), w.sum(), rtol=1e-12)
        np.testing.assert_allclose(v @ new, w @ old, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose((new.T * v) @ new, (old.T * w) @ old, rtol=1e-10, atol=1e-9)
