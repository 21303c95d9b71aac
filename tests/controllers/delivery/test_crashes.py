"""The controllers end at any write of theirs, on the platform or in the cluster, and go on where they were."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.controllers.delivery.world import Wire, World, secret, to


async def ended_at(world: World, wires: list[Wire], when: str, number: int, act: Callable[[], Awaitable[None]]) -> None:
    """Does something, and ends the controllers before or after their write of that number; then starts them anew."""
    left, ended = number, asyncio.Event()

    async def count(what: str) -> None:
        nonlocal left
        if what.partition(" ")[0] not in ("apply", "create", "delete", "patch", "update"):
            return
        left -= 1
        if left < 0:
            ended.set()
            await asyncio.Event().wait()

    for wire in wires:
        setattr(wire, when, count)
    await act()
    quiet = asyncio.ensure_future(world.settle())
    await asyncio.wait((quiet, waiting := asyncio.ensure_future(ended.wait())), return_when=asyncio.FIRST_COMPLETED)
    for task in (quiet, waiting):
        task.cancel()
    await world.crash()
    for wire in wires:
        setattr(wire, when, None)
    await world.start()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(0, 12, 2))
async def test_whatever_write_it_ends_at_the_end_is_the_same(world: World, when: str, number: int) -> None:
    shop = await world.cluster()
    wires = [world.wire, shop]
    await ended_at(world, wires, when, number, lambda: world.parcel(to()))
    await world.is_delivered()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    await ended_at(world, wires, when, number // 2, lambda: world.change(text="honey"))
    await world.is_delivered()
    assert await secret(shop) == {"text": "honey", "TEXT": "honey"}
    await ended_at(world, wires, when, number // 2, world.delete)
    await world.is_gone()
    assert await secret(shop) is None
    assert await world.deliveries() == []
    assert await world.sources() == []


async def test_a_start_writes_nothing_where_all_is_as_it_was(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    await world.crash()
    world.wire.calls.clear()
    shop.calls.clear()
    await world.start()
    await world.look_again()
    assert world.wire.writes == []
    assert shop.writes == []
