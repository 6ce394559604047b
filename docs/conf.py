"""Sphinx builds the site from here: `make docs`. Nothing is fetched while it builds or is read."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

pages = importlib.import_module("pages")  # found through the path above, as `benchmarks` is
gapmix = importlib.import_module("gapmix")

pages.write_all(HERE / "_generated")

project = "gapmix"
author = "The gapmix developers"
copyright = author
release = version = gapmix.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_generated", "images", "auto_examples/GALLERY_HEADER.rst"]
templates_path = ["_templates"]

# ------------------------------------------------------------------ Markdown and formulas

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # included pages begin at a deeper level

# MathJax comes from a package and is copied into the site: one file, fonts inside.
mathjax_path = "mathjax/tex-svg.js"


def copy_mathjax(app: Any, exception: Exception | None) -> None:
    """Put the one file of MathJax that pages ask for beside them."""
    if exception is None and app.builder.format == "html":
        package = importlib.import_module("sphinx-mathjax-offline")
        target = Path(app.outdir) / "_static" / mathjax_path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(package.__file__).parent / "static" / mathjax_path, target)


# ------------------------------------------------------------------ reference

autosummary_generate = True
default_role = "literal"  # names in docstrings stand between single backquotes
toc_object_entries_show_parents = "hide"
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"  # docstrings name types in words
numpydoc_show_class_members = False  # the template lists them

nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"sklearn\..*"),  # no other site is asked while this one builds
    ("py:obj", "rare_levels_"),  # a property, which has no page of its own
]


def describe_field(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Give a field of a record the comment that stands behind it in the source."""
    if not lines or not lines[0].startswith("Alias for field number"):
        return
    path, record, field = name.rsplit(".", 2)
    source = inspect.getsource(getattr(importlib.import_module(path), record))
    found = re.search(rf"^    {field}: (.+?)(?:  # (.+))?$", source, re.MULTILINE)
    kind, comment = found.groups() if found else ("", None)
    kind = kind.split(" = ")[0]
    lines[:] = [f"{comment[0].upper()}{comment[1:]}." if comment else f"``{kind}``"]


def skip_requests(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: dict[str, Any]
) -> bool:
    """Leave out what scikit-learn adds to every estimator and documents itself."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


# ------------------------------------------------------------------ gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(demo|sweep_solver)\.py",
    "image_scrapers": ("matplotlib",),
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 1000,
    "write_computation_times": False,
}

# ------------------------------------------------------------------ look

copybutton_prompt_text = r">>> |\.\.\. |\$ "  # what is copied are the commands, not their output
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "gapmix"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "gapmix"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "start": [], "comparison": []}


def setup(app: Any) -> None:
    """Connect what this file adds to Sphinx."""
    app.connect("autodoc-skip-member", skip_requests)
    app.connect("autodoc-process-docstring", describe_field, priority=100)
    app.connect("build-finished", copy_mathjax)
