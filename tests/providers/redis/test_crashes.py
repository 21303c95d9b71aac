"""A platform that is killed in the middle of a cache's life; `tests.providers.redis.crashes` as a program tries each
write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.providers.redis.crashes import Life


@pytest.mark.crash
@pytest.mark.parametrize("kill_at", [9, 22], ids=["while it is made", "while its password is changed"])
async def test_a_cache_has_the_same_end_wherever_its_platform_was_killed(tmp_path: Path, kill_at: int) -> None:
    life = Life(tmp_path, kill_at)
    assert await life.live() == []
    assert life.kills == 1
