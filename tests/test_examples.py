"""Every example runs as it stands, warns of nothing, and draws what it says it draws."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import image

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE.parent / "examples").glob("plot_*.py"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run all examples in one process of their own, which spares them the imports."""
    folder = tmp_path_factory.mktemp("figures")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "run_examples.py"), str(folder), *EXAMPLES],
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return {record["name"]: record for record in records}


def test_there_is_an_example_for_each_use():
    assert [example.stem for example in EXAMPLES] == [
        "plot_fill_a_table",
        "plot_incomplete_images",
        "plot_multiple_imputation",
        "plot_pipeline",
        "plot_uncertainty",
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_begins_with_a_title_as_the_gallery_needs(example):
    first, title, rule, blank, *_ = example.read_text().splitlines()
    assert (first, blank) == ('"""', "")
    assert rule == "=" * len(title)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_draws_prints_and_is_quick(runs, example):
    run = runs[example.stem]
    assert len(run["figures"]) == len(re.findall(r"plt\.subplots\(", example.read_text()))
    for figure in run["figures"]:
        assert image.imread(figure)[..., :3].std() > 0.05  # not an empty sheet
    assert run["printed"]
    assert run["seconds"] < 20  # of the processor


def test_pooled_intervals_hold_the_truth_more_often_than_those_of_single_filling(runs):
    shares = re.findall(r"(\d+) % of the cases", runs["plot_multiple_imputation"]["printed"])
    pooled, single = map(int, shares)
    assert pooled >= 90
    assert single <= 75
