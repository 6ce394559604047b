"""A room imports only from rooms above it: the folder listing is the architecture."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import gapmix

ROOT = Path(gapmix.__file__).parent
MAX_LINES = 600
ROOMS = [
    "wording",
    "storage",
    "units",
    "shapes",
    "categories",
    "kinds",
    "threads",
    "plan",
    "parameters",
    "statistics",
    "kernels",
    "structures",
    "solvers",
    "em",
    "density",
    "starts",
    "fitting",
    "selection",
    "heads",
    "engines",
    "estimators",
    "evaluate",
    "multiple",
    "modelfile",
    "tables",
    "plots",
    "report",
    "cli",
    "__main__",
    "__init__",
]


def module_name(path):
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__") if name != "__init__" else name


def imported(node):
    """Yield the modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: imports are absolute"
        inside = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [
            name if name.removeprefix("gapmix.") in MODULES else node.module for name in inside
        ]
    else:
        return
    for name in names:
        if name == "gapmix" or name.startswith("gapmix."):
            yield name.removeprefix("gapmix").removeprefix(".") or "__init__"


def room(module):
    return module.partition(".")[0]


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
IMPORTS = {
    name: {other for node in ast.walk(tree) for other in imported(node)}
    for name, tree in TREES.items()
}


def test_every_room_has_its_place_in_the_order():
    assert sorted({room(name) for name in MODULES}) == sorted(ROOMS)


def test_a_room_imports_only_from_rooms_above_it():
    wrong = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if ROOMS.index(room(other)) > ROOMS.index(room(name))
    ]
    assert wrong == []


def test_modules_of_a_room_do_not_go_round_in_circles():
    # A room's own __init__ gathers its names for others; its modules do not import from it.
    inside = {
        name: {other for other in others if room(other) == room(name)}
        for name, others in IMPORTS.items()
    }
    assert list(TopologicalSorter(inside).static_order())


def test_modules_of_the_package_are_imported_at_the_top():
    late = [
        f"{name}, line {node.lineno}"
        for name, tree in TREES.items()
        for scope in ast.walk(tree)
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(scope)
        if list(imported(node))
    ]
    assert late == []


def test_imports_are_put_off_in_few_known_places():
    # The package's own names, commands of the command line, kernels to compile, and extras.
    allowed = {"__init__", "cli.later", "kernels", "storage.extras"}
    late = {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        and (
            getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        )
        == "import_module"
    }
    assert late <= allowed


def test_no_file_is_long():
    lines = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert {name: n for name, n in lines.items() if n > MAX_LINES} == {}


def test_only_kernels_knows_numba():
    knows = {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for full in ([alias.name for alias in node.names] + [getattr(node, "module", None) or ""])
        if full.split(".")[0] == "numba"
    }
    assert all(name.split(".")[0] == "kernels" for name in knows)


def test_contributing_lists_the_rooms_in_order_and_walks_through_functions_that_exist():
    text = (ROOT.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms, walks = text.split("### The path of a row")
    listed = [
        name.strip("`/ ").removesuffix(".py")
        for line in rooms.splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].split(",")
    ]
    assert listed == ROOMS[:-2]
    steps = [line.split("|")[1:3] for line in walks.splitlines() if line.startswith("| `")]
    assert len(steps) > 10
    for room, functions in steps:
        found = {name.strip("`/ ") for name in room.split(",")}
        for function in re.findall(r"`([a-z_]+\.[\w.]+)`", functions):
            module, name = function.split(".", 1)
            path = next(
                ROOT / each / f"{module}.py"
                for each in found
                if (ROOT / each / f"{module}.py").exists()
            )
            assert f"def {name.split('.')[-1]}(" in path.read_text(encoding="utf-8"), function
