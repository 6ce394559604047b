"""A picture of the gaps of a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from gapmix.estimators.validation import to_matrix
from gapmix.plan.patterns import Patterns, count_rows, find_patterns
from gapmix.plots.canvas import (
    EDGE,
    GAP,
    SHOWN,
    gap_colors,
    group_neighbours,
    open_axes,
    write_beside,
)
from gapmix.wording import count, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

with suppress(ImportError):  # told when something is drawn
    from matplotlib import patches, ticker


def plot_patterns(
    X_or_patterns: Any,
    *,
    max_patterns: int = 40,
    max_columns: int = 60,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw which columns are missing together, the most frequent patterns first.

    Parameters
    ----------
    X_or_patterns : array-like, data frame or Patterns
        The table, NaN where missing, or its patterns.
    max_patterns : int, default=40
        Patterns drawn; the title says how many are not.
    max_columns : int, default=60
        Columns drawn one by one. When there are more, neighbours are drawn together, the darker
        the more of them are missing.
    feature_names : sequence of str, default=None
        Names of the columns; a data frame has its own.
    ax : Axes, default=None
        Where to draw, a figure of its own by default. Its frame is hidden.

    Returns
    -------
    Axes
        With three panels in `child_axes`: cells, rows of each pattern, share missing by column.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix.plots import plot_patterns
    >>> X = np.array([[1.0, 2.0], [np.nan, 4.0], [np.nan, 5.0]])
    >>> print(plot_patterns(X).get_title(loc="left"))
    2 patterns in 3 rows, 2 columns
    """
    patterns = X_or_patterns if isinstance(X_or_patterns, Patterns) else _read(X_or_patterns)
    names = column_labels(X_or_patterns, patterns.observed.shape[1], feature_names)
    rows = count_rows(patterns)
    chosen = np.argsort(-rows, kind="stable")[: max(1, max_patterns)]
    n, d = int(rows.sum()), patterns.observed.shape[1]
    share = rows @ ~patterns.observed / max(1, n)  # (d,) of the rows
    first, width = group_neighbours(d, max_columns)
    gaps = np.add.reduceat(~patterns.observed[chosen], first, axis=1, dtype=float) / width
    size = 4.5 + 0.16 * max(20, first.size), 2.6 + 0.18 * max(8, chosen.size)
    ax = open_axes(ax, *size, panels=True)
    cells = ax.inset_axes((0.0, 0.0, 0.78, 0.82))
    bars = ax.inset_axes((0.8, 0.0, 0.2, 0.82), sharey=cells)
    strip = ax.inset_axes((0.0, 0.84, 0.78, 0.16), sharex=cells)
    _draw_cells(cells, gaps, [names[j] for j in first])
    _draw_rows(bars, rows[chosen])
    percent = 100 * np.add.reduceat(share, first) / width
    strip.bar(np.arange(first.size), percent, width=0.8, color=GAP)
    strip.set(ylim=(0, 1.1 * max(1.0, percent.max())), ylabel="% missing")
    strip.yaxis.set_major_locator(ticker.MaxNLocator(3))
    strip.tick_params(labelbottom=False, bottom=False)
    strip.spines[["top", "right"]].set_visible(False)
    title = f"{count(rows.size, 'pattern')} in {count(n, 'row')}, {count(d, 'column')}"
    if chosen.size < rows.size:
        hidden = n - int(rows[chosen].sum())
        title += (
            f"\nNot shown: {count(rows.size - chosen.size, 'less frequent pattern')}, with "
            f"{count(hidden, 'row')} ({100 * hidden / max(1, n):.1f} %)"
        )
    if first.size < d:
        title += f"\nUp to {width.max()} neighbouring columns are drawn as one"
    ax.set_title(title, fontsize=10, loc="left")
    return ax


def _read(X: Any) -> Patterns:
    table = to_matrix(X)
    if table.ndim != 2:
        raise ValueError(f"X has {table.ndim} dimensions; a table has rows and columns.")
    return find_patterns(~np.isnan(table))


def column_labels(source: Any, d: int, given: Sequence[str] | None) -> list[str]:
    """Return the names of the columns, short: those given, those of the frame, or numbers.

    They are data: whoever writes them says `parse_math=False`, or `$` would begin a formula.
    """
    if given is not None:
        if len(given) != d:
            raise ValueError(f"feature_names has {len(given)} names; the table has {d} columns.")
        return [label(str(name)) for name in given]
    frame = nw.from_native(source, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return [label(str(name)) for name in frame.columns]
    return [str(j) for j in range(d)]


def _draw_cells(ax: Axes, gaps: np.ndarray, names: list[str]) -> None:
    """Draw the share of gaps in each cell (B, C), 0 or 1 where it holds one column."""
    n_patterns, n_columns = gaps.shape
    edges = np.arange(n_columns + 1) - 0.5, np.arange(n_patterns + 1) - 0.5
    ax.pcolormesh(*edges, gaps, **gap_colors())
    if max(n_columns, n_patterns) <= 60:
        ax.vlines(np.arange(n_columns - 1) + 0.5, -0.5, n_patterns - 0.5, color="w", lw=0.5)
        ax.hlines(np.arange(n_patterns - 1) + 0.5, -0.5, n_columns - 0.5, color="w", lw=0.5)
    if n_columns <= 80:
        ax.set_xticks(np.arange(n_columns), names, rotation=90, fontsize=8, parse_math=False)
    ticks = np.arange(0, n_patterns, max(1, -(-n_patterns // 20)))
    ax.set_yticks(ticks, [str(tick + 1) for tick in ticks])
    ax.set(ylabel="pattern, most rows first", xlim=(-0.5, n_columns - 0.5))
    ax.set_ylim(n_patterns - 0.5, -0.5)
    ax.tick_params(length=0)
    handles = [
        patches.Patch(facecolor=SHOWN, edgecolor="0.4", label="observed"),
        patches.Patch(facecolor=GAP, edgecolor="0.4", label="missing"),
    ]
    # in the empty corner, right of the strip
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(1.02, 1.03), frameon=False)


def _draw_rows(ax: Axes, rows: np.ndarray) -> None:
    """Draw the number of rows of each pattern, and write it where there is room."""
    ax.barh(np.arange(rows.size), rows, height=0.8, color=EDGE)
    if rows.size <= 60:
        for place, n in enumerate(rows):
            write_beside(ax, f"{n:,}", (n, place), 3)
    ax.set(xlabel="rows", xlim=(0, 1.45 * max(1, int(rows.max(initial=1)))))
    ax.xaxis.set_major_locator(ticker.MaxNLocator(2, integer=True))
    ax.tick_params(labelleft=False, left=False)
    ax.spines[["top", "right"]].set_visible(False)
