"""What a mixture says about rows with gaps: densities, filled values, their spread, draws.

Rows are worked on in blocks, each made when its turn comes (`plan.rows.take_block`) and forgotten
after its results are in their place: beside the table and what is returned there is little else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from gapmix import kernels
from gapmix.density.shaped import mean_and_variance
from gapmix.em.records import Engine
from gapmix.em.steps import look
from gapmix.parameters import Parameters
from gapmix.plan.rows import Block, Layout, expand, lay_out_rows, take_block
from gapmix.shapes import Shape, list_shaped
from gapmix.solvers import Completed, Solver
from gapmix.solvers.contract import LOG_2PI
from gapmix.structures import STRUCTURES
from gapmix.structures.mixtures import members
from gapmix.units import Scaling, to_user

QUANTILE_STEPS = 400  # most halvings of a bracket; some 55 do unless components are far apart


class ReadyDensity(NamedTuple):
    """A mixture ready for use: the solver, what it prepared, and the parameters it did so from."""

    solver: Solver
    state: Any
    parameters: Parameters  # internal units


class Scores(NamedTuple):
    """Density of each row and its share of each component, in the rows' original order."""

    log_prob: np.ndarray  # (n,) log p(x_o)
    resp: np.ndarray  # (n, K) p(component | x_o)


class Filled(NamedTuple):
    """Rows with gaps filled by their conditional mean, in the original order and units."""

    mean: np.ndarray  # (n, d)
    std: (
        np.ndarray
    )  # (n, d) conditional standard deviation, 0 where observed; (n, 0) if not asked for
    resp: np.ndarray  # (n, K) where there are categories, else (n, 0)
    log_prob: np.ndarray  # (n,) log p(x_o)
    levels: tuple[np.ndarray, ...] = ()  # (n, L_j) probabilities of the levels of each category


def score(ready: ReadyDensity, layout: Layout, engine: Engine) -> Scores:
    """Return log p(x_o) and responsibilities of every row."""
    n = len(layout.x)
    scores = Scores(np.empty(n), np.empty((n, len(ready.parameters.weights))))

    def score_block(block: Block, row: np.ndarray) -> None:
        visit = ready.solver.visit(ready.state, block)
        log_prob, scores.resp[row] = look(ready.parameters, block, visit.log_density)
        scores.log_prob[row] = _to_user_density(log_prob, block, layout.units)

    _visit(score_block, layout, engine)
    return scores


def _to_user_density(log_prob: np.ndarray, block: Block, units: Scaling | None) -> np.ndarray:
    """Return log densities in the user's units: one factor 1 / scale for each observed value."""
    if units is None:
        return log_prob
    log_unit = np.where(block.observed, np.log(units.scale), 0.0).sum(axis=1)
    return log_prob - expand(log_unit, block)


def _visit(work: Callable[[Block, np.ndarray], None], layout: Layout, engine: Engine) -> None:
    """Do the work on every block, which is given with the numbers of its rows in the table."""

    def visit(span: slice) -> None:
        work(take_block(layout, span), layout.patterns.order[span])

    for _ in engine.map(visit, layout.spans):
        pass


def _in_units(values: np.ndarray, units: Scaling | None) -> np.ndarray:
    return values if units is None else to_user(values, units)


def fill(
    ready: ReadyDensity,
    layout: Layout,
    engine: Engine,
    *,
    spread: bool = False,
    shapes: Sequence[Shape] = (),
) -> Filled:
    """Return E[x | x_o] = sum_j p(j | x_o) E[x | x_o, j], and its standard deviation if asked for.

    The variance is the mean of the components' variances plus the variance of their means. Without
    it, the same means in a third of the time. Gaps of columns that are transformed (`shapes`) get
    the mean and deviation of what the transform was made of; their known cells do not.
    """
    means, units, shaped = ready.parameters.means, layout.units, list_shaped(shapes)
    n, d = layout.x.shape
    n_kept = len(means) if ready.parameters.categories else 0
    std, resp = np.empty((n, spread * d)), np.empty((n, n_kept))
    result = Filled(np.empty((n, d)), std, resp, np.empty(n))

    def fill_block(block: Block, row: np.ndarray) -> None:
        completed = ready.solver.complete(ready.state, block, spread=spread or bool(shaped))
        log_prob, resp = look(ready.parameters, block, completed.log_density)
        result.log_prob[row] = _to_user_density(log_prob, block, units)
        mean = np.zeros(block.x.shape)
        given = [np.ascontiguousarray(each) for each in (resp, means, completed.deviation)]
        kernels.load("completing").blend(*given, mean)
        pattern = expand(np.arange(len(block.observed)), block)
        result.resp[row] = resp[:, :n_kept]
        observed = expand(block.observed, block)
        result.mean[row] = np.where(observed, layout.x[row], _in_units(mean, units))
        if spread:
            variance = np.zeros_like(mean)
            within = np.ascontiguousarray(completed.variance)
            kernels.load("completing").blend_spread(*given, within, pattern, mean, variance)
            std = np.where(observed, 0.0, np.sqrt(variance))
            result.std[row] = std if units is None else std * units.scale
        for j, shape in shaped:
            gap = np.flatnonzero(~observed[:, j])
            within = completed.variance[:, pattern[gap], j]
            scale, center = (1.0, 0.0) if units is None else (units.scale[j], units.center[j])
            each = (completed.deviation[:, gap, j] + means[:, None, j]) * scale + center
            parts = resp[gap].T, each, np.sqrt(within) * scale
            result.mean[row[gap], j], variance = mean_and_variance(shape, *parts)
            if spread:
                result.std[row[gap], j] = np.sqrt(variance)

    _visit(fill_block, layout, engine)
    return result


def _complete(ready: ReadyDensity, block: Block, *, spread: bool) -> tuple[Completed, np.ndarray]:
    """Return the block's rows as each component fills them, and responsibilities (n_b, K)."""
    completed = ready.solver.complete(ready.state, block, spread=spread)
    return completed, look(ready.parameters, block, completed.log_density)[1]


def quantiles(
    ready: ReadyDensity,
    layout: Layout,
    levels: np.ndarray,
    engine: Engine,
    trust: np.ndarray | None = None,
) -> np.ndarray:
    """Return quantiles of every gap given the rest of its row, (len(levels), n, d).

    `levels` is (m, d), each column having its own. With `trust` (d,), each gap's distribution is a
    pool of the one given its row, with this share, and the one of an empty row.

    Observed cells come back as they were. The conditional distribution of a cell is a mixture of
    the components' Gaussians, so its quantiles are roots of a sum of normal distribution functions.
    """
    means = ready.parameters.means
    result = np.empty((len(levels), *layout.x.shape))
    std = np.empty(0)
    if trust is not None:
        structure = STRUCTURES[ready.parameters.structure]
        variance = structure.diagonal(ready.parameters.covariances)
        std = np.sqrt(np.broadcast_to(variance, means.shape))  # one for all, or each its own

    def quantiles_of_block(block: Block, place: np.ndarray) -> None:
        completed, resp = _complete(ready, block, spread=True)
        row, column = np.nonzero(~expand(block.observed, block))
        mean = completed.deviation[:, row, column] + means[:, column]  # (K, cells)
        pattern = expand(np.arange(len(block.observed)), block)
        within = completed.variance[:, pattern[row], column]
        parts = [resp[row].T, mean, np.sqrt(within)]
        if trust is not None:
            weights = (1.0 - trust[column]) * ready.parameters.weights[:, None]
            alone = weights, means[:, column], std[:, column]
            parts[0] = trust[column] * parts[0]
            parts = [np.concatenate(pair) for pair in zip(parts, alone, strict=True)]
        for each, level in zip(result, levels, strict=True):
            inside = np.zeros(block.x.shape)
            inside[row, column] = mixture_quantile(level[column], *parts)
            values, shown = _in_units(inside, layout.units), layout.x[place]
            each[place] = np.where(np.isnan(shown), values, shown)

    _visit(quantiles_of_block, layout, engine)
    return result


def distribution(
    ready: ReadyDensity, layout: Layout, values: np.ndarray, engine: Engine
) -> np.ndarray:
    """Return P(gap <= value | rest of the row) for values (n, d), NaN where there is no gap.

    Values are in internal units.
    """

    def add(total: np.ndarray, resp: np.ndarray, away: np.ndarray, std: np.ndarray) -> None:
        total += resp * ndtr(away / std)

    return _over_components(add, 0.0, ready, layout, values, engine)


def cell_scores(
    ready: ReadyDensity, layout: Layout, values: np.ndarray, engine: Engine
) -> np.ndarray:
    """Return log p(value of the gap | rest of the row), otherwise as `distribution`."""

    def add(total: np.ndarray, resp: np.ndarray, away: np.ndarray, std: np.ndarray) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.log(resp) - 0.5 * (away / std) ** 2 - np.log(std)
            np.logaddexp(total, each - 0.5 * LOG_2PI, out=total)

    return _over_components(add, -np.inf, ready, layout, values, engine)


def _over_components(
    add: Callable[..., None],
    empty: float,
    ready: ReadyDensity,
    layout: Layout,
    values: np.ndarray,
    engine: Engine,
) -> np.ndarray:
    """Return what components add up to for the value of each gap, NaN where there is none.

    `add` gets the sum so far, and a component's responsibility, distance and deviation. A gap
    whose value is NaN is not asked for.
    """
    means = ready.parameters.means
    whole = np.full(layout.x.shape, np.nan)

    def add_block(block: Block, row: np.ndarray) -> None:
        completed, resp = _complete(ready, block, spread=True)
        asked = ~expand(block.observed, block) & ~np.isnan(values[row])
        gap, column = np.nonzero(asked)
        pattern = expand(np.arange(len(block.observed)), block)[gap]
        result, wanted = np.full(len(gap), empty), values[row[gap], column]
        for k, mean in enumerate(means):
            away = wanted - mean[column] - completed.deviation[k, gap, column]
            add(result, resp[gap, k], away, np.sqrt(completed.variance[k, pattern, column]))
        whole[row[gap], column] = result

    _visit(add_block, layout, engine)
    return whole


def mixture_quantile(
    level: float | np.ndarray, weight: np.ndarray, mean: np.ndarray, std: np.ndarray
) -> np.ndarray:
    """Return the quantile of each one-dimensional mixture; all others are (K, cells).

    It lies between the smallest and the largest quantile of the components that have a weight; the
    bracket is halved until no double is left inside, or nothing against the narrowest component.
    """
    each = mean + ndtri(level) * std
    low = np.where(weight > 0, each, np.inf).min(axis=0)
    high = np.where(weight > 0, each, -np.inf).max(axis=0)
    tiny = np.finfo(float).eps * std.min(axis=0)
    for _ in range(QUANTILE_STEPS):
        middle = 0.5 * (low + high)
        if ((middle <= low) | (middle >= high) | (high - low <= tiny)).all():
            break
        below = (weight * ndtr((middle - mean) / std)).sum(axis=0) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def draw(
    ready: ReadyDensity,
    x: np.ndarray,
    resp: np.ndarray,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of whole rows given their observed part, (n_draws, n, d), internal units.

    Also the component that each was drawn from, (n_draws, n).

    First the component, by its responsibility; then its Gaussian. With y a draw from N(0, S),
    y + E[x | x_o - y_o] has the conditional mean and covariance exactly and leaves x_o as it is
    (Matheron's rule), so drawing needs nothing but filling.
    """
    n, d = x.shape
    solver, parameters = ready.solver, ready.parameters
    result = np.empty((n_draws, n, d))
    cumulative = np.cumsum(resp, axis=1)
    chosen = (rng.random((n_draws, n, 1)) * cumulative[:, -1:] > cumulative).sum(axis=2)
    structure = STRUCTURES[parameters.structure]
    width = structure.count_normal(d)
    observed = ~np.isnan(x)
    for k in range(len(parameters.weights)):
        which, row = np.nonzero(chosen == k)
        if not row.size:
            continue
        normal = rng.standard_normal((row.size, width))
        noise = structure.colour(parameters.covariances, k, normal)
        layout = lay_out_rows(x[row] - noise, 1, n_factors=structure.n_factors)
        state = solver.prepare(members(parameters, (k,)))
        for span in layout.spans:
            filled = solver.complete(state, take_block(layout, span), spread=False).deviation[0]
            at = layout.patterns.order[span]
            values = filled + parameters.means[k] + noise[at]
            result[which[at], row[at]] = np.where(observed[row[at]], x[row[at]], values)
    return result, chosen
