"""Dates and timestamps in Spark's forms; `test_json_from_json.py` has Spark as the judge."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats.datetimes import UnknownZone, days, microseconds, zone_of

ZURICH = zone_of("Europe/Zurich")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.dates())
def test_days(day):
    assert days(day.isoformat()) == (day - date(1970, 1, 1)).days


@given(st.datetimes(timezones=st.just(UTC)))
def test_moments(moment):
    expected = (moment - EPOCH) // timedelta(microseconds=1)
    assert microseconds(moment.isoformat(), ZURICH) == expected


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2020-01-02", datetime(2020, 1, 2, tzinfo=ZURICH)),
        ("2020-1-2 3:4:5.5", datetime(2020, 1, 2, 3, 4, 5, 500_000, tzinfo=ZURICH)),
        ("2020-01-02T03:04:05+0100", datetime(2020, 1, 2, 2, 4, 5, tzinfo=UTC)),
        # The clock jumps from 2 to 3: as if it had not, yet.
        ("2024-03-31T02:30:00", datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
        # It is half past two twice: the first time counts.
        ("2024-10-27T02:30:00", datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),
    ],
)
def test_times_without_a_zone_are_of_the_given_one(text, moment):
    assert microseconds(text, ZURICH) == (moment - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize("text", ["", "x", "2020-13-01", "12:30", "2020-01-01T25:00:00"])
def test_what_is_no_moment(text):
    assert microseconds(text, UTC) is None


@pytest.mark.parametrize(
    "name", ["", "../etc/passwd", "Nowhere/At/All", "+19:00", "x" * 300, "a\0b"]
)
def test_what_is_no_zone(name):
    with pytest.raises(UnknownZone):
        zone_of(name)
