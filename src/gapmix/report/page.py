"""A report as one page of HTML: sections, pictures and provenance put into the template."""

import re
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np
import sklearn

from gapmix.plots.canvas import require_matplotlib
from gapmix.report.filling import describe_filled
from gapmix.report.gaps import describe
from gapmix.report.judging import judge
from gapmix.report.model import describe_model
from gapmix.report.pictures import Picture, embed
from gapmix.report.randomness import look_for_dependence
from gapmix.report.results import write_caveat, write_filled, write_judged
from gapmix.report.sections import count_columns, count_gaps, write_gaps, write_model
from gapmix.report.subject import Subject
from gapmix.wording import chance, count, duration, label, number, percent, plus_minus

jinja2: Any = None
markupsafe: Any = None
with suppress(ImportError):
    import jinja2
    import markupsafe

MISSING = 'A report needs jinja2 and matplotlib: pip install "gapmix[report]"'
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
FOLDER = Path(__file__).parent


def require_report() -> None:
    """Raise an error that says what to install, if something is missing."""
    if jinja2 is None:
        raise ImportError(MISSING)
    try:
        require_matplotlib()
    except ImportError as error:
        raise ImportError(MISSING) from error


def compose(subject: Subject) -> str:
    """Return the report on a table and the model fitted to it, as HTML."""
    require_report()
    began = time.perf_counter()
    subject.progress("Looking at the gaps")
    gaps = describe(subject.x, subject.levels)
    subject.progress("Testing whether gaps depend on values")
    hints = look_for_dependence(_without_order(subject))
    subject.progress("Filling")
    filled = describe_filled(subject)
    subject.progress("Hiding known cells to see how well they are filled")
    judged = judge(subject)
    subject.progress("Drawing")
    parts = {
        "gaps": write_gaps(gaps, subject),
        "model": write_model(describe_model(subject), subject),
        "filled": write_filled(filled, subject),
        "judged": write_judged(judged, subject),
        "caveat": write_caveat(hints, gaps, subject),
    }
    n, d = len(subject.x), count_columns(subject)
    figures = [
        (f"{n:,}", "row" if n == 1 else "rows"),
        (f"{d:,}", "column" if d == 1 else "columns"),
        (percent(count_gaps(gaps, subject) / max(1, n * d)), "of the cells missing"),
        *parts["judged"].get("figures", ()),
    ]
    numbered = _embed_all(parts)
    html: str = _template().render(
        title=label(subject.title, 80),
        names=[label(name) for name in subject.names],
        policy=POLICY,
        figures=figures,
        notes=[label(note, 400) for note in subject.notes],
        provenance=_provenance(subject, time.perf_counter() - began),
        style=markupsafe.Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        **numbered,
    )
    return re.sub(r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", html)


def _without_order(subject: Subject) -> np.ndarray:
    """Return the table with categories that do not vary: their codes have no order to test."""
    x = subject.x.copy() if subject.levels else subject.x
    for j in subject.levels:
        x[~np.isnan(x[:, j]), j] = 0.0
    return x


def _template() -> Any:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER, encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ways = (chance, label, number, percent, plus_minus)
    environment.filters |= {way.__name__: way for way in ways}
    return environment.get_template("template.html")


def _embed_all(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the sections with their pictures ready to stand in one page."""
    n_pictures = 0

    def walk(value: Any) -> Any:
        nonlocal n_pictures
        if isinstance(value, Picture):
            n_pictures += 1
            alternative = str(markupsafe.escape(value.alternative))
            svg = embed(value.svg, n_pictures, alternative)
            return value._replace(svg=markupsafe.Markup(svg))
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return value

    return {name: walk(part) for name, part in parts.items()}


def _provenance(subject: Subject, seconds: float) -> list[tuple[str, str]]:
    defaults = type(subject.imputer)().get_params()
    settings = [
        f"{name}={value!r}"
        for name, value in subject.imputer.get_params().items()
        if name not in ("n_jobs", "verbose")
        and (repr(value) != repr(defaults[name]) or name in ("n_components", "random_state"))
    ]
    try:
        ours = version("gapmix")
    except PackageNotFoundError:  # used from its sources
        ours = "unknown"
    n, d = subject.x.shape
    return [
        *((name, label(text, 400)) for name, text in subject.provenance),
        ("Used", f"{count(n, 'row')}, {_count_used(d, len(subject.levels))}"),
        ("Settings", label(", ".join(settings), 600)),
        ("Seed of the report", f"{subject.seed} (for hidden cells and random draws)"),
        (
            "Made by",
            f"gapmix {ours}, Python {python_version()}, NumPy {np.__version__}, scikit-learn "
            f"{sklearn.__version__}",
        ),
        ("Made on", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, in {duration(seconds)}"),
    ]


def _count_used(d: int, n_categories: int) -> str:
    if not n_categories:
        return f"{count(d, 'column')} of numbers"
    categories = f"{n_categories:,} {'category' if n_categories == 1 else 'categories'}"
    return f"{count(d, 'column')}, including {categories}"
