"""Fits that survive their process: the state of a run as a file, exactly.

The file has the format of model files (`recordfile`) and is replaced as a whole (`atomicfile`), so
that a process killed at any moment leaves a state from which the fit goes on to the same bits.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gapmix.em import accelerate
from gapmix.em.records import Fit, Iteration, Progress, State
from gapmix.parameters import Parameters
from gapmix.storage.atomicfile import Path, replace_file
from gapmix.storage.recordfile import ModelFileError, Record, pack, read
from gapmix.structures import Chart

EVERY_ITERATIONS = 5
EVERY_SECONDS = 60.0
ROWS_AT_ONCE = 4096
KIND = "checkpoint"
PARAMETERS = ("weights", "means", "covariances")
OWNERS = ("state.parameters", "state.plain", "state.kept", "best.parameters")
CHART = ("share", "means", "chol")
VECTORS = ("point", "residual", "ahead")
KNOWN = {
    KIND: frozenset(
        [f"{owner}.{name}" for owner in OWNERS for name in PARAMETERS]
        + [f"{owner}.categories.*" for owner in OWNERS]
        + [f"accelerator.chart.{name}" for name in (*CHART, "levels", "n_levels")]
        + [f"accelerator.{name}" for name in VECTORS]
        + ["accelerator.numbers", "accelerator.steps.*", "accelerator.changes.*"]
        + [f"state.{name}" for name in ("resp", "objectives", "left", "numbers")]
        + [
            f"{run}.{name}"
            for run in ("run", "best")
            for name in ("history", "events", "target", "center")
        ]
    )
}
Arrays = dict[str, np.ndarray]


class Saved(NamedTuple):
    """A fit that may go on: which fit it is, and how far it has come."""

    identity: dict[str, Any]  # must agree when the fit goes on
    entropy: tuple[int, ...]  # the seed of its starts
    tol: float  # it was last asked to stop at
    max_iter: int
    solver: str
    number: int  # the start at work
    progress: Progress | None  # how far that one has come
    best: Fit | None  # the best of the starts before it


class Writer:
    """Saves the progress of a fit every few iterations or minutes."""

    def __init__(self, path: Path, saved: Saved) -> None:
        self._path = path
        self._saved = saved
        self._n_since = 0
        self._last = time.monotonic()
        self._has_warned = False

    def of_start(self, number: int, best: Fit | None) -> Callable[[Progress], None]:
        """Return what a run calls after every iteration."""
        self._saved = self._saved._replace(number=number, best=best)

        def save(progress: Progress) -> None:
            self._n_since += 1
            late = time.monotonic() - self._last >= EVERY_SECONDS
            if self._n_since >= EVERY_ITERATIONS or late or progress.stop_reason is not None:
                try:
                    write(self._path, self._saved._replace(progress=progress))
                except OSError as error:  # a full disk must not cost the fit
                    self._warn(error)
                self._n_since, self._last = 0, time.monotonic()

        return save

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            warnings.warn(
                f"The checkpoint {os.fspath(self._path)} cannot be written ({error}). The fit goes "
                "on and tries again later; if it is interrupted, what came after the last "
                "checkpoint is lost.",
                RuntimeWarning,
                stacklevel=3,
            )
        self._has_warned = True


def write(path: Path, saved: Saved) -> None:
    """Replace the file by this state."""
    arrays: Arrays = {}
    content: dict[str, Any] = {
        "identity": saved.identity,
        "entropy": list(saved.entropy),
        "tol": saved.tol,
        "max_iter": saved.max_iter,
        "solver": saved.solver,
        "number": saved.number,
        "progress": None,
        "best": None,
    }
    if saved.progress is not None:
        progress = saved.progress
        _put_state(progress.state, arrays)
        _put_run(progress, "run", arrays)
        accelerator = progress.state.accelerator
        method = chart = None
        if accelerator is not None:
            method, held = accelerator.method, accelerator.chart
            chart = None if held is None else [held.structure, bool(held.equal_weights)]
        content["progress"] = {"stop": progress.stop_reason, "method": method, "chart": chart}
    if saved.best is not None:
        _put_parameters(saved.best.parameters, "best.parameters", arrays)
        _put_run(saved.best, "best", arrays)
        content["best"] = {"converged": saved.best.converged, "stop": saved.best.stop_reason}
    replace_file(path, pack(Record(KIND, content, arrays)))


def load(path: Path) -> Saved | None:
    """Return the state in a file, or None if there is no file.

    Raises
    ------
    ModelFileError
        If the file is something else, or damaged.
    """
    if not os.path.exists(path):
        return None
    record = read(path, KNOWN)
    try:
        return _restore(record.content, record.arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(
            f"{os.fspath(path)}: a part of the checkpoint is missing or has the wrong form "
            f"({type(error).__name__}: {error}). Delete the file to begin afresh."
        ) from error


def digest(*arrays: np.ndarray) -> str:
    """Return a digest of the shapes and contents of arrays."""
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(f"{array.shape} {array.dtype.str} ".encode())
        for first in range(0, len(array), ROWS_AT_ONCE):  # a copy of all would be a second table
            total.update(array[first : first + ROWS_AT_ONCE].tobytes())
    return total.hexdigest()


def check_identity(saved: Saved, identity: dict[str, Any], path: Path) -> None:
    """Raise an error that names what differs between the fit in the file and this one."""
    for name in dict.fromkeys([*identity, *saved.identity]):
        found, wanted = saved.identity.get(name), identity.get(name)
        if found != wanted:
            raise ValueError(
                f"{os.fspath(path)} is the checkpoint of another fit: its {name} is {found!r}, and "
                f"now it is {wanted!r}. Fit as before to go on with it; to begin afresh, delete "
                "the file or give another one."
            )


def _restore(content: dict[str, Any], arrays: Arrays) -> Saved:
    progress = best = None
    structure = content["identity"]["covariance_type"].strip("'")  # settings are there as texts
    told = content["progress"]
    if told is not None:
        history, target, center = _take_run("run", arrays)
        state = _take_state(told, arrays, structure)
        progress = Progress(state, history, target, center, told["stop"])
    told = content["best"]
    if told is not None:
        history, target, center = _take_run("best", arrays)
        parameters = _take_parameters("best.parameters", arrays, structure)
        assert parameters is not None
        best = Fit(parameters, history, told["converged"], told["stop"], target, center)
    entropy = tuple(int(number) for number in content["entropy"])
    asked = float(content["tol"]), int(content["max_iter"])
    place = content["solver"], content["number"]
    return Saved(content["identity"], entropy, *asked, *place, progress, best)


def _put_parameters(parameters: Parameters | None, name: str, arrays: Arrays) -> None:
    if parameters is not None:
        for key in PARAMETERS:
            arrays[f"{name}.{key}"] = np.asarray(getattr(parameters, key), dtype=np.float64)
        for j, table in enumerate(parameters.categories):
            arrays[f"{name}.categories.{j}"] = np.asarray(table, dtype=np.float64)


def _take_parameters(name: str, arrays: Arrays, structure: str) -> Parameters | None:
    if f"{name}.weights" not in arrays:
        return None
    weights, means, covariances = (arrays[f"{name}.{key}"] for key in PARAMETERS)
    tables = _take_vectors(f"{name}.categories", arrays)
    return Parameters(weights, means, covariances, structure, tables)


def _put_state(state: State, arrays: Arrays) -> None:
    for name in ("parameters", "plain", "kept"):
        _put_parameters(getattr(state, name), f"state.{name}", arrays)
    if state.resp is not None:
        arrays["state.resp"] = state.resp
    arrays["state.objectives"] = np.array(state.objectives, dtype=float)
    arrays["state.left"] = np.array(state.left, dtype=float)
    arrays["state.numbers"] = np.array([state.best, state.n_stale, state.n_repairs], dtype=float)
    known = state.accelerator
    if known is None:
        return
    arrays["accelerator.numbers"] = np.array(
        [known.was_plain, known.was_cut, known.reach, known.n_taken, known.to_gain], dtype=float
    )
    if known.chart is not None:
        for name in CHART:
            arrays[f"accelerator.chart.{name}"] = getattr(known.chart, name)
        if known.chart.n_levels:
            arrays["accelerator.chart.levels"] = known.chart.levels
            arrays["accelerator.chart.n_levels"] = np.array(known.chart.n_levels, dtype=float)
    for name in VECTORS:
        if getattr(known, name) is not None:
            arrays[f"accelerator.{name}"] = getattr(known, name)
    for name in ("steps", "changes"):
        for i, vector in enumerate(getattr(known, name)):
            arrays[f"accelerator.{name}.{i}"] = vector


def _take_state(told: dict[str, Any], arrays: Arrays, structure: str) -> State:
    best, n_stale, n_repairs = arrays["state.numbers"].tolist()
    accelerator = None
    if told["method"] is not None:
        was_plain, was_cut, reach, n_taken, to_gain = arrays["accelerator.numbers"].tolist()
        chart = None
        if told["chart"] is not None:
            share, means, chol = (arrays[f"accelerator.chart.{name}"] for name in CHART)
            chart = Chart(share, means, chol, *told["chart"])
            if "accelerator.chart.levels" in arrays:
                chart = chart._replace(
                    levels=arrays["accelerator.chart.levels"],
                    n_levels=tuple(arrays["accelerator.chart.n_levels"].astype(int).tolist()),
                )
        accelerator = accelerate.State(
            told["method"],
            chart,
            point=arrays.get("accelerator.point"),
            residual=arrays.get("accelerator.residual"),
            ahead=arrays.get("accelerator.ahead"),
            steps=_take_vectors("accelerator.steps", arrays),
            changes=_take_vectors("accelerator.changes", arrays),
            was_plain=bool(was_plain),
            was_cut=bool(was_cut),
            reach=reach,
            n_taken=int(n_taken),
            to_gain=to_gain,
        )
    parameters = _take_parameters("state.parameters", arrays, structure)
    if parameters is None:
        raise KeyError("state.parameters")
    return State(
        parameters,
        accelerator,
        plain=_take_parameters("state.plain", arrays, structure),
        resp=arrays.get("state.resp"),
        objectives=tuple(arrays["state.objectives"].tolist()),
        kept=_take_parameters("state.kept", arrays, structure),
        best=best,
        n_stale=int(n_stale),
        n_repairs=int(n_repairs),
        left=tuple(arrays["state.left"].tolist()),
    )


def _take_vectors(name: str, arrays: Arrays) -> tuple[np.ndarray, ...]:
    count = sum(key.startswith(f"{name}.") for key in arrays)
    return tuple(arrays[f"{name}.{i}"] for i in range(count))


def _put_run(run: Progress | Fit, name: str, arrays: Arrays) -> None:
    """Put the history, with texts as bytes: there may be more than a header holds."""
    rows = [
        (r.log_likelihood, r.objective, np.nan if r.validation is None else r.validation, r.seconds)
        for r in run.history
    ]
    if rows:
        arrays[f"{name}.history"] = np.array(rows, dtype=float)
    text = json.dumps([r.events for r in run.history]).encode()
    arrays[f"{name}.events"] = np.frombuffer(text + b" " * (-len(text) % 8), dtype="<i8")
    for key in ("target", "center"):
        if getattr(run, key) is not None:
            arrays[f"{name}.{key}"] = getattr(run, key)


def _take_run(
    name: str, arrays: Arrays
) -> tuple[tuple[Iteration, ...], np.ndarray | None, np.ndarray | None]:
    events = json.loads(arrays[f"{name}.events"].astype("<i8").tobytes())
    rows = arrays[f"{name}.history"].tolist() if events else []
    history = tuple(
        Iteration(value, objective, None if np.isnan(held) else held, seconds, tuple(told))
        for (value, objective, held, seconds), told in zip(rows, events, strict=True)
    )
    return history, arrays.get(f"{name}.target"), arrays.get(f"{name}.center")
