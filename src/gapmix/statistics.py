"""The sums over rows that the M step needs: additive over any parts of the table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix.parameters import Factored

NO_COUNTS = np.zeros((0, 0))


class Statistics(NamedTuple):
    """Sums over rows, taken about the current means, per component.

    Rows solved on their missing variables add to `first` and `second` directly. Rows solved on
    their observed ones add in the dual coordinates a = S^-1 E[z] (or in whitened ones, b = G' a),
    and are pulled back once per iteration, by `pull_back`, instead of once per row. Of matrices
    only the lower triangle counts.
    """

    log_likelihood: np.ndarray  # () weighted sum of log p(x_o)
    resp: np.ndarray  # (K,) weighted responsibilities, rows on the missing side
    first: np.ndarray  # (K, d) sum of resp E[z]
    second: np.ndarray  # (K, d, d) sum of resp E[z z']; (K, d) its diagonal when diagonal;
    # (K, d, n_sums) what a structure with factors sums for each column
    dual_resp: np.ndarray  # (K,) the same, rows on the observed side
    dual_first: np.ndarray  # (K, d) sum of resp a
    dual_second: np.ndarray  # (K, d, d) sum of resp (a a' - P); (K, 0, 0) if no row is there
    recomputed: np.ndarray  # () matrices that lost their digits and were computed afresh
    counts: np.ndarray  # (K, sum of L_j) sum of resp for each level of each category


class Moments(NamedTuple):
    """What the M step reads: expected moments about the current means, all rows together."""

    resp: np.ndarray  # (K,)
    first: np.ndarray  # (K, d)
    second: np.ndarray  # (K, d, d), (K, d) when diagonal, or (K, d, n_sums)
    counts: np.ndarray = NO_COUNTS  # (K, sum of L_j)


def is_diagonal(moments: Moments) -> bool:
    """Tell whether the solver summed only the diagonal of the second moments."""
    return moments.second.ndim == 2


def add_rows(moments: Moments, at: np.ndarray, n_rows: float) -> Moments:
    """Return the moments with so many further rows at the places (K, d), one per component."""
    square = at**2 if is_diagonal(moments) else at[:, :, None] * at[:, None, :]
    return moments._replace(
        resp=moments.resp + n_rows,
        first=moments.first + n_rows * at,
        second=moments.second + n_rows * square,
    )


def scatter_about(moments: Moments, shift: np.ndarray) -> np.ndarray:
    """Return the scatter about means moved by `shift` to those of the rows: (K, d, d) or (K, d)."""
    resp = moments.resp
    if is_diagonal(moments):
        return np.maximum(moments.second - resp[:, None] * shift**2, 0.0)
    return moments.second - resp[:, None, None] * shift[:, :, None] * shift[:, None, :]


def move_rows(moments: Moments, by: np.ndarray) -> Moments:
    """Return the moments of rows that are all moved: E[(z + b)(z + b)']."""
    resp, first, second, counts = moments
    moved = first + resp[:, None] * by
    if is_diagonal(moments):
        moved_second = second + 2.0 * first * by + resp[:, None] * by**2
        return Moments(resp, moved, moved_second, counts)
    cross = first[:, :, None] * by[:, None, :]
    square = resp[:, None, None] * by[:, :, None] * by[:, None, :]
    return Moments(resp, moved, second + cross + np.swapaxes(cross, 1, 2) + square, counts)


def zero_statistics(
    n_components: int,
    d: int,
    *,
    diagonal: bool,
    observed_side: bool = True,
    n_levels: int = 0,
    n_sums: int = 0,
) -> Statistics:
    """Return statistics of no rows, with room for those solved on their observed side or not.

    `n_levels` is the number of levels of all categories together; with `n_sums`, so many numbers
    are summed for each column, in place of a matrix.
    """
    dual = d if observed_side and not diagonal and not n_sums else 0
    width = (d, n_sums) if n_sums else (d,) if diagonal else (d, d)
    return Statistics(
        np.zeros(()),
        np.zeros(n_components),
        np.zeros((n_components, d)),
        np.zeros((n_components, *width)),
        np.zeros(n_components),
        np.zeros((n_components, d)),
        np.zeros((n_components, dual, dual)),
        np.zeros(()),
        np.zeros((n_components, n_levels)),
    )


def merge_into(total: Statistics, part: Statistics) -> None:
    """Add `part` to `total` in place: large matrices are never held twice."""
    for into, array in zip(total, part, strict=True):
        np.add(into, array, out=into)


def pack(statistics: Statistics, n_sums: int = 0) -> np.ndarray:
    """Return the statistics as one vector, lower triangles only: what crosses a network.

    The dual sums are left out where no row was solved on its observed side; `n_sums` is that of
    `zero_statistics`.
    """
    d = statistics.first.shape[1]
    lower = np.tril_indices(0 if n_sums else d)
    parts = []
    for name, array in zip(Statistics._fields, statistics, strict=True):
        if name in ("dual_first", "dual_second") and not statistics.dual_resp.any():
            continue
        is_matrix = array.ndim == 3 and array.size and not n_sums
        parts.append(array[:, lower[0], lower[1]] if is_matrix else array)
    return np.concatenate([part.reshape(-1) for part in parts])


def unpack(
    vector: np.ndarray,
    n_components: int,
    d: int,
    *,
    diagonal: bool,
    n_levels: int = 0,
    n_sums: int = 0,
) -> Statistics:
    """Return the statistics that `pack` was given, upper triangles zero."""
    result = zero_statistics(n_components, d, diagonal=diagonal, n_levels=n_levels, n_sums=n_sums)
    lower = np.tril_indices(0 if n_sums else d)
    at = 0
    for name, array in zip(Statistics._fields, result, strict=True):
        if name in ("dual_first", "dual_second") and not result.dual_resp.any():
            continue
        if array.ndim == 3 and array.size and not n_sums:
            end = at + n_components * len(lower[0])
            array[:, lower[0], lower[1]] = vector[at:end].reshape(n_components, -1)
        else:
            end = at + array.size
            array[...] = vector[at:end].reshape(array.shape)
        at = end
    return result


def pull_back(statistics: Statistics, factored: Factored, whitened: np.ndarray) -> Moments:
    """Return the moments of all rows: sum z = S sum a, sum zz' = n S + S (sum aa' - P) S.

    `whitened` (K,) tells for which components the dual sums are in the coordinates b = G' a;
    there G takes the place of S.
    """
    first = statistics.first.copy()
    second = mirror(statistics.second)
    dual_second = mirror(statistics.dual_second) if statistics.dual_resp.any() else ()
    for k in np.flatnonzero(statistics.dual_resp > 0):
        back = factored.chol[k] if whitened[k] else factored.sigma[k]
        first[k] += back @ statistics.dual_first[k]
        second[k] += statistics.dual_resp[k] * factored.sigma[k]
        second[k] += back @ dual_second[k] @ back.T
    return Moments(statistics.resp + statistics.dual_resp, first, second)


def mirror(lower: np.ndarray) -> np.ndarray:
    """Return symmetric matrices (..., d, d) from their lower triangles."""
    below = np.tri(lower.shape[-1], dtype=bool)
    return np.where(below, lower, np.swapaxes(lower, -1, -2))
