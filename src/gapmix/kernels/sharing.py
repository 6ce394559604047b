"""What components share in rows: responsibilities, from log densities.

Rows are taken a few at a time, so that all that is done with them is done in the cache.
`kernels.twins` has the same functions in plain NumPy.
"""

from math import factorial

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_in_order, compile_kernel
from gapmix.kernels.records import MATRIX, REAL, REALS

ROWS = 64  # taken at a time
LEAST = -708.0  # below, an exponential is taken for 0: it moves no digit of a sum with a 1 in it
LOG2_E = 1.4426950408889634
# ln 2 in two parts, of which the first has so few digits that its multiples are exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
TO_WHOLE = 1.5 * 2.0**52  # to which a number is added to be rounded, its last bits being whole
ONE_BITS, FRACTION_BITS = 1023, 52  # of the exponent of 1, and after the exponents
TAYLOR = tuple(1.0 / factorial(n) for n in range(13, -1, -1))


@compile_in_order
def _take_exponentials(values, powers):  # type: ignore[no-untyped-def]
    """Turn values (n,), 0 or below, into their exponentials, to the last digit or two.

    That is 2^m e^r, |r| <= ln 2 / 2, e^r by its series: a loop that goes on in vector registers,
    where calls of a library's function, one by one, take more than twice as long. `powers` (n,) is
    room to work in.
    """
    for i in range(values.size):
        value = values[i]
        x = value if value > LEAST else LEAST
        shifted = x * LOG2_E + TO_WHOLE
        m = shifted - TO_WHOLE
        r = x - m * LN2_HIGH - m * LN2_LOW
        series = 0.0
        for coefficient in TAYLOR:
            series = series * r + coefficient
        powers[i] = shifted
        values[i] = series if value > LEAST else 0.0
    bits = powers.view(np.int64)
    for i in range(values.size):
        bits[i] = (bits[i] + ONE_BITS) << FRACTION_BITS
    for i in range(values.size):
        values[i] *= powers[i]


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
            _take_exponentials(line, room[:n_rows])
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
