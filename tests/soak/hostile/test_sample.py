"""A sample of `make soak ARGS=hostile`: some attacks of each class, with limits that hold on a busy machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from tests.soak.hostile import catalogue, report, servers
from tests.soak.hostile.attack import Aim, Value
from tests.soak.hostile.campaign import Campaign
from tests.soak.hostile.field import Field

SECONDS: Final = 0.5
STALL_SECONDS: Final = 5.0
MEMORY_FACTOR: Final = 3.0
CROWD: Final = 500
SAMPLE: Final[tuple[dict[str, dict[str, Value]], ...]] = (
    {"1 MB of header lines": {}, "yaml list": {}},
    {"label selector of 8,000 over 5,000": {"terms": 30_000}, "regular expression in a schema": {"letters": 40}},
    {"yaml merge keys": {}, "webhook that never answers": {}},
    {"json, many values and a bad end": {}, "silent connections": {}},
    {"chunks of one byte": {}, "1,000 watchers that do not read": {"watchers": 60}},
    {"4,000 absent owners": {}, "unfinished bodies": {"connections": 201}},
)
"""Two at a time, of different sorts."""


@contextlib.asynccontextmanager
async def _serve(folder: Path, *, descriptors: int) -> AsyncGenerator[Field]:
    async with servers.ours(folder, descriptors=descriptors, crowd=CROWD) as field:
        yield field


async def test_nobody_else_suffers_from_an_attack(tmp_path: Path) -> None:
    campaign = Campaign(
        "ours", tmp_path, _serve, baseline_seconds=1.0, patience=3 * STALL_SECONDS, is_always_narrow=True
    )
    async with campaign:
        for attacks in SAMPLE:
            known = (Aim.of(catalogue.BY_NAME[name], **values) for name, values in attacks.items())
            result = await campaign.strike(Aim(tuple(each for aim in known for each in aim.attacks)), SECONDS)
            assert not result.state, report.row(result)
            assert result.span.stall < STALL_SECONDS, report.row(result)
    for before, span in campaign.figures.lives:
        assert span.peak < MEMORY_FACTOR * before, report.summary(campaign.figures)
        assert span.wrong == []
