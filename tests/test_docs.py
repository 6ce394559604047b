"""What README and documentation show is true: code runs and prints that, and links lead somewhere.

The site itself is built by `make docs`, which treats warnings as errors.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import subprocess

import numpy as np
import polars
import pytest
from docs.check_links import find_dead
from sklearn.datasets import load_iris
from tests import markdown
from tests.markdown import DOCS, PAGES, ROOT

import gapmix as gapmix_package

SETUP = ("pip ", "make ", "python -m pip ", "python -m venv ", "git ", "source ")
RUN = [
    page
    for page in PAGES
    if any(b.kind in ("python", "console", "") for b in markdown.blocks(page))
]


def name(page):
    return str(page.relative_to(ROOT))


def write_tables(folder):
    """Write the tables that commands speak of: data.csv, and others with the same columns."""
    x = load_iris().data.copy()
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    for file, rows in (("data.csv", x[::2]), ("new.csv", x[1::2])):
        lines = [",".join("" if np.isnan(v) else f"{v:g}" for v in row) for row in rows]
        (folder / file).write_text("\n".join(["a,b,c,d", *lines]) + "\n")
    polars.DataFrame(x, schema=list("abcd")).fill_nan(None).write_parquet(folder / "big.parquet")


def commands(block):
    """Return pairs of a command of a terminal block and what is shown below it."""
    if block.kind == "console":
        parts = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
    else:
        parts = [(line, "") for line in block.text.splitlines() if line.startswith("gapmix ")]
    pairs = [(part, shown) for line, shown in parts for part in re.split(r" && ", line)]
    return [(shlex.split(line, comments=True), shown) for line, shown in pairs]


def timeless(text):
    """Return the lines of a text, with one space where there are several, and without durations."""
    return [re.sub(r"[\d.]+ s\b", "_ s", " ".join(line.split())) for line in text.splitlines()]


def agree(shown, found):
    """Tell whether lines are the same but for one unit in the last digit of a decimal fraction.

    Machines round differently, and what is cut off after two digits may then end on another one.
    """
    number = r"-?\d+\.\d*"
    if re.sub(number, "#", shown) != re.sub(number, "#", found):
        return False
    pairs = zip(re.findall(number, shown), re.findall(number, found), strict=True)
    return all(abs(float(a) - float(b)) < 1.5 * 10.0 ** -len(a.partition(".")[2]) for a, b in pairs)


def run_commands(block, gapmix, folder, where):
    """Run the commands of a block; those that set up an environment are left out."""
    for words, shown in commands(block):
        line = " ".join(words)
        if line.startswith(SETUP):
            continue
        if words[0] == "gapmix":
            ran = gapmix(folder, *words[1:], COLUMNS="80")
            assert ran.code == 0, f"{where}: {line}\n{ran.err}"
            found = timeless(ran.err + "\n" + ran.out)
            lost = [
                line for line in timeless(shown) if not any(agree(line, other) for other in found)
            ]
            assert lost == [], where
        else:
            ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
            assert ran.stdout == shown, f"{where}: {line}"


@pytest.mark.parametrize("page", RUN, ids=name)
def test_every_block_runs_and_prints_what_is_shown(page, gapmix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    write_tables(tmp_path)
    names = {"__name__": "__main__"}
    printed = None
    for block in markdown.blocks(page):
        where = f"{name(page)}, line {block.line}"
        if block.kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block.text, where, "exec"), names)
            printed = out.getvalue()
        elif block.kind == "text":
            assert printed is not None, f"{where}: nothing printed this"
            assert agree(" ".join(block.text.split()), " ".join(printed.split())), (
                f"{where} prints\n{printed}"
            )
            printed = None
        elif block.kind in ("console", ""):
            run_commands(block, gapmix, tmp_path, where)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "experiments" / "RESULTS.md"], ids=name)
def test_no_link_is_dead(page):
    for target in markdown.links(page):
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{target} is not there"
        assert not anchor or anchor in markdown.anchors(there), f"{target} has no such heading"


def test_links_of_a_built_site_are_followed(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here">1</a> <a href="b.html#there">2</a> '
        '<a href="b.html#lost">3</a> <a href="c.html">4</a> '
        '<a href="https://example.org/gone">5</a> <img src="d.png">'
    )
    (tmp_path / "b.html").write_text('<p id="there"><a href="a.html?highlight=x#here">back</a>')
    assert find_dead(tmp_path) == ["a.html: b.html#lost", "a.html: c.html", "a.html: d.png"]


def test_every_page_is_in_one_table_of_contents():
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    found = [entry for page in DOCS.glob("*.md") for entry in markdown.listed(page)]
    assert sorted(entry for entry in found if entry != "auto_examples/index") == sorted(pages)


@pytest.mark.parametrize("estimator", [name for name in gapmix_package.__all__ if name[0] == "G"])
def test_the_guide_says_when_to_change_every_parameter(estimator):
    page = (DOCS / "parameters.md").read_text()
    parameters = getattr(gapmix_package, estimator)().get_params(deep=False)
    assert [name for name in parameters if f"`{name}`" not in page] == []


def test_what_is_included_is_there():
    block = re.compile(r"^```\{(?:literal)?include\} (\S+)\n((?::.*\n)*)", re.MULTILINE)
    for page in DOCS.glob("*.md"):
        for target, options in block.findall(page.read_text()):
            if target.startswith("_generated/"):
                continue
            included = (DOCS / target).read_text()
            for text in re.findall(r'^:(?:start-after|end-before): "(.*)"$', options, re.MULTILINE):
                assert text in included, f"{page.name} includes {target} from or to {text!r}"


def test_examples_that_pages_name_are_in_the_gallery():
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\{doc\}`[^`]*?auto_examples/([^`>]+)>?`", page.read_text()):
            assert target == "index" or (ROOT / "examples" / f"{target}.py").exists(), target


def reference():
    """Return the names that the API reference lists."""
    text = (DOCS / "api.md").read_text()
    return re.findall(r"^   ((?:\w+\.)*\w+)$", text, re.MULTILINE)


def test_the_reference_has_all_that_is_promised():
    promised = set(importlib.import_module("gapmix").__all__)
    promised |= {f"plots.{each}" for each in importlib.import_module("gapmix.plots").__all__}
    assert promised <= set(reference())


@pytest.mark.parametrize("entry", reference())
def test_whatever_the_reference_lists_has_an_example(entry):
    *path, last = f"gapmix.{entry}".split(".")
    item = getattr(importlib.import_module(".".join(path)), last)
    assert ">>> " in item.__doc__
