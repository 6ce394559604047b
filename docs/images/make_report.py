"""Make the README's pictures of a report: `PYTHONPATH=. python docs/images/make_report.py`.

Needs Chromium, Pillow and `pip install ".[all]" --group browser`, and Abalone (GAPMIX_DATA, else
OpenML). The table gets holes at random, two columns that are often missing together, and one that
is missing more often where another is large.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from benchmarks.data import load_abalone
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from gapmix.cli.reporting import report
from gapmix.cli.requests import Fitting, Reading, Silent

HERE = Path(__file__).parent
NAMES = (
    *("Length", "Diameter", "Height", "Whole weight", "Shucked weight", "Viscera weight"),
    *("Shell weight", "Rings"),
)


def write_table(path: Path) -> None:
    """Write Abalone with holes."""
    x = load_abalone().values[:, 1:].copy()
    rng = np.random.default_rng(1)
    gaps = rng.random(x.shape) < 0.12
    gaps[rng.random(len(x)) < 0.1, 4:6] = True
    gaps[:, 6] |= rng.random(len(x)) < 0.35 / (1 + np.exp(-(x[:, 7] - 10) / 2))
    x[gaps] = np.nan
    pl.DataFrame(x, schema=list(NAMES)).fill_nan(None).write_csv(path)


def shoot(browser: Browser, page_path: Path, width: int, first: str, last: str, name: str) -> None:
    """Save the part of a page from the top of one element to the bottom of another."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(page_path.as_uri())
    top = page.locator(first).first.bounding_box()
    bottom = page.locator(last).first.bounding_box()
    high = bottom["y"] + bottom["height"] - top["y"] + 16
    clip = {"x": 0, "y": top["y"], "width": width, "height": high}
    shot = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
    shot.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(HERE / name, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, sync_playwright() as player:
        folder = Path(name)
        write_table(folder / "abalone.csv")
        made = folder / "report.html"
        report(folder / "abalone.csv", Reading(), Fitting(), made, Silent())
        browser = player.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        shoot(browser, made, 1200, "header", "#gaps .two", "report.png")
        shoot(browser, made, 390, "#judged", "#judged figure", "report-phone.png")
        browser.close()
