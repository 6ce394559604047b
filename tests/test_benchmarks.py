"""The benchmarks measure what they say: shapes, iterations, and the fields of the results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import (
    categories,
    contestants,
    factors,
    growth,
    iteration,
    peers,
    possible,
    report,
    run,
    timing,
)
from benchmarks.problems import JOBS, SHAPES, Problem, make_named, scaled_rows
from sklearn.exceptions import ConvergenceWarning

ROOT = Path(__file__).parent.parent
TINY = 0.005
ROW = {
    "problem",
    "contestant",
    "kind",
    "seconds_median",
    "seconds_q1",
    "seconds_q3",
    "n_timed",
    "iterations",
    "log_likelihood",
    "log_likelihood_common",
    "peak_bytes",
    "threads",
    "blas",
    "commit",
    "note",
}


@pytest.mark.parametrize("name", [*SHAPES, *JOBS])
def test_problems_have_their_shape_and_share_of_gaps(name, monkeypatch):
    monkeypatch.delenv("GAPMIX_DATA", raising=False)
    spec = SHAPES.get(name) or JOBS[name]
    problem = make_named(name, TINY)
    n = scaled_rows(spec.n, TINY)
    assert problem.x.shape == problem.complete.shape == (n, spec.d)
    hidden = np.isnan(problem.x)
    spread = np.sqrt(spec.share * (1 - spec.share) / hidden.size)
    assert abs(hidden.mean() - spec.share) <= 5 * spread
    assert not hidden.all(axis=1).any()
    assert np.array_equal(problem.x[~hidden], problem.complete[~hidden])
    assert not np.isnan(problem.complete).any()


def test_a_problem_is_the_same_every_time():
    first, second = make_named("table", TINY), make_named("table", TINY)
    assert np.array_equal(first.x, second.x, equal_nan=True)


def test_squares_say_when_the_images_are_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("GAPMIX_DATA", str(tmp_path))
    assert f"GAPMIX_DATA={tmp_path} must name a folder" in make_named("squares", TINY).note


def test_an_unknown_problem_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"There is no problem 'big'\. Use one of squares, table"):
        make_named("big")


@pytest.mark.parametrize(
    ("name", "solver"),
    [("table", "auto"), ("half", "auto"), ("wide", "auto"), ("half", "naive"), ("half", "paper")],
)
def test_iterations_are_those_of_fit_to_the_bit(name, solver):
    problem = make_named(name, TINY)
    start = iteration.make_start(problem)
    options = {"solver": solver, "n_jobs": 2}
    fitted = iteration.make_mixture(problem, start, max_iter=3, tol=0, **options).fit(problem.x)
    work = iteration.set_up(iteration.make_mixture(problem, start, **options), problem.x)
    state = iteration.run(work, 3, 2)
    assert np.array_equal(state.parameters.weights, fitted.weights_)
    means = state.parameters.means * work.units.scale + work.units.center
    at = work.columns
    assert np.array_equal(means, fitted.means_[:, at])
    scale = work.units.scale
    covariances = state.parameters.covariances * scale[:, None] * scale
    assert np.array_equal(covariances, fitted.covariances_[:, at][:, :, at])
    assert state.log_likelihood == fitted.history_[-1].log_likelihood


def test_scikit_learn_iterates_as_its_fit_does():
    problem = make_named("table", TINY)
    start = iteration.make_start(problem)
    contestant = contestants.ScikitLearn(problem, start, threads=1)
    for _ in range(3):
        contestant.step()
    model = contestants.make_complete(problem, start, reg_covar=1e-6, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.fit(problem.complete)
    assert contestant.log_likelihood == pytest.approx(model.lower_bound_, rel=1e-12)


def test_contestants_agree_without_gaps():
    problem = make_named("table", TINY)
    complete = problem._replace(x=problem.complete)
    start = iteration.make_start(problem)
    made = [
        contestants.Gapmix(complete, start, threads=1),
        contestants.ScikitLearn(complete, start, threads=1),
        contestants.make_naive(complete, start, threads=1),
    ]
    found = [t.log_likelihood_common for t in timing.interleave(made, 3, 1.0)]
    assert found == pytest.approx([found[0]] * 3, rel=1e-5)  # the ridge is not the same prior


def test_naive_on_a_part_takes_whole_patterns_and_says_so():
    problem = make_named("table", 0.02)
    n_patterns = len(np.unique(np.isnan(problem.x), axis=0))
    part = contestants.NaivePart(problem, iteration.make_start(problem), 30, threads=1)
    assert part.factor == n_patterns / 30
    assert part.note.startswith(f"timed on 30 of {n_patterns:,} patterns")
    assert part.step() > 0


def test_who_is_slow_sits_out_and_the_order_alternates():
    calls = []

    class Fixed:
        kind, note, log_likelihood = "peer", "", -1.0

        def __init__(self, name, seconds):
            self.name, self.seconds = name, seconds

        def step(self):
            calls.append(self.name)
            return self.seconds

    made = [Fixed("a", 1.0), Fixed("b", 2.0)]
    first, second = timing.interleave(made, 4, 10.0, settle=0.0)
    assert (first.median, first.n_timed, first.iterations) == (1.0, 4, 5)
    assert (second.median, second.q1, second.q3) == (2.0, 2.0, 2.0)
    assert calls == ["b", "a", "a", "b", "b", "a", "a", "b", "b", "a"]
    first, _ = timing.interleave(made, 9, 0.0, settle=0.0)
    assert first.n_timed == timing.LEAST
    first, _ = timing.interleave(made, 1, 0.0, settle=0.01)
    assert first.n_timed == 1
    assert first.iterations > 10  # those before the timed ones


def test_run_prints_what_it_promises():
    command = [sys.executable, "-m", "benchmarks.run", "--problem", "table", "--json"]
    command += ["--scale", "0.001", "--repeats", "2", "--budget", "0.2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (result,) = document["results"]
    assert [set(row) for row in result["rows"]] == [ROW] * 4
    names = [row["contestant"] for row in result["rows"]]
    assert names[0].startswith("gapmix (")
    assert names[1:] == [
        contestants.SCIKIT_LEARN,
        contestants.ONE_THREAD,
        contestants.NaivePart.name,
    ]
    first, peer = result["rows"][:2]
    assert result["ratio"]["value"] == first["seconds_median"] / peer["seconds_median"]
    assert (result["ratio"]["must"], result["ratio"]["goal"]) == (0.5, 0.25)
    assert first["threads"] == document["machine"]["threads"] == 2
    assert first["peak_bytes"] == result["checks"]["memory"]["peak_bytes"] > 0
    assert result["checks"]["memory"]["allowed_bytes"] == 8 * (3 * 100 * 20 + 20 * 5 * 20 * 20)
    assert result["checks"]["same_bits"] == {"threads": [1, 2, 4], "equal": True}
    text = report.markdown(document)
    assert "| table   | 100 x 20, K=5, " in text
    assert "targets do not apply" in text


def test_fillers_fill_and_absent_ones_say_so(monkeypatch):
    problem = make_named("job-16", TINY)
    monkeypatch.setitem(peers.FILLERS, "gapmix", peers.FILLERS["gapmix"]._replace(repeats=1))
    job = peers.fill(problem, "gapmix", threads=1, limit=60)
    assert job.rmse < 0.7
    assert job.note.startswith("converged in ")
    filler = peers.FILLERS["gcimpute"]._replace(needs="no_such_module")
    monkeypatch.setitem(peers.FILLERS, "gcimpute", filler)
    job = peers.fill(problem, "gcimpute", threads=1, limit=60)
    assert (job.seconds, job.note) == (None, "skipped: not installed (pip install gcimpute)")


def test_a_filler_is_stopped_in_time():
    problem = make_named("job-16", TINY)
    job = peers.fill(problem, "IterativeImputer()", threads=1, limit=0.01)
    assert (job.seconds, job.note) == (None, "stopped after 0.01 s")


def test_scaling_tables_vary_one_thing():
    assert len(np.unique(np.isnan(growth.make_table("patterns", 10, TINY).x), axis=0)) <= 10
    assert growth.make_table("d", 50, TINY).x.shape[1] == 50
    assert not np.isnan(growth.make_table("share", 0.0, TINY).x).any()
    assert len(growth.make_table("n", 50_000, TINY).x) == 250


def test_scaling_is_drawn_and_written(tmp_path):
    pytest.importorskip("matplotlib")
    points = list(growth.measure("n", 2_000, scale=TINY, threads=1))
    assert [point.contestant for point in points] == list(growth.COLORS)
    points = [p._replace(panel=panel, value=0.5) for panel in growth.PANELS for p in points]
    growth.write_csv(points, tmp_path / "scaling.csv")
    growth.draw(points, tmp_path / "scaling.png", "caption")
    assert len((tmp_path / "scaling.csv").read_text().splitlines()) == 13
    assert (tmp_path / "scaling.png").stat().st_size > 5_000


def test_results_name_a_problem_that_misses_its_target():
    rows = [
        {"contestant": name, "seconds_median": seconds}
        for name, seconds in [("gapmix (dual)", 2.0), (contestants.SCIKIT_LEARN, 4.0)]
    ]
    ratio = run._ratio("squares", rows, judge=True)
    assert (ratio["value"], ratio["reaches_must"], ratio["reaches_goal"]) == (0.5, True, True)
    ratio = run._ratio("narrow", rows, judge=True)
    assert (ratio["reaches_must"], ratio["reaches_naive"]) == (False, None)
    assert run._ratio("squares", rows, judge=False)["reaches_must"] is None


def test_times_taken_beside_other_work_are_not_to_be_quoted():
    results = [{"problem": "table", "others_cpu": 0.5}, {"problem": "wide", "others_cpu": 0.01}]
    (warning,) = report.warnings(results)
    assert "during table (50 %). BLAS" in warning
    assert report.warnings(results[1:]) == []


def test_problem_record_keeps_its_fields():
    assert Problem._fields == ("name", "x", "complete", "n_components", "note")


def test_what_categories_cost_is_measured_on_the_same_rows():
    without, with_them = categories.make_work(0.2, 200)
    assert np.array_equal(without.rows.x, with_them.rows.x)
    assert with_them.rows.codes.shape == (200, categories.CATEGORIES)
    assert (categories.measure(0.2, 1, 200, repeats=1) > 0).all()


@pytest.mark.parametrize("how", [*factors.FITS])
def test_wide_tables_are_filled_nearly_as_by_the_model_they_are_from(how):
    line = factors.measure(200, 150, 3, how)
    assert line.true < line.error < 1.05 * line.true
    assert line.n_iter == 10 or how != "ten"


def test_the_judge_of_filled_texts_finds_what_cannot_be():
    whole = [str(i) for i in range(30)]
    judge = possible.judge_column
    assert judge([*whole, "", "?"], [*whole, "7", "29"]) == possible.Counts()
    assert judge([*whole, ""], [*whole, "31"]).outside == 1
    assert judge([*whole, ""], [*whole, "nan"]).outside == 1
    assert judge([*whole, ""], [*whole, "7.5"]) == possible.Counts(fraction=1, digits=1)
    assert judge([*whole, ""], [*whole[:-1], "29.0", "3"]).changed == 1
    assert judge(["0", "2"] * 5 + [""], ["0", "2"] * 5 + ["1"]).unknown == 1
    assert judge(["a", "b", "NA"], ["a", "b", "c"]).unknown == 1
    shown = possible.Text(["x", "y"], [["1.5", ""], ["", "a"]])
    filled = possible.Text(["x", "y"], [["1.5", ""], ["1.5", "a"]])
    assert possible.judge(shown, filled, {"y": 1}) == possible.Counts()
    assert possible.judge(shown, filled, {}).unnamed == 1
