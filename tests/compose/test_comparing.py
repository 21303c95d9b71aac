"""What counts as a difference between an observed object and a desired one."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.compose.comparing import covers


@pytest.mark.parametrize(
    ("have", "want", "is_covered"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="another's field"),
        pytest.param({"a": 1}, {"a": 2}, False, id="another value"),
        pytest.param({}, {"a": {"b": 1}}, False, id="missing"),
        pytest.param({"a": None}, {"a": {}}, False, id="null is not an object"),
        pytest.param({"a": True}, {"a": 1}, False, id="true is not one"),
        pytest.param({"a": ["x", "y"]}, {"a": ["x"]}, False, id="a list of values is compared whole"),
        pytest.param({"a": [{"uid": 1}, {"uid": 2, "c": 3}]}, {"a": [{"uid": 2}]}, True, id="another's list entry"),
        pytest.param({"a": [{"uid": 1}]}, {"a": [{"uid": 2}]}, False, id="missing list entry"),
    ],
)
def test_covers(have: Any, want: Any, is_covered: bool) -> None:
    assert covers(have, want) is is_covered
