"""A server in memory for each test: a fresh store, a clock that the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.kube.store.store import Store
from tests.kube.server.bench import Bench


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    yield store
    await store.close()


@pytest.fixture
async def bench(store: Store) -> AsyncIterator[Bench]:
    bench = await Bench.start(store)
    yield bench
    await bench.api.close()
