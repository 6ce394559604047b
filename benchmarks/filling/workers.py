"""Processes that fill one table after another, so that imports are paid for once.

One that takes too long is killed, with all that it has started, and the next table gets a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Workers:
    """One process for each interpreter that is asked for; all end with the `with` block."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for python in list(self._processes):
            self._kill(python)

    def fill(
        self, python: str, contestant: str, folder: Path, *, seed: int, limit: float
    ) -> dict[str, Any] | str:
        """Return the times of a contestant, or in words why there are none."""
        process = self._processes.get(python) or self._start(python)
        assert process.stdin is not None
        request = {"name": contestant, "folder": str(folder), "seed": seed, "threads": self.threads}
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            line = _read_line(process, limit)
        except BrokenPipeError:
            line = b""
        except BaseException as error:
            self._kill(python)
            if isinstance(error, TimeoutError):
                return f"stopped after {limit:g} s"
            raise
        if not line.endswith(b"\n"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)  # its pipes close before it has ended
            self._kill(python)
            return f"failed: the process ended with code {process.returncode}"
        answer = json.loads(line)
        return f"failed: {answer['failed']}" if "failed" in answer else answer

    def _start(self, python: str) -> subprocess.Popen[bytes]:
        self._processes[python] = subprocess.Popen(
            [python, "-m", "benchmarks.fillers"],
            cwd=ROOT,
            env={**os.environ, **dict.fromkeys(VARIABLES, str(self.threads))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # nothing is left to be written to one that has ended
            start_new_session=True,  # so that its own children stop with it
        )
        return self._processes[python]

    def _kill(self, python: str) -> None:
        process = self._processes.pop(python)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        with process:  # closes its pipes and waits
            pass


def _read_line(process: subprocess.Popen[bytes], limit: float) -> bytes:
    """Return a line, or less if the process ended; TimeoutError after `limit` seconds."""
    assert process.stdout is not None
    end = time.monotonic() + limit
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            raise TimeoutError
        part = os.read(process.stdout.fileno(), 65536)
        if not part:
            break
        line += part
    return line
