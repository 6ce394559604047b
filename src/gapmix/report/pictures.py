"""Pictures of a report as SVG that lives inside a page and takes on its colours."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np

from gapmix.estimators.mixture import GaussianMixture
from gapmix.evaluate.scores import Evaluation
from gapmix.plan.patterns import Patterns
from gapmix.plots.canvas import BAR, EDGE, FILLED, GAP, RULE, SHOWN, new_figure
from gapmix.plots.filled import draw_marginal, plot_convergence
from gapmix.plots.gaps import plot_patterns
from gapmix.plots.results import draw_candidates, draw_errors
from gapmix.selection.sizes import Candidate
from gapmix.wording import label

with suppress(ImportError):  # told before anything is drawn
    import matplotlib
    from matplotlib import colors, ticker

INK = "#010203"  # stands for the colour of the text around a picture
HIGH, LOW, MIDDLE = "#c05621", "#2b6cb0", "#f7f7f7"
IN_PAGE = {  # colours that a dark page changes
    INK: "currentColor",
    SHOWN: "var(--known)",
    GAP: "var(--gap)",
    FILLED: "var(--chosen)",
    BAR: "var(--known-bar)",
    EDGE: "var(--known-edge)",
    RULE: "var(--line)",
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
}
STYLE: Any = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "text.parse_math": False,  # $ in a name is a dollar
    "text.usetex": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "gapmix",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.unicode_minus": True,
}
FONTS = "'DejaVu Sans', Verdana, sans-serif"  # of nearly the same widths
MAX_TICK = 20  # characters of a name beside an axis
POINT = 96 / 72  # CSS pixels
ENLARGED = 1.3  # at most, where there is room


class Picture(NamedTuple):
    """A picture on its way into the page."""

    svg: str
    alternative: str  # the text in its place
    caption: str  # the text below it


@contextmanager
def _styled() -> Iterator[None]:
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A letter that the font here lacks is drawn by the browser's.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def draw_patterns(patterns: Patterns, names: Sequence[str], most: int) -> str:
    """Draw the most frequent patterns, how many rows they have and the share missing by column."""
    with _styled():
        ax = new_figure(4.6, 1.9 + 0.19 * min(most, len(patterns.observed))).add_subplot()
        ticks = [label(name, MAX_TICK) for name in names]
        plot_patterns(patterns, max_patterns=most, feature_names=ticks, ax=ax)
        ax.set_title("", loc="left")
        ax.child_axes[0].get_legend().remove()  # the page has one
        return _to_svg(ax.figure)


def draw_known_and_filled(known: np.ndarray, drawn: np.ndarray) -> str:
    """Draw the known values of a column and random ones of its gaps."""
    with _styled():
        sheet = new_figure(2.7, 1.75)
        draw_marginal(sheet.add_subplot(), known, drawn)
        return _to_svg(sheet)


def draw_selection(tried: tuple[Candidate, ...]) -> str:
    """Draw the error of hidden cells against the number of components."""
    with _styled():
        sheet = new_figure(4.6, 2.4)
        ax = sheet.add_subplot()
        draw_candidates(ax, tried, [each.error for each in tried])
        ax.yaxis.set_major_locator(ticker.MaxNLocator(4))
        ax.set(xlabel="number of Gaussians", ylabel="error of hidden cells")
        ax.legend(frameon=False, fontsize=8)
        return _to_svg(sheet)


def draw_climb(mixture: GaussianMixture) -> str:
    """Draw how the objective rose by iteration."""
    with _styled():
        ax = plot_convergence(mixture, ax=new_figure(4.6, 2.4).add_subplot())
        ax.set_title("", loc="left")
        ax.yaxis.set_major_locator(ticker.MaxNLocator(4))
        legend = ax.get_legend()
        if legend is not None and len(legend.get_texts()) == 1:
            legend.remove()
        return _to_svg(ax.figure)


def draw_profiles(deviations: np.ndarray, shares: Sequence[str], names: Sequence[str]) -> str:
    """Draw components (K, c) as columns of a heat map, standard deviations from the mean."""
    n_components, n_columns = deviations.shape
    limit = float(np.clip(np.abs(deviations).max(initial=0.0), 0.5, 3.0))
    with _styled():
        sheet = new_figure(4.6, 1.5 + 0.22 * n_columns)
        ax = sheet.add_subplot()
        mesh = ax.pcolormesh(
            deviations.T,
            cmap=colors.LinearSegmentedColormap.from_list("profile", [LOW, MIDDLE, HIGH]),
            vmin=-limit,
            vmax=limit,
        )
        ax.invert_yaxis()
        ax.set_yticks(np.arange(n_columns) + 0.5, [label(name, MAX_TICK) for name in names])
        ax.set_xticks(np.arange(n_components) + 0.5, shares, fontsize=7.5)
        ax.xaxis.tick_top()
        ax.set_xlabel("share of the rows, %", fontsize=8)
        ax.xaxis.set_label_position("top")
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        bar = sheet.colorbar(mesh, ax=ax, location="bottom", fraction=0.06, aspect=40, pad=0.02)
        bar.set_label("standard deviations from the column's mean", fontsize=8)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)
        bar.solids.set_rasterized(False)
        bar.solids.set_edgecolor("face")  # no seams
        return _to_svg(sheet)


def draw_hidden(evaluation: Evaluation, columns: dict[str, str]) -> str:
    """Draw the errors of methods, a line for each of the columns named."""
    with _styled():
        sheet = new_figure(4.6, 1.4 + 0.26 * len(columns))
        ticks = {column: label(name, MAX_TICK) for column, name in columns.items()}
        handles = draw_errors(sheet.add_subplot(), evaluation, ticks)
        look: dict[str, Any] = {"frameon": False, "fontsize": 8, "columnspacing": 1}
        sheet.legend(handles=handles, loc="outside upper left", ncols=4, **look)
        return _to_svg(sheet)


def _to_svg(sheet: Any) -> str:
    """Return a figure as SVG; the same figure gives the same text."""
    out = io.StringIO()
    sheet.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    return out.getvalue()


def embed(svg: str, number: int, alternative: str) -> str:
    """Return an SVG to stand in a page as its picture `number`, `alternative` for who cannot see.

    Nothing in it names the outside, no identifier repeats in the page, colours are the page's.
    `alternative` must be escaped already. Texts of a picture hold no < and no >, so what stands
    between these is the drawing's own.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    head, body = body.split(">", 1)
    view = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)
    assert view is not None
    tags = re.findall(r"<[^<>]+>", body)
    used = {name for tag in tags for name in re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", tag)}
    body = re.sub(r"<[^<>]+>", lambda match: _fit_tag(match[0], f"p{number}-", used), body)
    body = re.sub(r">\s+<", "><", body)
    width = ENLARGED * float(view[1]) * POINT
    return (
        f'<svg role="img" aria-label="{alternative}" viewBox="0 0 {view[1]} {view[2]}" '
        f'style="max-width:{width:.0f}px">{body.rstrip()}'
    )


def _fit_tag(tag: str, prefix: str, used: set[str]) -> str:
    """Return a tag with names of its own picture and colours of the page."""
    tag = re.sub(r'\s+id="([^"]*)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", tag)
    tag = tag.replace("url(#", f"url(#{prefix}").replace('xlink:href="#', f'href="#{prefix}')
    tag = tag.replace("xlink:href=", "href=").replace("'DejaVu Sans'", FONTS)
    for color, variable in IN_PAGE.items():
        tag = tag.replace(f": {color}", f": {variable}")
    return tag
