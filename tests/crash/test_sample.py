"""A sample of `make crash`: a cluster's life, killed at a few of its writes, ends as an undisturbed one does."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import pytest_asyncio

from tests.crash.lives import interrupted, undisturbed
from tests.crash.scenario import Outcome

pytestmark = pytest.mark.crash

_WRITES_AT_LEAST = 350
"""Fewer than a life takes, so that each chosen write exists; `make crash` counts them and takes every one."""
_PARTS = 5


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reference(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return await undisturbed(tmp_path_factory.mktemp("reference"))


@pytest.mark.parametrize("part", range(_PARTS), ids=["created", "booting", "scaled up", "scaled back", "deleted"])
async def test_a_life_killed_at_any_write_ends_like_an_undisturbed_one(
    tmp_path: Path, part: int, reference: Outcome
) -> None:
    width = _WRITES_AT_LEAST // _PARTS
    kill_at = 1 + part * width + random.randrange(width)
    assert reference.left_over == ()
    outcome, kills = await interrupted(tmp_path / "killed", kill_at)
    assert kills == 1, f"there was no write number {kill_at}"
    assert outcome == reference, f"killed at write {kill_at}"
