"""Tables of costs and stability: what is measured is right, what is stored is shown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks import solver_costs, stability
from benchmarks.problems import FAMILIES
from docs import pages
from tests import oracles


@pytest.fixture(scope="module")
def digits():
    """Measure the errors of all forms at a small and at a large condition number, once."""
    records = stability.measure((1e2, 1e12), range(1))
    return {(each["spectrum"], each["condition"], each["form"]): each for each in records}


def test_the_step_in_many_digits_is_the_textbook_step():
    x, sigma = stability.make_problem(0, 1e2, "log")
    exact = stability.step_exactly(x, sigma)
    wanted, _, (_, _, covariances) = oracles.em_step(
        x, np.ones(1), np.zeros((1, x.shape[1])), sigma[None]
    )
    assert float(exact.log_likelihood) == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(np.array(exact.covariance, dtype=float), covariances[0], rtol=1e-10)


def test_every_form_is_right_on_easy_covariances(digits):
    for (_, condition, form), each in digits.items():
        if condition == 1e2:
            assert max(each["log_likelihood"], each["covariance"]) < 1e-13, form


@pytest.mark.parametrize("spectrum", stability.SPECTRA)
def test_our_forms_keep_digits_where_the_short_one_does_not(digits, spectrum):
    for form in ("`dual`", "`tree`"):
        hard = digits[spectrum, 1e12, form]
        assert hard["log_likelihood"] < 1e-9
        assert hard["covariance"] < 1e-9
    short = digits[spectrum, 1e12, "short distance"]
    assert short["log_likelihood"] is None or short["log_likelihood"] > 1e-8


def test_operations_are_counted_on_the_smaller_side():
    observed = FAMILIES["drop-out"](np.random.default_rng(0), 2000)
    found = solver_costs.count(observed)
    n_o = np.arange(1, 51)
    assert found["n_patterns"] == 50
    assert found["mean_changes"] == 1.0  # a path: one visit more, one variable more
    assert found["observed_side"] == pytest.approx((n_o**3).sum() / 3)
    assert found["smaller_side"] == pytest.approx((np.minimum(n_o, 50 - n_o) ** 3).sum() / 3)


def test_solvers_are_timed_in_processor_seconds():
    found = solver_costs.time_solvers("drop-out", n_rows=60, rounds=1)
    assert list(found["seconds"]) == list(solver_costs.SOLVERS)
    assert all(0 < seconds < 10 for seconds in found["seconds"].values())


def test_stored_results_become_tables():
    costs = json.loads((pages.BENCHMARKS / "costs.json").read_text())
    text = pages.costs_table(pages.BENCHMARKS / "costs.json")
    assert [each["family"] for each in costs["records"]] == list(solver_costs.CHOSEN)
    for each in costs["records"]:
        assert f"| {each['family']} " in text
    text = pages.stability_tables(pages.BENCHMARKS / "stability.json")
    assert text.count("`dual`") == len(stability.SPECTRA)


def test_pages_without_results_say_how_to_make_them(tmp_path):
    assert "make bench" in pages.benchmarks_page(tmp_path)
    assert "solver_costs" in pages.costs_table(tmp_path / "costs.json")
    assert "stability" in pages.stability_tables(tmp_path / "stability.json")


def test_the_newest_run_is_shown_whatever_else_lies_beside_it(tmp_path):
    machine = dict.fromkeys(
        ("cpu", "cores", "threads", "blas", "python", "numpy", "scipy", "scikit-learn"), "x"
    )
    for date in ("2026-01-01", "2026-02-02"):
        run = {"command": "run", "date": date, "scale": 1.0, "seconds": 60.0, "results": []}
        run["machine"] = {**machine, "commit": date}
        (tmp_path / f"{date}.json").write_text(json.dumps(run))
    (tmp_path / "costs.json").write_text(json.dumps({"records": []}))
    text = pages.benchmarks_page(tmp_path)
    assert "2026-02-02" in text
    assert "2026-01-01" not in text
