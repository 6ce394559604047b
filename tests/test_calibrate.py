"""Costs measured on this machine: plausible, kept, and used for tables that are worth it."""

import json

import numpy as np
import pytest

from gapmix.plan import costs
from gapmix.plan.patterns import find_patterns
from gapmix.solvers import calibrate

SMALL = find_patterns(np.ones((10, 2), dtype=bool))
LARGE = find_patterns(np.random.default_rng(0).random((3000, 60)) < 0.5)


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Return where costs are kept, in an empty folder; two sizes are measured."""
    monkeypatch.delenv("GAPMIX_COSTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibrate, "SIZES", (4, 256))
    calibrate.keep_costs.cache_clear()
    yield tmp_path / "gapmix" / "costs.json"
    calibrate.keep_costs.cache_clear()


def test_large_tables_are_planned_with_costs_measured_once_and_kept(kept):
    assert calibrate.costs_for(SMALL, 1) is costs.DEFAULT
    assert not kept.exists()
    found = calibrate.costs_for(LARGE, 50)
    assert found.sizes == (4, 256)
    for seconds in found[1:6]:
        assert min(seconds) > 0
        assert max(seconds) < 1
    assert 0 < found.node < 1e-2
    assert 0 < found.multiply_add < 1e-7
    calibrate.keep_costs.cache_clear()
    assert calibrate.costs_for(LARGE, 50) == found


@pytest.mark.parametrize("damage", ["machine", "format", "text"])
def test_costs_of_another_machine_or_format_are_measured_anew(kept, damage):
    calibrate._write(costs.DEFAULT, kept)
    assert calibrate.costs_for(LARGE, 50) == costs.DEFAULT
    calibrate.keep_costs.cache_clear()
    record = json.loads(kept.read_text())
    kept.write_text("{" if damage == "text" else json.dumps({**record, damage: 0}))
    assert calibrate.costs_for(LARGE, 50).sizes == (4, 256)


@pytest.mark.parametrize(
    "change",
    [
        {"node": None},
        {"node": float("nan")},
        {"node": -1.0},
        {"multiply_add": "fast"},
        {"multiply_add": [1e-9, 1e-9]},
        {"sizes": [4, 4]},
        {"sizes": 4},
        {"scratch": [1e-6]},
        {"scratch": [1e-6, "x"]},
        {"delete": [1e-6, -1e-6]},
        {"solve": {"a": 1}},
        {"cholesky": [[1e-6], [1e-6]]},
        {"append": [0.0, float("inf")]},
    ],
    ids=str,
)
def test_wrong_costs_are_ignored_and_measured_anew(kept, change, monkeypatch, caplog):
    calibrate._write(calibrate.measure(), kept)
    record = json.loads(kept.read_text())
    kept.write_text(json.dumps({**record, **change}))
    with caplog.at_level("INFO", "gapmix"):
        assert calibrate.costs_for(LARGE, 50).sizes == (4, 256)
    assert "holds no costs and is not used" in caplog.text
    calibrate.keep_costs.cache_clear()
    assert np.isfinite(calibrate._read(kept).node)  # what was measured took its place
    kept.write_text(json.dumps({**record, **change}))
    monkeypatch.setenv("GAPMIX_COSTS", str(kept))
    assert calibrate.costs_for(SMALL, 1) == costs.DEFAULT


@pytest.mark.parametrize("whole", ["[]", "3", "null", "[" * 100_000, "\x00"])
def test_anything_may_be_in_the_file(kept, whole):
    kept.parent.mkdir(parents=True)
    kept.write_text(whole)
    assert calibrate.costs_for(LARGE, 50).sizes == (4, 256)


def test_no_home_is_no_error(kept, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(calibrate.Path, "home", homeless)
    assert calibrate.costs_for(LARGE, 50).sizes == (4, 256)
    assert kept.exists()  # in the cache folder that was given
    calibrate.keep_costs.cache_clear()
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert calibrate.costs_for(LARGE, 50).sizes == (4, 256)


def test_a_file_that_is_named_is_used_as_it_is_whatever_the_table(kept, monkeypatch, tmp_path):
    wanted = costs.DEFAULT._replace(node=1.0)
    calibrate._write(wanted, tmp_path / "mine.json")
    monkeypatch.setenv("GAPMIX_COSTS", str(tmp_path / "mine.json"))
    assert calibrate.costs_for(SMALL, 1) == wanted
    assert not kept.exists()


def test_a_folder_that_cannot_be_written_to_is_not_an_error(kept):
    kept.parent.write_text("a file where the folder should be")
    assert calibrate.costs_for(LARGE, 50).sizes == (4, 256)
