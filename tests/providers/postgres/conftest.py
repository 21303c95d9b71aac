"""Where the wheel's PostgreSQL is asked for, the provider finds no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.providers.postgres.embedded import programs
from tests import postgresserver


@pytest.fixture(autouse=True)
def only_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    if postgresserver.IS_WHEEL_WANTED:
        monkeypatch.setattr(programs, "_PACKAGES", Path("/nonexistent"))
