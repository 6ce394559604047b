"""Fits whose workers or drivers are killed: every one must end in the same bits, or say why not.

    python -m benchmarks.faults                  # 30 workers and 20 drivers, a few minutes
    python -m benchmarks.faults --workers 3 --drivers 3

A worker of a local Dask cluster is killed (SIGKILL) at a random moment of iteration 1, 5 or the
last. A driver (threads, a Dask cluster of its own, or a cluster elsewhere) is killed at a random
moment of its fit, and the same fit is begun again with its checkpoint. All fitted arrays are
compared, bit by bit, with those of a fit that nothing happened to.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from distributed import Client

from gapmix import GaussianMixture
from gapmix.em import checkpoint
from gapmix.engines.contract import EngineError
from gapmix.engines.dask import open_local_cluster
from gapmix.engines.sources import Source, open_source
from gapmix.fitting.progress import listening

N_ITERATIONS = 16
OPTIONS = {"n_components": 3, "tol": 0.0, "max_iter": N_ITERATIONS, "random_state": 0}
PIECE_ROWS = 2_500
LIMIT = 60.0  # seconds within which a fit that cannot go on must say so
DRIVERS = ("threads", "dask", "address")
ARRAYS = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")


class Outcome(NamedTuple):
    """What became of a fit."""

    what: str  # who was killed, and where
    when: str
    ended: str  # 'equal', 'different' or the error
    seconds: float
    killed: bool  # whether the kill came in time


def make_rows(n: int) -> np.ndarray:
    """Return rows of three clusters, a fifth of the cells missing."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 8)) @ rng.normal(size=(8, 8)) + 2.0 * rng.integers(0, 3, size=(n, 1))
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


def fingerprint(model: GaussianMixture) -> dict[str, bytes]:
    """Return the bytes of all fitted arrays and of the objective at every iteration."""
    arrays = {name: getattr(model, name).tobytes() for name in ARRAYS}
    return arrays | {"lower_bounds_": np.array(model.lower_bounds_).tobytes()}


# ---------------------------------------------------------------------- workers


def kill_workers(n_rows: int, repeats: int, seed: int = 0) -> Iterator[Outcome]:
    """Yield what becomes of fits one of whose two workers is killed in a certain iteration."""
    rng = np.random.default_rng(seed)
    source = open_source(make_rows(n_rows), rows_per_piece=PIECE_ROWS)
    wanted = fingerprint(GaussianMixture(**OPTIONS).fit(source))
    length: float | None = None
    for iteration in [each for _ in range(repeats) for each in (1, 5, N_ITERATIONS)]:
        # A cluster for each: Dask may take minutes to replace a worker, or never do it.
        with open_local_cluster(2) as cluster, Client(cluster, set_as_default=False) as client:
            if length is None:
                length = _seconds_per_iteration(client, source, wanted)
            delay, victim = float(rng.uniform(0, 0.5 * length)), int(rng.integers(2))
            yield _fit_with_kill(client, source, wanted, iteration, delay, victim)


def _seconds_per_iteration(client: Client, source: Source, wanted: dict[str, bytes]) -> float:
    for _ in range(2):  # the first compiles
        began = time.perf_counter()
        model = GaussianMixture(**OPTIONS, engine=client).fit(source)
        if fingerprint(model) != wanted:
            raise AssertionError("Dask and threads differ, and nothing was killed")
    return (time.perf_counter() - began) / N_ITERATIONS


def _fit_with_kill(
    client: Client,
    source: Source,
    wanted: dict[str, bytes],
    iteration: int,
    delay: float,
    victim: int,
) -> Outcome:
    pid = sorted(client.run(os.getpid).values())[victim]
    n_pieces, n_told = len(source.pieces), 0
    killed = threading.Event()

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)
        killed.set()

    timer = threading.Timer(delay, kill)

    def watch(what: str, done: int, total: int) -> None:
        nonlocal n_told
        n_told += what == "pass"
        before = (iteration - 1) * n_pieces
        if done == total and n_told == before and not timer.is_alive() and not killed.is_set():
            timer.start()

    began = time.monotonic()
    ended = _end_of(client, source, wanted, watch)
    came_in_time = killed.is_set()
    timer.join()
    seconds = time.monotonic() - began
    return Outcome(
        f"worker {victim}", f"iteration {iteration} + {delay:.3f} s", ended, seconds, came_in_time
    )


def _end_of(client: Client, source: Source, wanted: dict[str, bytes], watch: Any) -> str:
    began = time.monotonic()
    try:
        with listening(None, pieces=watch):
            model = GaussianMixture(**OPTIONS, engine=client).fit(source)
    except EngineError as error:
        late = time.monotonic() - began > LIMIT
        return f"{type(error).__name__} {'too late' if late else 'in time'}"
    return "equal" if fingerprint(model) == wanted else "different"


# ---------------------------------------------------------------------- drivers


def drive(folder: Path, name: str, engine: str) -> None:
    """Fit with a checkpoint and write the arrays; what a driver that may be killed does."""
    source = open_source(folder / "x.npy", rows_per_piece=PIECE_ROWS)
    print("begin", flush=True)
    model = GaussianMixture(**OPTIONS, engine=engine, n_jobs=2, checkpoint=folder / name)
    model.fit(source)
    np.savez(folder / f"{name}.npz", **{k: np.frombuffer(v) for k, v in fingerprint(model).items()})


def kill_drivers(
    n_rows: int,
    n_kills: int,
    seed: int = 0,
    kinds: tuple[str, ...] = DRIVERS,
    within: float | None = None,
) -> Iterator[Outcome]:
    """Yield what becomes of fits whose driver is killed at a random moment, and begun again.

    The moment is `within` so many seconds; without them, a fit is timed first.
    """
    rng = np.random.default_rng(seed)
    with (
        tempfile.TemporaryDirectory() as name,
        open_local_cluster(2) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        folder = Path(name)
        np.save(folder / "x.npy", make_rows(n_rows))
        source = open_source(folder / "x.npy", rows_per_piece=PIECE_ROWS)
        wanted = fingerprint(GaussianMixture(**OPTIONS).fit(source))
        engines = {kind: kind for kind in DRIVERS} | {"address": client.scheduler.address}
        lengths = {} if within is None else dict.fromkeys(kinds, within)
        for number in range(n_kills):
            kind = kinds[number % len(kinds)]
            if kind not in lengths:
                lengths[kind] = _clean_seconds(folder, f"clean-{kind}", engines[kind])
            delay = float(rng.uniform(0, 0.8 * lengths[kind]))
            yield _kill_and_resume(folder, f"{number}", kind, engines[kind], delay, wanted)


def _clean_seconds(folder: Path, name: str, engine: str) -> float:
    """Return how long a fit takes from its beginning; nothing happens to it."""
    process = _start(folder, name, engine)
    began = time.monotonic()
    if process.wait(3 * LIMIT) != 0:
        raise RuntimeError(f"A driver with engine {engine} failed.")
    return time.monotonic() - began


def _start(folder: Path, name: str, engine: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.faults"]
    process = subprocess.Popen(
        [*command, "--drive", str(folder), name, engine], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as stream:
        assert stream.readline() == "begin\n"
    return process


def _kill_and_resume(
    folder: Path, name: str, kind: str, engine: str, delay: float, wanted: dict[str, bytes]
) -> Outcome:
    began = time.monotonic()
    process = _start(folder, name, engine)
    time.sleep(delay)
    killed = process.poll() is None
    process.kill()
    process.wait()
    saved = checkpoint.load(folder / name)
    n_done = 0 if saved is None or saved.progress is None else len(saved.progress.history)
    process = _start(folder, name, engine)
    try:
        code = process.wait(3 * LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        return Outcome(f"driver, {kind}", f"{delay:.2f} s", "hang", 3 * LIMIT, killed)
    ended = f"exit code {code}"
    if code == 0:
        found = np.load(folder / f"{name}.npz")
        same = all(found[key].tobytes() == value for key, value in wanted.items())
        ended = "equal" if same else "different"
    when = f"{delay:.2f} s, {n_done} iterations saved"
    return Outcome(f"driver, {kind}", when, ended, time.monotonic() - began, killed)


def main() -> None:
    """Print a line for each kill, and how they ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=30, help="workers to kill, in threes")
    parser.add_argument("--drivers", type=int, default=20, help="drivers to kill")
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drive", nargs=3, metavar=("FOLDER", "NAME", "ENGINE"), default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.drive is not None:
        drive(Path(options.drive[0]), *options.drive[1:])
        return
    print("| killed | when | ended | seconds | kill came before the end |\n|---|---|---|---|---|")
    counts: Counter[tuple[str, str]] = Counter()
    grids = {
        "workers": kill_workers(options.rows, options.workers // 3, options.seed),
        "drivers": kill_drivers(options.rows, options.drivers, options.seed),
    }
    for name, outcomes in grids.items():
        for one in outcomes:
            counts[name, one.ended] += 1
            cells = (one.what, one.when, one.ended, f"{one.seconds:.1f}", one.killed)
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    for (name, ended), count in counts.items():
        print(f"{name}: {count} {ended}")


if __name__ == "__main__":
    main()
