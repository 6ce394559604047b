"""The Gaussian of indicators that heads of mixed tables see."""

import numpy as np
import pandas as pd
import pytest

from gapmix import GaussianMixtureImputer
from gapmix.density.conditional import Filled
from gapmix.heads import trees
from gapmix.heads.bins import put_in_bins
from gapmix.heads.features import MOST_LEVELS, make_view
from gapmix.heads.indicators import (
    Indicators,
    count_described,
    describe,
    find_fault,
    find_own,
    spread_out,
)
from gapmix.heads.learners import Grown, choose_learners, learn, mix_in, predict
from gapmix.selection.effort import FEW_TREES


def test_one_gaussian_of_indicators_tells_gaps_as_the_textbook_does():
    rng = np.random.default_rng(0)
    n, n_levels = 400, np.array([0, 3, 0, 2])
    x = np.column_stack([rng.normal(5, 2, n), rng.integers(0, 3, n), rng.normal(size=n), n * [0]])
    x[:, 3] = rng.random(n) < 0.4
    x[:, 0] += 3.0 * (x[:, 1] == 2) - 2.0 * x[:, 3]
    view = make_view(x, np.ones(n), n_levels)
    wide = spread_out(view, x)
    assert wide.shape == (n, 2 + 3 + 1)
    mean, covariance = wide.mean(axis=0), np.cov(wide.T) + 0.01 * np.eye(6)
    given = Indicators(mean, covariance)
    assert find_fault(view, given) == ""
    missing = rng.random(x.shape) < 0.3
    for j in range(4):
        missing[:, j] = True
        levels = tuple(np.full((n, k), 1 / k) for k in (3, 2))
        filled = Filled(np.where(missing, 0.0, x), np.ones(x.shape), np.empty((n, 0)), x, levels)
        told = describe(view, given, j, filled, missing)
        own = find_own(view, j)
        assert told.shape[1] == count_described(view, given, j)
        rows = spread_out(view, np.where(missing, np.nan, x))
        for row, found in zip(rows, told[:, -(own.stop - own.start) :], strict=True):
            o = ~np.isnan(row)
            solved = np.linalg.solve(covariance[np.ix_(o, o)], (row - mean)[o])
            wanted = (mean + covariance[:, o] @ solved)[own]
            np.testing.assert_allclose(found, wanted, atol=1e-6)
        missing = rng.random(x.shape) < 0.3


def test_a_level_that_is_too_rare_to_be_shown_is_as_if_missing():
    codes = np.repeat(np.arange(30.0), np.arange(30, 0, -1))
    x = np.column_stack([codes, np.arange(len(codes))])
    view = make_view(x, np.ones(len(x)), np.array([30, 0]))
    wide = spread_out(view, x)[:, find_own(view, 0)]
    rare = codes >= MOST_LEVELS
    assert np.isnan(wide[rare]).all()
    assert np.array_equal(wide[~rare].sum(axis=1), np.ones((~rare).sum()))


@pytest.mark.parametrize("forest_share", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_slopes_that_are_not_learned_are_mixed_in_their_share(forest_share, share):
    rng = np.random.default_rng(0)
    x, slope = rng.normal(size=(200, 3)).round(7), np.array([-1.0, 0.0, 1.0])
    target = x[:, 0] ** 2 + x[:, 1]
    recipe = choose_learners(FEW_TREES, 0).of_numbers
    given = x, target, np.ones(200), put_in_bins(x, np.ones(200))
    learner = learn(Grown(recipe.tried[0], recipe.growth), *given, named=False)
    forest = learn(recipe.plantings[0], *given, named=False).forest
    learner = learner._replace(forest=forest, share=forest_share)
    mixed = mix_in(learner, slope, share)
    assert trees.find_fault(mixed.model, 3, 1) == ""
    wanted = (1.0 - share) * predict(learner, x) + share * (x @ slope)
    np.testing.assert_allclose(predict(mixed, x), wanted, rtol=1e-10, atol=1e-12)


def test_numbers_that_many_categories_add_to_are_told_as_sums():
    rng = np.random.default_rng(0)
    n = 600
    codes = rng.integers(0, 2, (n, 8))
    total = codes @ np.array([1.0, -1.0, 0.7, 0.7, -0.5, 0.5, 1.2, -0.9]) + rng.normal(0, 0.3, n)
    frame = pd.DataFrame(np.where(codes, "yes", "no"), columns=[f"q{j}" for j in range(8)])
    frame = frame.astype("category").assign(total=total)
    hidden = rng.random((n, 9)) < 0.2
    shown = frame.mask(hidden)
    errors = []
    for refine in (False, None):
        filled = (
            GaussianMixtureImputer(refine=refine, random_state=0).fit(shown).impute_frame(shown)
        )
        errors.append(np.sqrt(np.mean((filled["total"] - total)[hidden[:, 8]] ** 2)))
    assert errors[1] < 0.8 * errors[0]
