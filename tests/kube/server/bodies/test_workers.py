"""The processes that read and write what is long: who waits for whom."""

from __future__ import annotations

import asyncio

import pytest

from steelyard.kube.server.bodies import workers
from steelyard.kube.server.bodies.workers import Workers

SMALL = b"a: 1\n"
LARGE = b"a: " + b"x" * (512 * 1024)


class Counted(Workers):
    """Without processes: notes how many jobs there are at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.now: list[int] = []
        self.most = self.most_large = 0
        self.release = asyncio.Event()

    async def _ask(self, worker: object, work: bytes, data: bytes, deadline: float) -> tuple[bytes, bytes]:
        self.now.append(len(data))
        self.most = max(self.most, len(self.now))
        self.most_large = max(self.most_large, self.now.count(len(LARGE)))
        await self.release.wait()
        self.now.remove(len(data))
        return b"[]", b"{}"


async def _turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setattr(workers, "_Worker", object)
    return Counted()


async def test_of_large_jobs_there_is_one_at_a_time(counted: Counted) -> None:
    jobs = [asyncio.ensure_future(counted.read_yaml(LARGE, flow)) for flow in "aabbc"]
    await _turns()
    assert len(counted.now) == 1
    small = asyncio.ensure_future(counted.read_yaml(SMALL, "d"))
    await _turns()
    assert sorted(counted.now) == [len(SMALL), len(LARGE)], "a small one does not wait for them"
    counted.release.set()
    await asyncio.gather(small, *jobs)
    assert (counted.most, counted.most_large) == (2, 1)
