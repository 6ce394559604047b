"""Measure the constants of `costs` on this machine, once, and keep them.

The file is `gapmix/costs.json` in the user's cache folder; GAPMIX_COSTS names one to use as it is.
Small tables never need it: there any choice is fast.
"""

import json
import logging
import os
import platform
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gapmix import kernels
from gapmix.kernels.records import Components, Solved, Sums
from gapmix.plan.costs import DEFAULT, Costs
from gapmix.plan.forests import Route
from gapmix.plan.layout import LANES, lay_out
from gapmix.plan.patterns import Patterns
from gapmix.plan.planner import predict
from gapmix.plan.trees import Tree, schedule
from gapmix.solvers.moving import MovingFactor
from gapmix.solvers.tree import move, travel
from gapmix.storage.atomicfile import replace_file

logger = logging.getLogger("gapmix")

WORTH_MEASURING = 0.05  # predicted seconds of an E step below which any choice will do
SIZES = (4, 16, 64, 128, 256, 512)
FORMAT = 3


def costs_for(patterns: Patterns, n_components: int) -> Costs:
    """Return measured costs if the table is large enough to care, else the built-in ones."""
    if "GAPMIX_COSTS" in os.environ:
        return _read(Path(os.environ["GAPMIX_COSTS"]), any_machine=True) or DEFAULT
    if predict(patterns, n_components, DEFAULT)["dual"] < WORTH_MEASURING:
        return DEFAULT
    return keep_costs()


@cache
def keep_costs() -> Costs:
    """Return this machine's costs from the user's folder, measuring them if there are none."""
    folder = os.environ.get("XDG_CACHE_HOME")
    try:
        path = (Path(folder) if folder else Path.home() / ".cache") / "gapmix" / "costs.json"
    except RuntimeError as error:  # nobody's home is known, as in some containers
        logger.info("measuring this machine (about a second), kept nowhere: %s", error)
        return measure()
    kept = _read(path)
    if kept is None:
        logger.info("measuring this machine once (about a second), kept in %s", path)
        kept = measure()
        _write(kept, path)
    return kept


def measure() -> Costs:
    """Time the primitives at a few sizes of index sets."""
    rng = np.random.default_rng(0)
    scratch, cholesky, append, delete, solve = [], [], [], [], []
    for k in SIZES:
        root = rng.normal(size=(k + 1, 2 * k + 2))
        matrix = root @ root.T / (2 * k + 2) + np.eye(k + 1)
        scratch.append(_scratch(k, rng))
        small = matrix[:k, :k]
        cholesky.append(_best(lambda a=small: lapack.dpotrf(a.T, lower=0)))  # type: ignore[misc]
        factor = MovingFactor(k + 1)
        factor.start(matrix, np.arange(k))
        rows = rng.normal(size=(1, k))
        solve.append(_best(lambda f=factor, r=rows: _solve_both(f, r.copy())))  # type: ignore[misc]
        append.append(_move_once(matrix, k, entering=True))
        delete.append(_move_once(matrix, k, entering=False))
    return Costs(
        SIZES,
        tuple(scratch),
        tuple(cholesky),
        tuple(append),
        tuple(delete),
        tuple(solve),
        _node(append[0]),
        _multiply_add(rng),
    )


def _write(costs: Costs, path: Path) -> None:
    """Keep costs in a file; a folder that cannot be written to is not an error."""
    record = {"format": FORMAT, "machine": _machine(), **costs._asdict()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, [json.dumps(record).encode()])
    except OSError as error:
        logger.info("measured costs could not be kept: %s", error)


def _read(path: Path, *, any_machine: bool = False) -> Costs | None:
    """Return costs from a file, or None if there is none that fits this machine."""
    try:
        record = json.loads(path.read_text())
        same = any_machine or record["machine"] == _machine()
        if record["format"] != FORMAT or not same:
            return None
        fields: list[Any] = [record[name] for name in Costs._fields]
        costs = Costs._make(tuple(field) if isinstance(field, list) else field for field in fields)
        _check(costs)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        logger.info("%s holds no costs and is not used: %r", path, error)
        return None
    return costs


def _check(costs: Costs) -> None:
    """Raise a ValueError unless all numbers are positive, and sizes increase."""
    *tables, node, multiply_add = costs
    single = np.array([node, multiply_add], dtype=float)
    table = np.array(tables, dtype=float)  # (primitives and sizes, sizes)
    increase = table.ndim == 2 and table.shape[1] > 1 and (np.diff(table[0]) > 0).all()
    if not increase or not all(((each > 0) & (each < np.inf)).all() for each in (single, table)):
        raise ValueError("costs must be positive, at increasing sizes")


def _machine() -> str:
    return f"{platform.machine()} {platform.processor()} {os.cpu_count()} {np.__version__}"


def _best(function: Callable[[], object], *, seconds: float = 0.004, repeats: int = 3) -> float:
    """Return the shortest mean time of a few series of calls."""
    began = time.perf_counter()
    function()
    once = max(time.perf_counter() - began, 1e-7)
    number = max(1, int(seconds / once))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(number):
            function()
        times.append((time.perf_counter() - began) / number)
    return min(times)


def _scratch(k: int, rng: np.random.Generator) -> float:
    """Time one pattern in `dual`: gather, factor, invert, add up."""
    lanes, single = kernels.load("lanes"), kernels.load("single")
    d = 2 * k + 8
    n_patterns = 64 if k <= 64 else 8
    observed = np.ones((n_patterns, d), dtype=bool)
    for row in observed:
        row[rng.choice(d, k, replace=False)] = False
    batches = lay_out(observed, np.arange(n_patterns + 1))
    root = rng.normal(size=(d, 2 * d))
    matrix = root @ root.T / (2 * d) + np.eye(d)
    if batches.n_small == 0:

        def large() -> None:
            small = np.empty((k, k))
            for s in (np.flatnonzero(~row) for row in observed):
                single.take_block(matrix, s, small)
                chol, _ = lapack.dpotrf(small.T, lower=0)
                single.add_lower(total, s, lapack.dpotri(chol, lower=0)[0].T, 1.0)

        total = np.zeros((d, d))
        return _best(large) / n_patterns

    one = np.zeros(1, dtype=np.int64)
    components = Components(np.zeros((1, d)), *3 * (matrix[None],), np.zeros(1))
    packed = np.empty((1, batches.n_packed, LANES))
    solved = Solved(np.ones((1, batches.n_solution)), packed, np.empty((1, n_patterns)))
    first, second = np.zeros((1, d)), np.zeros((1, d, d))
    sums = Sums(np.zeros(1), first, second, first.copy(), second.copy())
    resp = np.ones((1, n_patterns))

    def small() -> None:
        lanes.solve_block(batches, components, one, solved)
        lanes.add_block(batches, one, solved, resp, sums)

    return _best(small) / n_patterns


def _solve_both(factor: MovingFactor, rows: np.ndarray) -> None:
    factor.solve(rows, transposed=True)
    factor.solve(rows, transposed=False)


def _move_once(matrix: np.ndarray, k: int, *, entering: bool) -> float:
    """Time one variable going into a factor of k variables, or out of one of k + 1."""
    size = k if entering else k + 1
    source, factor = MovingFactor(k + 1), MovingFactor(k + 1)
    source.start(matrix, np.arange(size))
    nothing = np.empty(0, dtype=int)
    change = (nothing, np.array([k])) if entering else (np.array([k // 2]), nothing)

    def once() -> None:
        factor.copy_from(source)
        move(factor, matrix, *change)

    return _best(once)


def _node(append: float) -> float:
    """Time what a node of a walk costs beside its move, on a chain of tiny sets."""
    n, d = 40, 8
    members = np.zeros((n, d), dtype=bool)
    members[:, 0] = True
    members[1::2, 1] = True
    tree = Tree(members, n, np.arange(-1, n - 1))
    route = Route(tree, schedule(tree), np.arange(n), True)
    whole = _best(lambda: travel(np.eye(d), route, lambda pattern, factor: None)) / n
    return max(whole - append, 1e-6)


def _multiply_add(rng: np.random.Generator) -> float:
    a, b = rng.normal(size=(2048, 128)), rng.normal(size=(128, 128))
    return _best(lambda: a @ b) / (2048 * 128 * 128)
