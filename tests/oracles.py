"""Brute-force answers to compare with: textbook formulas, row by row, no code of the package.

Covariances are full matrices (K, d, d) here, whatever their type. NaN marks a gap.
"""

from __future__ import annotations

import mpmath
import numpy as np
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

# Two test processes with two BLAS threads each spend ten times longer waiting than working.
threadpool_limits(1, user_api="blas")

# ------------------------------------------------------------------ densities, one row at a time


def log_gaussian(x, mean, sigma):
    """Log density of the observed part of one row; 0 for an empty row."""
    o = ~np.isnan(x)
    z, block = x[o] - mean[o], sigma[np.ix_(o, o)]
    log_det = np.linalg.slogdet(block)[1]
    return -0.5 * (o.sum() * np.log(2 * np.pi) + log_det + z @ np.linalg.solve(block, z))


def condition(x, mean, sigma):
    """Conditional mean (d,) of one row and conditional covariance (d, d), 0 where observed."""
    o, m = ~np.isnan(x), np.isnan(x)
    filled, spread = np.where(o, x, mean), np.zeros_like(sigma)
    gain = np.linalg.solve(sigma[np.ix_(o, o)], sigma[np.ix_(o, m)]).T  # (n_m, n_o)
    filled[m] = mean[m] + gain @ (x[o] - mean[o])
    spread[np.ix_(m, m)] = sigma[np.ix_(m, m)] - gain @ sigma[np.ix_(o, m)]
    return filled, spread


def scores(X, weights, means, sigmas):
    """Log densities log p(x_o) (n,) and responsibilities (n, K)."""
    joint = np.array(
        [
            [
                np.log(w) + log_gaussian(x, mu, s)
                for w, mu, s in zip(weights, means, sigmas, strict=True)
            ]
            for x in X
        ]
    ).reshape(len(X), len(weights))
    log_prob = logsumexp(joint, axis=1)
    return log_prob, np.exp(joint - log_prob[:, None])


def impute(X, weights, means, sigmas):
    """Conditional mean and standard deviation of the mixture, by the law of total variance."""
    resp = scores(X, weights, means, sigmas)[1]
    mean, std = np.empty_like(X), np.empty_like(X)
    for i, x in enumerate(X):
        each = [condition(x, mu, s) for mu, s in zip(means, sigmas, strict=True)]
        mean[i] = sum(r * filled for r, (filled, _) in zip(resp[i], each, strict=True))
        second = sum(
            r * (np.diag(c) + (f - mean[i]) ** 2) for r, (f, c) in zip(resp[i], each, strict=True)
        )
        std[i] = np.where(np.isnan(x), np.sqrt(second), 0.0)
    return mean, std


# ------------------------------------------------------------------ one step of EM


def column_variances(X, sample_weight):
    """Weighted variance of the observed values of every column."""
    result = []
    for column in X.T:
        seen = ~np.isnan(column)
        mean = np.average(column[seen], weights=sample_weight[seen])
        result.append(np.average((column[seen] - mean) ** 2, weights=sample_weight[seen]))
    return np.array(result)


def em_step(
    X,
    weights,
    means,
    sigmas,
    *,
    sample_weight=None,
    covariance_type="full",
    reg_covar=0.0,
    variances=None,
    equal_weights=False,
):
    """Return log-likelihood (sum), responsibilities, and new weights, means and covariances."""
    n, d = X.shape
    K = len(weights)
    sample_weight = np.ones(n) if sample_weight is None else sample_weight
    log_prob, resp = scores(X, weights, means, sigmas)
    total, new_means, scatter = np.zeros(K), np.zeros((K, d)), np.zeros((K, d, d))
    for k in range(K):
        each = [condition(x, means[k], sigmas[k]) for x in X]
        for i, (filled, _) in enumerate(each):
            total[k] += sample_weight[i] * resp[i, k]
            new_means[k] += sample_weight[i] * resp[i, k] * filled
        new_means[k] /= total[k]
        for i, (filled, spread) in enumerate(each):
            z = filled - new_means[k]
            scatter[k] += sample_weight[i] * resp[i, k] * (np.outer(z, z) + spread)
    if reg_covar:
        variances = column_variances(X, sample_weight) if variances is None else variances
        ridge = reg_covar * sample_weight.sum() / K * variances
        if covariance_type == "spherical":
            ridge = np.full(d, ridge.mean())
        scatter += np.diag(ridge)
    new_weights = np.full(K, 1.0 / K) if equal_weights else total / total.sum()
    new_sigmas = np.empty_like(scatter)
    for k in range(K):
        if covariance_type == "tied":
            new_sigmas[k] = scatter.sum(axis=0) / total.sum()
        else:
            new_sigmas[k] = scatter[k] / total[k]
        if covariance_type == "diag":
            new_sigmas[k] = np.diag(np.diag(new_sigmas[k]))
        if covariance_type == "spherical":
            new_sigmas[k] = np.eye(d) * np.mean(np.diag(new_sigmas[k]))
    return sample_weight @ log_prob, resp, (new_weights, new_means, new_sigmas)


# ------------------------------------------------------------------ the same in 60 digits


def _mp_cholesky(a):
    n = len(a)
    factor = [[mpmath.mpf(0)] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = a[i][j] - mpmath.fdot(factor[i][:j], factor[j][:j])
            factor[i][j] = mpmath.sqrt(rest) if i == j else rest / factor[j][j]
    return factor


def _mp_forward(factor, b):
    y = []
    for i, row in enumerate(factor):
        y.append((b[i] - mpmath.fdot(row[:i], y)) / row[i])
    return y


def mp_row(x, mean, sigma):
    """Log density, conditional mean [d] and conditional covariance [d][d] in 60 digits."""
    with mpmath.workdps(60):
        mean = [mpmath.mpf(float(v)) for v in mean]
        s = [[mpmath.mpf(float(v)) for v in row] for row in sigma]
        d = len(mean)
        o = [j for j in range(d) if not np.isnan(x[j])]
        m = [j for j in range(d) if np.isnan(x[j])]
        factor = _mp_cholesky([[s[i][j] for j in o] for i in o])
        white = _mp_forward(factor, [mpmath.mpf(float(x[j])) - mean[j] for j in o])
        half = {j: _mp_forward(factor, [s[i][j] for i in o]) for j in m}
        log_det = 2 * mpmath.fsum(mpmath.log(factor[i][i]) for i in range(len(o)))
        log_density = -(len(o) * mpmath.log(2 * mpmath.pi) + log_det + mpmath.fdot(white, white))
        filled = [mpmath.mpf(0)] * d
        spread = [[mpmath.mpf(0)] * d for _ in range(d)]
        for j in o:
            filled[j] = mpmath.mpf(float(x[j]))
        for i in m:
            filled[i] = mean[i] + mpmath.fdot(half[i], white)
            for j in m:
                spread[i][j] = s[i][j] - mpmath.fdot(half[i], half[j])
        return log_density / 2, filled, spread


def mp_em_step(X, weights, means, sigmas):
    """Return log-likelihood, responsibilities, weights, means, covariances in 60 digits, as floats.

    Full covariances, maximum likelihood.
    """
    n, d = X.shape
    K = len(weights)
    with mpmath.workdps(60):
        rows = [[mp_row(x, mu, s) for mu, s in zip(means, sigmas, strict=True)] for x in X]
        joint = [[mpmath.exp(row[k][0]) * float(weights[k]) for k in range(K)] for row in rows]
        prob = [mpmath.fsum(each) for each in joint]
        resp = [[each / p for each in row] for row, p in zip(joint, prob, strict=True)]
        log_likelihood = mpmath.fsum(mpmath.log(p) for p in prob)
        total = [mpmath.fsum(r[k] for r in resp) for k in range(K)]
        new_weights = np.array([float(t / n) for t in total])
        new_means, new_sigmas = np.empty((K, d)), np.empty((K, d, d))
        for k in range(K):
            r = [each[k] for each in resp]
            filled = [row[k][1] for row in rows]
            spread = [row[k][2] for row in rows]
            mu = [mpmath.fdot(r, [f[j] for f in filled]) / total[k] for j in range(d)]
            new_means[k] = [float(v) for v in mu]
            for i in range(d):
                for j in range(d):
                    terms = [(f[i] - mu[i]) * (f[j] - mu[j]) for f in filled]
                    terms = [t + s[i][j] for t, s in zip(terms, spread, strict=True)]
                    new_sigmas[k, i, j] = float(mpmath.fdot(r, terms) / total[k])
    resp = np.array([[float(v) for v in row] for row in resp])
    return float(log_likelihood), resp, (new_weights, new_means, new_sigmas)


# ------------------------------------------------------------------ problems


def random_covariance(rng, d):
    """A covariance of modest condition, with standard deviations between 0.3 and 3."""
    root = rng.standard_normal((d, d + 3))
    sigma = root @ root.T / (d + 3) + 0.05 * np.eye(d)
    spread = np.exp(rng.uniform(-1, 1, d)) / np.sqrt(np.diag(sigma))
    return sigma * np.outer(spread, spread)


def hard_covariance(rng, d, cond, spectrum):
    """A covariance of condition `cond`: "one" small eigenvalue, or a "log"-spaced spectrum."""
    values = np.ones(d) if spectrum == "one" else np.logspace(0, -np.log10(cond), d)
    values[-1] = 1.0 / cond
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    sigma = (axes * values) @ axes.T
    return 0.5 * (sigma + sigma.T)


def random_parameters(rng, d, K, *, diagonal=False):
    weights = rng.dirichlet(np.full(K, 5.0))
    means = 2.0 * rng.standard_normal((K, d))
    sigmas = np.array([random_covariance(rng, d) for _ in range(K)])
    return weights, means, sigmas * np.eye(d) if diagonal else sigmas


def draw_rows(rng, n, weights, means, sigmas):
    """Complete rows from the mixture, and the component of each."""
    labels = rng.choice(len(weights), n, p=weights)
    rows = [rng.multivariate_normal(means[k], sigmas[k], method="cholesky") for k in labels]
    return np.array(rows).reshape(n, -1), labels


def punch(rng, X, missing):
    """Remove a share of the cells at random."""
    X = X.copy()
    X[rng.random(X.shape) < missing] = np.nan
    return X


def random_problem(seed, *, n=None, d=None, K=None, missing=None, diagonal=False, empty=True):
    """Rows with gaps, weights of the rows, and parameters near those they were drawn from.

    One problem in two has an empty row, one in two a complete one.
    """
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 13)) if d is None else d
    K = int(rng.integers(1, 6)) if K is None else K
    n = int(rng.integers(K + 1, 21)) if n is None else n
    missing = rng.uniform(0, 0.95) if missing is None else missing
    truth = random_parameters(rng, d, K, diagonal=diagonal)
    X = punch(rng, draw_rows(rng, n, *truth)[0], missing)
    has_empty, has_complete = rng.random(2) < 0.5
    if has_empty and empty:
        X[0] = np.nan
    if has_complete:
        X[-1] = draw_rows(rng, 1, *truth)[0][0]
    if not empty:
        rows = np.isnan(X).all(axis=1)
        X[rows, 0] = rng.standard_normal(rows.sum())
    for j in range(d):  # every column shows at least two different values
        if np.isfinite(X[:, j]).sum() < 2:
            X[-2:, j] = rng.standard_normal(2)
    means = truth[1] + 0.3 * rng.standard_normal((K, d))
    sample_weight = rng.integers(1, 4, n) * 0.5
    return X, sample_weight, (truth[0], means, truth[2])


# ------------------------------------------------------------------ how far apart


def relative(found, wanted):
    """Largest difference, relative to the largest number wanted."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if not found.size:
        return 0.0
    assert found.shape == wanted.shape
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-300))
