"""The work of the regression study, as cells: filling, learning, variations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments import imputers, kernel_ridge, network
from experiments.abalone_data import Table, make_table, split
from experiments.kernel_ridge import Kernel
from experiments.network import Setting
from experiments.profiles import RIDGES, Abalone
from experiments.store import Cell, Result, work

MIXTURE = "mixture"
MIXTURE_SEEING = "mixture, target seen in training"
MEAN = "mean"
NEIGHBOURS = "neighbours on complete data"
NEIGHBOURS_FAIR = "neighbours on observed data"
ITERATIVE = "iterative"
FOREST = "forest"
LEARNERS = ("network", "kernel ridge")
# Each imputer with the fillings it may choose between on the validation rows.
FILLINGS: dict[str, tuple[str, ...]] = {
    MIXTURE: ("mixture",),
    MIXTURE_SEEING: ("mixture-seeing",),
    MEAN: ("mean",),
    NEIGHBOURS: ("complete-1", "complete-10"),
    NEIGHBOURS_FAIR: ("observed-10",),
    ITERATIVE: ("iterative",),
    FOREST: ("forest",),
}
# What the paper leaves open; `experiments/page.py` says why.
OPEN = {"coding": "two", "tol": 1e-4, "max_iter": 300, "shrinkage": 0.0}
VARIED: dict[str, dict[str, Any]] = {
    "as decided": {},
    "sex as three columns": {"coding": "three"},
    "sex as one number": {"coding": "one"},
    "tolerance 1e-2": {"tol": 1e-2},
    "diagonal loading 1e-2": {"loadings": [1e-2]},
    "shrinkage to the pooled covariance (ours)": {"shrinkage": "auto"},
}


def draw_config(profile: Abalone, proportion: float, repeat: int) -> dict[str, Any]:
    """Return what names one draw of gaps."""
    return {
        "proportion": proportion,
        "repeat": repeat,
        "coding": OPEN["coding"],
        "small": profile.small,
    }


def draw_table(config: dict[str, Any]) -> Table:
    """Return the table of a draw."""
    return make_table(
        config["proportion"], config["repeat"], config["coding"], small=config["small"]
    )


def mixture_cell(profile: Abalone, proportion: float, repeat: int, **changes: Any) -> Cell:
    """Return the choice of a mixture for one draw of gaps, and what it fills."""
    config = {
        **draw_config(profile, proportion, repeat),
        "sizes": list(profile.sizes),
        "loadings": list(profile.loadings),
        "seeds": list(profile.seeds),
        **OPEN,
        **changes,
    }
    return Cell("abalone-mixture", config, fit_mixture)


def fit_mixture(config: dict[str, Any]) -> Result:
    """Choose a mixture, predict with it, and fill with and without sight of the target."""
    table = draw_table(config)
    options = {name: config[name] for name in ("tol", "max_iter", "shrinkage")}
    choice = imputers.choose_mixture(
        table, config["sizes"], config["loadings"], config["seeds"], **options
    )
    fill = partial(imputers.fill_mixture, table, choice.mixture)
    errors = (choice.prediction - table.y) ** 2
    return {
        "table": choice.table,
        "validation_mse": float(split(errors).validation.mean()),
        "test_errors": split(errors).test,
        "mixture": fill(sees_target=False),
        "mixture-seeing": fill(sees_target=True),
    }


def fill_cell(profile: Abalone, filling: str, proportion: float, repeat: int) -> Cell:
    """Return one way to fill one draw of gaps."""
    if filling.startswith("mixture"):
        return mixture_cell(profile, proportion, repeat)
    config = {"filling": filling, **draw_config(profile, proportion, repeat)}
    if filling == "forest":
        config |= {"n_trees": profile.n_trees}
    return Cell("abalone-fill", config, fill_one)


def fill_one(config: dict[str, Any]) -> Result:
    """Fill the inputs of all rows."""
    table = draw_table(config)
    filling = config["filling"]
    if filling == "none":
        filled = table.complete
    elif filling == "mean":
        filled = imputers.fill_mean(table)
    elif filling == "iterative":
        filled = imputers.fill_iterative(table, config["repeat"])
    elif filling == "forest":
        filled = imputers.fill_forest(table, config["repeat"], config["n_trees"])
    else:
        which, k = filling.split("-")
        filled = imputers.fill_neighbours(table, int(k), see_gaps=which == "observed")
    return {filling: filled}


def learn_cell(
    profile: Abalone, learner: str, filling: str, proportion: float, repeat: int, folder: Path
) -> Cell:
    """Return a learner on one filled table; without gaps all fillings are the same one."""
    filling = filling if proportion > 0 else "none"
    source = fill_cell(profile, filling, proportion, repeat)
    config: dict[str, Any] = {"learner": learner, "filling": filling, "source": source.config}
    if learner == "network":
        config |= {
            "settings": [list(setting) for setting in profile.settings],
            "epochs": profile.epochs,
            "patience": profile.patience,
            "seed": repeat,
        }
    else:
        config |= {"kernels": [list(k) for k in profile.kernels], "ridges": list(RIDGES)}
        if proportion == 0:  # nothing random is left: every repeat is the first
            source = fill_cell(profile, filling, proportion, 0)
            config["source"] = source.config
    return Cell("abalone-learn", config, partial(learn_one, source=source, folder=folder))


def learn_one(config: dict[str, Any], *, source: Cell, folder: Path) -> Result:
    """Choose the learner's setting on validation rows; return its errors on test rows."""
    table = draw_table(config["source"])
    x, y = split(work(source, folder)[config["filling"]]), split(table.y)
    if config["learner"] == "network":
        return learn_network(config, x, y)
    return learn_kernel_ridge(config, x, y)


def learn_network(config: dict[str, Any], x: Any, y: Any) -> Result:
    """Train a network for each setting; return the best on the validation rows."""
    trained = [
        network.train(
            Setting(*setting),
            x.train,
            y.train,
            x.validation,
            y.validation,
            epochs=config["epochs"],
            patience=config["patience"],
            seed=config["seed"],
        )
        for setting in config["settings"]
    ]
    errors = [run.validation for run in trained]
    best = int(np.argmin(errors))
    return {
        "chosen": config["settings"][best],
        "epoch": trained[best].epoch,
        "validation_errors": errors,
        "validation_mse": errors[best],
        "test_errors": (network.predict(trained[best].weights, x.test) - y.test) ** 2,
    }


def learn_kernel_ridge(config: dict[str, Any], x: Any, y: Any) -> Result:
    """Solve for each kernel and decay; return the best on the validation rows."""
    ridges = np.array(config["ridges"])
    found, best = [], (np.inf, None, None)
    for values in config["kernels"]:
        kernel = Kernel(*values)
        coefficients = kernel_ridge.solve(kernel, x.train, y.train, ridges)  # (n, decays)
        prediction = kernel_ridge.gram(kernel, x.validation, x.train) @ coefficients
        errors = ((prediction - y.validation[:, None]) ** 2).mean(axis=0)
        found.append(errors.tolist())
        i = int(errors.argmin())
        if errors[i] < best[0]:
            test = kernel_ridge.gram(kernel, x.test, x.train) @ coefficients[:, i]
            best = (float(errors[i]), [*values, float(ridges[i])], (test - y.test) ** 2)
    return {
        "chosen": best[1],
        "validation_errors": found,
        "validation_mse": best[0],
        "test_errors": best[2],
    }
