"""Starting parameters from incomplete rows: k-means over the observed coordinates, then moments.

Distances and centres use observed values only, in columns scaled to variance 1, so units do not
matter. Everything here is a start: EM makes it exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapmix import categories
from gapmix.parameters import Parameters
from gapmix.plan.canonical import put_in_order
from gapmix.plan.rows import Rows, expand
from gapmix.starts.loadings import find_loadings
from gapmix.structures import STRUCTURES, Structure
from gapmix.units import Scaling

METHODS = ("kmeans", "k-means++", "random", "random_from_data")
MAX_SAMPLE = 20_000  # k-means looks at no more rows than this; the moments use all of them
MAX_LLOYD = 100
RESTLESS = 0.002  # share of the rows that may still change their cluster at the end
DIGITS = 9  # of distances: fewer than units and the order of sums can change


class Sample(NamedTuple):
    """Rows in comparable units: 0 where missing, with what is observed.

    After d numbers come the levels of categories as 0 and 1, all levels of one together with
    variance 1, so that every column weighs the same.
    """

    x: np.ndarray  # (n, d + sum of L_j) variance 1, mean 0
    observed: np.ndarray  # the same, float, 1 where present
    weight: np.ndarray  # (n,)


class Available(NamedTuple):
    """Sums over the rows of each cluster, over whatever is observed."""

    weight: np.ndarray  # (K,) rows
    seen: np.ndarray  # (K, d) rows that show the variable
    first: np.ndarray  # (K, d) sum of values
    pair_count: np.ndarray  # (K, ...) rows that show both, of each product the structure sums
    second: np.ndarray  # (K, ...) sums of products about the cluster's mean


def start(
    rows: Rows,
    scaling: Scaling,
    n_components: int,
    structure_name: str,
    *,
    method: str,
    init_covariance: str,
    equal_weights: bool,
    rng: np.random.Generator,
    shares: categories.Tables = (),
) -> Parameters:
    """Return starting parameters in internal units; `shares` are those of levels in all rows."""
    wanted, d = STRUCTURES[structure_name], rows.x.shape[1]
    structure = STRUCTURES[wanted.BEGINS] if wanted.BEGINS else wanted
    tables = tuple(np.repeat(share[None], n_components, axis=0) for share in shares)
    if n_components > 1 and method in ("random_from_data", "k-means++"):
        sample = draw_sample(rows, scaling, rng, shares)
        if method == "k-means++":
            seeds = seed_centers(sample, n_components, rng)
        else:
            seeds = sample.x[_choose(rng, sample.weight, n_components)]
        means, tables = seeds[:, :d], _lean(tables, seeds[:, d:], shares)
        resp = _all_in_one(rows)
        one = _moments(rows, scaling, resp, 1, structure)
        centers = _divide(one.first, one.seen)
        covariances = np.repeat(_covariances(one, init_covariance, structure), n_components, axis=0)
        weights = np.full(n_components, 1.0 / n_components)
    else:
        if n_components == 1:
            resp = _all_in_one(rows)
        elif method == "kmeans":
            found = cluster(draw_sample(rows, scaling, rng, shares), n_components, rng)
            resp = _nearest_in_rows(rows, scaling, found, shares)
        else:
            resp = _draw_shares(rows, n_components, rng)
        if shares:
            hot = categories.one_hot(rows.codes, [len(share) for share in shares])
            counts = (resp * rows.weight[:, None]).T @ hot
            tables = categories.maximize(counts, tables, categories.LevelPrior(shares))
        available = _moments(rows, scaling, resp, n_components, structure)
        means = centers = _divide(available.first, available.seen)
        covariances = _covariances(available, init_covariance, structure)
        weights = np.maximum(available.weight, 1e-3 * available.weight.sum() / n_components)
        weights = weights / weights.sum()
    if equal_weights:
        weights = np.full(n_components, 1.0 / n_components)
    if wanted.n_factors:
        loadings = find_loadings(rows, scaling, resp, centers, wanted.n_factors, rng)
        covariances = wanted.begin_with(loadings, covariances, weights, scaling.variance)
    else:
        covariances = wanted.begin(covariances, weights, scaling.variance)
    means = means * np.sqrt(scaling.variance) + scaling.mean
    return Parameters(weights, means, covariances, structure_name, tables)


def draw_sample(
    rows: Rows, scaling: Scaling, rng: np.random.Generator, shares: categories.Tables = ()
) -> Sample:
    """Return all rows, or a random MAX_SAMPLE of them, in comparable units."""
    n = len(rows.x)
    chosen = np.arange(n)
    if n > MAX_SAMPLE:  # by their numbers in the table: how they are sorted depends on columns
        is_chosen = np.zeros(n, dtype=bool)
        is_chosen[rng.choice(n, MAX_SAMPLE, replace=False)] = True
        chosen = np.flatnonzero(is_chosen[rows.patterns.order])
    pattern = np.searchsorted(rows.patterns.start, chosen, side="right") - 1
    observed = rows.patterns.observed[pattern]
    x = (rows.x[chosen] - scaling.mean) / np.sqrt(scaling.variance)
    codes = rows.codes[chosen]
    order = put_in_order(
        categories.add_codes(np.where(observed, x, np.nan), codes), rows.weight[chosen]
    )
    seen = observed[order.rows].astype(float)
    sample = Sample(x[order.rows] * seen, seen, order.weight)
    return _add_levels(sample, codes[order.rows], shares)


def _add_levels(sample: Sample, codes: np.ndarray, shares: categories.Tables) -> Sample:
    """Return the sample with the levels of categories as columns of their own."""
    if not shares:
        return sample
    n_levels = [len(share) for share in shares]
    seen = np.repeat(codes >= 0, n_levels, axis=1).astype(float)
    away = (categories.one_hot(codes, n_levels) - categories.join(shares)) * seen
    return sample._replace(
        x=np.hstack([sample.x, away / _spreads(shares)]),
        observed=np.hstack([sample.observed, seen]),
    )


def _spreads(shares: categories.Tables) -> np.ndarray:
    """Return the root of the variance of all levels of a category, for each level, (sum L_j,)."""
    return np.concatenate(
        [np.full(len(share), np.sqrt(max(1.0 - float(share @ share), 1e-6))) for share in shares]
    )


def _lean(
    tables: categories.Tables, seeds: np.ndarray, shares: categories.Tables
) -> categories.Tables:
    """Return tables half way from the overall shares to the levels of the seeds, (K, sum L_j)."""
    if not shares:
        return tables
    away = categories.split(0.5 * seeds * _spreads(shares), [len(share) for share in shares])
    return tuple(np.maximum(table + by, 0.0) for table, by in zip(tables, away, strict=True))


def _draw_shares(rows: Rows, n_components: int, rng: np.random.Generator) -> np.ndarray:
    """Return shares of the components (n, K) by chance, the same for equal rows."""
    observed = np.repeat(rows.patterns.observed, np.diff(rows.patterns.start), axis=0)
    x = categories.add_codes(np.where(observed, rows.x, np.nan), rows.codes)
    order = put_in_order(x, rows.weight)
    raw = rng.uniform(size=(len(order.rows), n_components))[order.which]
    return raw / raw.sum(axis=1, keepdims=True)


def cluster(sample: Sample, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Return k-means centres (K, d): Lloyd's algorithm over observed coordinates.

    A coordinate that no row of a cluster shows is put at the column's mean, 0. A cluster that
    loses all rows restarts at the row farthest from its centre.
    """
    centers = seed_centers(sample, n_clusters, rng)
    if n_clusters == 1:
        return _means(sample, np.zeros(len(sample.x), dtype=int), 1)
    labels, total = np.full(len(sample.x), -1), float(sample.weight.sum())
    for _ in range(MAX_LLOYD):
        distance = distances(sample, centers)
        new_labels = _nearest(distance)
        empty = np.flatnonzero(np.bincount(new_labels, sample.weight, n_clusters) == 0)
        if empty.size:
            away = np.round(distance.min(axis=1), DIGITS)
            farthest = np.argsort(away, kind="stable")[::-1][: empty.size]
            new_labels[farthest] = empty[: farthest.size]
        moved = float(sample.weight @ (new_labels != labels))
        labels = new_labels
        centers = _means(sample, labels, n_clusters)
        if moved <= RESTLESS * total:
            break
    return centers


def seed_centers(sample: Sample, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Return k-means++ seeds (K, d): each the best of a few rows drawn by squared distance.

    Distances are per observed coordinate times d, so that a row with many gaps is neither nearer
    nor farther for having them.
    """
    d = sample.x.shape[1]
    rescale = sample.weight * d / np.maximum(sample.observed.sum(axis=1), 1.0)
    n_trials = 2 + int(np.log(n_clusters))
    chosen = [int(_choose(rng, sample.weight, 1)[0])]
    nearest = distances(sample, sample.x[chosen])[:, 0] * rescale
    for _ in range(1, n_clusters):
        mass = nearest if nearest.sum() > 0 else sample.weight
        trials = _choose(rng, mass, n_trials, replace=True)
        each = np.minimum(nearest[:, None], distances(sample, sample.x[trials]) * rescale[:, None])
        best = int(each.sum(axis=0).argmin())
        chosen.append(int(trials[best]))
        nearest = each[:, best]
    return sample.x[chosen]


def distances(sample: Sample, centers: np.ndarray) -> np.ndarray:
    """Return squared distances over observed coordinates, (n, K)."""
    squared: np.ndarray = sample.observed @ (centers**2).T
    squared -= sample.x @ (2.0 * centers.T)
    squared += (sample.x**2).sum(axis=1)[:, None]
    return np.maximum(squared, 0.0, out=squared)


def _nearest(distance: np.ndarray) -> np.ndarray:
    """Return the nearest centre of each row; of those as near but for rounding, the first."""
    labels: np.ndarray = np.round(distance, DIGITS).argmin(axis=1)
    return labels


def _choose(
    rng: np.random.Generator, mass: np.ndarray, size: int, *, replace: bool = False
) -> np.ndarray:
    """Draw row numbers in proportion to `mass`."""
    replace = replace or int(np.count_nonzero(mass)) < size
    return rng.choice(len(mass), size, replace=replace, p=mass / mass.sum())


def _means(sample: Sample, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    resp = np.zeros((len(labels), n_clusters))
    resp[np.arange(len(labels)), labels] = sample.weight
    return _divide(resp.T @ sample.x, resp.T @ sample.observed)


def _nearest_in_rows(
    rows: Rows, scaling: Scaling, centers: np.ndarray, shares: categories.Tables
) -> np.ndarray:
    """Return one-hot assignments (n, K) of all rows, block by block."""
    resp = np.zeros((len(rows.x), len(centers)))
    first = 0
    for block in rows.blocks:
        observed = expand(block.observed, block)
        x = np.where(observed, (block.x - scaling.mean) / np.sqrt(scaling.variance), 0.0)
        sample = Sample(x, observed.astype(float), block.weight)
        sample = _add_levels(sample, block.codes, shares)
        labels = _nearest(distances(sample, centers))
        resp[first + np.arange(len(labels)), labels] = 1.0
        first += len(labels)
    return resp


def _all_in_one(rows: Rows) -> np.ndarray:
    return np.ones((len(rows.x), 1))


def _moments(
    rows: Rows, scaling: Scaling, resp: np.ndarray, n_clusters: int, structure: Structure
) -> Available:
    """Return sums over observed values and observed pairs, in two passes over the blocks."""
    d = rows.x.shape[1]
    spread = np.sqrt(scaling.variance)
    bounds = np.cumsum([0] + [len(block.x) for block in rows.blocks])
    weight, count, first = (
        np.zeros(n_clusters),
        np.zeros((n_clusters, d)),
        np.zeros((n_clusters, d)),
    )
    for block, low in zip(rows.blocks, bounds[:-1], strict=True):
        observed = expand(block.observed, block)
        x = np.where(observed, (block.x - scaling.mean) / spread, 0.0)
        r = resp[low : low + len(x)] * block.weight[:, None]
        weight += r.sum(axis=0)
        count += r.T @ observed
        first += r.T @ x
    means = _divide(first, count)
    shape = (n_clusters, *structure.shape(d))
    second, pair_count = np.zeros(shape), np.zeros(shape)
    for block, low in zip(rows.blocks, bounds[:-1], strict=True):
        seen = expand(block.observed, block).astype(float)
        x = (block.x - scaling.mean) / spread
        for k in range(n_clusters):
            r = resp[low : low + len(x), k] * block.weight
            used = r > 0
            z = (x[used] - means[k]) * seen[used]
            second[k] += structure.sum_products(r[used], z)
            pair_count[k] += structure.sum_products(r[used], seen[used])
    return Available(weight, count, first, pair_count, second)


def _covariances(available: Available, init_covariance: str, structure: Structure) -> np.ndarray:
    """Return positive definite covariances in comparable units.

    "available" divides each sum of products by the rows that show both variables (pairs never
    seen together get 0) and repairs the result; "filled" puts gaps at the cluster's mean. A
    cluster with no more rows than variables is blended with the pooled covariance.
    """
    weight, seen = available.weight, available.seen
    d = int(seen.any(axis=0).sum())  # columns without any value do not count
    rows = weight.reshape((-1,) + (1,) * len(structure.shape(d)))
    divisor = available.pair_count if init_covariance == "available" else rows
    covariances = _divide(available.second, divisor)
    pooled_divisor = divisor.sum(axis=0)
    pooled = _divide(available.second.sum(axis=0), pooled_divisor)
    variances = structure.diagonal(pooled)
    variances[seen.sum(axis=0) == 0] = 1.0
    blended = (rows * covariances + (d + 1) * pooled) / (rows + d + 1)
    covariances = np.where(rows <= d, blended, covariances)
    never = seen == 0
    structure.diagonal(covariances)[never] = np.broadcast_to(variances, seen.shape)[never]
    return structure.make_proper(covariances)


def _divide(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return total / count, and 0 where nothing was counted."""
    return np.divide(total, count, out=np.zeros_like(total), where=count > 0)
