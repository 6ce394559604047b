"""Print the lower bounds of all that gapmix and its tests need, as constraints for pip.

`make test-oldest` installs exactly these, so that pyproject.toml promises nothing untried.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?>=([0-9][0-9.]*)")


def lower_bounds(pyproject: str) -> dict[str, str]:
    r"""Return each package with the oldest version allowed; a package has one bound everywhere.

    Examples
    --------
    >>> lower_bounds('[project]\ndependencies = ["numpy>=1.26"]')
    {'numpy': '1.26'}
    """
    table = tomllib.loads(pyproject)
    project = table["project"]
    lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    lists.append(table.get("dependency-groups", {}).get("test", []))
    bounds: dict[str, str] = {}
    for requirement in (each for one in lists for each in one):
        if requirement.startswith(f"{project.get('name', 'gapmix')}["):  # an extra of extras
            continue
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise ValueError(f"'{requirement}' has no lower bound. Write 'name>=version'.")
        name, version = found.groups()
        if bounds.setdefault(name, version) != version:
            raise ValueError(f"{name} has two lower bounds, {bounds[name]} and {version}.")
    return bounds


if __name__ == "__main__":
    for name, version in lower_bounds(PYPROJECT.read_text(encoding="utf-8")).items():
        print(f"{name}=={version}")
