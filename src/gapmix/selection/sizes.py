"""How many components: which sizes to try, what to hide from them, and how to judge and unite them.

Every size is fitted to a table with some known cells hidden, and judged by how well it tells them
from the rest of their rows. Sizes grow while that pays. The best few are then united into one
mixture, which is as good as the best or better, and safer than betting on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

SIZES = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
ROWS_PER_COMPONENT = 10  # sizes with fewer rows for a component are not tried
FACTORS = (5, 13, 34, 89)  # too many do no harm: shrinkage leaves some without loadings
ROWS_PER_FACTOR = 1.5  # more factors than this leaves are not tried
RIDGE = 1e-6  # relative to the variances of the columns: enough to hold covariances above 0,
RIDGES = (1e-3, 0.01, 0.03, 0.1, 0.3)  # and those that few rows for each column may need
ROWS_PER_COLUMN = 30  # with more, covariances need none of them
PATIENCE = 2  # sizes in a row that may bring no gain over the best one so far
SMALLEST_GAIN = 0.0025  # of the loss: less is not worth a larger size,
SMALLEST_LOG_GAIN = 0.01  # and of the log score, in nats of a cell
LARGE = 13  # components, from which on the next size takes as long as all before it
N_UNITED = 3  # sizes united
LANDINGS = (1, 5, 13)  # sizes that many rows leap between


class Size(NamedTuple):
    """What candidates differ by."""

    n_components: int
    n_factors: int
    reg_covar: float


class Candidate(NamedTuple):
    """A number of components that was tried, and what came of it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gapmix import GaussianMixtureImputer
    >>> imputer = GaussianMixtureImputer(max_components=3, random_state=0).fit(load_iris().data)
    >>> sorted({each.n_components for each in imputer.selection_})
    [1, 2, 3]
    """

    n_components: int
    error: float  # root mean square error of hidden cells, in standard deviations of their columns
    log_score: float  # mean log density of a hidden cell given the rest of its row
    n_iter: int
    seconds: float
    share: float = 0.0  # weight in the united mixture; 0 if left out
    loss: float = 0.0  # what sizes are compared by: see `judging.measure_loss`
    n_factors: int = 0  # of each component, if covariances have factors
    reg_covar: float = RIDGE  # added to covariances, relative to the variances of the columns


def list_sizes(n_rows: int, max_components: int | None) -> list[int]:
    """Return the sizes worth trying on a table of so many rows, at least one."""
    largest = max(1, n_rows // ROWS_PER_COMPONENT)
    if max_components is not None:
        largest = min(largest, max_components)
    sizes = [size for size in SIZES if size <= largest]
    if max_components is not None and max_components <= largest and max_components not in sizes:
        sizes.append(max_components)
    return sizes


def measure_spread(x: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Return the standard deviation of the known values of each column, 0 where there are none.

    Rows count by their `weight` (n,), if it is given.
    """
    if weight is None:
        return np.nanstd(np.where(np.isnan(x).all(axis=0), 0.0, x), axis=0)
    observed = ~np.isnan(x)
    total = np.where(observed.any(axis=0), weight @ observed, 1.0)
    mean = weight @ np.where(observed, x, 0.0) / total
    return np.sqrt(weight @ np.where(observed, x - mean, 0.0) ** 2 / total)


def grow(
    sizes: Iterable[int],
    judge: Callable[[int], Candidate],
    patience: int = PATIENCE,
    *,
    foresees: bool = False,
    leaps: bool = False,
) -> tuple[Candidate, ...]:
    """Return the sizes tried in turn, until `patience` of them in a row bring no gain.

    If it `foresees`, a large size is tried only if gains promise one.
    If it `leaps`, sizes between two landings are tried only if the larger one is no better.
    The log score shows a gain where the loss is still too noisy to tell, and either will do.
    """
    tried: list[Candidate] = []
    loss, log_score, since = np.inf, -np.inf, 0
    for size in _leap(list(sizes), tried) if leaps else sizes:
        tried.append(judge(size))
        gains = loss - tried[-1].loss, tried[-1].log_score - log_score
        if gains[0] > SMALLEST_GAIN or gains[1] > SMALLEST_LOG_GAIN:
            since = 0
        else:
            since += 1
        loss, log_score = min(loss, tried[-1].loss), max(log_score, tried[-1].log_score)
        if since >= patience or (foresees and _has_ended(tried)):
            break
    return tuple(tried)


def _leap(sizes: list[int], tried: list[Candidate]) -> Iterator[int]:
    """Yield sizes; those between two landings only if the larger of these is no better."""
    between: list[int] = []
    for size in sizes:
        if size < LANDINGS[-1] and size not in LANDINGS:
            between.append(size)
            continue
        yield size
        if between and tried[-1].loss >= min(each.loss for each in tried[:-1]):
            yield from between
        between = []
    yield from between


def _has_ended(tried: list[Candidate]) -> bool:
    """Tell whether a next size, which would be large, is to gain too little.

    Gains are believed to go on falling as they do: after g, and h before it, g g / h is next.
    """
    if len(tried) < 3 or tried[-1].n_components < LARGE:
        return False
    last = tried[-3:]
    loss, log_score = (
        np.diff(each) for each in zip(*((-c.loss, c.log_score) for c in last), strict=True)
    )
    return _foresee(*loss) <= SMALLEST_GAIN and _foresee(*log_score) <= SMALLEST_LOG_GAIN


def _foresee(before: float, last: float) -> float:
    """Return the next of two gains."""
    return last * min(1.0, last / before) if min(before, last) > 0 else max(last, 0.0)


def grow_factors(
    numbers: Iterable[int], judge: Callable[[int], Candidate]
) -> tuple[Candidate, ...]:
    """Return the numbers of factors tried in turn, until there is no gain, or one is left idle.

    A candidate says how many of its factors are in use; of two that agree, the later one stays.
    """
    tried: list[Candidate] = []

    def ask() -> Iterator[int]:
        for number in numbers:
            yield number
            if tried[-1].n_factors < number:  # more factors would be idle too
                return

    def keep(number: int) -> Candidate:
        tried.append(judge(number))
        return tried[-1]

    return tuple({size_of(each): each for each in grow(ask(), keep, 1)}.values())


def choose_best(tried: tuple[Candidate, ...], *, average: bool) -> list[Candidate]:
    """Return the few of smallest loss, the best first, or the best alone.

    Of those with as many components, whose factors or ridges differ, only the best counts.
    """
    ordered = sorted(tried, key=lambda each: each.loss)
    best = {each.n_components: each for each in reversed(ordered)}
    return [each for each in ordered if best[each.n_components] is each][
        : N_UNITED if average else 1
    ]


def share(
    tried: tuple[Candidate, ...], best: list[Candidate], shares: np.ndarray | None
) -> tuple[Candidate, ...]:
    """Return the candidates with shares (S,) for the best, equal ones if none are given."""
    if shares is None:
        shares = np.full(len(best), 1.0 / len(best))
    of_size = dict(zip(map(size_of, best), shares.tolist(), strict=True))
    return tuple(each._replace(share=of_size.get(size_of(each), 0.0)) for each in tried)


def size_of(candidate: Candidate) -> Size:
    """Return what a candidate was fitted with."""
    return Size(candidate.n_components, candidate.n_factors, candidate.reg_covar)


def list_sizes_once(tried: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Return candidates to show: of those that differ by their ridge alone, the best one."""
    best: dict[tuple[int, int], Candidate] = {}
    for each in tried:
        size = each.n_components, each.n_factors
        best[size] = min(best.get(size, each), each, key=lambda one: one.loss)
    return tuple(best.values())


def grow_ridge(
    grown: tuple[Candidate, ...], judge: Callable[[int, float], Candidate], *, average: bool
) -> tuple[Candidate, ...]:
    """Return candidates with larger ridges: of the best size while it gains, then of the others.

    Where there are few rows for each column, covariances show relations that are not there.
    """
    best, *others = choose_best(grown, average=average)
    tried: list[Candidate] = []
    for ridge in RIDGES:
        tried.append(judge(best.n_components, ridge))
        last = [each.loss for each in (best, *tried)][-PATIENCE - 1 :]
        if len(tried) >= PATIENCE and min(last) == last[0]:
            break
    found = min((best, *tried), key=lambda each: each.loss)
    if found is best:
        return tuple(tried)
    return (*tried, *(judge(each.n_components, found.reg_covar) for each in others))


def list_factors(n_rows: int, d: int) -> list[int]:
    """Return the numbers of factors worth trying on a table of so many rows and columns."""
    most = int(min(n_rows / ROWS_PER_FACTOR, d / 2))
    return [number for number in FACTORS if number <= most] or [max(1, most)]
