"""What a fitted mixture found: its components, how its size was chosen, how the fit ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.plan.layout import on_missing_side
from gapmix.plan.patterns import count_rows
from gapmix.report.subject import Subject
from gapmix.selection.sizes import Candidate, measure_spread

MARKED = 0.3  # standard deviations from the column's mean that are worth saying


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

    n_components: int
    united: tuple[int, ...]  # the sizes it was put together from; empty if it is one mixture
    profiles: tuple[Profile, ...]  # all of them
    deviations: np.ndarray  # (K, d) components in the order of the profiles
    selection: tuple[Candidate, ...]
    log_likelihood: float  # per row
    n_iter: int
    converged: bool
    stop_reason: str
    solver: str
    reason: str  # why this solver
    asked: bool  # whether it was asked for
    n_patterns: int  # 0 if the plan has only words
    n_missing_side: int
    explanation: str  # the plan in words


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
            ),
        )
        for k in range(len(order))
    )
    chosen = [each.n_components for each in imputer.selection_ if each.share > 0]
    plan = mixture.plan_
    has_patterns = not plan.text and bool(count_rows(plan.patterns).size)
    return ModelFacts(
        len(order),
        tuple(chosen) if len(chosen) > 1 else (),
        profiles,
        deviations,
        tuple(imputer.selection_),
        float(mixture.history_[-1].log_likelihood),
        int(mixture.n_iter_),
        bool(mixture.converged_),
        str(mixture.stop_reason_),
        plan.solver,
        plan.reason,
        plan.requested != "auto",
        len(plan.patterns.observed) if has_patterns else 0,
        int(on_missing_side(plan.patterns.observed).sum()) if has_patterns else 0,
        plan.explain(),
    )
