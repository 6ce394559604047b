"""Where and with what a benchmark ran."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import gapmix

ROOT = Path(__file__).parent.parent
LOUD = 0.05  # share of the cores that others may use before times are worth little


def describe(threads: int) -> dict[str, Any]:
    """Return machine, versions, BLAS, threads and commit."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": threads,
        "blas": blas(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "gapmix": gapmix.__version__,
        "commit": commit(),
    }


def blas() -> str:
    """Return the BLAS libraries that are loaded."""
    found = {
        f"{info['internal_api']} {info['version']} ({info.get('architecture', 'unknown')})"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    }
    return ", ".join(sorted(found)) or "unknown"


def commit() -> str:
    """Return the commit, with a plus sign if code differs from it."""
    short = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "benchmarks/*.py", "experiments/*.py")
    return (short or "unknown") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


class Clock(NamedTuple):
    """Processor time used so far, by everyone and by this process with its children."""

    now: float
    everyone: float | None  # None where /proc/stat is not there to tell
    own: float


def read_clock() -> Clock:
    """Return the processor time used so far."""
    everyone = None
    stat = Path("/proc/stat")
    if stat.exists():
        user, nice, system, _, _, irq, softirq, steal, *_ = (
            int(word) for word in stat.read_text().splitlines()[0].split()[1:]
        )
        busy = user + nice + system + irq + softirq + steal
        everyone = busy / os.sysconf("SC_CLK_TCK")
    used = os.times()
    own = used.user + used.system + used.children_user + used.children_system
    return Clock(time.perf_counter(), everyone, own)


def others_since(before: Clock) -> float | None:
    """Return the share of all cores that other processes took since then: times need quiet."""
    after = read_clock()
    if before.everyone is None or after.everyone is None:
        return None
    others = after.everyone - before.everyone - (after.own - before.own)
    return max(0.0, others / (after.now - before.now) / (os.cpu_count() or 1))


def is_loud(others: float | None) -> bool:
    """Tell whether other processes took so much that times should not be quoted."""
    return others is not None and others > LOUD
