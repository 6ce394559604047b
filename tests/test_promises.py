"""What the README promises of filling: memory, and rows that are answered by themselves."""

import tracemalloc

import numpy as np
import pytest

from gapmix import GaussianMixtureImputer

ROUNDING = 1e-11  # of a standard deviation, or of a log density


def make_table(n, d, seed=0, share=0.1):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    table[rng.random(table.shape) < share] = np.nan
    return table


def fit_few(table, K=5, **options):
    """Return an imputer fitted to a few rows, in a moment."""
    options = {"max_iter": 20, "tol": 100.0, "random_state": 0, "n_jobs": 2, **options}
    return GaussianMixtureImputer(K, **options).fit(table[:1000])


def measure_peak(call):
    """Return the most bytes held at a time beyond those held before, and the result."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        return tracemalloc.get_traced_memory()[1] - before, result
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(60_000, 30), (400_000, 3)])
@pytest.mark.parametrize("method", ["transform", "impute_with_std", "intervals"])
def test_filling_takes_its_result_and_less_than_two_tables(shape, method):
    table = make_table(*shape)
    imputer = fit_few(table, bounds={0: (-1.0, 1.0)})
    call = getattr(imputer, method)
    call(table[:10])  # compiles, if nothing has yet
    peak, result = measure_peak(lambda: call(table))
    returned = sum(array.nbytes for array in (result if isinstance(result, tuple) else [result]))
    assert peak < returned + 2 * table.nbytes


@pytest.mark.parametrize("solver", ["naive", "paper", "tree", "dual"])
def test_a_row_has_the_same_answer_in_any_batch_but_for_rounding(solver):
    table = make_table(3000, 12, share=0.3)
    imputer = fit_few(table, K=3, solver=solver)
    spread = np.nanstd(table, axis=0)
    wanted = ask(imputer, table, spread)
    for rows in (slice(0, 1), slice(7, 9), slice(100, 400), slice(None, None, -1)):
        for whole, part in zip(wanted, ask(imputer, table[rows], spread), strict=True):
            assert np.abs(whole[rows] - part).max() < ROUNDING


def ask(imputer, table, spread):
    """Return all answers to rows, in standard deviations, rows first."""
    filled, std = imputer.impute_with_std(table)
    low, high = imputer.intervals(table)
    return [each / spread for each in (filled, std, low, high)] + [imputer.score_samples(table)]


def test_a_row_has_the_same_bits_on_any_number_of_threads():
    table = make_table(3000, 12, share=0.3)
    imputer = fit_few(table, K=3)
    one, two = (ask(imputer.set_params(n_jobs=n), table, 1.0) for n in (1, 2))
    for left, right in zip(one, two, strict=True):
        assert np.array_equal(left, right)
