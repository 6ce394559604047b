"""The command line in real processes, without paying for its imports each time.

One process imports gapmix and then forks: every command runs in a process of its own, with its own
standard output and error, and ends with its own exit code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FORKER = """
import json, os, resource, signal, sys
import numpy as np
from gapmix import GaussianMixture
from gapmix.cli import evaluating, reporting, streaming
from gapmix.cli.main import main

# What every fit needs is loaded once, without starting a thread that a fork would lose.
rows = np.random.default_rng(0).normal(size=(50, 3))
rows[rows > 1.5] = np.nan
mixture = GaussianMixture(2, n_jobs=1, random_state=0, tol=0.1).fit(rows)
mixture.impute(rows)

for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        if "LARGEST_FILE" in os.environ:  # as on a full disk
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ["LARGEST_FILE"]), -1))
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = main(request["arguments"])
        sys.stdout.flush()
        os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stdout.write(json.dumps(status) + "\\n")
    sys.stdout.flush()
"""


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runs commands in forked processes; close it when done."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NUMBA_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
        )

    def run(self, folder: Path, *arguments: str, **environment: str) -> Ran:
        """Run a command in a folder and return its exit code and what it printed."""
        files = {name: str(folder / f".{name}") for name in ("out", "err")}
        environment = {"COLUMNS": "100", **environment}
        request = {
            "folder": str(folder),
            "arguments": list(arguments),
            "environment": environment,
            **files,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = json.loads(self._process.stdout.readline())
        out, err = (
            Path(files[name]).read_bytes().decode(errors="replace") for name in ("out", "err")
        )
        return Ran(code, out, err)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
