"""How each pattern will be solved: its side, its size, what it costs, and which solver is cheapest.

A plan is data. It is made once per table, before any arithmetic, and can be printed and counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.patterns import Patterns, count_rows

SOLVERS = ("naive-row", "naive", "dual")  # those with full covariances; "diagonal" has no choice


class Group(NamedTuple):
    """Patterns that share a side and a size, so that they can be solved in one batch.

    On the missing side the index set of a pattern holds its missing variables, on the observed
    side its observed ones. Both sides do the same thing with it: factor the small matrix A_ss.
    """

    missing_side: bool
    variables: np.ndarray  # (B, k) variables in the index set of each pattern
    pattern: np.ndarray  # (B,) number of the pattern
    row: np.ndarray  # (R,) rows of these patterns, pattern by pattern
    member: np.ndarray  # (R,) which of the B patterns a row belongs to


class Plan(NamedTuple):
    """What will be done for a table, and what each alternative is predicted to cost."""

    patterns: Patterns
    solver: str  # the solver that will run
    requested: str  # what the caller asked for
    n_components: int
    flops: dict[str, float]  # predicted floating-point operations of one E step, by solver

    def explain(self) -> str:
        """Return the plan in words: patterns, sides, cost of each alternative, and the choice."""
        observed = self.patterns.observed
        n_patterns, d = observed.shape
        n_missing = d - observed.sum(axis=1)
        rows = count_rows(self.patterns)
        n = int(rows.sum())
        cells = max(1, n * d)
        missing_side = on_missing_side(observed)
        lines = [
            f"{n:,} rows x {d:,} columns, {int(n_missing @ rows):,} gaps "
            f"({100 * (n_missing @ rows) / cells:.1f} % of the cells).",
            f"{n_patterns:,} distinct patterns; {int(rows[n_missing == 0].sum()):,} rows are "
            f"complete, {int(rows[n_missing == d].sum()):,} are empty.",
            f"Sides: {int(missing_side.sum()):,} patterns on their missing variables "
            f"(mean {_mean(n_missing[missing_side]):.1f}), "
            f"{int((~missing_side).sum()):,} on their observed ones "
            f"(mean {_mean(d - n_missing[~missing_side]):.1f}).",
            "Predicted cost of one E step with "
            f"{self.n_components} component{'s' if self.n_components > 1 else ''}:",
        ]
        lines += [
            f"  {name:<10} {cost / 1e9:10.3g} Gflop{'   <- used' if name == self.solver else ''}"
            for name, cost in sorted(self.flops.items(), key=lambda item: item[1])
        ]
        if self.solver == "diagonal":
            reason = "diagonal covariances need no factor, whatever the patterns."
        elif self.requested == "auto":
            reason = "each pattern costs the cube of its smaller side only, in batches."
        else:
            reason = "it was asked for."
        lines.append(f"Solver: {self.solver}, because {reason}")
        return "\n".join(lines)


def make_plan(
    patterns: Patterns, n_components: int, *, solver: str = "auto", diagonal: bool = False
) -> Plan:
    """Choose the solver for a table of patterns; `diagonal` covariances need no factor."""
    flops = predict_flops(patterns, n_components, diagonal=diagonal)
    chosen = solver
    if solver == "auto":
        chosen = "diagonal" if diagonal else "dual"
    return Plan(patterns, chosen, solver, n_components, flops)


def predict_flops(
    patterns: Patterns, n_components: int, *, diagonal: bool = False
) -> dict[str, float]:
    """Return the predicted floating-point operations of one E step for every solver."""
    observed = patterns.observed
    d = observed.shape[1]
    rows = count_rows(patterns).astype(float)
    n_o = observed.sum(axis=1).astype(float)
    n_m = d - n_o
    n = float(rows.sum())
    textbook = n_o**3 / 3 + n_o**2 * n_m + n_o * n_m**2  # factor, triangular solve, C
    per_row = 2.0 * n_o**2 + 2.0 * n_o * n_m
    scatter = 2.0 * n * d**2
    smaller = np.minimum(n_o, n_m)
    flops = {
        "naive-row": float((textbook + per_row) @ rows) + scatter,
        "naive": float(textbook.sum() + per_row @ rows) + scatter,
        "dual": 4.0 * d**3
        + float((smaller**3).sum() + 2.0 * smaller**2 @ rows)
        + 2.0 * scatter
        + 2.0 * n * d**2,
    }
    if diagonal:
        flops["diagonal"] = 6.0 * n * d
    return {name: cost * n_components for name, cost in flops.items()}


def on_missing_side(observed: np.ndarray) -> np.ndarray:
    """Return True for the patterns (P, d) whose missing set is the smaller or equal one."""
    n_observed = observed.sum(axis=1)
    return observed.shape[1] - n_observed <= n_observed


def group_patterns(observed: np.ndarray, start: np.ndarray) -> tuple[Group, ...]:
    """Batch the patterns (P, d) of a block by side and size; rows of p are start[p]:start[p+1]."""
    missing_side = on_missing_side(observed)
    in_set = np.where(missing_side[:, None], ~observed, observed)
    size = in_set.sum(axis=1)
    rows = np.diff(start)
    key = 2 * size + missing_side
    groups = []
    for value in np.unique(key):
        pattern = np.flatnonzero(key == value)
        k = int(value) // 2
        index = np.nonzero(in_set[pattern])[1].reshape(pattern.size, k)
        member = np.repeat(np.arange(pattern.size), rows[pattern])
        offset = np.arange(member.size) - np.repeat(
            np.cumsum(rows[pattern]) - rows[pattern], rows[pattern]
        )
        groups.append(
            Group(
                bool(value % 2),
                index,
                pattern,
                np.repeat(start[pattern], rows[pattern]) + offset,
                member,
            )
        )
    return tuple(groups)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0
