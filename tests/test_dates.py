"""Dates with gaps: numbers inside, and written back in the spelling their column has."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import size
from tests.smalltables import cells

from gapmix.estimators.marks import NO_MARKS
from gapmix.tables.dates import SPELLINGS, find_spelling, name_unit, read_dates, write_dates
from gapmix.tables.dialect import TableError

QUICK = ("--components", "1", "--threads", "1", "--max-iter", "20")


def series(texts):
    return nw.from_native(pl.Series(texts, dtype=pl.String), series_only=True)


@given(
    st.sampled_from(SPELLINGS),
    st.lists(st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1)), min_size=1, max_size=20),
)
@settings(max_examples=size(30, 2000), deadline=None)
def test_dates_come_back_as_they_were_spelled(spelling, moments):
    if name_unit(spelling) != "microseconds":
        moments = [moment.replace(microsecond=0) for moment in moments]
    texts = pl.Series(moments).dt.to_string(spelling).to_list()
    parsed = read_dates(series(texts), NO_MARKS, spelling)
    assert (parsed.n_other, np.isnan(parsed.values).sum()) == (0, 0)
    assert write_dates(parsed.values, spelling).to_list() == texts
    # the slow twin: Python's own calendar
    unit = {"days": timedelta(1), "minutes": timedelta(minutes=1), "seconds": timedelta(seconds=1)}
    step = unit.get(name_unit(spelling), timedelta(microseconds=1))
    expected = [(moment - datetime(1970, 1, 1)) // step for moment in moments]
    assert parsed.values.tolist() == expected


@pytest.mark.parametrize(
    ("texts", "spelling"),
    [
        (["1.2.2020", "31.12.1999"], "%-d.%-m.%Y"),
        (["01.02.2020", "31.12.1999"], "%d.%m.%Y"),
        (["01/02/2020", "01/13/2020"], "%m/%d/%Y"),
        (["01/02/2020", "13/01/2020"], "%d/%m/%Y"),
        (["2020-01-02 03:04", "soon"], "%Y-%m-%d %H:%M"),
        (["2020-01-02T03:04:05.5", "2020-01-02T03:04:05"], "%Y-%m-%dT%H:%M:%S%.f"),
        (["1.2.20"], ""),  # which century?
        (["12", "soon"], ""),
    ],
)
def test_the_spelling_of_a_column_is_found(texts, spelling):
    assert find_spelling(iter([pl.Series(texts)]), "a") == spelling
    assert find_spelling((pl.Series([text]) for text in texts[::-1]), "a") in (spelling, "")


def test_day_or_month_first_is_never_guessed():
    with pytest.raises(TableError, match="day first or with the month first"):
        find_spelling(iter([pl.Series(["01/02/2020", "03/04/2020"])]), "when")


def dated_table(path):
    """Write a table in which dates follow from a number, with gaps; return the dates."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    days = [date(1972, 1, 1) + timedelta(days=round(365 * value)) for value in z]
    lines = ["born;seen;x"]
    for i, (value, day) in enumerate(zip(z, days, strict=True)):
        born = "?" if i % 6 == 1 else f"{day.day}.{day.month}.{day.year}"
        seen = "" if i % 7 == 2 else "later" if i == 10 else f"{day.isoformat()}T07:30"
        lines.append(f"{born};{seen};{value:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return days


def test_dates_are_filled_on_request_in_their_spelling(gapmix, tmp_path):
    days = dated_table(tmp_path / "t.csv")
    plain = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", *QUICK)
    assert "'born' (dates; 10 gaps left), 'seen' (dates; 9 gaps left)" in plain.err
    assert "To fill dates, give --numbers COLUMN" in plain.err
    options = ("--numbers", "born,seen", *QUICK)
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", "--save-model", "m", *options)
    assert ran.code == 0, ran.err
    assert "1 cell is not a date such as 2024-12-31T23:59 ('later') and counts as a gap" in ran.err
    assert "'?' in 'born' (10)" in ran.err
    before, after = cells(tmp_path / "t.csv", ";"), cells(tmp_path / "o.csv", ";")
    for old, new, day in zip(before[1:], after[1:], days, strict=True):
        assert old[2] == new[2]
        assert new[0] == (old[0] if old[0] != "?" else new[0])
        assert new[1] == (old[1] if old[1] not in ("", "later") else new[1])
        born, seen = (
            datetime.strptime(new[0], "%d.%m.%Y").date(),
            datetime.strptime(new[1], "%Y-%m-%dT%H:%M").date(),
        )
        assert abs((born - day).days) <= 10
        assert abs((seen - day).days) <= 10
    # A model remembers the spelling; what it cannot read is refused by row and column.
    again = gapmix(tmp_path, "impute", "t.csv", "-o", "p.csv", "-m", "m", "--numbers", "seen")
    assert again.code == 0, again.err
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "o.csv").read_bytes()
    refused = gapmix(tmp_path, "impute", "t.csv", "-o", "p.csv", "-m", "m")
    assert (refused.code, "Row 11, column 'seen': 'later' is not a date" in refused.err) == (
        1,
        True,
    )
    assert gapmix(tmp_path, "sample", "m", "-n", "5", "-o", "s.csv").code == 0
    assert find_spelling(iter([pl.read_csv(tmp_path / "s.csv")["born"]]), "b") == "%-d.%-m.%Y"
    ran = gapmix(tmp_path, "describe", "t.csv", "--numbers", "born", "--json")
    assert '"kind": "date"' in ran.out
    more = ("--bounds", "born=1.1.1973:", "--draws", "1")
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "d.csv", *options, *more)
    assert ran.code == 0, ran.err
    drawn = [
        row[0]
        for row, old in zip(cells(tmp_path / "d.csv", ";"), before, strict=True)
        if old[0] == "?"
    ]
    assert min(int(text[-4:]) for text in drawn) >= 1973


@pytest.mark.parametrize(
    "dtype", [pl.Date, pl.Datetime("ms"), pl.Datetime("ns", "Europe/Berlin")], ids=str
)
def test_dates_with_types_keep_them(gapmix, tmp_path, dtype):
    z = np.random.default_rng(0).normal(size=60)
    moments = [datetime(1971, 1, 1, tzinfo=UTC) + timedelta(days=round(90 * v)) for v in z]
    when = pl.Series(moments).dt.replace_time_zone(None)
    zone = getattr(dtype, "time_zone", None)
    when = when.dt.replace_time_zone("UTC").cast(dtype) if zone else when.cast(dtype)
    gaps = pl.Series(np.arange(60) % 5 == 1)
    pl.DataFrame({"when": when.set(gaps, None), "x": z}).write_parquet(tmp_path / "t.parquet")
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "o.parquet", "--numbers", "when", *QUICK)
    assert ran.code == 0, ran.err
    after = pl.read_parquet(tmp_path / "o.parquet")["when"]
    assert (after.dtype, after.null_count()) == (when.dtype, 0)
    assert after.filter(~gaps).equals(when.filter(~gaps))
    assert (after - when).abs().max() <= timedelta(days=3)
