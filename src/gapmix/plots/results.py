"""Pictures of how a size was chosen, and of how imputers filled hidden cells."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmix.evaluate.scores import Evaluation, Score
from gapmix.plots.canvas import new_figure, require_matplotlib
from gapmix.selection.sizes import Candidate
from gapmix.wording import count, label, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

with suppress(ImportError):  # told when something is drawn
    from matplotlib import lines, ticker

LINE, CHOSEN = "#2b3a55", "#f2b45c"  # dark and light: also apart in grey
LOOKS = (  # marker and fill of one imputer after the other
    ("o", "#e3e6ea"),
    ("s", "#f2b45c"),
    ("^", "#7a9bc4"),
    ("D", "#2b3a55"),
    ("v", "#b04a3a"),
    ("P", "#5a8f69"),
    ("X", "#8c6bb1"),
    ("<", "#ffffff"),
)
EVERYTHING = "all columns"


# -------------------------------------------------------------------- sizes


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
    2 sizes tried; chosen: 2 components
    """
    require_matplotlib()
    tried = _read_candidates(estimator)
    ax = new_figure(9.0, 4.0).add_subplot() if ax is None else ax
    ax.set_axis_off()
    for left, name, said in (
        (0.0, "error", "error of hidden cells\n(standard deviations; lower is better)"),
        (0.56, "log_score", "log score of hidden cells\n(higher is better)"),
    ):
        panel = ax.inset_axes((left, 0.0, 0.44, 0.9))
        _draw_candidates(panel, tried, [getattr(each, name) for each in tried])
        panel.set(xlabel="number of components", ylabel=said)
        if name == "error":
            panel.legend(frameon=False, fontsize=9)
    sizes = [str(each.n_components) for each in tried if each.share > 0]
    title = f"{len(tried)} sizes tried; chosen: {sizes[0] if sizes else 'none'} components"
    if len(sizes) > 1:
        total = sum(each.n_components for each in tried if each.share > 0)
        title = f"{len(tried)} sizes tried; united: {listed(sizes)} components ({total} in all)"
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
    return tuple(tried)


def _draw_candidates(ax: Axes, tried: tuple[Candidate, ...], values: list[float]) -> None:
    """Draw values against sizes, the chosen ones with a ring around them."""
    sizes = [each.n_components for each in tried]
    chosen = [i for i, each in enumerate(tried) if each.share > 0]
    ax.plot(
        [sizes[i] for i in chosen],
        [values[i] for i in chosen],
        linestyle="",
        marker="o",
        markersize=15,
        markerfacecolor=CHOSEN,
        markeredgecolor="k",
        label="chosen",
    )
    ax.plot(sizes, values, color=LINE, marker="o", markersize=5, label="tried")
    ax.set_xscale("log")
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.margins(0.12)
    ax.spines[["top", "right"]].set_visible(False)


# -------------------------------------------------------------------- contenders


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
    require_matplotlib()
    scores = evaluation.scores
    names = list(dict.fromkeys(score.imputer for score in scores))
    all_columns = list(dict.fromkeys(score.column for score in scores))
    columns = _choose_columns(scores, all_columns, max_columns)
    places = {column: place + 1.5 for place, column in enumerate(columns)}
    if ax is None:
        ax = new_figure(9.5, 2.0 + 0.3 * max(4, len(columns) + 1)).add_subplot()
    ax.set_axis_off()
    covered = [name for name in names if _offers_intervals(scores, name)]
    errors = ax.inset_axes((0.0, 0.0, 0.62 if covered else 1.0, 1.0))
    for number, name in enumerate(names):
        _draw_errors(errors, evaluation, name, number, len(names), places)
    _finish_rows(errors, columns, "error (standard deviations of the column)")
    errors.set_xlim(left=0.0)
    handles = [_explain(number, name, scores) for number, name in enumerate(names)]
    errors.legend(
        handles=handles,
        frameon=False,
        fontsize=9,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=4,
    )
    if covered:
        shares = ax.inset_axes((0.66, 0.0, 0.34, 1.0), sharey=errors)
        for number, name in enumerate(covered):
            nudge = 0.5 * ((number + 0.5) / len(covered) - 0.5)
            _draw_coverage(shares, evaluation, name, _look(names.index(name)), places, nudge)
        for nominal in (50, 90):
            shares.axvline(nominal, color="0.4", lw=1, ls="--", zorder=0)
        shares.set(xlabel="% of cells in their interval", xlim=(0, 104), xticks=(0, 50, 90))
        shares.set_title("50 % hollow, 90 % filled", fontsize=9)
        shares.tick_params(labelleft=False, left=False)
        shares.spines[["top", "right"]].set_visible(False)
    n, d = evaluation.shape
    title = (
        f"Hidden cells of {n:,} rows x {d:,} columns, {count(evaluation.n_repeats, 'repeat')}; "
        "marks are means, lines their range"
    )
    if len(columns) < len(all_columns):
        title += (
            f"\nNot shown: {len(all_columns) - len(columns):,} columns with smaller differences"
        )
    ax.set_title(title, fontsize=10, loc="left", pad=32 + 14 * ((len(names) - 1) // 4))
    return ax


def _choose_columns(scores: Sequence[Score], columns: list[str], most: int) -> list[str]:
    """Return the columns whose errors differ most between imputers, in the table's order."""
    if len(columns) <= most:
        return columns
    spread = {}
    for column in columns:
        errors = [score.error for score in scores if score.column == column]
        errors = [error for error in errors if not np.isnan(error)]
        spread[column] = max(errors) - min(errors) if errors else 0.0
    kept = set(sorted(columns, key=lambda column: -spread[column])[: max(1, most)])
    return [column for column in columns if column in kept]


def _offers_intervals(scores: Sequence[Score], name: str) -> bool:
    return any(score.imputer == name and not np.isnan(score.coverage_90) for score in scores)


def _look(number: int) -> dict[str, Any]:
    marker, color = LOOKS[number % len(LOOKS)]
    return {"marker": marker, "markerfacecolor": color, "markeredgecolor": "k", "markersize": 7}


def _explain(number: int, name: str, scores: Sequence[Score]) -> Any:
    problem = any(score.imputer == name and score.problem for score in scores)
    said = f"{name} (with problems)" if problem else name
    return lines.Line2D([], [], linestyle="", label=said, **_look(number))


def _draw_errors(
    ax: Axes,
    evaluation: Evaluation,
    name: str,
    number: int,
    n_names: int,
    places: dict[str, float],
) -> None:
    """Draw mean and range of one imputer's error in each line."""
    nudge = 0.5 * ((number + 0.5) / n_names - 0.5)  # so that marks do not hide each other
    overall = next(each for each in evaluation.overall() if each.imputer == name)
    marks = [(overall.error, 0.0)]
    for column, place in places.items():
        errors = [
            score.error
            for score in evaluation.scores
            if score.imputer == name and score.column == column and not np.isnan(score.error)
        ]
        if errors:
            marks.append((float(np.mean(errors)), place))
            ax.hlines(place + nudge, min(errors), max(errors), color="0.3", lw=1, zorder=1)
    across, down = np.array(marks).T
    ax.plot(across, down + nudge, linestyle="", zorder=2, **_look(number))


def _draw_coverage(
    ax: Axes,
    evaluation: Evaluation,
    name: str,
    look: dict[str, Any],
    places: dict[str, float],
    nudge: float,
) -> None:
    """Draw how many cells lie in the intervals of one imputer in each line."""
    overall = next(each for each in evaluation.overall() if each.imputer == name)
    for field, filled in (("coverage_50", False), ("coverage_90", True)):
        marks = [(getattr(overall, field), 0.0)]
        for column, place in places.items():
            here = [
                score
                for score in evaluation.scores
                if score.imputer == name
                and score.column == column
                and not np.isnan(getattr(score, field))
            ]
            if here:
                shares = [getattr(score, field) for score in here]
                cells = [score.n_hidden for score in here]
                marks.append((float(np.average(shares, weights=cells)), place))
        across, down = np.array(marks).T
        fill = look["markerfacecolor"] if filled else "none"
        ax.plot(100 * across, down + nudge, linestyle="", **{**look, "markerfacecolor": fill})


def _finish_rows(ax: Axes, columns: list[str], what: str) -> None:
    """Name the lines, the first one for everything together."""
    places = [0.0, *(np.arange(len(columns)) + 1.5)]
    ax.set_yticks(places, [EVERYTHING, *map(label, columns)], parse_math=False)
    ax.set(ylim=(len(columns) + 1.0, -0.6), xlabel=what)
    ax.axhline(0.75, color="0.7", lw=1)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.tick_params(left=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
