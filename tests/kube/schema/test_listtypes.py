from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from steelyard.kube.schema import listtypes


@pytest.mark.parametrize(
    ("values", "again"),
    [
        pytest.param([1, 1.0, True, "1"], [], id="of-other-types-are-other-values"),
        pytest.param([None, "null", False, 0, "false"], [], id="texts-are-not-what-they-spell"),
        pytest.param([2, 1, 2, 2], [2], id="a-third-is-told-with-the-second"),
        pytest.param([True, True, 1.5, 1.5, None, None], [1, 3, 5], id="every-type"),
        pytest.param([{"a": 1, "b": [2]}, {"b": [2], "a": 1}], [1], id="keys-in-any-order"),
        pytest.param([[1, 2], [2, 1]], [], id="items-in-their-order"),
    ],
)
def test_what_appears_for_the_second_time(values: list[Any], again: list[int]) -> None:
    assert listtypes.repeated(values) == again


@pytest.mark.parametrize("make", [int, float, str], ids=["integers", "floats", "texts"])
def test_many_values_are_compared_in_little_memory(make: type[Any]) -> None:
    values = [make(number) for number in range(50_000)]
    tracemalloc.start()
    try:
        listtypes.repeated(values)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
