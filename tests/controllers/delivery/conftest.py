from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.controllers.delivery import world as worlds
from tests.controllers.delivery.world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with worlds.opened(tmp_path) as opened:
        yield opened
