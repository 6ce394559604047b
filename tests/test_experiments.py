"""The experiments do what the paper did: data, splits, learners, and runs that resume."""

from __future__ import annotations

import csv
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import data
from experiments import (
    abalone,
    abalone_data,
    abalone_work,
    descent,
    fingerprint,
    imputers,
    kernel_ridge,
    mnist,
    mnist_data,
    mnist_work,
    network,
    outputs,
    pattern_work,
    profiles,
    search,
    store,
    verdicts,
)
from experiments.kernel_ridge import Kernel
from experiments.neighbours import fill_from_whole, fill_nearest, measure
from experiments.network import Setting
from experiments.statistics import Difference, compare, half_width, holm
from sklearn.impute import KNNImputer
from sklearn.kernel_ridge import KernelRidge

from gapmix.plan.trees import Tree

ROOT = Path(__file__).parent.parent


def has_data(load):
    """Tell whether a data set is here; if not, its absence must be said clearly."""
    if os.environ.get("GAPMIX_DATA"):
        load(download=False)
        return True
    with pytest.raises(data.DataNotFoundError, match="GAPMIX_DATA, which is not set, must name"):
        load(download=False)
    return False


# ------------------------------------------------------------------------ data


@pytest.mark.parametrize("load", [data.load_mnist, data.load_abalone])
def test_absent_data_is_said_clearly(load, monkeypatch, tmp_path):
    monkeypatch.setenv("GAPMIX_DATA", str(tmp_path))
    with pytest.raises(data.DataNotFoundError, match=f"GAPMIX_DATA={tmp_path} must name a folder"):
        load(download=False)
    monkeypatch.delenv("GAPMIX_DATA")
    with pytest.raises(data.DataNotFoundError, match="GAPMIX_DATA, which is not set, must name"):
        load(download=False)


@pytest.mark.parametrize("study", ["mnist", "abalone"])
def test_a_run_without_data_ends_with_the_message(study, monkeypatch, tmp_path):
    monkeypatch.setenv("GAPMIX_DATA", str(tmp_path))
    main = {"mnist": mnist.main, "abalone": abalone.main}[study]
    with pytest.raises(
        SystemExit, match=f"GAPMIX_DATA={tmp_path} must name a folder with {study}/"
    ):
        main(["--tiny", "--no-download", "--output", str(tmp_path), "--cache", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_other_content_is_refused(monkeypatch, tmp_path):
    with pytest.raises(data.ChecksumError, match=r"The mnist test labels read from here are not"):
        data.verify("mnist test labels", np.zeros(10_000, dtype=np.uint8), "here")
    if has_data(data.load_abalone):
        rows = data.load_abalone(download=False).values
        lines = [",".join([data.SEXES[int(row[0])], *map(str, row[1:])]) for row in rows]
        path = tmp_path / "abalone" / "abalone.data"
        path.parent.mkdir()
        monkeypatch.setenv("GAPMIX_DATA", str(tmp_path))
        path.write_text("\n".join(lines))
        assert np.array_equal(data.load_abalone(download=False).values, rows)
        path.write_text("\n".join([lines[0].replace("0.455", "0.456"), *lines[1:]]))
        with pytest.raises(data.ChecksumError, match="abalone"):
            data.load_abalone(download=False)


def test_mnist_has_the_papers_split():
    if has_data(data.load_mnist):
        whole = data.load_mnist(download=False)
        counts = np.bincount(whole.train.labels)
        train, select = mnist_data.training(3, 4500), mnist_data.selection(3, 4500)
        assert (len(train.x), len(select.x)) == (4500, counts[3] - 4500)
        assert np.isnan(train.x).sum(axis=1).tolist() == [25] * 4500
        own = whole.train.images[whole.train.labels == 3] / 255.0
        assert np.array_equal(np.concatenate([train.complete, select.complete]), own)
        assert 570 <= len(np.unique(np.isnan(train.x), axis=0)) <= 24 * 24
        few = mnist_data.test((3, 5), 50)
        assert set(few.labels) == {3, 5}
        assert np.array_equal(few.complete, mnist_data.test((3, 5), 90).complete[:50])


def test_abalone_has_the_papers_split_and_gaps():
    assert abalone_data.SPLIT == (2000, 1133, 1044)
    if has_data(data.load_abalone):
        table, more = abalone_data.make_table(0.3, 0), abalone_data.make_table(0.6, 0)
        assert [len(part) for part in abalone_data.split(table.y)] == [2000, 1133, 1044]
        hidden = np.isnan(table.x)
        assert hidden.mean() == pytest.approx(0.3, abs=0.01)
        assert np.array_equal(hidden[:, 0], hidden[:, 1])  # sex goes as a whole
        assert not (hidden & ~np.isnan(more.x)).any()
        assert not np.isnan(table.y).any()
        train = abalone_data.split(table.x).train
        assert np.nanmean(train, axis=0) == pytest.approx(np.zeros(9), abs=1e-12)
        assert np.nanstd(train, axis=0) == pytest.approx(np.ones(9), rel=1e-12)
        y = abalone_data.split(table.y).train
        assert (y.mean(), y.std()) == pytest.approx((0.0, 1.0), abs=1e-12)
        assert np.array_equal(table.x[~hidden], table.complete[~hidden])
        assert not np.array_equal(hidden, np.isnan(abalone_data.make_table(0.3, 1).x))


def test_the_profiles_have_the_papers_grids():
    full, quick = profiles.FULL, profiles.QUICK
    for abalone_ in (full.abalone, quick.abalone):
        assert math.prod(map(len, abalone_.network)) == 384
        assert sum(math.prod(map(len, own)) for own in abalone_.kernels.values()) == 225
    grid = full.mnist.grid
    assert (len(grid.sizes), len(grid.kept), len(grid.seeds)) == (10, 3, 5)
    assert min(full.abalone.repeats, quick.abalone.repeats, len(quick.mnist.timed_digits)) >= 3


@pytest.mark.parametrize("goal", [(0, 0), (4, 2), (2, 1), (0, 2)])
def test_a_descent_ends_where_no_neighbour_is_better(goal):
    lists = (list("abcde"), [1, 2, 3])

    def value(place):
        return sum(abs(i - j) for i, j in zip(place, goal, strict=True))

    found = descent.descend(lists, ["c", 2], value)
    assert found.best == goal == descent.try_all(lists, value).best
    assert set(descent.around(goal, lists)) <= found.known.keys()
    assert len(descent.try_all(lists, value).known) == 15
    assert descent.values_at(lists, (4, 0)) == ["e", 1]
    assert abalone_work.find_ends(goal, lists) == [
        i for i in (0, 1) if goal[i] in ((0, 4), (0, 2))[i]
    ]


# ------------------------------------------------------------------------ learners


def make_rows(n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_a_step_goes_down_the_gradient(decay):
    rng = np.random.default_rng(1)
    weights = network.Weights(*(rng.normal(size=size) for size in ((4, 3), 4, 4, 1)))
    x, y = rng.normal(size=3), 0.7
    moved = [part.copy() for part in weights]
    network.step(*moved, np.empty(4), x, y, 1.0, decay)  # rate 1: the gradient itself
    eps = 1e-5
    for part, after in zip(weights, moved, strict=True):
        for index in np.ndindex(part.shape):
            before = part[index]
            part[index] = before + eps
            high = network.row_loss(weights, x, y, decay)
            part[index] = before - eps
            low = network.row_loss(weights, x, y, decay)
            part[index] = before
            assert before - after[index] == pytest.approx((high - low) / (2 * eps), abs=1e-8)


def test_training_follows_the_rate_and_keeps_the_best_epoch():
    """A plain loop over numerical gradients, sharing nothing with the compiled one but the loss."""
    x, y = make_rows(12)
    x_val, y_val = make_rows(15, seed=2)
    setting = Setting(hidden=2, decay=0.01, rate=0.3, decrease=0.05)
    trained = network.train(setting, x, y, x_val, y_val, epochs=4, patience=9, seed=5)
    rng = np.random.default_rng(5)
    weights = network.start(2, 3, rng)
    orders = [rng.permutation(12) for _ in range(4)]
    errors, seen = [], 0
    for order in orders:
        for r in order:
            rate = setting.rate / (1 + setting.decrease * seen)
            slopes = [numeric_slope(weights, part, x[r], y[r], setting.decay) for part in weights]
            for part, slope in zip(weights, slopes, strict=True):
                part -= rate * slope
            seen += 1
        errors.append(((network.predict(weights, x_val) - y_val) ** 2).mean())
    assert trained.epochs == 4
    assert trained.epoch == 1 + int(np.argmin(errors))
    assert trained.validation == pytest.approx(min(errors), rel=1e-6)
    again = ((network.predict(trained.weights, x_val) - y_val) ** 2).mean()
    assert again == pytest.approx(trained.validation, rel=1e-12)


def numeric_slope(weights, part, x, y, decay, eps=1e-5):
    slope = np.empty_like(part)
    for index in np.ndindex(part.shape):
        before = part[index]
        part[index] = before + eps
        high = network.row_loss(weights, x, y, decay)
        part[index] = before - eps
        slope[index] = (high - network.row_loss(weights, x, y, decay)) / (2 * eps)
        part[index] = before
    return slope


def test_training_stops_without_gain_and_when_it_diverges():
    x, y = make_rows()
    slow = Setting(hidden=2, decay=0.0, rate=1e-3, decrease=0.0)
    far = network.train(slow, x, y, x, -y, epochs=50, patience=3, seed=0)  # learning only hurts
    assert far.epochs == far.epoch + 3 < 50
    wild = network.train(slow._replace(rate=1e3), x, y, x, y, epochs=50, patience=3, seed=0)
    assert wild.epochs <= wild.epoch + 3


@pytest.mark.parametrize(
    ("kernel", "theirs"),
    [
        (Kernel("linear"), {"kernel": "linear"}),
        (Kernel("gaussian", 0.7), {"kernel": "rbf", "gamma": 1 / (2 * 0.7**2)}),
        (Kernel("polynomial", 0.5, 3), {"kernel": "poly", "gamma": 0.5, "coef0": 1, "degree": 3}),
    ],
)
def test_kernel_ridge_is_scikit_learns(kernel, theirs):
    x, y = make_rows()
    new = make_rows(seed=3)[0]
    for decay in (1e-2, 1.0):
        coefficients = kernel_ridge.solve(kernel_ridge.gram(kernel, x, x), y, decay)
        expected = KernelRidge(alpha=decay, **theirs).fit(x, y).predict(new)
        ours = kernel_ridge.gram(kernel, new, x) @ coefficients
        assert ours == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("k", [1, 4])
def test_neighbours_are_scikit_learns(k):
    rng = np.random.default_rng(0)
    donors, x = rng.normal(size=(50, 6)), rng.normal(size=(20, 6))
    donors[rng.random(donors.shape) < 0.2] = np.nan
    x[rng.random(x.shape) < 0.3] = np.nan
    expected = KNNImputer(n_neighbors=k).fit(donors).transform(x)
    assert fill_nearest(x, donors, measure(x, donors), k) == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 3])
def test_whole_neighbours_have_all_that_is_missing(k):
    """Row by row: donors with every missing value, nearest first; else those with most of them."""
    rng = np.random.default_rng(1)
    donors, complete = rng.normal(size=(30, 4)), rng.normal(size=(12, 4))
    donors[rng.random(donors.shape) < 0.4] = np.nan
    donors[:, 3] = np.nan
    donors[5] = [1.0, np.nan, np.nan, 2.0]  # the only one that has the last value
    x = np.where(rng.random(complete.shape) < 0.4, np.nan, complete)
    distance = rng.random((12, 30))
    filled, short = fill_from_whole(x, donors, distance, k)
    n_short = 0
    for row, before, away in zip(filled, x, distance, strict=True):
        lacks = np.isnan(before)
        assert np.array_equal(row[~lacks], before[~lacks])
        able = [i for i in range(30) if not np.isnan(donors[i, lacks]).any()]
        if able and lacks.any():
            nearest = sorted(able, key=lambda i: away[i])[:k]
            assert row[lacks] == pytest.approx(donors[nearest][:, lacks].mean(axis=0))
        elif lacks.any():
            n_short += 1
            assert row[3] == 2.0
            assert np.isfinite(row).all()
    assert 0 < n_short == round(short * np.isnan(x).any(axis=1).sum())


def test_gaps_by_value_hide_high_values():
    if has_data(data.load_abalone):
        table = abalone_data.make_table(0.3, 0, gaps="by value")
        hidden = np.isnan(table.x)
        assert hidden.mean() == pytest.approx(0.3, abs=0.01)
        for j in range(2, 9):
            above = table.complete[:, j] > np.median(table.complete[:, j])
            assert hidden[above, j].mean() > 2 * hidden[~above, j].mean()


def test_discarding_keeps_complete_training_rows_only():
    if has_data(data.load_abalone):
        table = abalone_data.make_table(0.1, 0, small=True)
        kept = abalone_data.split(imputers.keep_complete(table))
        whole = ~np.isnan(abalone_data.split(table.x).train).any(axis=1)
        assert np.array_equal(~np.isnan(kept.train).any(axis=1), whole)
        assert not np.isnan(kept.validation).any()
        lost = np.isnan(abalone_data.split(table.x).test)
        mean = np.broadcast_to(kept.train[whole].mean(axis=0), lost.shape)
        assert kept.test[lost] == pytest.approx(mean[lost])


def test_kernel_ridge_has_two_ways_that_agree():
    """Decays above and below the rounding errors of the Gram matrix go different ways."""
    x, y = make_rows()
    kernel = Kernel("polynomial", 10.0, 5)  # a matrix of some 1e9
    matrix = kernel_ridge.gram(kernel, x, x)
    for decay in (1e-12, 1e-3, 1e3):
        ours = kernel_ridge.solve(matrix, y, decay)
        away = matrix @ ours + decay * ours - y
        assert np.abs(away).max() < 1e-4 * np.abs(y).max()


def test_neighbours_of_the_paper_see_what_is_hidden():
    if has_data(data.load_abalone):
        table = abalone_data.make_table(0.5, 0, small=True)
        hidden = np.isnan(table.x)
        error = {
            see_gaps: np.abs(
                imputers.fill_neighbours(table, 1, see_gaps=see_gaps) - table.complete
            )[hidden].mean()
            for see_gaps in (False, True)
        }
        assert error[False] < 0.7 * error[True]


def test_sight_of_the_target_changes_training_rows_only():
    if has_data(data.load_abalone):
        table = abalone_data.make_table(0.5, 0, small=True)
        choice = imputers.choose_mixture(table, [1, 2], [1e-2], [0], [1, 1e-2], tol=1e-3)
        assert [record["n_components"] for record in choice.table] == [1, 2]
        seen, unseen = (
            abalone_data.split(imputers.fill_mixture(table, choice.mixture, sees_target=sees))
            for sees in (True, False)
        )
        assert not np.allclose(seen.train, unseen.train)
        assert np.array_equal(seen.validation, unseen.validation)
        assert np.array_equal(seen.test, unseen.test)


# ------------------------------------------------------------------------ statistics, verdicts


def test_intervals_cover_gaps_and_rows():
    rng = np.random.default_rng(0)
    truth, hits, n_rare = 0.3, 0, 0
    for _ in range(600):
        gaps, rows = rng.normal(size=(4, 1)), rng.normal(size=(1, 50))
        errors = truth + 0.1 * gaps + rows
        hits += abs(errors.mean() - truth) < half_width(errors)
        errors = 0.5 * gaps + rows  # few repeats decide: tails of Student's t
        n_rare += compare(errors, np.zeros_like(errors)).p_value < 0.01
    assert 0.93 <= hits / 600 <= 1.0
    assert n_rare / 600 <= 0.015
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    errors += half_width(errors) - errors.mean()  # an interval that ends at zero
    assert compare(errors, np.zeros_like(errors)).p_value == pytest.approx(0.05)
    assert compare(errors, errors) == Difference(0.0, 0.0, 1.0)
    difference = compare(np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 3.1, 3.9]]))
    assert difference.below
    assert not difference.above


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ((-1, -1, -1), "confirmed"),
        ((-1, 0.1, -1), "confirmed in part"),
        ((1, 1, -1), "contradicted"),
        ((1, 0.1, -1), "mixed"),
        ((0.1, -0.1, 0.1), "not shown"),
        ((1, -0.1, 0.1), "contradicted in part"),
    ],
)
def test_verdicts_follow_the_numbers(differences, verdict):
    records = [{"difference": value, "half_width": 0.5} for value in differences]
    assert verdicts.judge(records) == f"**{verdict}**"


def test_a_corrected_p_value_decides_where_there_is_one():
    record = {"difference": -1.0, "half_width": 0.5, "p_corrected": 0.2}
    assert verdicts.judge([record]) == "**not shown**"
    assert verdicts.judge([record | {"p_corrected": 0.01}]) == "**confirmed**"


@pytest.mark.parametrize(
    ("differences", "mean", "verdict"),
    [
        ((-0.1, -0.2, -1), -1, "**confirmed** in the mean; sure by itself in 1 of 3 places"),
        ((0.1, 0.2, 0.1), 1, "**contradicted** in the mean; sure by itself in 0 of 3 places"),
        ((-1, -1, -1), -1, "**confirmed**"),
        ((-1, 1, -1), -1, "**mixed**"),
        ((-0.1, 0.2, -1), -0.1, "**confirmed in part**"),
    ],
)
def test_a_sure_mean_decides_where_places_do_not(differences, mean, verdict):
    records = [{"difference": value, "half_width": 0.5} for value in differences]
    whole = {"difference": mean, "half_width": 0.5}
    assert verdicts.judge_in_all(records, whole) == verdict


def test_the_center_of_a_tree_is_half_its_longest_path():
    path = Tree(np.zeros((5, 1), dtype=bool), 5, np.array([-1, 0, 1, 2, 3]))
    star = path._replace(parent=np.array([-1, 0, 0, 0, 0]))
    assert (pattern_work.diameter(path), pattern_work.diameter(star)) == (4, 2)


def test_a_study_not_run_has_no_verdict():
    rows = [*verdicts.mnist_claims({}), *verdicts.abalone_claims({})]
    measured = [row for row in rows if row not in verdicts.BY_ARGUMENT]
    assert {row[-1] for row in measured} == {verdicts.PENDING}


# ------------------------------------------------------------------------ runs


def count_calls(config):
    path = Path(config["log"])
    path.write_text(path.read_text() + f"{config['i']} ")
    if config["i"] == 2 and path.read_text().count("2") == 1:
        raise KeyboardInterrupt
    return {"value": config["i"] / 3, "array": np.arange(config["i"])}


def test_finished_cells_are_not_done_again(tmp_path):
    log = tmp_path / "log"
    log.write_text("")
    cells = [store.Cell("test", {"i": i, "log": str(log)}, count_calls) for i in range(4)]
    with pytest.raises(KeyboardInterrupt):
        store.run(cells, tmp_path, title="test")
    results = store.run(cells, tmp_path, title="test")
    assert log.read_text().split() == ["0", "1", "2", "2", "3"]
    assert [result["value"] for result in results] == [i / 3 for i in range(4)]
    assert [len(result["array"]) for result in results] == [0, 1, 2, 3]
    store.run(cells[:1], tmp_path, title="test", again=True)
    assert log.read_text().split()[-1] == "0"


def count_more(config):
    """Count."""
    return {"value": config["i"] + STEP}


STEP = 1


def test_lines_go_on_where_they_stopped_and_know_their_code(tmp_path, monkeypatch):
    cells = [store.Cell("test", {"i": i}, count_more, is_line=True) for i in range(5)]

    def following(n=5):
        absent = (c for c in cells[:n] if store.load(c, tmp_path, any_code=True) is None)
        return next(absent, None)

    store.run_for(lambda: following(3), tmp_path, 1.0, title="test")
    path = tmp_path / "test.jsonl"
    with path.open("a") as file:
        file.write('{"name": "half a li')
    with path.open("a") as file:
        file.write("\n")
    assert [store.load(cell, tmp_path) is None for cell in cells] == [False] * 3 + [True] * 2
    store.run_for(following, tmp_path, 0.0, title="test")  # no time: nothing is done
    assert len(path.read_text().splitlines()) == 4
    store.run_for(following, tmp_path, 1.0, title="test")
    assert [store.load(cell, tmp_path)["value"] for cell in cells] == [1, 2, 3, 4, 5]
    made = store.load(cells[0], tmp_path)["made"]
    assert made["code"] == store.code_of(cells[0])
    monkeypatch.setattr(store, "code_of", lambda cell: "other")
    assert store.load(cells[0], tmp_path) is None
    assert store.load(cells[0], tmp_path, any_code=True)["made"] == made
    assert store.work(cells[0], tmp_path)["made"]["code"] == "other"


def search_all(value):
    known = {}
    while (setting := search.next_setting(known)) is not None:
        assert setting not in known
        known[setting] = value(setting)
    return known


@pytest.mark.parametrize(("size", "share"), [(4, 0.75), (7, 0.5), (1, 0.9), (2, 1.0), (3, 0.25)])
def test_a_search_ends_surrounded_by_three_starts(size, share):
    """Starts differ by more than neighbours do, and the best start of a setting comes last."""

    def value(s):
        away = abs(s.size - size) + abs(search.SHARES.index(s.share) - search.SHARES.index(share))
        return away - 0.4 * s.seed

    known = search_all(value)
    best = search.best_of(known)
    assert best[:2] == (size, share)
    for setting in (best, *search.around(best)):
        assert len(search.starts_of(known, setting)) == (3 if setting.size > 1 else 1)
    assert len(known) < 60
    tried = [s.size for s in known if (s.share, s.seed) == (0.75, 0)]
    assert set(range(1, size + 3)) <= set(tried)


def test_the_stored_search_has_every_digit():
    stored = mnist_work.stored_fits(profiles.FULL.mnist, outputs.RESULTS / "full")
    summary = mnist.summarise_search(stored)
    assert list(summary) == [str(digit) for digit in range(10)]
    for each in summary.values():
        assert each["nll"] == min(each["by_size"].values()) == min(each["by_share"].values())


def test_a_digest_of_code_sees_what_is_reached_and_no_comments():
    plain = fingerprint.plain
    documented = 'def f():\n    "Say."\n    return 1  # one'
    assert plain(documented) == plain("def f(): return 1")
    assert plain("def f(): return 1") != plain("def f(): return 2")
    found = {}
    fingerprint._reach(mnist_work.fit_one, found)
    names = {name.rsplit(".", 1)[1] for name in found}
    assert {"fit_one", "make_model", "OPEN", "training", "_punch", "squares"} <= names
    assert not any("store" in name or "page" in name for name in found)
    fingerprint._reach(abalone_work.learn_one, found)
    assert "experiments.network.step" in found
    fingerprint._reach(pattern_work.time_trees, found)
    assert "experiments.pattern_work.elaborate" in found
    assert not any(" at 0x" in text for text in found.values())  # the same in every process


def test_results_depend_on_what_a_fit_reaches_and_on_no_other_module():
    reached = fingerprint.reached_modules()
    kernels = ("single", "lanes", "completing", "levels", "factors")
    names = ("plan.forests", "solvers.paper", "em.run", "starts.kmeans", "density.conditional")
    for name in (*names, "structures.regularizer", *(f"kernels.{each}" for each in kernels)):
        assert f"gapmix.{name}" in reached
    rooms = {name.split(".")[1] for name in reached}
    assert not rooms & {"heads", "selection", "estimators", "engines", "storage", "wording"}
    assert not {f"gapmix.kernels.{each}" for each in ("growing", "boosted", "twins")} & set(reached)


def test_half_a_file_is_no_result(tmp_path):
    cell = store.Cell("test", {"i": 1}, count_calls)
    path = store.path_of(cell, tmp_path)
    path.parent.mkdir()
    (path.parent / "tmp123.part").write_bytes(b"half")
    assert store.load(cell, tmp_path) is None
    assert store.path_of(cell._replace(config={"i": 2}), tmp_path) != path


def read_numbers(folder, pattern):
    return {
        path.name: path.read_text()
        for path in sorted(folder.glob(pattern))
        # these have seconds in them
        if not any(word in path.name for word in ("timing", "grid", "retrained", "patterns"))
    }


def stamps(cache):
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*.npz")}


def check_page(folder, n_figures):
    text = (folder / "RESULTS.md").read_text()
    shown = re.findall(r"\]\((\S+)\.png\)", text)
    assert len(shown) == n_figures
    for name in shown:
        for suffix in (".png", ".svg", ".json"):
            assert (folder / f"{name}{suffix}").stat().st_size > 100
    for path in folder.glob("*.csv"):
        assert '"seeds"' in path.with_suffix(".json").read_text()
    return text


def test_tiny_mnist_from_end_to_end(tmp_path):
    if has_data(data.load_mnist):
        cache, output = tmp_path / "cache", tmp_path / "output"
        arguments = ["--tiny", "--jobs", "1", "--cache", str(cache), "--output", str(output)]
        arguments += ["--stored", str(tmp_path / "stored")]
        mnist.main(arguments)
        text = check_page(output, 2)
        assert "the same results were obtained" in text
        rows = list(csv.DictReader((output / "mnist-timing.csv").read_text().splitlines()))
        assert [row["solver"] for row in rows] == ["naive-row", "naive", "paper", "tree", "dual"]
        assert all(float(row["difference_log_likelihood"]) <= 1e-6 for row in rows)
        before, numbers = stamps(cache), read_numbers(output, "mnist-*.csv")
        mnist.main([*arguments, "--only", "timing", "--again"])
        changed = {path for path, at in stamps(cache).items() if before[path] != at}
        assert {path.parent.name for path in changed} == set(mnist_work.TIMED)
        assert read_numbers(output, "mnist-*.csv") == numbers


def test_a_killed_run_goes_on_and_gives_the_same_numbers(tmp_path):
    if has_data(data.load_abalone):
        whole, parts = tmp_path / "whole", tmp_path / "parts"

        def arguments(folder):
            return ["--tiny", "--jobs", "1", "--cache", str(folder), "--output", str(folder)]

        command = [sys.executable, "-m", "experiments.abalone", *arguments(parts)]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
        while process.poll() is None and len(stamps(parts)) < 3:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        before = stamps(parts)
        assert len(before) >= 3
        abalone.main(arguments(parts))
        after = stamps(parts)
        assert len(after) > len(before)
        assert all(after[path] == at for path, at in before.items())
        abalone.main(arguments(whole))
        assert read_numbers(parts, "*.csv") == read_numbers(whole, "*.csv")
        text = check_page(whole, 2)
        assert "greatly improved by a supervised learning step" in text
        again = stamps(whole)
        abalone.main(arguments(whole))
        assert stamps(whole) == again
