"""Whether a column's gaps depend on the known values of others: a rank test of every pair.

This can speak against gaps that fall completely at random. It can neither confirm nor refute that
they are missing *at random*, as filling assumes: that would need the values that are missing.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import rankdata

from gapmix.report.gaps import some_rows

LEVEL = 0.01  # of all tests together
SMALLEST_EFFECT = 0.05  # distance of the chance of being larger from one half
FEWEST = 10  # rows on either side of a comparison
MAX_COLUMNS = 200  # with most gaps; and as many with most values to compare with
MAX_ROWS = 20_000


class Dependence(NamedTuple):
    """A column that is missing more often where another one is high, or where it is low."""

    column: int  # with the gaps
    driver: int
    larger: float  # chance that the driver is larger in a row with the gap than in one without
    median_missing: float  # of the driver, where the column is missing
    median_known: float  # and where it is not
    p: float  # of the rank test, corrected for the number of tests


class Hints(NamedTuple):
    """What the tests found."""

    found: tuple[Dependence, ...]  # the strongest for each column, strongest first
    n_columns: int  # with gaps, that could be tested
    n_tests: int


class RankTests(NamedTuple):
    """The test of Mann and Whitney for every pair of columns."""

    larger: np.ndarray  # (a, b) chance that column b is larger where a is missing
    z: np.ndarray  # (a, b) its distance from one half in standard errors, corrected for ties
    p: np.ndarray  # (a, b) two-sided, NaN where either side has too few rows


def look_for_dependence(x: np.ndarray) -> Hints:
    """Return the columns of a table whose gaps depend on known values of other columns."""
    x = x[some_rows(len(x), MAX_ROWS)]
    n_missing = np.isnan(x).sum(axis=0)
    order = np.argsort(-n_missing, kind="stable")
    gappy = np.sort(order[n_missing[order] > 0][:MAX_COLUMNS])
    drivers = np.sort(order[::-1][:MAX_COLUMNS])
    if not gappy.size or not len(x):
        return Hints((), 0, 0)
    tests = rank_tests(np.isnan(x[:, gappy]), x[:, drivers])
    p = np.where(gappy[:, None] == drivers, np.nan, tests.p)
    tested = np.isfinite(p)
    adjusted = np.full(p.shape, np.nan)
    adjusted[tested] = holm(p[tested])
    effect = np.abs(tests.larger - 0.5)
    notable = np.nan_to_num(adjusted, nan=1.0) < LEVEL
    notable &= effect >= SMALLEST_EFFECT
    strongest = np.where(notable, effect, -1.0).argmax(axis=1)
    found = [
        _tell(x, int(gappy[i]), int(drivers[j]), tests.larger[i, j], adjusted[i, j])
        for i, j in enumerate(strongest)
        if notable[i, j]
    ]
    found.sort(key=lambda each: -abs(each.larger - 0.5))
    return Hints(tuple(found), int(tested.any(axis=1).sum()), int(tested.sum()))


def rank_tests(gaps: np.ndarray, values: np.ndarray) -> RankTests:
    """Compare the values of each column (n, b) where another one (n, a) has gaps and has none.

    With r the ranks of the N known values of a column, m of them in rows with the gap, the
    statistic is U = sum of these ranks - m (m + 1) / 2, its mean m (N - m) / 2 and its variance
    m (N - m) / 12 * (N + 1 - sum over ties of (t^3 - t) / (N (N - 1))). All pairs at once are two
    matrix products.
    """
    known = ~np.isnan(values)
    ranks = np.zeros(values.shape)
    ties = np.zeros(values.shape[1])
    for j in range(values.shape[1]):
        here = values[known[:, j], j]
        ranks[known[:, j], j] = rankdata(here)
        times = np.unique(here, return_counts=True)[1].astype(float)
        ties[j] = (times**3 - times).sum()
    with_gap = gaps.astype(float).T
    m = with_gap @ known  # (a, b)
    total = known.sum(axis=0).astype(float)  # (b,)
    rest = total - m
    u = with_gap @ ranks - m * (m + 1) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = m * rest / 12 * (total + 1 - ties / (total * (total - 1)))
        larger = u / (m * rest)
        z = (u - m * rest / 2) / np.sqrt(variance)
    enough = (m >= FEWEST) & (rest >= FEWEST) & (variance > 0)
    p = np.where(enough, 2 * ndtr(-np.abs(np.where(enough, z, 0.0))), np.nan)
    return RankTests(np.where(enough, larger, 0.5), z, p)


def holm(p: np.ndarray) -> np.ndarray:
    """Return p values corrected by Holm's method, which holds for any dependence of the tests."""
    order = np.argsort(p, kind="stable")
    factor = np.arange(p.size, 0, -1)
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factor))
    return adjusted


def _tell(x: np.ndarray, column: int, driver: int, larger: float, p: float) -> Dependence:
    gap = np.isnan(x[:, column])
    values = x[:, driver]
    known = ~np.isnan(values)
    return Dependence(
        column,
        driver,
        float(larger),
        float(np.median(values[gap & known])),
        float(np.median(values[~gap & known])),
        float(p),
    )
