"""Exponentials of many numbers, in vector registers."""

from math import factorial

import numpy as np

from gapmix.kernels.compiled import compile_in_order

LEAST = -708.0  # below, an exponential is taken for 0: it moves no digit of a sum with a 1 in it
LOG2_E = 1.4426950408889634
# ln 2 in two parts, of which the first has so few digits that its multiples are exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
TO_WHOLE = 1.5 * 2.0**52  # to which a number is added to be rounded, its last bits being whole
ONE_BITS, FRACTION_BITS = 1023, 52  # of the exponent of 1, and after the exponents
TAYLOR = tuple(1.0 / factorial(n) for n in range(13, -1, -1))


@compile_in_order
def take_exponentials(values, powers):  # type: ignore[no-untyped-def]
    """Turn values (n,), at most 700, into their exponentials, to the last digit or two.

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
