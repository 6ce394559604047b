"""Numbers, durations, names and lists are said in one way everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from gapmix.wording import (
    count,
    duration,
    label,
    list_names,
    listed,
    name_columns,
    number,
    percent,
    plus_minus,
    quote,
    rough_duration,
    short_duration,
)


def test_numbers_are_written_as_people_write_them():
    shown = [0.0, 12.0, 0.12345, 1234.5, -3.14159, 1.5e9, 2e-7, np.nan]
    assert [number(v) for v in shown] == [
        *("0", "12", "0.123", "1,234", "\N{MINUS SIGN}3.14", "1.50e+09", "2.00e-07"),
        "\N{EN DASH}",
    ]
    assert [percent(v) for v in (0, 1e-5, 0.05, 0.5, 0.9999, 1, 2.5)] == [
        *("0 %", "under 0.1 %", "5.0 %", "50 %", "over 99.9 %", "100 %", "250 %")
    ]
    assert plus_minus(123.456, 1.234) == "123.5 ± 1.2"
    assert label("x" * 100, 20) == "x" * 13 + "…" + "x" * 6


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (99.4, "99 s"), (125, "2 min 05 s")),
        *((3599.6, "1 h 0 min"), (4800, "1 h 20 min")),
    ],
)
def test_durations_are_said_in_seconds_minutes_and_hours(seconds, said):
    assert duration(seconds) == said


def test_short_durations_keep_three_digits():
    shown = [short_duration(seconds) for seconds in (12.345, 1.0, 0.0351, 8e-5, 1e-8)]
    assert shown == ["12.3 s", "1 s", "35.1 ms", "80 us", "0.01 us"]


def test_one_is_singular_and_thousands_have_commas():
    assert [count(n, "row") for n in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]


def test_names_in_messages_are_quoted_short_and_cut_after_a_few():
    assert quote("a\x1bb") == "'a\N{REPLACEMENT CHARACTER}b'"
    assert len(quote("x" * 100)) == 62
    assert list_names(["a", "b"]) == "a, b"
    assert list_names(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert name_columns(["'a'"]) == "Column 'a'"
    assert name_columns(["'a'", "'b'"]) == "Columns 'a', 'b'"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefgh"), 3) == "a, b and 6 more"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "1 s"),
        (12.4, "12 s"),
        (43.0, "45 s"),
        (97.4, "95 s"),
        (97.6, "2 min"),
        (5_900.0, "98 min"),
        (6_100.0, "1 h 40 min"),
        (7_200.0, "2 h"),
    ],
)
def test_a_time_that_is_guessed_has_few_digits(seconds, said):
    assert rough_duration(seconds) == said
