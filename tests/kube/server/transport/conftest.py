"""A server that is reached over TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.kube.server.serving import Site, served


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    async with served(api) as site:
        yield site
    await api.close()
    await store.close()
