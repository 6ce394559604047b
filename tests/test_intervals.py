"""Intervals hold their share of each column, as they are given: rounded and within limits."""

import numpy as np

from gapmix import GaussianMixtureImputer
from gapmix.kinds import ANY, Possible, find_spans, to_possible


def test_spans_are_what_is_brought_to_a_value():
    nan = np.nan
    possible = Possible(
        np.array([0.0, -np.inf, 1.0]),
        np.array([9.0, np.inf, 4.0]),
        np.array([0, ANY, 0]),
        np.array([[nan, nan, nan], [nan, nan, nan], [1.0, 2.0, 4.0]]),
    )
    x = np.array([[0.0, 0.5, 1.0], [3.0, -2.0, 2.0], [9.0, 7.0, 4.0]])
    low, high = find_spans(possible, x)
    gaps = np.full_like(x, nan)
    for move, ends in ((1e-6, low), (-1e-6, high)):
        near = np.where(np.isinf(ends), -1e9 * np.sign(move), ends + move)
        near[:, 1] = x[:, 1]
        np.testing.assert_array_equal(to_possible(possible, gaps, near), x)
        beyond = np.where(np.isinf(ends), nan, ends - move)[:, [0, 2]]
        brought = to_possible(possible, gaps, np.insert(beyond, 1, 0.0, axis=1))[:, [0, 2]]
        assert (np.isnan(beyond) | (brought != x[:, [0, 2]])).all()
    np.testing.assert_array_equal(low[:, 1], x[:, 1])


def test_intervals_hold_their_share_in_each_column():
    rng = np.random.default_rng(0)
    n = 3000
    t = rng.standard_normal(n)
    x = np.column_stack(
        [
            np.round(2 + t + rng.standard_normal(n)).clip(0, 4),
            t + 0.5 * rng.standard_t(2, n),
            np.exp(t + 0.5 * rng.standard_normal(n)),
            t + rng.uniform(-1, 1, n),
        ]
    )
    shown = x.copy()
    shown[rng.random(x.shape) < 0.2] = np.nan
    imputer = GaussianMixtureImputer(max_components=2, tol=1e-2, random_state=0).fit(shown)
    assert imputer.calibration_.shape == (4, 201)
    low, high = imputer.intervals(shown)
    for j in range(4):
        gap = np.isnan(shown[:, j])
        held = (low[gap, j] <= x[gap, j]) & (x[gap, j] <= high[gap, j])
        assert 0.85 < held.mean() < 0.95, j
