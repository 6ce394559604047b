"""Pictures of how a size was chosen, and of how imputers filled hidden cells."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmix.evaluate.scores import COVERAGES, Evaluation, Overall
from gapmix.plots.canvas import EDGE, FILLED, GAP, RULE, SHOWN, open_axes
from gapmix.selection.sizes import Candidate, list_sizes_once
from gapmix.wording import count, label, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

with suppress(ImportError):  # reported when something is drawn
    from matplotlib import lines, ticker

LOOKS = (  # marker and fill of one imputer after the other
    ("o", SHOWN),
    ("s", FILLED),
    ("^", "#7a9bc4"),
    ("D", GAP),
    ("v", "#b04a3a"),
    ("P", "#5a8f69"),
    ("X", "#8c6bb1"),
    ("<", "#ffffff"),
)
EVERYTHING = "all columns"


def plot_selection(estimator: Any, *, ax: Axes | None = None) -> Axes:
    """Draw error and log score of the numbers of components that were tried.

    Parameters
    ----------
    estimator : fitted estimator, or sequence of Candidate
        One with `selection_`, such as :class:`gapmix.GaussianMixtureImputer` with
        `n_components="auto"`, or what `selection_` holds.
    ax : Axes, default=None
        Where to draw, a figure of its own by default. Its frame is hidden.

    Returns
    -------
    Axes
        With two panels in `child_axes`: error of hidden cells, and their log score.

    Examples
    --------
    >>> from gapmix.plots import plot_selection
    >>> from gapmix.selection import Candidate
    >>> tried = (Candidate(1, 0.9, -1.3, 5, 0.1), Candidate(2, 0.7, -1.1, 9, 0.1, share=1.0))
    >>> print(plot_selection(tried).get_title(loc="left"))
    2 numbers tried; chosen: 2 components
    """
    tried = _read_candidates(estimator)
    ax = open_axes(ax, 9.0, 4.0, panels=True)
    for left, name, said in (
        (0.0, "error", "error of hidden cells\n(standard deviations; lower is better)"),
        (0.56, "log_score", "log score of hidden cells\n(higher is better)"),
    ):
        panel = ax.inset_axes((left, 0.0, 0.44, 0.9))
        draw_candidates(panel, tried, [getattr(each, name) for each in tried])
        panel.set(xlabel="number of components", ylabel=said)
        if name == "error":
            panel.legend(frameon=False, fontsize=9)
    sizes = [str(each.n_components) for each in tried if each.share > 0]
    chosen = count(int(sizes[0]), "component") if sizes else "none"
    title = f"{len(tried)} numbers tried; chosen: {chosen}"
    if len(sizes) > 1:
        total = sum(each.n_components for each in tried if each.share > 0)
        title = f"{len(tried)} numbers tried; averaged: {listed(sizes)} components ({total} in all)"
    ax.set_title(title, fontsize=10, loc="left")
    return ax


def _read_candidates(estimator: Any) -> tuple[Candidate, ...]:
    tried = getattr(estimator, "selection_", estimator)
    if tried is estimator and not isinstance(estimator, Sequence):
        raise ValueError(
            f"This {type(estimator).__name__} has no selection_. Fit it first, with "
            "n_components='auto'."
        )
    if not len(tried):
        raise ValueError(
            "selection_ is empty: the number of components was given, not chosen. Fit with "
            "n_components='auto'."
        )
    return list_sizes_once(tuple(tried))


def draw_candidates(ax: Axes, tried: tuple[Candidate, ...], values: list[float]) -> None:
    """Draw values against sizes, the chosen ones with a ring around them."""
    sizes = [each.n_components for each in tried]
    chosen = [i for i, each in enumerate(tried) if each.share > 0]
    ring: dict[str, Any] = {"markersize": 15, "markerfacecolor": FILLED, "markeredgecolor": "k"}
    places = [sizes[i] for i in chosen], [values[i] for i in chosen]
    ax.plot(*places, linestyle="", marker="o", label="chosen", **ring)
    ax.plot(sizes, values, color=GAP, marker="o", markersize=5, label="tried")
    ax.set_xscale("log")
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.margins(0.12)
    ax.spines[["top", "right"]].set_visible(False)


def plot_hide_and_score(
    evaluation: Evaluation, *, max_columns: int = 30, ax: Axes | None = None
) -> Axes:
    """Draw the errors of imputers by column, and how often their intervals hold hidden cells.

    Parameters
    ----------
    evaluation : Evaluation
        What :func:`gapmix.evaluate.hide_and_score` returned.
    max_columns : int, default=30
        Columns drawn, those with the largest differences between imputers; the title says how
        many are not. The first line is for all columns together.
    ax : Axes, default=None
        Where to draw, a figure of its own by default. Its frame is hidden.

    Returns
    -------
    Axes
        With panels in `child_axes`: errors and, if any imputer offers intervals, their coverage.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.impute import SimpleImputer
    >>> from gapmix.evaluate import hide_and_score
    >>> from gapmix.plots import plot_hide_and_score
    >>> result = hide_and_score(load_iris().data, {"mean": SimpleImputer()}, n_repeats=2)
    >>> print(plot_hide_and_score(result).get_title(loc="left"))
    Hidden cells of 150 rows x 4 columns, 2 repeats; marks are means, lines their range
    """
    by_column = evaluation.by_column()
    columns = _choose_columns(by_column, max_columns)
    ax = open_axes(ax, 9.5, 2.0 + 0.3 * max(4, len(columns) + 1), panels=True)
    overall = evaluation.overall()
    covered = any(not np.isnan(each.coverage_90) for each in overall)
    errors = ax.inset_axes((0.0, 0.0, 0.62 if covered else 1.0, 1.0))
    handles = draw_errors(errors, evaluation, {column: column for column in columns})
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    errors.legend(handles=handles, frameon=False, fontsize=9, ncols=4, **place)
    if covered:
        shares = ax.inset_axes((0.66, 0.0, 0.34, 1.0), sharey=errors)
        _draw_coverages(shares, [overall, *(by_column[column] for column in columns)])
    n, d = evaluation.shape
    title = (
        f"Hidden cells of {n:,} rows x {d:,} columns, {count(evaluation.n_repeats, 'repeat')}; "
        "marks are means, lines their range"
    )
    if len(columns) < len(by_column):
        rest = count(len(by_column) - len(columns), "column")
        title += f"\nNot shown: {rest} with smaller differences"
    ax.set_title(title, fontsize=10, loc="left", pad=32 + 14 * ((len(overall) - 1) // 4))
    return ax


def _choose_columns(by_column: dict[str, tuple[Overall, ...]], most: int) -> list[str]:
    """Return the columns whose errors differ most between imputers, in the table's order."""
    spread = {}
    for column, them in by_column.items():
        errors = [each.error for each in them if not np.isnan(each.error)]
        spread[column] = max(errors) - min(errors) if errors else 0.0
    kept = set(sorted(by_column, key=lambda column: -spread[column])[: max(1, most)])
    return [column for column in by_column if column in kept]


def draw_errors(ax: Axes, evaluation: Evaluation, columns: dict[str, str]) -> list[Any]:
    """Draw the errors of imputers in the columns named, means and their range; return the key.

    The first line is for all columns together.
    """
    overall, by_column = evaluation.overall(), evaluation.by_column()
    rows = [overall, *(by_column[column] for column in columns)]
    down = _lay_out(len(columns))
    errors: dict[tuple[str, str], list[float]] = {}
    for score in evaluation.scores:
        if not np.isnan(score.error):
            errors.setdefault((score.imputer, score.column), []).append(score.error)
    handles = []
    for number, each in enumerate(overall):
        nudge = _nudge(number, len(overall))
        for place, column in zip(down[1:], columns, strict=True):
            found = errors.get((each.imputer, column), [])
            if len(found) > 1:
                ax.hlines(place + nudge, min(found), max(found), color=EDGE, lw=1, zorder=1)
        means = [them[number].error for them in rows]
        ax.plot(means, down + nudge, linestyle="", zorder=2, **_look(number))
        said = f"{each.imputer} (with problems)" if each.problem else each.imputer
        handles.append(lines.Line2D([], [], linestyle="", label=said, **_look(number)))
    ax.set_yticks(down, [EVERYTHING, *map(label, columns.values())], parse_math=False)
    ax.set(ylim=(len(columns) + 1.0, -0.6), xlabel="error (standard deviations of the column)")
    ax.set_xlim(left=0.0)
    ax.axhline(0.75, color=EDGE, lw=1)
    ax.grid(axis="y", color=RULE)
    ax.set_axisbelow(True)
    ax.tick_params(left=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return handles


def _draw_coverages(ax: Axes, rows: list[tuple[Overall, ...]]) -> None:
    """Draw how many cells lie in the intervals of those who offer them, line by line."""
    covered = [k for k, each in enumerate(rows[0]) if not np.isnan(each.coverage_90)]
    down = _lay_out(len(rows) - 1)
    for number, k in enumerate(covered):
        look = _look(k)
        for field, fill in (("coverage_50", "none"), ("coverage_90", look["markerfacecolor"])):
            shares = [100 * getattr(them[k], field) for them in rows]
            places = down + _nudge(number, len(covered))
            ax.plot(shares, places, linestyle="", **{**look, "markerfacecolor": fill})
    for nominal in COVERAGES:
        ax.axvline(100 * nominal, color="0.4", lw=1, ls="--", zorder=0)
    ax.set(xlabel="% of cells in their interval", xlim=(0, 104), xticks=(0, 50, 90))
    ax.set_title("50 % hollow, 90 % filled", fontsize=9)
    ax.tick_params(labelleft=False, left=False)
    ax.spines[["top", "right"]].set_visible(False)


def _lay_out(n_columns: int) -> np.ndarray:
    """Return where the lines stand, (1 + n_columns,), the first apart from the others."""
    return np.array([0.0, *(np.arange(n_columns) + 1.5)])


def _nudge(number: int, total: int) -> float:
    """Return how far one of several marks stands off its line, so that none hides another."""
    return 0.5 * ((number + 0.5) / total - 0.5)


def _look(number: int) -> dict[str, Any]:
    marker, color = LOOKS[number % len(LOOKS)]
    return {"marker": marker, "markerfacecolor": color, "markeredgecolor": "k", "markersize": 7}
