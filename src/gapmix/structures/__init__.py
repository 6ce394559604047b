"""What a component is: its covariance's shape, M step, priors, coordinates and form on file.

Each structure is one file and one line here. Others ask it; nobody else looks at the number of
dimensions of a covariance, or compares names. One with factors says how many in its full name:
`STRUCTURES["factor(7)"]`.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gapmix.structures.contract import Chart, Structure
from gapmix.structures.diag import Diag
from gapmix.structures.factor import Factor, OneNoise
from gapmix.structures.full import Full
from gapmix.structures.spherical import Spherical
from gapmix.structures.tied import Tied

WIDE, WIDEST = 100, 500  # columns up to which covariances are full, and from which on they are not
ROWS_PER_COLUMN = 5  # that full covariances take in between


class Structures(Mapping[str, Structure]):
    """Structures by name; those with factors by name and number of these too."""

    def __init__(self, plain: Mapping[str, Structure], factored: Mapping[str, type]) -> None:
        self._plain = dict(plain)
        self._factored = dict(factored)
        self._make = cache(lambda name, n_factors: self._factored[name](n_factors))

    def __getitem__(self, name: str) -> Structure:
        if name in self._plain:
            return self._plain[name]
        if name in self._factored:
            return self[f"{name}(1)"]
        kind, _, number = name.partition("(")
        digits = number.removesuffix(")")
        whole = digits.isdecimal() and number == f"{digits})" and int(digits) > 0
        if kind not in self._factored or not whole:
            raise KeyError(name)
        made: Structure = self._make(kind, int(digits))
        return made

    def __iter__(self) -> Iterator[str]:
        return iter((*self._plain, *self._factored))

    def __len__(self) -> int:
        return len(self._plain) + len(self._factored)


STRUCTURES = Structures(
    {
        "full": Full(),
        "tied": Tied(),
        "diag": Diag(),
        "spherical": Spherical(),
    },
    {"factor": Factor, "ppca": OneNoise},
)


def suit(n_rows: int, d: int) -> str:
    """Return what covariances suit a table: full, or factors where it has very many columns.

    A matrix for each component takes d^2 numbers, and these some rows for each column.
    """
    wide = d > WIDE and (d > WIDEST or n_rows < ROWS_PER_COLUMN * d)
    return "factor" if wide else "full"


def name_structure(covariance_type: Any, n_factors: int) -> Any:
    """Return the full name of a structure, with the number of its factors if it has any.

    What is not the name of one comes back as it is, for whoever checks it.
    """
    known = isinstance(covariance_type, str) and covariance_type in STRUCTURES
    if known and STRUCTURES[covariance_type].n_factors:
        kind = STRUCTURES[covariance_type].covariance_type
        return f"{kind}({n_factors})"
    return covariance_type


__all__ = ["STRUCTURES", "Chart", "Structure", "name_structure", "suit"]
