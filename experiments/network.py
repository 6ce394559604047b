"""A network with one hidden layer, trained by stochastic gradient descent, one row at a time.

f(x) = b2 + w2 . tanh(b1 + W1 x), and the loss of a row is

    1/2 (f(x) - y)^2 + 1/2 decay (|W1|^2 + |w2|^2).

After t rows the rate is rate / (1 + decrease t), as in the paper. The loops are compiled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np


class Setting(NamedTuple):
    """What the paper varies."""

    hidden: int
    decay: float
    rate: float
    decrease: float


class Weights(NamedTuple):
    """The network."""

    w1: np.ndarray  # (h, d)
    b1: np.ndarray  # (h,)
    w2: np.ndarray  # (h,)
    b2: np.ndarray  # (1,)


class Trained(NamedTuple):
    """The network of the epoch that was best on the validation rows."""

    weights: Weights
    validation: float  # mean squared error
    epoch: int  # which one it was, from 1
    epochs: int  # how many there were


def start(hidden: int, d: int, rng: np.random.Generator) -> Weights:
    """Return small weights, uniform within 1 / sqrt(number of inputs) of zero; biases are zero."""
    return Weights(
        rng.uniform(-1.0, 1.0, (hidden, d)) / math.sqrt(d),
        np.zeros(hidden),
        rng.uniform(-1.0, 1.0, hidden) / math.sqrt(hidden),
        np.zeros(1),
    )


def predict(weights: Weights, x: np.ndarray) -> np.ndarray:
    """Return f of each row."""
    w1, b1, w2, b2 = weights
    return np.tanh(x @ w1.T + b1) @ w2 + b2[0]


def row_loss(weights: Weights, x: np.ndarray, y: float, decay: float) -> float:
    """Return the loss of one row."""
    w1, _, w2, _ = weights
    error = predict(weights, x[None])[0] - y
    return float(0.5 * error**2 + 0.5 * decay * ((w1**2).sum() + (w2**2).sum()))


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def step(
    w1: Any, b1: Any, w2: Any, b2: Any, active: Any, x: Any, y: float, rate: float, decay: float
) -> None:
    """Go down the gradient of the loss of one row, in place; `active` is room for h numbers."""
    h, d = w1.shape
    out = b2[0]
    for i in range(h):
        total = b1[i]
        for j in range(d):
            total += w1[i, j] * x[j]
        active[i] = math.tanh(total)
        out += w2[i] * active[i]
    error = out - y
    keep = 1.0 - rate * decay
    b2[0] -= rate * error
    for i in range(h):
        back = rate * error * w2[i] * (1.0 - active[i] * active[i])
        w2[i] = keep * w2[i] - rate * error * active[i]
        b1[i] -= back
        for j in range(d):
            w1[i, j] = keep * w1[i, j] - back * x[j]


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def squared_error(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, y: Any) -> float:
    """Return the mean squared error over rows."""
    h, d = w1.shape
    result = 0.0
    for r in range(len(x)):
        out = b2[0]
        for i in range(h):
            total = b1[i]
            for j in range(d):
                total += w1[i, j] * x[r, j]
            out += w2[i] * math.tanh(total)
        result += (out - y[r]) ** 2
    return result / len(x)


@numba.njit(cache=True)
def descend(
    w1: Any,
    b1: Any,
    w2: Any,
    b2: Any,
    x: Any,
    y: Any,
    x_val: Any,
    y_val: Any,
    orders: Any,
    rate: float,
    decrease: float,
    decay: float,
    patience: int,
) -> Any:
    """Train in place, then put back the weights of the best epoch."""
    active = np.empty(len(b1))
    best_w1, best_b1, best_w2, best_b2 = w1.copy(), b1.copy(), w2.copy(), b2.copy()
    best, best_epoch, seen, epoch = np.inf, 0, 0, 0
    for epoch in range(1, len(orders) + 1):
        for r in orders[epoch - 1]:
            step(w1, b1, w2, b2, active, x[r], y[r], rate / (1.0 + decrease * seen), decay)
            seen += 1
        value = squared_error(w1, b1, w2, b2, x_val, y_val)
        if value < best:
            best, best_epoch = value, epoch
            best_w1[:], best_b1[:] = w1, b1
            best_w2[:], best_b2[:] = w2, b2
        elif epoch - best_epoch >= patience or not np.isfinite(value):
            break
    w1[:], b1[:] = best_w1, best_b1
    w2[:], b2[:] = best_w2, best_b2
    return best, best_epoch, epoch


def train(
    setting: Setting,
    x: np.ndarray,
    y: np.ndarray,
    x_val: np.ndarray,
    y_val: np.ndarray,
    *,
    epochs: int,
    patience: int,
    seed: int,
) -> Trained:
    """Return the network of the best epoch; every epoch has an order of its own."""
    rng = np.random.default_rng(seed)
    weights = start(setting.hidden, x.shape[1], rng)
    orders = np.array([rng.permutation(len(x)) for _ in range(epochs)])
    rows = (np.ascontiguousarray(x), y, np.ascontiguousarray(x_val), y_val)
    best, epoch, n_epochs = descend(
        *weights, *rows, orders, setting.rate, setting.decrease, setting.decay, patience
    )
    return Trained(weights, float(best), int(epoch), int(n_epochs))
