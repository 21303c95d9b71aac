from __future__ import annotations

import pytest

from steelyard.cli import durations


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("0.5s", 0.5)])
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "m5", "5m3"])
def test_a_bad_duration_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"write e\.g\. 90s, 5m or 1h30m"):
        durations.seconds(text)
