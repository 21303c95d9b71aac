"""What the command line prints, as other programs read it."""

from __future__ import annotations

import pytest
import yaml

from steelyard.cli import output


@pytest.mark.parametrize("word", ["y", "N", "yes", "on", "null", "1", "1e3", "", "plain"])
def test_a_text_stays_a_text_in_yaml(word: str) -> None:
    printed = output.as_yaml({"label": word})
    assert yaml.safe_load(printed) == {"label": word}
    is_quoted = printed.count("'") == 2
    assert is_quoted or word == "plain"
