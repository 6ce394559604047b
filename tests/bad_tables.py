"""The bad-input catalogue: tables, what a usable answer about them is, and how errors are met.

Right means finite, of the same shape, no column dropped, the input untouched. An error says what
was found, where, and what to do, and is compared with its text.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from gapmix import GaussianMixture

COVARIANCE_TYPES = ["full", "tied", "diag", "spherical"]
FITTED = ["weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"]
TEXT_ADVICE = (
    "If it marks a gap, replace it by NaN, for example with pandas.to_numeric(column, "
    "errors='coerce'). Otherwise name the column in categorical_features if it is a category, or "
    "leave it out."
)


def make_table(n: int = 60, d: int = 3, *, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


def make_frame() -> pd.DataFrame:
    return pd.DataFrame(make_table(), columns=list("abc"))


def put(value: object, row: int = 5, column: int = 1) -> np.ndarray:
    x = make_table()
    x[row, column] = value
    return x


def assert_usable(mixture: GaussianMixture, x: np.ndarray) -> None:
    """Everything fitted and everything answered about x is finite and of the right shape."""
    n, d = x.shape
    assert mixture.means_.shape[1] == d
    assert mixture.n_features_in_ == d
    for name in FITTED:
        assert np.isfinite(getattr(mixture, name)).all(), name
    assert np.isfinite(mixture.lower_bounds_).all()
    assert np.isclose(mixture.weights_.sum(), 1.0)
    before = x.copy()
    filled, std = mixture.impute(x, return_std=True)
    draws = mixture.sample_missing(x, n_draws=2, random_state=0)
    resp = mixture.predict_proba(x)
    assert filled.shape == std.shape == (n, d)
    assert draws.shape == (2, n, d)
    assert mixture.predict(x).shape == mixture.score_samples(x).shape == (n,)
    for result in (filled, std, draws, resp, mixture.score_samples(x), mixture.sample(5)[0]):
        assert np.isfinite(result).all()
    observed = ~np.isnan(x)
    np.testing.assert_array_equal(filled[observed], x[observed])
    np.testing.assert_array_equal(
        draws[:, observed], np.broadcast_to(x[observed], (2, observed.sum()))
    )
    assert (std[observed] == 0).all()
    assert (std[~observed] >= 0).all()
    np.testing.assert_allclose(resp.sum(axis=1), 1.0)
    np.testing.assert_array_equal(x, before)


def fit_quietly(x: object, **parameters: object) -> GaussianMixture:
    """Fit, whether or not EM converges: with such tables it need not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(**{"random_state": 0, **parameters}).fit(x)


def raises(message: str, kind: type[Exception] = ValueError) -> pytest.RaisesExc:
    """Expect an error with exactly this text."""
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


# ------------------------------------------------------------------ tables that are hard, not wrong


def constant_column(value: float = 3.0) -> np.ndarray:
    x = make_table()
    x[:, 1] = np.where(np.isnan(x[:, 1]), np.nan, value)
    return x


def copied_column(factor: float) -> np.ndarray:
    x = make_table()
    x[:, 2] = factor * x[:, 0]
    return x


def sum_of_columns() -> np.ndarray:
    x = make_table(d=4)
    x[:, 3] = x[:, 0] + x[:, 1]
    return x


def lonely_value() -> np.ndarray:
    x = make_table()
    x[1:, 2] = np.nan
    x[0, 2] = 4.0
    return x


def never_together() -> np.ndarray:
    x = make_table()
    x[:30, 0] = np.nan
    x[30:, 1] = np.nan
    return x


def identifiers() -> np.ndarray:
    return np.column_stack([make_table(), np.arange(60) + 1e6])


HARD = {
    "constant column": constant_column,
    "constant column at zero": lambda: constant_column(0.0),
    "constant column far away": lambda: constant_column(1e12),
    "duplicate column": lambda: copied_column(1.0),
    "scaled duplicate column": lambda: copied_column(-7e9),
    "sum of two columns": sum_of_columns,
    "all values equal": lambda: np.ones((10, 2)),
    "all rows equal": lambda: np.tile([[1.0, np.nan, 3.0, -2.0]], (12, 1))[:, [0, 2, 3]],
    "two different rows": lambda: np.repeat([[1.0, 2.0], [5.0, np.nan]], 6, axis=0),
    "fewer rows than columns": lambda: make_table(5, 12),
    "one column": lambda: make_table(60, 1),
    "one observed value in a column": lonely_value,
    "two columns never seen together": never_together,
    "an identifier": identifiers,
    "two values": lambda: np.where(np.isnan(make_table()), np.nan, make_table() > 0),
    "columns of very different units": lambda: make_table() * [1e-9, 1.0, 1e9],
    "large": lambda: make_table() * 1e140,
    "small": lambda: make_table() * 1e-140,
    "far from zero": lambda: make_table() + 1e9,
    "subnormal among normal values": lambda: put(5e-324),
    "an outlier": lambda: put(1e9),
    "empty rows": lambda: np.vstack([np.full((3, 3), np.nan), make_table(), [[np.nan] * 3]]),
    "nearly empty": lambda: np.where(
        np.random.default_rng(1).random((200, 4)) < 0.9, np.nan, make_table(200, 4)
    ),
    "float16": lambda: make_table().astype(np.float16).astype(float),
}
