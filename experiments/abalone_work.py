"""The work of the regression study, as cells: filling, learning, variations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from experiments import imputers, kernel_ridge, network
from experiments.abalone_data import Table, make_table, split
from experiments.kernel_ridge import Kernel
from experiments.network import Setting
from experiments.profiles import RIDGES, Abalone
from experiments.store import Cell, Result, work

MIXTURE = "mixture"
MIXTURE_SEEING = "mixture, target seen in training"
MIXTURE_ALL = "mixture fitted to all rows"
MEAN = "mean"
NEIGHBOURS = "neighbours that have the value"
NEIGHBOURS_WHOLE = "neighbours that have all values missing"
NEIGHBOURS_FAIR = "neighbours on observed data"
DISCARD = "incomplete rows discarded"
ITERATIVE = "iterative"
FOREST = "forest"
LEARNERS = ("network", "kernel ridge")
CLASSIFIER = "logistic"
# Each imputer with the fillings it may choose between on the validation rows.
FILLINGS: dict[str, tuple[str, ...]] = {
    MIXTURE: ("mixture",),
    MIXTURE_SEEING: ("mixture-seeing",),
    MIXTURE_ALL: ("mixture-all",),
    MEAN: ("mean",),
    NEIGHBOURS: ("complete-1", "complete-10"),
    NEIGHBOURS_WHOLE: ("whole-1", "whole-10"),
    NEIGHBOURS_FAIR: ("observed-10",),
    DISCARD: ("discard",),
    ITERATIVE: ("iterative",),
    FOREST: ("forest",),
}
MIN_COMPLETE = 20  # training rows below which discarding the others leaves nothing to learn from
# What the paper leaves open; `experiments/page.py` says why.
OPEN = {"coding": "two", "tol": 1e-4, "max_iter": 300, "shrinkage": 0.0, "all_rows": False}
VARIED: dict[str, dict[str, Any]] = {
    "as decided": {},
    "sex as three columns": {"coding": "three"},
    "sex as one number": {"coding": "one"},
    "tolerance 1e-2": {"tol": 1e-2},
    "diagonal loading 1e-2": {"loadings": [1e-2]},
    "shrinkage to the pooled covariance (ours)": {"shrinkage": "auto"},
}
INVERSE_PENALTIES = (0.01, 0.1, 1.0, 10.0)


def draw_config(
    profile: Abalone, proportion: float, repeat: int, gaps: str = "random"
) -> dict[str, Any]:
    """Return what names one draw of gaps."""
    return {
        "proportion": proportion,
        "repeat": repeat,
        "coding": OPEN["coding"],
        "small": profile.small,
        "gaps": gaps,
    }


def draw_table(config: dict[str, Any]) -> Table:
    """Return the table of a draw."""
    return make_table(
        config["proportion"],
        config["repeat"],
        config["coding"],
        small=config["small"],
        gaps=config["gaps"],
    )


def mixture_cell(
    profile: Abalone, proportion: float, repeat: int, gaps: str = "random", **changes: Any
) -> Cell:
    """Return the choice of a mixture for one draw of gaps, and what it fills.

    Every repeat has starts of its own, so that intervals over repeats count starts too.
    """
    n = len(profile.seeds)
    config = {
        **draw_config(profile, proportion, repeat, gaps),
        "sizes": list(profile.sizes),
        "loadings": list(profile.loadings),
        "seeds": [seed + n * repeat for seed in profile.seeds],
        **OPEN,
        **changes,
    }
    return Cell("abalone-mixture", config, fit_mixture)


def fit_mixture(config: dict[str, Any]) -> Result:
    """Choose a mixture, predict with it, and fill with and without sight of the target."""
    table = draw_table(config)
    options = {name: config[name] for name in ("tol", "max_iter", "shrinkage", "all_rows")}
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


def fill_cell(
    profile: Abalone, filling: str, proportion: float, repeat: int, gaps: str = "random"
) -> Cell:
    """Return one way to fill one draw of gaps."""
    if filling.startswith("mixture"):
        changes = {"all_rows": True} if filling == "mixture-all" else {}
        return mixture_cell(profile, proportion, repeat, gaps, **changes)
    config = {"filling": filling, **draw_config(profile, proportion, repeat, gaps)}
    if filling == "forest":
        config |= {"n_trees": profile.n_trees}
    return Cell("abalone-fill", config, fill_one)


def filled_inputs(source: Cell, filling: str, folder: Path) -> np.ndarray:
    """Return the inputs of all rows as a cell filled them."""
    return work(source, folder)["mixture" if filling == "mixture-all" else filling]


def fill_one(config: dict[str, Any]) -> Result:
    """Fill the inputs of all rows."""
    table = draw_table(config)
    filling = config["filling"]
    if filling == "none":
        filled = table.complete
    elif filling == "mean":
        filled = imputers.fill_mean(table)
    elif filling == "discard":
        filled = imputers.keep_complete(table)
    elif filling == "iterative":
        filled = imputers.fill_iterative(table, config["repeat"])
    elif filling == "forest":
        filled = imputers.fill_forest(table, config["repeat"], config["n_trees"])
    else:
        which, k = filling.split("-")
        if which == "whole":
            filled, short = imputers.fill_from_whole_rows(table, int(k))
            return {filling: filled, "no_donor": short}
        filled = imputers.fill_neighbours(table, int(k), see_gaps=which == "observed")
    return {filling: filled}


def learn_cell(
    profile: Abalone,
    learner: str,
    filling: str,
    proportion: float,
    repeat: int,
    folder: Path,
    gaps: str = "random",
) -> Cell:
    """Return a learner on one filled table; without gaps all fillings are the same one."""
    filling = filling if proportion > 0 else "none"
    source = fill_cell(profile, filling, proportion, repeat, gaps)
    config: dict[str, Any] = {"learner": learner, "filling": filling, "source": source.config}
    if learner == "network":
        config |= {
            "settings": [list(setting) for setting in profile.settings],
            "epochs": profile.epochs,
            "patience": profile.patience,
            "seed": repeat,
        }
    elif learner == "kernel ridge":
        config |= {"kernels": [list(k) for k in profile.kernels], "ridges": list(RIDGES)}
    if learner != "network" and proportion == 0:  # nothing random is left
        source = fill_cell(profile, filling, proportion, 0)
        config["source"] = source.config
    return Cell("abalone-learn", config, partial(learn_one, source=source, folder=folder))


def learn_one(config: dict[str, Any], *, source: Cell, folder: Path) -> Result:
    """Choose the learner's setting on validation rows; return its errors on test rows."""
    table = draw_table(config["source"])
    x, y = split(filled_inputs(source, config["filling"], folder)), split(table.y)
    kept = ~np.isnan(x.train).any(axis=1)
    if kept.sum() < MIN_COMPLETE:
        return {"too_few": int(kept.sum()), "validation_mse": float("inf")}
    x, y = x._replace(train=x.train[kept]), y._replace(train=y.train[kept])
    learn = {"network": learn_network, "kernel ridge": learn_kernel_ridge}
    return learn.get(config["learner"], learn_classes)(config, x, y)


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


def learn_classes(config: dict[str, Any], x: Any, y: Any) -> Result:
    """Tell the older half from the younger by logistic regression; errors are 0 or 1."""
    middle = float(np.median(y.train))
    found = []
    for penalty in INVERSE_PENALTIES:
        model = LogisticRegression(C=penalty, max_iter=500).fit(x.train, y.train > middle)
        wrong = model.predict(x.validation) != (y.validation > middle)
        found.append((float(wrong.mean()), penalty, model))
    error, penalty, model = min(found, key=lambda each: each[0])
    wrong = model.predict(x.test) != (y.test > middle)
    return {"chosen": [penalty], "validation_mse": error, "test_errors": wrong.astype(float)}
