"""The rows that a mixture is fitted to, and which of them count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.density import Density
from gapmix.fitting.fitted import Fitted, density_of
from gapmix.fitting.matrix import Matrix, are_useful, make_matrix
from gapmix.fitting.spec import Spec
from gapmix.kinds import Possible
from gapmix.shapes import Shape, forward_table
from gapmix.units import Scaling

MANY_ROWS = 20_000  # among so many, rows given twice are not looked for


class Task(NamedTuple):
    """What a mixture is fitted to, and which of its cells judge its size."""

    x: np.ndarray  # (n, d), NaN where missing
    weight: np.ndarray  # (n,)
    names: list[str]  # of the columns, for messages
    target_columns: np.ndarray | None = None  # hide these only; None hides any
    whole_rows: bool = False  # hide rows instead of cells, and judge by their density
    units: Scaling | None = None  # of a larger table, if this is part of one
    pooled: np.ndarray | None = None  # (d, d) covariance to shrink to, if it is known
    n_levels: np.ndarray | None = None  # (D,) levels of the columns, 0 for numbers
    possible: Possible | None = None  # values that ends of intervals are brought to, if not all are
    shapes: tuple[Shape, ...] = ()  # transforms of the columns before the fit, if there are any


def read_rows(task: Task, spec: Spec) -> Matrix:
    """Return the rows of a task as a fit sees them."""
    x = forward_table(task.shapes, task.x)
    return make_matrix(
        x, task.weight, task.names, spec.covariance_type, task.units, n_levels=task.n_levels
    )


def model_of(fitted: Fitted, task: Task, n_jobs: int | None) -> Density:
    """Return the density of a task's rows, in their own units, under a mixture fitted to them."""
    return density_of(fitted, n_jobs)._replace(shapes=task.shapes)


def only_useful(task: Task) -> Task:
    """Return the task as if rows that say nothing were not there, unless none says anything."""
    useful = are_useful(task.x, task.weight)
    if useful.all() or not useful.any():
        return task
    return task._replace(x=task.x[useful], weight=task.weight[useful])


def sample_rows(task: Task, rng: np.random.Generator, max_rows: int) -> Task:
    """Return the task on some of its rows if it has very many."""
    n = len(task.x)
    if n <= max_rows:
        return task
    chosen = np.sort(rng.choice(n, max_rows, replace=False))
    return task._replace(x=task.x[chosen], weight=task.weight[chosen])


def count_rows(task: Task) -> int:
    """Return the number of rows that say something, each counted once however often it is there.

    So a weight of 2 leads to the same sizes as the row given twice. In a long table it does not
    matter: enough rows for every size are left.
    """
    useful = task.x[are_useful(task.x, task.weight)]
    return len(useful) if len(useful) > MANY_ROWS else len(_find_copies(useful)[0])


def merge_copies(task: Task) -> Task:
    """Return the task with each row given once, and the weights of its copies together.

    So a standard error is the same of a row of weight 2 as of the row given twice.
    """
    first, copy_of = _find_copies(task.x)
    if len(first) == len(task.x):
        return task
    return task._replace(x=task.x[first], weight=np.bincount(copy_of, task.weight))


def _find_copies(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of x that are not like one before, and of each row which of them it is."""
    rows = np.ascontiguousarray(x).view(f"V{x.itemsize * x.shape[1]}").ravel()
    _, first, copy_of = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[copy_of]
