"""The report in a real browser: whole at both widths, in the dark and on paper, and harmless.

Screenshots and printed pages are kept in `build/screenshots`.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_wine

from gapmix import GaussianMixture, GaussianMixtureImputer
from gapmix.report import write_report

KEPT = Path(__file__).parents[2] / "build" / "screenshots"
WIDTHS = {"phone": (390, 844), "desktop": (1400, 900)}
SECTIONS = ["gaps", "model", "filled", "judged", "caveat", "provenance"]
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>' onload='alert(2)",
    "a\x00b\x07\x1b[31m\u202egnp",
    "n" * 10_000,
    "$x_{1}$ & <b>$\\frac{a}{b}$",
    "-->]]><!--",
    "</style><style>body{display:none}",
    "Temperatur in °C, Mittelwert über alle Messstellen der Anlage",
]

# Everything that is wider than the page or than its own box, and texts of pictures that stick out
# or stand on each other (by more than two pixels either way).
FAULTS = """() => {
  document.querySelectorAll('details').forEach(element => { element.open = true; });
  const faults = [], wide = document.documentElement.clientWidth;
  const box = element => element.getBoundingClientRect();
  const say = (what, element) => faults.push(what + ': ' + element.textContent.slice(0, 60));
  for (const element of document.querySelectorAll('body *')) {
    const r = box(element);
    if (r.width && (r.right > wide + 1 || r.left < -1)) say('outside the page', element);
  }
  for (const element of document.querySelectorAll('p, td, th, dd, dt, figcaption, h1, h2, h3, pre'))
    if (element.scrollWidth > element.clientWidth + 1) say('cut off', element);
  for (const table of document.querySelectorAll('table'))
    if (box(table).right > box(table.parentElement).right + 1) say('wider than its place', table);
  for (const svg of document.querySelectorAll('svg')) {
    const frame = box(svg);
    const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim());
    const boxes = texts.map(box);
    boxes.forEach((r, i) => {
      if (r.left < frame.left - 2 || r.right > frame.right + 2 || r.top < frame.top - 2
          || r.bottom > frame.bottom + 2) say('outside its picture', texts[i]);
      for (let j = 0; j < i; j++) {
        const across = Math.min(r.right, boxes[j].right) - Math.max(r.left, boxes[j].left);
        const down = Math.min(r.bottom, boxes[j].bottom) - Math.max(r.top, boxes[j].top);
        if (across > 2 && down > 2) say('overlap', texts[i]);
      }
    });
  }
  return faults;
}"""


def make_wine():
    wine = load_wine()
    x = wine.data.copy()
    rng = np.random.default_rng(2)
    x[rng.random(x.shape) < 0.15] = np.nan
    x[rng.random(len(x)) < 0.2, 3:5] = np.nan
    return pd.DataFrame(x, columns=wine.feature_names), GaussianMixtureImputer(random_state=0)


def make_table(n, d, names=None, share=0.2):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 1)) + 0.6 * rng.normal(size=(n, d))
    x[rng.random(x.shape) < share * 2 * rng.random(d)] = np.nan
    x[0] = 0.0
    return pd.DataFrame(x, columns=names or [f"sensor {j:03d} of the north wing" for j in range(d)])


def make_empty_column():
    table = make_table(150, 5)
    table.iloc[:, 2] = np.nan
    return table


TABLES = {
    "wine": make_wine,
    "wide": lambda: (make_table(250, 300), GaussianMixtureImputer(2, random_state=0)),
    "2000-columns": lambda: (make_table(60, 2000), GaussianMixture(2, covariance_type="diag")),
    "one-column": lambda: (make_table(80, 1, share=0.4), GaussianMixtureImputer(random_state=0)),
    "nothing-missing": lambda: (make_table(150, 6, share=0.0), GaussianMixtureImputer(2)),
    "empty-column": lambda: (make_empty_column(), GaussianMixtureImputer(2)),
    "hostile": lambda: (make_table(150, len(HOSTILE), HOSTILE), GaussianMixtureImputer(2)),
}


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium")
    assert program, "chromium is not installed: `make test-browser` installs it"
    with sync_playwright() as player:
        opened = player.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return a function that writes the report on a table, once, and returns its path."""
    folder, made = tmp_path_factory.mktemp("reports"), {}

    def write(name):
        if name not in made:
            table, model = TABLES[name]()
            path = folder / f"{name}.html"
            title = HOSTILE[0] if name == "hostile" else f"{name}.csv"
            with warnings.catch_warnings():  # that a column is empty is tested elsewhere
                warnings.simplefilter("ignore", UserWarning)
                write_report(model.fit(table), table, path, title=title)
            made[name] = path
        return made[name]

    KEPT.mkdir(parents=True, exist_ok=True)
    return write


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TABLES)
def test_the_page_is_whole_and_asks_for_nothing(browser, pages, name, width, scheme):
    across, down = WIDTHS[width]
    path = pages(name)
    context = browser.new_context(
        viewport={"width": across, "height": down}, color_scheme=scheme, device_scale_factor=1
    )
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    page.screenshot(path=KEPT / f"{name}-{width}-{scheme}.png", full_page=True)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    for section in SECTIONS:
        box = page.locator(f"section#{section}").bounding_box()
        assert box["width"] > 0.8 * min(across, 1200) - 40
        assert box["height"] > 60
    assert page.evaluate(FAULTS) == []
    if name == "hostile":
        assert page.locator("script, img, iframe").count() == 0
        for text in HOSTILE[:2]:
            assert text in page.locator("#gaps table").first.inner_text()
    context.close()


def test_the_page_prints(browser, pages):
    page = browser.new_page()
    page.goto(pages("wine").as_uri())
    page.pdf(path=KEPT / "wine-print.pdf", format="A4")
    assert (KEPT / "wine-print.pdf").read_bytes().startswith(b"%PDF")
    page.emulate_media(media="print", color_scheme="dark")
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink == "rgb(0, 0, 0)"  # black on white even where the screen is dark
    page.close()
