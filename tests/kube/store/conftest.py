from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from steelyard.kube.store.store import Store

OpenStore: TypeAlias = Callable[..., Awaitable[Store]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def open_store(path: Path) -> AsyncIterator[OpenStore]:
    """Opens the test's store with options; whatever is still open at the end is closed."""
    opened: list[Store] = []

    async def open_(**options: Any) -> Store:
        store = await Store.open(path, **options)
        opened.append(store)
        return store

    yield open_
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
