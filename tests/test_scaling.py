import numpy as np
import pytest
from conftest import size
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import column_variances

from gapmix.parameters import Parameters
from gapmix.structures.mixtures import parameters_to_internal, parameters_to_user
from gapmix.units import measure, to_internal, to_user

N_EXAMPLES = size(100, 1000)
EPS = np.finfo(float).eps


def is_power_of_two(values):
    return (np.frexp(values)[0] == 0.5).all()


@st.composite
def columns(draw):
    """Tables whose columns differ in magnitude and shift, with gaps."""
    n, d = draw(st.integers(2, 20)), draw(st.integers(1, 4))
    unit = draw(arrays(float, (n, d), elements=st.floats(-1, 1, width=32)))
    power = draw(arrays(int, (d,), elements=st.integers(-130, 130)))
    shift = draw(arrays(float, (d,), elements=st.sampled_from([0.0, 1.0, -1e3, 1e6])))
    x = (unit + shift) * 10.0**power
    x[draw(arrays(bool, (n, d), elements=st.booleans()))] = np.nan
    return x


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(columns(), st.booleans())
def test_scales_are_powers_of_two_and_centres_whole_multiples(x, common):
    scaling = measure(x, np.ones(len(x)), common=common)
    assert is_power_of_two(scaling.scale)
    assert np.array_equal(np.round(scaling.center / scaling.scale) * scaling.scale, scaling.center)
    if common:
        assert np.unique(scaling.scale).size == 1


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(columns())
def test_internal_columns_have_mean_near_zero_and_variance_near_one(x):
    scaling = measure(x, np.ones(len(x)))
    inside = to_internal(x, scaling)
    for j, column in enumerate(inside.T):
        seen = column[~np.isnan(column)]
        assert scaling.known[j] == (seen.size > 0)
        given_values = x[~np.isnan(x[:, j]), j]
        if given_values.size < 2 or given_values.std() <= 8 * EPS * np.abs(given_values).max():
            continue  # equal but for rounding: its own magnitude is the unit
        largest = np.abs(x[~np.isnan(x[:, j]), j]).max() / scaling.scale[j]
        assume(largest < 1e12)  # beyond, the column's digits are spent on its mean
        assert np.abs(seen.mean() - scaling.mean[j]) <= 4 * EPS * largest + 1e-12
        assert seen.var() == pytest.approx(scaling.variance[j], rel=1e-9 + EPS * largest)
        assert 0.49 < scaling.variance[j] < 2.01


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(columns(), st.booleans())
def test_rows_come_back_to_the_last_digit_of_the_larger_of_value_and_centre(x, common):
    scaling = measure(x, np.ones(len(x)), common=common)
    back = to_user(to_internal(x, scaling), scaling)
    seen = ~np.isnan(x)
    assert np.array_equal(np.isnan(back), ~seen)
    room = 2 * EPS * (np.abs(x) + np.abs(scaling.center))
    assert (np.abs(back - x)[seen] <= room[seen]).all()


@settings(max_examples=N_EXAMPLES, deadline=None)
@given(columns(), st.integers(0, 2**32 - 1))
def test_covariances_come_back_bit_for_bit(x, seed):
    rng = np.random.default_rng(seed)
    scaling = measure(x, np.ones(len(x)))
    d = x.shape[1]
    for name, shape in (("full", (2, d, d)), ("tied", (1, d, d)), ("diag", (2, d))):
        inside = Parameters(np.full(2, 0.5), rng.standard_normal((2, d)), rng.random(shape), name)
        user = parameters_to_user(inside, scaling)
        back = parameters_to_internal(user, scaling)
        assert np.array_equal(back.covariances, inside.covariances)


def test_a_power_of_two_in_the_data_changes_only_the_scale():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3)) + 5
    plain, scaled = measure(x, np.ones(50)), measure(x * 2.0**40, np.ones(50))
    assert np.array_equal(scaled.scale, plain.scale * 2.0**40)
    assert np.array_equal(scaled.variance, plain.variance)
    assert np.array_equal(scaled.mean, plain.mean)


@pytest.mark.parametrize("magnitude", [1e-300, 1e-160, 1e-8, 1.0, 1e8, 1e160, 1e300])
def test_no_magnitude_overflows(magnitude):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (200, 2)) * magnitude
    scaling = measure(x, np.ones(200))
    assert all(np.isfinite(part).all() for part in scaling)
    inside = to_internal(x, scaling)
    np.testing.assert_allclose(inside.var(axis=0), scaling.variance, rtol=1e-12)


@pytest.mark.parametrize("shift", [1e3, 1e6, 1e9])
def test_a_shift_costs_only_the_digits_the_input_lost(shift):
    x = np.random.default_rng(2).standard_normal((500, 1))
    plain, moved = measure(x, np.ones(500)), measure(x + shift, np.ones(500))
    assert moved.scale == plain.scale
    np.testing.assert_allclose(moved.variance, plain.variance, rtol=10 * EPS * shift)


def test_weights_count_rows():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((20, 3))
    x[rng.random(x.shape) < 0.3] = np.nan
    weight = rng.integers(0, 4, 20)
    weighted, repeated = (
        measure(x, weight * 1.0),
        measure(np.repeat(x, weight, axis=0), np.ones(weight.sum())),
    )
    for a, b in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)
    user = weighted.variance * weighted.scale**2
    np.testing.assert_allclose(user, column_variances(x[weight > 0], weight[weight > 0] * 1.0))


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, -1e12, 1e-9])
def test_a_constant_column_has_variance_one_in_its_own_unit(value):
    scaling = measure(np.full((7, 1), value), np.ones(7))
    assert scaling.variance == 1.0
    assert scaling.known.all()
    np.testing.assert_allclose(scaling.mean * scaling.scale + scaling.center, value, rtol=1e-15)


def test_an_unseen_column_is_unknown_with_mean_zero_and_variance_one():
    x = np.array([[1.0, np.nan], [2.0, np.nan]])
    scaling = measure(x, np.ones(2))
    assert scaling.known.tolist() == [True, False]
    assert (scaling.center[1], scaling.scale[1], scaling.mean[1]) == (0.0, 1.0, 0.0)
    assert scaling.variance[1] == 1.0
