"""A sample of `make crash ARGS=clones`: a masked copy's life, killed at one of its writes, ends as it should."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.clones import Source
from tests.postgresserver import PostgresServer, postgres_server

__all__ = ["postgres_server"]
pytestmark = pytest.mark.crash

_WRITES_AT_LEAST = 110
"""Fewer than a life takes, so that the chosen write exists; `make crash ARGS=clones` takes every one."""


async def test_a_copy_whose_platform_is_killed_at_any_write_is_made_and_made_anew_and_goes_without_leftovers(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    kill_at = 1 + random.randrange(_WRITES_AT_LEAST)
    async with Source(postgres_server, tmp_path).made() as source:
        outcome, kills = await source.interrupted(kill_at)
    assert kills == 1, f"there was no write number {kill_at}"
    assert outcome.left_over == (), f"killed at write {kill_at}"
    name = outcome.copies[0][-1][0].removesuffix("_c1")
    seen = ((200, 200), (0,), (500,), (500,), (501,), (f"{name}_owner",), (20,))
    assert outcome.copies == ((*seen, (f"{name}_c1",)), (*seen, (f"{name}_c2",))), f"killed at write {kill_at}"
