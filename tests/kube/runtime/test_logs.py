from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Iterator

import pytest

from steelyard.kube.runtime import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logger = logging.getLogger("steelyard")
    before = (logger.level, logger.propagate)
    handler = logs.set_up(level=logging.DEBUG, stream=stream)
    yield stream
    logger.removeHandler(handler)
    logger.level, logger.propagate = before


def test_line_is_time_level_constant_message_and_fields(stream: io.StringIO) -> None:
    with logs.bind(kind="Machine", name="m-1"):
        logs.get("steelyard.x").warning("reconcile failed", error='no "route"\nat all', empty="", count=3)
    line = stream.getvalue()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING reconcile failed ", line)
    assert line.endswith(' kind=Machine name=m-1 error="no \\"route\\"\\nat all" empty="" count=3\n')


def test_traceback_follows_the_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        logs.get("steelyard.x").exception("failed")
    assert "Traceback" in stream.getvalue()
    assert "ValueError: inner" in stream.getvalue()


async def test_tasks_have_fields_of_their_own(stream: io.StringIO) -> None:
    async def work(name: str) -> None:
        with logs.bind(name=name):
            await asyncio.sleep(0)
            logs.get("steelyard.x").info("working")

    with logs.bind(outer="o"):
        await asyncio.gather(work("a"), work("b"))
    lines = [line.split("working ")[1] for line in stream.getvalue().splitlines()]
    assert lines == ["outer=o name=a", "outer=o name=b"]
