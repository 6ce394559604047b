"""Pictures of tables and fits: where gaps are, how a fit climbed, what was filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmix.estimators.validation import to_matrix
from gapmix.plots.canvas import BAR, EDGE, FILLED, GAP, gap_colors, group_neighbours, open_axes
from gapmix.plots.gaps import column_labels
from gapmix.wording import count, duration, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

with suppress(ImportError):
    from matplotlib import colors, ticker

MAX_PANELS = 12
MAX_LEVELS = 8  # of a category, drawn
FEWEST_BINS, MOST_BINS = 8, 40


def plot_missing(
    X: Any,
    *,
    max_rows: int = 400,
    max_columns: int = 200,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw where the gaps of a table are, rows from top to bottom.

    Parameters
    ----------
    X : array-like or data frame
        The table, NaN where missing.
    max_rows, max_columns : int
        When there are more, neighbours are drawn together, the darker the more is missing.
    feature_names : sequence of str, default=None
        Names of the columns; a data frame has its own.
    ax : Axes, default=None
        Where to draw, a figure of its own by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix.plots import plot_missing
    >>> X = np.array([[1.0, 2.0], [np.nan, 4.0], [np.nan, 5.0]])
    >>> print(plot_missing(X).get_title(loc="left"))
    3 rows, 2 columns, 33.3 % missing
    """
    gaps = np.isnan(np.asarray(to_matrix(X), dtype=np.float64))
    if gaps.ndim != 2 or not gaps.size:
        raise ValueError(f"X has shape {gaps.shape}; a table with rows and columns is needed.")
    n, d = gaps.shape
    names = column_labels(X, d, feature_names)
    ax = open_axes(ax, 2.5 + 0.16 * min(max(d, 15), 60), 5.0)
    (rows, height), (columns, width) = (
        group_neighbours(n, max_rows),
        group_neighbours(d, max_columns),
    )
    share = np.add.reduceat(gaps, rows, axis=0, dtype=np.float64)
    share = np.add.reduceat(share, columns, axis=1) / np.outer(height, width)
    look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", **gap_colors()}
    ax.imshow(share, extent=(-0.5, len(columns) - 0.5, n, 0), **look)
    if len(columns) == d and d <= 60:
        ax.set_xticks(np.arange(d), names, rotation=90, fontsize=8, parse_math=False)
    else:
        ax.set_xticks(())
    ax.set(ylabel="row")
    ax.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    title = f"{count(n, 'row')}, {count(d, 'column')}, {100 * gaps.mean():.1f} % missing"
    ax.set_title(title, fontsize=10, loc="left")
    return ax


def plot_convergence(mixture: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how the objective of a fitted mixture rose, and its validation likelihood if any.

    Parameters
    ----------
    mixture : GaussianMixture
        Fitted.
    ax : Axes, default=None
        Where to draw, a figure of its own by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gapmix import GaussianMixture
    >>> from gapmix.plots import plot_convergence
    >>> mixture = GaussianMixture(2, random_state=0).fit(load_iris().data)
    >>> plot_convergence(mixture).get_ylabel()
    'log-likelihood per row'
    """
    ax = open_axes(ax, 6.5, 4.0)
    history = mixture.history_
    iteration = np.arange(1, len(history) + 1)
    objective = [record.objective for record in history]
    ax.plot(iteration, objective, color=GAP, marker=".", label="objective")
    held_out = [record.validation for record in history]
    if held_out and held_out[0] is not None:
        ax.plot(iteration, held_out, color=FILLED, marker="s", ms=3, ls="--", label="validation")
    repaired = [i for i, record in enumerate(history) if any("repair" in e for e in record.events)]
    if repaired:
        places = iteration[repaired], np.array(objective)[repaired]
        ax.scatter(*places, marker="x", color="k", zorder=3, label="repair")
    ax.set(xlabel="iteration", ylabel="log-likelihood per row")
    ax.xaxis.set_major_locator(ticker.MaxNLocator(8, integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower right")
    seconds = duration(sum(record.seconds for record in history))
    title = (
        f"{count(len(mixture.weights_), 'component')}, {count(len(history), 'iteration')} in "
        f"{seconds}\n{mixture.stop_reason_}"
    )
    ax.set_title(title, fontsize=10, loc="left")
    return ax


def plot_marginals(
    X: Any,
    filled: Any,
    *,
    feature_names: Sequence[str] | None = None,
    levels: Mapping[int, Sequence[str]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the filled values of each column against its observed ones, as densities or shares.

    Parameters
    ----------
    X : array-like or data frame
        The table, NaN where missing.
    filled : array-like
        The same with its gaps filled, by means or by draws.
    feature_names : sequence of str, default=None
        Names of the columns; a data frame has its own.
    levels : dict, default=None
        For columns that are categories, by number: what their levels are called. X and `filled`
        hold the places of levels there, and their shares are drawn.
    ax : Axes, default=None
        Where to draw, a figure of its own by default. Its frame is hidden.

    Returns
    -------
    Axes
        With a panel in `child_axes` for each of the columns with most gaps.

    Notes
    -----
    Conditional means vary less than values do, so their histogram is narrower; that of draws
    should look like the observed one if gaps are spread at random.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix.plots import plot_marginals
    >>> X = np.array([[1.0, 2.0], [np.nan, 4.0], [3.0, np.nan]])
    >>> len(plot_marginals(X, np.nan_to_num(X, nan=2.0)).child_axes)
    2
    """
    x = np.asarray(to_matrix(X), dtype=np.float64)
    values = np.asarray(to_matrix(filled), dtype=np.float64)
    if x.shape != values.shape:
        raise ValueError(f"X has shape {x.shape}, but what is filled has {values.shape}.")
    gaps = np.isnan(x)
    names = column_labels(X, x.shape[1], feature_names)
    usable = np.asarray(gaps.any(axis=0) & ~gaps.all(axis=0))
    chosen = np.sort(
        np.argsort(-np.where(usable, gaps.sum(axis=0), -1), kind="stable")[:MAX_PANELS]
    )
    chosen = chosen[usable[chosen]]
    if not chosen.size:
        raise ValueError("The table has no gaps beside observed values: nothing was filled.")
    n_across = min(4, len(chosen))
    n_down = -(-len(chosen) // n_across)
    ax = open_axes(ax, 1.0 + 2.6 * n_across, 0.9 + 2.0 * n_down, panels=True)
    for place, j in enumerate(chosen):
        down, across = divmod(place, n_across)
        box = (across / n_across, 1 - (down + 1) / n_down, 0.88 / n_across, 0.72 / n_down)
        panel = ax.inset_axes(box)
        observed, new = x[~gaps[:, j], j], values[gaps[:, j], j]
        if levels is not None and j in levels:
            draw_levels(panel, observed.astype(int), new.astype(int), levels[j])
        else:
            draw_marginal(panel, observed, new)
        panel.set_title(label(names[j], 24), fontsize=9, parse_math=False)
    first: Any = ax.child_axes[0]
    bars = levels is not None and chosen[0] in levels  # which are longest at the top
    first.legend(frameon=False, fontsize=7, loc="lower right" if bars else "upper right")
    left_out = int(usable.sum()) - len(chosen)
    more = f"; {count(left_out, 'more column')} not shown" if left_out else ""
    ax.set_title(f"Observed and filled values{more}", fontsize=10, loc="left")
    return ax


def plot_images(
    images: Any, *, column_titles: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a grid of grey images, missing pixels in colour.

    Parameters
    ----------
    images : array-like of shape (n_down, n_across, height, width)
        The images; NaN where missing.
    column_titles : sequence of str, default=None
        What stands above the columns of the grid.
    ax : Axes, default=None
        Where to draw, a figure of its own by default. Its frame is hidden.

    Returns
    -------
    Axes
        With a panel in `child_axes` for each image, row by row.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from gapmix.plots import plot_images
    >>> grid = load_digits().images[:6].reshape(2, 3, 8, 8)
    >>> len(plot_images(grid, column_titles=["a", "b", "c"]).child_axes)
    6
    """
    grid = np.asarray(images, dtype=np.float64)
    if grid.ndim != 4:
        raise ValueError(
            f"images has shape {grid.shape}; four dimensions are needed: rows and columns of the "
            "grid, height and width."
        )
    n_down, n_across = grid.shape[:2]
    ax = open_axes(ax, 0.3 + 1.1 * n_across, 0.5 + 1.1 * n_down, panels=True)
    ink = colors.LinearSegmentedColormap.from_list("ink", ["white", "black"])
    look = ink.with_extremes(bad=FILLED)
    low, high = float(np.nanmin(grid)), float(np.nanmax(grid))
    for i in range(n_down):
        for j in range(n_across):
            box = (j / n_across, 1 - (i + 1) / n_down, 0.94 / n_across, 0.94 / n_down)
            panel = ax.inset_axes(box)
            panel.imshow(grid[i, j], cmap=look, vmin=low, vmax=high, interpolation="nearest")
            panel.set(xticks=(), yticks=())
            if i == 0 and column_titles is not None:
                panel.set_title(column_titles[j], fontsize=9)
    return ax


def draw_levels(ax: Axes, observed: np.ndarray, filled: np.ndarray, levels: Sequence[str]) -> None:
    """Draw the shares of the most frequent levels among known cells, and among those filled."""
    seen, new = (np.bincount(codes, minlength=len(levels)) for codes in (observed, filled))
    order = np.argsort(-seen, kind="stable")[:MAX_LEVELS]
    place = np.arange(len(order))
    look: dict[str, Any] = {"height": 0.8}
    ax.barh(place, seen[order] / seen.sum(), color=BAR, edgecolor=EDGE, lw=0.3, **look)
    ax.barh(place, new[order] / new.sum(), color="none", edgecolor=GAP, lw=1.2, **look)
    for bars, name in zip(ax.containers, ("observed", "filled"), strict=True):
        bars.set_label(name)
    ax.set_yticks(place, [label(str(levels[k]), 14) for k in order], parse_math=False)
    ax.invert_yaxis()
    ax.xaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=0))
    ax.xaxis.set_major_locator(ticker.MaxNLocator(3))
    ax.tick_params(labelsize=7)
    ax.spines[["top", "right"]].set_visible(False)


def draw_marginal(ax: Axes, observed: np.ndarray, filled: np.ndarray) -> None:
    """Draw histograms of the known values of a column and of those in its gaps."""
    both = np.concatenate([observed, filled])
    low, high = np.quantile(both, [0.001, 0.999])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    n_bins = int(np.clip(2.0 * np.sqrt(filled.size), FEWEST_BINS, MOST_BINS))
    edges = np.linspace(low, high, n_bins + 1)
    # Values far out count in the last bin: if all of a kind are, there is still something to draw.
    observed, filled = np.clip(observed, low, high), np.clip(filled, low, high)
    look: dict[str, Any] = {"bins": edges, "density": True}
    ax.hist(observed, color=BAR, edgecolor=EDGE, lw=0.3, label="observed", **look)
    ax.hist(filled, histtype="step", color=GAP, lw=1.2, label="filled", **look)
    ax.set(yticks=())
    ax.xaxis.set_major_locator(ticker.MaxNLocator(4))
    ax.tick_params(labelsize=7)
    ax.spines[["top", "right", "left"]].set_visible(False)
