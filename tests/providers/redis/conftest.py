"""Which redis-server the servers of a test are, and that none of them outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.providers.redis import processes, program
from steelyard.providers.redis.program import Program

PROGRAMS = {"host": Path("/usr/bin/redis-server"), "wheel": program.from_wheel()}


def found(name: str) -> Program:
    path = PROGRAMS[name]
    if path is None or not path.exists():
        pytest.skip(f"no redis-server from the {name} is here")
    assert path is not None
    return Program(path, program.version_of(path), f"of the {name}")


@pytest.fixture(params=list(PROGRAMS))
def each_program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The test is run with the host's and with the wheel's."""
    chosen = found(str(request.param))
    monkeypatch.setattr(program, "candidates", lambda: [(chosen.path, chosen.origin)])
    return chosen


@pytest.fixture(autouse=True)
def _no_server_stays(tmp_path: Path) -> Iterator[None]:
    yield
    for pids in processes.below(tmp_path).values():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
