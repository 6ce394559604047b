"""What a component is: its covariance's shape, M step, priors, coordinates and form on file.

Each structure is one file and one line here. Others ask it; nobody else looks at the number of
dimensions of a covariance, or compares names.
"""

from types import MappingProxyType

from gapmix.structures.contract import Chart, Structure
from gapmix.structures.diag import Diag
from gapmix.structures.full import Full
from gapmix.structures.spherical import Spherical
from gapmix.structures.tied import Tied

STRUCTURES: MappingProxyType[str, Structure] = MappingProxyType(
    {
        "full": Full(),
        "tied": Tied(),
        "diag": Diag(),
        "spherical": Spherical(),
    }
)

__all__ = ["STRUCTURES", "Chart", "Structure"]
