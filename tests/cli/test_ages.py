from __future__ import annotations

import datetime

import pytest

from steelyard.cli import ages

NOW = datetime.datetime(2026, 1, 10, 12, 0, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        pytest.param("2026-01-10T12:00:00Z", "0s", id="just now"),
        pytest.param("2026-01-10T11:59:15Z", "45s", id="under a minute"),
        pytest.param("2026-01-10T11:56:50Z", "3m10s", id="minutes and seconds"),
        pytest.param("2026-01-10T09:55:00Z", "2h5m", id="hours and minutes"),
        pytest.param("2026-01-06T09:00:00Z", "4d3h", id="days and hours"),
        pytest.param("2026-01-06T12:00:30Z", "3d23h", id="no more than two units"),
        pytest.param("2026-01-10T12:00:05Z", "0s", id="a clock that runs ahead"),
        pytest.param("yesterday", "?", id="not a time"),
    ],
)
def test_an_age_is_short_enough_for_a_column(timestamp: str, shown: str) -> None:
    assert ages.age(timestamp, NOW) == shown


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("0.5s", 0.5)])
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert ages.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "m5", "5m3"])
def test_a_bad_duration_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"write e\.g\. 90s, 5m or 1h30m"):
        ages.seconds(text)
