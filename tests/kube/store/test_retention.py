"""History is bounded in bytes, however few revisions make them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steelyard.kube.store import retention
from steelyard.kube.store.errors import Compacted
from steelyard.kube.store.store import Store

MOST, LEFT = 1_000_000, 250_000
SIZE = 10_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MOST_BYTES", MOST)
    monkeypatch.setattr(retention, "LEFT_BYTES", LEFT)


async def churn(store: Store, times: int) -> None:
    for number in range(times):
        await store.put("a/core/configmaps/n/a", lambda _, n=number: b'"%0*d"' % (SIZE, n))


async def settled(store: Store, rows: int) -> None:
    async with asyncio.timeout(60):
        while store._rows > rows:  # noqa: ASYNC110  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.01)


async def test_history_of_large_states_goes_before_it_fills_the_disk(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db", fsync=False)
    try:
        await store.put("b/core/configmaps/n/kept", lambda _: b'"kept"')
        await churn(store, 400)
        await settled(store, MOST // SIZE + 10)
        assert store.revision - store.compacted <= MOST // SIZE + 1
        assert (await store.scan_at("a/", store.revision - 20))[0].revision == store.revision - 20
        with pytest.raises(Compacted):
            await store.scan_at("a/", 5)
        kept = store.get("b/core/configmaps/n/kept")
        assert kept is not None
        assert kept.value == b'"kept"'
    finally:
        await store.close()


async def test_deletions_count_too(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db", fsync=False)
    try:
        for number in range(200):
            key = f"a/core/configmaps/n/{number}"
            await store.put(key, lambda _: b'"%0*d"' % (SIZE, 1))
            await store.delete(key)
        await settled(store, MOST // SIZE + 10)
    finally:
        await store.close()


async def test_history_from_before_a_restart_counts(tmp_path: Path) -> None:
    for _ in range(6):
        store = await Store.open(tmp_path / "s.db", fsync=False)
        try:
            await churn(store, MOST // SIZE // 2)
            await settled(store, 2 * MOST // SIZE)
        finally:
            await store.close()
