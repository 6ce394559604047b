"""What a fitted estimator shows of itself in a notebook: scikit-learn's diagram and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import estimator_html_repr

from gapmix.estimators.levels import dict_levels
from gapmix.estimators.passing import model_kinds
from gapmix.plan.patterns import count_rows
from gapmix.selection.effort import EFFORTS
from gapmix.selection.sizes import list_sizes_once
from gapmix.structures import STRUCTURES, WIDEST
from gapmix.wording import count, say_doubted

MAX_CLASSES = 10
LEAST_SHARE = 0.0005  # of the rows that a component has to be shown: less reads as 0.0 %
CELL = "padding:.15em 1em .15em 0;text-align:left;vertical-align:top;border:0;background:none"


class GlanceMixin:
    """Adds a summary of the fit to the HTML that notebooks show, below scikit-learn's diagram."""

    def _html_repr(self) -> str:
        return str(estimator_html_repr(self)) + glance(self)

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._html_repr()
        return shown


def glance(estimator: Any) -> str:
    """Return the summary of a fitted estimator as HTML, nothing if it is not fitted."""
    if hasattr(estimator, "mixtures_"):
        table: list[tuple[str, ...]] = [
            ("class", "components", "table", "log-likelihood per row", "how the fit ended")
        ]
        named = zip(estimator.classes_.tolist(), estimator.mixtures_, strict=True)
        for label, mixture in list(named)[:MAX_CLASSES]:
            facts = dict(describe(mixture))
            values = (str(label), facts["Components"], facts.get("Table", ""))
            table.append((*values, facts["Log-likelihood per row"], facts["Stopped"]))
        left_out = len(estimator.classes_) - MAX_CLASSES
        more = f"and {left_out} more classes" if left_out > 0 else ""
        return _to_html(table, more, heads_above=True)
    mixture = getattr(estimator, "mixture_", estimator)
    if not hasattr(mixture, "weights_"):
        return ""
    rows = describe(mixture)
    if mixture is not estimator and tell_factors(estimator):
        rows.append(("Factors", tell_factors(estimator)))
    tried = getattr(estimator, "selection_", ())
    if tried:
        kept = ", ".join(str(each.n_components) for each in tried if each.share > 0)
        sizes = ", ".join(str(each.n_components) for each in list_sizes_once(tried))
        rows.insert(1, ("Sizes tried", f"{sizes}; kept: {kept}"))
        if list_united(estimator):
            best = _tell_size(mixture.weights_[list_best(estimator)])
            rows[0] = ("Components", f"{kept}, averaged; alone, the best has {best}")
    if hasattr(estimator, "trust_") and list_doubted(estimator):
        rows.append(("Hard to fill", say_doubted(list_doubted(estimator))))
    return _to_html(rows, "", heads_above=False)


def list_united(imputer: Any) -> tuple[int, ...]:
    """Return the sizes of the mixtures that an imputer's mixture averages; none if it is one.

    A size is there once for every start of it.
    """
    kept = [each.n_components for each in imputer.selection_ if each.share > 0]
    n_starts, rest = divmod(len(imputer.mixture_.weights_), max(sum(kept), 1))
    united = len(kept) * n_starts > 1 and not rest
    return tuple(size for size in kept for _ in range(n_starts)) if united else ()


def list_doubted(imputer: Any) -> tuple[str, ...]:
    """Return the columns that are filled nearer to their mean than their rows tell."""
    levels = dict_levels(imputer)
    pairs = enumerate(zip(model_kinds(imputer), imputer.trust_, strict=True))
    return tuple(
        str(name)
        for j, (name, trust) in pairs
        if trust < 1.0 and (j not in levels or len(levels[j]) > 1)
    )


def tell_factors(imputer: Any) -> str:
    """Return how many factors an imputer's covariances have, and why; nothing if they have none."""
    mixture = imputer.mixture_
    n_factors = STRUCTURES[mixture.covariance_type].n_factors and mixture.n_factors
    if not n_factors:
        return ""
    d = int(mixture.means_.shape[1])
    why = "as asked"
    if imputer.covariance_type == "auto":
        why = f"as there are {d:,} columns" if d > WIDEST else f"as rows are few for {d:,} columns"
    return f"{count(int(n_factors), 'factor')} instead of full covariances, {why}"


def is_complete(imputer: Any) -> bool:
    """Tell whether a fit converged, or climbed as far as the choice of its size lets it."""
    planned = bool(imputer.selection_) and imputer.max_iter > EFFORTS[imputer.effort].kept.least
    return planned or bool(imputer.mixture_.converged_)


def list_best(imputer: Any) -> list[int]:
    """Return which components to show: those of one mixture that have rows.

    Of mixtures that were averaged, each describes all rows by itself, and the same group of rows is
    found in each. The one that filled hidden cells best is shown.
    """
    first, end = _find_best_part(imputer)
    weights = imputer.mixture_.weights_[first:end]
    return (first + np.flatnonzero(weights >= LEAST_SHARE * weights.sum())).tolist()


def _find_best_part(imputer: Any) -> tuple[int, int]:
    """Return the first component of the best mixture, and the end of it."""
    sizes = list_united(imputer)
    if not sizes:
        return 0, len(imputer.mixture_.weights_)
    kept = [each for each in imputer.selection_ if each.share > 0]
    best = min(range(len(kept)), key=lambda i: (kept[i].error, -kept[i].log_score))
    best *= len(sizes) // len(kept)  # the first of its starts
    return sum(sizes[:best]), sum(sizes[: best + 1])


def describe(mixture: Any) -> list[tuple[str, str]]:
    """Return what there is to say about a fitted mixture, name by name."""
    rows = [("Components", _tell_size(mixture.weights_))]
    plan = getattr(mixture, "plan_", None)
    if plan is not None and not plan.text and plan.patterns.observed.size:
        counts, observed = count_rows(plan.patterns), plan.patterns.observed
        n, d = int(counts.sum()), observed.shape[1]
        missing = 1.0 - float(counts @ observed.sum(axis=1)) / (n * d)
        sample = "" if plan.n_rows is None else f"{plan.n_rows:,} rows; in a sample "
        rows.append(
            (
                "Table",
                f"{sample}{n:,} rows × {d:,} columns, {100 * missing:.1f} % missing in "  # noqa: RUF001
                f"{len(observed):,} pattern{'' if len(observed) == 1 else 's'}",
            )
        )
    rows.append(("Log-likelihood per row", f"{mixture.history_[-1].log_likelihood:.4f}"))
    if plan is not None:
        rows.append(("Solver", plan.solver))
    ended = mixture.stop_reason_ if mixture.converged_ else f"not converged: {mixture.stop_reason_}"
    if "iteration" not in ended:
        ended += f" ({mixture.n_iter_} iteration{'' if mixture.n_iter_ == 1 else 's'})"
    rows.append(("Stopped", ended))
    return rows


def _tell_size(weights: Any) -> str:
    if len(weights) == 1:
        return "1"
    share = 100 * weights.max() / weights.sum()
    return f"{len(weights)}, the largest with {share:.0f} % of the rows"


def _to_html(rows: Sequence[tuple[str, ...]], more: str, *, heads_above: bool) -> str:
    lines = []
    for place, row in enumerate(rows):
        cells = []
        for number, text in enumerate(row):
            tag = "th" if (place if heads_above else number) == 0 else "td"
            weight = "bold" if tag == "th" else "normal"
            cells.append(f'<{tag} style="{CELL};font-weight:{weight}">{escape(text)}</{tag}>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    note = f"<div>{escape(more)}</div>" if more else ""
    return (
        '<div class="gapmix-glance" style="margin:.4em 0;font-size:90%">'
        f'<table style="border-collapse:collapse">{"".join(lines)}</table>{note}</div>'
    )
