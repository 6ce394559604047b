"""The order in which chance draws: units, places and copies do not change it."""

import numpy as np
import pytest

from gapmix.plan import canonical
from gapmix.plan.canonical import draw_uniform, name_levels, put_in_order


def make_table(kind, seed=0, n=300, d=6):
    rng = np.random.default_rng(seed)
    if kind == "normal":
        x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    elif kind == "counts":
        x = rng.poisson(rng.uniform(0.5, 5.0, d), size=(n, d)).astype(float)
    else:
        x = (rng.random((n, d)) < rng.uniform(0.2, 0.8, d)).astype(float)
        x[:, 0] = 7.0  # a constant
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


KINDS = ["normal", "counts", "switches"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [3.0, 2.54, 1e-8, 1e8])
def test_units_do_not_change_the_order(kind, factor):
    x = make_table(kind)
    scale = np.where(np.arange(x.shape[1]) % 2, factor, 1.0)
    weight = np.ones(len(x))
    here, there = put_in_order(x, weight), put_in_order(x * scale + 5.0 * scale, weight)
    np.testing.assert_array_equal(here.columns, there.columns)
    np.testing.assert_array_equal(x[here.rows], x[there.rows])
    np.testing.assert_array_equal(here.which, there.which)


@pytest.mark.parametrize("kind", KINDS)
def test_places_of_rows_and_columns_do_not_change_the_order(kind):
    x = make_table(kind)
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(len(x)), rng.permutation(x.shape[1])
    moved = x[rows][:, columns]
    here = put_in_order(x, np.ones(len(x)))
    there = put_in_order(moved, np.ones(len(x)))
    np.testing.assert_array_equal(x[:, here.columns], x[:, columns[there.columns]])
    np.testing.assert_array_equal(
        x[here.rows][:, here.columns], moved[there.rows][:, there.columns]
    )
    np.testing.assert_array_equal(here.which[rows], there.which)


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_of_three_is_the_row_three_times(kind):
    x = make_table(kind)
    weight = np.random.default_rng(2).integers(1, 4, len(x))
    here = put_in_order(x, weight.astype(float))
    there = put_in_order(np.repeat(x, weight, axis=0), np.ones(weight.sum()))
    np.testing.assert_array_equal(x[here.rows], np.repeat(x, weight, axis=0)[there.rows])
    np.testing.assert_allclose(here.weight, there.weight)
    np.testing.assert_array_equal(np.repeat(here.which, weight), there.which)


def test_every_row_has_its_place_among_the_distinct_ones():
    x = make_table("switches")
    found = put_in_order(x, np.ones(len(x)))
    np.testing.assert_array_equal(x[found.rows][found.which], x)
    assert len(np.unique(found.rows)) == len(found.rows) < len(x)


def test_copies_in_tables_of_categories_are_drawn_each_by_itself_wherever_columns_stand():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (200, 3)).astype(float)
    n_levels = np.array([3, 3, 3])
    drawn = draw_uniform(codes, np.ones(200), np.random.default_rng(1), n_levels)
    assert len(np.unique(drawn)) == drawn.size
    order = np.array([2, 0, 1])
    again = draw_uniform(codes[:, order], np.ones(200), np.random.default_rng(1), n_levels)
    rows = [np.sort(each, axis=0) for each in (drawn[:, order], again)]
    np.testing.assert_array_equal(*rows)
    alike = draw_uniform(codes, np.ones(200), np.random.default_rng(1))  # as numbers
    assert len(np.unique(alike)) < drawn.size


def test_a_large_table_has_the_order_that_it_has_in_one_go(monkeypatch):
    x = np.random.default_rng(0).normal(size=(50, 17))
    x[:, 4] = np.nan
    whole = canonical.order_columns(x, np.ones(50))
    monkeypatch.setattr(canonical, "MANY_CELLS", 120)
    np.testing.assert_array_equal(canonical.order_columns(x, np.ones(50)), whole)


def test_an_empty_column_does_not_change_the_names_of_levels():
    rng = np.random.default_rng(0)
    numbers, codes = rng.normal(size=(60, 3)), rng.integers(0, 2, (60, 2)).astype(float)
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    named = []
    for d in range(3):  # empty columns beside them
        x = np.column_stack([numbers, np.full((60, d), np.nan), codes])
        n_levels = np.append(np.zeros(3 + d, dtype=int), [2, 2])
        named.append(name_levels(x, np.ones(60), n_levels)[:, -2:])
    assert np.array_equal(named[0], named[1])
    assert np.array_equal(named[0], named[2])
