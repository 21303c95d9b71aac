"""The pages and the example that are made from the models."""

from __future__ import annotations

import pytest

from steelyard import settings
from steelyard.settings import Platform
from tools import reference


@pytest.mark.parametrize("name", reference.pages())
def test_generated_file_is_what_the_models_say(name: str) -> None:
    assert (reference.ROOT / name).read_text(encoding="utf-8") == reference.pages()[name](), "run `make reference`"


def test_the_example_platform_file_holds_the_defaults() -> None:
    assert settings.load(reference.ROOT / "examples" / "platform.yaml") == Platform()
