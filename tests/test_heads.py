"""Heads: what learns from the errors of a mixture, and how much of it is used."""

import itertools
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression, Ridge

from gapmix import (
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
    load,
    save,
)
from gapmix.density import fill
from gapmix.evaluate import hide_and_score
from gapmix.evaluate.contenders import beside_itself
from gapmix.heads import column, fitting
from gapmix.heads.bins import MOST_BINS, find_thresholds, put_in_bins
from gapmix.heads.forest import Planting, plant
from gapmix.heads.learners import Constant, Grown, choose_learners, predict, predict_levels
from gapmix.heads.learners import learn as learn_binned
from gapmix.heads.trees import Trees, add_up, find_fault, tells_shares, to_trees
from gapmix.heads.weighing import believe
from gapmix.kernels import load as load_kernel
from gapmix.kernels import twins
from gapmix.modelfile.heads import heads_from_arrays, heads_to_arrays
from gapmix.selection.effort import FEW_TREES
from gapmix.selection.hiding import hide
from gapmix.storage.recordfile import ModelFileError

FEW = {"n_components": 2, "max_iter": 5, "random_state": 0, "n_jobs": 1}
AUTO = {"max_components": 2, "random_state": 0, "n_jobs": 1}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def kinked(n=400, seed=0):
    """Rows with a kink that two Gaussians cannot follow, and a column that is mere noise."""
    rng = np.random.default_rng(seed)
    a, b, noise = rng.uniform(-2, 2, (3, n))
    truth = np.column_stack([a, b, np.where(a > 0, b, -b) + 0.05 * rng.normal(size=n), noise])
    hidden = hide(truth, "mcar", rng)
    return truth, np.where(hidden, np.nan, truth)


def mixed(n=400, seed=0):
    """A table with a category that is a rule of two numbers."""
    truth, x = kinked(n, seed)
    levels = np.where(truth[:, 0] * truth[:, 1] > 0, "same", "other")
    levels[truth[:, 0] > 1.5] = "far"
    rng = np.random.default_rng(seed + 1)
    frame = pd.DataFrame(x[:, [0, 1, 3]], columns=["a", "b", "noise"])
    frame["level"] = pd.Series(levels).mask(rng.random(n) < 0.2)
    return levels, frame


def learn(learner, features, target, weight, *, named, own=0):
    binned = put_in_bins(features, weight)
    return learn_binned(learner, features, target, weight, binned, named=named, own=own)


def walk(trees, features):
    """Return the sum over slopes and trees of one row, walked by hand."""
    total = trees.baseline.copy()
    for k, slopes in enumerate(trees.slope):
        total[k] += sum(slope * features[j] for j, slope in enumerate(slopes))
    width = trees.value.shape[1]
    for tree, (first, end) in enumerate(pairwise(trees.start)):
        node = first
        while trees.left[node] >= 0:
            side = "left" if features[trees.feature[node]] <= trees.threshold[node] else "right"
            node = getattr(trees, side)[node]
            assert first < node < end
        output = tree * width % len(total)
        total[output : output + width] += trees.value[node]
    return total


@pytest.fixture(scope="module")
def pair():
    _, x = kinked()
    plain = GaussianMixtureImputer(**FEW).fit(x)
    return x, plain, clone(plain).set_params(refine="auto").fit(x)


@pytest.fixture(scope="module")
def repeating():
    """A table whose rows repeat, and what fills it without and with two rounds of heads."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 6))[rng.integers(60, size=400)]
    x = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    plain = GaussianMixtureImputer(**FEW, refine=False).fit(x)
    return truth, x, plain, clone(plain).set_params(refine="auto").fit(x)


@pytest.fixture(scope="module")
def mixed_pair():
    levels, frame = mixed()
    plain = GaussianMixtureImputer(**FEW, refine=False).fit(frame)
    return levels, frame, plain, clone(plain).set_params(refine="auto").fit(frame)


def test_heads_fill_a_kink_better_and_leave_known_cells_as_they_are(pair):
    x, _, refined = pair
    truth, gaps = kinked()[0], np.isnan(x)
    error = [np.sqrt(((each.transform(x) - truth)[gaps[:, 2], 2] ** 2).mean()) for each in pair[1:]]
    assert error[1] < 0.95 * error[0]
    weights = {head.column: head.weight for head in refined.heads_.heads}
    assert weights[2] > 0.3
    assert np.array_equal(refined.transform(x)[~gaps], x[~gaps])


def test_a_column_that_heads_do_not_help_is_the_mixtures_bit_by_bit():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 5)) @ rng.normal(size=(5, 5))
    x[rng.random(x.shape) < 0.2] = np.nan
    plain = GaussianMixtureImputer(1, random_state=0, n_jobs=1).fit(x)
    refined = clone(plain).set_params(refine="auto").fit(x)
    left = [head.column for head in refined.heads_.heads if head.weight == 0.0]
    assert len(left) >= 3
    for name in ("transform", "intervals", "sample"):
        one, two = (np.asarray(getattr(each, name)(x)) for each in (plain, refined))
        assert np.array_equal(one[..., left], two[..., left]), name


def refine_by_hand(heads, filled, x, row, column):
    """Return the mean of a cell of numbers; heads see others as the heads before them fill them."""
    own = [] if heads is None else [each for each in heads.heads if each.column == column]
    if not np.isnan(x[row, column]) or not own or own[0].learner is None:
        return filled.mean[row, column]
    (head,), view = own, heads.view
    means = [refine_by_hand(heads.first, filled, x, row, j) for j in range(x.shape[1])]
    means[column] = filled.mean[row, column]
    std = filled.std[row, column] / view.scale[column]
    features = [(means[j] - view.center[j]) / view.scale[j] for j in view.order]
    features += [std, *(np.isnan(x[row, j]) for j in view.order if j != column and view.gaps[j])]
    features = [round(float(each), 7) for each in features]
    learner = head.learner
    by = (1 - learner.share) * walk(learner.model, features)[0]
    if learner.share:
        by += learner.share * walk(learner.forest, features)[0]
    by *= 1.0 if head.half == 0 else std**2 / (std**2 + head.half**2)
    return means[column] + head.weight * view.scale[column] * by


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_filled_value_is_the_mixtures_and_what_trees_walked_by_hand_say(pair, repeating, rounds):
    x, plain, refined = pair if rounds == 1 else repeating[1:]
    assert (refined.heads_.first is not None) == (rounds == 2)
    filled, told = fill(plain._density(), x, spread=True), refined.transform(x)
    both = np.isnan(x[:, 2]) & (np.isnan(x).sum(axis=1) > 1)  # one sees the other refined
    for row in [*np.flatnonzero(np.isnan(x[:, 2]))[:20], *np.flatnonzero(both)[:20]]:
        expected = refine_by_hand(refined.heads_, filled, x, row, 2)
        expected = np.clip(expected, np.nanmin(x[:, 2]), np.nanmax(x[:, 2]))
        assert told[row, 2] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_levels", [0, 2, 3])
def test_trees_give_the_numbers_of_scikit_learn_bit_by_bit(n_levels):
    rng = np.random.default_rng(n_levels)
    x = rng.normal(size=(300, 4)).round(7)
    if n_levels:
        target = (x[:, 0] * 2 + rng.normal(size=300)).astype(int) % n_levels
        made = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    else:
        target, made = x[:, 0] * x[:, 1], HistGradientBoostingRegressor(max_iter=5, random_state=0)
    theirs = made.fit(x, target)
    ours = learn(made, x, target, np.ones(300), named=n_levels > 0)
    assert isinstance(ours.model, Trees)
    assert find_fault(ours.model, 4, n_levels if n_levels > 2 else 1) == ""
    if n_levels:
        assert np.array_equal(predict_levels(ours, x, n_levels), theirs.predict_proba(x))
    else:
        assert np.array_equal(predict(ours, x), theirs.predict(x))
        total = np.tile(ours.model.baseline, (300, 1))
        twins.add_trees(x, *ours.model[2:7], ours.model.start, total)
        assert np.array_equal(total[:, 0], theirs.predict(x))


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("n_levels", [0, 2, 3])
def test_slopes_give_the_numbers_of_scikit_learn(n_levels, even):
    rng = np.random.default_rng(n_levels)
    x = rng.normal(size=(300, 4)).round(7)
    learners = choose_learners(FEW_TREES, 0)
    target = x[:, 0] * 2 + rng.normal(size=300)
    if n_levels:
        target = np.digitize(target, [0.0, 1.0][: n_levels - 1])
    made = (learners.of_levels if n_levels else learners.of_numbers).tried[1]
    weight = np.ones(300) if even else rng.integers(1, 4, 300).astype(float)
    theirs = clone(made) if n_levels else Ridge(made.penalty)
    theirs.fit(x, target, sample_weight=weight)
    ours = learn(made, x, target, weight, named=n_levels > 0)
    assert find_fault(ours.model, 4, n_levels if n_levels > 2 else 1) == ""
    if n_levels:
        told, wanted = predict_levels(ours, x, n_levels), theirs.predict_proba(x)
        assert np.array_equal(predict_levels(ours, x[7:8], n_levels)[0], told[7])
    else:
        told, wanted = predict(ours, x), theirs.predict(x)
        assert predict(ours, x[7:8])[0] == told[7]
    np.testing.assert_allclose(told, wanted, rtol=1e-12, atol=1e-14)
    total = np.zeros((300, len(ours.model.slope)))
    twins.add_slopes(x, ours.model.slope, total)
    np.testing.assert_allclose(total + ours.model.baseline, add_up(ours.model, x), rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_grows_as_its_twin_does_and_splits_where_a_loop_finds_the_largest_gain(seed):
    rng = np.random.default_rng(seed)
    n, p, n_bins, least = 80, 4, 6, 5
    bins = rng.integers(0, n_bins, (n, p)).astype(np.uint8)
    bins[:, 3] = bins[:, 1]  # gains alike: the first counts
    grad, hess = rng.normal(size=n), rng.random(n)
    made = []
    for grow in (load_kernel("growing").grow_tree, twins.grow_tree):
        feature, place = np.zeros(7, dtype=np.int64), np.zeros(7, dtype=np.int64)
        value, node = np.zeros(7), np.zeros(n, dtype=np.int64)
        grow(bins, n_bins, np.arange(p), grad, hess, least, 1.0, feature, place, value, node)
        made.append((feature, np.where(feature >= 0, place, 0), value, node))
    for ours, theirs in zip(*made, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    feature, place, value, node = made[0]

    def worth(rows):
        return grad[rows].sum() ** 2 / (hess[rows].sum() + 1.0)

    gains = {
        (j, b): worth(bins[:, j] <= b) + worth(bins[:, j] > b)
        for j, b in itertools.product(range(p), range(n_bins - 1))
        if least <= (bins[:, j] <= b).sum() <= n - least
    }
    assert gains[feature[0], place[0]] == pytest.approx(max(gains.values()))
    assert 3 not in feature
    assert min(np.bincount(node)[np.unique(node)]) >= least
    rows = node == node[0]
    assert value[node[0]] == pytest.approx(-grad[rows].sum() / (hess[rows].sum() + 1.0))


def test_few_values_have_a_bin_each_and_many_share_by_weight():
    rng, n = np.random.default_rng(0), 10 * MOST_BINS
    x = np.column_stack([rng.integers(0, 3, n), rng.normal(size=n), np.zeros(n)])
    bins, edges = put_in_bins(x, np.ones(n))
    assert edges[0].tolist() == [0.5, 1.5]
    assert np.array_equal(bins[:, 0], x[:, 0])
    assert len(edges[1]) == MOST_BINS - 1
    assert np.bincount(bins[:, 1]).min() >= 9
    assert not bins[:, 2].any()
    twice = put_in_bins(np.repeat(x, 2, axis=0), np.full(2 * n, 0.7))
    assert all(map(np.array_equal, twice.edges, edges))
    assert len(put_in_bins(x[:40], np.ones(40)).edges[1]) == 19
    feature, place = np.array([0, -1, 1]), np.array([1, 5, 3])
    assert find_thresholds(edges, feature, place).tolist() == [1.5, 0.0, edges[1][3]]


@pytest.mark.parametrize("n_levels", [0, 2, 3])
def test_trees_on_top_of_slopes_learn_a_rule_that_lines_cannot(n_levels):
    rng = np.random.default_rng(n_levels)
    x = rng.normal(size=(600, 4)).round(7)
    rule = np.where(x[:, 0] * x[:, 1] > 0, 1.0, -1.0) + 2.0 * (x[:, 2] > 1)
    target = np.searchsorted(np.unique(rule), rule) % n_levels * 2.0 if n_levels else rule
    learners = choose_learners(FEW_TREES, 0)
    recipe = learners.of_levels if n_levels else learners.of_numbers
    line = recipe.tried[0]
    off = []
    for each in (line, Grown(line, recipe.growth), *recipe.plantings):
        model = learn(each, x[:400], target[:400], np.ones(400), named=n_levels > 0)
        trees = model.model or model.forest
        n_outputs = n_levels if n_levels > 2 or model.forest else 1
        assert find_fault(trees, 4, max(1, n_outputs)) == ""
        if n_levels:
            assert model.levels.tolist() == [0, 2, 4][:n_levels]
            told = predict_levels(model, x[400:], 5)
            off.append(np.mean(told.argmax(axis=1) != target[400:]))
        else:
            off.append(np.mean((predict(model, x[400:]) - target[400:]) ** 2))
    assert max(off[1:]) < 0.65 * off[0]


@pytest.mark.parametrize("n_levels", [0, 2, 3])
def test_boosted_trees_grow_as_their_twins_do_and_each_lowers_the_loss(n_levels):
    rng = np.random.default_rng(n_levels)
    n, p, n_bins, n_outputs = 150, 6, 7, 3 if n_levels > 2 else 1
    bins = rng.integers(0, n_bins, (n, p)).astype(np.uint8)
    weight = rng.random(n) + 0.5
    told = bins[:, 0] * 0.5 - (bins[:, 1] > 3) + rng.normal(scale=0.3, size=n)
    own = told[:, None]
    if n_levels:
        level = np.digitize(told, [0.5, 1.5][: n_levels - 1])
        own = (level[:, None] == np.arange(n_levels)[-n_outputs:]).astype(float)
    used = np.stack([np.sort(rng.permutation(p)[:4]) for _ in range(5 * n_outputs)])
    start, made = rng.normal(scale=0.1, size=(n, n_outputs)), []
    for grow in (load_kernel("growing").boost_trees, twins.boost_trees):
        raw, value = start.copy(), np.zeros((len(used), 15))
        feature, place = (np.zeros((len(used), 15), dtype=np.int64) for _ in range(2))
        options = n_levels > 0, 5, 1.0, 0.3
        grow(bins, n_bins, used, own, weight, raw, *options, feature, place, value)
        made.append((raw, feature, np.where(feature >= 0, place, 0), value))
    for ours, theirs in zip(*made, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)

    def miss(raw):
        if not n_levels:
            return np.average((raw[:, 0] - told) ** 2, weights=weight)
        odds = raw if n_outputs > 1 else np.column_stack([np.zeros(n), raw[:, 0]])
        return -np.average(log_softmax(odds, axis=1)[np.arange(n), level], weights=weight)

    assert miss(made[0][0]) < 0.7 * miss(start)


def test_a_forest_is_its_trees_planted_one_by_one():
    rng = np.random.default_rng(0)
    n, p, n_trees, most = 60, 4, 3, 39
    bins = rng.integers(0, 9, (n, p)).astype(np.uint8)
    level, amount, weight = np.zeros(n, dtype=np.int64), rng.normal(size=n), rng.random(n) + 0.1
    chance = rng.random((n_trees, most * p))
    for plant_trees in (load_kernel("growing").plant_trees, twins.plant_trees):
        nodes, values = np.zeros((3, n_trees, most), dtype=np.int64), np.zeros((n_trees, most, 1))
        counts = np.zeros(n_trees, dtype=np.int64)
        plant_trees(bins, level, amount, weight, 3, 9, chance, *nodes, values, counts)
        for t in range(n_trees):
            alone, value = np.zeros((3, most), dtype=np.int64), np.zeros((most, 1))
            given = bins, np.arange(n), level, amount, weight, 3, 9, chance[t]
            assert load_kernel("growing").plant_tree(*given, *alone, value) == counts[t]
            assert np.array_equal(nodes[:, t], alone)
            np.testing.assert_allclose(values[t], value, rtol=1e-10, atol=1e-12)
    assert len(np.unique(nodes[0], axis=0)) == n_trees


@pytest.mark.parametrize("n_levels", [1, 3])
def test_a_tree_of_a_forest_grows_as_its_twin_does_and_splits_where_errors_fall_most(n_levels):
    rng = np.random.default_rng(n_levels)
    n, p, n_bins, least, depth = 120, 5, 7, 4, 4
    bins = rng.integers(0, n_bins, (n, p)).astype(np.uint8)
    bins[:, 4] = 3  # cannot be cut
    level = rng.integers(0, n_levels, n)
    amount, weight = rng.normal(size=n) if n_levels == 1 else np.ones(n), rng.random(n) + 0.1
    chance = rng.random(31 * p)
    made = []
    for grow in (load_kernel("growing").plant_tree, twins.plant_tree):
        feature, place, left = (np.zeros(31, dtype=np.int64) for _ in range(3))
        value = np.zeros((31, n_levels))
        n_nodes = grow(
            *(bins, np.arange(n), level, amount, weight, least, depth, chance),
            *(feature, place, left, value),
        )
        made.append([each[:n_nodes] for each in (feature, place, left, value)])
    for ours, theirs in zip(*made, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    feature, place, left, value = made[0]
    outputs = (level[:, None] == np.arange(n_levels)) * amount[:, None]

    def miss(rows):
        mean = np.average(outputs[rows], axis=0, weights=weight[rows])
        return (weight[rows, None] * (outputs[rows] - mean) ** 2).sum()

    cuts = [(j, int(chance[j] * (n_bins - 1))) for j in range(p - 1)]
    errors = {
        (j, b): miss(bins[:, j] <= b) + miss(bins[:, j] > b)
        for j, b in cuts
        if least <= (bins[:, j] <= b).sum() <= n - least
    }
    assert len(errors) > 1
    assert errors[feature[0], place[0]] == pytest.approx(min(errors.values()))
    np.testing.assert_allclose(value[0], np.average(outputs, axis=0, weights=weight))
    node = np.zeros(n, dtype=int)
    for _ in range(depth):
        right = bins[np.arange(n), feature[node]] > place[node]
        node = np.where(feature[node] >= 0, left[node] + right, node)
    assert set(np.flatnonzero(feature < 0)) == set(node)
    assert min(np.bincount(node)[np.unique(node)]) >= least
    for leaf in np.unique(node):
        rows = node == leaf
        np.testing.assert_allclose(
            value[leaf], np.average(outputs[rows], axis=0, weights=weight[rows])
        )


def test_a_forest_tells_means_and_shares_and_the_same_seed_the_same():
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(300, 6)), rng.random(300) + 0.5
    binned, planting = put_in_bins(x, weight), Planting(10, seed=0)
    target = x[:, 0] ** 2 + 100.0
    forest = plant(binned, target, weight, 0, planting)
    assert np.abs(add_up(forest, x)[:, 0] - target).mean() < 0.5 * target.std()
    again = plant(binned, target, weight, 0, planting)
    assert all(map(np.array_equal, forest, again))
    other = plant(binned, target, weight, 0, planting._replace(seed=1))
    assert not np.array_equal(forest.feature, other.feature)
    shares = plant(binned, np.digitize(x[:, 0], [-0.5, 0.5]), weight, 3, planting)
    np.testing.assert_allclose(add_up(shares, x).sum(axis=1), 1.0)
    assert tells_shares(shares)
    assert not tells_shares(shares._replace(value=-shares.value))
    assert not tells_shares(shares._replace(value=2 * shares.value))
    assert walk(shares, x[7]) == pytest.approx(add_up(shares, x[7:8])[0])


@pytest.mark.parametrize("n_levels", [2, 4])
def test_where_slopes_would_be_too_many_a_forest_is_mixed_with_shares(n_levels, monkeypatch):
    rng = np.random.default_rng(n_levels)
    target, weight = rng.integers(0, n_levels, 90), rng.random(90)
    told = predict_levels(
        learn(Constant(), rng.normal(size=(90, 2)), target, weight, named=True),
        np.zeros((2, 2)),
        n_levels,
    )
    shares = np.bincount(target, weight) / weight.sum()
    np.testing.assert_allclose(told, [shares, shares])
    levels, frame = mixed()
    monkeypatch.setattr(column, "MOST_SLOPES", 0)
    imputer = GaussianMixtureImputer(**AUTO).fit(frame)
    head = next(each for each in imputer.heads_.heads if each.column == 3)
    assert head.learner.share > 0
    assert not head.learner.model.slope.size
    plain = clone(imputer).set_params(refine=False).fit(frame)
    gaps = frame["level"].isna().to_numpy()
    wrong = [
        (each.impute_frame(frame)["level"].to_numpy() != levels)[gaps].mean()
        for each in (plain, imputer)
    ]
    assert wrong[1] < wrong[0]


def test_a_category_with_few_cells_of_each_level_has_no_head():
    _, frame = mixed()
    frame["level"] = np.arange(len(frame)).astype(str)
    frame.loc[::10, "level"] = None
    imputer = GaussianMixtureImputer(**AUTO, categorical_features=["level"])
    with pytest.warns(UserWarning, match="rare"):
        imputer.fit(frame)
    assert 3 not in [head.column for head in imputer.heads_.heads]


def test_a_gain_is_believed_by_how_many_standard_errors_it_has():
    away = np.tile([-1.0, 1.0], 50)  # of mean 0 and variance 1: the standard error is a tenth
    kept = [believe(away + 0.1 * t, np.ones(100)) for t in (-3.0, 0.9, 2.0, 4.0)]
    np.testing.assert_allclose(kept, [0.0, 0.0, 0.75, 1 - 1 / 16], atol=1e-12)


def test_a_row_that_shows_nothing_is_the_mixtures(mixed_pair):
    _, frame, plain, refined = mixed_pair
    empty = frame.iloc[:2].copy()
    empty[:] = np.nan
    for each in ("transform", "sample"):
        assert np.array_equal(getattr(refined, each)(empty), getattr(plain, each)(empty))


def test_columns_of_large_tables_have_heads_only_if_a_few_rows_promise_a_gain(monkeypatch):
    rng = np.random.default_rng(0)
    lines = rng.normal(size=(2500, 3)) @ rng.normal(size=(3, 3))
    x = np.column_stack([lines, kinked(2500)[0][:, :3]])
    x[rng.random(x.shape) < 0.2] = np.nan
    one = {"max_components": 1, "random_state": 0, "n_jobs": 1}
    heads = GaussianMixtureImputer(**one).fit(x).heads_.heads
    assert [head.column for head in heads] == [3, 4, 5]
    assert all(head.weight > 0 for head in heads)
    assert GaussianMixtureImputer(**one).fit(x[:, :3]).heads_.heads == ()
    monkeypatch.setattr(fitting, "MANY_ROWS", 2500)
    assert len(GaussianMixtureImputer(**one).fit(x).heads_.heads) == 6
    monkeypatch.setattr(fitting, "MANY_COLUMNS", 3)
    frame = pd.DataFrame(x, columns=list("abcdef")).assign(far=np.where(x[:, 3] > 1, "far", "near"))
    frame.loc[::5, "far"] = None
    heads = GaussianMixtureImputer(**one).fit(frame).heads_.heads
    assert [head.column for head in heads] == [6]
    assert len(GaussianMixtureImputer(**one, refine="auto").fit(frame).heads_.heads) == 7


def test_large_tables_have_no_trees_on_top_of_slopes(monkeypatch):
    def refuse(*_):
        raise AssertionError("boosted")

    monkeypatch.setattr("gapmix.heads.learners.boost", refuse)
    with pytest.raises(AssertionError, match="boosted"):
        GaussianMixtureImputer(**AUTO).fit(mixed()[1])
    monkeypatch.setattr(fitting, "MOST_WORK", 0)
    assert GaussianMixtureImputer(**AUTO).fit(mixed()[1]).heads_.at_work()


def test_by_default_levels_follow_numbers_along_lines_and_numbers_levels(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    x = rng.normal(size=(n, 4))
    levels = np.array(["low", "high"])[(x.sum(axis=1) + 0.3 * rng.normal(size=n) > 0).astype(int)]
    frame = pd.DataFrame(x, columns=list("abcd")).assign(jump=5.0 * (levels == "low"), level=levels)
    frame["jump"] += 0.5 * rng.normal(size=n)
    holes = rng.random(frame.shape) < 0.2
    holes[:, 0] &= ~holes.all(axis=1)
    shown = frame.mask(holes)
    one = AUTO | {"max_components": 1}
    plain = GaussianMixtureImputer(**one, refine=False).fit(shown)
    ours = GaussianMixtureImputer(**one).fit(shown)
    wrong = [(each.transform(shown)[:, 5] != levels)[holes[:, 5]].mean() for each in (plain, ours)]
    assert wrong[1] < 0.7 * wrong[0]
    off = [
        np.abs(each.transform(shown)[:, 4].astype(float) - frame["jump"])[holes[:, 4]].mean()
        for each in (plain, ours)
    ]
    assert off[1] < 0.8 * off[0]
    save(ours, tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.transform(shown), ours.transform(shown))
    assert GaussianMixtureImputer(**FEW).fit(shown).heads_ is None  # two components asked for


def test_every_row_is_refined_by_itself(pair):
    x, _, refined = pair
    whole = refined.transform(x)
    some = np.flatnonzero(np.isnan(x).any(axis=1))[:30]
    alone = np.vstack([refined.transform(x[[row]]) for row in some])
    np.testing.assert_allclose(alone, whole[some], rtol=0, atol=1e-11)


def test_neither_units_nor_the_order_of_columns_matter(pair):
    x, _, refined = pair
    unit, order = np.array([2.54, 1.0, 2.54, 1e-3]), [3, 1, 0, 2]
    other = clone(refined).fit((x * unit)[:, order])
    np.testing.assert_allclose(
        other.transform((x * unit)[:, order]), (refined.transform(x) * unit)[:, order], rtol=1e-8
    )
    for one, two in zip(
        sorted(h[1:5] for h in other.heads_.heads),
        sorted(h[1:5] for h in refined.heads_.heads),
        strict=True,
    ):
        assert one == pytest.approx(two, abs=1e-6)


def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads(pair):
    x, _, refined = pair
    again = clone(refined).set_params(n_jobs=2).fit(x)
    assert np.array_equal(again.transform(x), refined.transform(x))


def test_deviations_intervals_and_draws_go_with_the_refined_mean(pair):
    x, plain, refined = pair
    rows = np.flatnonzero(np.isnan(x[:, 2]))
    head = next(each for each in refined.heads_.heads if each.column == 2)
    assert head.after < head.before
    assert head.spread == pytest.approx(head.after / head.before)
    filled, std = refined.set_params(limits=None).impute_with_std(x)
    before, std_before = plain.set_params(limits=None).impute_with_std(x)
    np.testing.assert_allclose(std[rows, 2], head.spread * std_before[rows, 2])
    ends, ends_before = refined.intervals(x)[0][rows, 2], plain.intervals(x)[0][rows, 2]
    moved = filled[rows, 2] + head.spread * (ends_before - before[rows, 2])
    np.testing.assert_allclose(ends, moved)
    draws = refined.sample(x, 2000, random_state=0)
    away = (draws.mean(axis=0) - filled)[rows, 2] / std[rows, 2]
    assert np.abs(away).max() < 5 / np.sqrt(2000)
    np.testing.assert_allclose(draws.std(axis=0)[rows, 2], std[rows, 2], rtol=0.1)
    both = rows[np.isnan(x[rows, 1])]
    drawn = plain.sample(x, 2000, random_state=0)
    for row in both[:3]:  # cells missing together depend on each other as they did
        joint = [np.corrcoef(each[:, row, 1], each[:, row, 2])[0, 1] for each in (draws, drawn)]
        assert joint[0] == pytest.approx(joint[1], abs=1e-9)
    for each in (plain, refined):
        each.set_params(limits="seen")


def test_intervals_of_refined_cells_hold_what_they_should():
    truth, x = kinked(800, seed=3)
    imputer = GaussianMixtureImputer(max_components=3, random_state=0, refine="auto", n_jobs=1)
    low, high = imputer.fit(x).intervals(x, 0.9)
    gaps = np.isnan(x[:, 2])
    held = ((low <= truth) & (truth <= high))[gaps, 2].mean()
    assert 0.84 < held < 0.96


@pytest.fixture(scope="module")
def sharp_and_vague():
    """Rows whose first number the second tells sharply, and where that is missing, a category."""
    rng = np.random.default_rng(0)
    season = rng.integers(0, 2, 3000)
    a = 2.0 * season + rng.normal(size=3000)
    b = a + 0.02 * rng.normal(size=3000)
    truth = pd.DataFrame({"a": a, "b": b, "season": np.array(["dry", "wet"])[season]})
    return truth, truth.mask(rng.random(truth.shape) < 0.25)


@pytest.mark.parametrize("refine", [None, "auto"])
def test_what_the_mixture_is_sure_of_is_not_blurred_and_intervals_hold(sharp_and_vague, refine):
    truth, frame = sharp_and_vague
    one = GaussianMixtureImputer(max_components=1, refine=refine, random_state=0, n_jobs=1)
    refined = one.fit(frame)
    alone = clone(one).set_params(refine=False).fit(frame)
    gaps = frame["a"].isna()
    errors = {}
    for name, imputer in (("refined", refined), ("alone", alone)):
        away = (imputer.impute_frame(frame)["a"] - truth["a"])[gaps]
        sharp = frame["b"][gaps].notna()
        errors[name] = [np.sqrt((away[each] ** 2).mean()) for each in (sharp, ~sharp)]
    assert errors["refined"][0] < 1.3 * errors["alone"][0]
    assert errors["refined"][1] < 0.92 * errors["alone"][1]
    low, high = (end[gaps, 0].astype(float) for end in refined.intervals(frame, 0.9))
    assert 0.85 < ((low <= truth["a"][gaps]) & (truth["a"][gaps] <= high)).mean() < 0.95


def test_levels_are_mixed_probabilities_and_fewer_are_wrong(mixed_pair):
    levels, frame, plain, refined = mixed_pair
    gaps = frame["level"].isna().to_numpy()
    wrong = [
        (each.impute_frame(frame)["level"].to_numpy() != levels)[gaps].mean()
        for each in (plain, refined)
    ]
    assert wrong[1] < 0.8 * wrong[0]
    told, before = (each.probabilities(frame)["level"] for each in (refined, plain))
    np.testing.assert_allclose(told.sum(axis=1), 1.0)
    assert np.array_equal(told[~gaps], before[~gaps])
    head = next(each for each in refined.heads_.heads if each.column == 3)
    assert 0 < head.weight <= 1
    assert head.after > head.before
    best = told.columns.to_numpy()[told.to_numpy().argmax(axis=1)]
    assert (refined.impute_frame(frame)["level"].to_numpy() == best)[gaps].all()
    doubt = refined.impute_with_std(frame)[1][:, 3]
    np.testing.assert_allclose(doubt[gaps], 1 - told.to_numpy().max(axis=1)[gaps])


def test_draws_of_levels_have_the_mixed_probabilities(mixed_pair):
    _, frame, _, refined = mixed_pair
    gaps = np.flatnonzero(frame["level"].isna())
    told = refined.probabilities(frame)["level"]
    draws = refined.sample(frame, 1000, random_state=0)[:, gaps, 3]
    for place, level in enumerate(told.columns):
        share = (draws == level).mean(axis=0)
        expected = told.to_numpy()[gaps, place]
        assert np.abs(share - expected).max() < 5 * 0.5 / np.sqrt(1000)


def test_kinds_and_limits_hold_for_refined_cells(pair):
    x = pair[0]
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["c"] = np.round(3 * frame["c"])
    imputer = GaussianMixtureImputer(**FEW, refine="auto", bounds={"c": (-4, 4)}).fit(frame)
    assert any(head.weight > 0 for head in imputer.heads_.heads if head.column == 2)
    filled = imputer.impute_frame(frame)["c"][frame["c"].isna()]
    assert (filled == filled.round()).all()
    assert filled.between(-4, 4).all()
    assert imputer.transform(frame)[frame["c"].isna(), 2].max() <= 4


def test_any_regressor_will_do_and_heads_are_fitted_where_there_are_gaps(pair):
    x = pair[0].copy()
    x[:, 0] = kinked()[0][:, 0]
    trees = ExtraTreesRegressor(20, n_jobs=1)
    imputer = GaussianMixtureImputer(**FEW, refine=trees).fit(x)
    assert [head.column for head in imputer.heads_.heads] == [1, 2, 3]
    again = clone(imputer).fit(x)
    assert np.array_equal(imputer.transform(x), again.transform(x))  # seeded by random_state
    assert trees.random_state is None
    assert not hasattr(trees, "estimators_")


def test_sample_weights_count_and_a_learner_that_cannot_have_them_says_so(pair):
    x = pair[0]
    weight = np.where(np.arange(len(x)) % 2, 1.0, 0.0)
    half = clone(pair[2]).fit(x[1::2])
    weighted = clone(pair[2]).fit(x, sample_weight=weight)
    np.testing.assert_allclose(weighted.transform(x), half.transform(x), rtol=1e-6, atol=1e-8)

    class NoWeights(LinearRegression):
        def fit(self, X, y):
            return super().fit(X, y)

    imputer = GaussianMixtureImputer(**FEW, refine=NoWeights())
    with pytest.raises(ValueError, match="takes no sample_weight"):
        imputer.fit(x, sample_weight=1.0 + weight)


@pytest.mark.parametrize("wrong", ["boost", 3, True, HistGradientBoostingRegressor, [1]])
def test_what_cannot_refine_is_refused(wrong):
    with pytest.raises(ValueError, match=r"refine=.* is not known. Use 'auto'"):
        GaussianMixtureImputer(**FEW, refine=wrong).fit(kinked(60)[1])


def test_effort_best_refines_unless_told_not_to(pair):
    x = pair[0][:120]
    best = {**AUTO, "effort": "best"}
    assert GaussianMixtureImputer(**best).fit(x).heads_ is not None
    assert GaussianMixtureImputer(**best, refine=False).fit(x).heads_ is None
    assert GaussianMixtureImputer(**FEW, effort="best").fit(x).heads_ is None
    with pytest.raises(ValueError, match="refine and use_target cannot be used together"):
        GaussianMixtureImputer(**FEW, refine="auto", use_target=True).fit(x, x[:, 0])


def test_few_rows_have_no_heads():
    imputer = GaussianMixtureImputer(**FEW, refine="auto").fit(kinked(50)[1])
    assert imputer.heads_.heads == ()


def forged(**changes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    model = HistGradientBoostingRegressor(max_iter=2, random_state=0).fit(x, x[:, 0])
    trees = to_trees(model)
    return trees._replace(
        **{name: change(getattr(trees, name)) for name, change in changes.items()}
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"value": lambda v: v[:-1]}, "differ in length"),
        ({"value": lambda v: v * np.nan}, "not finite"),
        ({"feature": lambda f: f + 9}, "a feature beyond"),
        ({"left": lambda c: np.where(c >= 0, 0, c)}, "not behind it"),
        ({"right": lambda c: np.where(c >= 0, 10**6, c)}, "not behind it"),
        ({"start": lambda s: s[:-1]}, "do not divide"),
        ({"start": lambda s: s[::-1]}, "do not divide"),
        ({"baseline": lambda b: np.zeros(3)}, "cannot be shared"),
        ({"slope": lambda s: np.zeros((1, 3))}, "slopes cannot be shared"),
        ({"slope": lambda s: np.array([[0.0, np.inf]])}, "not finite"),
        ({"slope": lambda s: np.array([[0.0, 1e308]])}, "beyond 1e+50"),
    ],
)
def test_trees_that_cannot_be_are_found_out(changes, said):
    assert said in find_fault(forged(**changes), 2, 1)
    assert find_fault(forged(), 2, 1) == ""


def test_a_file_holds_heads_without_pickle_and_gives_the_same_bits(pair, mixed_pair, tmp_path):
    for rows, imputer in ((pair[0], pair[2]), (mixed_pair[1], mixed_pair[3])):
        save(imputer, tmp_path / "model.safetensors")
        again = load(tmp_path / "model.safetensors")
        assert [each[:5] for each in again.heads_.heads] == [h[:5] for h in imputer.heads_.heads]
        assert np.array_equal(again.transform(rows), imputer.transform(rows))
        one, two = (each.sample(rows, 2, random_state=0) for each in (again, imputer))
        assert np.array_equal(one, two)
    for name, table in again.probabilities(rows).items():
        assert np.array_equal(table, imputer.probabilities(rows)[name])


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("view", lambda a: a[:2], "heads.view must have four"),
        ("view", lambda a: np.zeros_like(a), "every column once"),
        ("table", lambda a: a * np.nan, "7 finite numbers"),
        ("table", lambda a: a[:, :4], "7 finite numbers"),
        ("table", lambda a: a - [0, 0, 0, 0, 0, 9, 0], "half of a head must be from 0"),
        ("table", lambda a: a - [0, 0, 0, 0, 0, 0, 9], "share of a forest must be from 0"),
        ("table", lambda a: a + 7, "belongs to none"),
        ("table", lambda a: np.where(np.arange(7) == 1, 2.0, a), "weights from 0 to 1"),
        ("shown", lambda a: a + 99, "a level beyond"),
        ("levels", lambda a: a + 99, "some of its levels"),
        ("levels.lengths", lambda a: a + 1, "cannot be divided"),
        ("n_nodes", lambda a: a * 0, "does not divide"),
        ("feature", lambda a: a + 99, "a feature beyond"),
        ("left", lambda a: np.where(a >= 0, 0, a), "not behind it"),
        ("right", lambda a: a.astype(float), "must be an array of int64"),
        ("threshold", lambda a: a / 0.0, "not finite"),
        ("value", lambda a: a[:-1], "differ in length"),
        ("baseline", lambda a: a * np.inf, "not finite"),
        ("forests.value", lambda a: -a, "tell no shares of levels"),
        ("forests.value", lambda a: a[:-1], "nodes of forests differ in length"),
        ("forests.left", lambda a: np.where(a >= 0, 0, a), "not behind it"),
        ("forests.n_nodes", lambda a: a * 0, "does not divide"),
        ("indicators.mean", lambda a: a[:-1], "those of levels among them"),
        ("indicators.mean", lambda a: a * np.nan, "beyond 1e"),
        ("indicators.covariance", lambda a: a[0], "must be an array of float64"),
        ("indicators.covariance", lambda a: -a, "variance is not above 0"),
        ("indicators.covariance", lambda a: a + np.triu(a), "not symmetric"),
        ("indicators.covariance", lambda a: 0.0 * a + 1.0, "not positive definite"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_forged_heads_are_refused_with_a_sentence(mixed_pair, name, change, said):
    imputer = mixed_pair[3]
    arrays, n_levels = heads_to_arrays(imputer), imputer.mixture_._n_levels
    assert heads_from_arrays(arrays, 4, n_levels).heads[0].column == 0
    earlier = {name: each for name, each in arrays.items() if not name.startswith("forests.")}
    earlier["heads.table"] = arrays["heads.table"][:, :5]
    assert {head.half for head in heads_from_arrays(earlier, 4, n_levels).heads} == {0.0}
    room = "" if name.startswith(("forests.", "indicators.")) else "heads."
    arrays[f"{room}{name}"] = change(arrays[f"{room}{name}"])
    with pytest.raises(ModelFileError, match=said):
        heads_from_arrays(arrays, 4, n_levels)


def test_a_first_round_in_a_file_is_checked_as_the_second_is_and_needs_it(repeating, tmp_path):
    _, x, _, imputer = repeating
    arrays = heads_to_arrays(imputer)
    save(imputer, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert np.array_equal(again.transform(x), imputer.transform(x))
    forged = {**arrays, "first.heads.feature": arrays["first.heads.feature"] + 99}
    with pytest.raises(ModelFileError, match="a feature beyond"):
        heads_from_arrays(forged, 6, None)
    alone = {name: each for name, each in arrays.items() if name.startswith("first.")}
    with pytest.raises(ModelFileError, match="first round need those"):
        heads_from_arrays(alone, 6, None)


def test_rows_that_repeat_are_found(repeating):
    truth, x, *pair = repeating
    alone, found = (
        np.sqrt(np.mean((each.transform(x) - truth)[np.isnan(x)] ** 2)) for each in pair
    )
    assert found < 0.5 * alone


def test_other_learners_are_not_saved_and_the_way_is_named(pair, tmp_path):
    imputer = clone(pair[2]).set_params(refine=ExtraTreesRegressor(5, random_state=0)).fit(pair[0])
    with pytest.raises(ModelFileError, match="Fit with refine='auto'"):
        save(imputer, tmp_path / "model.safetensors")
    boosted = HistGradientBoostingRegressor(max_iter=5)
    imputer = clone(pair[2]).set_params(refine=boosted).fit(pair[0])
    with pytest.raises(ModelFileError, match=r"set_params\(refine='auto'\)"):
        save(imputer, tmp_path / "model.safetensors")
    save(imputer.set_params(refine="auto"), tmp_path / "model.safetensors")
    assert np.array_equal(
        load(tmp_path / "model.safetensors").transform(pair[0]), imputer.transform(pair[0])
    )


def test_a_regressor_refines_its_targets_and_is_saved(tmp_path):
    truth, x = kinked()
    inputs, y = x[:, [0, 1, 3]], truth[:, 2]
    train, test = slice(0, 300), slice(300, None)
    plain = GaussianMixtureRegressor(**FEW).fit(inputs[train], y[train])
    refined = GaussianMixtureRegressor(**FEW, refine="auto").fit(inputs[train], y[train])
    error = [((each.predict(inputs[test]) - y[test]) ** 2).mean() for each in (plain, refined)]
    assert error[1] < 0.9 * error[0]
    mean, std = refined.predict(inputs[test], return_std=True)
    assert np.array_equal(mean, refined.predict(inputs[test]))
    assert std.mean() < plain.predict(inputs[test], return_std=True)[1].mean()
    low, high = refined.predict_quantiles(inputs[test], [0.05, 0.95])
    assert 0.8 < ((low <= y[test]) & (y[test] <= high)).mean() < 0.99
    draws = refined.sample_y(inputs[test], 500)
    assert np.abs((draws.mean(axis=1) - mean) / std).max() < 5 / np.sqrt(500)
    save(refined, tmp_path / "model.safetensors")
    assert np.array_equal(load(tmp_path / "model.safetensors").predict(inputs[test]), mean)


def test_a_classifier_mixes_probabilities_and_is_saved(tmp_path):
    truth, x = kinked()
    rows, labels = x[:, [0, 1, 3]], np.where(np.sin(4 * truth[:, 0]) > 0, "up", "down")
    train, test = slice(0, 300), slice(300, None)
    plain = GaussianMixtureClassifier(**FEW).set_params(n_components=1)
    refined = clone(plain).set_params(refine="auto").fit(rows[train], labels[train])
    plain.fit(rows[train], labels[train])
    scores = [each.score(rows[test], labels[test]) for each in (plain, refined)]
    assert scores[1] > scores[0] + 0.1
    assert 0 < refined.heads_.heads[0].weight <= 1
    told = refined.predict_proba(rows[test])
    np.testing.assert_allclose(told.sum(axis=1), 1.0)
    alone = np.vstack([refined.predict_proba(rows[[i]]) for i in range(300, 310)])
    np.testing.assert_allclose(alone, told[:10], atol=1e-9)
    save(refined, tmp_path / "model.safetensors")
    assert np.array_equal(load(tmp_path / "model.safetensors").predict_proba(rows[test]), told)
    noise = clone(refined).fit(rows, np.arange(len(rows)) % 2)
    without = clone(plain).fit(rows, np.arange(len(rows)) % 2)
    unsure = [np.abs(each.predict_proba(rows) - 0.5).mean() for each in (without, noise)]
    assert unsure[1] <= unsure[0]


def test_evaluations_show_the_mixture_alone_beside_the_refined_one(pair):
    contenders = beside_itself({"mixture": clone(pair[2]).set_params(n_components=1)})
    assert list(contenders) == ["mixture alone", "mixture"]
    assert beside_itself({"mixture": pair[1]}) == {"mixture": pair[1]}
    found = hide_and_score(kinked()[0], contenders, n_repeats=1, random_state=0)
    alone, ours = found.by_column()["2"]
    assert np.isnan(alone.weight)
    assert 0 < ours.weight <= 1
    assert ours.error < alone.error


def test_the_command_line_refines_evaluates_and_applies_a_refined_model(pair, tmp_path, gapmix):
    frame = pd.DataFrame(pair[0][:100], columns=list("abcd"))
    frame.to_csv(tmp_path / "in.csv", index=False)
    few = ["--components", "2", "--max-iter", "5", "--refine"]
    fill_file = ["impute", "in.csv", "-o", "out.csv", "--save-model", "model.safetensors"]
    assert gapmix(tmp_path, *fill_file, *few).code == 0
    python = GaussianMixtureImputer(2, max_iter=5, refine="auto", random_state=0)
    expected = python.fit(frame).impute_frame(frame)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv"), expected, atol=1e-9)
    again = gapmix(tmp_path, *fill_file[:2], "-o", "again.csv", "-m", "model.safetensors")
    assert again.code == 0, again.err
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()
    pieces = [*fill_file[:2], "-o", "pieces.csv", "-m", "model.safetensors", "--memory", "1GB"]
    assert gapmix(tmp_path, *pieces).code == 0
    assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()
    refused = gapmix(tmp_path, "score", "in.csv", "-o", "s.csv", "--refine")
    assert refused.code == 2
    assert "--refine has no effect on densities" in refused.err
    told = gapmix(tmp_path, "evaluate", "in.csv", *few, "--repeats", "1", "--json")
    scores = {each["method"]: each for each in json.loads(told.out)["scores"]}
    assert len(scores["mixture"]["weights"]) == 4
    assert scores["mixture alone"]["weights"] == []


def test_quick_fills_categories_from_the_other_columns_and_numbers_from_categories():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 2))
    kind = np.array(["low", "mid", "high"])[np.digitize(z[:, 0], [-0.5, 0.5])]
    shift = np.array([0.0, 4.0, 9.0])[rng.integers(0, 3, 400)]
    town = np.array(["a", "b", "c"])[np.searchsorted([0.0, 4.0, 9.0], shift)]
    truth = pd.DataFrame({"x": z[:, 0], "kind": kind, "y": z[:, 1] + shift, "town": town})
    hidden = rng.random(truth.shape) < 0.15
    frame = truth.mask(hidden)
    alone, quick = (
        GaussianMixtureImputer(effort="quick", refine=asked, random_state=0).fit(frame)
        for asked in (False, None)
    )
    assert alone.heads_ is None
    wrong, error = [], []
    for imputer in (alone, quick):
        filled = imputer.set_output(transform="pandas").transform(frame)
        told = (filled != truth)[["kind", "town"]].to_numpy()
        wrong.append(told[hidden[:, [1, 3]]].mean())
        error.append((filled["y"] - truth["y"])[hidden[:, 2]].std())
    assert wrong[1] < 0.5 * wrong[0]
    assert error[1] < 0.8 * error[0]
    assert {type(head.learner.forest) for head in quick.heads_.heads} == {type(None)}
    numbers = GaussianMixtureImputer(effort="quick", random_state=0).fit(frame[["x", "y"]])
    assert numbers.heads_ is None


def test_quick_leaves_a_category_alone_that_would_take_minutes(monkeypatch):
    def find_named():
        heads = GaussianMixtureImputer(effort="quick", random_state=0).fit(mixed()[1]).heads_
        return [head for head in heads.heads if len(heads.view.levels[head.column])]

    assert find_named()
    monkeypatch.setattr(fitting, "MOST_SLOPES", 5)
    assert find_named() == []


@pytest.mark.parametrize("make", [GaussianMixtureRegressor, GaussianMixtureClassifier])
def test_quick_predicts_from_categories(make):
    rng = np.random.default_rng(1)
    town = rng.choice(["a", "b", "c"], 300)
    y = np.array([0.0, 3.0, -3.0])[np.searchsorted(["a", "b", "c"], town)] + rng.normal(size=300)
    frame = pd.DataFrame({"x": rng.normal(size=300), "town": town})
    target = y if make is GaussianMixtureRegressor else np.where(y > 0, "up", "down")
    quick, alone = (
        make(effort="quick", refine=asked, random_state=0).fit(frame[:200], target[:200])
        for asked in (None, False)
    )
    assert quick.heads_ is not None
    assert quick.score(frame[200:], target[200:]) > 0.6
    assert quick.score(frame[200:], target[200:]) >= alone.score(frame[200:], target[200:])
    bare = make(effort="quick", random_state=0).fit(frame[["x"]], target)
    assert bare.heads_ is None


def test_heads_are_shown_in_a_line_each():
    heads = GaussianMixtureImputer(effort="quick", random_state=0).fit(mixed()[1]).heads_
    lines = repr(heads).splitlines()
    assert len(lines) == 1 + len(heads.heads)
    assert lines[1].startswith(f"Head(column={heads.heads[0].column}, weight=")


def test_levels_of_large_tables_have_one_small_forest(monkeypatch):
    monkeypatch.setattr(fitting, "MOST_WORK", 0)
    heads = GaussianMixtureImputer(random_state=0).fit(mixed()[1]).heads_
    forests = [
        head.learner.forest
        for head, learner in heads.at_work()
        if len(heads.view.levels[head.column]) and learner.forest is not None
    ]
    assert forests
    assert {len(forest.start) - 1 for forest in forests} == {15}
    assert all(len(learner.model.start) == 1 for _, learner in heads.at_work() if learner.model)
