"""What is in a Markdown page: fenced blocks, headings, links and tables of contents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
FENCE = re.compile(r"^(```+)(\S*)[^\n]*\n(.*?)^\1\s*$", re.DOTALL | re.MULTILINE)


class Fenced(NamedTuple):
    """A fenced block of a page."""

    kind: str  # what stands after the fence
    text: str
    line: int  # of the page


def blocks(page: Path) -> list[Fenced]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text()
    return [
        Fenced(found[2], found[3], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return a page without its fenced blocks and inline code."""
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", FENCE.sub("", page.read_text()))


def links(page: Path) -> list[str]:
    """Return the targets of links and images that are not addresses of the web."""
    targets = re.findall(r"\]\(<?([^)>\s]+)>?\)", prose(page))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as GitHub and MyST make them."""
    headings = re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        for heading in headings
    }


def listed(page: Path) -> list[str]:
    """Return what the tables of contents of a page list."""
    lines = [
        line.strip()
        for block in blocks(page)
        if block.kind == "{toctree}"
        for line in block.text.splitlines()
    ]
    return [line for line in lines if line and not line.startswith(":")]
