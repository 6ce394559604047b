"""What is said of the time left can be believed: recorded and hostile runs, played again."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console
from sklearn.impute import KNNImputer
from sklearn.preprocessing import StandardScaler

from gapmix import GaussianMixtureImputer
from gapmix.cli.forecast import FitWork, Forecast
from gapmix.cli.screen import Screen
from gapmix.em.records import Iteration
from gapmix.evaluate.contenders import default_imputers
from gapmix.fitting.progress import Event, listening

SIZES = (1, 2, 3, 5, 8, 13, 21, 34, 55)
RECORDED = {  # by table: seconds in all; components, iterations, seconds at the first and the last
    "bike": (
        78.1,
        [
            (1, 5, 1.5, 1.6),
            (2, 23, 2.2, 2.5),
            (3, 38, 2.9, 3.4),
            (5, 45, 3.9, 4.9),
            (8, 41, 5.5, 6.9),
            (13, 87, 8.0, 13.2),
            (21, 100, 16.1, 29.6),
            (34, 100, 33.5, 57.3),
            (13, 39, 58.5, 61.6),
            (21, 19, 61.7, 64.0),
            (34, 57, 64.4, 77.1),
        ],
    ),
    "obesity": (
        50.6,
        [
            (1, 4, 0.3, 0.3),
            (2, 22, 0.5, 0.7),
            (3, 12, 1.0, 1.1),
            (5, 30, 1.4, 1.8),
            (8, 49, 2.4, 3.9),
            (13, 66, 4.7, 7.3),
            (21, 46, 8.2, 11.1),
            (34, 44, 13.0, 18.0),
            (55, 55, 21.4, 34.8),
            (21, 23, 35.9, 37.4),
            (34, 55, 37.5, 43.2),
            (55, 33, 43.4, 49.4),
        ],
    ),
}
QUICK = Iteration(0.0, 0.0, None, 0.1, ())


def list_events(fits):
    for n_components, n_iter, first, last in fits:
        for i, now in enumerate(np.linspace(first, last, n_iter)):
            yield float(now), Event(n_components, 1, 1, i + 1, QUICK, SIZES)


def shown(forecast, now):
    """Seconds left as they are written, None if nothing is."""
    left = forecast.left(now)
    return None if left is None else max(1.0, left)


def follow(forecast, steps):
    """Yield time, what is shown and whether it is a bound; check each step against the last.

    `steps` are functions of the forecast, with their times.
    """
    before, share, bound = None, 0.0, False
    for now, step in steps:
        ended = step(forecast)
        for later in (0.0, 0.3, 7.0, 300.0):  # it runs down until the next step
            left = forecast.left(now + later)
            assert left is None or left >= 0
        left = shown(forecast, now)
        assert 0.0 <= share <= forecast.share < 1.0
        if before is not None and left is not None and not ended and bound == forecast.at_most:
            assert 0.1 < left / before < 10
        before, share, bound = left, forecast.share, forecast.at_most
        yield now, left, bound


def hear_fit(work, now, event):
    def step(forecast):
        found = work.hear(event, now)
        if found is not None:
            forecast.hear(now, *found)

    return now, step


def begin(now, part):
    def step(forecast):
        forecast.begin(part, now)
        return True

    return now, step


def share_of(now, share):
    return now, lambda forecast: forecast.hear(now, share)


@pytest.mark.parametrize("table", RECORDED)
def test_the_time_left_of_recorded_fits_is_steady_and_about_right(table):
    total, fits = RECORDED[table]
    work = FitWork(100)
    steps = [begin(-0.2, "reading"), begin(0.0, "fitting")]
    steps += [hear_fit(work, now, event) for now, event in list_events(fits)]
    said = list(follow(Forecast(("reading", "fitting", "writing")), steps))
    told = [(now, left, bound) for now, left, bound in said if left is not None]
    assert told[0][0] < 0.1 * total  # it is said early
    for now, left, bound in told:
        true = max(1.0, total - now)
        assert left > true / 6, now
        assert left < 6 * true, now
        if bound and now < 0.5 * total:
            assert left > 0.8 * true, now  # at most, but for the speed
    assert not told[-1][2]
    assert any(bound for _, _, bound in told)


@pytest.mark.parametrize("seed", range(20))
def test_the_time_left_is_never_negative_and_never_leaps_whatever_happens(seed):
    rng = np.random.default_rng(seed)
    now, steps, parts = 0.0, [], ["reading"]
    for _ in range(6):
        parts.append(str(rng.choice(["fitting", "writing", "k-NN", "mixture"])))
    for part in parts:
        steps.append(begin(now, part))
        work, grown = FitWork(int(rng.integers(1, 200))), np.sort(rng.choice(SIZES, 4))
        for _ in range(int(rng.integers(0, 40))):
            now += float(rng.choice([1e-6, 0.01, 1.0, 50.0, 3000.0]) * rng.random())
            if part in ("fitting", "mixture"):
                size = int(rng.choice(grown))
                event = Event(size, 1, 1, int(rng.integers(1, 100)), QUICK, tuple(grown.tolist()))
                steps.append(hear_fit(work, now, event))
            else:
                steps.append(share_of(now, rng.choice([None, 0.0, rng.random(), 1.0])))
    assert len(list(follow(Forecast(parts), steps))) == len(steps)


def test_rounds_that_are_alike_are_foretold_by_the_first():
    seconds = {"mean": 0.5, "k-NN": 10.0, "mixture": 40.0}
    forecast, now = Forecast(("reading", *tuple(seconds) * 3)), 0.0
    forecast.begin("reading", now)
    for turn in range(3):
        for name, spent in seconds.items():
            now += 0.01
            forecast.begin(name, now)
            left = forecast.left(now)
            if turn == 0 and name != "mixture":
                assert left is None  # of the others nothing is known
            if turn == 1:
                done = sum(list(seconds.values())[: list(seconds).index(name)])
                assert left == pytest.approx(2 * 50.5 - done, rel=0.01)
            now += spent
    assert forecast.share > 0.7


def test_one_bar_shows_the_whole_job_and_bounds_while_sizes_grow():
    now = 0.0
    out = io.StringIO()
    screen = Screen(console=Console(file=out, width=200), clock=lambda: now)
    screen.plan("reading", "fitting", "writing")
    screen.stage("Reading in.csv", 1000, part="reading")
    screen.step(1000)
    now = 0.5
    screen.stage("Fitting", 100, part="fitting")
    for now, event in list_events(RECORDED["bike"][1]):  # noqa: B007  the clock reads it
        assert screen.iteration(event) is False
    now += 1.0
    screen.stage("Writing out.csv", 1000, part="writing")
    now += 20.0
    screen.step(500)
    lines = out.getvalue().splitlines()
    assert len(lines) == 8  # one in ten seconds
    assert lines[0] == "Fitting 13 components: iteration 35, 10 s, at most 70 s left"
    assert "at most" not in lines[6]
    assert lines[7] == "Writing out.csv: 500 rows, 98 s, about 8 s left"


# ------------------------------------------------------------------ what is told


def test_fits_tell_which_sizes_may_be_tried():
    x = np.random.default_rng(0).normal(size=(60, 2))
    x[::7, 0] = np.nan
    heard = []
    with listening(lambda event: heard.append(event) and False):
        GaussianMixtureImputer(max_components=3, random_state=0, tol=0.1).fit(x)
        GaussianMixtureImputer(2, random_state=0, tol=0.1).fit(x)
    assert {event.sizes for event in heard} == {(1, 2, 3), (2,)}


def test_rivals_tell_how_far_they_are_and_fill_as_ever():
    x = np.random.default_rng(0).normal(size=(1_200, 4))
    x[:, 3] += x[:, 0]
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    rivals, heard = default_imputers(0), []
    with listening(None, lambda *step: heard.append(step)):
        near = rivals["k-NN"].fit_transform(x)
        in_turn = rivals["iterative"].fit_transform(x)
    assert heard[:3] == [("part", i + 1, 3) for i in range(3)]
    assert heard[3] == ("regression", 1, 40)
    assert len(heard) > 8
    scaler = StandardScaler().fit(x)
    whole = scaler.inverse_transform(KNNImputer().fit_transform(scaler.transform(x)))
    np.testing.assert_allclose(near, whole, rtol=1e-12)
    plain = rivals["iterative"].imputer.fit_transform(x)
    np.testing.assert_array_equal(in_turn, plain)
