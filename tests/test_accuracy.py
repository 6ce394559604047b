"""The comparison of fillings: scores against slow twins, holes as asked, records that last."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from benchmarks import accuracy
from benchmarks.fillers import CONTESTANTS, contract, forest, mixture
from benchmarks.filling import cells, environments, page, records, scores, summary, tables, workers
from docs import pages

MIXED = np.array([0, 3, 0, 2])  # levels of two numbers, a category of three and one of two


def mixed_table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    first = group + 0.1 * rng.normal(size=n)
    return tables.Table(np.column_stack([first, group, 2 * first, group == 1]).astype(float), MIXED)


# ---------------------------------------------------------------- scores


def test_crps_is_that_of_all_pairs_of_draws():
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(7, 5)), rng.normal(size=5)
    slow = [
        np.mean([abs(draw - truth[c]) for draw in draws[:, c]])
        - np.mean([abs(a - b) for a, b in itertools.permutations(draws[:, c], 2)]) / 2
        for c in range(5)
    ]
    np.testing.assert_allclose(scores.crps(draws, truth), slow, rtol=1e-12)


def test_crps_of_draws_that_are_all_the_same_is_the_absolute_error():
    truth = np.array([1.0, -2.0])
    np.testing.assert_allclose(scores.crps(np.zeros((4, 2)), truth), [1.0, 2.0])


def test_energy_distance_is_that_of_all_pairs_of_rows():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(9, 3)) + 1

    def between(a, b):
        return np.mean([[np.sqrt(((p - q) ** 2).sum()) for q in b] for p in a])

    slow = 2 * between(x, y) - between(x, x) - between(y, y)
    assert scores.energy_distance(x, y) == pytest.approx(slow, rel=1e-12)
    assert scores.energy_distance(x, x[::-1]) == pytest.approx(0, abs=1e-12)


def test_coverage_counts_values_at_the_ends_as_held():
    low, high = np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0])
    assert scores.coverage(low, high, np.array([1.0, 0.5, 1.1])) == pytest.approx(2 / 3)


def judged_part():
    truth = np.array([[1.0, 0.0, 4.0, 1.0], [3.0, 2.0, 8.0, 0.0]])
    hidden = np.array([[True, True, False, False], [False, True, True, False]])
    return tables.Part(truth, np.where(hidden, np.nan, truth), hidden)


def test_numbers_are_scored_in_spreads_and_levels_by_being_wrong():
    part = judged_part()
    filled = part.truth.copy()
    filled[0, 0], filled[1, 2], filled[1, 1] = 2.0, 4.0, 0.0
    draws = np.repeat(filled[None], 20, axis=0)
    spread = np.array([1.0, np.nan, 2.0, np.nan])
    answer = scores.Answer(filled, draws, part.truth - 1, part.truth)
    found = scores.score(part, answer, MIXED, spread)
    assert found["rmse"] == pytest.approx(np.sqrt((1 + 4) / 2))
    assert found["mae"] == found["crps"] == pytest.approx(1.5)
    assert found["wrong"] == 0.5
    assert found["coverage"] == 1.0
    assert found["energy"] > 0
    exact = scores.score(part, scores.Answer(part.truth, None, None, None), MIXED, spread)
    assert (exact["rmse"], exact["wrong"], exact["energy"]) == (0, 0, 0)
    assert exact["crps"] is exact["coverage"] is None


def test_filled_levels_are_counted_by_tenths_of_their_probability():
    part = judged_part()
    filled, sure = part.truth.copy(), np.full(part.truth.shape, np.nan)
    filled[1, 1], sure[0, 1], sure[1, 1] = 0.0, 1.0, 0.95
    counts = scores.count_tenths(part, scores.Answer(filled, None, None, None, sure), MIXED)
    assert counts[-1] == [2, 1.95, 1]
    assert sum(n for n, *_ in counts) == 2
    assert scores.count_tenths(part, scores.Answer(filled, None, None, None), MIXED) is None
    told = {"contestant": "gapmix", "seen": {"tenths": counts}, "new": None}
    assert summary.pool_tenths([told, told], "gapmix") == [[4, 0.975, 0.5]]
    assert summary.pool_tenths([told], "mean") == []
    line = page.calibration({"gapmix": [[4, 0.975, 0.5]]}).splitlines()[-1]
    assert line.split() == ["|", "gapmix", "|", "4", "|", "0.975", "|", "0.500", "|", "-0.475", "|"]


def test_gaps_that_are_left_are_a_failure_and_not_an_error_of_zero():
    part = judged_part()
    answer = scores.Answer(part.shown, None, None, None)
    with pytest.raises(ValueError, match="4 of 4 hidden cells were left as gaps"):
        scores.score(part, answer, MIXED, np.ones(4))


# ---------------------------------------------------------------- tables and holes


@pytest.mark.parametrize(("mechanism", "rate"), tables.MECHANISMS)
def test_holes_have_the_rate_asked_for_and_mar_depends_on_what_is_shown(mechanism, rate):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 10))
    hidden = tables.hide(x, mechanism, rate, rng)
    whole = ~hidden.any(axis=0)
    assert whole.sum() == (3 if mechanism == "mar" else 0)
    np.testing.assert_allclose(hidden[:, ~whole].mean(axis=0), rate, atol=0.03)
    related = [
        max(abs(np.corrcoef(x[:, j], hidden[:, k])[0, 1]) for j in range(10) if j != k)
        for k in np.flatnonzero(~whole)
    ]
    assert (sum(value > 0.1 for value in related) == 7) == (mechanism != "mcar")


def test_a_problem_is_the_same_every_time_and_shows_only_what_is_not_hidden():
    table = mixed_table()
    first, again, other = (tables.make_problem(table, "mcar", 0.5, s) for s in (0, 0, 1))
    assert tables.digest(first) == tables.digest(again) != tables.digest(other)
    assert (len(first.seen.truth), len(first.new.truth)) == (140, 60)
    for part in (first.seen, first.new):
        assert np.array_equal(np.isnan(part.shown), part.hidden)
        assert np.array_equal(part.shown[~part.hidden], part.truth[~part.hidden])
        assert not part.hidden.all(axis=1).any()


def test_a_level_that_training_rows_do_not_show_is_a_gap_that_nobody_is_judged_by():
    x = mixed_table(40).x
    x[:, 1] = np.arange(40)  # every row has a level of its own
    problem = tables.make_problem(tables.Table(x, np.array([0, 40, 0, 2])), "mcar", 0.2, 0)
    assert np.isnan(problem.new.shown[:, 1]).all()
    assert not problem.new.hidden[:, 1].any()
    assert problem.new.hidden[:, 0].any()


def test_tables_of_the_folder_have_codes_and_no_constant_columns(monkeypatch, tmp_path):
    (tmp_path / "tables").mkdir()
    lines = ["a,b,c,d", "1,x,5,0.5", "2,y,5,", "3,?,5,1.5"]
    (tmp_path / "tables" / "small.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("GAPMIX_DATA", str(tmp_path))
    assert tables.list_tables()[:2] == ["small", "abalone"]
    assert len(tables.load_table("small", 2).x) == 2
    table = tables.load_table("small")
    np.testing.assert_array_equal(
        table.x, [[1.0, 0.0, 0.5], [2.0, 1.0, np.nan], [3.0, np.nan, 1.5]]
    )
    assert table.n_levels.tolist() == [0, 2, 0]


# ---------------------------------------------------------------- contestants


@pytest.mark.parametrize("first", [True, False])
def test_categories_come_back_from_indicators(first):
    x = mixed_table(30).x
    scaling = contract.find_scaling(x, MIXED)
    z = contract.to_numbers(x, MIXED, scaling, first=first)
    assert z.shape[1] == (7 if first else 5)
    np.testing.assert_allclose(
        contract.from_numbers(z, MIXED, scaling, first=first), x, rtol=1e-12, atol=1e-12
    )
    x[3] = np.nan
    assert np.isnan(contract.to_numbers(x, MIXED, scaling, first=first)[3]).all()


def test_codes_are_rounded_to_levels_that_exist():
    filled = contract.nearest_codes(np.array([[0.4, 2.7, -9.5, -0.7]]), MIXED)
    assert filled.tolist() == [[0.4, 2.0, -9.5, 0.0]]


@pytest.mark.parametrize(
    ("filler", "settings"),
    [(forest, {"trees": 5, "max_rounds": 2}), (mixture, {"n_components": 3, "max_iter": 20})],
)
def test_fillers_of_mixed_tables_use_the_other_columns_in_seen_and_new_rows(filler, settings):
    problem = tables.make_problem(mixed_table(), "mcar", 0.2, 0)
    fitted = filler.fit(problem.seen.shown, MIXED, 0, 1, **settings)
    for part, filled in (
        (problem.seen, fitted.seen),
        (problem.new, fitted.fill(problem.new.shown)),
    ):
        draws = None if fitted.draw is None else fitted.draw(part.shown, 2)
        ends = (None, None) if fitted.draw is None else fitted.intervals(part.shown, 0.9)
        found = scores.score(part, scores.Answer(filled, draws, *ends), MIXED, problem.spread)
        assert found["rmse"] < 0.5
        assert found["wrong"] < 0.2
        assert np.array_equal(filled[~part.hidden], part.truth[~part.hidden])


def test_efforts_run_where_there_is_a_choice_of_them(monkeypatch, tmp_path):
    assert environments.why_absent("mean", tmp_path) == ""
    assert environments.why_absent("gcimpute", tmp_path) == "not installed: run with --install"
    (tmp_path / "gcimpute").mkdir()
    (tmp_path / "gcimpute" / environments.WHY).write_text("pip: no")
    assert environments.why_absent("gcimpute", tmp_path) == "pip: no"
    monkeypatch.setattr(environments, "GaussianMixtureImputer", lambda n_components: None)
    assert "no choice of effort" in environments.why_absent("gapmix best", tmp_path)
    assert environments.why_absent("gapmix", tmp_path) == ""


# ---------------------------------------------------------------- records


def test_a_torn_line_costs_one_record(tmp_path):
    records.append({"key": "a", "n": 1}, tmp_path)
    with (tmp_path / records.FILE).open("a") as file:
        file.write('{"key": "b", "n"')
    assert list(records.read(tmp_path)) == ["a"]
    records.append({"key": "c", "n": 3}, tmp_path)
    records.append({"key": "a", "n": 4}, tmp_path)
    assert {key: each["n"] for key, each in records.read(tmp_path).items()} == {"a": 4, "c": 3}


def test_a_record_depends_on_code_and_not_on_comments():
    plain = records.what_it_does("def f(x):\n    return x\n")
    assert (
        records.what_it_does('"""Doc."""\ndef f(x):\n    """Doc."""\n    return x  # why\n')
        == plain
    )
    assert records.what_it_does("def f(x):\n    return -x\n") != plain
    python = accuracy.sys.executable
    names = {
        name: records.name_contestant(name, python) for name in ("gapmix", "k-NN 5", "k-NN 10")
    }
    assert len(set(names.values())) == 3


def cell(contestant, table="t", key="", seed=0):
    return cells.Cell(table, "mcar", 0.2, seed, contestant, (100, 5), key or f"{contestant}{seed}")


def test_cells_run_in_a_process_that_is_stopped_in_time():
    chosen = cells.Cell("iris", "mcar", 0.2, 0, "mean", (150, 4), "k")
    python = accuracy.sys.executable
    with workers.Workers(1) as them:
        record = cells.run_cell(chosen, them, python, 60)
        assert record["note"] == ""
        assert 0.8 < record["seen"]["rmse"] < 1.3
        assert record["new"]["wrong"] is record["new"]["crps"] is None
        assert json.loads(json.dumps(record)) == {**record, "shape": [150, 4]}
        again = cells.run_cell(chosen, them, python, 60)
        assert (again["seen"], again["new"]) == (record["seen"], record["new"])
        absent = cells.run_cell(chosen._replace(contestant="HyperImpute"), them, python, 60)
        assert absent["note"] == "failed: ModuleNotFoundError: No module named 'hyperimpute'"
        late = cells.run_cell(chosen, them, python, 1e-4)
        assert (late["seen"], late["note"]) == (None, "stopped after 0.0001 s")
    with workers.Workers(1) as them:
        ended = cells.run_cell(chosen, them, "/bin/false", 60)
        assert ended["note"] == "failed: the process ended with code 1"


def test_only_what_is_new_stopped_earlier_or_asked_for_again_is_run():
    done, failed = {"note": "", "limit": 300}, {"note": "failed: x", "limit": 300}
    stopped = {"note": "stopped after 300 s", "limit": 300}
    assert cells.is_new(None, 300, again=False)
    assert not cells.is_new(done, 900, again=True)
    assert [cells.is_new(stopped, limit, again=True) for limit in (300, 301)] == [False, True]
    assert [cells.is_new(failed, 300, again=again) for again in (False, True)] == [False, True]


def test_cheap_cells_come_first_and_the_end_of_the_minutes_is_nobodys_fault(
    monkeypatch, tmp_path, capsys
):
    ran = []

    def run_cell(chosen, workers, python, limit):
        ran.append(chosen.contestant)
        note = "stopped after 1 s" if chosen.contestant == "extra-trees chain" else ""
        scored = {"rmse": 1.0}
        return {**chosen._asdict(), "seconds": 1, "limit": limit, "note": note, "seen": scored}

    monkeypatch.setattr(cells, "run_cell", run_cell)
    given = accuracy.parse(["--minutes", "1", "--cache", str(tmp_path)])
    chosen = [cell(name) for name in ("extra-trees chain", "iterative plain", "mean")]
    pythons = dict.fromkeys(CONTESTANTS, "python")
    accuracy.run(chosen, workers.Workers(1), pythons, {}, given)
    assert ran == ["mean", "iterative plain", "extra-trees chain"]
    assert sorted(records.read(tmp_path)) == ["iterative plain0", "mean0"]
    assert "1 minutes are over; left: 1 filling" in capsys.readouterr().err
    given.minutes = 0
    accuracy.run(chosen, workers.Workers(1), pythons, {}, given)
    assert len(ran) == 3
    assert "left: 3 fillings" in capsys.readouterr().err
    measured = [{"table": "t", "contestant": "mean", "seconds": 7.0, "limit": 300}]
    assert cells.guess_seconds(chosen[2], measured) == 7.0


def test_names_choose_one_or_all_that_begin_with_them():
    there = ["gapmix", "gapmix best", "k-NN 5", "k-NN 10"]
    assert accuracy.choose("k-NN,gapmix", there, "contestant") == ["k-NN 5", "k-NN 10", "gapmix"]
    with pytest.raises(SystemExit, match=r"There is no contestant 'knn'\. Use some of: gapmix,"):
        accuracy.choose("knn", there, "contestant")


# ---------------------------------------------------------------- summary and page


def made_records():
    """Return two tables: the rival wins b, k-NN 10 is the better k-NN, one was stopped on b."""
    errors = {
        "mean": (1.0, 1.0),
        "k-NN 5": (0.9, 0.9),
        "k-NN 10": (0.8, 0.8),
        "iterative plain": (0.8, 0.5),
        "gapmix": (0.4, 0.5),
        "missForest-like": (0.6, 0.25),
        "HyperImpute": (0.7, None),
    }
    made = []
    for contestant, seed in itertools.product(errors, (0, 1)):
        for table, rmse in zip("ab", errors[contestant], strict=True):
            record = {**cell(contestant, table, seed=seed)._asdict(), "note": ""}
            scored = dict.fromkeys(summary.SCORES)
            scored |= {"rmse": rmse, "mae": rmse, "crps": None if seed else rmse}
            record |= {"seconds": 2.0, "processor": 1.0, "seen": scored, "new": scored}
            if rmse is None:
                record |= {"seen": None, "new": None, "note": "stopped after 300 s"}
            made.append(record)
    return made


def test_errors_are_taken_against_the_best_simple_filling_of_each_table(tmp_path):
    rows = summary.to_rows(made_records())
    summary.write_rows(rows, tmp_path / "rows.csv")
    rows = summary.read_rows(tmp_path / "rows.csv")
    lines = {line.contestant: line for line in summary.summarise(rows)}
    assert "k-NN 5" not in lines
    assert lines["k-NN"].ratios["seen rmse"] == pytest.approx(np.sqrt(1.0 * 1.6))
    assert lines["gapmix"].ratios["new rmse"] == pytest.approx(np.sqrt(0.5 * 1.0))
    assert lines["gapmix"].ratios["seen wrong"] is None
    assert lines["missForest-like"].to_ours == pytest.approx(np.sqrt(1.5 * 0.5))
    assert lines["gapmix"].rank == pytest.approx((1 + 2.5) / 2)  # on b as good as iterative
    late = lines["HyperImpute"]
    assert (late.settings, late.stopped, late.rank) == (1, 2, (3 + 6) / 2)
    assert late.ratios["seen rmse"] == pytest.approx(0.7 / 0.8)
    assert summary.find_winners(rows, "rmse") == [("b", "missForest-like", 0.5)]
    assert summary.by_table(rows, "rmse")["a"]["gapmix"] == pytest.approx(0.5)


def test_each_setting_has_its_errors_and_the_least_in_bold():
    text = page.each_setting(summary.to_rows(made_records()))
    (line,) = [each for each in text.splitlines() if each.startswith("| a ")]
    assert "| mcar 20 % |" in line
    assert line.count("**") == 2
    assert "**.400** / - (" in line


def test_without_all_simple_fillings_there_is_no_ratio():
    rows = summary.to_rows(r for r in made_records() if r["contestant"] != "mean")
    assert summary.take_ratios(rows) == []
    assert summary.summarise(rows)[0].ratios["seen rmse"] is None


def test_the_page_names_rivals_that_win_and_what_was_not_run(tmp_path):
    pytest.importorskip("matplotlib")
    assert "`make accuracy`" in page.markdown(tmp_path, "x.png")
    names = ("cpu", "gapmix", "commit", "scikit-learn")
    document = {
        "date": "2026-01-01",
        "limit": 300,
        "machine": {**dict.fromkeys(names, "?"), "threads": 1},
        "absent": {"gcimpute": "pip: no"},
        "not_run": {"miceforest": 12},
    }
    page.write(document, summary.to_rows(made_records()), tmp_path)
    text = page.markdown(tmp_path, "x.png")
    assert "- b, RMSE: missForest-like has 0.50 times that of gapmix." in text
    assert "- a," not in text
    assert "- gcimpute: pip: no." in text
    assert "- miceforest: 12 fillings still to be run." in text
    (line,) = [each.split() for each in text.splitlines() if each.startswith("| a, 100 x 5")]
    assert [word for word in line if word.startswith("*")] == ["**0.50**"]
    assert "1, 2 stopped" in text
    assert (tmp_path / "accuracy.png").stat().st_size > 5_000


def test_the_documentation_shows_the_stored_results(tmp_path):
    pages.write_all(tmp_path)
    assert (tmp_path / "accuracy.md").exists()
