"""One row, or one large index set, at a time: wide tables, and what is left to LAPACK.

`kernels.twins` has the same functions in plain NumPy.
"""

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_inline, compile_kernel
from gapmix.kernels.records import FLAGS, INTS, MATRIX, PLACES, REAL, REALS


@compile_kernel(MATRIX, FLAGS, INTS, REALS, MATRIX, twin=twins.center)
def center(x, observed, start, mean, z):  # type: ignore[no-untyped-def]
    """Set z to x - mean where observed and to 0 elsewhere; rows of pattern p share observed[p]."""
    d = x.shape[1]
    for p in range(observed.shape[0]):
        for i in range(start[p], start[p + 1]):
            for j in range(d):
                z[i, j] = x[i, j] - mean[j] if observed[p, j] else 0.0


@compile_kernel(MATRIX, INTS, MATRIX, twin=twins.take_block)
def take_block(matrix, variables, block):  # type: ignore[no-untyped-def]
    """Set block to the rows and columns of a matrix at these variables."""
    for i in range(variables.size):
        line = matrix[variables[i]]
        for j in range(variables.size):
            block[i, j] = line[variables[j]]


@compile_kernel(MATRIX, INTS, MATRIX, REAL, twin=twins.add_lower)
def add_lower(total, variables, block, weight):  # type: ignore[no-untyped-def]
    """Add weight times the lower triangle of a block to a matrix at these variables."""
    for i in range(variables.size):
        line = total[variables[i]]
        for j in range(i + 1):
            line[variables[j]] += weight * block[i, j]


@compile_kernel(MATRIX, REALS, MATRIX, REALS, twin=twins.weigh)
def weigh(rows, resp, weighted, first):  # type: ignore[no-untyped-def]
    """Collect sqrt(resp) times the rows that have some, and add the sum of resp times rows."""
    d = rows.shape[1]
    n_used = 0
    for i in range(resp.size):
        if resp[i] > 0.0:
            share = np.sqrt(resp[i])
            for j in range(d):
                weighted[n_used, j] = share * rows[i, j]
                first[j] += resp[i] * rows[i, j]
            n_used += 1


@compile_inline
def _gather_rows(places, low, high, source, solution):  # type: ignore[no-untyped-def]
    """Collect the values of rows low:high of a source at the variables of their sets."""
    of_row, variables = places.of_row, places.variables
    for row in range(low, high):
        k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
        for i in range(k):
            solution[s + i] = source[row, variables[v + i]]


@compile_kernel(PLACES, MATRIX, MATRIX, REALS, twin=twins.gather)
def gather(places, missing_source, observed_source, solution):  # type: ignore[no-untyped-def]
    """Collect right-hand sides: for each row, its source's values at the pattern's variables."""
    m = places.n_missing_side
    _gather_rows(places, 0, m, missing_source, solution)
    _gather_rows(places, m, len(places.of_row), observed_source, solution)


@compile_kernel(PLACES, MATRIX, MATRIX, REALS, twin=twins.gather_products)
def gather_products(places, prec, z, solution):  # type: ignore[no-untyped-def]
    """Do what `gather` does, with (prec z) at the missing variables computed on the way.

    Cheaper than the whole product when few variables are missing.
    """
    of_row, variables = places.of_row, places.variables
    d = z.shape[1]
    for row in range(places.n_missing_side):
        k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
        values = z[row]
        for i in range(k):
            line = prec[variables[v + i]]
            total = 0.0
            for j in range(d):
                total += line[j] * values[j]
            solution[s + i] = total
    _gather_rows(places, places.n_missing_side, len(of_row), z, solution)


@compile_kernel(PLACES, MATRIX, REALS, REALS, twin=twins.measure)
def measure(places, z, solution, distance):  # type: ignore[no-untyped-def]
    """Set the distance of rows on the observed side, z_o' S_oo^-1 z_o."""
    of_row, variables = places.of_row, places.variables
    for row in range(places.n_missing_side, len(of_row)):
        k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
        total = 0.0
        for i in range(k):
            total += z[row, variables[v + i]] * solution[s + i]
        distance[row] = total


@compile_kernel(PLACES, REALS, MATRIX, twin=twins.fill)
def fill(places, solution, rows):  # type: ignore[no-untyped-def]
    """Fill the gaps of rows on the missing side: minus the solution, at the missing variables."""
    of_row, variables = places.of_row, places.variables
    for row in range(places.n_missing_side):
        k, v, s = of_row[row, 0], of_row[row, 1], of_row[row, 2]
        for i in range(k):
            rows[row, variables[v + i]] = -solution[s + i]
