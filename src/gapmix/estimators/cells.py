"""Mostly missing tables, such as ratings: cells in, cells out, nothing as large as the table."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from gapmix.estimators.base import MixtureBased, warn_of_stops
from gapmix.estimators.bounds import store_columns
from gapmix.estimators.shaped import store_shapes
from gapmix.estimators.validation import keeping_last_fit, read_weights, record_columns
from gapmix.fitting.cells import Cells, fit_cells, measure_cells, predict
from gapmix.fitting.fitted import Fitted
from gapmix.kinds import look
from gapmix.selection import sizes
from gapmix.selection.sizes import Candidate
from gapmix.structures import STRUCTURES, name_structure
from gapmix.structures.mixtures import without_idle

HIDDEN = 0.1  # share of the cells that numbers of factors are compared on


class CellsMixin(MixtureBased):
    """Adds sparse tables to an imputer."""

    possible: Any
    transform: Any
    heads_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kinds = "auto", "factor", "ppca"
        tags.input_tags.sparse = self.n_components in ("auto", 1) and self.covariance_type in kinds
        return tags

    @keeping_last_fit
    def fit_cells(self, X: Any, sample_weight: Any = None) -> Any:
        """Fit one component with factors to a sparse table; stored cells, also zeros, are known.

        Time and memory follow the number of cells; nothing of the size of the table is made.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), or (rows, columns, values)
            The cells: stored ones, or a long table of row number, column number and value.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.

        Returns
        -------
        self
        """
        self._check_parameters()
        x = _read_cells(X)
        n, d = x.shape
        weight = read_weights(sample_weight, n)
        if self.n_components not in ("auto", 1):
            raise ValueError(
                f"n_components={self.n_components!r}: a sparse table is fitted with one component. "
                "Use 'auto' or 1."
            )
        kind = "factor" if self.covariance_type == "auto" else self.covariance_type
        if not STRUCTURES[kind].n_factors:
            raise ValueError(
                f"covariance_type={kind!r}: a sparse table is fitted with factors. Use 'auto', "
                "'factor' or 'ppca'."
            )
        record_columns(self, d, None)
        self.is_categorical_ = np.zeros(d, dtype=bool)
        self.categories_: list[np.ndarray] = []
        wanted = self._wanted((n, d))
        self.selection_: tuple[Candidate, ...] = ()
        number = self.n_factors
        if number == "auto":
            self.selection_ = self._compare_factors(Cells(x, weight), kind, wanted.seed)
            number = max(self.selection_, key=lambda each: each.share).n_factors
        fitted = self._fit_factors(Cells(x, weight), kind, int(number))
        warn_of_stops((fitted.advice,))
        by_column = x.tocsc()
        ends = zip(by_column.indptr[:-1], by_column.indptr[1:], strict=True)
        store_columns(self, tuple(look(by_column.data[low:high]) for low, high in ends))
        self.__dict__.pop("columns_", None)
        self.passed_: dict[Any, str] = {}
        self.heads_, self.trust_ = None, np.ones(d)
        self.hidden_error_: float | None = None
        self.mixture_ = self._to_mixture(fitted, wanted.seed, wanted.spec.reg_covar)
        store_shapes(self, ())
        self.calibration_: np.ndarray | None = None
        self.indicated_ = np.empty(0, dtype=int)
        self.n_components_, self.n_iter_ = 1, fitted.n_iter
        self._cells = x
        return self

    def predict_cells(self, rows: Any, columns: Any, X: Any = None) -> np.ndarray:
        """Return the values of some cells: as they are where known, else their conditional mean.

        Parameters
        ----------
        rows, columns : array-like of int, of the same length
            Numbers of the rows and columns.
        X : table or sparse table, default=None
            Whose cells they are; by default those that `fit_cells` was given.

        Returns
        -------
        ndarray of shape (n_cells,)
        """
        check_is_fitted(self)
        row, column = (np.atleast_1d(np.asarray(each)) for each in (rows, columns))
        x = getattr(self, "_cells", None) if X is None else X
        if x is None:
            raise ValueError(
                "predict_cells needs the table X, because fit does not keep the one it was given."
            )
        is_sparse = sparse.issparse(x) or isinstance(x, tuple)
        if not is_sparse:
            needed, which = np.unique(
                _check_places(row, column, np.shape(x))[0], return_inverse=True
            )
            part = x.iloc[needed] if hasattr(x, "iloc") else np.asarray(x)[needed]
            return np.asarray(self.transform(part))[which, column]
        x = _read_cells(x)
        row, column = _check_places(row, column, x.shape)
        told = predict(self.mixture_._fitted(), x, row, column)
        possible = self.possible()
        told = np.clip(told, possible.low[column], possible.high[column])
        known = _find_stored(x, row, column)
        return np.where(known >= 0, x.data[known], told)

    def _fit_factors(self, cells: Cells, kind: str, n_factors: int) -> Fitted:
        spec = self._spec()._replace(
            n_components=1, covariance_type=name_structure(kind, n_factors)
        )
        return fit_cells(spec, cells, self._running())

    def _compare_factors(self, cells: Cells, kind: str, seed: int) -> tuple[Candidate, ...]:
        """Return numbers of factors, judged by cells that are hidden from them."""
        x = cells.x.tocoo()
        hidden = np.random.default_rng([seed, 1]).random(x.nnz) < HIDDEN
        shown = sparse.csr_array((x.data[~hidden], (x.row[~hidden], x.col[~hidden])), shape=x.shape)
        row, column = x.row[hidden], x.col[hidden]
        units = measure_cells(cells, common=False)
        spread = units.scale * np.sqrt(units.variance)

        def judge(n_factors: int) -> Candidate:
            began = time.perf_counter()
            fitted = self._fit_factors(Cells(shown, cells.weight), kind, n_factors)
            fitted = fitted._replace(parameters=without_idle(fitted.parameters))
            n_factors = STRUCTURES[fitted.parameters.structure].n_factors
            away = predict(fitted, shown, row, column) - x.data[hidden]
            square = float(np.mean((away / spread[column]) ** 2)) if len(away) else 0.0
            passed = time.perf_counter() - began
            done = fitted.n_iter
            return Candidate(
                1, square**0.5, 0.0, done, passed, loss=0.5 * square, n_factors=n_factors
            )

        grown = sizes.grow_factors(sizes.list_factors(*x.shape), judge)
        return sizes.share(grown, sizes.choose_best(grown, average=False), None)


def _read_cells(X: Any) -> sparse.csr_array:
    """Return a sparse table in rows, each cell once."""
    if isinstance(X, tuple) and len(X) == 3:
        row, column, value = (np.asarray(each) for each in X)
        X = sparse.coo_array((value, (row, column)))
    if not sparse.issparse(X) or X.ndim != 2:
        raise TypeError(
            f"X is {type(X).__name__}; it must be a sparse table of rows and columns, or three "
            "arrays (rows, columns, values). Tables with NaN for gaps go to fit."
        )
    cells = sparse.coo_array(X)
    x = sparse.csr_array((np.arange(1, cells.nnz + 1), (cells.row, cells.col)), shape=cells.shape)
    if x.nnz < cells.nnz:
        raise ValueError(
            f"{cells.nnz - x.nnz} cells are given more than once; give each cell one value."
        )
    value = np.asarray(cells.data, dtype=float)[x.data - 1]
    if not np.isfinite(value).all():
        raise ValueError("A stored cell is not finite; leave out the cells that are missing.")
    if not len(value):
        raise ValueError("No cell is stored: there is nothing to fit.")
    return sparse.csr_array((value, x.indices, x.indptr), shape=x.shape)


def _check_places(
    row: np.ndarray, column: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of rows and columns, after checking that there are such."""
    if row.shape != column.shape or row.ndim != 1:
        raise ValueError(
            f"rows and columns must have the same length; they are {row.shape} and {column.shape}."
        )
    for name, each, n in (("rows", row, shape[0]), ("columns", column, shape[1])):
        if each.dtype.kind not in "iu" or (each.size and not 0 <= each.min() <= each.max() < n):
            raise ValueError(f"{name} must be whole numbers from 0 to {n - 1}.")
    return row, column


def _find_stored(x: sparse.csr_array, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return where cells are stored, -1 for those that are not."""
    d = x.shape[1]
    keys = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr)) * d + x.indices
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], row * d + column), len(keys) - 1)
    return np.where(keys[order][place] == row * d + column, order[place], -1)
