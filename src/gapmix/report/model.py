"""What a fitted mixture found: its components, how its size was chosen, how the fit ended."""

from typing import NamedTuple

import numpy as np

from gapmix.estimators.glance import is_complete, list_best, list_united
from gapmix.estimators.shaped import find_centers
from gapmix.report.subject import Subject
from gapmix.selection.sizes import measure_spread

MARKED = 0.3  # standard deviations from the column's mean that are worth saying
MAX_MARKS = 4  # of a component
MORE_FREQUENT = 0.15  # by which the share of a level is worth saying


class Mark(NamedTuple):
    """A column in which a component differs from the whole table."""

    column: int
    mean: float  # of the component
    overall: float  # mean of the known values
    deviations: float  # (mean - overall) / standard deviation of the known values


class LevelMark(NamedTuple):
    """A level that is more frequent in a component than in the whole table."""

    column: int
    level: str
    share: float  # in the component
    overall: float  # of the known cells


class Profile(NamedTuple):
    """A component: a kind of row."""

    number: int  # from 1, largest first
    weight: float
    marks: tuple[Mark, ...]  # what sets it apart, most first
    levels: tuple[LevelMark, ...] = ()  # and levels that are more frequent in it


class ModelFacts(NamedTuple):
    """What a fitted mixture found."""

    united: tuple[int, ...]  # the sizes it was put together from; empty if it is one mixture
    profiles: tuple[Profile, ...]  # of the components shown
    deviations: np.ndarray  # (K, d) components in the order of the profiles
    is_complete: bool  # the fit converged, or ended when it was to end


def describe_model(subject: Subject) -> ModelFacts:
    """Return what the mixture of a report found."""
    imputer, x = subject.imputer, subject.x
    mixture = imputer.mixture_
    d = x.shape[1]
    spread = measure_spread(x)
    known = ~np.isnan(x)
    overall = np.sum(x, axis=0, where=known) / np.maximum(known.sum(axis=0), 1)
    best = list_best(imputer)
    weights = mixture.weights_[best] / mixture.weights_[best].sum()
    ranks = np.argsort(-weights, kind="stable")
    order = np.array(best)[ranks]
    numbers = np.array([j for j in range(d) if j not in subject.levels], dtype=int)
    means = np.tile(overall, (len(order), 1))
    means[:, numbers] = find_centers(imputer)[order]
    deviations = (means - overall) / np.where(spread > 0, spread, np.inf)
    profiles = tuple(
        Profile(
            k + 1,
            float(weights[ranks[k]]),
            tuple(
                Mark(int(j), float(means[k, j]), float(overall[j]), float(deviations[k, j]))
                for j in np.argsort(-np.abs(deviations[k]), kind="stable")
                if abs(deviations[k, j]) >= MARKED
            )[:MAX_MARKS],
            _find_levels(subject, int(order[k])),
        )
        for k in range(len(order))
    )
    return ModelFacts(list_united(imputer), profiles, deviations, is_complete(imputer))


def _find_levels(subject: Subject, component: int) -> tuple[LevelMark, ...]:
    """Return the levels that are more frequent in a component than in the table, most first."""
    found = []
    tables = subject.imputer.mixture_.category_probabilities_
    for (j, levels), table in zip(sorted(subject.levels.items()), tables, strict=True):
        codes = subject.x[~np.isnan(subject.x[:, j]), j].astype(int)
        overall = np.bincount(codes, minlength=len(levels)) / max(1, len(codes))
        more = table[component] - overall
        best = int(more.argmax())
        if more[best] >= MORE_FREQUENT:
            share = float(table[component, best])
            found.append(LevelMark(j, levels[best], share, float(overall[best])))
    found.sort(key=lambda each: each.overall - each.share)
    return tuple(found[:MAX_MARKS])
