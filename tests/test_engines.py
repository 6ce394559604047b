"""The same shards give the same bits on threads and on Dask, and survive killed workers."""

import os
import signal
import threading
import time

import dask.array
import numpy as np
import pytest
from distributed import Client

from gapmix import GaussianMixture
from gapmix.engines import dask as dask_engine
from gapmix.engines.contract import EngineError
from gapmix.engines.dask import DaskEngine, open_local_cluster
from gapmix.engines.threads import ShardThreads
from gapmix.estimators.streamed import fit_source, impute_source
from gapmix.solvers import SOLVERS
from gapmix.sources import open_source
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


@pytest.mark.parametrize("name", SOLVERS)
def test_packed_statistics_come_back(name):
    rng = np.random.default_rng(0)
    diagonal = SOLVERS[name].SUMS_DIAGONAL
    lower = np.tril(rng.normal(size=(2, 3, 3)))
    for dual in (0.0, 1.0):
        sums = Statistics(
            np.array(1.5),
            rng.random(2),
            rng.random((2, 3)),
            rng.random((2, 3)) if diagonal else lower,
            np.full(2, dual),
            dual * rng.random((2, 3)),
            np.zeros((2, 0, 0)) if diagonal else dual * lower[::-1],
            np.array(2.0),
        )
        vector = pack(sums)
        back = unpack(vector, 2, 3, diagonal=diagonal)
        assert all(np.array_equal(a, b) for a, b in zip(back, sums, strict=True))
    assert diagonal or vector.size == 1 + 2 + 6 + 12 + 2 + 6 + 12 + 1


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


@pytest.mark.parametrize("solver", ["dual", "tree", "paper", "naive"] if FULL else ["dual", "tree"])
def test_dask_gives_the_bits_of_threads(solver, client):
    source = open_source(make_rows(600 if solver != "dual" else 2000), rows_per_piece=300)
    options = OPTIONS | {"solver": solver}
    threads = GaussianMixture(**options).fit(source)
    assert bits(GaussianMixture(**options, engine=client).fit(source)) == bits(threads)


@pytest.mark.parametrize("n_workers", [1, 2, 3] if FULL else [3])
@pytest.mark.parametrize("rows_per_piece", [250, 700, 2000] if FULL else [250])
def test_any_number_of_workers_gives_the_same_bits(n_workers, rows_per_piece):
    source = open_source(make_rows(), rows_per_piece=rows_per_piece)
    wanted = {bits(GaussianMixture(**OPTIONS, n_jobs=n).fit(source)) for n in (1, 2, 4)}
    model = GaussianMixture(**OPTIONS, engine="dask", n_jobs=n_workers).fit(source)
    assert {bits(model)} == wanted


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


def kill_one(client):
    """Kill a worker process of the client's cluster, as the system would when memory is short."""
    pids = list(client.run(os.getpid).values())
    os.kill(pids[0], signal.SIGKILL)


@pytest.mark.parametrize("iteration", [1, 5, 12] if FULL else [5])
@pytest.mark.parametrize("run", range(10 if FULL else 1))
def test_a_killed_worker_changes_no_bit(iteration, run, client):
    source = open_source(make_rows(), rows_per_piece=250 + run)
    wanted = bits(GaussianMixture(**OPTIONS).fit(source))
    n_pieces = len(source.pieces)
    n_told = 0

    def watch(what, done, total):
        nonlocal n_told
        n_told += what == "pass"
        if what == "pass" and n_told == (iteration - 1) * n_pieces + 1 + run % n_pieces:
            threading.Thread(target=kill_one, args=(client,)).start()

    began = time.monotonic()
    try:
        model = fit_source(GaussianMixture(**OPTIONS, engine=client), source, progress=watch)
    except EngineError:
        assert time.monotonic() - began < 60
    else:
        assert bits(model) == wanted
    client.wait_for_workers(2, timeout=60)


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
        with pytest.raises(EngineError, match=r"gone|lost"):
            fit_source(GaussianMixture(**OPTIONS, engine=client), source, progress=watch)
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
