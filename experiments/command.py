"""The command line that both studies share."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.data import DataNotFoundError, load_abalone, load_mnist

from experiments.outputs import CACHE, RESULTS
from experiments.profiles import PROFILES, Profile


class Order(NamedTuple):
    """What is asked for."""

    profile: Profile
    parts: tuple[str, ...]
    again: bool
    jobs: int
    output: Path
    cache: Path
    stored: Path  # lines of hours of work, in the tree
    minutes: float | None  # of the grid, None for as long as it takes
    share: tuple[int, int]  # this process does one cell in so many


def read_order(
    study: str, parts: tuple[str, ...], description: str, arguments: list[str] | None
) -> Order:
    """Return what the command line asks for; end with a clear message when data is missing."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{study}", description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--tiny", action="store_true", help="seconds, for tests")
    size.add_argument("--full", action="store_true", help="the paper's grids, searched: hours")
    parser.add_argument(
        "--only", choices=parts, action="append", help="this part, with what it needs"
    )
    parser.add_argument("--again", action="store_true", help="do the parts named by --only anew")
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (2)"
    )
    parser.add_argument("--output", type=Path, help="folder of figures and numbers")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of finished cells")
    parser.add_argument("--stored", type=Path, default=RESULTS / "full", help="stored fits")
    parser.add_argument("--minutes", type=float, help="with --full: stop the grid then; goes on")
    parser.add_argument("--share", default="1/1", help="with --full: do this part, such as 1/2")
    parser.add_argument("--no-download", action="store_true", help="do not ask OpenML")
    given = parser.parse_args(arguments)
    if given.again and not given.only:
        parser.error("--again needs --only PART: delete the cache to do everything anew")
    profile = PROFILES["tiny" if given.tiny else "full" if given.full else "quick"]
    load = {"mnist": load_mnist, "abalone": load_abalone}[study]
    try:
        load(download=not given.no_download)
    except DataNotFoundError as error:
        sys.exit(f"error: {error}")
    return Order(
        profile,
        tuple(given.only or parts),
        given.again,
        given.jobs,
        given.output or RESULTS / profile.name,
        given.cache,
        given.stored,
        given.minutes,
        (int(given.share.split("/")[0]) - 1, int(given.share.split("/")[1])),
    )
