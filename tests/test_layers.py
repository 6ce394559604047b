"""A module imports only from modules above it: the folder listing is the architecture."""

import ast
from pathlib import Path

import gapmix

ROOT = Path(gapmix.__file__).parent
MAX_LINES = 600
ORDER = [
    *("atomicfile", "recordfile"),
    *("patterns", "trees", "costs", "plan", "scaling", "rows", "parameters", "statistics"),
    *(
        "kernels.compiled",
        "kernels.blas",
        "kernels.twins",
        "kernels.factors",
        "kernels.vectors",
        "kernels.triangles",
        "kernels.row_tiles",
        "kernels.interleaved",
        "kernels.completing",
        "kernels.lanes",
    ),
    "kernels",
    *("solvers.contract", "solvers.naive", "solvers.naive_row", "solvers.diagonal"),
    *(
        "solvers.root_form",
        "solvers.dual",
        "solvers.moving",
        "solvers.paper",
        "solvers.tree",
        "solvers",
    ),
    *(
        "covariance",
        "initialize",
        "repair",
        "accelerate",
        "stopping",
        "em",
        "conditional",
        "regroup",
        "starts",
        "selection",
        "calibrate",
    ),
    *("checkpoint", "sources"),
    *(
        "engines.contract",
        "engines.scratch",
        "engines.threads",
        "engines.dask",
        "engines.choose",
        "engines",
    ),
    *("density", "shards", "online"),
    *("estimators.warning", "estimators.validation", "estimators.options"),
    *(
        "estimators.progress",
        "estimators.glance",
        "estimators.starting",
        "estimators.climb",
        "estimators.streamed",
        "estimators.stream",
    ),
    "estimators.mixture",
    *("estimators.automatic", "estimators.bounds", "estimators.labels", "estimators.imputer"),
    *("estimators.regressor", "estimators.classifier", "estimators.tablemodel", "estimators"),
    *("text", "multiple", "hiding", "scores", "evaluate"),
    *("modelvalues", "mixturerecord", "modelfile"),
    *("tables.dialect", "tables.schema", "tables.textfile", "tables.cells", "tables.source"),
    *("tables.scan", "tables.coding", "tables.frames", "tables.sink", "tables"),
    *("plots.canvas", "plots.gaps", "plots.plans", "plots.filled", "plots.results", "plots"),
    *("report.words", "report.gaps", "report.randomness", "report.subject", "report.model"),
    *("report.filling", "report.judging", "report.pictures", "report.sections", "report.results"),
    "report.page",
    "report",
    *("jobs.requests", "jobs.models", "jobs.fitting", "jobs.drawing", "jobs.filling"),
    *("jobs.pieces", "jobs.streaming"),
    *("jobs.looking", "jobs.evaluating", "jobs.reporting", "jobs"),
    *("screen", "commands", "cli", "__main__", "__init__"),
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


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def test_every_module_has_its_place_in_the_order():
    assert sorted(set(MODULES) - set(ORDER)) == []


def test_a_module_imports_only_from_modules_above_it():
    place = {name: i for i, name in enumerate(ORDER)}
    wrong = [
        f"{name} imports {other}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        for other in imported(node)
        if place.get(other, len(place)) >= place.get(name, -1)
    ]
    assert wrong == []


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
