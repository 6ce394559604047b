"""Categories of a block of rows: log probabilities added up, and levels counted.

`first` (C,) is where the levels of each category begin among all; codes are -1 where missing.
`kernels.twins` has the same functions in plain NumPy.
"""

import numpy as np

from gapmix.kernels import twins
from gapmix.kernels.compiled import compile_kernel
from gapmix.kernels.records import CODES, INTS, MATRIX


@compile_kernel(CODES, INTS, MATRIX, MATRIX, twin=twins.add_log_levels)
def add_log_levels(codes, first, log_theta, total):  # type: ignore[no-untyped-def]
    """Add log p(categories shown | component) to total (K, n); log_theta is (levels, K)."""
    n_rows, n_categories = codes.shape
    n_components = len(total)
    row_total = np.empty(n_components)
    for i in range(n_rows):
        row_total[:] = 0.0
        for c in range(n_categories):
            code = codes[i, c]
            if code >= 0:
                level = first[c] + code
                for k in range(n_components):
                    row_total[k] += log_theta[level, k]
        for k in range(n_components):
            total[k, i] += row_total[k]


@compile_kernel(CODES, INTS, MATRIX, MATRIX, twin=twins.count_levels)
def count_levels(codes, first, resp, counts):  # type: ignore[no-untyped-def]
    """Add responsibilities (K, n) to the counts (K, levels) of the levels that rows show."""
    n_rows, n_categories = codes.shape
    n_components, n_levels = counts.shape
    beside = np.zeros((n_levels, n_components))  # the counts of one level side by side
    row_resp = np.empty(n_components)
    for i in range(n_rows):
        for k in range(n_components):
            row_resp[k] = resp[k, i]
        for c in range(n_categories):
            code = codes[i, c]
            if code >= 0:
                level = first[c] + code
                for k in range(n_components):
                    beside[level, k] += row_resp[k]
    for k in range(n_components):
        for level in range(n_levels):
            counts[k, level] += beside[level, k]
