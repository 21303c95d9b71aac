"""One libvirtd for all tests of a process that only use it; those that stop or break it have one of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from tests.providers.kvm import daemons, world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.world import World


@pytest.fixture(scope="session")
def _shared() -> Iterator[Libvirtd]:
    if problem := daemons.missing():
        pytest.skip(problem)
    with Libvirtd() as daemon:
        yield daemon


@pytest.fixture
def daemon(_shared: Libvirtd) -> Iterator[Libvirtd]:
    before = _shared.left()
    yield _shared
    # What a failed test left would fail the others.
    _shared.clear()
    assert _shared.left() == before == []


@pytest.fixture
def own_daemon() -> Iterator[Libvirtd]:
    if problem := daemons.missing():
        pytest.skip(problem)
    with Libvirtd() as daemon:
        yield daemon


@pytest.fixture
async def kvm(daemon: Libvirtd, tmp_path: Path) -> AsyncGenerator[World]:
    world.image(tmp_path)
    async with world.world(daemon, tmp_path) as made:
        yield made


@pytest.fixture
async def untried(daemon: Libvirtd, tmp_path: Path) -> AsyncGenerator[World]:
    """Nobody knows yet how its host runs guests."""
    world.image(tmp_path)
    async with world.world(daemon, tmp_path, is_tried_out=False) as made:
        yield made
