"""The work of the image study, as cells: fits of the grid, the chosen models, times, variations."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import machine
from sklearn.exceptions import ConvergenceWarning

from experiments import mnist_data
from experiments.mnist_data import Images
from experiments.neighbours import fill_nearest, measure
from experiments.profiles import Grid, Mnist
from experiments.search import Setting
from experiments.store import Cell, Result, read_lines
from gapmix import GaussianMixture
from gapmix.plan import TreeOptions
from gapmix.plan.patterns import find_patterns
from gapmix.plan.planner import make_plan

SOLVERS = ("naive-row", "naive", "paper", "tree", "dual")
NEIGHBOURS = (1, 10)
TIMED = ONE, EVERY_ROW, RETRAIN = "mnist-time", "mnist-time-rows", "mnist-retrain"  # kinds of work
N_SHOWN = 12  # test images of each digit kept for figures
SAMPLED = 45  # results of solvers are compared on one image for so many training images
# What the paper leaves open; `experiments/page.py` says why.
OPEN = {
    "diagonal_loading": 1e-3,
    "tol": 0.1,
    "weights": "learned",
    "fill": "mean",
    "init_covariance": "available",
    "keep_components_of": "covariance",
}
VARIED: dict[str, dict[str, Any]] = {
    "as decided, 75 % kept": {},
    "all components kept": {"kept": 1.0},
    "diagonal loading 1e-5": {"diagonal_loading": 1e-5},
    "diagonal loading 1e-4": {"diagonal_loading": 1e-4},
    "diagonal loading 1e-2": {"diagonal_loading": 1e-2},
    "diagonal loading 1e-1": {"diagonal_loading": 1e-1},
    "tolerance 0.01": {"tol": 0.01},
    "equal weights": {"weights": "equal"},
    "filled with the next eigenvalue": {"fill": "next"},
    "nothing added to the diagonal": {"diagonal_loading": 0.0},
    "components of columns scaled to variance 1": {"keep_components_of": "correlation"},
    "the same, nothing added to the diagonal": {
        "keep_components_of": "correlation",
        "diagonal_loading": 0.0,
    },
    "start from rows filled with means": {"init_covariance": "filled"},
}


def make_model(config: dict[str, Any], **changes: Any) -> GaussianMixture:
    """Return the mixture of a configuration, not fitted."""
    given: dict[str, Any] = {
        "keep_components": None if config["kept"] == 1 else config["kept"],
        "random_state": config["seed"],
        "max_iter": config["max_iter"],
        **{name: config[name] for name in OPEN},
        **changes,
    }
    return GaussianMixture(config["n_components"], **given)


def fit(model: GaussianMixture, x: np.ndarray) -> GaussianMixture:
    """Fit; reaching the limit of iterations is recorded, not warned about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x)


def base_config(profile: Mnist, digit: int) -> dict[str, Any]:
    """Return what all fits of a digit share."""
    return {"digit": digit, "n_train": profile.n_train, "max_iter": profile.max_iter, **OPEN}


# ------------------------------------------------------------------------ the grid


def grid_cells(profile: Mnist) -> list[Cell]:
    """Return a cell for every mixture tried; one component has but one start."""
    cells = []
    for digit in profile.digits:
        grid: Grid = profile.grids.get(digit, profile.grid)
        for size in grid.sizes:
            for kept in grid.kept:
                for seed in grid.seeds if size > 1 else grid.seeds[:1]:
                    cells.append(fit_cell(profile, digit, Setting(size, kept, seed)))
    return cells


def fit_cell(profile: Mnist, digit: int, setting: Setting) -> Cell:
    """Return the cell of one fit."""
    config = {**base_config(profile, digit), "n_components": setting.size}
    config |= {"kept": setting.share, "seed": setting.seed}
    return Cell("mnist-fit", config, fit_one, is_line=True)


def stored_fits(profile: Mnist, folder: Path) -> dict[int, dict[Setting, Result]]:
    """Return the fits of each digit that are in the tree, whatever code made them."""
    found: dict[int, dict[Setting, Result]] = {digit: {} for digit in profile.digits}
    for record in read_lines(folder / "mnist-fit.jsonl").values():
        config = record["config"]
        setting = Setting(config["n_components"], config["kept"], config["seed"])
        if config == fit_cell(profile, config["digit"], setting).config:
            found[config["digit"]][setting] = {**record["result"], "made": record["made"]}
    return found


def fit_one(config: dict[str, Any]) -> Result:
    """Fit a mixture to the training images of a digit and score the others."""
    began = time.perf_counter()
    digit, n = config["digit"], config["n_train"]
    train = mnist_data.training(digit, n)
    model = fit(make_model(config), train.x)
    return {
        "nll_train": -model.score(train.x),
        "nll_validation": -model.score(mnist_data.selection(digit, n).x),
        "n_iter": model.n_iter_,
        "stop_reason": model.stop_reason_,
        "seconds": time.perf_counter() - began,
    }


def choose(cells: list[Cell], results: list[Result]) -> dict[int, dict[str, Any]]:
    """Return the configuration with the lowest mean negative log-likelihood of each digit."""
    best: dict[int, tuple[float, dict[str, Any]]] = {}
    for cell, result in zip(cells, results, strict=True):
        digit = cell.config["digit"]
        if digit not in best or result["nll_validation"] < best[digit][0]:
            best[digit] = (result["nll_validation"], cell.config)
    return {digit: config for digit, (_, config) in best.items()}


# ------------------------------------------------------------------------ the chosen models


def digit_cells(profile: Mnist, chosen: dict[int, dict[str, Any]]) -> list[Cell]:
    """Return a cell for the chosen model of each digit at work on the test images."""
    return [
        Cell(
            "mnist-digit",
            {**config, "digits": list(profile.digits), "n_test": profile.n_test},
            use_one,
        )
        for config in chosen.values()
    ]


def use_one(config: dict[str, Any]) -> Result:
    """Retrain the chosen model; score all test images, and fill those of its digit."""
    digit = config["digit"]
    train = mnist_data.training(digit, config["n_train"])
    test = mnist_data.test(tuple(config["digits"]), config["n_test"])
    model = fit(make_model(config), train.x)
    own = Images(*(part[test.labels == digit] for part in test))
    filled = {"mixture": model.impute(own.x)}
    mean = np.nanmean(train.x, axis=0)
    filled["mean"] = np.where(np.isnan(own.x), mean, own.x)
    distance = measure(own.x, train.x)
    for k in NEIGHBOURS:
        filled[f"{k} nearest"] = fill_nearest(own.x, train.x, distance, k)
    return {
        "score_incomplete": model.score_samples(test.x),
        "score_complete": model.score_samples(test.complete),
        "shown": own.x[:N_SHOWN].astype(np.float32),
        "truth": own.complete[:N_SHOWN].astype(np.float32),
        **{
            f"filled {name}": values[:N_SHOWN].astype(np.float32) for name, values in filled.items()
        },
        **{f"error {name}": hidden_error(values, own) for name, values in filled.items()},
    }


def hidden_error(filled: np.ndarray, images: Images) -> np.ndarray:
    """Return the mean squared error over the hidden pixels of each image."""
    hidden = np.isnan(images.x)
    return ((filled - images.complete) ** 2).sum(axis=1, where=hidden) / hidden.sum(axis=1)


# ------------------------------------------------------------------------ times


def timing_cells(profile: Mnist, chosen: dict[int, dict[str, Any]]) -> list[Cell]:
    """Return cells that time an iteration with every solver, and those that retrain chosen models.

    All components cost the same, so one is timed, without the eigenvalues of the regulariser. Work
    for each row takes so long that there is one iteration of it, and one of `dual` to compare with.
    Chosen models are retrained on all rows until they converge.
    """
    one = {"n_components": 1, "kept": 1.0, "seed": 0}
    plans: list[tuple[str, dict[str, Any], tuple[str, ...], int | None]] = []
    for digit in profile.timed_digits:
        config = {**base_config(profile, digit), **one}
        plans.append((ONE, config, SOLVERS[1:], 2))
        if digit in profile.row_digits:
            plans.append((EVERY_ROW, config, ("dual", "naive-row"), 1))
    plans += [
        (RETRAIN, chosen[digit], SOLVERS[1:], None)
        for digit in profile.retrained_digits
        if digit in chosen
    ]
    return [
        Cell(
            kind,
            {**config, "solver": solver, "iterations": iterations, "threads": 1},
            time_one,
        )
        for kind, config, solvers, iterations in plans
        for solver in solvers
    ]


def time_one(config: dict[str, Any]) -> Result:
    """Retrain with one solver on one thread; return seconds per iteration and the outcome.

    Others may be using the machine, and more of it during one solver than during the next. So
    seconds are of the processor: those of the clock times the share of it that this process had
    during the fit. `paper` has one tree over all patterns; the time to make it is told apart.
    """
    digit, n = config["digit"], config["n_train"]
    x = mnist_data.training(digit, n).x
    select = mnist_data.selection(digit, n).x
    solver: Any = config["solver"]
    solver = TreeOptions("paper", max_cluster=None) if solver == "paper" else solver
    changes: dict[str, Any] = {"solver": solver, "n_jobs": config["threads"]}
    if config["iterations"] is not None:
        changes |= {"max_iter": config["iterations"], "tol": 0.0}
    patterns = find_patterns(~np.isnan(x))
    began = time.process_time()
    plan = make_plan(patterns, config["n_components"], solver=solver)
    planned = time.process_time() - began
    clock, began, used = machine.read_clock(), time.perf_counter(), time.process_time()
    model = fit(make_model(config, **changes), x)
    share = min(1.0, (time.process_time() - used) / (time.perf_counter() - began))
    others = machine.others_since(clock)
    sample = select[: max(10, n // SAMPLED)]
    return {
        "seconds": [share * record.seconds for record in model.history_],
        "plan_seconds": planned,
        "log_likelihoods": [record.log_likelihood for record in model.history_],
        "n_rows": len(x),
        "n_patterns": len(patterns.observed),
        "events": sorted({event for record in model.history_ for event in record.events}),
        "trees": [s for s in plan.explain().splitlines() if s.startswith("Trees:")],
        "others_cpu": others,
        "machine": machine.describe(config["threads"]),
        "score_validation": model.score_samples(sample),
        "filled": model.impute(sample)[np.isnan(sample)],
    }


# ------------------------------------------------------------------------ open questions


def varied_cells(profile: Mnist) -> dict[str, list[Cell]]:
    """Return two components of one digit, one decision changed at a time, from several starts."""
    shared = {**base_config(profile, profile.varied_digit), "n_test": profile.n_test}
    shared |= {"n_components": 2, "kept": 0.75}
    return {
        name: [
            Cell("mnist-varied", {**shared, **changes, "seed": seed}, vary_one)
            for seed in profile.varied_seeds
        ]
        for name, changes in list(VARIED.items())[: profile.n_varied]
    }


def classify_cells(profile: Mnist) -> list[Cell]:
    """Return ten one-component mixtures for each of several values added to the diagonal."""
    return [
        Cell(
            "mnist-classify",
            {
                **base_config(profile, digit),
                "n_components": 1,
                "kept": 1.0,
                "seed": 0,
                "diagonal_loading": loading,
                "digits": list(profile.digits),
                "n_test": profile.n_test,
            },
            score_one,
        )
        for loading in profile.loadings
        for digit in profile.digits
    ]


def score_one(config: dict[str, Any]) -> Result:
    """Fit, and score all test images with their squares missing."""
    model = fit(make_model(config), mnist_data.training(config["digit"], config["n_train"]).x)
    test = mnist_data.test(tuple(config["digits"]), config["n_test"])
    return {"score_incomplete": model.score_samples(test.x)}


def vary_one(config: dict[str, Any]) -> Result:
    """Fit, score the selection images and measure filled test pixels."""
    digit, n = config["digit"], config["n_train"]
    model = fit(make_model(config), mnist_data.training(digit, n).x)
    test = mnist_data.test((digit,), config["n_test"])
    return {
        "nll_validation": -model.score(mnist_data.selection(digit, n).x),
        "n_iter": model.n_iter_,
        "error": hidden_error(model.impute(test.x), test),
    }
