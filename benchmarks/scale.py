"""How an iteration grows with rows, workers, partitions and columns, and what it sends.

    python -m benchmarks.scale            # a few minutes; writes a table to stdout

Every line is one shape: seconds of one pass over the shards, on threads and on a local Dask cluster
with the same shards, taken in turn, the smallest of several; and bytes that cross per pass.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from distributed import Client

from gapmix import units as scaling
from gapmix.engines.contract import ShardEngine
from gapmix.engines.dask import DaskEngine, open_local_cluster
from gapmix.engines.local import ShardThreads
from gapmix.engines.shards import Message, ShardedRows, Spec, build
from gapmix.engines.sources import open_source
from gapmix.parameters import Parameters
from gapmix.plan.costs import DEFAULT
from gapmix.plan.rows import prepare_rows
from gapmix.solvers import SOLVERS


class Shape(NamedTuple):
    """One point of the study."""

    n: int
    d: int
    n_components: int
    n_shards: int
    n_workers: int


class Result(NamedTuple):
    """Seconds and bytes of one pass."""

    shape: Shape
    threads: float
    dask: float
    sent: int  # bytes of parameters, all workers
    received: int  # bytes of statistics, all shards


def shapes(*, small: bool) -> Iterator[Shape]:
    """Yield the points: one direction varied at a time."""
    n = 20_000 if small else 100_000
    base = Shape(n, 30, 3, 4, 2)
    yield base
    for factor in (2,) if small else (2, 4):
        yield base._replace(n=factor * n)
    yield base._replace(n_workers=1)
    for n_shards in (16,) if small else (2, 16, 64):
        yield base._replace(n_shards=n_shards)
    for d in (10,) if small else (10, 60):
        yield base._replace(d=d)


def make_rows(shape: Shape) -> np.ndarray:
    """Return rows of a few clusters with 10 % gaps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(shape.n, shape.d)) + rng.integers(0, 3, size=(shape.n, 1))
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


def measure(shape: Shape, client: Client, repeats: int) -> Result:
    """Return the smallest seconds of passes on both engines, in turn."""
    x = make_rows(shape)
    source = open_source(x, rows_per_piece=-(-shape.n // shape.n_shards))
    units = scaling.measure(x, np.ones(len(x)))
    common = np.arange(shape.d), units, shape.n_components, "dual", DEFAULT
    specs = [Spec(piece, None, *common) for piece in source.pieces]
    rng = np.random.default_rng(1)
    parameters = Parameters(
        np.full(shape.n_components, 1.0 / shape.n_components),
        rng.normal(size=(shape.n_components, shape.d)),
        np.stack([np.eye(shape.d)] * shape.n_components),
        "full",
    )
    prepared = SOLVERS["dual"].prepare(parameters)
    engines: dict[str, ShardEngine] = {
        "threads": ShardThreads(shape.n_workers, 2**32),
        "dask": DaskEngine(client),
    }
    few = prepare_rows(x[:100], np.ones(100), shape.n_components, units=units)
    rows = {
        name: ShardedRows(engine, "dual", float(shape.n), few, f"{name}-{id(engine)}")
        for name, engine in engines.items()
    }
    best = dict.fromkeys(engines, np.inf)
    sums: dict[str, Any] = {}
    for engine in engines.values():
        engine.load(build, specs)
    for repeat in range(repeats + 1):
        for name in engines:
            began = time.perf_counter()
            sums[name] = rows[name].sum_statistics(prepared, parameters)
            if repeat:  # the first pass builds shards and compiles
                best[name] = min(best[name], time.perf_counter() - began)
    for engine in engines.values():
        engine.close()
    for one, other in zip(*sums.values(), strict=True):
        if one.tobytes() != other.tobytes():
            raise AssertionError(f"{shape}: the engines differ")
    sent = len(pickle.dumps(Message("0", "dual", parameters, None))) * shape.n_workers
    return Result(shape, best["threads"], best["dask"], sent, rows["dask"].n_bytes)


def main() -> None:
    """Print a table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="fewer rows and shapes")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(
        "| rows | d | K | shards | workers | threads s | dask s | overhead ms | sent | received |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for n_workers in (2, 1):
        chosen = [s for s in shapes(small=options.small) if s.n_workers == n_workers]
        with (
            open_local_cluster(n_workers) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            for shape in chosen:
                found = measure(shape, client, options.repeats)
                overhead = 1000 * (found.dask - found.threads)
                cells = (*shape, f"{found.threads:.4f}", f"{found.dask:.4f}", f"{overhead:.0f}")
                line = " | ".join(map(str, (*cells, found.sent, found.received)))
                print(f"| {line} |", flush=True)


if __name__ == "__main__":
    main()
