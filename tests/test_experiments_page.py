"""The page of results: claims of two profiles side by side, times, another library."""

from __future__ import annotations

import json

import pytest
from experiments import libraries, page, redirect, speed_tables, verdicts
from experiments.mnist_work import EVERY_ROW, ONE, RETRAIN, SOLVERS, timing_cells
from experiments.profiles import FULL, QUICK
from experiments.store import Cell


def result(seconds, log_likelihood=-1.0):
    return {
        "seconds": seconds,
        "plan_seconds": 0.5,
        "log_likelihoods": [log_likelihood] * len(seconds),
        "n_patterns": 3,
        "trees": ["Trees: 3 patterns from scratch, 0 moved"],
        "others_cpu": 0.25,
        "machine": {"blas": "a library"},
        "score_validation": 0.0,
        "filled": 0.0,
    }


def cell(kind, digit, solver):
    config = {"digit": digit, "solver": solver, "n_components": 2, "kept": 1.0}
    return Cell(kind, config, None)


def make_timing(order):
    """Two digits whose iterations take 8 (naive) and 2 s (paper); one has work for each row."""
    takes = {"naive": 8.0, "paper": 2.0, "tree": 1.0, "dual": 1.0}
    pairs = [(cell(ONE, d, s), result([t, t])) for d in (0, 3) for s, t in takes.items()]
    pairs += [(cell(EVERY_ROW, 3, s), result([t])) for s, t in (("dual", 1.0), ("naive-row", 40.0))]
    pairs += [(cell(RETRAIN, 3, s), result([t] * 3, -2.0)) for s, t in takes.items()]
    return speed_tables.write_timing(order, [c for c, _ in pairs], [r for _, r in pairs])


class Order:
    """As much of an order as tables of times need."""

    profile = FULL

    def __init__(self, output):
        self.output = output


def test_times_are_measured_and_compared_within_a_digit(tmp_path):
    timing = make_timing(Order(tmp_path))
    ratios = timing["ratios"]
    assert ratios["naive"]["paper"] == {"mean": 4.0, "half": 0.0, "n": 2}
    assert ratios["naive-row"]["paper"] == {"mean": 20.0, "half": 0.0, "n": 1}
    seconds = {r["solver"]: r["seconds"] for r in timing["retrained"]}
    assert seconds["naive"] == 24.5  # the plan is counted
    assert timing["retrained_ratios"]["paper"]["mean"] == 24.5 / 6.5
    assert timing["others_cpu"] == 0.25
    row = verdicts.mnist_claims({"timing": timing})[1]
    assert "20.0 ± 0.0 times as fast as with work done for each row (1 digits)" in row[2]
    assert "3.77 ± 0.00 times as fast as once for each pattern (1 digits)" in row[2]
    assert row[3].startswith("**confirmed** against naive EM per row; **contradicted**")


def test_work_on_a_digit_counts_when_all_solvers_are_done():
    cells = [cell(ONE, d, s) for d in (0, 3) for s in SOLVERS[1:]]
    results = [result([1.0]) if c.config != cells[2].config else None for c in cells]
    kept, _ = speed_tables.whole_digits(cells, results)
    assert {c.config["digit"] for c in kept} == {3}


def test_every_row_is_timed_and_chosen_models_are_retrained_to_the_end():
    chosen = {d: {"digit": d, "n_components": 3} for d in range(10)}
    cells = timing_cells(FULL.mnist, chosen)
    assert {c.config["digit"] for c in cells if c.kind == ONE} == set(range(10))
    again = [c for c in cells if c.kind == RETRAIN]
    assert {c.config["iterations"] for c in again} == {None}
    assert len({c.config["digit"] for c in again}) >= 3
    assert {c.config["solver"] for c in again} == set(SOLVERS[1:])
    assert len({c.config["digit"] for c in cells if c.kind == EVERY_ROW}) >= 3


def test_the_claims_of_two_profiles_stand_side_by_side(tmp_path):
    timing = make_timing(Order(tmp_path))
    full, quick = page.Study(FULL, {"timing": timing}, {}), page.Study(QUICK, {}, {})
    lines = page.claims_table(full, quick).splitlines()
    assert [word.strip() for word in lines[0].split("|")[-3:-1]] == ["verdict", "quick profile"]
    speed = next(line for line in lines if "on the order of 8" in line)
    assert speed.rstrip("| ").endswith(verdicts.PENDING)
    other = json.loads(json.dumps(timing))
    other["ratios"]["naive-row"]["paper"]["mean"] = 2.0
    lines = page.claims_table(full, quick._replace(mnist={"timing": other})).splitlines()
    speed = next(line for line in lines if "on the order of 8" in line)
    assert speed.rstrip("| ").endswith("(**contradicted**)")
    same = next(line for line in lines if "the same results were obtained" in line)
    assert same.rstrip("| ").endswith("the same")


def test_libraries_are_compared_when_all_their_draws_are_there(tmp_path):
    path = tmp_path / f"{libraries.KIND}.jsonl"
    for library, factor in (("a", 2.0), ("b", 4.0), ("c", 9.0)):
        for seed, each in zip(libraries.SEEDS, libraries.library_cells(library), strict=True):
            seconds = {"naive": factor * (1 + 0.01 * seed), "paper": 1.0}
            if (library, seed) == ("c", 2):
                continue
            record = {"name": f"{library}{seed}", "config": each.config}
            with path.open("a") as file:
                file.write(json.dumps({**record, "result": {"seconds": seconds}}) + "\n")
    found = libraries.summarise(tmp_path)
    assert [r["library"] for r in found] == ["a", "b"]
    assert found[1]["mean"] == pytest.approx(4.04)
    row = next(r for r in verdicts.mnist_claims({"libraries": found}) if "BLAS" in r[0])
    assert row[3] == "**confirmed** as possible: the library alone changes the speed-up 2.0 times"


def test_names_of_the_other_library(tmp_path):
    names = [redirect.name_there(f"scipy_{n}") for n in ("dpotrf_", "dpotrf_64_", "cblas_dgemm64_")]
    assert names == ["dpotrf_", "dpotrf_64_", "cblas_dgemm_64"]
    redirect.write_redirection({"scipy_dpotrf_"}, tmp_path / "a.S")
    assert "scipy_dpotrf_: jmp dpotrf_@PLT" in (tmp_path / "a.S").read_text()
