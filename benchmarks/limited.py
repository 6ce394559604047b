"""A module run as a process of its own, for a limited time, on a fixed number of threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MAX_MESSAGE = 120  # letters of an error shown in a table
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_limited(
    module: str, *arguments: str, threads: int, limit: float, python: str = sys.executable
) -> dict[str, Any] | str:
    """Return the JSON of the last line printed, or in words why there is none."""
    process = subprocess.Popen(
        [python, "-m", module, *arguments, "--threads", str(threads)],
        cwd=ROOT,
        env={**os.environ, **dict.fromkeys(VARIABLES, str(threads))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its own children stop with it
    )
    try:
        out, err = process.communicate(timeout=limit)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"stopped after {limit:g} s"
    if process.returncode:
        return f"failed: {err.strip().splitlines()[-1][:MAX_MESSAGE] if err.strip() else ''}"
    return json.loads(out.strip().splitlines()[-1])
