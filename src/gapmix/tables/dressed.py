"""Numbers with separators, signs or units, such as $1,234.50 or 70 kg, and back.

The spelling of such a column is a pattern as spreadsheets have it: "$#,##0.00", "0.0 kg", "0%".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from gapmix.estimators.levels import is_numeral
from gapmix.estimators.marks import Marks
from gapmix.tables.cells import Parsed, without_gaps

pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

MOST = 0.9  # of the distinct texts of a column, which are alike
SIGNS = "%€$£¥"
UNIT = r"[^\W\d_]{1,4}"  # kg, cm, EUR
STYLES = {".": (r"[,'\s]", r"\."), ",": (r"[.'\s]", ",")}  # between thousands, before decimals
SPELLING = re.compile(
    rf"(?P<before>[{SIGNS}]?\s?)(#(?P<group>[,.'\s])##)?0"
    rf"((?P<point>[.,])(?P<decimals>0+))?(?P<after>\s?([{SIGNS}]|{UNIT})?)"
)


class Dress(NamedTuple):
    """What is written around and between the digits of numbers."""

    before: str
    group: str  # between thousands, or nothing
    point: str
    n_decimals: int
    after: str


def find_dressed(texts: Collection[str], decimal: str) -> str:
    """Return one of the texts if nearly all are numbers in the same dress, else nothing."""
    if not find_dress(texts, decimal):
        return ""
    return next((t for t in map(str.strip, texts) if not is_numeral(t.replace(decimal, "."))), "")


def find_dress(texts: Collection[str], decimal: str) -> str:
    """Return how texts spell numbers if nearly all do in the same dress; nothing if it is plain.

    Where the signs of the table, with this `decimal`, do not read them, the other ones may. A unit
    is one if nearly all texts have it: '12 B' and '12 C' are names of houses.
    """
    for point in (decimal, "," if decimal == "." else "."):
        found = [match for text in texts if (match := _match(text.strip(), point))]
        units = Counter(match["after"].strip() for match in found)
        unit = max(units, key=lambda each: units[each], default="")
        found = [match for match in found if match["after"].strip() == unit]
        if found and len(found) >= MOST * len(texts):
            break
    else:
        return ""
    [(before, _)] = Counter(match["before"] for match in found).most_common(1)
    [(after, _)] = Counter(match["after"] for match in found).most_common(1)
    groups = Counter(match["group"] for match in found if match["group"])
    group = groups.most_common(1)[0][0] if groups else ""
    n_decimals = max(len(match["decimals"] or "") for match in found)
    if not (before or group or after) and (point == decimal or not n_decimals):
        return ""
    return _spell(Dress(before, group, point, n_decimals, after))


def _match(text: str, point: str) -> re.Match[str] | None:
    """Return the parts of a number whose decimals follow this sign."""
    between, before_decimals = STYLES[point]
    number = rf"(\d{{1,3}}(?P<group>{between})\d{{3}}((?P=group)\d{{3}})*|\d+)"
    return re.fullmatch(
        rf"[+-]?(?P<before>[{SIGNS}]?\s?)[+-]?{number}({before_decimals}(?P<decimals>\d+))?"
        rf"(?P<after>\s?([{SIGNS}]|{UNIT})?)",
        text,
    )


def _spell(dress: Dress) -> str:
    group = f"#{dress.group}##" if dress.group else ""
    decimals = dress.point + "0" * dress.n_decimals if dress.n_decimals else ""
    return f"{dress.before}{group}0{decimals}{dress.after}"


def is_dress(spelling: str) -> bool:
    """Tell whether a spelling is one of numbers."""
    return SPELLING.fullmatch(spelling) is not None


def _read_dress(spelling: str) -> Dress:
    match = SPELLING.fullmatch(spelling)
    assert match is not None
    before, group, after = match["before"], match["group"] or "", match["after"]
    return Dress(before, group, match["point"] or "", len(match["decimals"] or ""), after)


def read_dressed(cells: Any, marks: Marks, spelling: str) -> Parsed:
    """Return a narwhals series of texts as numbers."""
    dress = _read_dress(spelling)
    texts = nw.to_native(cells).str.strip_chars()
    grouped = rf"\d{{1,3}}(?:{re.escape(dress.group)}\d{{3}})+|" if dress.group else ""
    decimals = rf"(?:{re.escape(dress.point)}\d+)?" if dress.point else ""
    before, after = re.escape(dress.before.strip()), re.escape(dress.after.strip())
    pattern = rf"^([+-]?){before}\s?([+-]?)((?:{grouped}\d+){decimals})\s?{after}$"
    digits = texts.str.extract(pattern, 3)
    if dress.group:
        digits = digits.str.replace_all(dress.group, "", literal=True)
    if dress.point:
        digits = digits.str.replace(dress.point, ".", literal=True)
    values = digits.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy().copy()
    negative = (texts.str.extract(pattern, 1) == "-") | (texts.str.extract(pattern, 2) == "-")
    values[negative.fill_null(False).to_numpy()] *= -1.0
    return without_gaps(texts, values, marks)


def write_dressed(values: np.ndarray, spelling: str) -> Any:
    """Return numbers in a spelling, a polars series of texts."""
    dress = _read_dress(spelling)
    signs = str.maketrans({",": dress.group, ".": dress.point})
    texts = []
    for value in values.tolist():
        digits = f"{abs(value):,.{dress.n_decimals}f}".translate(signs)
        minus = "-" if value < 0 and digits.strip("0,.' ") else ""
        texts.append(f"{minus}{dress.before}{digits}{dress.after}")
    return pl.Series(texts, dtype=pl.String)
