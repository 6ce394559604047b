"""What is missing in a table: by column, by pattern, and which columns together."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import hypergeom

from gapmix.plan.patterns import Patterns, count_rows, find_patterns

MAX_COLUMNS = 400  # with most gaps, compared with each other
MAX_ROWS = 20_000  # evenly spaced, on which they are compared
ONE_GAP = 0.7  # correlation of gaps from which columns count as missing as one
RELATED = 0.1  # and from which two are said to have to do with each other
FEWEST = 5  # rows in which both are missing
LEVEL = 0.01  # of all comparisons together
NO_LEVELS: Mapping[int, Sequence[str]] = MappingProxyType({})


class ColumnGaps(NamedTuple):
    """The gaps and the values of a column."""

    column: int
    n_missing: int
    share: float  # of the rows
    low: float  # NaN if no value is known
    mean: float
    high: float
    often: str = ""  # of a category, its most frequent level
    often_share: float = np.nan  # of its known cells


class Pair(NamedTuple):
    """Two columns that are missing together more often than by chance."""

    first: int
    second: int
    n_both: int  # rows
    expected: float  # rows, if one's gaps had nothing to do with the other's
    correlation: float


class TableFacts(NamedTuple):
    """What is missing in a table."""

    n_rows: int
    n_columns: int
    n_gaps: int
    n_complete: int  # rows
    n_empty: int  # rows
    patterns: Patterns
    columns: tuple[ColumnGaps, ...]  # all of them, most gaps first
    groups: tuple[tuple[int, ...], ...]  # columns missing as one, largest group first
    pairs: tuple[Pair, ...]  # of which one stands for its group, closest first
    n_compared: int  # columns looked at for groups and pairs
    n_rows_compared: int


def describe(x: np.ndarray, levels: Mapping[int, Sequence[str]] = NO_LEVELS) -> TableFacts:
    """Return what is missing in a table (n, d), NaN where missing, with codes for `levels`."""
    gaps = np.isnan(x)
    n, d = x.shape
    n_missing = gaps.sum(axis=0)
    order = np.argsort(-n_missing, kind="stable")
    some = ~gaps
    low = np.min(x, axis=0, where=some, initial=np.inf)
    high = np.max(x, axis=0, where=some, initial=-np.inf)
    known = n - n_missing
    mean = np.sum(x, axis=0, where=some) / np.maximum(known, 1)
    for j in levels:
        low[j] = mean[j] = high[j] = np.nan
    columns = []
    for j in order.tolist():
        ends = [float(a[j]) if known[j] else np.nan for a in (low, mean, high)]
        found = ColumnGaps(j, int(n_missing[j]), float(n_missing[j] / n), ends[0], ends[1], ends[2])
        if known[j] and j in levels:
            often, share = _most_frequent(x[some[:, j], j], levels[j])
            found = found._replace(often=often, often_share=share)
        columns.append(found)
    varying = order[(n_missing[order] > 0) & (n_missing[order] < n)][:MAX_COLUMNS]
    rows = some_rows(n, MAX_ROWS)
    groups, pairs = _relate(gaps[np.ix_(rows, varying)], varying)
    in_rows = gaps.sum(axis=1)
    return TableFacts(
        n,
        d,
        int(n_missing.sum()),
        int((in_rows == 0).sum()),
        int((in_rows == d).sum()),
        find_patterns(some),
        tuple(columns),
        groups,
        pairs,
        len(varying),
        len(rows),
    )


def _most_frequent(codes: np.ndarray, levels: Sequence[str]) -> tuple[str, float]:
    counts = np.bincount(codes.astype(int), minlength=len(levels))
    return levels[int(counts.argmax())], float(counts.max() / counts.sum())


def most_frequent(patterns: Patterns, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the patterns with most rows and how many these are, (B, d) and (B,)."""
    rows = count_rows(patterns)
    chosen = np.argsort(-rows, kind="stable")[:most]
    return patterns.observed[chosen], rows[chosen]


def some_rows(n: int, most: int) -> np.ndarray:
    """Return the numbers of all rows, or of `most` evenly spaced ones."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def _relate(
    gaps: np.ndarray, columns: np.ndarray
) -> tuple[tuple[tuple[int, ...], ...], tuple[Pair, ...]]:
    """Return groups of columns whose gaps agree, and pairs whose gaps have to do with each other.

    The correlation of two columns of 0 and 1 with shares p and q that are both 1 in a share b of
    the rows is (b - p q) / sqrt(p (1 - p) q (1 - q)).
    """
    n, d = gaps.shape
    if d < 2:
        return (), ()
    ones = gaps.astype(np.float32)  # counts below 2^24 are exact
    both = (ones.T @ ones).astype(float)
    share = both.diagonal() / n
    expected = n * np.outer(share, share)
    spread = np.sqrt(np.outer(share * (1 - share), share * (1 - share)))
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.nan_to_num((both - expected) / (n * spread))
    as_one = (correlation >= ONE_GAP) & (both >= FEWEST)
    n_groups, member = connected_components(csr_array(as_one), directed=False)
    groups = [np.flatnonzero(member == g) for g in range(n_groups)]
    found = sorted((g for g in groups if g.size > 1), key=lambda g: -g.size)
    first = np.array([g[0] for g in groups])  # columns come with most gaps first
    close = correlation[np.ix_(first, first)]
    enough = both[np.ix_(first, first)] >= FEWEST
    a, b = np.nonzero(np.triu(enough & (close >= RELATED), 1))
    # Fisher's exact test: rows missing both, were the gaps of one dealt out among all rows.
    counts = both.diagonal()[first]
    p = hypergeom.sf(both[first[a], first[b]] - 1, n, counts[a], counts[b])
    sure = p < LEVEL / max(1, len(first) * (len(first) - 1) / 2)
    a, b = a[sure], b[sure]
    order = np.argsort(-close[a, b], kind="stable")
    pairs = tuple(
        Pair(
            int(columns[first[i]]),
            int(columns[first[j]]),
            int(both[first[i], first[j]]),
            float(expected[first[i], first[j]]),
            float(close[i, j]),
        )
        for i, j in zip(a[order], b[order], strict=True)
    )
    return tuple(tuple(sorted(int(columns[i]) for i in g)) for g in found), pairs
