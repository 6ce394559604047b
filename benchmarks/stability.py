"""How many digits solvers keep: `python -m benchmarks.stability` writes results/stability.json.

One step of EM with one component, on covariances of growing condition number, compared with the
same step on the same doubles in 60 digits. Every row of the result is the median over seeds of two
relative errors: of the log-likelihood, and of the new covariance (Frobenius norm).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from benchmarks import machine
from gapmix.em.records import Settings
from gapmix.em.steps import e_step, m_step
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.plan.patterns import find_patterns
from gapmix.plan.planner import make_plan
from gapmix.plan.rows import prepare_rows
from gapmix.solvers import SOLVERS
from gapmix.structures.regularizer import Regularizer
from gapmix.threads import open_engine

OUTPUT = Path(__file__).parent / "results" / "stability.json"
CONDITIONS = (1e2, 1e4, 1e6, 1e8, 1e10, 1e12)
SPECTRA = {"one": "one small eigenvalue", "log": "evenly spaced logarithms"}
SEEDS = range(3)
N_ROWS, D, SHARE = 100, 10, 0.3
DIGITS = 60


class Step(NamedTuple):
    """What one step of EM gives."""

    log_likelihood: Any
    covariance: Any  # (d, d)


def make_problem(seed: int, condition: float, spectrum: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with gaps (n, d), drawn from a Gaussian of mean 0, and its covariance (d, d)."""
    rng = np.random.default_rng([seed, int(np.log10(condition)), len(spectrum)])
    values = np.ones(D) if spectrum == "one" else np.geomspace(1.0, 1.0 / condition, D)
    values[-1] = 1.0 / condition
    basis = np.linalg.qr(rng.normal(size=(D, D)))[0]
    sigma = (basis * values) @ basis.T
    x = rng.normal(size=(N_ROWS, D)) * np.sqrt(values) @ basis.T
    hidden = rng.random(x.shape) < SHARE
    hidden[hidden.all(axis=1), 0] = False
    return np.where(hidden, np.nan, x), 0.5 * (sigma + sigma.T)


# ------------------------------------------------------------------ in 60 digits


def step_exactly(x: np.ndarray, sigma: np.ndarray) -> Step:
    """Return the step by the textbook's formulas in 60 digits; share no code with the package."""
    n, d = x.shape
    with mpmath.workdps(DIGITS):
        whole = mpmath.matrix(sigma.tolist())
        total = mpmath.mpf(0)
        rows, spread = [], mpmath.zeros(d, d)
        for row in x:
            o, m = (np.flatnonzero(at).tolist() for at in (~np.isnan(row), np.isnan(row)))
            block = mpmath.matrix([[whole[i, j] for j in o] for i in o])
            lower, inverse = mpmath.cholesky(block), mpmath.inverse(block)
            log_det = 2 * mpmath.fsum(mpmath.log(lower[i, i]) for i in range(len(o)))
            z_o = mpmath.matrix([row[i] for i in o])
            distance = mpmath.fdot(z_o, inverse * z_o)
            total -= (len(o) * mpmath.log(2 * mpmath.pi) + log_det + distance) / 2
            z = mpmath.zeros(d, 1)
            for place, i in enumerate(o):
                z[i] = z_o[place]
            for i in m:
                gain = inverse * mpmath.matrix([whole[i, k] for k in o])
                z[i] = mpmath.fdot(gain, z_o)
                for j in m:
                    spread[i, j] += whole[i, j] - mpmath.fdot(gain, [whole[j, k] for k in o])
            rows.append(z)
        mean = [mpmath.fsum(z[i] for z in rows) / n for i in range(d)]
        covariance = [
            [
                (mpmath.fsum((z[i] - mean[i]) * (z[j] - mean[j]) for z in rows) + spread[i, j]) / n
                for j in range(d)
            ]
            for i in range(d)
        ]
    return Step(total, covariance)


# ------------------------------------------------------------------ in doubles


def step_by_solver(name: str, x: np.ndarray, sigma: np.ndarray) -> Step:
    """Return the step by a solver of the package."""
    solver = SOLVERS[name]
    patterns = find_patterns(~np.isnan(x))
    plan = make_plan(patterns, 1, solver=name)
    rows = prepare_rows(x, np.ones(len(x)), 1, patterns=patterns, forest=plan.forest)
    parameters = Parameters(np.ones(1), np.zeros((1, x.shape[1])), sigma[None], "full")
    with open_engine(1) as engine:
        prepared = solver.prepare(parameters)
        statistics = e_step(solver, prepared, parameters, rows, engine)
        settings = Settings(Regularizer(np.zeros(x.shape[1])))
        updated = m_step(solver.moments(prepared, statistics), parameters, settings)
    return Step(float(statistics.log_likelihood), updated.covariances[0])


def step_by_difference(x: np.ndarray, sigma: np.ndarray) -> Step:
    """Return the step with the distance as z'Kz - u'Cu, the short formula that the package avoids.

    Also K is formed and C inverted, as the formula invites to do.
    """
    prec = np.linalg.inv(sigma)
    log_det = np.linalg.slogdet(sigma)[1]
    total, filled, spread = 0.0, np.nan_to_num(x), np.zeros_like(sigma)
    for z in filled:
        m = np.flatnonzero(z == 0.0)
        u = (prec @ z)[m]
        block = prec[np.ix_(m, m)]
        distance, log_small = z @ prec @ z, 0.0
        if m.size:
            lower = cho_factor(block, lower=True)
            distance -= u @ cho_solve(lower, u)
            log_small = 2.0 * np.log(np.diagonal(lower[0])).sum()
            z[m] = -cho_solve(lower, u)
            spread[np.ix_(m, m)] += cho_solve(lower, np.eye(m.size))
        n_o = len(z) - m.size
        total -= 0.5 * (n_o * np.log(2 * np.pi) + log_det + log_small + distance)
    centred = filled - filled.mean(axis=0)
    return Step(total, (centred.T @ centred + spread) / len(x))


FORMS: dict[str, Callable[[np.ndarray, np.ndarray], Step]] = {
    "textbook (`naive`)": lambda x, sigma: step_by_solver("naive", x, sigma),
    "short distance": step_by_difference,
    "`paper`": lambda x, sigma: step_by_solver("paper", x, sigma),
    "`tree`": lambda x, sigma: step_by_solver("tree", x, sigma),
    "`dual`": lambda x, sigma: step_by_solver("dual", x, sigma),
}


# ------------------------------------------------------------------ all of them


def compare(found: Step, exact: Step) -> tuple[float, float]:
    """Return the relative errors of log-likelihood and covariance."""
    with mpmath.workdps(DIGITS):
        first = abs(
            (mpmath.mpf(found.log_likelihood) - exact.log_likelihood) / exact.log_likelihood
        )
        off = size = mpmath.mpf(0)
        for i, row in enumerate(exact.covariance):
            for j, value in enumerate(row):
                off += (mpmath.mpf(float(found.covariance[i, j])) - value) ** 2
                size += value**2
        return float(first), float(mpmath.sqrt(off / size))


def measure(
    conditions: tuple[float, ...] = CONDITIONS, seeds: range = SEEDS
) -> list[dict[str, Any]]:
    """Return one record for each spectrum, condition and form."""
    records = []
    for spectrum in SPECTRA:
        for condition in conditions:
            errors: dict[str, list[tuple[float, float]]] = {form: [] for form in FORMS}
            for seed in seeds:
                x, sigma = make_problem(seed, condition, spectrum)
                exact = step_exactly(x, sigma)
                for form, step in FORMS.items():
                    try:
                        errors[form].append(compare(step(x, sigma), exact))
                    except (np.linalg.LinAlgError, NotPositiveDefiniteError):
                        errors[form].append((np.inf, np.inf))
            for form, each in errors.items():
                middle = np.median(np.array(each), axis=0)
                log_likelihood, covariance = (
                    v if np.isfinite(v) else None for v in middle.tolist()
                )
                records.append(
                    {
                        "spectrum": spectrum,
                        "condition": condition,
                        "form": form,
                        "log_likelihood": log_likelihood,
                        "covariance": covariance,
                    }
                )
    return records


def main(arguments: list[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stability")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    output = parser.parse_args(arguments).output
    document = {
        "command": "python -m benchmarks.stability",
        "problem": {"n": N_ROWS, "d": D, "share": SHARE, "seeds": len(SEEDS), "digits": DIGITS},
        "spectra": SPECTRA,
        "machine": machine.describe(1),
        "records": measure(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1) + "\n")
    print(f"wrote {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
