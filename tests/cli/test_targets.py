from __future__ import annotations

import pytest

from steelyard.cli import targets
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.targets import Target


@pytest.mark.parametrize(
    ("words", "target"),
    [
        pytest.param(["dev"], Target("", "dev"), id="a plain name is a claim's"),
        pytest.param(["machine/a"], Target("machine", "a"), id="kind and name with a slash"),
        pytest.param(["cluster", "dev"], Target("cluster", "dev"), id="kind and name apart"),
    ],
)
def test_an_object_can_be_named_in_three_ways(words: list[str], target: Target) -> None:
    assert targets.parse(words) == target


@pytest.mark.parametrize("words", [[], ["a", "b", "c"]])
def test_anything_else_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(CommandError) as caught:
        targets.parse(words)
    assert caught.value.code is Exit.USAGE
