"""How many components: which sizes are tried, what judges them, what is kept of them."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
from every_estimator import NEW
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import load_diabetes, load_wine

from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
)
from gapmix.plan.patterns import find_patterns
from gapmix.selection import choose
from gapmix.selection.calibration import calibrate_intervals, expect_widths
from gapmix.selection.effort import EFFORTS, Spend, count_iterations
from gapmix.selection.hiding import hide, hide_rows
from gapmix.selection.judging import (
    Told,
    ask,
    find_shares,
    hide_from,
    measure_error,
    measure_loss,
    unite_told,
)
from gapmix.selection.sizes import (
    RIDGES,
    SIZES,
    Candidate,
    choose_best,
    grow,
    grow_ridge,
    list_sizes,
    list_sizes_once,
    share,
)


def make_groups(n: int = 150, *, n_groups: int = 3, gaps: float = 0.2, seed: int = 0):
    """Return rows in groups far apart, with gaps, and the group of each."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % n_groups
    x = 9.0 * group[:, None] + rng.normal(size=(n, 3)) * [1.0, 2.0, 1.0]
    x[:, 1] *= np.where(group == 1, -1.0, 1.0)  # not on a line, which one component could follow
    x[rng.random(x.shape) < gaps] = np.nan
    return x, group


def candidates(*losses: float) -> tuple[Candidate, ...]:
    return tuple(Candidate(i + 1, 0.0, 0.0, 1, 0.0, loss=loss) for i, loss in enumerate(losses))


# ------------------------------------------------------------------ the pieces


@pytest.mark.parametrize(
    ("n_rows", "largest", "wanted"),
    [
        (1, None, [1]),
        (19, None, [1]),
        (20, None, [1, 2]),
        (99, None, [1, 2, 3, 5, 8]),
        (10**6, None, list(SIZES)),
        (10**6, 1, [1]),
        (10**6, 4, [1, 2, 3, 4]),
        (10**6, 13, [1, 2, 3, 5, 8, 13]),
        (10**6, 200, [*SIZES, 200]),
        (50, 100, [1, 2, 3, 5]),
    ],
)
def test_sizes_grow_with_the_rows_and_end_at_the_largest_allowed(n_rows, largest, wanted):
    assert list_sizes(n_rows, largest) == wanted


def make_gaps(n, d, share, seed):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, d)) < share, np.nan, rng.normal(size=(n, d)))


def test_a_fifth_of_the_cells_is_hidden_and_rows_and_columns_keep_a_value():
    x = make_gaps(4000, 5, 0.3, 0)
    observed = ~np.isnan(x)
    hidden = hide(x, "mcar", np.random.default_rng(0))
    assert not (hidden & ~observed).any()
    assert hidden.sum() / observed.sum() == pytest.approx(0.2, abs=0.02)
    for seed in range(50):
        x = make_gaps(8, 4, 0.6, seed)
        observed = ~np.isnan(x)
        left = observed & ~hide(x, "mcar", np.random.default_rng(seed))
        assert (left.any(axis=1) == observed.any(axis=1)).all()
        assert (left.sum(axis=0) >= np.minimum(2, observed.sum(axis=0))).all()


def test_only_targets_are_hidden_if_they_are_what_counts():
    x = make_gaps(500, 4, 0.2, 0)
    hidden = hide(x, "mcar", np.random.default_rng(1), columns=np.array([3]))
    assert not hidden[:, :3].any()
    assert hidden[:, 3].sum() == pytest.approx(0.2 * (~np.isnan(x[:, 3])).sum(), rel=0.3)


def test_rows_are_hidden_whole_and_copies_together():
    x = make_gaps(100, 4, 0.2, 0)
    hidden = hide_rows(x, np.ones(100), np.random.default_rng(1))
    rows = hidden.any(axis=1)
    assert rows.sum() == 20
    np.testing.assert_array_equal(hidden[rows], ~np.isnan(x)[rows])
    twice = hide_rows(np.concatenate([x, x]), np.ones(200), np.random.default_rng(1))
    np.testing.assert_array_equal(twice, np.concatenate([hidden, hidden]))


@pytest.mark.parametrize("mechanism", ["mcar", "mar"])
def test_units_places_and_copies_do_not_change_what_is_hidden(mechanism):
    x = make_gaps(200, 5, 0.2, 0) ** 3
    order = np.array([3, 1, 4, 0, 2])
    hidden = hide(x, mechanism, np.random.default_rng(2), driver=3)
    moved = hide(x[:, order] * 2.54, mechanism, np.random.default_rng(2), driver=0)
    np.testing.assert_array_equal(moved, hidden[:, order])
    if mechanism == "mcar":
        twice = hide(np.concatenate([x, x]), mechanism, np.random.default_rng(2))
        np.testing.assert_array_equal(twice, np.concatenate([hidden, hidden]))


def test_the_error_is_in_standard_deviations_and_constant_columns_do_not_count():
    x = np.array([[1.0, 5.0, 100.0], [3.0, 5.0, 300.0], [np.nan, 5.0, 200.0]])
    filled = np.array([[2.0, 9.0, 100.0], [3.0, 5.0, 100.0], [2.0, 5.0, 200.0]])
    hidden = np.array([[True, True, False], [False, False, True], [False, False, False]])
    spread = [1.0, np.std([100.0, 300.0, 200.0])]
    wanted = np.sqrt(np.mean([(1.0 / spread[0]) ** 2, (200.0 / spread[1]) ** 2]))
    weight = np.array([2.0, 1.0, 3.0])
    cells = hide_from(x, np.ones(3), hidden, None)
    assert measure_error(cells, filled[:2]) == pytest.approx(wanted)
    nothing = hide_from(x, np.ones(3), np.zeros((3, 3), dtype=bool), None)
    assert measure_error(nothing, filled[:0]) == 0.0
    weighted = measure_error(hide_from(x, weight, hidden, None), filled[:2])
    copies = [np.repeat(array, weight.astype(int), axis=0) for array in (x, filled, hidden)]
    by_copies = measure_error(hide_from(copies[0], np.ones(6), copies[2], None), copies[1][:3])
    assert weighted == pytest.approx(by_copies, rel=1e-12)


def test_the_loss_of_numbers_and_levels_is_that_of_a_double_loop():
    rng = np.random.default_rng(0)
    n_levels = np.array([0, 3, 0])
    x = np.column_stack([rng.normal(size=40), rng.integers(0, 3, 40), rng.normal(size=40)])
    hidden = rng.random(x.shape) < 0.4
    weight = rng.uniform(0.5, 2.0, 40)
    cells = hide_from(x, weight, hidden, n_levels)
    rows = np.flatnonzero(hidden.any(axis=1))
    mean, levels = rng.normal(size=(len(rows), 3)), rng.dirichlet(np.ones(3), len(rows))
    total = count = 0.0
    for i, row in enumerate(rows):
        for j in range(3):
            if not hidden[row, j]:
                continue
            if j == 1:
                one = -np.log(levels[i, int(x[row, 1])])
            else:
                center = np.average(x[:, j], weights=weight)
                variance = np.average((x[:, j] - center) ** 2, weights=weight)
                one = 0.5 * (mean[i, j] - x[row, j]) ** 2 / variance
            total, count = total + weight[row] * one, count + weight[row]
    told = Told(np.zeros(len(rows)), mean, (levels,), 0.0)
    assert measure_loss(cells, told) == pytest.approx(total / count, rel=1e-12)


def test_united_mixtures_count_by_share_and_by_how_well_they_explain_a_row():
    rng = np.random.default_rng(1)
    told = [
        Told(rng.normal(size=5), rng.normal(size=(5, 2)), (rng.dirichlet([1, 1], 5),), 0.0)
        for _ in range(3)
    ]
    shares = np.array([0.5, 0.2, 0.3])
    united = unite_told(told, shares)
    for i in range(5):
        part = shares * [np.exp(each.log_prob[i]) for each in told]
        assert united.log_prob[i] == pytest.approx(np.log(part.sum()))
        part /= part.sum()
        wanted = sum(w * each.mean[i] for w, each in zip(part, told, strict=True))
        np.testing.assert_allclose(united.mean[i], wanted)
        wanted = sum(w * each.levels[0][i] for w, each in zip(part, told, strict=True))
        np.testing.assert_allclose(united.levels[0][i], wanted)


def test_a_mixture_that_tells_hidden_cells_well_gets_the_larger_share():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(500, 2))
    hidden = np.zeros(x.shape, dtype=bool)
    hidden[:, 0] = True
    cells = hide_from(x, np.ones(500), hidden, None)
    good, bad = (x + off * rng.normal(size=x.shape) for off in (0.1, 0.5))
    told = [Told(np.zeros(500), mean, (), 0.0) for mean in (bad, good, good + 0.3)]
    shares = find_shares(cells, told)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.argmax() == 1
    assert shares[1] > 0.8
    few = find_shares(
        hide_from(x[:2], np.ones(2), hidden[:2], None),
        [each._replace(log_prob=each.log_prob[:2], mean=each.mean[:2]) for each in told],
    )
    assert few.max() < 0.6  # two cells say little


def test_growing_stops_after_two_sizes_without_gain_and_not_before():
    losses = {1: 5.0, 2: 4.0, 3: 4.5, 5: 3.0, 8: 3.1, 13: 3.0, 21: 0.0}
    tried = grow(losses, lambda n: Candidate(n, 0.0, 0.0, 1, 0.0, loss=losses[n]))
    assert [each.n_components for each in tried] == [1, 2, 3, 5, 8, 13]


@pytest.mark.parametrize(
    ("losses", "order"),
    [
        ({1: 5.0, 2: 4.9, 3: 4.7, 5: 4.5, 8: 4.2, 13: 4.0, 21: 4.0, 34: 4.0}, [1, 5, 13, 21, 34]),
        ({1: 5.0, 2: 4.0, 3: 3.5, 5: 5.5, 8: 3.6, 13: 3.6}, [1, 5, 2, 3, 13, 8]),
        ({1: 5.0, 2: 4.9, 3: 4.8, 5: 4.5, 8: 4.2, 13: 4.6, 21: 4.3}, [1, 5, 13, 8, 21]),
        ({1: 5.0, 2: 4.0}, [1, 2]),
        ({1: 5.0, 2: 4.9, 3: 4.8, 5: 4.5, 8: 4.2, 10: 4.0}, [1, 5, 8, 10]),
        ({1: 5.0}, [1]),
    ],
)
def test_with_many_rows_sizes_between_1_5_and_13_are_tried_only_if_these_gain_nothing(
    losses, order
):
    tried = grow(losses, lambda n: Candidate(n, 0.0, 0.0, 1, 0.0, loss=losses[n]), leaps=True)
    assert [each.n_components for each in tried] == order


def test_growing_goes_on_while_the_log_score_rises():
    scores = {1: 1.0, 2: 1.1, 3: 1.2, 5: 1.3, 8: 1.305, 13: 1.3, 21: 9.0}
    tried = grow(scores, lambda n: Candidate(n, 0.8, scores[n], 1, 0.0, loss=0.32))
    assert [each.n_components for each in tried] == [1, 2, 3, 5, 8, 13]


@pytest.mark.parametrize(("last", "largest"), [(1.32, 21), (1.36, 34)])
def test_a_large_size_is_tried_only_if_gains_promise_one(last, largest):
    scores = {5: 1.0, 8: 1.2, 13: 1.3, 21: last, 34: last}

    def judge(n):
        return Candidate(n, 0.8, scores[n], 1, 0.0, loss=0.32)

    assert grow(scores, judge, foresees=True)[-1].n_components == largest
    assert grow(scores, judge)[-1].n_components == 34  # judged on a few of the rows


def test_the_best_three_share():
    tried = candidates(2.0, 1.0, 1.05, 1.02, 1.08)
    best = choose_best(tried, average=True)
    assert [each.n_components for each in best] == [2, 4, 3]
    assert [each.share for each in share(tried, best, np.array([0.7, 0.3, 0.0]))] == [
        *(0.0, 0.7, 0.0, 0.3, 0.0)
    ]
    assert [each.share for each in share(tried, best, None)] == pytest.approx(
        [0, 1 / 3, 1 / 3, 1 / 3, 0]
    )


@pytest.mark.parametrize("best", range(4))
def test_the_single_best_is_kept_wherever_it_was_tried(best):
    losses = [1.3, 1.3, 1.3, 1.3]
    losses[best] = 1.0
    tried = candidates(*losses)
    shares = [each.share for each in share(tried, choose_best(tried, average=False), np.ones(1))]
    assert shares == [float(i == best) for i in range(4)]


def test_what_may_be_spent_goes_far_on_small_tables_and_is_never_less_than_asked():
    small, large = (find_patterns(np.ones((n, 4), dtype=bool)) for n in (200, 200_000))
    spend = Spend(0.2, 7)
    assert count_iterations(spend, small, 3) > 100
    assert count_iterations(spend, large, 50) == 7
    assert count_iterations(spend, small, 3) >= count_iterations(spend, small, 6)


def test_quick_fits_one_component_and_best_unites_three_fits_of_a_size():
    x, _ = make_groups(120)
    quick = GaussianMixtureImputer(effort="quick", max_components=9, random_state=0).fit(x)
    assert quick.n_components_ == 1
    assert {each.n_components for each in quick.selection_} == {1}
    best = GaussianMixtureImputer(effort="best", max_components=3, random_state=0).fit(x)
    kept = [each for each in best.selection_ if each.share > 0]
    starts = EFFORTS["best"].n_starts
    assert best.n_components_ == starts * sum(each.n_components for each in kept)
    assert best.mixture_.weights_.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="effort"):
        GaussianMixtureImputer(effort="fast").fit(x)


@pytest.mark.parametrize("limited", [True, False])
def test_sizes_are_judged_by_what_is_filled_within_the_range_shown(limited):
    """One row far out in another column would be filled far beyond all that its column shows."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(60, 1)), 2, axis=1) + 0.01 * rng.normal(size=(60, 2))
    mixture = GaussianMixture(1, random_state=0).fit(x)
    x[0, 0] = 100.0
    hidden = np.zeros(x.shape, dtype=bool)
    hidden[:30, 1] = True
    cells = hide_from(x, np.ones(60), hidden, None)
    cells = cells._replace(shown=np.vstack([cells.shown[:-1], x[-1]]))  # a row shows the column
    told = ask(mixture._density(), cells, limited=limited)
    assert (told.mean[0, 1] == x[-1, 1]) == limited
    assert limited or told.mean[0, 1] > 90.0


def judge_ridges(losses: dict[tuple[int, float], float]):
    """Return candidates of three sizes, what judges more of them, and what it was asked for."""
    asked: list[tuple[int, float]] = []

    def judge(size: int, ridge: float) -> Candidate:
        asked.append((size, ridge))
        loss = losses.get((size, ridge), 9.0)
        return Candidate(size, 0.0, 0.0, 1, 0.0, loss=loss, reg_covar=ridge)

    return candidates(0.5, 0.4, 0.6), judge, asked


def test_ridges_grow_at_the_best_size_while_they_gain_and_then_serve_the_others():
    grown, judge, asked = judge_ridges({(2, RIDGES[0]): 0.41, (2, RIDGES[1]): 0.3})
    more = grow_ridge(grown, judge, average=True)
    assert asked == [*((2, ridge) for ridge in RIDGES[:4]), (1, RIDGES[1]), (3, RIDGES[1])]
    best = choose_best(grown + more, average=True)
    assert [(each.n_components, each.loss) for each in best] == [(2, 0.3), (1, 0.5), (3, 0.6)]
    shown = list_sizes_once(grown + more)
    assert [(each.n_components, each.loss) for each in shown] == [(1, 0.5), (2, 0.3), (3, 0.6)]


def test_a_ridge_that_gains_nothing_is_not_tried_on_other_sizes():
    grown, judge, asked = judge_ridges({})
    assert len(grow_ridge(grown, judge, average=True)) == 2
    assert asked == [(2, RIDGES[0]), (2, RIDGES[1])]


# ------------------------------------------------------------------ the estimators


def make_short(seed: int, n: int = 60, d: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Return few rows of many columns that follow three factors, and which cells are hidden."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))
    return x, rng.random(x.shape) < 0.2


def measure_fill(x: np.ndarray, hidden: np.ndarray, **options) -> tuple[float, float, object]:
    """Return the error of hidden cells, the share of them inside 90 % intervals, the imputer."""
    shown = np.where(hidden, np.nan, x)
    imputer = GaussianMixtureImputer(random_state=0, **options).fit(shown)
    low, high = imputer.intervals(shown)
    away = (imputer.transform(shown) - x)[hidden]
    held = ((low <= x) & (x <= high))[hidden]
    return float(np.mean(away**2)), float(held.mean()), imputer


@pytest.mark.parametrize("effort", ["quick", "default"])
def test_few_rows_for_each_column_are_filled_better_with_a_ridge(effort):
    squares, held = [], []
    for seed in range(4):
        x, hidden = make_short(seed)
        plain, *_ = measure_fill(x, hidden, effort=effort, reg_covar=1e-6)
        found, share, imputer = measure_fill(x, hidden, effort=effort)
        squares.append((plain, found))
        held.append(share)
        largest = max(imputer.selection_, key=lambda each: each.share)
        assert imputer.mixture_.reg_covar == largest.reg_covar > 1e-6
        assert imputer.reg_covar == "auto"
    plain, found = np.mean(squares, axis=0)
    assert found < 0.8 * plain  # 0.55 and 0.68 were seen
    assert 0.82 < np.mean(held) < 0.97


def test_many_rows_and_a_ridge_that_is_given_are_left_alone():
    x, hidden = make_short(0, n=1200)
    *_, imputer = measure_fill(x, hidden, max_components=2)
    assert {each.reg_covar for each in imputer.selection_} == {1e-6}
    x, hidden = make_short(0)
    *_, given = measure_fill(x, hidden, reg_covar=0.02)
    assert {each.reg_covar for each in given.selection_} == {given.mixture_.reg_covar} == {0.02}
    x, _ = make_groups()
    sized = GaussianMixtureImputer(2, random_state=0).fit(x)
    assert sized.mixture_.reg_covar == 1e-6


@pytest.mark.parametrize(
    ("n", "d", "fewest"), [(12, 2, 0.75), (19, 4, 0.8)], ids=["12 rows", "19 rows"]
)
def test_intervals_of_very_small_tables_are_wide(n, d, fewest):
    """Tables too small to compare sizes had intervals that held a fifth to a third of the cells."""
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
        *_, share = measure_fill(x, rng.random(x.shape) < 0.25)[:2]
        held.append(share)
    assert np.mean(held) > fewest


def test_four_rows_have_intervals_as_wide_as_so_few_rows_let_expect():
    x = np.array([[1.31, 2.26], [2.14, 1.43], [3.42, 1.87], [1.25, np.nan]])
    imputer = GaussianMixtureImputer(random_state=0).fit(x)
    low, high = imputer.intervals(x)
    _, std = imputer.impute_with_std(x)
    assert high[3, 1] - low[3, 1] > 8.0 * std[3, 1]


@pytest.mark.parametrize("average", [True, False])
def test_the_imputer_keeps_the_sizes_of_smallest_error(average):
    x, _ = make_groups()
    imputer = GaussianMixtureImputer(average=average, random_state=0).fit(x)
    table = pd.DataFrame(imputer.selection_)
    kept = table[table.share > 0]
    assert 1 <= len(kept) <= (3 if average else 1)
    ranked = table.sort_values("loss")
    assert set(kept.index) <= set(ranked.index[:3])
    np.testing.assert_allclose(table.loss, 0.5 * table.error**2, rtol=1e-12)
    assert table.share.sum() == pytest.approx(1.0)
    assert imputer.n_components_ == kept.n_components.sum() == len(imputer.mixture_.weights_)
    assert imputer.mixture_.weights_.sum() == pytest.approx(1.0)
    assert np.isfinite(table.to_numpy()).all()
    assert kept.n_components.min() >= 3  # one or two components cannot tell three groups


def test_the_classifier_keeps_the_sizes_of_highest_score_for_each_class():
    x, group = make_groups(300, n_groups=4)
    model = GaussianMixtureClassifier(average=False, random_state=0).fit(x, group % 2)
    assert len(model.selection_) == 2
    for table, mixture in zip(map(pd.DataFrame, model.selection_), model.mixtures_, strict=True):
        best = table.log_score.idxmax()
        assert table.share.tolist() == [float(i == best) for i in table.index]
        assert len(mixture.weights_) == table.n_components[best]
        assert table.n_components[best] >= 2


def test_the_regressor_is_judged_on_its_target_alone():
    rng = np.random.default_rng(0)
    x, _ = make_groups(200)
    y = np.nan_to_num(x[:, 0]) + rng.normal(size=200)
    model = GaussianMixtureRegressor(average=False, random_state=0).fit(x, y)
    table = pd.DataFrame(model.selection_)
    assert table.share[table.error.idxmin()] == 1.0
    assert model.n_components_ == table.n_components[table.error.idxmin()]


def test_a_united_mixture_is_the_mean_of_its_mixtures_densities():
    x, _ = make_groups()
    imputer = GaussianMixtureImputer(random_state=0).fit(x)
    kept = [each for each in imputer.selection_ if each.share > 0]
    assert len(kept) > 1
    united = imputer.mixture_
    places = np.cumsum([each.n_components for each in kept])[:-1]
    for part, each in zip(np.split(united.weights_, places), kept, strict=True):
        assert part.sum() == pytest.approx(each.share)
    for row, found in zip(x[:20], imputer.score_samples(x[:20]), strict=True):
        o = np.flatnonzero(~np.isnan(row))
        terms = [
            np.log(w) + multivariate_normal(mu[o], s[np.ix_(o, o)]).logpdf(row[o]) if o.size else w
            for w, mu, s in zip(united.weights_, united.means_, united.covariances_, strict=True)
        ]
        assert found == pytest.approx(logsumexp(terms) if o.size else 0.0, abs=1e-8)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_every_type_of_covariance_can_be_united(kind):
    x, _ = make_groups(80)
    imputer = GaussianMixtureImputer(covariance_type=kind, random_state=0).fit(x)
    assert np.isfinite(imputer.transform(x)).all()
    assert imputer.mixture_.covariance_type == ("full" if kind == "tied" else kind)
    assert imputer.covariance_type == kind


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
def test_sizes_end_at_max_components_and_at_what_the_rows_allow(kind):
    x, group = make_groups(120)
    y = group % 2 if kind.cls is GaussianMixtureClassifier else np.arange(120.0)
    for limit in (1, 2):
        estimator = kind.cls(max_components=limit, random_state=0).fit(x, y)
        tables = estimator.selection_
        tables = tables if isinstance(tables, list) else [tables]
        assert all(each.n_components <= limit for table in tables for each in table)
    few = kind.cls(random_state=0).fit(x[:15], y[:15])  # too few rows for more than one
    mixtures = getattr(few, "mixtures_", None) or [few.mixture_]
    assert all(len(mixture.weights_) == 1 for mixture in mixtures)


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
def test_the_same_seed_chooses_alike_and_a_given_size_is_not_compared(kind):
    x, group = make_groups(100)
    y = group % 2
    first, second = (kind.cls(max_components=3, random_state=4).fit(x, y) for _ in range(2))
    method = kind.answers[0]
    np.testing.assert_array_equal(getattr(first, method)(x), getattr(second, method)(x))
    if kind.cls is not GaussianMixtureClassifier:  # which holds rows out to calibrate by
        assert kind.cls(2, random_state=0).fit(x, y).selection_ == ()


def test_long_tables_are_compared_on_some_of_their_rows(monkeypatch):
    seen = []
    fit = choose.fit

    def count(spec, matrix, *args, **kwargs):
        seen.append(matrix.n_given)
        return fit(spec, matrix, *args, **kwargs)

    monkeypatch.setattr(choose, "fit", count)
    monkeypatch.setitem(EFFORTS, "default", EFFORTS["default"]._replace(max_rows=100))
    x, _ = make_groups(400)
    imputer = GaussianMixtureImputer(
        random_state=0, max_components=3, shapes=None, refine=False
    ).fit(x)
    n_tried = len(imputer.selection_)
    n_kept = sum(each.share > 0 for each in imputer.selection_)
    n_useful = int((~np.isnan(x)).any(axis=1).sum())
    assert seen == [100] * n_tried + [n_useful] * n_kept  # compared on some, fitted to all


def test_more_sizes_than_the_rows_need_do_not_take_for_ever():
    x = np.random.default_rng(0).normal(size=(600, 2))  # one Gaussian: growing does not pay
    imputer = GaussianMixtureImputer(random_state=0).fit(x)
    assert len(imputer.selection_) < len(list_sizes(600, None))


def test_verbose_logs_the_sizes_and_prints_nothing(capsys, caplog):
    x, _ = make_groups(60)
    with caplog.at_level(logging.INFO, logger="gapmix"):
        GaussianMixtureImputer(random_state=0, max_components=2, verbose=1).fit(x)
    assert "1 component: error of hidden cells" in caplog.text
    assert "2 components: error of hidden cells" in caplog.text
    assert capsys.readouterr().out == ""


def test_sizes_chosen_fill_hidden_groups_better_than_one_gaussian():
    complete, _ = make_groups(300, gaps=0.0)
    x = complete.copy()
    x[np.random.default_rng(5).random(x.shape) < 0.25] = np.nan
    gaps = np.isnan(x)
    error = {}
    for n_components in (1, "auto"):
        filled = GaussianMixtureImputer(n_components, random_state=0).fit_transform(x)
        error[n_components] = np.sqrt(np.mean((filled - complete)[gaps] ** 2))
    assert error["auto"] < 0.7 * error[1]


# ------------------------------------------------------------------ intervals


def test_few_rows_need_the_wider_intervals_that_a_regression_on_them_needs():
    n, d, rng = 25, 4, np.random.default_rng(0)
    width = []
    for _ in range(4000):  # a cell told from d - 1 others by least squares, as sure as the fit is
        x = np.column_stack([np.ones(n + 1), rng.normal(size=(n + 1, d - 1))])
        y = rng.normal(size=n + 1)
        fit = np.linalg.lstsq(x[:n], y[:n])[0]
        away = abs(y[n] - x[n] @ fit) / np.sqrt(np.mean((y[:n] - x[:n] @ fit) ** 2))
        width.append(2.0 * norm.cdf(away) - 1.0)
    levels = [0.5, 0.8, 0.9]
    wanted = np.quantile(expect_widths(n, d), levels)
    np.testing.assert_allclose(np.quantile(width, levels), wanted, atol=0.02)
    even = (np.arange(100) + 0.5) / 100
    assert (expect_widths(n, d) > even).all()
    np.testing.assert_allclose(expect_widths(1e6, d), even, atol=1e-5)


def test_intervals_of_sixty_rows_hold_what_is_asked_for():
    rng = np.random.default_rng(0)
    tables = [load_wine().data, load_diabetes().data[:, [0, *range(2, 10)]]]
    tables.append(rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)))
    held = []
    for seed in range(5):
        for table in tables:
            rng = np.random.default_rng(seed)
            x = table[rng.permutation(len(table))[:60]]
            gaps = rng.random(x.shape) < 0.2
            shown = np.where(gaps, np.nan, x)
            low, high = GaussianMixtureImputer(random_state=0).fit(shown).intervals(shown, 0.9)
            held.append(((low <= x) & (x <= high))[gaps].mean())
    assert 0.88 < np.mean(held) < 0.92


def test_calibration_has_the_quantiles_of_numpy():
    rng = np.random.default_rng(0)
    for n in (0, 1, 7, 300):
        widths, weight = rng.random(n).round(2), rng.uniform(0.5, 2.0, n)
        expected = expect_widths(40.0, 3.0)
        both = np.concatenate([widths, expected])
        weights = np.concatenate([weight, np.full(len(expected), 100 / len(expected))])
        levels = np.maximum(np.linspace(0.0, 1.0, 201) - 1e-9, 0.0)  # reached but for rounding
        wanted = np.quantile(both, levels, weights=weights, method="inverted_cdf")
        np.testing.assert_array_equal(calibrate_intervals(widths, weight, expected), wanted)


@pytest.mark.parametrize("seed", range(12))
def test_sizes_of_a_few_rows_are_judged_by_numbers(seed):
    # The rows with hidden cells may show nothing of a column, and so no range to stay within.
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(5, 3))
    x[rng.random(x.shape) < 0.3] = np.nan
    x[0] = rng.normal(size=3)
    imputer = GaussianMixtureImputer(random_state=0).fit(x)
    told = [(each.loss, each.error, each.log_score) for each in imputer.selection_]
    assert np.isfinite(told).all()
    assert imputer.hidden_error_ is None or np.isfinite(imputer.hidden_error_)
