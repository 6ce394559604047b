"""What every structure offers. It says what a component is, and knows nothing of solvers or EM.

`covariances` is an array of the structure's own making, its first axis over components, or of
length 1 if they share one; `d` is the number of columns. No one else looks inside. What a structure
does not say itself is that of a Gaussian with a covariance of its own for each component.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapmix.parameters import Parameters
from gapmix.statistics import Moments, add_rows, move_rows, scatter_about
from gapmix.structures.regularizer import Regularizer

LARGEST_VARIANCE = 1e12  # of a component, over its column's, which n rows have none above n
NO_LEVELS = np.zeros((0, 0))


class Chart(NamedTuple):
    """Coordinates for mixtures of one structure, about one of them; see `em/accelerate.py`."""

    share: np.ndarray  # (K,) root of the weights
    means: np.ndarray  # (K, d)
    chol: np.ndarray  # roots of the covariances, in the shape of these
    structure: str
    equal_weights: bool
    levels: np.ndarray = NO_LEVELS  # (K, sum of L_j) roots of the information on levels
    n_levels: tuple[int, ...] = ()  # of each category


class Structure(ABC):
    """Stateless: one object serves all mixtures of its kind."""

    SOLVER: str  # the one that serves it and needs no trees
    UNITED: str  # the structure of a mixture of such mixtures
    SHARED = False  # one covariance serves all components
    COMMON_UNITS = False  # all columns must be measured in the same unit
    HAS_TARGET = True  # shrinkage is to a covariance, that of all components together
    HAS_AXES = False  # there are principal components to choose from
    BEGINS = ""  # the structure whose moments a start is made of, if not this one
    covariance_type = ""  # its name to users, where its full name tells more
    n_factors = 0  # that loadings tell of
    n_sums = 0  # numbers summed for each column beside `first`, if that is no matrix or diagonal

    # ------------------------------------------------------------------ EM

    def maximize(
        self, moments: Moments, parameters: Parameters, regularizer: Regularizer
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and covariances that maximise the expected objective.

        Components without rows keep theirs, and so do those with so few that a prior would spread
        them without end. The rows of `mean_shrinkage` at the
        overall mean move means and widen covariances as rows would, but do not count for the number
        of rows that covariances are divided by.
        """
        resp = moments.resp
        alive = resp > 0
        safe = np.where(alive, resp, 1.0)
        seen = moments._replace(resp=safe)
        if regularizer.center is not None:
            away = regularizer.center - parameters.means
            seen = add_rows(seen, away, regularizer.mean_shrinkage)
        shift = seen.first / seen.resp[:, None]
        # A shared covariance is divided by the rows of all components together.
        counted = resp if self.SHARED else safe
        covariances = self.estimate(counted, scatter_about(seen, shift), regularizer)
        if not self.SHARED:
            limit = LARGEST_VARIANCE * regularizer.variance
            alive &= (self.diagonal(covariances) < limit).all(axis=1)
            covariances[~alive] = parameters.covariances[~alive]
        return parameters.means + np.where(alive[:, None], shift, 0.0), covariances

    @abstractmethod
    def estimate(
        self, resp: np.ndarray, scatter: np.ndarray, regularizer: Regularizer
    ) -> np.ndarray:
        """Return the covariances, given sums of responsibilities (K,) and the expected scatter.

        The latter is about the new means, (K, d, d), or its diagonal (K, d) if that was summed.
        """

    def restrict(self, covariances: np.ndarray, regularizer: Regularizer) -> np.ndarray:
        """Return the nearest covariances that `n_kept` allows."""
        return covariances

    def log_prior(
        self, means: np.ndarray, prec: np.ndarray, log_det: np.ndarray, regularizer: Regularizer
    ) -> float:
        """Return the log-prior; precisions (K, d, d) or (K, d) and log|S| are the solver's."""
        diagonal = prec if prec.ndim == 2 else np.diagonal(prec, axis1=1, axis2=2)
        value = -0.5 * float((diagonal @ regularizer.ridge).sum())
        if regularizer.center is not None:
            away = means - regularizer.center
            turned = prec * away if prec.ndim == 2 else (prec @ away[:, :, None])[:, :, 0]
            distance = float((away * turned).sum())
            value -= 0.5 * regularizer.mean_shrinkage * distance
        target = regularizer.target
        if target is None:
            return value
        divergence = 0.5 * (
            self.trace(prec, target) - means.shape[1] + log_det - self.log_det(target[None])
        )
        return value - regularizer.shrinkage * float(divergence.sum())

    def auto_shrinkage(self, d: float, n_rows: float) -> float:
        """Return the rows that `shrinkage='auto'` stands for, of d columns and rows for each."""
        return 2.0 * (d + 1)

    def move(self, moments: Moments, by: np.ndarray) -> Moments:
        """Return the moments of rows that are all moved by (K, d)."""
        return move_rows(moments, by)

    @abstractmethod
    def trace(self, prec: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return tr(S^-1 target) of each component (K,)."""

    @abstractmethod
    def count_free(self, d: int, n_kept: int | None = None) -> int:
        """Return the number of free parameters in one covariance."""

    @abstractmethod
    def draw_chart(self, covariances: np.ndarray) -> np.ndarray:
        """Return the roots of the covariances that a chart is drawn about."""

    @abstractmethod
    def to_vectors(
        self, means: np.ndarray, covariances: np.ndarray, chart: Chart
    ) -> list[np.ndarray]:
        """Return the coordinates of means and covariances, to be put one after the other."""

    @abstractmethod
    def from_vector(self, vector: np.ndarray, chart: Chart) -> tuple[np.ndarray, np.ndarray]:
        """Return means and covariances; the inverse of `to_vectors`."""

    # ------------------------------------------------------------------ starts and repairs

    @abstractmethod
    def square(self, vectors: np.ndarray) -> np.ndarray:
        """Return v v' of each vector (..., d), as much of it as a covariance has."""

    @abstractmethod
    def sum_products(self, weight: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return as much of sum weight z z' as a start needs, for rows z (n, d)."""

    @abstractmethod
    def diagonal(self, covariances: np.ndarray) -> np.ndarray:
        """Return a view (..., d) of the variances in covariances, products or a public array."""

    @abstractmethod
    def make_proper(self, covariances: np.ndarray) -> np.ndarray:
        """Return quotients of products as positive definite ones, columns having variance 1."""

    @abstractmethod
    def begin(
        self, covariances: np.ndarray, weights: np.ndarray, variance: np.ndarray
    ) -> np.ndarray:
        """Return proper quotients as covariances to start from, where columns have `variance`."""

    def begin_with(
        self, loadings: np.ndarray, variances: np.ndarray, weights: np.ndarray, unit: np.ndarray
    ) -> np.ndarray:
        """Return covariances to start from, of loadings (d, q) for columns of variance 1."""
        raise NotImplementedError("Only structures with factors begin with loadings.")

    def pool(self, covariances: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return covariances that are all the weighted mean of these."""
        pooled = np.tensordot(weights / weights.sum(), covariances, axes=1)
        return np.repeat(pooled[None], len(covariances), axis=0)

    @abstractmethod
    def half_axis(self, covariance: np.ndarray) -> np.ndarray:
        """Return half a standard deviation along the longest axis of one covariance (d,)."""

    def split(
        self, covariances: np.ndarray, donor: int, dead: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the donor's half axis (d,), and covariances where both have what it leaves."""
        offset = self.half_axis(covariances[donor])
        covariances = covariances.copy()
        covariances[donor] = covariances[donor] - self.square(offset)
        covariances[dead] = covariances[donor]
        return offset, covariances

    def merge(self, parameters: Parameters) -> np.ndarray:
        """Return the covariance, of one component, that has the mixture's second moments."""
        away = parameters.means - parameters.weights @ parameters.means
        spread = parameters.covariances + self.square(away)
        return np.tensordot(parameters.weights, spread, axes=1)[None]

    @abstractmethod
    def log_det(self, covariances: np.ndarray) -> np.ndarray:
        """Return the log determinants (K,)."""

    # ------------------------------------------------------------------ shapes

    @abstractmethod
    def shape(self, d: int) -> tuple[int, ...]:
        """Return the shape of one covariance."""

    @abstractmethod
    def dense(self, covariances: np.ndarray) -> np.ndarray:
        """Return full matrices, as many as there are covariances."""

    def take(self, covariances: np.ndarray, members: Sequence[int]) -> np.ndarray:
        """Return the covariances of some components."""
        return covariances[list(members)]

    def separate(self, covariances: np.ndarray, n_components: int) -> np.ndarray:
        """Return the covariances of the structure `UNITED`, one for each component."""
        return covariances

    def widen(self, covariances: np.ndarray, n_factors: int) -> np.ndarray:
        """Return the same covariances in the shape of a structure with more factors."""
        return covariances

    def drop_idle(self, covariances: np.ndarray) -> np.ndarray:
        """Return the covariances without factors that do nothing, if they have factors."""
        return covariances

    def count_normal(self, d: int) -> int:
        """Return how many standard normal numbers make a row of d columns."""
        return d

    def colour(self, covariances: np.ndarray, k: int, normal: np.ndarray) -> np.ndarray:
        """Return draws (n, d) about the mean of component k, of standard normal ones."""
        one = self.dense(self.take(covariances, (k,)))[0]
        rows: np.ndarray = normal @ np.linalg.cholesky(one).T
        return rows

    @abstractmethod
    def marginal(self, covariances: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the covariances of some columns."""

    @abstractmethod
    def rescale(self, covariances: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the covariances of columns multiplied by `scale` (d,)."""

    def as_target(self, target: np.ndarray) -> np.ndarray:
        """Return a target of shrinkage, given as a matrix or as such, in the structure's shape."""
        return target

    # ------------------------------------------------------------------ users and files

    def public_shape(self, n_components: int, d: int) -> tuple[int, ...]:
        """Return scikit-learn's shape of covariances, precisions and their factors."""
        return n_components, *self.shape(d)

    def to_public(self, covariances: np.ndarray) -> np.ndarray:
        """Return covariances in scikit-learn's shape."""
        return covariances

    def from_public(self, covariances: np.ndarray, d: int) -> np.ndarray:
        """Return covariances given in scikit-learn's shape; the inverse of `to_public`."""
        return covariances

    @abstractmethod
    def precisions(
        self, covariances: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return precisions and their factors, in scikit-learn's shape and the user's units.

        scikit-learn's factor U is upper triangular with U U' the precision: R' of R'R.
        """

    @abstractmethod
    def read_precisions(self, prec: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the covariances of `precisions_init`, which has the public shape.

        Raises
        ------
        ValueError
            If it is not positive definite.
        """

    def check(self, covariance: np.ndarray, component: int) -> None:  # noqa: B027
        """Raise a ValueError unless one covariance with positive variances is a proper one."""
