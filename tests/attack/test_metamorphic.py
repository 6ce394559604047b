"""What must not matter does not, with all defaults: units, places, copies, what is empty.

A factor of 2 only moves exponents; 2.54 and 1/3 round every value.
"""

import os
import warnings
from functools import cache

import numpy as np
import pytest

from gapmix import (
    GaussianMixture,
    GaussianMixtureClassifier,
    GaussianMixtureImputer,
    GaussianMixtureRegressor,
)

FULL = bool(os.environ.get("GAPMIX_FULL"))
SEEDS = range(40 if FULL else 4)
NEAR = 1e-5  # standard deviations, log density or probability: rounding, seen through a fit
# Sums over more columns are rounded otherwise, and one tree in a forest may split elsewhere.
NEAR_TREES = 1e-3
CHANGES = ("units", "columns", "rows", "copies", "weightless", "empty-column")
CASES = [
    *(
        (name, each)
        for name in ("mixture", "imputer", "regressor", "classifier")
        for each in CHANGES
    ),
    *(("mixture", "empty-rows"), ("imputer", "empty-rows")),  # others have targets in such rows
]
ALL = [(*case, seed) for case in CASES for seed in SEEDS]
ALL += [] if FULL else [("imputer", "units", 15)]  # a component fades while a fold is left out


def make_table(seed):
    """Return a table with groups, gaps, a skewed column and one of few values, and labels."""
    rng = np.random.default_rng([seed, 11])
    n, d = int(rng.integers(80, 200)), int(rng.integers(3, 7))
    group = rng.integers(0, 3, n)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3.0 * rng.normal(size=(3, d))[group]
    x[:, 0] = np.exp(x[:, 0] / 3.0)
    x[:, 1] = np.round(x[:, 1])
    x[rng.random(x.shape) < 0.2] = np.nan
    return x, group % 2, rng


class Subject:
    """An estimator with all defaults, and what it answers of rows."""

    def __init__(self, name, kinds="auto"):
        self.name, self.kinds = name, kinds

    def fit(self, x, label, weight):
        if self.name == "mixture":
            self.model = GaussianMixture(3, random_state=0).fit(x, sample_weight=weight)
        elif self.name == "imputer":
            self.model = GaussianMixtureImputer(random_state=0, column_kinds=self.kinds)
            self.model.fit(x, sample_weight=weight)
        elif self.name == "regressor":
            self.model = GaussianMixtureRegressor(random_state=0)
            self.model.fit(x, 2.0 * label + 0.1, sample_weight=weight)
        else:
            self.model = GaussianMixtureClassifier(random_state=0)
            self.model.fit(x, label, sample_weight=weight)
        return self

    def answer(self, x):
        """Return filled cells or intervals (each like x), and numbers that have no units."""
        if self.name == "mixture":
            filled, std = self.model.impute(x, return_std=True)
            return [filled], [std], [self.model.predict_proba(x)]
        if self.name == "imputer":
            filled, std = self.model.impute_with_std(x)
            return [filled, *self.model.intervals(x)], [std], []
        if self.name == "regressor":
            return [], [], list(self.model.predict(x, return_std=True))
        return [], [], [self.model.predict_proba(x)]


def agree(here, there, x, back=lambda cells: cells, scale=1.0, near=NEAR):
    """Compare answers; `back` brings cells back to the table's columns, `scale` to its units."""
    spread = np.nanstd(x, axis=0)
    spread[~(spread > 0)] = 1.0
    for mine, others in ((here[0], there[0]), (here[1], there[1])):
        for a, b in zip(mine, others, strict=True):
            assert np.abs((a - back(b) / scale) / spread).max() < near
    for a, b in zip(here[2], there[2], strict=True):
        assert np.abs(a - b).max() < near


def draw_weights(x, rng):
    return rng.integers(1, 4, len(x)).astype(float)


@cache
def answer_unchanged(name, seed, numbers):
    """Return what an estimator answers of a table as it is; column 1 is a number if `numbers`."""
    x, label, rng = make_table(seed)
    kinds = {1: "number"} if numbers else "auto"
    return Subject(name, kinds).fit(x, label, draw_weights(x, rng)).answer(x)


@pytest.mark.parametrize(("name", "change", "seed"), ALL)
def test_what_must_not_matter_does_not(name, change, seed):
    x, label, rng = make_table(seed)
    n, d = x.shape
    weight = draw_weights(x, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Whole numbers are whole in one unit only, and copies make values of a column repeat.
        numbers = change in ("units", "copies")
        kinds = {1: "number"} if numbers else "auto"
        here = answer_unchanged(name, seed, numbers and name == "imputer")
        moved, rows, scale, back = (x, label, weight), x, np.ones(d), lambda cells: cells
        if change == "units":
            scale = np.where(np.arange(d) % 2, 2.54, 1.0 / 3.0)
            moved, rows = (x * scale, label, weight), x * scale
        elif change == "columns":
            order = rng.permutation(d)
            moved, rows = (x[:, order], label, weight), x[:, order]
            back = lambda cells: cells[:, np.argsort(order)]  # noqa: E731
        elif change == "rows":
            order = rng.permutation(n)
            moved = (x[order], label[order], weight[order])
        elif change == "copies":
            times = weight.astype(int)
            moved = (np.repeat(x, times, axis=0), np.repeat(label, times), None)
        elif change == "weightless":
            odd = np.full((20, d), 1e3)
            moved = (np.r_[x, odd], np.r_[label, np.zeros(20, int)], np.r_[weight, np.zeros(20)])
        elif change == "empty-rows":
            nothing = np.full((20, d), np.nan)
            moved = (np.r_[x, nothing], np.r_[label, np.zeros(20, int)], np.r_[weight, np.ones(20)])
        else:
            nothing = np.full((n, 1), np.nan)
            moved, rows = (np.c_[x, nothing], label, weight), np.c_[x, nothing]
            back = lambda cells: cells[:, :d]  # noqa: E731
        there = Subject(name, kinds).fit(*moved).answer(rows)
    has_trees = name != "mixture" and change == "empty-column"
    agree(here, there, x, back, scale, NEAR_TREES if has_trees else NEAR)
