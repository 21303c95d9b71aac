"""One server of many may hold so much and no more; whoever has reached that can help themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES
from steelyard.kube.store.store import Store
from tests.kube.server.bench import Bench, make

LIMIT = 1_000_000


@pytest.fixture
async def limited(store: Store) -> AsyncIterator[Bench]:
    bench = await Bench.start(store, space="tenant", quota=LIMIT)
    yield bench
    await bench.api.close()


def config_map(name: str, size: int, **metadata: object) -> Object:
    made = make(CONFIG_MAPS, name)
    made.pop("spec", None)
    made["metadata"] |= metadata
    made["data"] = {"k": "x" * size}
    return made


async def fill(bench: Bench) -> int:
    """How many objects of 100 kB there was room for."""
    for number in range(20):
        try:
            await bench.create(CONFIG_MAPS, config_map(f"c{number}", 100_000))
        except errors.Forbidden:
            return number
    raise AssertionError("there is no limit")


async def test_more_than_the_limit_is_refused_with_what_to_do(limited: Bench) -> None:
    assert 8 <= await fill(limited) <= 9
    with pytest.raises(errors.Forbidden, match=r'configmaps "more" is forbidden: exceeded quota: .* of the 1 MB'):
        await limited.create(CONFIG_MAPS, config_map("more", 200_000))
    with pytest.raises(errors.Forbidden, match="delete what is not needed, which is always possible"):
        await limited.patch(CONFIG_MAPS, "c0", {"data": {"more": "y" * 200_000}})


async def test_other_servers_of_the_store_do_not_notice(limited: Bench, store: Store) -> None:
    await fill(limited)
    other = await Bench.start(store, space="other", quota=LIMIT)
    try:
        await other.create(CONFIG_MAPS, config_map("a", 200_000))
    finally:
        await other.api.close()


async def test_deleting_and_shrinking_are_always_possible(limited: Bench) -> None:
    await limited.create(CONFIG_MAPS, config_map("held", 10, finalizers=["example.com/hold"]))
    await fill(limited)
    await limited.patch(CONFIG_MAPS, "c0", {"data": {"k": "small"}})
    await limited.create(CONFIG_MAPS, config_map("fits", 95_000))
    await limited.delete(CONFIG_MAPS, "held")
    await limited.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, fieldManager="someone-else")
    await limited.call("deletecollection", CONFIG_MAPS)
    assert await limited.names(CONFIG_MAPS) == []
    assert await fill(limited) >= 8


async def test_object_that_is_being_deleted_is_no_way_around_the_limit(limited: Bench) -> None:
    for number in range(50):
        await limited.create(CONFIG_MAPS, config_map(f"d{number}", 10, finalizers=["example.com/hold"]))
        await limited.delete(CONFIG_MAPS, f"d{number}")
    grown = await asyncio.gather(
        *(limited.patch(CONFIG_MAPS, f"d{n}", {"data": {"k": "x" * 50_000}}) for n in range(50)),
        return_exceptions=True,
    )
    assert sum(not isinstance(each, Exception) for each in grown) <= 21


async def test_many_writes_at_once_pass_no_more_than_fits(limited: Bench, store: Store) -> None:
    made = await asyncio.gather(
        *(limited.create(CONFIG_MAPS, config_map(f"c{n}", 100_000)) for n in range(50)), return_exceptions=True
    )
    assert 8 <= sum(not isinstance(each, Exception) for each in made) <= 9
    assert store.used("tenant") <= LIMIT


async def test_count_is_right_after_a_restart(limited: Bench, store: Store) -> None:
    room = await fill(limited)
    await limited.api.close()
    again = await Bench.start(store, space="tenant", define=False, quota=LIMIT)
    try:
        with pytest.raises(errors.Forbidden):
            await again.create(CONFIG_MAPS, config_map(f"c{room}", 100_000))
    finally:
        await again.api.close()
    assert store.used("tenant") == sum(len(record.value) for record in store.scan("tenant/"))


async def test_server_itself_goes_on_when_it_is_full(limited: Bench) -> None:
    await limited.create(NAMESPACES, make(NAMESPACES, "going"), namespace="")
    await limited.create(CONFIG_MAPS, config_map("a", 10), namespace="going")
    await fill(limited)
    await limited.delete(NAMESPACES, "going", namespace="")
    async with asyncio.timeout(60):
        while "going" in await limited.names(NAMESPACES, namespace=""):  # noqa: ASYNC110 (seen from outside)
            await asyncio.sleep(0.02)
