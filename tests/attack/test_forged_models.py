"""Model files forged value by value, with checksums that hold.

Whatever is in a file, either `load` raises a `ModelFileError`, or the model answers with finite
numbers. Values of settings may also be refused when they are used.
"""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import size

import gapmix
from gapmix.modelfile.files import CODECS, ModelFileError
from gapmix.modelfile.values import encode
from gapmix.storage.recordfile import Record, pack, read

NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 0.0, -1.0, 0.5, 2.0, 1e17)
WHOLE = (-1, 0, 1, 7, 2**40, -(2**63))
PLAIN = (None, True, "", "x", -1, 0, 7, 10**30, 1e308, 1e999, -0.5, [], {}, [1.0], {"float": "nan"})


def make_rows(n: int = 90) -> np.ndarray:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + [10.0, 0.0, -5.0]
    x[: n // 2] += 3.0
    x = np.column_stack([x, np.full(n, 4.0)])
    x[rng.random(x.shape) < 0.25] = np.nan
    return x


ROWS = make_rows()
LEVELS = np.random.default_rng(6).integers(0, 3, (len(ROWS), 2)).astype(float)
LEVELS[np.isnan(ROWS[:, :2])] = np.nan
MIXED = np.column_stack([ROWS, LEVELS])  # the last two columns are categories


def fit_all() -> dict[str, Any]:
    rows, label = ROWS, np.repeat(["a", "b"], 45)
    common = {"random_state": 0, "tol": 1e-2}
    stream = gapmix.GaussianMixture(2, **common).partial_fit(rows[:40]).partial_fit(rows[40:])
    names = ["a", "b", "c", "d"]
    held = gapmix.GaussianMixture(2, shrinkage="auto", mean_shrinkage="auto", **common)
    return {
        "mixture": held.fit(rows, X_val=rows[:20]),
        "tied": gapmix.GaussianMixture(2, covariance_type="tied", **common).fit(rows),
        "diag": gapmix.GaussianMixture(2, covariance_type="diag", **common).fit(rows),
        "spherical": gapmix.GaussianMixture(2, covariance_type="spherical", **common).fit(rows),
        "stream": stream,
        "imputer": gapmix.GaussianMixtureImputer(
            random_state=0, max_components=3, add_indicator=True, bounds={"a": (0.0, 20.0)}
        ).fit(pd.DataFrame(rows, columns=names)),
        "regressor": gapmix.GaussianMixtureRegressor(random_state=0, max_components=2).fit(
            rows[:, 1:3], rows[:, [0, 3]]
        ),
        **fit_mixed(common, label),
        "classifier": gapmix.GaussianMixtureClassifier(random_state=0, max_components=2).fit(
            rows, label
        ),
    }


def fit_mixed(common: dict[str, Any], label: np.ndarray) -> dict[str, Any]:
    """Return models of a table with categories."""
    both, last = {**common, "categorical_features": [4, 5]}, {"categorical_features": [0, 1]}
    stream = gapmix.GaussianMixture(2, **both).partial_fit(MIXED[:50]).partial_fit(MIXED[50:])
    return {
        "mixed": gapmix.GaussianMixture(2, shrinkage="auto", **both).fit(MIXED),
        "mixed stream": stream,
        "only categories": gapmix.GaussianMixture(2, **common, **last).fit(LEVELS),
        "mixed imputer": gapmix.GaussianMixtureImputer(max_components=2, **both).fit(
            pd.DataFrame(MIXED, columns=list("abcdef"))
        ),
        "mixed regressor": gapmix.GaussianMixtureRegressor(max_components=2, **both).fit(
            MIXED, ROWS[:, 0]
        ),
        "mixed classifier": gapmix.GaussianMixtureClassifier(max_components=2, **both).fit(
            MIXED, label
        ),
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Record]:
    """Return the record of each kind of model."""
    path = tmp_path_factory.mktemp("models") / "m"
    known = {kind: codec.names for kind, codec in CODECS.items()}
    result = {}
    for name, model in fit_all().items():
        gapmix.save(model, path)
        result[name] = read(path, known)
    old = Path(__file__).parents[1] / "data" / "table-v1.safetensors"
    return result | {"table": read(old, known)}


def answer(model: Any, rows: np.ndarray) -> list[np.ndarray]:
    """Return all numbers that a model gives for a few rows; levels are numbers too."""
    return [np.asarray(told, dtype=float) for told in answer_about(model, rows)]


def answer_about(model: Any, rows: np.ndarray) -> list[Any]:
    x = rows[:12]
    if isinstance(model, gapmix.GaussianMixture):
        told = [*model.impute(x, return_std=True), model.score_samples(x), model.predict_proba(x)]
        told += [model.sample_missing(x, random_state=0), model.sample(3)[0], model.bic(x)]
        if hasattr(model, "_stream"):
            told += [model.partial_fit(rows).means_]
        return told
    if isinstance(model, gapmix.GaussianMixtureImputer):
        names = getattr(model, "feature_names_in_", range(x.shape[1]))
        x = pd.DataFrame(np.resize(x, (12, len(names))), columns=names)
        ends = [np.asarray(end)[:, ~model.is_categorical_] for end in model.intervals(x, 0.9)]
        told = [model.transform(x), *model.impute_with_std(x), *ends]
        told += model.probabilities(x).values()
        return [*told, model.sample(x, random_state=0), model.score_samples(x)]
    if isinstance(model, gapmix.GaussianMixtureRegressor):
        x = x[:, 1:3] if model.n_features_in_ == 2 else x
        return [*model.predict(x, return_std=True), model.predict_quantiles(x), model.sample_y(x)]
    return [model.predict_proba(x), model.predict_log_proba(x), model.score_samples(x)]


def leaves(value: Any, path: tuple[Any, ...] = ()):
    """Yield the places of all values in plain data, those that hold others included."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from leaves(item, (*path, key))


def forgeries(record: Record, rng: np.random.Generator, n: int):
    """Yield records that differ from a good one in one value, and which one that is."""
    places = [("content", *path) for path in leaves(record.content) if path[0] != "written"]
    for name, array in record.arrays.items():
        cells = rng.permutation(array.size)[:n]
        places += [(name, int(cell)) for cell in cells]
    for name, *path in places:
        if name == "content":
            for value in rng.permutation(np.array(PLAIN, dtype=object))[:n]:
                content = copy.deepcopy(record.content)
                inner = content
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = value
                yield record._replace(content=content), (*path, value)
        else:
            array = record.arrays[name]
            choice = NUMBERS if array.dtype == np.float64 else WHOLE
            for value in rng.permutation(np.array(choice, dtype=array.dtype))[:n]:
                forged = array.copy()
                forged.flat[path[0]] = value
                yield record._replace(arrays={**record.arrays, name: forged}), (name, *path, value)


NAMES = (
    *("mixture", "tied", "diag", "spherical", "stream"),
    *("imputer", "regressor", "classifier", "table"),
    *("mixed", "mixed stream", "only categories"),
    *("mixed imputer", "mixed regressor", "mixed classifier"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_forged_value_is_refused_or_does_no_harm(name, models):
    record, codec = models[name], CODECS[models[name].kind]
    table = LEVELS if name == "only categories" else MIXED if "mixed" in name else ROWS
    rng = np.random.default_rng(len(name))
    n_refused = n_used = 0
    for forged, place in forgeries(record, rng, size(2, 15)):
        try:
            model = codec.from_record(forged.content, forged.arrays)
        except ModelFileError:
            n_refused += 1
            continue
        n_used += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                warnings.simplefilter("ignore", UserWarning)  # levels that were not there
                told = answer(model, table)
        except (RuntimeWarning, ValueError):
            allowed = "settings" in place or "columns" in place
            assert allowed or str(place[0]).startswith("stream"), place  # told at the next batch
            continue
        assert all(np.isfinite(numbers).all() for numbers in told), place
    assert n_refused > 40
    assert n_used > 10


CASES = {
    "priors": ("classifier", "state.priors_", np.nan, "priors_ must hold a positive number"),
    "no prior": ("classifier", "state.priors_", 0.0, "priors_ must hold a positive number"),
    "priors' sum": ("classifier", "state.priors_", 0.9, "priors_ must sum to 1"),
    "calibration": ("imputer", "state.calibration_", 1.5, "calibration_ must hold"),
    "calibration falls": ("imputer", "state.calibration_", 0.9, "calibration_ must not fall"),
    "constant": ("imputer", "state.constant_", 7.0, "constant_ is 7 for column 0"),
    "place": ("imputer", "state.indicated_", 9, "indicated_ must hold numbers of the 4 columns"),
    "weights": ("mixture", "weights", 1e308, "weights must sum to 1"),
    "variance": ("diag", "covariances", -1.0, "covariances must be positive on the diagonal"),
    "stream": ("stream", "stream.resp", -0.1, "stream.resp must be finite and at least 0"),
    "probability": ("mixed", "categories.1", -0.1, "categories.1 of component 0 must be finite"),
    "no probability": ("mixed", "categories.0", np.nan, "categories.0 holds a number that is not"),
    "probabilities' sum": ("only categories", "categories.0", 0.9, "component 0 must sum to 1"),
    "counts": ("mixed stream", "stream.counts", -0.1, "stream.counts holds a number below 0"),
    "large counts": ("mixed stream", "stream.counts", 2.0, "counts more rows than a component"),
    "inner probability": ("mixed imputer", "mixture.0.categories.0", 2.0, "must sum to 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_with_a_number_is_told(case, models, tmp_path):
    name, array, value, message = CASES[case]
    record = models[name]
    forged = record.arrays[array].copy()
    forged.flat[0] = value
    (tmp_path / "m").write_bytes(
        b"".join(pack(record._replace(arrays={**record.arrays, array: forged})))
    )
    with pytest.raises(ModelFileError, match=message):
        gapmix.load(tmp_path / "m")


ENTRIES = {
    "exponent": ("classifier", "exponent_", 1e308, "exponent_ is 1e"),
    "labels": ("classifier", "classes_", {"texts": ["a", "a"]}, "classes_ must hold a different"),
    "components": ("imputer", "n_components_", 1000, "n_components_ is 1000; the mixture has"),
    "selection": ("imputer", "selection_", [1.0], "selection_ is a list; it must be tuple"),
    "targets": ("regressor", "n_targets_", 1, "n_targets_ is 1, and the mixture has 4"),
    "bounds": ("table", "bounds_", [[1.0, 0.0]] * 4, "marks and bounds do not fit together"),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_what_is_wrong_with_a_value_is_told(case, models):
    name, entry, value, message = ENTRIES[case]
    content = copy.deepcopy(models[name].content)
    content["state"][entry] = value
    arrays = {k: v for k, v in models[name].arrays.items() if k != f"state.{entry}"}
    with pytest.raises(ModelFileError, match=message):
        CODECS[models[name].kind].from_record(content, arrays)
    del content["state"][entry]
    told = message if name == "table" else f"{entry} is missing"
    with pytest.raises(ModelFileError, match=told):
        CODECS[models[name].kind].from_record(content, arrays)


SHAPES = {
    "name": {"name": "exp"},
    "scale": {"name": "log", "least": 0.5, "scale": 0.0},
    "no number": {"name": "log", "least": 0.5, "origin": {"float": "nan"}},
    "whole": {"name": "log", "least": 0.5, "scale": 1},
    "end": {"name": "log", "least": 0.0},
    "ends": {"name": "logit", "least": 0.1, "most": 1.0},
    "power": {"name": "yeo-johnson", "power": 2.5},
    "reach": {"name": "yeo-johnson", "most": 1e200},
    "identity": {"scale": 2.0},
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes_that_cannot_be_are_refused(case, models):
    content = copy.deepcopy(models["imputer"].content)
    pairs = content["state"]["column_shapes_"]["dict"]
    pairs[0][1]["record"]["fields"].update(SHAPES[case])
    codec = CODECS[models["imputer"].kind]
    with pytest.raises(ModelFileError, match="cannot have the shape"):
        codec.from_record(content, models["imputer"].arrays)
    del pairs[0]
    with pytest.raises(ModelFileError, match="column_shapes_ must hold a shape for each column"):
        codec.from_record(content, models["imputer"].arrays)
    del content["state"]["column_shapes_"]  # as in files of earlier versions
    assert codec.from_record(content, models["imputer"].arrays)._density().shapes == ()


def test_reversed_bounds_are_refused(models):
    content = copy.deepcopy(models["imputer"].content)
    content["settings"]["bounds"] = {"dict": [["a", {"tuple": [2.0, 1.0]}]]}
    with pytest.raises(ModelFileError, match="bounds of column 'a' are"):
        CODECS[models["imputer"].kind].from_record(content, models["imputer"].arrays)


COLUMNS = {
    "doubles": ("mixed", "levels", 0, [1.0, 1.0, 2.0], "a list without doubles or gaps"),
    "not finite": ("mixed", "levels", 0, [np.nan, 1.0, 2.0], "a list without doubles or gaps"),
    "fewer": ("mixed", "levels", 1, [0.0, 1.0], "categories.1 has shape"),
    "elsewhere": ("mixed", "categorical", 1, 9, "must be among 6"),
    "twice": ("mixed", "categorical", 1, 4, "2 categories cannot have levels of 2"),
    "others": ("mixed imputer", "levels", 0, [0.0, 1.0, 3.0], "3 levels in the table and 3 in the"),
    "other columns": ("mixed imputer", "categorical", 0, 3, r"columns \[3, 5\], those of"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_what_is_wrong_with_levels_is_told(case, models):
    name, entry, place, value, message = COLUMNS[case]
    content = copy.deepcopy(models[name].content)
    if entry == "levels":
        value = encode(np.array(value), "levels")
    content["columns"][entry][place] = value
    with pytest.raises(ModelFileError, match=message):
        CODECS[models[name].kind].from_record(content, models[name].arrays)
