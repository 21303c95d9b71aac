"""A sample of `make soak ARGS=disk`: twice full, and free again; killed and ended while full."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.soak import disk


async def test_a_full_disk_is_told_and_survived(tmp_path: Path) -> None:
    try:
        figures = await asyncio.to_thread(disk.run, tmp_path, random.randrange(1_000_000), 2)
    except disk.Impossible as reason:
        pytest.skip(str(reason))
    assert figures.startswith("2 times full:")
