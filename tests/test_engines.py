"""The same shards give the same bits on threads and on Dask, and survive killed workers."""

import os
import signal
import time

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
from benchmarks import faults
from distributed import Client

from gapmix import GaussianMixture
from gapmix import units as scaling
from gapmix.engines import dask as dask_engine
from gapmix.engines import scratch
from gapmix.engines.contract import EngineError
from gapmix.engines.dask import DaskEngine, open_local_cluster
from gapmix.engines.local import ShardThreads
from gapmix.engines.shards import Message, Spec, build, sum_shard
from gapmix.engines.sources import open_source
from gapmix.estimators.pieces import impute_source
from gapmix.fitting.progress import listening
from gapmix.parameters import Parameters
from gapmix.plan.costs import DEFAULT
from gapmix.solvers import SOLVERS
from gapmix.statistics import Statistics, pack, unpack

FULL = "GAPMIX_FULL" in os.environ
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
OPTIONS = {"n_components": 3, "tol": 0.0, "max_iter": 12, "random_state": 0}


def make_rows(n=2000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    x += rng.integers(0, 3, size=(n, 1)) * 3.0
    x[rng.random(x.shape) < 0.3] = np.nan
    return x


def bits(model):
    return (model.weights_.tobytes(), model.means_.tobytes(), model.covariances_.tobytes())


@pytest.fixture(scope="module")
def client():
    with open_local_cluster(2) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def test_workers_without_gapmix_are_told():
    with open_local_cluster(1) as cluster, Client(cluster, set_as_default=False) as client:
        client.run(exec, "import sys; sys.modules['gapmix'] = None")  # as if it were not there
        with pytest.raises(EngineError, match="gapmix is not installed on 1 of 1 workers"):
            GaussianMixture(engine=client, **OPTIONS).fit(make_rows(200))


@pytest.mark.parametrize("name", SOLVERS)
def test_packed_statistics_come_back(name):
    rng = np.random.default_rng(0)
    n_sums = 3 if name == "factors" else 0  # as many as columns: no matrix all the same
    diagonal = SOLVERS[name].SUMS_DIAGONAL or bool(n_sums)
    lower = np.tril(rng.normal(size=(2, 3, 3)))
    for dual in (0.0, 1.0):
        sums = Statistics(
            np.array(1.5),
            rng.random(2),
            rng.random((2, 3)),
            rng.random((2, 3, n_sums) if n_sums else (2, 3)) if diagonal else lower,
            np.full(2, dual),
            dual * rng.random((2, 3)),
            np.zeros((2, 0, 0)) if diagonal else dual * lower[::-1],
            np.array(2.0),
            rng.random((2, 5)),
        )
        vector = pack(sums, n_sums)
        back = unpack(vector, 2, 3, diagonal=diagonal, n_levels=5, n_sums=n_sums)
        assert all(np.array_equal(a, b) for a, b in zip(back, sums, strict=True))
    assert diagonal or vector.size == 1 + 2 + 6 + 12 + 2 + 6 + 12 + 1 + 10


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_threads_give_the_same_bits_with_and_without_room_for_shards(covariance_type):
    x = make_rows()
    options = OPTIONS | {"covariance_type": covariance_type}
    found = {
        bits(
            GaussianMixture(**options, n_jobs=n).fit(
                open_source(x, rows_per_piece=300)._replace(memory=memory)
            )
        )
        for n in (1, 2, 4)
        for memory in (2**20, 2**30)
    }
    assert len(found) == 1


def test_shards_in_memory_on_disk_and_built_again_give_the_same_bits(monkeypatch):
    x = make_rows()
    source = open_source(x, rows_per_piece=300)
    units = scaling.measure(x, np.ones(len(x)))
    columns = np.arange(x.shape[1])
    specs = [Spec(piece, None, columns, units, 2, "dual", DEFAULT) for piece in source.pieces]
    parameters = Parameters(
        np.full(2, 0.5), np.eye(2, 6), np.stack([np.eye(6), 2 * np.eye(6)]), "full"
    )
    message = Message("", "dual", parameters, SOLVERS["dual"].prepare(parameters))
    n_built = 0

    def build_and_count(spec):
        nonlocal n_built
        n_built += 1
        return build(spec)

    found, built = [], []
    for memory, reserve in ((2**30, 20), (100_000, 20), (100_000, 1)):
        monkeypatch.setattr(scratch, "RESERVE", reserve)  # 1: all of the disk is to stay free
        engine, n_built = ShardThreads(1, memory), 0
        engine.load(build_and_count, specs)
        for _ in range(3):
            found.append(b"".join(v.tobytes() for v in engine.step(sum_shard, message)))
        engine.close()
        built.append(n_built)
    assert len(set(found)) == 1
    assert built[:2] == [len(specs)] * 2
    assert 2 * len(specs) < built[2] < 3 * len(specs)


@pytest.mark.parametrize("nested", [True, False])
def test_what_goes_to_scratch_comes_back(nested, tmp_path):
    store = scratch.Scratch(str(tmp_path))
    rng = np.random.default_rng(0)
    values = [(rng.random((n, 3)), np.arange(n) > 1, n) for n in (1, 50, 7)]
    for number, value in enumerate(values):
        store.put(number, (value, "text") if nested else value)
    for number in (2, 0, 1):
        back = store.get(number)
        back = back[0] if nested else back
        assert all(np.array_equal(a, b) for a, b in zip(back, values[number], strict=True))
    assert list(tmp_path.iterdir()) == []  # it has no name
    assert store.get(5) is None
    store.close()
    assert store.get(0) is None


@pytest.mark.parametrize(
    "solver", ["dual", "tree", "factors", *(["paper", "naive"] if FULL else [])]
)
def test_dask_gives_the_bits_of_threads(solver, client):
    source = open_source(make_rows(600 if solver != "dual" else 2000), rows_per_piece=300)
    factors = {"covariance_type": "factor", "n_factors": 2, "shrinkage": "auto"}
    options = OPTIONS | (factors if solver == "factors" else {"solver": solver})
    threads = GaussianMixture(**options).fit(source)
    assert bits(GaussianMixture(**options, engine=client).fit(source)) == bits(threads)


@pytest.mark.parametrize("n_workers", [1, 2, 3] if FULL else [3])
@pytest.mark.parametrize("rows_per_piece", [250, 700, 2000] if FULL else [250])
def test_any_number_of_workers_gives_the_same_bits(n_workers, rows_per_piece):
    source = open_source(make_rows(), rows_per_piece=rows_per_piece)
    wanted = {bits(GaussianMixture(**OPTIONS, n_jobs=n).fit(source)) for n in (1, 2, 4)}
    model = GaussianMixture(**OPTIONS, engine="dask", n_jobs=n_workers).fit(source)
    assert {bits(model)} == wanted


def same_rows_everywhere(x, folder):
    """Yield the same pieces of 100 rows as every kind of source."""
    np.save(folder / "x.npy", x)
    yield open_source(folder / "x.npy", rows_per_piece=100)
    kept = np.memmap(folder / "x.bin", float, "w+", 8, x.shape)
    kept[:] = x
    kept.flush()
    yield open_source(kept, rows_per_piece=100)
    frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
    frame.to_parquet(folder / "x.parquet", row_group_size=50)
    yield open_source(folder / "x.parquet", rows_per_piece=100)
    (folder / "set").mkdir()
    for i, low in enumerate(range(0, len(x), 200)):
        frame[low : low + 200].to_parquet(folder / "set" / f"{i}.parquet")
    yield open_source(folder / "set", rows_per_piece=100)
    yield open_source(dask.array.from_array(x, chunks=(100, 3)))
    yield open_source(dask.dataframe.from_pandas(frame, npartitions=len(x) // 100))


@pytest.mark.parametrize("n_workers", [1, 2, 3] if FULL else [2])
def test_every_source_gives_the_same_bits_on_any_engine(n_workers, tmp_path):
    found = []
    with open_local_cluster(n_workers) as cluster, Client(cluster, set_as_default=False) as client:
        for source in same_rows_everywhere(make_rows(600), tmp_path):
            assert [piece.n_rows for piece in source.pieces] == [100] * 6
            for n_threads in (1, 2, 4):
                found.append(faults.fingerprint(fitted(source, n_jobs=n_threads)))
            found.append(faults.fingerprint(fitted(source, engine=client)))
    assert len(found) == 24
    assert all(one == found[0] for one in found)


def fitted(source, **where):
    return GaussianMixture(**OPTIONS, **where).fit(source)


def test_an_address_a_dask_array_and_a_matrix_are_taken(client, tmp_path):
    x = make_rows(900)
    address = client.scheduler.address
    array = dask.array.from_array(x, chunks=(300, 3))
    wanted = bits(GaussianMixture(**OPTIONS).fit(open_source(x, rows_per_piece=300)))
    model = GaussianMixture(**OPTIONS, engine=address).fit(array)
    assert bits(model) == wanted
    matrix = GaussianMixture(**OPTIONS, engine=address).fit(x)
    assert bits(matrix) == bits(GaussianMixture(**OPTIONS).fit(open_source(x)))
    impute_source(model, array, tmp_path / "out.csv")
    filled = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(filled, model.impute(x), rtol=1e-12)


def test_no_scheduler_at_an_address_is_an_error_soon(monkeypatch):
    monkeypatch.setattr(dask_engine, "CONNECT", 1)
    with pytest.raises(EngineError, match="no Dask scheduler answered"):
        GaussianMixture(engine="tcp://127.0.0.1:9").fit(make_rows(50))


def test_a_killed_worker_changes_no_bit():
    """One of two workers dies in iteration 1, 5 or the last: 30 runs at full size."""
    outcomes = list(faults.kill_workers(40_000 if FULL else 10_000, 10 if FULL else 1))
    print(*outcomes, sep="\n")
    assert {one.ended for one in outcomes} <= {"equal", "EngineError in time"}
    assert sum(one.killed for one in outcomes) > len(outcomes) // 2
    assert sum(one.ended == "equal" for one in outcomes) > len(outcomes) // 2


def test_a_killed_driver_goes_on_to_the_same_bits():
    """Threads, a cluster of its own, and a cluster that outlives it: 20 runs at full size."""
    kinds = faults.DRIVERS if FULL else ("address",)
    n_rows, n_kills, within = (40_000, 20, None) if FULL else (10_000, 1, 2.0)
    outcomes = list(faults.kill_drivers(n_rows, n_kills, kinds=kinds, within=within))
    print(*outcomes, sep="\n")
    assert {one.ended for one in outcomes} == {"equal"}
    assert sum(one.killed for one in outcomes) >= len(outcomes) // 2


def test_shards_stay_where_they_are_and_are_shared_out_evenly():
    a, b, c = (dask_engine.Slot(name, 0) for name in "abc")
    dealt = dask_engine.deal([None] * 5, [a, b])
    assert dealt == [a, b, a, b, a]
    assert dask_engine.deal(dealt, [a, b]) == dealt
    assert dask_engine.deal(dealt, [b]) == [b] * 5
    assert dask_engine.deal(dealt, [a, c]) == [a, c, a, c, a]
    assert dask_engine.deal([b] * 5, [b, c]) == [b, b, b, c, c]


def test_workers_that_all_die_and_come_back_elsewhere_change_no_bit():
    """Dask leaves tasks that were meant for a dead worker waiting if nobody else was there."""
    source = open_source(make_rows(), rows_per_piece=250)
    wanted = bits(GaussianMixture(**OPTIONS).fit(source))
    with open_local_cluster(1) as cluster, Client(cluster, set_as_default=False) as client:
        n_told = 0

        def watch(what, done, total):
            nonlocal n_told
            n_told += what == "pass"
            if what == "pass" and n_told in (len(source.pieces), 5 * len(source.pieces)):
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        with listening(None, pieces=watch):
            model = GaussianMixture(**OPTIONS, engine=client).fit(source)
    assert bits(model) == wanted


def test_a_cluster_that_is_gone_is_an_error_not_a_hang(monkeypatch):
    monkeypatch.setattr(dask_engine, "WORKERLESS", 2.0)
    source = open_source(make_rows(), rows_per_piece=250)
    with open_local_cluster(1) as cluster, Client(cluster, set_as_default=False) as client:
        n_told = 0

        def watch(what, done, total):
            nonlocal n_told
            n_told += what == "pass"
            if n_told == 3 * len(source.pieces) and what == "pass":
                cluster.scale(0)

        began = time.monotonic()
        lost = pytest.raises(EngineError, match=r"gone|lost")
        with lost, listening(None, pieces=watch):
            GaussianMixture(**OPTIONS, engine=client).fit(source)
        assert time.monotonic() - began < 60


def test_errors_of_tasks_keep_their_type(client):
    x = make_rows(900)
    x[500, 1] = np.inf
    with pytest.raises(ValueError, match="Row 500, column 1 holds inf"):
        GaussianMixture(3, engine=client).fit(open_source(x, rows_per_piece=200))


def test_both_engines_keep_the_order_of_shards(client):
    for engine in (ShardThreads(3, 2**20), DaskEngine(client)):
        pieces = open_source(np.arange(200.0)[:, None], rows_per_piece=2).pieces
        assert list(engine.map(first_value, [Wrapped(p) for p in pieces])) == list(range(0, 200, 2))
        engine.close()


class Wrapped:
    """A specification with nothing but a piece."""

    def __init__(self, piece):
        self.piece = piece


def first_value(spec):
    time.sleep(0.01 * (int(spec.piece.x[0, 0]) % 4 == 0))
    return spec.piece.x[0, 0]


def test_a_secure_address_without_certificates_is_an_error_that_names_it():
    mixture = GaussianMixture(1, engine="tls://127.0.0.1:9")
    with pytest.raises(EngineError, match=r"engine='tls://127.0.0.1:9': .* certificates"):
        mixture.fit(open_source(np.random.default_rng(0).normal(size=(50, 3))))
