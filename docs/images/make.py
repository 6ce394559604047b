"""Make the pictures of the README: `python docs/images/make.py`. Needs cairosvg too.

The screen is what `gapmix evaluate wine.csv` prints, the plot what `--plots` draws.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import cairosvg
import numpy as np
import polars as pl
from rich.console import Console
from sklearn.datasets import load_wine

from gapmix.cli import evaluating, filling
from gapmix.cli.requests import Fitting, Reading, Silent, Writing
from gapmix.cli.results import render

HERE = Path(__file__).parent


def write_table(path: Path) -> None:
    """Write the wine table with 15 % of its cells missing."""
    wine = load_wine()
    x = wine.data.copy()
    x[np.random.default_rng(2).random(x.shape) < 0.15] = np.nan
    frame = pl.DataFrame(x, schema=list(wine.feature_names)).fill_nan(None)
    frame.with_columns(cultivar=pl.Series([f"c{t}" for t in wine.target])).write_csv(path)


def draw_screen(path: Path, result: evaluating.Evaluated) -> None:
    """Draw what a terminal would show."""
    console = Console(record=True, width=78, file=io.StringIO(), force_terminal=True)
    console.print(render("evaluated", result))
    svg = console.export_svg(title="gapmix evaluate wine.csv")
    svg = svg.replace("Fira Code", "DejaVu Sans Mono")
    cairosvg.svg2png(bytestring=svg.encode(), write_to=str(path), scale=0.8)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = folder / "wine.csv"
        write_table(table)
        draw_screen(
            HERE / "evaluate.png", evaluating.evaluate(table, Reading(), Fitting(), Silent())
        )
        fitting = Fitting(plots=folder)
        filling.impute(table, Reading(), fitting, Writing(folder / "filled.csv"), Silent())
        (folder / "patterns.png").replace(HERE / "patterns.png")
