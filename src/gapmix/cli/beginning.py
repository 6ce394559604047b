"""First contact: a table to try gapmix on, and kernels compiled before they are needed."""

from __future__ import annotations

import csv
import logging
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_wine

from gapmix import kernels
from gapmix.cli import filling
from gapmix.cli.requests import Fitting, Reading, Watch, Writing
from gapmix.solvers.calibrate import keep_costs

SHARE = 0.2  # of the cells of the demonstration's table, removed


class DemoResult(NamedTuple):
    """How well the cells that were removed from a table are filled."""

    n_rows: int
    n_columns: int
    n_gaps: int
    error: float  # root mean square, in standard deviations of the columns
    mean_error: float  # that of column means
    files: tuple[str, str]  # with gaps, filled
    seconds: float


class WarmResult(NamedTuple):
    """What was compiled, and where it is kept."""

    n_kernels: int
    n_compiled: int  # the rest was compiled before
    folder: str
    seconds: float


def demonstrate(folder: Path, watch: Watch) -> DemoResult:
    """Remove cells of a table of wines, fill them as `impute` does, compare with what they were."""
    began = time.perf_counter()
    wine = load_wine()
    truth, names = wine.data, wine.feature_names
    gaps = np.random.default_rng(0).random(truth.shape) < SHARE
    table, filled = folder / "wine.csv", folder / "wine-filled.csv"
    folder.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(names)
        for row, gone in zip(truth, gaps, strict=True):
            lines.writerow(
                ["" if gap else f"{value:g}" for value, gap in zip(row, gone, strict=True)]
            )
    filling.impute(table, Reading(), Fitting(), Writing(filled), watch)
    values = np.loadtxt(filled, delimiter=",", skiprows=1)
    spread = truth.std(axis=0)
    means = np.nanmean(np.where(gaps, np.nan, truth), axis=0)
    error, mean_error = (
        float(np.sqrt(np.mean(((guess - truth) / spread)[gaps] ** 2)))
        for guess in (values, np.broadcast_to(means, truth.shape))
    )
    seconds = time.perf_counter() - began
    files = (str(table), str(filled))
    return DemoResult(len(truth), len(names), int(gaps.sum()), error, mean_error, files, seconds)


def warm_up(watch: Watch) -> WarmResult:
    """Compile all kernels that are not kept yet, and measure this machine."""
    began = time.perf_counter()
    watch.plan("compile")
    logging.getLogger(kernels.__name__).setLevel(logging.WARNING)  # that it compiles is no news
    watch.stage("Compiling", len(kernels.MODULES), "modules", part="compile")
    found = {}
    for n, name in enumerate(kernels.MODULES, 1):
        module = kernels.load(name)
        for each in vars(module).values():
            if hasattr(each, "stats") and each.__module__ == module.__name__:
                found[each.__qualname__] = each.stats
        watch.step(n)
    keep_costs()
    return WarmResult(
        len(found),
        sum(bool(stats.cache_misses) for stats in found.values()),
        next((stats.cache_path or "" for stats in found.values()), ""),
        time.perf_counter() - began,
    )
