"""What a fitted mixture found: its components, how its size was chosen, how the fit ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.report.subject import Subject
from gapmix.selection.sizes import measure_spread

MARKED = 0.3  # standard deviations from the column's mean that are worth saying
MAX_MARKS = 4  # of a component


class Mark(NamedTuple):
    """A column in which a component differs from the whole table."""

    column: int
    mean: float  # of the component
    overall: float  # mean of the known values
    deviations: float  # (mean - overall) / standard deviation of the known values


class Profile(NamedTuple):
    """A component: a kind of row."""

    number: int  # from 1, largest first
    weight: float
    marks: tuple[Mark, ...]  # what sets it apart, most first


class ModelFacts(NamedTuple):
    """What a fitted mixture found."""

    united: tuple[int, ...]  # the sizes it was put together from; empty if it is one mixture
    profiles: tuple[Profile, ...]  # all of them
    deviations: np.ndarray  # (K, d) components in the order of the profiles


def describe_model(subject: Subject) -> ModelFacts:
    """Return what the mixture of a report found."""
    imputer, x = subject.imputer, subject.x
    mixture = imputer.mixture_
    d = x.shape[1]
    spread = measure_spread(x)
    known = ~np.isnan(x)
    overall = np.sum(x, axis=0, where=known) / np.maximum(known.sum(axis=0), 1)
    order = np.argsort(-mixture.weights_, kind="stable")
    means = mixture.means_[order, :d]
    deviations = (means - overall) / np.where(spread > 0, spread, np.inf)
    profiles = tuple(
        Profile(
            k + 1,
            float(mixture.weights_[order[k]]),
            tuple(
                Mark(int(j), float(means[k, j]), float(overall[j]), float(deviations[k, j]))
                for j in np.argsort(-np.abs(deviations[k]), kind="stable")
                if abs(deviations[k, j]) >= MARKED
            )[:MAX_MARKS],
        )
        for k in range(len(order))
    )
    chosen = [each.n_components for each in imputer.selection_ if each.share > 0]
    return ModelFacts(tuple(chosen) if len(chosen) > 1 else (), profiles, deviations)
