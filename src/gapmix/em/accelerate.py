"""Fewer passes for EM: where to look next, given the steps already taken.

EM is a fixed-point iteration theta -> G(theta) that converges linearly, and slowly when much is
missing. Its residual G(theta) - theta is a gradient: that of the objective, preconditioned by the
information that complete rows would carry. `Chart` draws parameters as vectors in which this
preconditioner is the identity (at the point the chart is drawn about): log weights, whitened means,
log-Cholesky factors and log probabilities of levels, each times the root of its Fisher information
per row (those of means and covariances are the structure's). In these vectors the residual
is the gradient, lengths do not depend on units, and every vector is a mixture.

Three ways to propose a point beyond the plain step, all from differences of points (steps) and of
their residuals (changes): limited-memory quasi-Newton steps, damped Anderson mixing and SQUAREM.
Nothing here evaluates the objective: whoever does must refuse a proposal that lowers it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from gapmix import categories
from gapmix.parameters import NotPositiveDefiniteError, Parameters
from gapmix.structures import STRUCTURES, Chart

METHODS = ("quasi-newton", "anderson", "squarem")
MEMORY = 8  # differences kept,
WIDE_MEMORY = 3  # or so many
WIDE = 50_000  # from this many parameters on: they are the memory of a fit on a wide table
FIRST_REACH = 4.0  # a proposal is at most so many times as long as the plain step; learned later
LEAST_INFORMATION = 1e-12  # on a level, in rows: rarer ones are moved as if they had so much
LEAST_CURVATURE = 1e-8  # of a difference, as the cosine between step and change
DAMPING_BASE, DAMPING_DELAY = 1.2, 25  # of Anderson mixing, as in DAAREM


class State(NamedTuple):
    """What an accelerator knows between two passes; immutable, and small but for its vectors."""

    method: str
    chart: Chart | None = None
    point: np.ndarray | None = None  # (p,) the parameters last accepted, in the chart
    residual: np.ndarray | None = None  # (p,) the plain step from there
    ahead: np.ndarray | None = None  # (p,) the parameters of the next pass, if they are known
    steps: tuple[np.ndarray, ...] = ()  # differences of accepted points, oldest first
    changes: tuple[np.ndarray, ...] = ()  # fall of the residual along each
    was_plain: bool = True  # the last step was a plain one
    was_cut: bool = False  # the last proposal was shortened to `reach`
    reach: float = FIRST_REACH
    n_taken: int = 0  # proposals accepted since the last restart that was a refusal
    to_gain: float = np.inf  # objective per row still to be gained, by the quasi-Newton model


# ---------------------------------------------------------------------- the chart


def draw_chart(parameters: Parameters, *, equal_weights: bool) -> Chart:
    """Return the chart about these parameters.

    Raises
    ------
    NotPositiveDefiniteError
        If a covariance has no Cholesky factor.
    """
    roots = STRUCTURES[parameters.structure].draw_chart(parameters.covariances)
    share = np.sqrt(parameters.weights)
    chart = Chart(share, parameters.means, roots, parameters.structure, equal_weights)
    if not parameters.categories:
        return chart
    information = parameters.weights[:, None] * categories.join(parameters.categories)
    return chart._replace(
        levels=np.sqrt(np.maximum(information, LEAST_INFORMATION)),
        n_levels=categories.count_levels(parameters.categories),
    )


def to_vector(parameters: Parameters, chart: Chart) -> np.ndarray:
    """Return the parameters as a vector (p,): weights, means, covariances.

    Raises
    ------
    NotPositiveDefiniteError
        If a covariance has no Cholesky factor.
    """
    structure = STRUCTURES[chart.structure]
    parts = structure.to_vectors(parameters.means, parameters.covariances, chart)
    if not chart.equal_weights:
        with np.errstate(divide="ignore"):
            parts.insert(0, chart.share * np.log(parameters.weights))
    if chart.n_levels:
        with np.errstate(divide="ignore"):
            log_levels = np.log(categories.join(parameters.categories))
        parts.append((chart.levels * log_levels).reshape(-1))
    return np.concatenate(parts)


def to_parameters(vector: np.ndarray, chart: Chart) -> Parameters:
    """Return the mixture that a vector stands for; the inverse of `to_vector`."""
    n_components = len(chart.share)
    weights = np.full(n_components, 1.0 / n_components)
    if not chart.equal_weights:
        log_weights = vector[:n_components] / chart.share
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        vector = vector[n_components:]
    tables: tuple[np.ndarray, ...] = ()
    if chart.n_levels:
        log_levels = vector[-chart.levels.size :].reshape(chart.levels.shape) / chart.levels
        parts = categories.split(log_levels, chart.n_levels)
        tables = tuple(softmax(part, axis=1) for part in parts)
        vector = vector[: -chart.levels.size]
    means, covariances = STRUCTURES[chart.structure].from_vector(vector, chart)
    return Parameters(weights, means, covariances, chart.structure, tables)


# ---------------------------------------------------------------------- what was seen


def observe(
    state: State,
    parameters: Parameters,
    plain: Parameters,
    *,
    equal_weights: bool,
) -> State:
    """Return the state after a pass at accepted `parameters`, from which EM steps to `plain`.

    Where either cannot be drawn (a weight of 0, a covariance without a factor), all is forgotten.
    """
    chart, point = state.chart, state.ahead
    with np.errstate(all="ignore"):
        try:
            if chart is None or point is None:
                chart = draw_chart(parameters, equal_weights=equal_weights)
                point = to_vector(parameters, chart)
            residual = to_vector(plain, chart) - point
        except NotPositiveDefiniteError:
            return restart(state)
    if not (np.isfinite(point).all() and np.isfinite(residual).all()):
        return restart(state)
    state = state._replace(chart=chart)
    if state.point is not None and state.residual is not None:
        state = _remember(state, point - state.point, state.residual - residual)
    reach = 2.0 * state.reach if state.was_cut else state.reach
    return state._replace(
        point=point, residual=residual, ahead=point + residual, reach=reach, was_cut=False
    )


def _remember(state: State, step: np.ndarray, change: np.ndarray) -> State:
    limit = WIDE_MEMORY if step.size > WIDE else MEMORY
    steps, changes = state.steps, state.changes
    if state.method == "anderson" and len(steps) >= limit:
        steps, changes = (), ()  # restarts keep the differences independent
    return state._replace(steps=(*steps, step)[-limit:], changes=(*changes, change)[-limit:])


def refuse(state: State) -> State:
    """Return the state after a proposal lowered the objective: cautious, and with nothing known."""
    return restart(state)._replace(reach=max(1.0, 0.5 * state.reach), n_taken=0)


def restart(state: State) -> State:
    """Return a state without memory; the next chart is drawn about where EM is then."""
    return State(state.method, reach=state.reach, n_taken=state.n_taken)


# ---------------------------------------------------------------------- what to try next


def propose(state: State, longest: float = np.inf) -> tuple[State, Parameters | None]:
    """Return parameters worth a pass instead of the plain step, or None if there are none.

    They are at most `longest` times as far away as the plain step, whatever was learned of `reach`.
    """
    stay = state._replace(was_plain=True, to_gain=np.inf)
    if state.chart is None or state.point is None or state.residual is None or not state.steps:
        return stay, None
    residual = state.residual
    newton = _newton_step(residual, state.steps, state.changes)
    stay = stay._replace(to_gain=0.5 * float(newton @ residual))
    if state.method == "quasi-newton":
        step = newton
    elif state.method == "anderson":
        step = _mixed_step(residual, state.steps, state.changes, state.n_taken)
    elif state.was_plain:
        step = _squared_step(state.steps[-1], state.changes[-1])
    else:
        return stay, None
    unit, length = _length(residual), _length(step)
    if not float(step @ residual) > 0.0 or not np.isfinite(length):
        return restart(state), None  # not uphill: what was remembered misleads
    allowed = min(state.reach, longest) * unit
    cut = length > allowed
    if cut:
        step *= allowed / length
    ahead = state.point + step
    with np.errstate(all="ignore"):
        parameters = to_parameters(ahead, state.chart)
    if not all(np.isfinite(array).all() for array in (*parameters[:3], *parameters.categories)):
        return refuse(state), None
    taken = stay._replace(
        ahead=ahead,
        was_plain=False,
        was_cut=cut and state.reach <= longest,
        n_taken=state.n_taken + 1,
    )
    return taken, parameters


def _newton_step(
    residual: np.ndarray, steps: tuple[np.ndarray, ...], changes: tuple[np.ndarray, ...]
) -> np.ndarray:
    """Return H residual, H being the inverse Hessian by the two loops of L-BFGS.

    It begins with the identity, a plain step, times the length suggested by the last difference;
    never less than 1, since what is observed carries no more information than complete rows.
    Differences along which the objective is not concave are passed over.
    """
    step = residual.copy()
    pairs = [(s, y, float(s @ y)) for s, y in zip(steps, changes, strict=True)]
    pairs = [(s, y, c) for s, y, c in pairs if c > LEAST_CURVATURE * _length(s) * _length(y)]
    weight = []
    for s, y, c in pairs[::-1]:
        weight.append(float(s @ step) / c)
        step -= weight[-1] * y
    if pairs:
        _, y, c = pairs[-1]
        step *= max(1.0, c / float(y @ y))
    for (s, y, c), w in zip(pairs, weight[::-1], strict=True):
        step += (w - float(y @ step) / c) * s
    return step


def _length(vector: np.ndarray) -> float:
    return float(np.sqrt(vector @ vector))


def _mixed_step(
    residual: np.ndarray,
    steps: tuple[np.ndarray, ...],
    changes: tuple[np.ndarray, ...],
    n_taken: int,
) -> np.ndarray:
    """Return the step to the mean of past plain steps whose mean residual is small.

    The coefficients minimise |residual - sum c_i change_i|^2 + damping |c|^2, with the damping
    at which |c|^2 is a given share of what it would be without: little at first, then all of it.
    """
    gram = np.array([[float(a @ b) for b in changes] for a in changes])
    values, vectors = np.linalg.eigh(gram)
    if not values[-1] > 0.0:
        return residual.copy()
    values = np.maximum(values, 1e-14 * values[-1])
    along = vectors.T @ np.array([float(y @ residual) for y in changes])
    share = 1.0 / (1.0 + DAMPING_BASE ** (DAMPING_DELAY - n_taken))
    target = share * float(((along / values) ** 2).sum())
    low, high = 0.0, values[-1] / share
    for _ in range(60):
        damping = 0.5 * (low + high)
        if float(((along / (values + damping)) ** 2).sum()) > target:
            low = damping
        else:
            high = damping
    coefficients = vectors @ (along / (values + high))
    step = residual.copy()
    for c, s, y in zip(coefficients, steps, changes, strict=True):
        step += c * (s - y)
    return step


def _squared_step(step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return SQUAREM's step after a plain one: 2 a r + a^2 v - r, from where that one led.

    r is the plain step taken, -v the fall of the residual along it, a = |r| / |v|.
    """
    length = max(1.0, _length(step) / max(_length(change), np.finfo(float).tiny))
    result: np.ndarray = (2.0 * length - 1.0) * step - length**2 * change
    return result
