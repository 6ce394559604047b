"""Time gapmix beside others, in one run: `python -m benchmarks.run --problem table`.

`--all` takes every problem, the whole jobs and the scaling plot, and writes benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contestants, growth, iteration, machine, memory, peers, report
from benchmarks.problems import JOBS, SHAPES, Problem, make_named
from benchmarks.timing import interleave

RESULTS = Path(__file__).parent / "results"
BUDGET = 8.0  # seconds for each contestant of a problem
JOB_LIMIT = 60.0  # seconds for each filler
SAME_BITS_THREADS = (1, 2, 4)
SAME_BITS_ITERATIONS = 2
SOLVERS = {"squares": ("auto", "paper", "naive")}  # trees over many patterns take too long


def say(text: str) -> None:
    """Report progress; standard output is for results."""
    print(text, file=sys.stderr, flush=True)


def check_bits(problem: Problem, start: iteration.Start, reg_covar: float) -> dict[str, Any]:
    """Tell whether log-likelihood and covariances are the same bits on 1, 2 and 4 threads."""
    work = iteration.set_up(iteration.make_mixture(problem, start, reg_covar=reg_covar), problem.x)
    first, *others = (iteration.run(work, SAME_BITS_ITERATIONS, n) for n in SAME_BITS_THREADS)
    equal = all(
        first.log_likelihood == other.log_likelihood
        and np.array_equal(first.parameters.covariances, other.parameters.covariances)
        for other in others
    )
    return {"threads": list(SAME_BITS_THREADS), "equal": equal}


def run_shape(
    name: str,
    *,
    scale: float = 1.0,
    threads: int = 2,
    repeats: int = 15,
    budget: float = BUDGET,
    solvers: tuple[str, ...] | None = None,
    checks: bool = True,
) -> dict[str, Any]:
    """Return the rows of a problem, its ratio with what it must be, and the checks."""
    shape = SHAPES[name]
    problem = make_named(name, scale)
    if problem.note:
        say(problem.note)
    start = iteration.make_start(problem)
    solvers = solvers or SOLVERS.get(name, ("auto", "naive"))
    say(f"{name}: {len(problem.x):,} x {shape.d}")
    made = contestants.make_contestants(
        problem,
        start,
        solvers,
        threads=threads,
        reg_covar=shape.reg_covar,
        also_reg_covar=shape.also_reg_covar,
    )
    clock = machine.read_clock()
    timings = interleave(made, repeats, budget)
    others = machine.others_since(clock)
    peaks: dict[str, int | None] = dict.fromkeys(memory.FITS)
    bits: dict[str, Any] = {"threads": list(SAME_BITS_THREADS), "equal": None}
    if checks:
        for fit in memory.FITS:
            peaks[fit] = memory.measure(problem, fit, threads=threads, reg_covar=shape.reg_covar)
        bits = check_bits(problem, start, shape.reg_covar)
    common = {"problem": name, "commit": machine.commit(), "blas": machine.blas()}
    peak_of = {made[0].name: peaks["gapmix"], contestants.SCIKIT_LEARN: peaks["scikit-learn"]}
    rows = [
        {
            **common,
            "contestant": contestant.name,
            "kind": contestant.kind,
            "threads": 1 if contestant.name == contestants.ONE_THREAD else threads,
            "seconds_median": timing.median,
            "seconds_q1": timing.q1,
            "seconds_q3": timing.q3,
            "n_timed": timing.n_timed,
            "iterations": timing.iterations,
            "log_likelihood": timing.log_likelihood,
            "log_likelihood_common": timing.log_likelihood_common,
            "peak_bytes": peak_of.get(contestant.name),
            "note": contestant.note,
        }
        for contestant, timing in zip(made, timings, strict=True)
    ]
    allowed = memory.allowed_bytes(problem)
    peak = peaks["gapmix"]
    return {
        "problem": name,
        "note": problem.note,
        "shape": {
            "n": len(problem.x),
            "d": shape.d,
            "n_components": shape.n_components,
            "share_missing": float(np.isnan(problem.x).mean()),
            "reg_covar": shape.reg_covar,
        },
        "rows": rows,
        "ratio": _ratio(name, rows, judge=scale == 1 and not machine.is_loud(others)),
        "others_cpu": others,
        "checks": {
            "memory": {
                "peak_bytes": peak,
                "allowed_bytes": allowed,
                "within": None if peak is None else peak <= allowed,
            },
            "same_bits": bits,
        },
    }


def _ratio(name: str, rows: list[dict[str, Any]], *, judge: bool) -> dict[str, Any]:
    """Return gapmix / scikit-learn, which are the first two rows, beside the targets.

    Whether these are reached is None unless the table is whole and the machine was quiet.
    """
    shape = SHAPES[name]
    by_name = {row["contestant"]: row["seconds_median"] for row in rows}
    ours, theirs = rows[0]["seconds_median"], rows[1]["seconds_median"]
    best = min(seconds for who, seconds in by_name.items() if who.startswith("scikit-learn"))
    naive = by_name.get(contestants.NaivePart.name)
    value = ours / theirs
    times = None if naive is None else naive / ours
    return {
        "gapmix": ours,
        "scikit_learn": theirs,
        "value": value,
        "value_best": ours / best,  # against scikit-learn on the threads that suit it best
        "must": shape.must,
        "goal": shape.goal,
        "reaches_must": value <= shape.must if judge else None,
        "reaches_goal": value <= shape.goal if judge else None,
        "naive_times": times,
        "naive_must": shape.naive,
        "reaches_naive": times >= shape.naive if judge and times and shape.naive else None,
    }


def run_job(name: str, *, scale: float = 1.0, threads: int = 2) -> dict[str, Any]:
    """Return one row for each way to fill the table."""
    problem = make_named(name, scale)
    clock = machine.read_clock()
    rows: list[dict[str, Any]] = []
    for filler in peers.FILLERS:
        say(f"{name}: {filler}")
        job = peers.fill(problem, filler, threads=threads, limit=JOB_LIMIT)
        ours = rows[0]["seconds"] if rows else job.seconds
        comparable = job.seconds is not None and ours is not None and job.n_rows == len(problem.x)
        rows.append(
            {
                "problem": name,
                "contestant": filler,
                "seconds": job.seconds,
                "times_gapmix": job.seconds / ours if comparable else None,
                "rmse": job.rmse,
                "n_rows": job.n_rows,
                "threads": peers.FILLERS[filler].threads or threads,
                "commit": machine.commit(),
                "note": job.note,
            }
        )
    n, d = problem.x.shape
    return {
        "problem": name,
        "note": problem.note,
        "shape": {"n": n, "d": d},
        "rows": rows,
        "others_cpu": machine.others_since(clock),
    }


def run_growth(folder: Path, *, scale: float, threads: int) -> None:
    """Write the scaling plot and its figures."""
    points: list[growth.Point] = []
    for panel, spec in growth.PANELS.items():
        for value in spec.values:
            say(f"scaling: {spec.label} = {value:g}")
            points += growth.measure(panel, value, scale=scale, threads=threads)
    folder.mkdir(parents=True, exist_ok=True)
    growth.write_csv(points, folder / "scaling.csv")
    found = machine.describe(threads)
    caption = (
        f"K = {growth.N_COMPONENTS}, {threads} threads, median and quartiles, commit "
        f"{found['commit']}, {found['cpu']}" + (f", rows x {scale:g}" if scale != 1 else "")
    )
    growth.draw(points, folder / "scaling.png", caption)
    say(f"wrote {folder / 'scaling.csv'} and {folder / 'scaling.png'}")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--problem", choices=[*SHAPES, *JOBS], action="append", default=[])
    parser.add_argument("--all", action="store_true", help="everything, written to --output")
    parser.add_argument("--scaling", action="store_true", help="the scaling plot")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows (1)")
    parser.add_argument("--threads", type=int, default=2, help="threads of every contestant (2)")
    parser.add_argument("--repeats", type=int, default=15, help="timed iterations at most (15)")
    parser.add_argument(
        "--budget", type=float, default=BUDGET, help=f"seconds per contestant ({BUDGET:g})"
    )
    parser.add_argument("--solvers", help="comma-separated, the first is compared (auto,naive)")
    parser.add_argument("--no-checks", action="store_true", help="without memory and same bits")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of results")
    given = parser.parse_args(arguments)
    if not (given.problem or given.all or given.scaling):
        parser.error("say --problem NAME, --scaling or --all")
    return given


def main(arguments: list[str] | None = None) -> None:
    """Run what is asked for and print the results."""
    given = parse(arguments)
    began = time.perf_counter()
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for name in [*SHAPES, *JOBS] if given.all else given.problem:
            if name in JOBS:
                results.append(run_job(name, scale=given.scale, threads=given.threads))
                continue
            results.append(
                run_shape(
                    name,
                    scale=given.scale,
                    threads=given.threads,
                    repeats=given.repeats,
                    budget=given.budget,
                    solvers=tuple(given.solvers.split(",")) if given.solvers else None,
                    checks=not given.no_checks,
                )
            )
        if given.all or given.scaling:
            run_growth(given.output, scale=given.scale, threads=given.threads)
    if not results:
        return
    typed = sys.argv[1:] if arguments is None else arguments
    document = {
        "command": " ".join(["python -m benchmarks.run", *typed]),
        "date": date.today().isoformat(),
        "scale": given.scale,
        "seconds": time.perf_counter() - began,
        "machine": machine.describe(given.threads),
        "results": results,
    }
    text = report.markdown(document)
    if given.all:
        given.output.mkdir(parents=True, exist_ok=True)
        report.write_json(document, given.output / f"{document['machine']['commit']}.json")
        (given.output / "latest.md").write_text(text)
        say(f"wrote {given.output}")
    print(json.dumps(document, indent=1) if given.json else text)


if __name__ == "__main__":
    main()
