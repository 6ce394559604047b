"""Categories of tables in pieces: the fit in memory, the same bits on any engine, files filled."""

import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client
from test_mixed_tables import CATEGORIES, make_frame

from gapmix import GaussianMixture
from gapmix.em import checkpoint
from gapmix.engines.dask import open_local_cluster
from gapmix.engines.sources import SourceError, open_source, read, read_values
from gapmix.estimators.pieces import impute_source

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FRAME = make_frame(600)[0]
OPTIONS = {"n_components": 3, "tol": 1e-7, "max_iter": 60, "random_state": 0}
KINDS = ["parquet", "folder", "dask frame"]


def make_source(kind, frame, folder):
    """Return the frame as pieces of 100 rows."""
    if kind == "dask frame":
        return open_source(dask.dataframe.from_pandas(frame, npartitions=len(frame) // 100))
    if kind == "parquet":
        frame.to_parquet(folder / "t.parquet", row_group_size=50)
        return open_source(folder / "t.parquet", rows_per_piece=100)
    (folder / "set").mkdir()
    for i, low in enumerate(range(0, len(frame), 200)):
        frame[low : low + 200].to_parquet(folder / "set" / f"{i}.parquet")
    return open_source(folder / "set", rows_per_piece=100)


def bits(model):
    arrays = (model.weights_, model.means_, model.covariances_, *model.category_probabilities_)
    return b"".join(array.tobytes() for array in arrays)


def by_name(model):
    """Return {column: {level: probabilities}}: the order of levels may differ."""
    names = model.feature_names_in_[model.is_categorical_]
    order = np.argsort(model.means_[:, 0])
    return {
        name: dict(zip(levels.tolist(), table[order].T, strict=True))
        for name, levels, table in zip(
            names, model.categories_, model.category_probabilities_, strict=True
        )
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_in_pieces_is_the_fit_in_memory(kind, tmp_path):
    whole = GaussianMixture(**OPTIONS).fit(FRAME)
    pieces = GaussianMixture(**OPTIONS).fit(make_source(kind, FRAME, tmp_path))
    assert pieces.is_categorical_.tolist() == whole.is_categorical_.tolist()
    assert pieces.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)
    found, wanted = by_name(pieces), by_name(whole)
    assert list(found) == CATEGORIES
    for name in CATEGORIES:
        assert sorted(found[name]) == sorted(wanted[name])
        for level, probabilities in wanted[name].items():
            np.testing.assert_allclose(found[name][level], probabilities, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(
        pieces.score_samples(FRAME), whole.score_samples(FRAME), rtol=1e-4, atol=1e-5
    )


def test_all_engines_and_numbers_of_threads_give_the_same_bits(tmp_path):
    found = set()
    with open_local_cluster(2) as cluster, Client(cluster, set_as_default=False) as client:
        for kind in KINDS:
            source = make_source(kind, FRAME, tmp_path)
            assert [piece.n_rows for piece in source.pieces] == [100] * 6
            for where in ({"n_jobs": 1}, {"n_jobs": 3}, {"engine": client}):
                found.add(bits(GaussianMixture(**OPTIONS, **where).fit(source)))
            small = source._replace(memory=1_200_000)  # shards go to disk
            found.add(bits(GaussianMixture(**OPTIONS, n_jobs=2).fit(small)))
        assert len(found) == 1
        remote = GaussianMixture(**OPTIONS, engine=client).fit(FRAME)
    assert remote.categories_[2].tolist() == ["S", "M", "L"]  # a frame in memory has their order
    one = GaussianMixture(**OPTIONS).fit(FRAME)
    assert remote.lower_bound_ == pytest.approx(one.lower_bound_, rel=1e-9)


def test_codes_of_binary_matrices_are_named(tmp_path):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 500)
    x = np.column_stack([rng.normal(4 * group), group + 7.0, rng.integers(1, 4, 500)])
    x[rng.random(x.shape) < 0.2] = np.nan
    np.save(tmp_path / "x.npy", x)
    options = {**OPTIONS, "n_components": 2, "categorical_features": [1, 2]}
    whole = GaussianMixture(**options).fit(x)
    model = GaussianMixture(**options).fit(open_source(tmp_path / "x.npy", rows_per_piece=90))
    assert [levels.tolist() for levels in model.categories_] == [[7.0, 8.0], [1.0, 2.0, 3.0]]
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)
    impute_source(model, tmp_path / "x.npy", tmp_path / "out.csv")
    filled = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(filled, model.impute(x).astype(float), rtol=1e-12)


@pytest.mark.parametrize("numbers", [True, False])
def test_weights_empty_rows_and_tables_without_numbers_are_as_in_memory(numbers, tmp_path):
    frame = FRAME.copy() if numbers else FRAME[CATEGORIES].copy()
    frame.iloc[::7] = None
    frame.iloc[3::7, :1] = None
    weight = np.random.default_rng(2).integers(0, 3, size=len(frame)).astype(float)
    options = {**OPTIONS, "n_components": 2, "shrinkage": "auto"}
    whole = GaussianMixture(**options).fit(frame, sample_weight=weight)
    source = make_source("parquet", frame, tmp_path)
    pieces = GaussianMixture(**options).fit(source, sample_weight=weight, X_val=frame[:50])
    pieces = GaussianMixture(**options).fit(source, sample_weight=weight)
    assert pieces.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-8)
    for one in pieces.category_probabilities_:
        np.testing.assert_allclose(one.sum(axis=1), 1.0)


class InterruptError(Exception):
    pass


@pytest.mark.parametrize("in_pieces", [True, False])
def test_a_fit_interrupted_at_a_save_goes_on_to_the_same_bits(in_pieces, tmp_path, monkeypatch):
    table = make_source("parquet", FRAME, tmp_path) if in_pieces else FRAME
    options = {**OPTIONS, "n_components": 4, "shrinkage": "auto", "n_init": 2}
    whole = GaussianMixture(**options).fit(table)
    monkeypatch.setattr(checkpoint, "EVERY_ITERATIONS", 1)
    really_write, n_written = checkpoint.write, 0

    def write(path, saved):
        nonlocal n_written
        really_write(path, saved)
        n_written += 1
        if n_written % 6 == 0:
            raise InterruptError

    monkeypatch.setattr(checkpoint, "write", write)
    model, n_stopped = GaussianMixture(**options, checkpoint=tmp_path / "state"), 0
    while not hasattr(model, "weights_"):
        try:
            model.fit(table)
        except InterruptError:
            n_stopped += 1
    assert n_stopped > 1
    assert bits(model) == bits(whole)


@pytest.mark.parametrize("in_pieces", [True, False])
def test_a_checkpoint_knows_its_levels(in_pieces, tmp_path):
    path = tmp_path / "state"

    def fit(frame):
        table = make_source("parquet", frame, tmp_path) if in_pieces else frame
        GaussianMixture(2, random_state=0, tol=0.0, max_iter=9, checkpoint=path).fit(table)

    fit(FRAME)
    other = FRAME.assign(sex=FRAME["sex"].where(np.arange(len(FRAME)) > 5, "other"))
    with pytest.raises(ValueError, match=r"checkpoint of another fit: its (data|categories)"):
        fit(other)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_are_filled_in_order_and_unknown_levels_are_kept(kind, suffix, tmp_path):
    model = GaussianMixture(**OPTIONS).fit(FRAME)
    frame = FRAME.copy()
    frame.loc[[5, 410], "sex"] = "unheard of"
    out = tmp_path / f"out.{suffix}"
    with pytest.warns(UserWarning, match="'sex': 2 rows have a level not seen in training"):
        impute_source(model, make_source(kind, frame, tmp_path), out)
    filled = pd.read_parquet(out) if suffix == "parquet" else pd.read_csv(out)
    with pytest.warns(UserWarning, match="unheard of"):
        wanted = model.impute(frame)
    assert list(filled.columns) == list(FRAME.columns)
    for name in FRAME.columns:
        if name in CATEGORIES:
            assert filled[name].tolist() == wanted[name].tolist()
        else:
            np.testing.assert_allclose(filled[name], wanted[name], rtol=1e-12)
    assert filled["sex"][5] == filled["sex"][410] == "unheard of"


def test_pieces_give_codes_and_values(tmp_path):
    table = pa.table(
        {
            "text": pa.array(["b", None, "a", "c"]).dictionary_encode(),
            "flag": pa.array([True, None, False, True]),
            "code": pa.array([3, 1, None, 3], pa.int16()),
            "x": pa.array([1.5, None, float("nan"), 2.0]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    source = open_source(tmp_path / "t.parquet")
    assert source.kinds == ("text", "flag", "number", "number")
    levels = (np.array(["a", "b"], dtype=object), np.array([False, True]), np.array([1, 3]), None)
    (piece,) = source.pieces
    np.testing.assert_array_equal(
        read(piece._replace(levels=levels)),
        [[1, 1, 1, 1.5], [np.nan] * 2 + [0, np.nan], [0, 0, np.nan, np.nan], [np.nan, 1, 1, 2]],
    )
    strange = (np.array(["a"], dtype=object), None, np.array(["x"], dtype=object), None)
    assert np.isnan(read(piece._replace(levels=strange))[:, 2]).all()  # levels of another type
    assert read_values(piece, [2, 3]) == [[3, 1, None, 3], [1.5, None, None, 2.0]]


def test_what_is_no_category_is_told_by_name(tmp_path):
    n = 200
    frame = pd.DataFrame({"x": np.arange(float(n)), "name": [f"row {i}" for i in range(n)]})
    source = make_source("parquet", frame, tmp_path)
    with pytest.raises(ValueError, match="Column 'name' has 200 distinct values in 200 rows"):
        GaussianMixture(2).fit(source)
    with pytest.raises(ValueError, match=r"Column .name. holds text, not numbers\. Name it in"):
        GaussianMixture(2, categorical_features=None).fit(source)
    with pytest.raises(ValueError, match="names the column 'none', but X has no such column"):
        GaussianMixture(2, categorical_features=["none"]).fit(source)
    written = make_source("parquet", frame.assign(name=["1", "2"] * 100), tmp_path)
    with pytest.raises(ValueError, match="'name' holds numbers written as text, like '1'"):
        GaussianMixture(2).fit(written)
    assert len(GaussianMixture(2, categorical_features=["name"]).fit(written).categories_[0]) == 2
    dates = frame.assign(name=pd.Timestamp("2020-01-01"))
    with pytest.raises(SourceError, match="neither numbers nor categories"):
        make_source("parquet", dates, tmp_path)
    with pytest.raises(SourceError, match="neither numbers nor categories"):
        make_source("dask frame", dates, tmp_path)


def test_files_of_one_table_must_agree_in_kind(tmp_path):
    (tmp_path / "set").mkdir()
    pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(tmp_path / "set" / "0.parquet")
    pd.DataFrame({"x": ["a", "b"]}).to_parquet(tmp_path / "set" / "1.parquet")
    with pytest.raises(SourceError, match="column 'x' holds a text, and a number in"):
        open_source(tmp_path / "set")
