"""Follow every internal link of the built site: `python docs/check_links.py docs/_build/html`.

Prints those that lead nowhere, to a file that is not there or to a place it does not have, and then
exits with 1.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places that others can link to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag links to, and its own name."""
        for name, value in attrs:
            if value is None:
                continue
            if name in ("href", "src"):
                self.links.append(value)
            elif name in ("id", "name"):
                self.places.add(value)


def find_dead(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere."""
    site = site.resolve()
    files = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path.read_text()) for path in files}
    dead = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found, place = pages.get(target), unquote(parts.fragment)
            if not target.exists() or (place and found is not None and place not in found.places):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


if __name__ == "__main__":
    lost = find_dead(Path(sys.argv[1]))
    print("\n".join(lost) or "Every internal link leads somewhere.")
    sys.exit(bool(lost))
