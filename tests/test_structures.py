"""What a component is, is said in structures/ and nowhere else."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from oracles import random_parameters
from test_layers import ROOT, TREES, room

from gapmix.parameters import Parameters
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import (
    dense_covariances,
    factor,
    marginal_parameters,
    members,
    unite,
)

SHAPED = {"covariances", "covariance", "sigma", "prec", "precisions", "target", "chol"}
OTHERS = {name: tree for name, tree in TREES.items() if room(name) != "structures"}


def is_name(node):
    """Tell whether a constant, or a collection of constants, names a structure."""
    parts = getattr(node, "elts", [node])
    return any(isinstance(p, ast.Constant) and p.value in tuple(STRUCTURES) for p in parts)


def choices_of(node):
    """Return what a node of a syntax tree chooses by."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Dict):
        return node.keys
    return [node.value] if isinstance(node, ast.MatchValue) else []


def test_no_one_else_compares_names_of_structures():
    wrong = [
        f"{name}, line {node.lineno}"
        for name, tree in OTHERS.items()
        for node in ast.walk(tree)
        if any(map(is_name, choices_of(node)))
    ]
    assert wrong == []


def test_no_one_else_looks_at_the_dimensions_of_covariances():
    wrong = [
        f"{name}, line {node.lineno}"
        for name, tree in OTHERS.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "ndim"
        if getattr(node.value, "attr", getattr(node.value, "id", "")) in SHAPED
    ]
    assert wrong == []


def make(name, seed, n_components=3, d=4):
    """Return a random mixture of a structure, and its covariances as full matrices."""
    rng = np.random.default_rng(seed)
    weights, means, sigmas = random_parameters(rng, d, n_components)
    if name == "tied":
        sigmas = np.repeat(sigmas[:1], n_components, axis=0)
    if STRUCTURES[name].n_factors:
        noise = rng.uniform(0.5, 1.0, (n_components, d if name == "factor" else 1))
        noise = np.broadcast_to(noise, (n_components, d))
        loadings = rng.normal(size=(n_components, d, 1))
        covariances = np.concatenate([loadings, noise[:, :, None]], axis=2)
        sigmas = loadings * loadings[:, :, 0][:, None] + noise[:, :, None] * np.eye(d)
        return Parameters(weights, means, covariances, name), sigmas
    if name in ("diag", "spherical"):
        variances = np.einsum("kii->ki", sigmas)
        if name == "spherical":
            variances = np.repeat(variances[:, :1], d, axis=1)
        return Parameters(weights, means, variances, name), variances[:, :, None] * np.eye(d)
    return Parameters(weights, means, sigmas[:1] if name == "tied" else sigmas, name), sigmas


@pytest.mark.parametrize("name", STRUCTURES)
def test_parts_of_a_mixture_are_parts_of_its_matrices(name):
    mixture, sigmas = make(name, 0)
    np.testing.assert_array_equal(dense_covariances(mixture), sigmas)
    np.testing.assert_array_equal(dense_covariances(members(mixture, (2, 0))), sigmas[[2, 0]])
    columns = np.array([3, 1])
    np.testing.assert_array_equal(
        dense_covariances(marginal_parameters(mixture, columns)), sigmas[:, columns][:, :, columns]
    )
    other, more = make(name, 1)
    both = unite([mixture, other], np.array([0.5, 0.5]))
    np.testing.assert_array_equal(dense_covariances(both), np.concatenate([sigmas, more]))
    np.testing.assert_allclose(factor(mixture).prec, np.linalg.inv(sigmas), rtol=1e-9)


@pytest.mark.parametrize("name", STRUCTURES)
def test_public_shapes_lead_back(name):
    mixture, _ = make(name, 0)
    structure, d = STRUCTURES[name], 4
    public = structure.to_public(mixture.covariances)
    assert public.shape == structure.public_shape(3, d)
    np.testing.assert_array_equal(structure.from_public(public, d), mixture.covariances)
    scale = np.array([1.0, 2.0, 4.0, 0.5]) if name != "spherical" else np.full(d, 2.0)
    prec, _ = structure.precisions(mixture.covariances, scale)
    assert prec.shape == public.shape
    again = structure.read_precisions(prec, scale)
    np.testing.assert_allclose(again, mixture.covariances, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, one in STRUCTURES.items() if not one.SHARED])
def test_merging_and_splitting_keep_second_moments(name):
    structure = STRUCTURES[name]
    mixture, sigmas = make(name, 0)
    mean = mixture.weights @ mixture.means
    away = mixture.means - mean
    total = np.einsum("k,kij->ij", mixture.weights, sigmas) + (away.T * mixture.weights) @ away
    merged = structure.diagonal(structure.merge(mixture))[0]
    np.testing.assert_allclose(merged, np.diagonal(total), rtol=1e-12)
    offset, halves = structure.split(mixture.covariances, 1, 0)
    both = structure.diagonal(halves)
    np.testing.assert_array_equal(both[0], both[1])
    np.testing.assert_allclose(both[1] + offset**2, np.diagonal(sigmas[1]), rtol=1e-12)


STRUCTURE = '''
import numpy as np

from gapmix.structures.diag import Diag


class Level(Diag):
    """A variance for each variable, the same in all components."""

    def estimate(self, resp, scatter, regularizer):
        one = (scatter.sum(axis=0) + len(resp) * regularizer.ridge) / resp.sum()
        return np.repeat(one[None], len(resp), axis=0)

    def begin(self, covariances, weights, variance):
        return self.pool(covariances, weights) * variance
'''

SCRIPT = """


import numpy as np

from gapmix import GaussianMixture, load, save

rng = np.random.default_rng(0)
x = np.concatenate([rng.normal(-2, 1, (80, 3)), rng.normal(2, 1, (120, 3))])
x[rng.random(x.shape) < 0.2] = np.nan
x = x[~np.isnan(x).all(axis=1)]
weights, means, variances = np.array([0.4, 0.6]), np.array([[-1.0] * 3, [1.0] * 3]), np.ones(3)
options = {"covariance_type": "level", "reg_covar": 0.0, "tol": 0.0, "max_iter": 20}
start = {"weights_init": weights, "means_init": means, "precisions_init": np.ones((2, 3))}
model = GaussianMixture(2, accelerate=None, **options, **start).fit(x)

seen = ~np.isnan(x)
for _ in range(20):
    log_p = np.array([
        [
            np.log(w) - 0.5 * sum(
                np.log(2 * np.pi * v) + (cell - m) ** 2 / v
                for cell, m, v, there in zip(row, mean, variances, shown)
                if there
            )
            for w, mean in zip(weights, means)
        ]
        for row, shown in zip(x, seen)
    ])
    resp = np.exp(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))
    filled = np.where(seen[:, None], x[:, None], means)  # (n, K, d)
    weights = resp.mean(axis=0)
    means = np.einsum("nk,nkd->kd", resp, filled) / resp.sum(axis=0)[:, None]
    gaps = np.where(seen, 0.0, variances)
    variances = np.einsum("nk,nkd->d", resp, (filled - means) ** 2 + gaps[:, None]) / len(x)
np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
np.testing.assert_allclose(model.means_, means, rtol=1e-9)
np.testing.assert_allclose(model.covariances_, [variances] * 2, rtol=1e-9)

climbed = GaussianMixture(2, covariance_type="level", random_state=0).fit(x)
assert np.ptp(climbed.covariances_, axis=0).max() < 1e-9
assert np.diff([each.objective for each in climbed.history_]).min() > -1e-9
save(climbed, "model")
assert np.array_equal(load("model").score_samples(x), climbed.score_samples(x))
try:
    GaussianMixture(covariance_type="round").fit(x)
except ValueError as error:
    assert "'level'" in str(error)
"""


def test_a_new_structure_is_one_file_and_one_line(tmp_path):
    shutil.copytree(ROOT, tmp_path / "gapmix", ignore=shutil.ignore_patterns("__pycache__"))
    room = tmp_path / "gapmix" / "structures"
    (room / "level.py").write_text(STRUCTURE)
    text = (room / "__init__.py").read_text()
    text = text.replace('"diag": Diag(),', '"diag": Diag(),\n        "level": Level(),')
    text = text.replace(
        "\nSTRUCTURES", "from gapmix.structures.level import Level\n\nSTRUCTURES", 1
    )
    (room / "__init__.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(tmp_path / "model").exists()
