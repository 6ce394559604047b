"""Small tables with gaps for tests of the command line."""

from __future__ import annotations

import numpy as np

N = 60  # rows of a small table
FIT = ("--components", "2", "--threads", "1")


def make_rows(n=N, d=3, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, d)) + np.arange(d)
    x[rng.random((n, d)) < share] = np.nan
    x[0] = np.arange(d)
    return x


def write_rows(path, x, names=None, **changes):
    """Write a matrix, with further columns of text."""
    names = names or [f"v{j}" for j in range(x.shape[1])]
    columns = {
        name: ["" if np.isnan(v) else repr(float(v)) for v in x[:, j]]
        for j, name in enumerate(names)
    }
    columns.update(changes)
    lines = [",".join(columns)] + [",".join(row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def cells(path, delimiter=","):
    return [line.split(delimiter) for line in path.read_text().splitlines()]
