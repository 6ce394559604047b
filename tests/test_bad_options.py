"""Weights, validation rows, warm starts and parameters that cannot be used are refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bad_tables import assert_usable, copied_column, fit_quietly, make_table, raises
from every_estimator import KINDS, NEW

from gapmix import GaussianMixture, GaussianMixtureImputer

# ------------------------------------------------------------------ weights


def test_a_weight_of_zero_is_no_row():
    x = make_table()
    weight = np.tile([1.0, 0.0, 2.0], 20)
    kept = np.repeat(x[weight > 0], weight[weight > 0].astype(int), axis=0)
    weighted = GaussianMixture().fit(x, sample_weight=weight)
    np.testing.assert_allclose(weighted.means_, fit_quietly(kept).means_, rtol=1e-8)
    x[weight == 0] = 1e250  # not even looked at
    np.testing.assert_array_equal(
        GaussianMixture().fit(x, sample_weight=weight).means_, weighted.means_
    )


@pytest.mark.parametrize(
    "weight",
    [
        pd.Series(np.arange(60)),
        pl.Series(np.arange(60)),
        pa.array(np.arange(60)),
        pd.array(np.arange(60), dtype="Int64"),
        list(range(60)),
    ],
    ids=["pandas", "polars", "pyarrow", "nullable", "list"],
)
def test_weights_in_any_container(weight):
    x = make_table()
    found = GaussianMixture(2, random_state=0).fit(x, sample_weight=weight)
    expected = GaussianMixture(2, random_state=0).fit(x, sample_weight=np.arange(60.0))
    np.testing.assert_array_equal(found.means_, expected.means_)


@pytest.mark.parametrize("unit", [1e-310, 1e-200, 1e200, 1e300])
def test_weights_in_any_unit(unit):
    x = make_table()
    settings = {"random_state": 0, "tol": 1e-9, "max_iter": 1000}
    found = GaussianMixture(**settings).fit(x, sample_weight=np.arange(60.0) * unit)
    expected = GaussianMixture(**settings).fit(x, sample_weight=np.arange(60.0))
    np.testing.assert_allclose(found.means_, expected.means_, rtol=1e-4)
    assert_usable(found, x)


def weights_with(value: object) -> np.ndarray:
    weight = np.ones(60, dtype=object)
    weight[3] = value
    return weight


WEIGHTS = {
    "negative": (
        weights_with(-1.0).astype(float),
        "sample_weight is negative in 1 of 60 rows, first in row 3 (-1.0). Give every row a weight "
        "of 0 or more.",
    ),
    "NaN": (
        weights_with(np.nan).astype(float),
        "sample_weight is not finite in 1 of 60 rows, first in row 3 (nan). Give every row a "
        "weight of 0 or more.",
    ),
    "inf": (
        weights_with(np.inf).astype(float),
        "sample_weight is not finite in 1 of 60 rows, first in row 3 (inf). Give every row a "
        "weight of 0 or more.",
    ),
    "pandas NA": (
        weights_with(pd.NA),
        "sample_weight is not finite in 1 of 60 rows, first in row 3 (nan). Give every row a "
        "weight of 0 or more.",
    ),
    "masked": (
        np.ma.array(np.ones(60), mask=np.arange(60) == 3),
        "sample_weight is not finite in 1 of 60 rows, first in row 3 (nan). Give every row a "
        "weight of 0 or more.",
    ),
    "all zero": (np.zeros(60), "sample_weight is zero in all 60 rows: there is nothing to fit."),
    "too short": (
        np.ones(5),
        "sample_weight has shape (5,); X has 60 rows, so it must be (60,).",
    ),
    "two dimensions": (
        np.ones((60, 1)),
        "sample_weight has shape (60, 1); X has 60 rows, so it must be (60,).",
    ),
    "text": (
        ["heavy"] * 60,
        "sample_weight must hold one number for each row; it holds 'heavy'.",
    ),
    "complex": (
        np.full(60, 1j),
        "sample_weight must hold one number for each row; it holds 1j.",
    ),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(("weight", "message"), WEIGHTS.values(), ids=WEIGHTS)
def test_bad_weights_are_refused(weight, message, kind):
    with raises(message):
        kind.fit(make_table(), sample_weight=weight)


@pytest.mark.parametrize("kind", NEW.values(), ids=NEW)
def test_a_weight_of_two_is_the_row_twice_for_every_estimator(kind):
    x, y = make_table(), kind.target(60)
    weight = np.arange(60) % 3
    settings = {"tol": 1e-14, "max_iter": 5000, "accelerate": None, "random_state": 0}
    weighted = kind.cls(1, **settings).fit(x, y, sample_weight=weight)
    repeated = kind.cls(1, **settings).fit(
        np.repeat(x, weight, axis=0), None if y is None else np.repeat(y, weight)
    )
    if hasattr(weighted, "exponent_"):  # calibrated on rows drawn, each counted once
        weighted.exponent_ = repeated.exponent_
    methods = [name for name in kind.answers if not name.startswith("sample")]
    for name in methods:
        np.testing.assert_allclose(
            getattr(weighted, name)(x), getattr(repeated, name)(x), rtol=1e-4, atol=2e-6
        )


# ------------------------------------------------------------------ validation rows


def test_bad_validation_rows_are_refused():
    x = make_table()
    with raises("X has 2 features, but GaussianMixture is expecting 3 features as input."):
        GaussianMixture().fit(x, X_val=x[:, :2])
    with pytest.raises(ValueError, match=r"in 3 cells, first in row 0, column 0 \(inf\)"):
        GaussianMixture().fit(x, X_val=np.full((1, 3), np.inf))
    with pytest.raises(ValueError, match="None of the 4 rows of X_val has an observed value"):
        GaussianMixture().fit(x, X_val=np.full((4, 3), np.nan))


@pytest.mark.parametrize("n_components", [1, 5])
def test_a_validation_fraction_that_leaves_few_rows(n_components):
    x = make_table(8)
    x[:, 0] = np.arange(8.0)
    mixture = GaussianMixture(n_components, validation_fraction=0.9, random_state=0)
    if n_components == 1:
        assert_usable(mixture.fit(x), x)
    else:
        with pytest.raises(ValueError, match=r"5 components .* 1 row.*validation_fraction"):
            mixture.fit(x)


@pytest.mark.parametrize(
    "change", [{"n_components": 3}, {"covariance_type": "diag"}], ids=["components", "type"]
)
def test_a_warm_start_that_does_not_fit_is_refused(change):
    x = make_table()
    mixture = fit_quietly(x, n_components=2, warm_start=True).set_params(**change)
    with pytest.raises(ValueError, match="warm_start"):
        mixture.fit(x)


def test_a_warm_start_with_other_columns_is_refused():
    mixture = fit_quietly(make_table(), n_components=2, warm_start=True)
    with pytest.raises(ValueError, match="warm_start"):
        mixture.fit(make_table()[:, :2])


# ------------------------------------------------------------------ parameters

STRUCTURES = "'full', 'tied', 'diag', 'spherical', 'factor', 'ppca'"
WHOLE = "Invalid value for {!r}: {!r}. It must be a whole number of at least 1."
NUMBER = "Invalid value for {!r}: {!r}. It must be a number of at least 0{}."
KEEP = (
    "Invalid value for 'keep_components': {!r}. It must be a share between 0 and 1, a number of "
    "components of at least 1, or None."
)
SHARE = "validation_fraction={!r} must lie strictly between 0 and 1, or be None."
N_JOBS = (
    "Invalid value for 'n_jobs': {!r}. It must be a whole number of threads, -1 for all cores, or "
    "None."
)
PARAMETERS = [
    *(
        (name, value, WHOLE.format(name, value))
        for name in ("n_components", "max_iter", "n_init", "patience", "verbose_interval")
        for value in (0, -1, 1.5, "2", None, True)
    ),
    *(
        (name, value, NUMBER.format(name, value, also))
        for name, also in (
            ("tol", ""),
            ("reg_covar", ""),
            ("diagonal_loading", ""),
            ("shrinkage", " or 'auto'"),
            ("mean_shrinkage", " or 'auto'"),
            ("fill", " or 'mean' or 'next'"),
        )
        for value in (-1.0, np.nan, np.inf, "x", None, True, [1.0])
    ),
    *(
        (name, value, f"{name}={value!r} is not known. Use {allowed}.")
        for name, allowed in (
            ("covariance_type", f"one of {STRUCTURES}"),
            ("init_params", "one of 'kmeans', 'k-means++', 'random', 'random_from_data', 'auto'"),
            ("weights", "one of 'learned', 'equal'"),
            ("init_covariance", "one of 'available', 'filled'"),
            ("keep_components_of", "one of 'correlation', 'covariance'"),
            ("accelerate", "one of 'auto', 'squarem', 'anderson', None"),
            (
                "engine",
                "'threads', 'dask', the address of a Dask scheduler ('tcp://host:8786') or a Dask "
                "client",
            ),
        )
        for value in ("x", 3, ["full"], np.array(["full", "tied"]))
    ),
    *(("keep_components", v, KEEP.format(v)) for v in (0, 0.0, -1, 1.5, "x", True, np.nan)),
    *(("validation_fraction", v, SHARE.format(v)) for v in (0, 1, 1.5, -0.1, "x", True, np.nan)),
    *(("n_jobs", value, N_JOBS.format(value)) for value in (0, 1.5, "x", True)),
    *(
        ("warm_start", v, f"Invalid value for 'warm_start': {v!r}. It must be True or False.")
        for v in ("yes", None, 1)
    ),
    *(
        (
            "verbose",
            v,
            f"Invalid value for 'verbose': {v!r}. It must be a whole number of at least 0.",
        )
        for v in (-1, "x", None, 1.5)
    ),
    ("fill", 0.0, "fill=0 leaves no variance outside the kept components; use more."),
    ("random_state", "x", "'x' cannot be used to seed a numpy.random.RandomState instance"),
    ("weights_init", [0.5], "weights_init has shape (1,); it must be (2,)."),
    (
        "weights_init",
        [0.5, 0.6],
        "weights_init must be non-negative and sum to 1; it sums to 1.1 and its smallest is 0.5.",
    ),
    (
        "weights_init",
        [-0.5, 1.5],
        "weights_init must be non-negative and sum to 1; it sums to 1 and its smallest is -0.5.",
    ),
    (
        "weights_init",
        "x",
        "weights_init must be an array of numbers of shape (2,): could not convert string to "
        "float: 'x'.",
    ),
    ("means_init", np.zeros((2, 2)), "means_init has shape (2, 2); it must be (2, 3)."),
    (
        "means_init",
        [[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]],
        "means_init holds nan at (1, 1); every value must be finite.",
    ),
    ("precisions_init", np.eye(3), "precisions_init has shape (3, 3); it must be (2, 3, 3)."),
    (
        "precisions_init",
        np.stack([np.eye(3), -np.eye(3)]),
        "precisions_init: the matrix of component 1 is not positive definite.",
    ),
    (
        "precisions_init",
        np.stack([np.eye(3), np.eye(3) + np.eye(3, k=1)]),
        "precisions_init: the matrix of component 1 is not symmetric.",
    ),
]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    PARAMETERS,
    ids=[f"{name}={v!r}"[:40] for name, v, _ in PARAMETERS],
)
def test_bad_parameters_are_refused_by_name_at_fit(name, value, message):
    mixture = GaussianMixture(**{"n_components": 2, name: value})
    with raises(message):
        mixture.fit(make_table())


@pytest.mark.parametrize("value", ["x", None, "diagonal"])
def test_an_unknown_solver_is_refused_with_the_known_ones(value):
    with pytest.raises(ValueError, match=rf"^solver={value!r} is not known\. Use one of 'auto', "):
        GaussianMixture(solver=value).fit(make_table())


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_precisions_that_are_not_positive_are_refused(kind):
    shape = (2, 3) if kind == "diag" else (2,)
    with raises("precisions_init must be positive; its smallest is 0."):
        GaussianMixture(2, covariance_type=kind, precisions_init=np.zeros(shape)).fit(make_table())


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", None, True])
def test_bad_numbers_of_draws_are_refused(value):
    mixture = fit_quietly(make_table())
    with raises(WHOLE.format("n_draws", value)):
        mixture.sample_missing(make_table(), n_draws=value)
    with raises(WHOLE.format("n_samples", value)):
        mixture.sample(value)


AUTO = "n_components={!r} is not known. Use 'auto' or a whole number of at least 1."
SWITCH = "Invalid value for {!r}: {!r}. It must be True or False."
BOUNDS = (
    "bounds of column {!r} are {!r}; they must be two numbers (low, high) with low <= high, None "
    "for no limit."
)
PRIORS = "priors={!r} must hold a positive number for each of the 2 classes [0, 1]."
EVERYWHERE = [
    ("n_components", "many", AUTO.format("many")),
    *(("n_components", value, WHOLE.format("n_components", value)) for value in (0, 1.5, None)),
    *(("max_components", value, WHOLE.format("max_components", value)) for value in (0, 2.5, "x")),
    *(("average", value, SWITCH.format("average", value)) for value in (1, "x", None)),
    ("tol", -1.0, NUMBER.format("tol", -1.0, "")),
    ("shrinkage", "x", NUMBER.format("shrinkage", "x", " or 'auto'")),
    ("mean_shrinkage", None, NUMBER.format("mean_shrinkage", None, " or 'auto'")),
    ("n_jobs", 0, N_JOBS.format(0)),
    ("covariance_type", "x", f"covariance_type='x' is not known. Use one of {STRUCTURES}."),
    ("verbose", -1, "Invalid value for 'verbose': -1. It must be a whole number of at least 0."),
    ("random_state", "x", "'x' cannot be used to seed a numpy.random.RandomState instance"),
]
OWN = [
    *(("imputer", "add_indicator", v, SWITCH.format("add_indicator", v)) for v in (1, "x", None)),
    *(("imputer", "use_target", v, SWITCH.format("use_target", v)) for v in (0, "x", None)),
    *(
        ("imputer", "bounds", {1: limits}, BOUNDS.format(1, limits))
        for limits in ((2, 1), (0,), 3, ("a", 1), (np.nan, 1), None)
    ),
    (
        "imputer",
        "bounds",
        [(0, 1)],
        "bounds must be a dict from column to (low, high); it is list.",
    ),
    (
        "imputer",
        "bounds",
        {3: (0, 1)},
        "bounds name the column 3, but the table has no such column. It has 0 to 2.",
    ),
    (
        "imputer",
        "missing_values",
        {1: {}},
        "missing_values holds {}. Use a number, a text, NaN or None, a list of these, or a dict "
        "from columns to them.",
    ),
    (
        "imputer",
        "missing_values",
        {7: 0},
        "missing_values name the column 7, but the table has no such column. It has 0 to 2.",
    ),
    *(("classifier", "calibrate", v, SWITCH.format("calibrate", v)) for v in (1, "x", None)),
    *(("classifier", "use_unlabelled", v, SWITCH.format("use_unlabelled", v)) for v in (0, None)),
    *(
        ("classifier", "priors", v, PRIORS.format(v))
        for v in ([1.0], [1.0, 0.0], [1.0, -1.0], [np.inf, 1.0], [np.nan, 1.0], "x", {0: 1})
    ),
    *(
        (
            "classifier",
            "class_weight",
            v,
            f"class_weight={v!r}: every class needs a positive weight. To leave a class out, leave "
            "out its rows.",
        )
        for v in ({0: 0, 1: 1}, {0: -1, 1: 1}, {0: np.nan, 1: 1}, {0: 1, 1: np.inf})
    ),
]


@pytest.mark.parametrize(
    ("name", "parameter", "value", "message"),
    [*((name, *entry) for name in NEW for entry in EVERYWHERE), *OWN],
)
def test_bad_parameters_of_every_estimator_are_refused_by_name(name, parameter, value, message):
    with raises(message):
        KINDS[name].fit(make_table(), **{parameter: value})


def test_bad_arguments_of_answers_are_refused():
    x = make_table()
    imputer, regressor = KINDS["imputer"].fit(x), KINDS["regressor"].fit(x)
    for value in (0, 1, 1.5, "x", None, np.nan):
        with raises(f"coverage={value!r} must lie strictly between 0 and 1."):
            imputer.intervals(x, coverage=value)
    for value in ([0.5, 1.0], 0, "x", [], [[0.5]], [np.nan]):
        message = f"levels={value!r} must hold at least one number, each strictly between 0 and 1."
        with raises(message):
            regressor.predict_quantiles(x, value)
    for value in (0, 1.5, None):
        with raises(WHOLE.format("n_draws", value)):
            imputer.sample(x, n_draws=value)
        with raises(WHOLE.format("n_samples", value)):
            regressor.sample_y(x, n_samples=value)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_parameters_of_every_estimator_are_not_changed_by_a_fit(kind):
    estimator = kind.cls(n_components=1)
    before = {name: id(value) for name, value in estimator.get_params().items()}
    estimator.fit(make_table(), kind.target(60))
    assert {name: id(value) for name, value in estimator.get_params().items()} == before


def test_parameters_are_not_changed_by_a_fit():
    mixture = GaussianMixture(2, means_init=[[0, 0, 0], [1, 1, 1]], random_state=3)
    before = mixture.get_params()
    mixture.fit(make_table())
    assert mixture.get_params() == before


def test_a_collapse_without_regulariser_is_explained():
    with pytest.raises(ValueError, match=r"reg_covar") as caught:
        GaussianMixture(reg_covar=0.0).fit(
            pd.DataFrame(copied_column(1.0), columns=["left", "right", "copy"])
        )
    assert "'copy'" in str(caught.value)


@pytest.mark.parametrize("estimator", [GaussianMixture(1), GaussianMixtureImputer()])
def test_a_ridge_beyond_all_use_is_refused(estimator):
    estimator.set_params(reg_covar=1e308)
    with pytest.raises(ValueError, match=r"reg_covar=1e\+308 is too large: at most 1e\+100"):
        estimator.fit(np.random.default_rng(0).normal(size=(20, 2)))
