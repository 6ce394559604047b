"""The work of the regression study, as cells: filling, learning, variations."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from experiments import imputers, kernel_ridge, network
from experiments.abalone_data import Table, make_table, split
from experiments.descent import Place, descend, try_all, values_at
from experiments.kernel_ridge import Kernel
from experiments.network import Setting
from experiments.profiles import Abalone
from experiments.store import Cell, Result, work

MIXTURE = "mixture"
MIXTURE_SEEING = "mixture, target seen in training"
MIXTURE_ALL = "mixture fitted to all rows"
MEAN = "mean"
NEIGHBOURS = "neighbours that have the value"
NEIGHBOURS_WHOLE = "neighbours that have all values missing"
NEIGHBOURS_FAIR = "neighbours on observed data"
DISCARD = "incomplete rows discarded"
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
AXES = {  # what the lists of settings are of
    "network": ("hidden units", "decay", "rate", "decrease"),
    "linear": ("decay",),
    "gaussian": ("bandwidth", "decay"),
    "polynomial": ("scale", "degree", "decay"),
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
        "start": list(profile.start),
        **OPEN,
        **changes,
    }
    if "loadings" in changes:  # one of them
        config["start"] = [profile.start[0], *changes["loadings"]]
    return Cell("abalone-mixture", config, fit_mixture)


def fit_mixture(config: dict[str, Any]) -> Result:
    """Choose a mixture, predict with it, and fill with and without sight of the target."""
    table = draw_table(config)
    options = {name: config[name] for name in ("tol", "max_iter", "shrinkage", "all_rows")}
    lists = (config[name] for name in ("sizes", "loadings", "seeds", "start"))
    choice = imputers.choose_mixture(table, *lists, **options)
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
    *,
    whole: bool = False,
) -> Cell:
    """Return a learner on one filled table; without gaps all fillings are the same one.

    Its settings are gone through step by step; with `whole` all are tried.
    """
    filling = filling if proportion > 0 else "none"
    source = fill_cell(profile, filling, proportion, repeat, gaps)
    config: dict[str, Any] = {"learner": learner, "filling": filling, "source": source.config}
    if learner == "network":
        config |= {
            "lists": [list(values) for values in profile.network],
            "start": list(profile.network_start),
            "epochs": profile.epochs,
            "patience": profile.patience,
            "seed": repeat,
            "whole": whole,
        }
    elif learner == "kernel ridge":
        config |= {
            "kernels": [[name, [list(v) for v in own]] for name, own in profile.kernels.items()],
            "starts": {name: list(profile.kernel_starts[name]) for name in profile.kernels},
            "whole": whole,
        }
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
    """Train networks; return the best on the validation rows."""
    lists, trained = config["lists"], {}

    def value(place: Place) -> float:
        trained[place] = network.train(
            Setting(*values_at(lists, place)),
            x.train,
            y.train,
            x.validation,
            y.validation,
            epochs=config["epochs"],
            patience=config["patience"],
            seed=config["seed"],
        )
        return trained[place].validation

    found = try_all(lists, value) if config["whole"] else descend(lists, config["start"], value)
    best = trained[found.best]
    return {
        "chosen": values_at(lists, found.best),
        "ends": find_ends(found.best, lists),
        "epoch": best.epoch,
        "n_tried": len(trained),
        "validation_mse": best.validation,
        "test_errors": (network.predict(best.weights, x.test) - y.test) ** 2,
    }


def learn_kernel_ridge(config: dict[str, Any], x: Any, y: Any) -> Result:
    """Go through the settings of each kernel; return the best on the validation rows."""

    @lru_cache(2)
    def grams(kernel: Kernel) -> list[np.ndarray]:
        return [kernel_ridge.gram(kernel, rows, x.train) for rows in (x.train, x.validation)]

    def learn(name: str, parameters: list[float], decay: float) -> tuple[float, np.ndarray]:
        """Return the error on validation rows, and the coefficients."""
        train, validation = grams(Kernel(name, *parameters))
        coefficients = kernel_ridge.solve(train, y.train, decay)
        return float(((validation @ coefficients - y.validation) ** 2).mean()), coefficients

    found, n_tried = [], 0
    for name, lists in config["kernels"]:

        def value(place: Place, name: str = name, lists: Any = lists) -> float:
            *parameters, decay = values_at(lists, place)
            return learn(name, parameters, decay)[0]

        start = config["starts"][name]
        own = try_all(lists, value) if config["whole"] else descend(lists, start, value)
        n_tried += len(own.known)
        found.append((own.known[own.best], name, lists, own.best))
    error, name, lists, place = min(found)
    *parameters, decay = values_at(lists, place)
    coefficients = learn(name, parameters, decay)[1]
    prediction = kernel_ridge.gram(Kernel(name, *parameters), x.test, x.train) @ coefficients
    return {
        "chosen": [name, *parameters, decay],
        "ends": find_ends(place, lists),
        "n_tried": n_tried,
        "validation_mse": error,
        "test_errors": (prediction - y.test) ** 2,
    }


def find_ends(place: Place, lists: list[list[Any]]) -> list[int]:
    """Return the lists of several values at whose end a place is."""
    return [
        axis
        for axis, (i, own) in enumerate(zip(place, lists, strict=True))
        if len(own) > 1 and i in (0, len(own) - 1)
    ]


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
