from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stages.opened(tmp_path) as opened:
        yield opened
