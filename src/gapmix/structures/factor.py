"""A few factors and independent noise, S = L L' + diag(psi): (K, d, q + 1), loadings, then noise.

A row is x = mean + L f + e with f ~ N(0, I) of q factors, unknown like the component, and
e ~ N(0, diag(psi)): what is missing drops out. L and any L Q with Q orthogonal are the same
covariance; nothing here depends on which of them it is.

Given f, columns are independent. The ridge is worth c rows of a column that has nothing to do with
the factors. Shrinkage is a prior on loadings, whose scale along each factor is learned as well:
given it they are normal, and with it integrated out their rows have a matrix t-distribution,

    -1/2 sum_j [c log psi_j + (c v_j + c |l_j|^2) / psi_j] - d/2 log|I + s/d L' psi^-1 L|,

v_j being the variance of column j. A factor with l^2 = t psi on average has its loadings shrunk as
if 1 / (1/s + t) rows said that they are 0: a factor that is plain to see by a few rows, one that
only fits noise by up to s, which leaves nothing of it. This is what keeps loadings sane where there
are fewer rows than columns.
"""

from __future__ import annotations

import numpy as np

from gapmix.parameters import SMALLEST_VARIANCE, NotPositiveDefiniteError, Parameters
from gapmix.statistics import Moments
from gapmix.structures.contract import LARGEST_VARIANCE, Chart
from gapmix.structures.diag import Diag
from gapmix.structures.regularizer import Regularizer

LEAST_ROWS = 1e-9  # of the ridge: a column that shows fewer values than factors has loadings still
LEAST_NOISE = 0.05  # of a start, as a share of a column's variance
IDLE, PLAIN = 0.1, 1.0  # l' psi^-1 l: a row tells a tenth of a factor's variance, or half of it
SPLIT = 0.75  # of the variance along the longest axis stays within the halves of a component


def triangle(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the lower triangle, in the order that sums have it."""
    return np.tril_indices(size)


def unfold(packed: np.ndarray, size: int) -> np.ndarray:
    """Return symmetric matrices (..., size, size) from their lower triangles."""
    row, column = triangle(size)
    place = np.empty((size, size), dtype=int)
    place[row, column] = place[column, row] = np.arange(len(row))
    return packed.take(place, axis=-1)


class Factor(Diag):
    """Loadings on `n_factors` factors, and a noise for each variable."""

    SOLVER = "factors"
    BEGINS = "diag"
    HAS_TARGET = False

    def __init__(self, n_factors: int, covariance_type: str = "factor") -> None:
        self.n_factors = n_factors
        self.covariance_type = covariance_type
        self.n_sums = (n_factors + 2) * (n_factors + 3) // 2
        self.UNITED = f"{covariance_type}({n_factors})"

    # ------------------------------------------------------------------ EM

    def maximize(
        self, moments: Moments, parameters: Parameters, regularizer: Regularizer
    ) -> tuple[np.ndarray, np.ndarray]:
        """Regress each column on the factors, over the rows that show it.

        Sums are E[v v'] with v = (f, 1, z): the column's values z about its mean, factors before.
        """
        means, covariances = parameters.means.copy(), parameters.covariances.copy()
        rows, unit = self._rows(regularizer, means.shape[1])
        q = self.n_factors
        for k in np.flatnonzero(moments.resp > 0):
            sums = unfold(moments.second[k], q + 2)
            count = sums[:, q, q] + rows
            sums[:, np.arange(q), np.arange(q)] += rows[:, None]
            sums[:, :q, :q] += self._pull(covariances[k], regularizer)
            sums[:, q + 1, q + 1] += rows * unit
            if regularizer.center is not None:
                away, weight = regularizer.center - means[k], regularizer.mean_shrinkage
                sums[:, q, q] += weight
                sums[:, q, q + 1] += weight * away
                sums[:, q + 1, q + 1] += weight * away**2
            shown = count > 0
            sums[~shown] = np.eye(q + 2)
            sums[:, q, q] = np.where(sums[:, q, q] > 0, sums[:, q, q], 1.0)
            moved = np.linalg.solve(sums[:, : q + 1, : q + 1], sums[:, : q + 1, q + 1, None])
            moved = moved[:, :, 0]
            left = sums[:, q + 1, q + 1] - (moved * sums[:, : q + 1, q + 1]).sum(axis=1)
            noise = self.share_noise(np.maximum(left, 0.0), count, shown)
            if regularizer.loading is not None:
                noise = noise + regularizer.loading
            if not (noise < LARGEST_VARIANCE * regularizer.variance)[shown].all():
                continue
            means[k, shown] += moved[shown, q]
            covariances[k, shown, :q] = moved[shown, :q]
            covariances[k, shown, q] = noise[shown]
        return means, covariances

    def _pull(self, covariance: np.ndarray, regularizer: Regularizer) -> np.ndarray:
        """Return the rows (q, q) that pull loadings to 0: S = (I / s + L' psi^-1 L / d)^-1.

        log|I + s/d A| is concave in A: with S taken at the last loadings, tr(S A) and a constant
        bound it from above, and a step that gains against the bound gains against it.
        """
        s, d = regularizer.shrinkage, self._count_columns(regularizer, len(covariance))
        inner = s / d * measure_factors(covariance) + np.eye(self.n_factors)
        return s * np.linalg.inv(inner)

    def _count_columns(self, regularizer: Regularizer, d: int) -> int:
        """Return the number of columns that show something: others have no ridge."""
        return int((regularizer.ridge > 0).sum()) or d

    def share_noise(self, left: np.ndarray, count: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Return the noise of each column (d,), given what factors leave of so many rows."""
        return np.divide(left, count, out=np.ones_like(left), where=shown)

    def _rows(self, regularizer: Regularizer, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the ridge, and the variance they have, of each column (d,)."""
        variance = np.broadcast_to(regularizer.variance, d)
        return np.where(regularizer.ridge > 0, regularizer.ridge / variance, LEAST_ROWS), variance

    def log_prior(
        self, means: np.ndarray, prec: np.ndarray, log_det: np.ndarray, regularizer: Regularizer
    ) -> float:
        """Return the log-prior; `prec` is what the solver returns: the covariances themselves."""
        square, noise = (prec[:, :, :-1] ** 2).sum(axis=2), prec[:, :, -1]
        rows, unit = self._rows(regularizer, means.shape[1])
        ridge = np.log(noise / unit) + (unit + square) / noise - 1.0
        value = float((ridge @ rows).sum())
        if regularizer.shrinkage > 0:
            columns = self._count_columns(regularizer, means.shape[1])
            inner = regularizer.shrinkage / columns * measure_factors(prec)
            value += columns * float(np.linalg.slogdet(inner + np.eye(self.n_factors))[1].sum())
        if regularizer.center is not None:
            away = (means - regularizer.center) ** 2 / noise
            value += regularizer.mean_shrinkage * float(away.sum())
        return -0.5 * value

    def auto_shrinkage(self, d: float, n_rows: float) -> float:
        """Return the fewest rows that leave no factor of noise alone.

        In units of the noise, its largest variance along an axis is (1 + sqrt(d / n))^2. A factor
        that begins to take what is beyond 1 gains n / 2 for each unit of it, and pays s / 2.
        """
        return float(d + 2.0 * np.sqrt(n_rows * d))

    def move(self, moments: Moments, by: np.ndarray) -> Moments:
        """Return the moments of rows that are all moved: z is the last entry of v."""
        q = self.n_factors
        row = triangle(q + 2)[0]
        second = moments.second.copy()
        last, beside = np.flatnonzero(row == q + 1), np.flatnonzero(row == q)
        cross = second[:, :, last[: q + 1]].copy()
        second[:, :, last[: q + 1]] += by[:, :, None] * second[:, :, beside]
        gain = 2.0 * by * cross[:, :, q] + by**2 * second[:, :, beside[q]]
        second[:, :, last[q + 1]] += gain
        first = moments.first + by * second[:, :, beside[q]]
        return Moments(moments.resp, first, second, moments.counts)

    def count_free(self, d: int, n_kept: int | None = None) -> int:
        """Return the number of loadings and noises, less the turns that change nothing."""
        q = min(self.n_factors, d)
        return min(d * q - q * (q - 1) // 2 + self.count_noise(d), d * (d + 1) // 2)

    def count_noise(self, d: int) -> int:
        """Return the number of noises of a component."""
        return d

    def draw_chart(self, covariances: np.ndarray) -> np.ndarray:
        refuse_improper(covariances)
        return covariances

    def to_vectors(
        self, means: np.ndarray, covariances: np.ndarray, chart: Chart
    ) -> list[np.ndarray]:
        """Return means and loadings in units of the noise, and log noises.

        Each is times the root of its information per row, factors being known.
        """
        refuse_improper(covariances)
        unit = (chart.share[:, None] / np.sqrt(chart.chol[:, :, -1]))[:, :, None]
        joint = np.concatenate([means[:, :, None], covariances[:, :, :-1]], axis=2)
        origin = np.concatenate([chart.means[:, :, None], chart.chol[:, :, :-1]], axis=2)
        free = self.free(np.log(covariances[:, :, -1]))
        return [(unit * (joint - origin)).ravel(), (self._noise_unit(chart) * free).ravel()]

    def from_vector(self, vector: np.ndarray, chart: Chart) -> tuple[np.ndarray, np.ndarray]:
        n_components, d, width = chart.chol.shape
        end = n_components * d * width
        unit = (chart.share[:, None] / np.sqrt(chart.chol[:, :, -1]))[:, :, None]
        moved = vector[:end].reshape(n_components, d, width) / unit
        covariances = np.empty((n_components, d, width))
        covariances[:, :, :-1] = chart.chol[:, :, :-1] + moved[:, :, 1:]
        free = np.exp(vector[end:].reshape(n_components, -1) / self._noise_unit(chart))
        covariances[:, :, -1] = free
        return chart.means + moved[:, :, 0], covariances

    def _noise_unit(self, chart: Chart) -> np.ndarray:
        """Return the root of the information on a log noise, (K, 1)."""
        d = chart.means.shape[1]
        return chart.share[:, None] * np.sqrt(0.5 * (d // self.count_noise(d)))

    # ------------------------------------------------------------------ starts and repairs

    def begin_with(
        self, loadings: np.ndarray, variances: np.ndarray, weights: np.ndarray, unit: np.ndarray
    ) -> np.ndarray:
        """Return covariances to start from, all with the same loadings (d, q).

        `variances` (K, d) are those of the components; columns have variance 1, and then `unit`.
        """
        explained = (loadings**2).sum(axis=1)
        pooled = weights @ variances / weights.sum()
        noise = np.maximum(pooled - explained, LEAST_NOISE * pooled)
        every = np.ones(len(noise), dtype=bool)
        noise = self.share_noise(noise, np.ones_like(noise), every)
        one = np.concatenate([loadings, noise[:, None]], axis=1)
        return self.rescale(np.repeat(one[None], len(variances), axis=0), np.sqrt(unit))

    def diagonal(self, covariances: np.ndarray) -> np.ndarray:
        """Return the variances of the columns; no view."""
        variances: np.ndarray = covariances[..., -1] + (covariances[..., :-1] ** 2).sum(axis=-1)
        return variances

    def half_axis(self, covariance: np.ndarray) -> np.ndarray:
        """Return half a deviation along the factor with the longest loadings, or in one column."""
        return self._longest(covariance)[0]

    def _longest(self, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return half the longest axis (d,), and the covariance (d, q + 1) without its square."""
        loadings, noise = covariance[:, :-1], covariance[:, -1]
        values, turns = np.linalg.eigh(loadings.T @ loadings)
        rest = covariance.copy()
        column = int(noise.argmax())
        half = np.sqrt(1.0 - SPLIT)
        if values[-1] > noise[column]:
            along = loadings @ turns[:, -1]
            rest[:, :-1] -= (1.0 - np.sqrt(SPLIT)) * np.outer(along, turns[:, -1])
            return half * along, rest
        offset = np.zeros(len(noise))
        offset[column] = half * np.sqrt(noise[column])
        rest[column, -1] = SPLIT * noise[column]
        return offset, rest

    def split(
        self, covariances: np.ndarray, donor: int, dead: int
    ) -> tuple[np.ndarray, np.ndarray]:
        offset, rest = self._longest(covariances[donor])
        covariances = covariances.copy()
        covariances[donor] = covariances[dead] = rest
        return offset, covariances

    def merge(self, parameters: Parameters) -> np.ndarray:
        """Return the best few factors of all, what they leave of variances being noise."""
        away = parameters.means - parameters.weights @ parameters.means
        share, loadings = np.sqrt(parameters.weights), parameters.covariances[:, :, :-1]
        columns = np.concatenate(list(share[:, None, None] * loadings), axis=1)
        wide = np.concatenate([columns, (share[:, None] * away).T], axis=1)
        variances = parameters.weights @ (self.diagonal(parameters.covariances) + away**2)
        turns = np.linalg.eigh(wide.T @ wide)[1]
        kept = wide @ turns[:, ::-1][:, : self.n_factors]
        noise = variances - (kept**2).sum(axis=1)
        noise = np.maximum(noise, SMALLEST_VARIANCE)
        return np.concatenate([kept, noise[:, None]], axis=1)[None]

    def log_det(self, covariances: np.ndarray) -> np.ndarray:
        """Return log|psi| + log|I + L' psi^-1 L|."""
        inner = measure_factors(covariances) + np.eye(self.n_factors)
        total: np.ndarray = np.log(covariances[:, :, -1]).sum(axis=1) + np.linalg.slogdet(inner)[1]
        return total

    # ------------------------------------------------------------------ shapes

    def shape(self, d: int) -> tuple[int, ...]:
        return d, self.n_factors + 1

    def dense(self, covariances: np.ndarray) -> np.ndarray:
        """Return matrices (K, d, d), for tests and narrow tables."""
        loadings, noise = covariances[:, :, :-1], covariances[:, :, -1]
        product = loadings @ np.swapaxes(loadings, 1, 2)
        return product + noise[:, :, None] * np.eye(noise.shape[1])

    def widen(self, covariances: np.ndarray, n_factors: int) -> np.ndarray:
        """Return the same covariances with further factors that nothing depends on."""
        none = np.zeros((*covariances.shape[:2], n_factors - self.n_factors))
        return np.concatenate([covariances[:, :, :-1], none, covariances[:, :, -1:]], axis=2)

    def drop_idle(self, covariances: np.ndarray) -> np.ndarray:
        """Return the covariances without factors of which whole rows tell next to nothing.

        That is, if others are plain: where they fade, some may be hidden by what is left of weaker
        ones. At least one is left. Loadings are turned: the plainest factor comes first.
        """
        values, turns = np.linalg.eigh(measure_factors(covariances))
        n_used = max(1, int((values >= IDLE).sum(axis=1).max()))
        if n_used == self.n_factors or ((values >= IDLE) & (values < PLAIN)).any():
            return covariances
        kept = covariances[:, :, :-1] @ turns[:, :, ::-1][:, :, :n_used]
        return np.concatenate([kept, covariances[:, :, -1:]], axis=2)

    def rescale(self, covariances: np.ndarray, scale: np.ndarray) -> np.ndarray:
        result = covariances * scale[:, None]
        result[..., -1] *= scale
        return result

    def count_normal(self, d: int) -> int:
        return d + self.n_factors

    def colour(self, covariances: np.ndarray, k: int, normal: np.ndarray) -> np.ndarray:
        """Return L f + e, standard normal numbers (n, q + d) being factors and noise."""
        loadings, noise = covariances[k, :, :-1], covariances[k, :, -1]
        q = self.n_factors
        rows: np.ndarray = normal[:, :q] @ loadings.T + normal[:, q:] * np.sqrt(noise)
        return rows

    # ------------------------------------------------------------------ users and files

    def precisions(
        self, covariances: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return W (K, d, q) and w = 1 / psi beside it: S^-1 = diag(w) - W W', twice.

        There is no triangular factor that is as small.
        """
        covariances = self.rescale(covariances, scale)
        noise = covariances[:, :, -1:]
        scaled = covariances[:, :, :-1] / noise
        inner = measure_factors(covariances) + np.eye(self.n_factors)
        root = np.linalg.inv(np.linalg.cholesky(inner))
        prec = np.concatenate([scaled @ np.swapaxes(root, 1, 2), 1.0 / noise], axis=2)
        return prec, prec.copy()

    def read_precisions(self, prec: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return covariances of diag(w) - W W': L = psi W (I - W' psi W)^-1/2."""
        width, inverse = prec[:, :, :-1], prec[:, :, -1:]
        if (inverse <= 0).any():
            raise ValueError(f"precisions_init must be positive; its smallest is {inverse.min():g}")
        scaled = width / inverse
        inner = np.eye(self.n_factors) - np.swapaxes(scaled, 1, 2) @ width
        try:
            root = np.linalg.inv(np.linalg.cholesky(inner))
        except np.linalg.LinAlgError as error:
            raise ValueError("precisions_init: diag(w) - W W' is not positive definite.") from error
        covariances = np.concatenate([scaled @ np.swapaxes(root, 1, 2), 1.0 / inverse], axis=2)
        return self.rescale(covariances, 1.0 / scale)

    def check(self, covariance: np.ndarray, component: int) -> None:
        """Raise an error unless every noise is positive."""
        refuse_improper(covariance[None])


class OneNoise(Factor):
    """Probabilistic principal components: as factors, but for what a common noise changes."""

    COMMON_UNITS = True

    def __init__(self, n_factors: int) -> None:
        super().__init__(n_factors, "ppca")

    def share_noise(self, left: np.ndarray, count: np.ndarray, shown: np.ndarray) -> np.ndarray:
        return np.full_like(left, left[shown].sum() / count[shown].sum())

    def count_noise(self, d: int) -> int:
        return 1

    def free(self, covariances: np.ndarray) -> np.ndarray:
        return covariances[:, :1]


def measure_factors(covariances: np.ndarray) -> np.ndarray:
    """Return L' psi^-1 L (..., q, q): what a whole row tells of the factors."""
    scaled = covariances[..., :-1] / covariances[..., -1:]
    inner: np.ndarray = np.swapaxes(scaled, -1, -2) @ covariances[..., :-1]
    return inner


def refuse_improper(covariances: np.ndarray) -> None:
    """Raise an error about a noise that is not positive, or loadings that are not finite."""
    noise = covariances[:, :, -1]
    bad = ~(np.isfinite(covariances).all(axis=2) & (noise > SMALLEST_VARIANCE))
    if bad.any():
        component, pivot = np.argwhere(bad)[0]
        raise NotPositiveDefiniteError(int(component), int(pivot))
