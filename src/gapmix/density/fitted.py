"""A fitted mixture at work on new rows: densities, filled values, quantiles and draws.

Rows are tables (n, D) with categories as codes, NaN where missing, in the columns that `n_levels`
tells. Everything here is in the user's units, and every row is treated by itself: the rows beside
it and the order of the columns change its answer by rounding only, since sums are taken in another
order (matrix products of other shapes; below 1e-11 standard deviations in `tests/test_promises.py`,
more where a covariance is nearly singular). The number of threads changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gapmix import categories
from gapmix import units as scaling
from gapmix.categories import is_mixed, join_table, split_table
from gapmix.density import conditional
from gapmix.density.conditional import Filled, ReadyDensity, Scores
from gapmix.parameters import Parameters
from gapmix.plan.rows import Layout, lay_out_rows
from gapmix.shapes import (
    Shape,
    forward_table,
    inverse_table,
    list_shaped,
    log_derivative,
    log_slopes,
)
from gapmix.solvers import SOLVERS
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import (
    marginal_parameters,
    parameters_to_internal,
    without_numbers,
)
from gapmix.threads import open_engine
from gapmix.units import Scaling, no_units, select_columns


class Density(NamedTuple):
    """The density of a mixture, and how to compute with it."""

    parameters: Parameters  # in the user's units
    units: Scaling
    solver: str
    n_jobs: int | None
    n_levels: np.ndarray | None = None  # (D,) levels of each column, 0 for numbers
    shapes: tuple[Shape, ...] = ()  # of all columns, if parameters are those of transformed ones
    trust: np.ndarray | None = None  # (D,) see `pools`; None trusts what rows say of all columns


def pools(density: Density) -> bool:
    """Tell whether some gaps get a pool of two distributions.

    One is the distribution given the rest of the row, with the share `trust` of the column, the
    other that of an empty row. So the mean is drawn towards the column's, and deviations,
    quantiles, draws and probabilities are those of the pool. Densities of rows are not pooled.
    """
    return density.trust is not None and bool((density.trust < 1.0).any())


def marginal(density: Density, columns: np.ndarray) -> Density:
    """Return the density of some of the columns, the others integrated out."""
    trust = None if density.trust is None else density.trust[columns]
    density = density._replace(trust=trust)
    tables, n_levels = density.parameters.categories, density.n_levels
    numbers = columns
    if n_levels is not None and n_levels.any():
        is_number = n_levels == 0
        place = np.where(is_number, np.cumsum(is_number), np.cumsum(~is_number)) - 1
        numbers = place[columns[is_number[columns]]]
        tables = tuple(tables[place[c]] for c in columns if not is_number[c])
        n_levels = n_levels[columns]
        if not numbers.size:
            parameters = without_numbers(density.parameters)._replace(categories=tables)
            return density._replace(
                parameters=parameters, units=no_units(), n_levels=n_levels, shapes=()
            )
    parameters = marginal_parameters(density.parameters, numbers)._replace(categories=tables)
    units = select_columns(density.units, numbers)
    shapes = tuple(density.shapes[c] for c in columns) if density.shapes else ()
    return density._replace(parameters=parameters, units=units, n_levels=n_levels, shapes=shapes)


def _prepare(density: Density) -> ReadyDensity:
    parameters = parameters_to_internal(density.parameters, density.units)
    solver = SOLVERS[density.solver]
    with open_engine(1):
        return ReadyDensity(solver, solver.prepare(parameters), parameters)


def _split(density: Density, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers, transformed as those of the fit were, and codes."""
    return split_table(forward_table(density.shapes, x), density.n_levels)


def _number_shapes(density: Density) -> list[Shape]:
    """Return the shapes of the columns of numbers."""
    n_levels = np.zeros(len(density.shapes)) if density.n_levels is None else density.n_levels
    return [shape for shape, n in zip(density.shapes, n_levels, strict=False) if n == 0]


def _lay_out(density: Density, numbers: np.ndarray, codes: np.ndarray) -> Layout:
    n_factors = STRUCTURES[density.parameters.structure].n_factors
    size = len(density.parameters.weights)
    return lay_out_rows(numbers, size, density.units, codes, n_factors)


def score(density: Density, x: np.ndarray) -> Scores:
    """Return log p(x_o) of each row, 0 for an empty one, and its share of each component."""
    numbers, codes = _split(density, x)
    with open_engine(density.n_jobs) as engine:
        scores = conditional.score(_prepare(density), _lay_out(density, numbers, codes), engine)
    if not density.shapes:
        return scores
    return scores._replace(log_prob=scores.log_prob + log_slopes(density.shapes, x))


def fill(density: Density, x: np.ndarray, *, spread: bool = False) -> Filled:
    """Return rows with gaps filled by their conditional mean, and its deviation if asked for.

    Categories get their most probable level, and as deviation the probability of any other.
    """
    filled = _fill(density, x, spread=spread)
    if not pools(density):
        return filled
    trust, gaps = np.asarray(density.trust), np.isnan(x)
    is_number = (
        np.ones(len(trust), dtype=bool) if density.n_levels is None else density.n_levels == 0
    )
    gaps &= (trust < 1.0) & is_number
    alone = _fill(density, np.full((1, x.shape[1]), np.nan), spread=spread)
    mean = trust * filled.mean + (1.0 - trust) * alone.mean
    if spread:
        near, far = (filled.mean - mean) ** 2, (alone.mean - mean) ** 2
        variance = trust * (filled.std**2 + near) + (1.0 - trust) * (alone.std**2 + far)
        np.copyto(filled.std, np.sqrt(variance), where=gaps)
    np.copyto(filled.mean, mean, where=gaps)
    return filled


def _fill(density: Density, x: np.ndarray, *, spread: bool) -> Filled:
    """Return rows filled, categories by what `trust` makes of them, numbers without it."""
    numbers, codes = _split(density, x)
    with open_engine(density.n_jobs) as engine:
        rows = _lay_out(density, numbers, codes)
        shapes = _number_shapes(density)
        filled = conditional.fill(_prepare(density), rows, engine, spread=spread, shapes=shapes)
    if shapes:
        original = split_table(x, density.n_levels)[0]
        np.copyto(filled.mean, original, where=~np.isnan(original))
        filled.log_prob[:] += log_slopes(density.shapes, x)
    if density.n_levels is None or not is_mixed(density.n_levels):
        return filled
    shares = _level_probabilities(density, codes, filled.resp)
    best = np.column_stack([share.argmax(axis=1) for share in shares])
    mean, std = join_table(filled.mean, best.astype(float), density.n_levels), filled.std
    if spread:
        doubt = np.column_stack([1.0 - share.max(axis=1) for share in shares])
        std = join_table(std, doubt, density.n_levels)
    return filled._replace(mean=mean, std=std, levels=shares)


def level_probabilities(density: Density, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the probabilities of each category's levels given the rest of each row, (n, L_j).

    Where a row shows its level, that one has all.
    """
    codes = split_table(x, density.n_levels)[1]
    return _level_probabilities(density, codes, score(density, x).resp)


def _level_probabilities(
    density: Density, codes: np.ndarray, resp: np.ndarray
) -> tuple[np.ndarray, ...]:
    result, tables = [], density.parameters.categories
    trust = np.ones(len(tables))
    if density.trust is not None and density.n_levels is not None:
        trust = density.trust[density.n_levels > 0]
    for column, table, own in zip(codes.T, tables, trust, strict=True):
        shown = categories.one_hot(column[:, None], [table.shape[1]])
        told = resp @ table
        if own < 1.0:
            told = own * told + (1.0 - own) * (density.parameters.weights @ table)
        result.append(np.where((column >= 0)[:, None], shown, told))
    return tuple(result)


def quantiles(density: Density, x: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return quantiles of every gap given the rest of its row, (len(levels), n, D).

    `levels` is (m,), or (m, D) for columns with levels of their own.
    Observed values come back as they were. Categories have none: their gaps stay NaN.
    """
    numbers, codes = _split(density, x)
    with open_engine(density.n_jobs) as engine:
        rows = _lay_out(density, numbers, codes)
        each = np.broadcast_to(levels.reshape(len(levels), -1), (len(levels), x.shape[1]))
        each = np.nan_to_num(split_table(each, density.n_levels)[0], nan=0.5)
        trust = None
        if pools(density):
            trust = split_table(np.asarray(density.trust)[None], density.n_levels)[0][0]
            trust = np.nan_to_num(trust, nan=1.0)  # of a table without numbers
        values = conditional.quantiles(_prepare(density), rows, each, engine, trust)
    return inverse_table(density.shapes, _with_columns(density, values, x), x)


def distribution(density: Density, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return P(gap <= value | rest of the row) for values (n, D), NaN where there is no gap.

    NaN in all columns of categories, too.
    """
    found = _of_cells(conditional.distribution, density, x, values)
    if not pools(density):
        return found
    trust = np.asarray(density.trust)
    alone = _of_cells(conditional.distribution, density, np.full_like(x, np.nan), values)
    return np.where(trust < 1.0, trust * found + (1.0 - trust) * alone, found)


def cell_scores(density: Density, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return log p(value of the gap | rest of the row), otherwise as `distribution`."""
    found = _of_cells(conditional.cell_scores, density, x, values)
    if density.n_levels is None:
        found -= np.log(density.units.scale)
    else:
        found[:, density.n_levels == 0] -= np.log(density.units.scale)
    for j, shape in list_shaped(density.shapes):
        found[:, j] += log_derivative(shape, values[:, j])
    return found


def _of_cells(
    measure: Callable[..., np.ndarray], density: Density, x: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return what `conditional` finds of values (n, D) of the gaps of x, NaN elsewhere."""
    numbers, codes = _split(density, x)
    inside = scaling.to_internal(_split(density, values)[0], density.units)
    with open_engine(density.n_jobs) as engine:
        rows = _lay_out(density, numbers, codes)
        found = measure(_prepare(density), rows, inside, engine)
    return _with_columns(density, found, np.full_like(x, np.nan))


def _with_columns(density: Density, numbers: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return columns of numbers (..., n, d) beside the categories of a table (n, D)."""
    if density.n_levels is None or not is_mixed(density.n_levels):
        return numbers
    others = x[:, density.n_levels > 0]
    others = np.broadcast_to(others, (*numbers.shape[:-1], others.shape[1]))
    return join_table(numbers, others, density.n_levels)


def draw(density: Density, x: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return draws of the gaps given the rest of each row, (n_draws, n, D)."""
    draws = _draw(density, x, n_draws, rng)
    if pools(density):
        alone = _draw(density, np.full_like(x, np.nan), n_draws, rng)
        swapped = np.isnan(x) & (rng.random(draws.shape) >= np.asarray(density.trust))
        np.copyto(draws, alone, where=swapped)
    return draws


def _draw(density: Density, x: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    numbers, codes = _split(density, x)
    ready = _prepare(density)
    with open_engine(density.n_jobs) as engine:
        resp = conditional.score(ready, _lay_out(density, numbers, codes), engine).resp
        inside = scaling.to_internal(numbers, density.units)
        draws, chosen = conditional.draw(ready, inside, resp, n_draws, rng)
    draws *= density.units.scale  # in place: draws are as large as several tables
    draws += density.units.center
    np.copyto(draws, numbers, where=~np.isnan(numbers))
    if density.n_levels is not None and is_mixed(density.n_levels):
        levels = _draw_levels(density, chosen, rng)
        draws = join_table(draws, np.where(codes < 0, levels, codes), density.n_levels)
    return inverse_table(density.shapes, draws, x)


def _draw_levels(density: Density, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a level of each category, (..., C), for components chosen (...)."""
    drawn = []
    for table in density.parameters.categories:
        ends = np.cumsum(table, axis=1)[chosen]  # (..., L)
        at = rng.random((*chosen.shape, 1)) * ends[..., -1:]
        drawn.append((at > ends).sum(axis=-1))
    return np.stack(drawn, axis=-1)


def sample_rows(
    density: Density, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return new rows (n, D) and the component each came from, (n,), components in order."""
    inside = parameters_to_internal(density.parameters, density.units)
    labels = np.repeat(np.arange(len(inside.weights)), rng.multinomial(n, inside.weights))
    structure, d = STRUCTURES[inside.structure], inside.means.shape[1]
    normal, noise = rng.standard_normal((n, structure.count_normal(d))), np.empty((n, d))
    for k in range(len(inside.weights)):
        noise[labels == k] = structure.colour(inside.covariances, k, normal[labels == k])
    rows = density.parameters.means[labels] + noise * density.units.scale
    if density.n_levels is not None and is_mixed(density.n_levels):
        rows = join_table(rows, _draw_levels(density, labels, rng), density.n_levels)
    return inverse_table(density.shapes, rows, np.full_like(rows, np.nan)), labels
