"""One mixture for each class: a common prior, honest probabilities, rows without a label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from gapmix import density
from gapmix.density import Density
from gapmix.fitting.fitted import Fitted, density_of
from gapmix.selection.choose import Chosen, Wanted, fit_size
from gapmix.selection.task import Task, read_rows
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import unite

COOLEST, HOTTEST = 0.02, 1.5  # range of the exponent that calibrates densities
MAX_ROUNDS = 20  # of sharing unlabelled rows among classes
SMALLEST_CHANGE = 1e-3  # mean change of the shares at which sharing ends


def score_classes(models: Sequence[Density], x: np.ndarray) -> np.ndarray:
    """Return log p(x_o | class), (n, n_classes)."""
    return np.column_stack([density.score(model, x).log_prob for model in models])


def pool(wanted: Wanted, tasks: Sequence[Task]) -> np.ndarray | None:
    """Return the covariance within classes, in the user's units: one Gaussian for each.

    None if components are not shrunk to a covariance.
    """
    if not STRUCTURES[wanted.spec.covariance_type].HAS_TARGET:
        return None
    total = sum(float(task.weight.sum()) for task in tasks)
    plain = wanted._replace(spec=wanted.spec._replace(covariance_type="full"))
    pooled = 0.0
    for task in tasks:
        fitted = fit_size(plain, 1, read_rows(task, plain.spec), task)
        pooled = pooled + float(task.weight.sum()) / total * fitted.parameters.covariances[0]
    return np.asarray(pooled)


def find_exponent(chosen: Sequence[Chosen], priors: np.ndarray, n_jobs: int | None) -> float:
    """Return the power of the densities that makes held-out rows most probable in their class.

    The densities are those of fits that have not seen these rows; 1 if a class has none.
    """
    blind = [each.blind for each in chosen if each.blind is not None]
    held = [each.held for each in chosen if each.held is not None]
    truth = np.repeat(np.arange(len(held)), [len(rows) for rows in held])
    if len(blind) < len(chosen) or not truth.size:
        return 1.0
    weight = np.concatenate([w for each in chosen if (w := each.held_weight) is not None])
    models = [density_of(fitted, n_jobs) for fitted in blind]
    log_prob = score_classes(models, np.concatenate(held))

    def loss(log_exponent: float) -> float:
        joint = np.exp(log_exponent) * log_prob + np.log(priors)
        likely = log_softmax(joint, axis=1)[np.arange(len(truth)), truth]
        return -float(np.average(likely, weights=weight))

    ends = np.log([COOLEST, HOTTEST])
    return float(np.exp(minimize_scalar(loss, bounds=ends, method="bounded").x))


def share_out(
    wanted: Sequence[Wanted],
    loose: Task,
    tasks: Sequence[Task],
    fits: Sequence[Fitted],
    priors: np.ndarray,
    exponent: float,
    *,
    learns_priors: bool,
) -> tuple[list[Fitted], np.ndarray]:
    """Share rows without a label among the classes by their probabilities, and fit again.

    This is EM once more, with the label as what is missing: every round raises the likelihood
    of labelled and unlabelled rows together when densities are not raised to a power. What is
    `wanted` is of each class.
    """
    fits = list(fits)
    share = np.zeros((len(loose.x), len(tasks)))
    own = np.array([task.weight.sum() for task in tasks])
    for _ in range(MAX_ROUNDS):
        before = share
        models = [density_of(fitted, wanted[0].running.n_jobs) for fitted in fits]
        share = softmax(exponent * score_classes(models, loose.x) + np.log(priors), axis=1)
        if np.abs(share - before).mean() < SMALLEST_CHANGE:
            break
        for c, task in enumerate(tasks):
            together = task._replace(
                x=np.concatenate([task.x, loose.x]),
                weight=np.concatenate([task.weight, loose.weight * share[:, c]]),
            )
            size = len(fits[c].parameters.weights)
            kind = fits[c].parameters.structure
            same = wanted[c]._replace(spec=wanted[c].spec._replace(covariance_type=kind))
            fits[c] = fit_size(same, size, read_rows(together, same.spec), together, fits[c])
        if learns_priors:
            totals = own + loose.weight @ share
            priors = totals / totals.sum()
    return fits, priors


def join_classes(fits: Sequence[Fitted], priors: np.ndarray) -> Fitted:
    """Return the mixtures of all classes as one, of the columns and of the label after them.

    The label is a category, which every component is sure of.
    """
    parameters = unite([each.parameters for each in fits], priors)
    owner = np.repeat(np.arange(len(fits)), [len(each.parameters.weights) for each in fits])
    tables = (*parameters.categories, np.eye(len(fits))[owner])
    n_levels = fits[0].n_levels
    if n_levels is None:
        n_levels = np.zeros(parameters.means.shape[1], dtype=int)
    return fits[0]._replace(
        parameters=parameters._replace(categories=tables),
        n_levels=np.append(n_levels, len(fits)),
        target=None,
        center=None,
        rare=(),
    )


def temper(shares: np.ndarray, priors: np.ndarray, exponent: float) -> np.ndarray:
    """Return probabilities of classes (n, C) as they are if densities are raised to a power."""
    with np.errstate(divide="ignore"):
        joint = exponent * (np.log(shares) - np.log(priors)) + np.log(priors)
    return np.asarray(softmax(joint, axis=1))
