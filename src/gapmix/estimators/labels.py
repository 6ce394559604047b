"""Labels of rows as the user has them: which are missing, which classes there are, their priors."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets


def read_labels(estimator: Any, y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels (n,) and which of them are known; NaN, None and NA are not."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    labels = column_or_1d(_to_array(y), warn=True)
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels; X has {n} rows.")
    known = np.array([not _is_missing(label) for label in labels.tolist()], dtype=bool)
    if not known.any():
        raise ValueError(f"y has no label in {n} rows: at least one class is needed.")
    if labels.dtype.kind == "f" and np.isinf(labels[known]).any():
        raise ValueError("y contains infinity, which cannot be a class.")
    if not known.all():
        labels = labels.astype(object)
    given = labels[known]
    if given.dtype == object and len({isinstance(label, str) for label in given}) > 1:
        raise TypeError(
            "y holds labels that are text and labels that are not; write all of them the same way."
        )
    check_classification_targets(np.array(given.tolist()))
    return labels, known


def find_classes(
    labels: np.ndarray, known: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, sorted, and the class number of every row, -1 where it has no label.

    A class whose rows all have weight 0 is not there.
    """
    counted = known & (weight > 0)
    if not counted.any():
        raise ValueError("Every row with a label has weight 0: there is no class to learn.")
    given = labels[counted]
    values = np.array(given.tolist()) if given.dtype == object else given
    classes = np.unique(values)
    code = np.full(len(labels), -1)
    code[counted] = np.searchsorted(classes, values)
    if len(classes) < 2:
        raise ValueError(
            f"The labels hold one class, {classes.tolist()[0]!r}. A classifier needs at least two. "
            "To model one kind of rows, use GaussianMixture."
        )
    return classes, code


def read_priors(priors: Any, classes: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return the probabilities of the classes, by default their shares of the rows."""
    if priors is None:
        return totals / totals.sum()
    wrong = ValueError(
        f"priors={priors!r} must hold a positive number for each of the {len(classes)} classes "
        f"{classes.tolist()}."
    )
    try:
        values = np.asarray(priors, dtype=float)
    except (TypeError, ValueError) as error:
        raise wrong from error
    if values.shape != classes.shape or not ((values > 0) & (values < np.inf)).all():
        raise wrong
    return values / values.sum()


def _to_array(y: Any) -> np.ndarray:
    if hasattr(y, "to_pylist"):  # pyarrow
        return _to_objects(y.to_pylist())
    if hasattr(y, "to_list") and not isinstance(y.dtype, np.dtype):  # nullable, categories, polars
        return _to_objects(y.to_list())
    array = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if array.dtype.kind in "US" and not isinstance(y, np.ndarray):
        return np.asarray(y, dtype=object)  # a None among texts must not become 'None'
    return np.asarray(array)


def _to_objects(labels: list[Any]) -> np.ndarray:
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _is_missing(label: Any) -> bool:
    # NA first: it cannot be compared, not even with itself
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return bool(label != label)
