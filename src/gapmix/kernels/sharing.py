"""What components share in rows: responsibilities, from log densities.

Rows are taken a few at a time, so that all that is done with them is done in the cache.
`kernels.twins` has the same functions in plain NumPy.
"""

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_kernel
from gapmix.kernels.exponentials import take_exponentials
from gapmix.kernels.records import MATRIX, REAL, REALS

ROWS = 64  # taken at a time


@compile_kernel(MATRIX, REALS, REALS, REALS, twin=twins.share_out)
def share_out(joint, weights, log_weights, log_prob):  # type: ignore[no-untyped-def]
    """Turn log densities (K, n) into responsibilities, in place; set log p(row) (n,).

    A row so far away that every density underflows is given the weights.
    """
    n_components, n = joint.shape
    top, total, room = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    for first in range(0, n, ROWS):
        n_rows = min(ROWS, n - first)
        for i in range(n_rows):
            top[i], total[i] = -np.inf, 0.0
        for k in range(n_components):
            line, log_weight = joint[k, first : first + n_rows], log_weights[k]
            for i in range(n_rows):
                largest, value = top[i], line[i] + log_weight
                line[i] = value
                # What is not a number stays the largest.
                top[i] = largest if (largest >= value) | (largest != largest) else value
        for k in range(n_components):
            line = joint[k, first : first + n_rows]
            for i in range(n_rows):
                line[i] -= top[i]
            take_exponentials(line, room[:n_rows])
            for i in range(n_rows):
                total[i] += line[i]
        for i in range(n_rows):
            log_prob[first + i] = np.log(total[i]) + top[i]
        for k in range(n_components):
            line = joint[k, first : first + n_rows]
            for i in range(n_rows):
                line[i] /= total[i]
        for i in range(n_rows):
            if not np.isfinite(top[i]):
                log_prob[first + i] = -np.inf
                for k in range(n_components):
                    joint[k, first + i] = weights[k]


@compile_kernel(MATRIX, REAL, MATRIX, twin=twins.drop_negligible)
def drop_negligible(resp, negligible, kept):  # type: ignore[no-untyped-def]
    """Set `kept` to shares (K, n), and to 0 where they are negligible beside their component's."""
    n_components, n = resp.shape
    for k in range(n_components):
        largest = 0.0
        for i in range(n):
            largest = max(largest, resp[k, i])
        least = negligible * largest
        for i in range(n):
            kept[k, i] = resp[k, i] if resp[k, i] > least else 0.0
