"""One world per test; summaries are written at once, so that tests wait for nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steelyard.kube.runtime import triggers
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import World


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[World]:
    monkeypatch.setattr(triggers, "REPORT_AFTER", 0.01)
    async with worlds.opened(tmp_path) as opened:
        yield opened
