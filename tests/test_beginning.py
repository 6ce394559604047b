"""First contact: the demonstration, compiling ahead, completion, `python -m gapmix`."""

import csv
import io
import json
import logging
import os
import shutil
import subprocess
import sys

import pytest
from rich.console import Console

import gapmix as package
from gapmix.cli.beginning import warm_up
from gapmix.cli.screen import Screen


def test_the_demonstration_fills_removed_cells_better_than_means_and_changes_no_other(
    gapmix, tmp_path
):
    ran = gapmix(tmp_path, "demo", "try", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert told["error"] < 0.8 * told["mean_error"]
    with_gaps, filled = (
        list(csv.reader((tmp_path / name).read_text(encoding="utf-8").splitlines()))
        for name in told["files"]
    )
    pairs = [
        pair for rows in zip(with_gaps, filled, strict=True) for pair in zip(*rows, strict=True)
    ]
    assert sum(before == "" for before, _ in pairs) == told["n_gaps"] > 400
    assert all(before in ("", after) and after for before, after in pairs)


def test_the_demonstration_names_what_to_run_next_and_refuses_a_file_for_a_folder(gapmix, tmp_path):
    (tmp_path / "taken").write_text("")
    ran = gapmix(tmp_path, "demo", "taken")
    assert ran.code == 74
    assert "taken" in ran.err
    assert not list(tmp_path.glob("*.csv"))


def test_warm_up_compiles_nothing_twice_and_says_where_it_is_kept(gapmix, tmp_path):
    gapmix(tmp_path, "warm-up")
    again = gapmix(tmp_path, "warm-up", "--json")
    told = json.loads(again.out)
    assert told["n_compiled"] == 0
    assert told["n_kernels"] > 20
    assert os.path.isdir(told["folder"])


@pytest.mark.parametrize("quiet", [False, True])
def test_compiling_is_announced_on_the_screen_while_a_command_runs(quiet):
    shown = io.StringIO()
    log = logging.getLogger("gapmix.kernels")
    with Screen(quiet=quiet, console=Console(file=shown, width=200)):
        log.info("Compiling for this machine.")
    log.info("not shown")
    assert shown.getvalue() == ("" if quiet else "Note: Compiling for this machine.\n")


def test_compiling_in_advance_is_not_advised_while_it_is_done():
    shown = io.StringIO()
    with Screen(console=Console(file=shown, width=200)) as screen:
        warm_up(screen)
        logging.getLogger("gapmix.kernels").info("`gapmix warm-up` does all of it in advance.")
    assert "advance" not in shown.getvalue()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_the_commands(gapmix, tmp_path, shell):
    ran = gapmix(tmp_path, "completion", shell)
    assert ran.code == 0
    assert all(name in ran.out for name in ("impute", "warm-up", "--missing-values"))
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=ran.out, text=True, check=True)


def test_the_package_runs_as_a_module_and_tells_its_version_without_heavy_imports():
    code = "import runpy, sys; sys.argv = ['gapmix', '--version']\ntry:\n"
    code += "    runpy.run_module('gapmix', run_name='__main__')\nfinally:\n"
    code += "    assert not {'numpy', 'sklearn', 'polars', 'numba'} & set(sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip() in (package.__version__, "unknown")
