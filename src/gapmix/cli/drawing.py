"""Pictures of what a job did, into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gapmix.cli.files import picture_path
from gapmix.cli.later import Later
from gapmix.cli.reading import OpenTable
from gapmix.cli.requests import Watch
from gapmix.estimators.converted import on_matrices
from gapmix.plan.patterns import find_patterns
from gapmix.storage.atomicfile import Replacement
from gapmix.tables.schema import CATEGORY, CallError, Note, feature_names, features
from gapmix.wording import quote

if TYPE_CHECKING:
    from gapmix import plots
    from gapmix.plots import canvas
else:
    plots, canvas = Later("gapmix.plots"), Later("gapmix.plots.canvas")

MAX_CELLS = 2_000_000  # of the rows that are drawn


def check_folder(folder: Path | None) -> None:
    """Make the folder, or raise an error that says why there can be no pictures."""
    if folder is None:
        return
    if canvas.figure is None:
        raise CallError('--plots needs matplotlib: pip install "gapmix[plot]"')
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CallError(f"--plots: the folder {quote(str(folder))} cannot be made.") from error


def draw_all(table: OpenTable, model: Any, folder: Path | None, watch: Watch) -> None:
    """Draw a table's gaps and the fit to it, if pictures are asked for."""
    if folder is not None:
        draw_gaps(table, folder, watch)
        draw_fit(table, model, folder, watch)


def draw_gaps(table: OpenTable, folder: Path, watch: Watch) -> None:
    """Draw where gaps are and which patterns they form."""
    x = _some_rows(table.scan.matrix)
    names = feature_names(table.scan.schema)
    _save(plots.plot_missing(x, feature_names=names), folder, "missing", watch)
    patterns = find_patterns(~np.isnan(x))
    _save(plots.plot_patterns(patterns, feature_names=names), folder, "patterns", watch)


def draw_fit(table: OpenTable, model: Any, folder: Path, watch: Watch) -> None:
    """Draw how a fit climbed, and what it fills beside what is observed."""
    if len(model.mixture_.history_) > 1:
        _save(plots.plot_convergence(model.mixture_), folder, "convergence", watch)
    x = _some_rows(table.scan.matrix)
    gaps = np.isnan(x)
    if (gaps.any(axis=0) & ~gaps.all(axis=0)).any():
        schema = table.scan.schema
        drawn = on_matrices(model).sample(x, random_state=0)[0]
        used = [schema.columns[j] for j in features(schema)]
        levels = {f: column.levels for f, column in enumerate(used) if column.kind == CATEGORY}
        axes = plots.plot_marginals(x, drawn, feature_names=feature_names(schema), levels=levels)
        axes.set_title("Observed values, and one draw of the gaps", fontsize=10, loc="left")
        _save(axes, folder, "filled", watch)


def _some_rows(x: np.ndarray) -> np.ndarray:
    """Return every row, or evenly spaced ones of a long table."""
    step = max(1, -(-x.size // MAX_CELLS))
    return x[::step]


def _save(axes: Any, folder: Path, name: str, watch: Watch) -> None:
    path = picture_path(folder, name)
    watch.writes(path)
    with Replacement(path) as stream:
        axes.figure.savefig(stream, format="png", dpi=120)
    watch.note(Note(f"Drawn: {path}"))
