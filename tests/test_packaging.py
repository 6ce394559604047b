"""What pyproject.toml says is what the package needs, and what the workflows and README use."""

import ast
import re
import sys
import tomllib

import pytest
from tests.markdown import ROOT
from tools.oldest import lower_bounds
from tools.walk import steps

TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(TEXT)["project"]
NAMES = {"sklearn": "scikit-learn", "markupsafe": "jinja2", "llvmlite": "numba"}  # come with it


def test_whatever_the_package_imports_is_declared_and_nothing_else():
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    imported = {NAMES.get(name, name) for name in imported - set(sys.stdlib_module_names)}
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    declared = {re.split(r"[\[>]", each)[0] for one in lists for each in one}
    by_name = {"dask", "distributed", "pyarrow"}  # asked for with storage.extras.need
    assert imported - {"gapmix"} <= declared
    assert declared - imported - {"gapmix"} <= by_name


def test_one_extra_has_all_the_others():
    extras = set(PROJECT["optional-dependencies"]) - {"all"}
    (every,) = PROJECT["optional-dependencies"]["all"]
    assert set(re.findall(r"\w+", every)) == {"gapmix", *extras}


def test_the_conda_recipe_has_the_same_lower_bounds():
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    found = dict(re.findall(r"- ([a-z0-9-]+) >=([0-9.]+)", recipe.replace("-base", "")))
    bounds = lower_bounds(TEXT)
    assert found.pop("python") == PROJECT["requires-python"].removeprefix(">=")
    assert found == {name: bounds[name] for name in found}
    assert set(found) >= {re.split(">", each)[0] for each in PROJECT["dependencies"]}


def test_a_requirement_without_a_lower_bound_and_one_with_two_are_refused():
    with pytest.raises(ValueError, match="'numpy' has no lower bound"):
        lower_bounds('[project]\ndependencies = ["numpy"]')
    with pytest.raises(ValueError, match=r"numpy has two lower bounds, 1\.0 and 2\.0"):
        lower_bounds('[project]\ndependencies = ["numpy>=1.0", "numpy>=2.0"]')


def test_a_stranger_installs_the_wheel_first_and_then_runs_every_command_of_the_readme():
    walk = [step[-1] for step in steps((ROOT / "README.md").read_text("utf-8"), "gapmix.whl")]
    assert walk[0] == 'pip install "gapmix.whl[all]"'
    assert [line.split()[1] for line in walk[1:4]] == ["demo", "impute", "report"]
    assert "GaussianMixtureImputer" in walk[4]


def test_actions_are_pinned_by_commit():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        uses = re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
        assert uses
        assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each) for each in uses), path
